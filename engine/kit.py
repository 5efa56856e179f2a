"""What a running job is worked on with, and what is known of it while it runs."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from engine.config import EngineConfig, ModelSeat
from engine.core.context import ContextManager, Sizes
from engine.core.errors import EngineError
from engine.core.grants import NO_GRANTS, Grants
from engine.core.jobs import Counters, Job, TurnState, Usage
from engine.core.outcome import SettlementTable
from engine.core.piece import Movement, Piece
from engine.core.prefix import Sent, broken_at
from engine.core.prompting import Texts, WorkspaceFacts
from engine.core.records import Event, Lease, Message, StepResult
from engine.core.tooling import FileChange, ToolSpec
from engine.ports import (
    Checkpoints,
    Clock,
    Commands,
    Db,
    Documents,
    Live,
    Model,
    Pieces,
    Surroundings,
    Tasks,
    Tokens,
    Workers,
)
from engine.run_store import RunStore

log = logging.getLogger("engine")


def traced(error: BaseException) -> str:
    """An error with its traceback, for the log and only after it was redacted."""
    return "".join(traceback.format_exception(error))


@dataclass(frozen=True, slots=True)
class Kit:
    """The adapters and choices of one engine, handed in by ``service``. Runners know only this.

    ``model(job)`` is the connection to the model of a job, ``seat(job)`` says which worker that is,
    ``classifier(job)`` who chooses its piece (and the model to name there), ``workers`` who has room; the
    first three raise ``NotConfigured`` for a job that no worker can take.
    ``toolset(piece, granted)`` gives the tools of a piece and those granted to it, in their stable order;
    ``tool_names()`` the names of all tools that could be granted; ``tasks`` makes tasks;
    ``prompts(language)`` the prompts;
    ``facts(job)`` reads the listing;
    ``new_id(prefix)`` makes ids; ``local_time(posix)`` is the aware local time; ``redact`` masks secrets in
    outside text, ``mask`` only the configured ones (for what a person must see as it is);
    ``settle_file(task id, path, call id)`` removes what a cut-off write left beside a file and gives the hash
    of the file now, ``file_before(task id, path)`` the file as it is now and the folders that it
    lacks, empty if it cannot be read; ``checkpoints`` note what commands change;
    ``pieces`` are those of the workspace; ``around`` reads what else belongs to it;
    ``running_commands()`` are the jobs that have commands running in this process; ``count_tokens`` is asked
    where a server reports no usage.
    """

    config: EngineConfig
    workspace: Path
    trusted: bool
    table: SettlementTable
    store: RunStore
    db: Db
    model: Callable[[Job], Model]
    seat: Callable[[Job], ModelSeat]
    classifier: Callable[[Job], tuple[Model, str | None]]
    workers: Workers
    toolset: Callable[[Piece, frozenset[str]], tuple[ToolSpec, ...]]
    tool_names: Callable[[], tuple[str, ...]]
    tasks: Tasks
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
    file_before: Callable[[str, str], list[FileChange]]
    checkpoints: Checkpoints
    pieces: Pieces
    around: Surroundings
    running_commands: Callable[[], Collection[str]]
    count_tokens: Tokens


@dataclass(slots=True)
class JobRun:
    """The mutable state of one run of a job. Every change of it is journalled in the same step.

    ``sizes`` are our estimates of the messages, ``scale`` what the model's tokens are over them; ``counts``
    are a tokenizer's, and ``sample`` the last prompt of known size to scale them by: its conversation, the
    number of its messages, its tokens. ``sent`` is the last request that was answered, ``cache_break`` the
    byte in which the one after it broke the cache law. ``began`` is when this run did, ``worked_s`` what the
    runs before it took.
    """

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
    call_ids: set[str] = field(default_factory=set)
    sizes: Sizes = field(default_factory=Sizes)
    counts: Sizes = field(default_factory=Sizes)
    scale: float = 1.0
    sample: tuple[list[Message], int, int] | None = None
    enriched: str = ""
    time_note: str = ""
    sent: Sent | None = None
    cache_break: int | None = None
    grants: Grants = NO_GRANTS
    began: float = 0.0
    worked_s: float = 0.0

    @property
    def here(self) -> Movement:
        """The current movement."""
        return self.piece.movement(self.movement)

    @property
    def granted(self) -> frozenset[str]:
        """The tools that RequestTool got for the current movement."""
        return self.grants.within(self.movement)

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
        self._hold(messages)

    async def rewrite(self, bodies: Mapping[int, bytes], events: Sequence[Event]) -> None:
        """Journal other bytes in the place of messages that the server refused, then hold them."""
        await self.kit.db(
            self.kit.store.replace_messages,
            self.lease,
            self.now(),
            self.conversation,
            bodies,
            turn=self.turn,
            usage=self.usage,
            counters=self.counters,
            events=events,
        )
        for place, body in bodies.items():
            self.messages[place] = replace(self.messages[place], body=body)
            self.sizes.forget(place)
            self.counts.forget(place)

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
        self._hold([result.message for result in results])

    def _hold(self, messages: Sequence[Message]) -> None:
        self.messages += messages
        self.call_ids.update(message.call_id for message in messages if message.call_id is not None)

    def answered(self, bodies: Sequence[bytes]) -> None:
        """Note a request that the server took, and whether it kept the cache law towards the one before."""
        now = Sent(self.conversation, self.job.tools, bodies, self.enriched)
        self.cache_break = None if self.sent is None else broken_at(self.sent, now)
        self.sent = now

    def live(self, kind: str, **body: object) -> None:
        """Show something that streams."""
        self.kit.live(self.job.job_id, kind, body)
