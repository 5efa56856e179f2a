"""What an event of a job means for an editor: pure decisions, for `maestro_lsp.bridge` to carry out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from engine import ENDED, PARKED, JobStatus, JobSummary


@dataclass(slots=True)
class Known:
    """What is remembered of a job. ``run`` counts its claims, ``said`` is the last progress message."""

    movement: str | None
    run: int = 0
    seq: int = 0
    token: str | None = None
    said: str = ""


@dataclass(frozen=True, slots=True)
class Begin:
    """Progress begins."""

    token: str
    movement: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """Progress goes on."""

    token: str
    message: str


@dataclass(frozen=True, slots=True)
class Filling:
    """The context fills up: a progress entry, told by a catalogue key. ``percent`` of the limit."""

    token: str
    key: str
    percent: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """The piece of a job that named none: a progress entry, told by a catalogue key."""

    token: str
    key: str
    piece: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Progress ends, told by a catalogue key."""

    token: str
    key: str


@dataclass(frozen=True, slots=True)
class Changed:
    """The job moved: a summary as of that move."""

    to: str
    wait_reason: str | None
    reason: str | None
    new: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """The job waits for a person."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The job waits no longer."""


@dataclass(frozen=True, slots=True)
class Tell:
    """The job ended."""

    status: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Forward:
    """An event for a client that watches."""

    event: dict[str, Any]


Step = Begin | Report | Filling | Chosen | Finish | Changed | Offer | Withdraw | Tell | Forward


def steps(known: Known, event: dict[str, Any]) -> list[Step]:
    """What an event means for a plain client, in order. ``known`` is brought up to date."""
    match event["kind"]:
        case "status":
            return _moved(known, event)
        case "movement":
            known.movement = str(event["name"])
            return _report(known, known.movement)
        case "tool_call":
            return _report(
                known, f"{known.movement}: {event['title']}" if known.movement else str(event["title"])
            )
        case "context" if known.token is not None:
            known.said = ""
            return [Filling(known.token, f"lsp.context.{event['action']}", round(100 * event["ratio"]))]
        case "piece":
            changed = Changed(JobStatus.RUNNING, None, None)
            if known.token is None:
                return [changed]
            known.said = ""
            key = f"chosen.{event.get('failure') or event['by']}"
            return [Chosen(known.token, key, str(event["piece"])), changed]
        case _:
            return []


def _report(known: Known, message: str) -> list[Step]:
    if known.token is None or message == known.said:
        return []
    known.said = message
    return [Report(known.token, message)]


def _moved(known: Known, event: dict[str, Any]) -> list[Step]:
    to, wait, reason = str(event["to"]), event.get("waitReason"), event.get("reason")
    found: list[Step] = []
    if known.token is not None:
        put_off = to == JobStatus.QUEUED and reason == "rate_limited"
        end = "lsp.end.rate_limited" if put_off else f"lsp.end.{to}"
        found.append(Finish(known.token, f"lsp.wait.{wait}" if wait else end))
        known.token = None
    changed = Changed(to, wait, reason, new=event.get("from") is None)
    if to == JobStatus.RUNNING:
        known.run += 1
        known.token = f"{event['jobId']}:{known.run}"
        known.said = known.movement or ""
        return [*found, Begin(known.token, known.movement), changed]
    if to in PARKED:
        return [*found, changed, Offer()]
    if to in ENDED:
        return [*found, Withdraw(), changed, Tell(to, reason)]
    return [*found, Withdraw(), changed]


def remembered(movement: str | None, earlier: Sequence[dict[str, Any]]) -> Known:
    """A job as its events left it; ``movement`` counts if they name none."""
    known = Known(movement, seq=earlier[-1]["seq"] if earlier else 0)
    for event in earlier:
        if event["kind"] == "movement":
            known.movement = str(event["name"])
        elif event["kind"] == "status" and event["to"] == JobStatus.RUNNING:
            known.run += 1
    return known


def runs(events: Sequence[dict[str, Any]]) -> bool:
    """Whether a job is running, by its events."""
    moves = [event["to"] for event in events if event["kind"] == "status"]
    return bool(moves) and moves[-1] == JobStatus.RUNNING


def joined(known: Known, job_id: str) -> list[Step]:
    """What to show of a job that runs already."""
    known.token = f"{job_id}:{known.run}"
    known.said = known.movement or ""
    return [Begin(known.token, known.movement)]


def as_of(summary: JobSummary, changed: Changed) -> JobSummary:
    """The summary at the time of a move, should the job have moved on since."""
    if summary.status == changed.to:
        return summary
    return msgspec.structs.replace(
        summary,
        status=changed.to,
        wait_reason=changed.wait_reason,
        reason=changed.reason,
        resume_movement=summary.resume_movement if changed.to in PARKED else None,
        open_requests=summary.open_requests if changed.to in PARKED else [],
    )


Watching = Literal["implicit", "on", "off"]


class Watches:
    """Which jobs this client follows, and how closely."""

    def __init__(self) -> None:
        self._jobs: dict[str, Watching] = {}
        self._told: set[str] = set()

    def touched(self, job_id: str) -> None:
        """The client acted on a job: it watches from now on, unless it said that it will not."""
        self._jobs.setdefault(job_id, "implicit")
        self.adopted(job_id)

    def adopted(self, job_id: str) -> None:
        """The client is to be told of the job's end."""
        if self._jobs.get(job_id) != "off":
            self._told.add(job_id)

    def set(self, job_id: str, on: bool) -> None:
        """``maestro.task.watch``."""
        self._jobs[job_id] = "on" if on else "off"
        (self._told.add if on else self._told.discard)(job_id)

    def wants_stored(self, job_id: str) -> bool:
        """Whether stored events go to the client."""
        return self._jobs.get(job_id) in ("implicit", "on")

    def wants_live(self, job_id: str) -> bool:
        """Whether streaming goes to the client: only if it asked."""
        return self._jobs.get(job_id) == "on"

    def wants_end(self, job_id: str) -> bool:
        """Whether the client is told of the end."""
        return job_id in self._told

    def ended(self, job_id: str) -> None:
        """Nothing more will come of a job."""
        self._told.discard(job_id)
