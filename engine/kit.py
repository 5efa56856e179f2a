"""What a running job is worked on with, and what is known of it while it runs."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from engine.config import EngineConfig
from engine.core.context import ContextManager
from engine.core.errors import EngineError
from engine.core.jobs import Counters, Job, TurnState, Usage
from engine.core.outcome import SettlementTable
from engine.core.piece import Movement, Piece
from engine.core.prompting import Texts, WorkspaceFacts
from engine.core.records import Event, Lease, Message, StepResult
from engine.core.reply import ToolCall
from engine.core.tooling import FileChange, ToolSpec
from engine.ports import Clock, Commands, Db, Documents, Live, Model, RunStore

log = logging.getLogger("engine")


def traced(error: BaseException) -> str:
    """An error with its traceback, for the log and only after it was redacted."""
    return "".join(traceback.format_exception(error))


@dataclass(frozen=True, slots=True)
class Kit:
    """The adapters and choices of one engine, handed in by ``service``. Runners know only this.

    ``toolset(piece)`` gives the tools of a piece in their stable order; ``prompts(language)`` the prompts;
    ``facts(job)`` reads the listing;
    ``new_id(prefix)`` makes ids; ``local_time(posix)`` is the aware local time; ``redact`` masks secrets in
    outside text, ``mask`` only the configured ones (for what a person must see as it is);
    ``settle_file(task id, path, call id)`` removes what a cut-off write left beside a file and gives the hash
    of the file now, ``file_before(task id, path)`` the file as it is now;
    ``running_commands()`` are the jobs that have commands running in this process.
    """

    config: EngineConfig
    workspace: Path
    trusted: bool
    table: SettlementTable
    store: RunStore
    db: Db
    model: Callable[[Job], Model]
    toolset: Callable[[Piece], tuple[ToolSpec, ...]]
    end_processes: Callable[[str], Awaitable[None]]
    documents: Documents
    commands: Commands
    clock: Clock
    live: Live
    prompts: Callable[[str], Texts]
    messages: Callable[[str], Texts]
    facts: Callable[[Job], WorkspaceFacts]
    task_dir: Callable[[str], Path]
    local_time: Callable[[float], datetime]
    new_id: Callable[[str], str]
    redact: Callable[[str], str]
    mask: Callable[[str], str]
    explain: Callable[[EngineError, str], str]
    settle_file: Callable[[str, str, str], str | None]
    file_before: Callable[[str, str], FileChange | None]
    running_commands: Callable[[], Collection[str]]


@dataclass(slots=True)
class JobRun:
    """The mutable state of one run of a job. Every change of it is journalled in the same step."""

    kit: Kit
    job: Job
    lease: Lease
    piece: Piece
    tools: tuple[ToolSpec, ...]
    texts: Texts
    counters: Counters
    usage: Usage
    turn: TurnState
    movement: str
    movement_seq: int
    conversation: int
    context: ContextManager
    messages: list[Message] = field(default_factory=list)
    read_marks: dict[str, str] = field(default_factory=dict)
    kept_marks: dict[str, str] = field(default_factory=dict)
    first_request: bool = True
    first_call: bool = False
    first_reuse: float | None = None
    fresh: dict[str, ToolCall] = field(default_factory=dict)
    enriched: str = ""
    time_note: str = ""

    @property
    def here(self) -> Movement:
        """The current movement."""
        return self.piece.movement(self.movement)

    def now(self) -> float:
        """POSIX seconds by the kit's clock."""
        return self.kit.clock.now()

    async def append(
        self, messages: Sequence[Message], *, events: Sequence[Event] = (), delivered: Sequence[str] = ()
    ) -> None:
        """Journal messages with the counters that belong to them, then hold them."""
        await self.kit.db(
            self.kit.store.append,
            self.lease,
            self.now(),
            self.conversation,
            messages,
            turn=self.turn,
            usage=self.usage,
            counters=self.counters,
            events=events,
            delivered=delivered,
            first_reuse=None if self.first_reuse is None else (self.movement_seq, self.first_reuse),
        )
        self.first_reuse = None
        self.messages += messages

    async def finish(self, results: Sequence[StepResult], events: Sequence[Event]) -> None:
        """Journal the results of calls, in call order, with what they taught the model of files, then hold
        their messages.
        """
        read = {path: known for path, known in self.read_marks.items() if self.kept_marks.get(path) != known}
        await self.kit.db(
            self.kit.store.finish_steps,
            self.lease,
            self.now(),
            self.conversation,
            results,
            turn=self.turn,
            usage=self.usage,
            counters=self.counters,
            events=events,
            read=read,
        )
        self.kept_marks |= read
        self.messages += [result.message for result in results]

    def live(self, kind: str, **body: object) -> None:
        """Show something that streams."""
        self.kit.live(self.job.job_id, kind, body)
