"""The settlement table and the table of legal moves, as the specification states them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.jobs import ENDED, LEGAL_MOVES, OPEN, PARKED, JobStatus, RunResult, sources_of
from engine.core.outcome import (
    SETTLEMENTS,
    STATUS_OF,
    MovementResult,
    Resume,
    Settlement,
    SettlementTable,
    Via,
    map_movement_result,
)

TABLE = SettlementTable()

ROWS = [
    # sentinel, via, status, resumes at, wait reasons, keeps the conversation
    ("COMPLETE", "tool", "succeeded", None, (), False),
    ("ABORT", "tool", "aborted", None, (), False),
    ("CANCEL", "tool", "cancelled", None, (), False),
    ("ASK", "tool", "waiting_human", "current", ("question",), False),
    ("WAIT_SUBTASKS", "rule", "waiting_subtasks", "default_next", ("subtasks",), False),
    ("WAIT_SUBTASKS", "tool", "waiting_subtasks", "current", ("subtasks",), False),
    ("WAITING_HUMAN_BROWSER", "tool", "waiting_human", "current", ("browser_login", "captcha"), False),
    (
        "WAITING_HUMAN_TOOL_REQUEST",
        "tool",
        "waiting_human",
        "current",
        ("tool_request", "package_request"),
        False,
    ),
    ("WAITING_HUMAN_SPAWN_REQUEST", "tool", "waiting_human", "current", ("spawn_request",), False),
    ("WAITING_HUMAN_APPROVAL", "tool", "waiting_human", "current", ("approval",), True),
    (
        "WAITING_HUMAN_INTERRUPTED",
        "tool",
        "waiting_human",
        "current",
        ("interrupted", "crashed", "budget"),
        True,
    ),
    ("UNSETTLED", "tool", "failed", None, (), False),
]


@pytest.mark.parametrize(("sentinel", "via", "status", "resume", "reasons", "keeps"), ROWS)
def test_each_row_of_the_specification_is_a_row_of_the_table(
    sentinel: str, via: str, status: str, resume: str | None, reasons: tuple[str, ...], keeps: bool
) -> None:
    row = TABLE.find(sentinel, Via(via))
    assert (row.status, row.resume, row.wait_reasons, row.keeps_conversation) == (
        status,
        resume,
        reasons,
        keeps,
    )


def test_the_table_has_no_other_rows() -> None:
    assert {(row.sentinel, row.via.value) for row in SETTLEMENTS} == {(row[0], row[1]) for row in ROWS}


def test_a_row_parks_exactly_if_its_status_waits() -> None:
    assert all(row.parks == (row.status in PARKED) == bool(row.wait_reasons) for row in SETTLEMENTS)


def test_each_wait_reason_belongs_to_one_sentinel() -> None:
    owners: dict[str, set[str]] = {}
    for row in SETTLEMENTS:
        for reason in row.wait_reasons:
            owners.setdefault(reason, set()).add(row.sentinel)
    assert all(len(names) == 1 for names in owners.values())


def test_only_wait_subtasks_may_stand_in_a_rule() -> None:
    assert TABLE.allowed_in_rules() == {"WAIT_SUBTASKS"}


def test_an_ambiguous_table_is_refused() -> None:
    with pytest.raises(ValueError, match="share"):
        TABLE.with_rows(Settlement("ASK", RunResult.COMPLETED))


def test_run_results_map_to_statuses_in_one_place() -> None:
    assert set(STATUS_OF) == set(RunResult)


@pytest.mark.parametrize(
    ("result", "default_next", "expected"),
    [
        (MovementResult("COMPLETE", result="r"), "b", ("succeeded", None, None)),
        (MovementResult("ABORT", reason="cycle"), None, ("aborted", None, None)),
        (MovementResult("CANCEL"), None, ("cancelled", None, None)),
        (MovementResult("ASK"), "b", ("waiting_human", "a", "question")),
        (MovementResult("WAIT_SUBTASKS", via=Via.RULE), "b", ("waiting_subtasks", "b", "subtasks")),
        (MovementResult("WAIT_SUBTASKS"), "b", ("waiting_subtasks", "a", "subtasks")),
        (MovementResult("WAIT_SUBTASKS", via=Via.RULE), "COMPLETE", ("waiting_subtasks", "a", "subtasks")),
        (
            MovementResult("WAITING_HUMAN_BROWSER", wait_reason="captcha"),
            None,
            ("waiting_human", "a", "captcha"),
        ),
        (MovementResult(None, reason="provider_error"), None, ("failed", None, None)),
    ],
)
def test_a_movements_end_becomes_the_jobs_state(
    result: MovementResult, default_next: str | None, expected: tuple[str, str | None, str | None]
) -> None:
    end = map_movement_result(result, "a", default_next, TABLE)
    assert (end.status, end.resume_movement, end.wait_reason) == expected
    assert end.kind == "done"


def test_a_park_with_several_reasons_must_name_one_of_them() -> None:
    with pytest.raises(ValueError, match="captcha"):
        map_movement_result(MovementResult("WAITING_HUMAN_BROWSER"), "a", None, TABLE)


@given(st.sampled_from(list(JobStatus)), st.sampled_from(list(JobStatus)))
def test_an_ended_job_never_moves_and_sources_agree_with_the_table(
    source: JobStatus, target: JobStatus
) -> None:
    legal = target in LEGAL_MOVES[source]
    assert legal == (source in sources_of(target))
    assert not (legal and source in ENDED)


def test_every_open_job_can_be_cancelled_and_every_parked_one_resumed() -> None:
    assert all(JobStatus.CANCELLED in LEGAL_MOVES[status] for status in OPEN)
    assert all(JobStatus.QUEUED in LEGAL_MOVES[status] for status in PARKED)


def test_a_movement_is_only_entered_through_the_queue() -> None:
    assert sources_of(JobStatus.RUNNING) == (JobStatus.QUEUED,)


def test_resume_points_are_current_or_default_next() -> None:
    assert {row.resume for row in SETTLEMENTS if row.parks} == {Resume.CURRENT, Resume.DEFAULT_NEXT}
