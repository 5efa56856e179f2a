"""What the runners need from outside, as Protocols. ``service`` hands the adapters in; runners import only
this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from engine.core.hops import AskVerdict
from engine.core.jobs import Counters, Job, JobStatus, Owner, TurnState, Usage
from engine.core.outcome import PieceRunResult
from engine.core.prompting import Texts
from engine.core.records import (
    Comment,
    Event,
    Intent,
    Lease,
    Leaving,
    Message,
    NewRequest,
    Running,
    SettledRequest,
    Step,
    StepResult,
)
from engine.core.reply import Delta, Reply
from engine.core.tooling import Decision, FileChange, Signal, ToolResult

P = ParamSpec("P")
T = TypeVar("T")


class Db(Protocol):
    """Runs a store call on the store's own thread, so that no lock or disk ever holds an event loop."""

    async def __call__(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await ``call(*args)``; its exceptions come through. Not cancellable half-way: a started call always
        ends.
        """
        ...


class Clock(Protocol):
    """Time as the engine sees it; tests hand in their own."""

    def now(self) -> float:
        """POSIX seconds."""
        ...


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call. ``messages`` and ``tools`` are the encoded bytes, sent as they are. ``tool_choice`` is
    None or ``required``.
    """

    messages: Sequence[bytes]
    tools: bytes
    model: str | None = None
    tool_choice: str | None = None
    first_of_run: bool = False


class Model(Protocol):
    """A model server."""

    async def reply(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> Reply:
        """Stream one reply. Raises ``ModelFault`` (``retryable`` set) or ``ContextOverflow`` after its own
        retries.
        """
        ...

    async def context_limit(self) -> int | None:
        """The model's context limit in tokens, asked from the server once; None if it does not say."""
        ...

    async def slots(self) -> int | None:
        """How many requests the server works on at once, if it says."""
        ...


@dataclass(frozen=True, slots=True)
class Buffer:
    """An open editor document: its text, and whether it differs from what is on disk."""

    text: str
    version: int | None
    dirty: bool


class Documents(Protocol):
    """The editor's open buffers, asked from the front. Without an editor there are none."""

    async def read(self, path: Path) -> Buffer | None:
        """The open buffer of an absolute path, or None."""
        ...

    async def dirty(self) -> Sequence[Path]:
        """Absolute paths of buffers with unsaved changes."""
        ...


class Commands(Protocol):
    """Starts a command for the Bash tool, inside whatever sandbox this machine offers."""

    level: str
    """``A``, ``B`` or ``C`` of ``policy.yaml``."""

    def argv(self, command: str, *, cwd: Path, workspace: Path, writable: bool, network: bool) -> list[str]:
        """The argument vector that runs ``command``."""
        ...

    def env(self, extra: dict[str, str]) -> dict[str, str]:
        """The scrubbed environment for it."""
        ...


class RunStore(Protocol):
    """What the runners use of the store. Synchronous: call it through ``Db``. Every write raises
    ``LeaseLost`` once the lease is gone.
    """

    def claim(self, owner: Owner, now: float, lease_s: float, only: str | None = None) -> Job | None: ...
    def heartbeat(self, lease: Lease, now: float, lease_s: float) -> bool: ...
    def cancel_wanted(self, owner: Owner) -> list[str]: ...
    def running(self) -> list[Running]: ...
    def requeue_orphan(self, orphan: Running, now: float) -> None: ...
    def park_orphan(self, orphan: Running, request: NewRequest, now: float) -> None: ...
    def given_back(self, before: float) -> list[Lease]: ...
    def park_given_back(self, left: Lease, request: NewRequest, before: float, now: float) -> None: ...
    def requeue(self, lease: Lease, now: float) -> None: ...
    def ended_among(self, job_ids: Sequence[str]) -> list[str]: ...
    def data_version(self) -> int: ...
    def counts(self) -> dict[str, int]: ...
    def prepare_job(
        self,
        lease: Lease,
        now: float,
        *,
        piece_name: str,
        piece: bytes,
        piece_hash: str,
        movement: str,
        tools: bytes,
        system: str,
    ) -> None: ...
    def set_enriched(self, lease: Lease, enriched: str, delivered: Sequence[str], now: float) -> None: ...
    def enriched(self, job_id: str) -> str: ...
    def begin_movement(
        self,
        lease: Lease,
        now: float,
        *,
        name: str,
        visit: int,
        movement_seq: int,
        conversation: int,
        forced: bool,
        counters: Counters,
        messages: Sequence[Message],
    ) -> None: ...
    def end_movement(self, lease: Lease, now: float, leaving: Leaving, counters: Counters) -> None: ...
    def messages(self, job_id: str, conversation: int) -> list[Message]: ...
    def append(
        self,
        lease: Lease,
        now: float,
        conversation: int,
        messages: Sequence[Message],
        *,
        turn: TurnState,
        usage: Usage,
        counters: Counters,
        events: Sequence[Event] = (),
        delivered: Iterable[str] = (),
        first_reuse: tuple[int, float] | None = None,
    ) -> None: ...
    def begin_step(
        self,
        lease: Lease,
        intent: Intent,
        now: float,
        events: Sequence[Event] = (),
        before: Sequence[FileChange] = (),
    ) -> None: ...
    def finish_steps(
        self,
        lease: Lease,
        now: float,
        conversation: int,
        results: Sequence[StepResult],
        *,
        turn: TurnState,
        usage: Usage,
        counters: Counters,
        events: Sequence[Event] = (),
        read: Mapping[str, str] | None = None,
    ) -> None: ...
    def read_marks(self, job_id: str, conversation: int) -> dict[str, str]: ...
    def step(self, job_id: str, call_id: str) -> Step | None: ...
    def steps_of_visit(self, job_id: str, name: str, visit: int) -> list[Step]: ...
    def settle(
        self,
        lease: Lease,
        end: PieceRunResult,
        now: float,
        *,
        counters: Counters,
        restores: bool = False,
        request: NewRequest | None = None,
        comment: tuple[str, str] | None = None,
        leaving: Leaving | None = None,
        events: Sequence[Event] = (),
    ) -> JobStatus: ...
    def approval_of_call(self, job_id: str, call_id: str) -> SettledRequest | None: ...
    def decided(self, job_id: str, key: str) -> SettledRequest | None: ...
    def requests_of_job(self, job_id: str) -> list[SettledRequest]: ...
    def stance(self, job_id: str, task_id: str) -> tuple[str, list[tuple[str, str, str]]]: ...
    def undelivered(self, task_id: str) -> list[Comment]: ...
    def last_comments(self, task_id: str, limit: int = 5) -> list[Comment]: ...
    def lessons(self, task_id: str) -> list[tuple[str, str]]: ...
    def children_lines(self, job_id: str) -> list[str]: ...
    def count_open_children(self, job_id: str) -> int: ...
    def brief_fields(self, task_id: str) -> dict[str, str]: ...
    def set_brief_fields(self, lease: Lease, now: float, fields: dict[str, str]) -> dict[str, str]: ...
    def last_activity(self, job_id: str, before_run: int) -> float | None: ...


class Live(Protocol):
    """Events that are shown while they happen and never stored: text, reasoning and output as they stream."""

    def __call__(self, job_id: str, kind: str, body: dict[str, object]) -> None:
        """Hand an event on. Must not block or raise."""
        ...


@dataclass(slots=True)
class ToolContext:
    """What a tool may see and use. Narrow on purpose: it is not the engine.

    ``budget`` is the largest result in tokens. ``task_dir`` is the task's folder (``input``, ``output``,
    ``logs``), absolute. ``read_marks``
    maps absolute paths to the hash of what the model last saw of them in this conversation. ``emit`` sends
    live output; ``decided`` looks up a
    settled request by key. ``hop``, ``ask``, ``open_children`` and ``unheard`` (has the person said something
    that no message carries yet?) serve the control tools.
    """

    job_id: str
    task_id: str
    call_id: str
    workspace: Path
    task_dir: Path
    language: str
    movement: str
    edit: bool
    targets: tuple[str, ...]
    budget: int
    timeout_s: float
    documents: Documents
    commands: Commands
    read_marks: dict[str, str]
    network: bool
    emit: Callable[[str], None]
    decided: Callable[[str], Awaitable[Decision | None]]
    update_brief: Callable[[dict[str, str]], Awaitable[str]]
    texts: Texts | None = None
    hop: Callable[[str, str, str], Signal | ToolResult] | None = None
    ask: Callable[[], AskVerdict] | None = None
    open_children: Callable[[], Awaitable[int]] | None = None
    unheard: Callable[[], Awaitable[bool]] | None = None
