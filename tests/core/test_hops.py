"""Decisions between movements: transitions, guards, the ASK limit, lessons."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.catalog import prompts
from engine.core.hops import (
    AskVerdict,
    ask_policy,
    enter,
    process_transition_calls,
    repeats_without_work,
    validate_transition,
    worked,
)
from engine.core.jobs import Counters
from engine.core.lessons import LESSONS_LIMIT, carry, lesson_of
from engine.core.limits import Safety
from engine.core.outcome import MovementResult, SettlementTable, Via
from engine.core.piece import Movement, Piece, Rule
from engine.core.tooling import Signal, ToolResult

TABLE = SettlementTable()
LIMITS = Safety()
TEXTS = prompts("en")


def movement(name: str, *targets: str, **more: object) -> Movement:
    return Movement(name, True, "", "", (), tuple(Rule("if so", target) for target in targets), **more)  # type: ignore[arg-type]


PIECE = Piece("p", "", 50, "a", (movement("a", "b"), movement("b", "a"), movement("c")))


@pytest.mark.parametrize("sentinel", ["COMPLETE", "ABORT", "ASK", "WAITING_HUMAN_BROWSER"])
def test_a_sentinel_in_transition_is_sent_to_complete(sentinel: str) -> None:
    problem = validate_transition(movement("a", "b"), sentinel, TABLE, TEXTS)
    assert problem is not None and "complete" in problem


def test_an_invalid_step_is_answered_with_the_valid_ones() -> None:
    problem = validate_transition(movement("a", "b", "c"), "d", TABLE, TEXTS)
    assert problem is not None and "b, c" in problem


def test_a_movement_without_rules_says_so() -> None:
    assert "no next step" in (validate_transition(movement("a"), "b", TABLE, TEXTS) or "")


def test_a_valid_transition_is_a_signal_and_an_invalid_one_a_result() -> None:
    hop = process_transition_calls(movement("a", "b"), "b", "s", "l", TABLE, TEXTS)
    assert isinstance(hop, Signal)
    assert (hop.next, hop.via, hop.summary, hop.lessons) == ("b", Via.RULE, "s", "l")
    refused = process_transition_calls(movement("a", "b"), "c", "", "", TABLE, TEXTS)
    assert isinstance(refused, ToolResult) and refused.is_error


def test_wait_subtasks_goes_through_a_rule_only_where_one_names_it() -> None:
    allowed = process_transition_calls(movement("a", "WAIT_SUBTASKS"), "WAIT_SUBTASKS", "", "", TABLE, TEXTS)
    assert isinstance(allowed, Signal) and allowed.wait_reason == "subtasks"
    assert isinstance(
        process_transition_calls(movement("a", "b"), "WAIT_SUBTASKS", "", "", TABLE, TEXTS), ToolResult
    )


def walk(names: str, limits: Safety = LIMITS, piece: Piece = PIECE, work: bool = False) -> str | None:
    counters = Counters()
    for name in names:
        hop = enter(piece, name, counters, limits)
        counters = worked(hop.counters) if work else hop.counters
        if hop.abort is not None:
            return hop.abort
    return None


def test_max_movements_counts_every_entry() -> None:
    small = Piece("p", "", 3, "a", PIECE.movements)
    assert walk("abc", piece=small) is None
    assert walk("abca", piece=small, work=True) == "max_movements"


def test_five_entries_in_a_row_into_visited_movements_are_the_limit() -> None:
    assert walk("ab" + "abaab", work=True) is None
    assert walk("ab" + "abaaba", work=True) == "revisit_limit"


def test_a_new_movement_forgives_revisits() -> None:
    assert walk("ab" + "abaab" + "c" + "abaab", work=True) is None


def test_a_movement_may_set_its_own_limit() -> None:
    own = Piece("p", "", 50, "a", (movement("a", "a", max_consecutive_revisits=1),))
    assert walk("aa", piece=own, work=True) is None
    assert walk("aaa", piece=own, work=True) == "revisit_limit"


def test_the_same_way_three_times_without_work_is_a_cycle() -> None:
    loose = Safety(revisit_limit=100)
    assert walk("ababab", loose) == "cycle"
    assert walk("ababab", loose, work=True) is None


@given(st.lists(st.sampled_from("ab*"), max_size=40))
def test_work_at_the_end_is_never_a_cycle(history: list[str]) -> None:
    assert not repeats_without_work((*history, "*"), 3)


def test_three_asks_park_the_fourth_is_deflected_and_the_second_deflection_ends_the_job() -> None:
    counters, seen = Counters(), []
    for _ in range(5):
        verdict, counters = ask_policy(counters, Safety())
        seen.append(verdict)
    assert seen == [AskVerdict.PARK] * 3 + [AskVerdict.DEFLECT, AskVerdict.ABORT]


@pytest.mark.parametrize(
    ("outcome", "lesson"),
    [
        (MovementResult("b", summary="s", lessons="l"), "s\nl"),
        (MovementResult("b", summary="s"), "s"),
        (MovementResult("COMPLETE", result="r"), "r"),
        (MovementResult("COMPLETE", result="r", lessons="l"), "l"),
        (MovementResult("ABORT", result="r"), ""),
    ],
)
def test_what_a_movement_teaches(outcome: MovementResult, lesson: str) -> None:
    assert lesson_of(outcome) == lesson


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text(min_size=1, max_size=900)), max_size=12))
def test_lessons_are_bounded_and_the_oldest_go_first(lessons: list[tuple[str, str]]) -> None:
    kept = carry(lessons)
    assert sum(len(text) for _, text in kept) <= LESSONS_LIMIT
    assert kept == lessons[len(lessons) - len(kept) :]


def test_one_lesson_over_the_limit_keeps_its_end() -> None:
    ((_, text),) = carry([("a", "x" * 3000 + "END")])
    assert len(text) == LESSONS_LIMIT and text.endswith("END")
