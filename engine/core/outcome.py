"""How a movement may end, as one table.

A *sentinel* is what a movement asks for, a *status* is what the job then is, a *settlement* is the bridge
between the two: one row of
the table of ``engine.md`` section 4. The table is a value that is handed to the engine; runner, store, lint
and tests read it and
nothing else knows the rows. A row without ``resume`` ends the job for good; a row with it parks the job and
frees its worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from engine.core.jobs import JobStatus, RunResult

COMPLETE = "COMPLETE"
ABORT = "ABORT"
CANCEL = "CANCEL"
ASK = "ASK"
WAIT_SUBTASKS = "WAIT_SUBTASKS"
WAITING_HUMAN_BROWSER = "WAITING_HUMAN_BROWSER"
WAITING_HUMAN_TOOL_REQUEST = "WAITING_HUMAN_TOOL_REQUEST"
WAITING_HUMAN_SPAWN_REQUEST = "WAITING_HUMAN_SPAWN_REQUEST"
WAITING_HUMAN_APPROVAL = "WAITING_HUMAN_APPROVAL"
WAITING_HUMAN_INTERRUPTED = "WAITING_HUMAN_INTERRUPTED"
UNSETTLED = "UNSETTLED"


class Via(StrEnum):
    """Where a sentinel came from: a tool (or the engine itself), or a rule of the movement."""

    TOOL = "tool"
    RULE = "rule"


class Resume(StrEnum):
    """Which movement a parked job re-enters."""

    CURRENT = "current"
    DEFAULT_NEXT = "default_next"


@dataclass(frozen=True, slots=True)
class Settlement:
    """One row: what a sentinel, coming from ``via``, does to the job.

    ``wait_reasons`` are the reasons the row admits (empty for ends). ``keeps_conversation`` says that a
    resume goes on with the journalled
    messages instead of rebuilding the prompt.
    """

    sentinel: str
    result: RunResult
    via: Via = Via.TOOL
    resume: Resume | None = None
    wait_reasons: tuple[str, ...] = ()
    keeps_conversation: bool = False

    @property
    def status(self) -> JobStatus:
        """The job status this row leads to."""
        return STATUS_OF[self.result]

    @property
    def parks(self) -> bool:
        """True if the job waits and resumes, false if it ends for good."""
        return self.resume is not None


STATUS_OF: dict[RunResult, JobStatus] = {
    RunResult.COMPLETED: JobStatus.SUCCEEDED,
    RunResult.ABORTED: JobStatus.ABORTED,
    RunResult.CANCELLED: JobStatus.CANCELLED,
    RunResult.ERROR: JobStatus.FAILED,
    RunResult.WAITING_HUMAN: JobStatus.WAITING_HUMAN,
    RunResult.WAITING_SUBTASKS: JobStatus.WAITING_SUBTASKS,
}
"""The only place where the results of a run become job statuses."""

_HUMAN = RunResult.WAITING_HUMAN
_CHILDREN = RunResult.WAITING_SUBTASKS

SETTLEMENTS: tuple[Settlement, ...] = (
    Settlement(COMPLETE, RunResult.COMPLETED),
    Settlement(ABORT, RunResult.ABORTED),
    Settlement(CANCEL, RunResult.CANCELLED),
    Settlement(ASK, _HUMAN, resume=Resume.CURRENT, wait_reasons=("question",)),
    Settlement(
        WAIT_SUBTASKS, _CHILDREN, via=Via.RULE, resume=Resume.DEFAULT_NEXT, wait_reasons=("subtasks",)
    ),
    Settlement(WAIT_SUBTASKS, _CHILDREN, resume=Resume.CURRENT, wait_reasons=("subtasks",)),
    Settlement(
        WAITING_HUMAN_BROWSER, _HUMAN, resume=Resume.CURRENT, wait_reasons=("browser_login", "captcha")
    ),
    Settlement(
        WAITING_HUMAN_TOOL_REQUEST,
        _HUMAN,
        resume=Resume.CURRENT,
        wait_reasons=("tool_request", "package_request"),
    ),
    Settlement(WAITING_HUMAN_SPAWN_REQUEST, _HUMAN, resume=Resume.CURRENT, wait_reasons=("spawn_request",)),
    Settlement(
        WAITING_HUMAN_APPROVAL,
        _HUMAN,
        resume=Resume.CURRENT,
        wait_reasons=("approval",),
        keeps_conversation=True,
    ),
    Settlement(
        WAITING_HUMAN_INTERRUPTED,
        _HUMAN,
        resume=Resume.CURRENT,
        wait_reasons=("interrupted", "crashed", "budget"),
        keeps_conversation=True,
    ),
    Settlement(UNSETTLED, RunResult.ERROR),
)


class SettlementTable:
    """The rows, looked up by (sentinel, via). Immutable.

    Raises ``ValueError`` when two rows share a key, so that a table cannot be ambiguous.
    """

    def __init__(self, rows: Iterable[Settlement] = SETTLEMENTS) -> None:
        listed = tuple(rows)
        self._rows = {(row.sentinel, row.via): row for row in listed}
        if len(self._rows) != len(listed):
            raise ValueError("two settlements share a sentinel and its origin")

    def __iter__(self) -> Iterator[Settlement]:
        return iter(self._rows.values())

    def with_rows(self, *rows: Settlement) -> SettlementTable:
        """A new table that also holds ``rows``: how a new park is added."""
        return SettlementTable((*self, *rows))

    def find(self, sentinel: str | None, via: Via = Via.TOOL) -> Settlement:
        """The row of ``sentinel``; no sentinel (the loop ended undecided) is ``UNSETTLED``. Unknown names
        raise ``KeyError``.
        """
        return self._rows[sentinel or UNSETTLED, via]

    def is_sentinel(self, name: str) -> bool:
        """True if ``name`` is a control value rather than a movement."""
        return any(name == row.sentinel for row in self)

    def allowed_in_rules(self) -> frozenset[str]:
        """The sentinels a piece may name in ``rules[].next``."""
        return frozenset(row.sentinel for row in self if row.via is Via.RULE)


@dataclass(frozen=True, slots=True)
class MovementResult:
    """How a movement ended. ``next`` is a movement name, a sentinel, or None if nothing was decided.

    ``result`` is what the person is shown; ``reason`` a machine word (``max_iterations``, ``provider_error``
    …); ``forced`` marks a hop
    that nobody decided (context limit).
    """

    next: str | None
    via: Via = Via.TOOL
    summary: str = ""
    lessons: str = ""
    result: str = ""
    reason: str = ""
    wait_reason: str | None = None
    forced: bool = False
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class PieceRunResult:
    """What a run of a piece came to: ``kind`` is always ``done`` (a run that goes on has no result yet)."""

    status: JobStatus
    kind: str = "done"
    resume_movement: str | None = None
    wait_reason: str | None = None
    reason: str = ""
    result: str = ""
    summary: str = ""
    forced: bool = False
    retryable: bool = False


def map_movement_result(
    outcome: MovementResult, movement: str, default_next: str | None, table: SettlementTable
) -> PieceRunResult:
    """Settle a movement's end by the table.

    ``outcome.next`` must be a sentinel of the table or None. A row that resumes at ``default_next`` needs one
    (lint refuses the piece
    otherwise); without it the current movement is re-entered, so that a park can never fall through to an
    end.
    """
    row = table.find(outcome.next, outcome.via)
    match row.resume:
        case None:
            resume = None
        case Resume.CURRENT:
            resume = movement
        case Resume.DEFAULT_NEXT:
            usable = default_next is not None and not table.is_sentinel(default_next)
            resume = default_next if usable else movement
    wait = outcome.wait_reason or (row.wait_reasons[0] if len(row.wait_reasons) == 1 else None)
    if row.parks and wait not in row.wait_reasons:
        raise ValueError(f"{outcome.next} parks for one of {row.wait_reasons}, not {wait!r}")
    return PieceRunResult(
        status=row.status,
        resume_movement=resume,
        wait_reason=wait if row.parks else None,
        reason=outcome.reason,
        result=outcome.result,
        summary=outcome.summary,
        forced=outcome.forced,
        retryable=outcome.retryable,
    )
