"""Which model worker a job gets: by name, by role, by room (engine.md §7)."""

from __future__ import annotations

import pytest

from engine.core.model_choice import (
    CLASSIFIER,
    MAIN,
    SUBTASK,
    Card,
    Wish,
    candidates,
    model_sent,
    role_of,
    seat_for,
    unknown_model,
    workers_of_role,
)

BIG = Card("big", "qwen-72b", (MAIN,))
SECOND = Card("second", "qwen-72b", (MAIN,))
SMALL = Card("small", "qwen-7b", (SUBTASK, CLASSIFIER))
NAMED = Card("named", "coder")
ALL = (BIG, SECOND, SMALL, NAMED)


@pytest.mark.parametrize(
    ("wish", "ids"),
    [
        (Wish(), "big second"),
        (Wish(child=True), "small"),
        (Wish("coder"), "named"),
        (Wish("named"), "named"),
        (Wish("named", child=True), "named"),
        (Wish("qwen-72b"), "big second"),
        (Wish("second"), "second"),
        (Wish(had="second"), "second"),
        (Wish(had="gone"), "big second"),
        (Wish("coder", had="second"), "named"),
        (Wish("gpt"), ""),
    ],
)
def test_a_worker_is_chosen_by_name_else_by_role_and_kept(wish: Wish, ids: str) -> None:
    assert " ".join(card.id for card in candidates(ALL, wish, listed=True)) == ids


def test_one_server_without_a_list_knows_its_models_itself() -> None:
    only = Card("default", "qwen", (MAIN,))
    wish = Wish("another")
    assert candidates((only,), wish, listed=False) == (only,)
    assert model_sent(only, wish) == "another"
    assert candidates((only,), wish, listed=True) == ()


@pytest.mark.parametrize("named", [None, "big", "qwen-72b"])
def test_a_workers_own_model_is_not_named_twice(named: str | None) -> None:
    assert model_sent(BIG, Wish(named)) is None


@pytest.mark.parametrize(
    ("cards", "role", "ids"),
    [
        (ALL, CLASSIFIER, "small"),
        ((BIG, NAMED), CLASSIFIER, "big"),
        ((BIG, NAMED), SUBTASK, "big"),
        ((NAMED, SMALL), MAIN, "named"),
        ((), MAIN, ""),
    ],
)
def test_a_role_that_nobody_has_falls_to_main_and_that_to_the_first(
    cards: tuple[Card, ...], role: str, ids: str
) -> None:
    assert " ".join(card.id for card in workers_of_role(cards, role)) == ids


@pytest.mark.parametrize(
    ("wish", "room", "chosen", "waits"),
    [
        (Wish(), {"big": 1, "second": 1}, "big", False),
        (Wish(), {"big": 0, "second": 1}, "second", False),
        (Wish(), {"big": 0, "second": 0, "small": 9}, None, True),
        (Wish(had="big"), {"big": 0, "second": 1}, None, True),
        (Wish("gpt"), {"big": 1}, None, False),
    ],
)
def test_a_job_waits_only_for_workers_that_it_may_have(
    wish: Wish, room: dict[str, int], chosen: str | None, waits: bool
) -> None:
    card, full = seat_for(ALL, wish, room, listed=True)
    assert (card.id if card else None, full) == (chosen, waits)


def test_an_unknown_model_names_the_known_ones_and_no_server_at_all_says_how_to_set_one() -> None:
    error = unknown_model(ALL, Wish("gpt"))
    assert error.key == "config.no_worker" and error.values["model"] == "gpt"
    assert error.data["known"] == ["big", "qwen-72b", "second", "small", "qwen-7b", "named", "coder"]
    assert unknown_model((), Wish()).key == "config.no_endpoint"


def test_the_word_default_means_main() -> None:
    assert [role_of(name) for name in ("default", "main", "subtask", "classifier", "boss")] == [
        *("main", "main", "subtask", "classifier"),
        None,
    ]
