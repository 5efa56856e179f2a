"""Jobs: their statuses, the legal moves between them, and the value the runner works on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from engine.core.budget import Spent
from engine.core.model_choice import Wish


class JobStatus(StrEnum):
    """Where a job is. The names are the same in SQL, events, YAML and TypeScript."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING_HUMAN = "waiting_human"
    WAITING_SUBTASKS = "waiting_subtasks"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"
    CANCELLED = "cancelled"


class RunResult(StrEnum):
    """What a run came to; ``outcome.STATUS_OF`` maps it to a status."""

    COMPLETED = "completed"
    ABORTED = "aborted"
    CANCELLED = "cancelled"
    ERROR = "error"
    WAITING_HUMAN = "waiting_human"
    WAITING_SUBTASKS = "waiting_subtasks"


_S = JobStatus
_ENDS = frozenset({_S.SUCCEEDED, _S.FAILED, _S.ABORTED, _S.CANCELLED})
_WAITS = frozenset({_S.WAITING_HUMAN, _S.WAITING_SUBTASKS})

LEGAL_MOVES: dict[JobStatus, frozenset[JobStatus]] = {
    _S.QUEUED: frozenset({_S.RUNNING, _S.WAITING_HUMAN, _S.CANCELLED}),
    _S.RUNNING: frozenset({_S.QUEUED}) | _WAITS | _ENDS,
    _S.WAITING_HUMAN: frozenset({_S.QUEUED, _S.CANCELLED}),
    _S.WAITING_SUBTASKS: frozenset({_S.QUEUED, _S.CANCELLED}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.ABORTED: frozenset(),
    _S.CANCELLED: frozenset(),
}
"""Every legal move. An end is final: retry and follow-up make a new job. A queued job waits for a person
only if it was given back long ago ("go on?"). The store's compare-and-set statements are built from it.
"""

ENDED: frozenset[JobStatus] = _ENDS
PARKED: frozenset[JobStatus] = _WAITS
OPEN: frozenset[JobStatus] = frozenset(JobStatus) - _ENDS
RETRYABLE: frozenset[JobStatus] = frozenset({_S.FAILED, _S.ABORTED, _S.CANCELLED})


def sources_of(target: JobStatus) -> tuple[JobStatus, ...]:
    """The statuses from which ``target`` may be reached, in declaration order."""
    return tuple(status for status in JobStatus if target in LEGAL_MOVES[status])


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that owns jobs: enough to tell, on the same machine, that it is dead.

    ``start`` is the process's start time in clock ticks since ``boot`` (a boot id); ``token`` is unique per
    process.
    """

    token: str
    pid: int
    start: str
    boot: str


@dataclass(frozen=True, slots=True)
class Counters:
    """What guards count over a job's life. Resumes change none of them.

    ``overflows`` are the hops in a row that a refused prompt forced; ``context_limit`` is the limit that the
    job learnt from its server (0: none). ``spent`` is what the job has used of its budget, ``spent_since``
    what it had when the allowance began; ``put_off`` counts how often in a row its server had too many
    requests.
    """

    movements: int = 0
    revisits_in_row: int = 0
    asks: int = 0
    deflections: int = 0
    crashes: int = 0
    visits: dict[str, int] = field(default_factory=dict)
    history: tuple[str, ...] = ()
    overflows: int = 0
    context_limit: int = 0
    spent: Spent = field(default_factory=Spent)
    spent_since: Spent = field(default_factory=Spent)
    put_off: int = 0


@dataclass(frozen=True, slots=True)
class Pressure:
    """What a movement has to remember of its context, journalled with its turn.

    ``fired`` are the actions that happened; ``wrap_up`` says that the message of ``prompt`` is still to be
    appended; ``shrunk``, that the prompt now tried was shrunk after a refusal. ``accepted`` counts the
    messages the server has answered to; ``prompt`` and ``completion`` are the tokens of that call, reported
    or estimated. ``real`` is the last prompt that was reported, of ``real_at`` messages (0: none yet);
    ``earlier`` the report before, of ``earlier_at`` messages.
    """

    fired: tuple[str, ...] = ()
    wrap_up: bool = False
    shrunk: bool = False
    accepted: int = 0
    prompt: int = 0
    completion: int = 0
    real: int = 0
    real_at: int = 0
    earlier: int = 0
    earlier_at: int = 0


@dataclass(frozen=True, slots=True)
class TurnState:
    """What guards count inside a movement. Kept with the job, so that a restored movement goes on
    counting.
    """

    iteration: int = 0
    text_only: int = 0
    truncated: int = 0
    empty: int = 0
    unknown_tool: int = 0
    batch: str = ""
    repeats: int = 0
    pressure: Pressure = field(default_factory=Pressure)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a job has used so far. ``context_ratio`` is the last call's prompt over the context limit (0.0
    while the limit is unknown).
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reused_pct: float | None = None
    context_ratio: float = 0.0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its runner sees it, read at the claim. Times are POSIX seconds; JSON columns are parsed.

    ``restores`` says that the run goes on with the journalled messages; ``resumed_by`` names the request
    whose settling queued it; ``worker`` is the model worker that it keeps.
    """

    job_id: str
    task_id: str
    title: str
    instruction: str
    language: str
    status: JobStatus
    mode: str
    piece_name: str | None
    piece: bytes
    piece_hash: str
    tools: bytes
    system: str
    model: str | None
    movement: str | None
    resume_movement: str | None
    wait_reason: str | None
    parent_id: str | None
    retry_of: str | None
    depth: int
    run: int
    conversation: int
    movement_seq: int
    fence: int
    counters: Counters
    turn: TurnState
    usage: Usage
    files: tuple[str, ...]
    created_at: float
    cancel_requested: bool = False
    restores: bool = False
    resumed_by: str | None = None
    worker: str | None = None

    @property
    def wish(self) -> Wish:
        """What it wants of a model worker."""
        return Wish(self.model, self.parent_id is not None, self.worker)

    def with_prepared(self, piece_name: str, movement: str, tools: bytes, system: str) -> Job:
        """The job after its first claim fixed its tools and system text."""
        return replace(self, piece_name=piece_name, movement=movement, tools=tools, system=system)
