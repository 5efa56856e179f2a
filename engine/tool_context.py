"""What a tool is given: a narrow view of the running job."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engine.core.checklist import Checklist, Item
from engine.core.family import Child, Spawned, SpawnOrder
from engine.core.hops import AskVerdict, ask_policy, process_transition_calls
from engine.core.records import canonical
from engine.core.tooling import Decision
from engine.kit import JobRun
from engine.ports import ToolContext
from engine.pressure import result_budget
from engine.toolbox import permitted_names


def tool_context(run: JobRun, call_id: str, sharing: int = 1) -> ToolContext:
    """The context of one call. ``ask`` counts: it is called by the tool that asks the person. ``sharing``
    calls run at once.
    """
    kit = run.kit

    async def update_brief(fields: dict[str, str]) -> str:
        clean = {name: kit.redact(text) for name, text in fields.items()}
        return canonical(await kit.db(kit.store.set_brief_fields, run.lease, run.now(), clean))

    async def open_children() -> int:
        return await kit.db(kit.store.count_open_children, run.job.job_id)

    async def unheard() -> bool:
        return bool(await kit.db(kit.store.undelivered, run.job.task_id))

    def ask() -> AskVerdict:
        verdict, run.counters = ask_policy(run.counters, kit.config.safety)
        return verdict

    return ToolContext(
        job_id=run.job.job_id,
        task_id=run.job.task_id,
        call_id=call_id,
        workspace=kit.workspace,
        task_dir=kit.task_dir(run.job.task_id),
        language=run.texts.language,
        movement=run.movement,
        edit=run.here.edit,
        targets=tuple(rule.next for rule in run.here.rules),
        budget=result_budget(run, sharing),
        timeout_s=kit.config.safety.bash_timeout_s,
        documents=kit.documents,
        commands=kit.commands,
        read_marks=run.read_marks,
        network=False,
        emit=lambda delta: run.live("tool_output", callId=call_id, delta=kit.redact(delta)),
        decided=partial(_decided, run),
        update_brief=update_brief,
        texts=run.texts,
        hop=lambda step, summary, lessons: process_transition_calls(
            run.here, step, summary, lessons, kit.table, run.texts
        ),
        ask=ask,
        open_children=open_children,
        unheard=unheard,
        family=JobFamily(run),
        lists=JobLists(run),
        pieces=kit.pieces,
        known_tools=kit.tool_names(),
        permitted_tools=frozenset(permitted_names(run.tools, run.here, run.granted)),
        mode=partial(_mode, run),
    )


async def _decided(run: JobRun, key: str) -> Decision | None:
    """The newest settled request under a key, with what became of it if it was used."""
    kit, job_id = run.kit, run.job.job_id
    row = await kit.db(kit.store.decided, job_id, key)
    if row is None or row.decision is None:
        return None
    spent = await kit.db(kit.store.step_of_request, job_id, row.request_id) if row.used else None
    return Decision(
        key=key,
        decision=row.decision,
        scope=row.scope or "once",
        text=row.text,
        note=row.note,
        request_id=row.request_id,
        movement=row.movement,
        arguments=row.arguments,
        used=row.used,
        succeeded=spent is not None and spent.done and spent.ok,
        outcome=spent.brief if spent is not None and spent.done else "",
        made=row.made,
    )


async def _mode(run: JobRun) -> str:
    said, _ = await run.kit.db(run.kit.store.stance, run.job.job_id, run.job.task_id)
    return said


@dataclass(frozen=True, slots=True)
class JobLists:
    """The checklists of a running job's task."""

    run: JobRun

    async def all(self) -> dict[str, Checklist]:
        """Every list by its name, in the order they were made."""
        return await self.run.kit.db(self.run.kit.store.checklists, self.run.job.task_id)

    async def keep(self, name: str, items: Checklist) -> Checklist:
        """Store one list; what was stored, without secrets."""
        kit = self.run.kit
        clean = tuple(Item(kit.redact(item.text), item.done) for item in items)
        await kit.db(kit.store.set_checklist, self.run.lease, self.run.now(), name, clean)
        return clean


@dataclass(frozen=True, slots=True)
class JobFamily:
    """The tasks that a running job makes, and its children."""

    run: JobRun

    async def child(self, order: SpawnOrder) -> Spawned:
        """A subtask; the existing one if it was made before."""
        return await self.run.kit.tasks.child(self.run.job, self.run.lease, order)

    async def beside(self, order: SpawnOrder) -> Spawned:
        """A task of its own in this workspace; the existing one if it was made before."""
        return await self.run.kit.tasks.beside(self.run.job, self.run.lease, order)

    async def check_elsewhere(self, target: Path, piece: str | None) -> None:
        """Raise what would keep a task from being made in another workspace."""
        await self.run.kit.tasks.check_elsewhere(target, piece)

    async def elsewhere(self, request_id: str, target: Path, order: SpawnOrder) -> Spawned:
        """A task in another workspace, which spends the request that allowed it."""
        kit = self.run.kit
        made = await kit.tasks.elsewhere(self.run.job, request_id, target, order)
        await kit.db(kit.store.record_made, self.run.lease, request_id, made.task_id, self.run.now())
        return made

    async def children(self) -> list[Child]:
        """The job's children, oldest first."""
        return await self.run.kit.db(self.run.kit.store.children, self.run.job.job_id)
