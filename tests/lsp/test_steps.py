"""What an event means for a plain client: pure decisions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine import JobSummary, UsageView, catalogue
from maestro_lsp.steps import (
    Begin,
    Changed,
    Chosen,
    Filling,
    Finish,
    Known,
    Offer,
    Report,
    Tell,
    Watches,
    Withdraw,
    as_of,
    joined,
    remembered,
    runs,
    steps,
)

JOB = "j-1"


def moved(source: str | None, to: str, **more: Any) -> dict[str, Any]:
    return {"kind": "status", "jobId": JOB, "from": source, "to": to, **more}


def test_a_claim_begins_progress_under_the_runs_token_before_the_change_is_told() -> None:
    known = Known("plan")
    assert steps(known, moved("queued", "running")) == [
        Begin("j-1:1", "plan"),
        Changed("running", None, None),
    ]
    assert known.token == "j-1:1"


@pytest.mark.parametrize(
    ("event", "key", "last"),
    [
        (moved("running", "waiting_human", waitReason="question"), "lsp.wait.question", Offer()),
        (moved("running", "waiting_human", waitReason="approval"), "lsp.wait.approval", Offer()),
        (moved("running", "waiting_subtasks", waitReason="subtasks"), "lsp.wait.subtasks", Offer()),
        (moved("running", "succeeded"), "lsp.end.succeeded", Tell("succeeded", None)),
        (
            moved("running", "failed", reason="provider_error"),
            "lsp.end.failed",
            Tell("failed", "provider_error"),
        ),
        (moved("running", "aborted", reason="cycle"), "lsp.end.aborted", Tell("aborted", "cycle")),
        (
            moved("running", "cancelled", reason="cancelled"),
            "lsp.end.cancelled",
            Tell("cancelled", "cancelled"),
        ),
    ],
)
def test_every_park_and_end_ends_progress_first(event: dict[str, Any], key: str, last: object) -> None:
    known = Known("plan", run=1, token="j-1:1")
    found = steps(known, event)
    assert found[0] == Finish("j-1:1", key)
    assert Changed(event["to"], event.get("waitReason"), event.get("reason")) in found
    assert found[-1] == last
    assert known.token is None


def test_a_job_that_goes_back_to_the_queue_ends_progress_and_is_told() -> None:
    known = Known("plan", run=1, token="j-1:1")
    assert steps(known, moved("running", "queued")) == [
        Finish("j-1:1", "lsp.end.queued"),
        Withdraw(),
        Changed("queued", None, None),
    ]
    assert steps(known, moved("queued", "running"))[0] == Begin("j-1:2", "plan")


def test_a_job_that_waits_for_a_busy_server_says_so() -> None:
    known = Known("plan", run=1, token="j-1:1")
    first, *_, changed = steps(known, moved("running", "queued", reason="rate_limited"))
    assert first == Finish("j-1:1", "lsp.end.rate_limited")
    assert changed == Changed("queued", None, "rate_limited")
    for language in ("en", "ja"):
        assert catalogue(language)("lsp.end.rate_limited")


def test_an_answered_job_asks_no_more() -> None:
    assert steps(Known("plan", run=1), moved("waiting_human", "queued"))[0] == Withdraw()


def test_a_new_job_is_marked_as_new() -> None:
    assert steps(Known("plan"), moved(None, "queued")) == [
        Withdraw(),
        Changed("queued", None, None, new=True),
    ]


def test_movements_and_calls_are_progress_told_once() -> None:
    known = Known("plan")
    steps(known, moved("queued", "running"))
    same = {"kind": "movement", "jobId": JOB, "name": "plan", "visit": 1}
    assert steps(known, same) == [], "begin said so"
    call = {"kind": "tool_call", "jobId": JOB, "title": "Read a.py"}
    assert steps(known, call) == [Report("j-1:1", "plan: Read a.py")]
    assert steps(known, call) == []
    assert steps(known, {**same, "name": "implement"}) == [Report("j-1:1", "implement")]


@pytest.mark.parametrize("action", ["warn", "prompt", "force_transition", "exhausted"])
def test_a_filling_context_is_a_progress_entry(action: str) -> None:
    known = Known("plan", run=1, token="j-1:1")
    event = {"kind": "context", "jobId": JOB, "action": action, "ratio": 0.8571}
    assert steps(known, event) == [Filling("j-1:1", f"lsp.context.{action}", 86)]
    for language in ("en", "ja"):
        assert "86 %" in catalogue(language)(f"lsp.context.{action}", percent=86)
        assert "86 %" in catalogue(language)(f"cli.run.context.{action}", ratio=86)


@pytest.mark.parametrize(
    ("body", "key"),
    [({"by": "classifier"}, "classifier"), ({"by": "fallback", "failure": "timeout"}, "timeout")],
)
def test_a_chosen_piece_is_a_progress_entry_and_changes_the_job(body: dict[str, str], key: str) -> None:
    event = {"kind": "piece", "jobId": JOB, "piece": "chat", **body}
    changed = Changed("running", None, None)
    known = Known(None, run=1, token="j-1:1")
    assert steps(known, event) == [Chosen("j-1:1", f"chosen.{key}", "chat"), changed]
    assert steps(Known(None, run=1), event) == [changed]


def test_nothing_is_reported_of_a_job_that_does_not_run() -> None:
    known = Known("plan", run=1)
    assert steps(known, {"kind": "context", "jobId": JOB, "action": "warn", "ratio": 0.7}) == []
    assert steps(known, {"kind": "tool_call", "jobId": JOB, "title": "x"}) == []
    assert steps(known, {"kind": "usage", "jobId": JOB}) == []


def test_a_job_met_half_way_is_counted_from_its_events() -> None:
    events = [
        {"seq": 1, **moved(None, "queued")},
        {"seq": 2, **moved("queued", "running")},
        {"seq": 3, "kind": "movement", "jobId": JOB, "name": "implement", "visit": 1},
        {"seq": 4, **moved("running", "queued")},
        {"seq": 5, **moved("queued", "running")},
    ]
    assert runs(events) and not runs(events[:4]) and not runs([])
    known = remembered("plan", events)
    assert (known.run, known.seq, known.movement) == (2, 5, "implement")
    assert joined(known, JOB) == [Begin("j-1:2", "implement")]
    assert remembered("plan", []) == Known("plan")


def test_a_summary_is_told_as_of_the_move_should_the_job_be_further_by_now() -> None:
    later = JobSummary(
        job_id=JOB,
        task_id="t-1",
        title="x",
        piece="code",
        movement="plan",
        status="waiting_human",
        wait_reason="question",
        resume_movement="plan",
        open_requests=["r-1"],
        created_at="",
        updated_at="",
        usage=UsageView(reused_pct=None),
    )
    running = as_of(later, Changed("running", None, None))
    assert (running.status, running.wait_reason, running.open_requests) == ("running", None, [])
    assert running.resume_movement is None
    assert as_of(later, Changed("waiting_human", "question", None)) == later
    assert msgspec.structs.replace(running, status="x") != later


def test_acting_on_a_job_watches_it_until_the_client_says_otherwise() -> None:
    watches = Watches()
    assert not (watches.wants_stored(JOB) or watches.wants_live(JOB) or watches.wants_end(JOB))
    watches.touched(JOB)
    assert watches.wants_stored(JOB) and watches.wants_end(JOB) and not watches.wants_live(JOB)
    watches.set(JOB, True)
    assert watches.wants_live(JOB)
    watches.touched(JOB)
    assert watches.wants_live(JOB), "acting again takes nothing away"
    watches.set(JOB, False)
    watches.touched(JOB)
    watches.adopted(JOB)
    assert not (watches.wants_stored(JOB) or watches.wants_live(JOB) or watches.wants_end(JOB))
