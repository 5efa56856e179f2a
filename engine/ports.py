"""What the runners need from outside, as Protocols. ``service`` hands the adapters in; runners import only
this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from engine.core.checklist import Checklist
from engine.core.diffs import Differences
from engine.core.family import Child, Spawned, SpawnOrder
from engine.core.hops import AskVerdict
from engine.core.jobs import Job
from engine.core.lessons import Lesson
from engine.core.model_choice import Wish
from engine.core.piece import Piece
from engine.core.piece_card import PieceCard, PieceReview
from engine.core.prompting import ProjectFile, Texts
from engine.core.records import (
    Lease,
)
from engine.core.reply import Delta, Reply
from engine.core.tooling import Decision, Signal, ToolResult

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

    ``thoughts`` holds the reasoning of a message by its place, for a server that wants it back; ``taken`` are
    the ids of calls that the job has used. ``holder`` is the job, which keeps its slot of the server.
    """

    messages: Sequence[bytes]
    tools: bytes
    model: str | None = None
    tool_choice: str | None = None
    first_of_run: bool = False
    thoughts: Mapping[int, bytes] = field(default_factory=dict)
    taken: Collection[str] = ()
    holder: str = ""


class Tokens(Protocol):
    """Counts tokens as a tokenizer would; another one than the model's, so counts are scaled by what the
    server reports.
    """

    async def __call__(self, bodies: Sequence[bytes]) -> list[int]:
        """The tokens of each encoded message (or ``tools`` array). Never blocks the loop, never raises for
        odd input.
        """
        ...


class Model(Protocol):
    """A model server."""

    async def reply(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> Reply:
        """Stream one reply. Raises ``ModelFault`` (``retryable`` set) or ``ContextOverflow`` after its own
        retries.
        """
        ...

    async def context_limit(self) -> int | None:
        """The model's context limit in tokens: the smallest of what is configured, what the server says
        (asked once) and what it named when it refused a prompt; None if nobody says.
        """
        ...

    async def slots(self) -> int | None:
        """How many requests the server works on at once, if it says."""
        ...

    def rest(self, holder: str) -> None:
        """A job makes no more requests for now: others may have its slot."""
        ...


class Workers(Protocol):
    """The model workers: which of them takes another job. ``at_work`` names the worker of each job that
    runs.
    """

    def all_full(self, at_work: Collection[str]) -> bool:
        """Whether no worker takes another job."""
        ...

    def any_full(self, at_work: Collection[str]) -> bool:
        """Whether any worker takes no more jobs."""
        ...

    def full(self, wishes: Iterable[Wish], at_work: Collection[str]) -> list[Wish]:
        """The wishes that must wait, because every worker that fits is full."""
        ...

    def place(self, job: Job, at_work: Collection[str]) -> str | None:
        """The worker for a job that was just claimed; None if there is none for it."""
        ...

    async def learn_jobs(self, worker_id: str) -> None:
        """Find out how many jobs a worker takes at a time."""
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


class Tasks(Protocol):
    """Makes tasks on behalf of a running job: finds the piece, makes the folder, stores the job.

    All raise ``EngineError``s that name the mend: an unknown or faulty piece, a family that is too large, a
    folder that cannot be made.
    """

    async def child(self, job: Job, lease: Lease, order: SpawnOrder) -> Spawned:
        """A subtask of the job; the existing one if its key was used before."""
        ...

    async def beside(self, job: Job, lease: Lease, order: SpawnOrder) -> Spawned:
        """A task of its own in this workspace; the existing one if its key was used before."""
        ...

    async def elsewhere(self, job: Job, request_id: str, target: Path, order: SpawnOrder) -> Spawned:
        """A task of its own in another workspace; at most one per request."""
        ...

    async def check_elsewhere(self, target: Path, piece: str | None) -> None:
        """Raise what ``elsewhere`` would raise, before a person is asked."""
        ...


class Family(Protocol):
    """``Tasks`` for the job that a tool runs for, and its children."""

    async def child(self, order: SpawnOrder) -> Spawned: ...
    async def beside(self, order: SpawnOrder) -> Spawned: ...
    async def elsewhere(self, request_id: str, target: Path, order: SpawnOrder) -> Spawned: ...
    async def check_elsewhere(self, target: Path, piece: str | None) -> None: ...
    async def children(self) -> list[Child]: ...


class Surroundings(Protocol):
    """What is read around a job, and what is left there. Never raises for what cannot be read or written."""

    async def differences(self) -> Differences | None:
        """How the workspace differs from its last commit; None if it is not trusted or no repository."""
        ...

    async def project_file(self, task_id: str) -> ProjectFile | None:
        """The project's own instructions; None without any, or if the workspace is not trusted."""
        ...

    async def keep_lessons(self, task_id: str, lessons: Sequence[Lesson]) -> None:
        """Copy what is new of a task's lessons to its folder."""
        ...


class Checkpoints(Protocol):
    """Notes what a job's commands change in the workspace, so that it can be listed and put back. Never
    raises for a disk or folder that cannot be used.
    """

    async def before(self, job_id: str) -> None:
        """A command of the job is about to start."""
        ...

    async def after(self, job_id: str) -> None:
        """It has ended, or runs on in the background."""
        ...

    async def left(self, job_id: str) -> None:
        """The job was taken over: its last engine may have died while a command ran."""
        ...

    def alive(self, job_id: str) -> None:
        """A sign of life while a command may run. Touches a file: not for an event loop."""
        ...


class Live(Protocol):
    """Events that are shown while they happen and never stored: text, reasoning and output as they stream."""

    def __call__(self, job_id: str, kind: str, body: dict[str, object]) -> None:
        """Hand an event on. Must not block or raise."""
        ...


class Lists(Protocol):
    """The checklists of the running job's task."""

    async def all(self) -> dict[str, Checklist]:
        """Every list by its name, in the order they were made."""
        ...

    async def keep(self, name: str, items: Checklist) -> Checklist:
        """Store one list; what was stored, without secrets. Raises ``LeaseLost``."""
        ...


class Pieces(Protocol):
    """The pieces of the workspace, and the one validator. Reads files: not for an event loop."""

    @property
    def trusted(self) -> bool:
        """Whether the workspace's own pieces count."""
        ...

    def cards(self) -> list[PieceCard]:
        """Every piece that can be named, by name."""
        ...

    def load(self, name: str) -> Piece:
        """A piece that may run. Raises ``NotFound``, ``FaultyPiece``, ``NotTrusted``."""
        ...

    def text(self, name: str) -> tuple[str, str] | None:
        """(source, text) of the piece of this name, sound or not; None if there is none."""
        ...

    def place(self, name: str) -> tuple[str, bool]:
        """The workspace's own file for this name, relative to it, and whether it is there."""
        ...

    def review(self, text: str, language: str) -> PieceReview:
        """What is right and wrong with the text of a piece, in sentences of ``language``."""
        ...


@dataclass(slots=True)
class ToolContext:
    """What a tool may see and use. Narrow on purpose: it is not the engine.

    ``budget`` is the largest result in tokens. ``task_dir`` is the task's folder (``input``, ``output``,
    ``logs``), absolute. ``read_marks``
    maps absolute paths to the hash of what the model last saw of them in this conversation. ``emit`` sends
    live output; ``decided`` looks up a
    settled request by key. ``hop``, ``ask``, ``open_children`` and ``unheard`` (has the person said something
    that no message carries yet?) serve the control tools. ``family`` makes tasks and knows the children;
    ``known_tools`` are the names of all tools, ``permitted_tools`` those the movement may use now;
    ``mode`` tells the person's mode. ``lists`` are the task's checklists; ``pieces`` are those
    of the workspace.
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
    family: Family | None = None
    known_tools: tuple[str, ...] = ()
    permitted_tools: frozenset[str] = frozenset()
    mode: Callable[[], Awaitable[str]] | None = None
    lists: Lists | None = None
    pieces: Pieces | None = None
