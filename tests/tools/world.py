"""A workspace on disk with everything a tool is handed, for the tests of the tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from engine.core.tooling import Decision, Outcome, Prepared, ToolResult, ToolSpec
from engine.ports import Buffer, ToolContext
from engine.sandbox.none import NoSandbox


class Buffers:
    """Open editor documents, as a front would hold them."""

    def __init__(self) -> None:
        self.open: dict[Path, Buffer] = {}

    async def read(self, path: Path) -> Buffer | None:
        return self.open.get(path)

    async def dirty(self) -> Sequence[Path]:
        return [path for path, buffer in self.open.items() if buffer.dirty]


async def _undecided(key: str) -> Decision | None:
    return None


async def _brief(fields: dict[str, str]) -> str:
    return ""


@dataclass
class World:
    """``root`` is the workspace; ``call`` prepares and runs a tool in it as the engine does."""

    root: Path
    budget: int = 10_000
    timeout_s: float = 20.0
    documents: Buffers = field(default_factory=Buffers)
    marks: dict[str, str] = field(default_factory=dict)
    emitted: list[str] = field(default_factory=list)
    job: str = "job-1"
    calls: int = 0

    def __post_init__(self) -> None:
        for part in ("input", "output", "logs"):
            (self.task / part).mkdir(parents=True, exist_ok=True)

    @property
    def task(self) -> Path:
        return self.root / ".maestro" / "tasks" / "task-1"

    def context(self) -> ToolContext:
        self.calls += 1
        return ToolContext(
            job_id=self.job,
            task_id="task-1",
            call_id=f"call-{self.calls}",
            workspace=self.root,
            task_dir=self.task,
            language="en",
            movement="work",
            edit=True,
            targets=(),
            budget=self.budget,
            timeout_s=self.timeout_s,
            documents=self.documents,
            commands=NoSandbox.for_machine(),
            read_marks=self.marks,
            network=False,
            emit=self.emitted.append,
            decided=_undecided,
            update_brief=_brief,
        )

    async def prepare(self, spec: ToolSpec, **arguments: object) -> Prepared | Outcome:
        return await spec.prepare(self.context(), msgspec.convert(arguments, spec.arguments))

    async def call(self, spec: ToolSpec, **arguments: object) -> ToolResult:
        context, args = self.context(), msgspec.convert(arguments, spec.arguments)
        prepared = await spec.prepare(context, args)
        result = await spec.run(context, args, prepared) if isinstance(prepared, Prepared) else prepared
        assert isinstance(result, ToolResult)
        return result

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def open(self, name: str, text: str, *, dirty: bool = True) -> None:
        self.documents.open[self.root / name] = Buffer(text, 2, dirty)
