"""A piece as a value: its targets, its verify-type movements, its canonical bytes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.piece import (
    Movement,
    Piece,
    Rule,
    collect_piece_transition_targets,
    conversation_into,
    is_verify,
    piece_from_json,
    piece_hash,
    piece_to_json,
)
from engine.core.piece_graph import no_way_out, uncapped_cycles, unreachable

words = st.text(min_size=1, max_size=8)


def movement(name: str, *targets: str, default_next: str | None = None, cap: int | None = None) -> Movement:
    rules = tuple(Rule("when", target) for target in targets)
    return Movement(name, True, "p", "i", ("Read",), rules, None, default_next, cap)


def piece(*movements: Movement) -> Piece:
    return Piece("demo", "d", 5, movements[0].name, movements)


movements_strategy = st.builds(
    Movement,
    name=words,
    edit=st.booleans(),
    persona=words,
    instruction=words,
    allowed_tools=st.lists(words, max_size=3).map(tuple),
    rules=st.lists(st.builds(Rule, words, words), max_size=3).map(tuple),
    allowed_commands=st.none() | st.lists(words, max_size=2).map(tuple),
    default_next=st.none() | words,
    max_consecutive_revisits=st.none() | st.integers(1, 9),
    verify=st.booleans(),
    conversation=st.sampled_from([None, "restart", "continue"]),
)
pieces_strategy = st.builds(
    Piece,
    name=words,
    description=words,
    max_movements=st.integers(1, 99),
    initial_movement=words,
    movements=st.lists(movements_strategy, min_size=1, max_size=3).map(tuple),
    triggers=st.lists(words, max_size=2).map(tuple),
    required_mcp=st.lists(words, max_size=2).map(tuple),
    model=st.none() | words,
    conversation=st.sampled_from(["restart", "continue"]),
    resume=st.sampled_from(["rebuild", "continue"]),
)


@settings(deadline=None)
@given(pieces_strategy)
def test_a_stored_piece_comes_back_as_it_was(value: Piece) -> None:
    again = piece_from_json(piece_to_json(value))
    assert again == value
    assert piece_to_json(again) == piece_to_json(value)
    assert piece_hash(again) == piece_hash(value)


def test_the_hash_changes_with_every_word_of_the_piece() -> None:
    one, other = piece(movement("a")), piece(movement("b"))
    assert len(piece_hash(one)) == 64
    assert piece_hash(one) != piece_hash(other)


def test_a_piece_stored_before_an_optional_key_existed_can_still_be_read() -> None:
    old = msgspec.json.decode(piece_to_json(piece(movement("a"))))
    del old["resume"], old["movements"][0]["verify"]
    assert piece_from_json(msgspec.json.encode({**old, "later": 1})) == piece(movement("a"))


def test_bytes_that_are_no_piece_are_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        piece_from_json(b"{")
    with pytest.raises(msgspec.ValidationError):
        piece_from_json(b'{"name": 1}')


def test_transition_targets_are_the_union_over_all_movements_in_order_of_appearance() -> None:
    value = piece(movement("a", "b", "WAIT_SUBTASKS"), movement("b", "c", "a", "b"), movement("c", "a"))
    assert collect_piece_transition_targets(value) == ("b", "WAIT_SUBTASKS", "c", "a")


def test_default_next_is_no_transition_target() -> None:
    assert collect_piece_transition_targets(piece(movement("a", default_next="b"), movement("b"))) == ()


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("verify", True),
        ("code-review", True),
        ("final_Verify", True),
        ("検証", True),
        ("最終-レビュー", True),
        ("preview", False),
        ("verifying", False),
        ("検証済", False),
        ("plan", False),
    ],
)
def test_a_movement_is_of_verify_type_by_a_part_of_its_name(name: str, counts: bool) -> None:
    assert is_verify(movement(name)) is counts


def test_a_movement_is_of_verify_type_by_its_key() -> None:
    assert is_verify(Movement("check", False, "p", "i", (), (), verify=True))


def test_a_movement_s_own_conversation_overrides_the_piece_s() -> None:
    one, other = movement("a"), Movement("b", True, "p", "i", (), (), conversation="restart")
    value = Piece("demo", "d", 5, "a", (one, other), conversation="continue")
    assert conversation_into(value, one) == "continue"
    assert conversation_into(value, other) == "restart"


def test_movements_are_found_by_name() -> None:
    value = piece(movement("a"), movement("b"))
    assert value.movement("b").name == "b"
    with pytest.raises(KeyError):
        value.movement("c")


GRAPHS = {
    "one movement that completes": ([("a", (), None, None)], (), (), ()),
    "a straight line": ([("a", ("b",), None, None), ("b", (), None, None)], (), (), ()),
    "b is reached by default_next only": ([("a", (), "b", None), ("b", (), None, None)], (), (), ()),
    "b is never reached": ([("a", (), None, None), ("b", ("a",), None, None)], ("b",), (), ()),
    "WAIT_SUBTASKS leads on to default_next": (
        [("a", ("WAIT_SUBTASKS",), "b", None), ("b", (), None, None)],
        (),
        (),
        (),
    ),
    "a loop without cap or end": (
        [("a", ("b",), None, None), ("b", ("a",), None, None)],
        (),
        (("a", "b"),),
        (("a", "b"),),
    ),
    "a loop with a cap but without an end": (
        [("a", ("b",), None, 3), ("b", ("a",), None, None)],
        (),
        (),
        (("a", "b"),),
    ),
    "a loop whose forced hop aborts": (
        [("a", ("b",), "b", None), ("b", ("a",), "ABORT", None)],
        (),
        (("a", "b"),),
        (),
    ),
    "a loop that leads on": (
        [("a", ("b",), None, None), ("b", ("a", "c"), None, None), ("c", (), None, None)],
        (),
        (("a", "b"),),
        (),
    ),
    "a movement whose only rule names itself": ([("a", ("a",), None, 2)], (), (), (("a",),)),
    "forced hops make no cycle of rules": (
        [("a", ("b",), "b", None), ("b", (), "a", None)],
        (),
        (),
        (),
    ),
}


@pytest.mark.parametrize(("rows", "lonely", "cycles", "traps"), GRAPHS.values(), ids=GRAPHS.keys())
def test_the_graph_of_movements(rows: list, lonely: tuple, cycles: tuple, traps: tuple) -> None:
    value = piece(*(movement(name, *targets, default_next=to, cap=cap) for name, targets, to, cap in rows))
    assert unreachable(value) == lonely
    assert uncapped_cycles(value) == cycles
    assert no_way_out(value) == traps
