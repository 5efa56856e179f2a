"""From rows to values and views."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict

import msgspec

from engine.core.jobs import PARKED, Counters, Job, JobStatus, TurnState, Usage
from engine.core.records import Intent, Message, SettledRequest, Step
from engine.core.views import JobSummary, Request, Settled, UsageView, iso


def counters_of(text: str) -> Counters:
    """Counters from their JSON column."""
    return msgspec.json.decode(text, type=Counters)


def dump(value: Counters | TurnState | Usage) -> str:
    """A small value as the JSON of its column."""
    return json.dumps(asdict(value), ensure_ascii=False, separators=(",", ":"))


def message_of(row: sqlite3.Row) -> Message:
    """A message with what is kept beside its body."""
    problems = json.loads(row["problems"]) if row["problems"] else {}
    return Message(row["role"], row["body"], row["call_id"], row["thought"], problems)


def job_of(row: sqlite3.Row) -> Job:
    """A ``Job`` from a row of ``jobs`` joined with its task."""
    return Job(
        job_id=row["job_id"],
        task_id=row["task_id"],
        title=row["title"],
        instruction=row["instruction"],
        language=row["language"],
        status=JobStatus(row["status"]),
        mode=row["mode"],
        piece_name=row["piece_name"],
        piece=row["piece"],
        piece_hash=row["piece_hash"],
        tools=row["tools"],
        system=row["system"],
        model=row["model"],
        movement=row["movement"],
        resume_movement=row["resume_movement"],
        wait_reason=row["wait_reason"],
        parent_id=row["parent_id"],
        retry_of=row["retry_of"],
        depth=row["depth"],
        run=row["run"],
        conversation=row["conversation"],
        movement_seq=row["movement_seq"],
        fence=row["fence"],
        counters=counters_of(row["counters"]),
        turn=msgspec.json.decode(row["turn"], type=TurnState),
        usage=msgspec.json.decode(row["usage"], type=Usage),
        files=tuple(json.loads(row["files"])),
        created_at=row["created_at"],
        cancel_requested=bool(row["cancel_requested"]),
        restores=bool(row["restores"]),
        resumed_by=row["resumed_by"],
        worker=row["worker"],
    )


def summary_of(row: sqlite3.Row, open_requests: list[str]) -> JobSummary:
    """A job's ``JobSummary``."""
    usage = msgspec.json.decode(row["usage"], type=Usage)
    return JobSummary(
        job_id=row["job_id"],
        task_id=row["task_id"],
        title=row["title"],
        piece=row["piece_name"],
        movement=row["movement"],
        status=row["status"],
        wait_reason=row["wait_reason"],
        reason=row["reason"],
        forced=bool(row["forced"]),
        resume_movement=row["resume_movement"] if JobStatus(row["status"]) in PARKED else None,
        open_requests=open_requests,
        created_at=iso(row["created_at"]),
        updated_at=iso(row["updated_at"]),
        usage=UsageView(**asdict(usage)),
        parent_id=row["parent_id"],
        retry_of=row["retry_of"],
        not_before=_put_off_until(row),
    )


def _put_off_until(row: sqlite3.Row) -> str | None:
    waits = row["status"] == JobStatus.QUEUED and row["not_before"] is not None
    return iso(row["not_before"]) if waits else None


def settled_of(row: sqlite3.Row) -> Settled | None:
    """How a request was settled, or None while it is open."""
    if row["decision"] is None:
        return None
    return Settled(
        decision=row["decision"],
        scope=row["scope"],
        text=row["text"],
        note=row["note"],
        by=row["by"],
        at=iso(row["settled_at"]),
    )


def request_view(row: sqlite3.Row) -> Request:
    """A request as clients see it."""
    shown = {key: value for key, value in json.loads(row["shown"]).items() if key != "ruleDraft"}
    view = msgspec.convert(
        {
            **shown,
            "requestId": row["request_id"],
            "jobId": row["job_id"],
            "taskId": row["task_id"],
            "reason": row["reason"],
            "createdAt": iso(row["created_at"]),
        },
        Request,
    )
    return msgspec.structs.replace(view, settled=settled_of(row))


def settled_request_of(row: sqlite3.Row) -> SettledRequest:
    """A request as the runner sees it."""
    shown = json.loads(row["shown"])
    return SettledRequest(
        request_id=row["request_id"],
        job_id=row["job_id"],
        reason=row["reason"],
        key=row["key"],
        digest=row["digest"],
        call_id=row["call_id"],
        decision=row["decision"],
        scope=row["scope"],
        network=bool(row["network"]),
        text=row["text"] or "",
        note=row["note"] or "",
        used=row["used_at"] is not None,
        title=str(shown.get("title", "")),
        movement=str(shown.get("movement", "")),
        arguments=shown.get("arguments") or {},
        made=row["made"] or "",
    )


def step_of(row: sqlite3.Row) -> Step:
    """A journalled call."""
    intent = Intent(
        call_id=row["call_id"],
        conversation=row["conversation"],
        movement_seq=row["movement_seq"],
        tool=row["tool"],
        effect=row["effect"],
        arguments=row["arguments"],
        digest=row["digest"],
        request_id=row["request_id"],
        path=row["path"],
        pre_hash=row["pre_hash"],
        post_hash=row["post_hash"],
    )
    return Step(intent, row["state"] == "done", bool(row["ok"]), row["brief"] or "")
