"""Cuts never exceed their budget, never split a grapheme, and never lose a character."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from engine.core.truncate import (
    cut,
    estimate_tokens,
    first_characters,
    fit_head,
    fit_head_tail,
    fit_tail,
    grapheme_ceil,
    grapheme_floor,
    graphemes,
    quarter_tokens,
)

FAMILY = "👨‍👩‍👧‍👦"
TEXTS = st.lists(
    st.sampled_from(
        [
            "a",
            "word ",
            "\n",
            "\r\n",
            "日本語",
            "が",
            "か\u3099",
            "é",
            "e\u0301",
            FAMILY,
            "🇯🇵",
            "한",
            "\t",
            "𠮷",
            "\ud800",
        ]
    )
    | st.text(max_size=5),
    max_size=60,
).map("".join)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("日本語", 3),
        ("ab日", 2),
        ("é", 1),
        ("ｱﾊﾟｰﾄ", 5),
        ("한", 1),
        ("𠮷", 1),
    ],
)
def test_a_token_is_four_bytes_or_one_cjk_character(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@given(TEXTS, TEXTS)
def test_the_estimate_of_a_whole_is_the_sum_of_its_parts(left: str, right: str) -> None:
    assert quarter_tokens(left) + quarter_tokens(right) == quarter_tokens(left + right)


@given(TEXTS, st.integers(0, 40), st.booleans())
def test_head_and_rest_rejoin_and_the_head_fits(text: str, budget: int, lines: bool) -> None:
    head, rest = fit_head(text, budget, lines=lines)
    assert head + rest == text
    assert estimate_tokens(head) <= budget


@given(TEXTS, st.integers(0, 40), st.booleans())
def test_rest_and_tail_rejoin_and_the_tail_fits(text: str, budget: int, lines: bool) -> None:
    rest, tail = fit_tail(text, budget, lines=lines)
    assert rest + tail == text
    assert estimate_tokens(tail) <= budget


@given(TEXTS, st.integers(0, 40), st.booleans())
def test_head_middle_and_tail_rejoin_and_fit_together(text: str, budget: int, lines: bool) -> None:
    head, middle, tail = fit_head_tail(text, budget, lines=lines)
    assert head + middle + tail == text
    assert quarter_tokens(head) + quarter_tokens(tail) <= 4 * budget


@given(TEXTS, st.integers(0, 200))
def test_every_border_is_a_border_between_graphemes(text: str, index: int) -> None:
    borders = {0, *(match.end() for match in regex.finditer(r"\X", text))}
    floor, ceil = grapheme_floor(text, index), grapheme_ceil(text, index)
    assert floor in borders and ceil in borders
    assert floor <= min(index, len(text)) <= ceil


@given(TEXTS, st.integers(0, 40))
def test_first_characters_rejoin_and_are_not_more_than_asked(text: str, limit: int) -> None:
    head, rest = first_characters(text, limit)
    assert head + rest == text
    assert len(head) <= limit


@pytest.mark.parametrize("grapheme", [FAMILY, "か\u3099", "🇯🇵", "\r\n", "e\u0301\u0302"])
def test_a_grapheme_at_the_border_stays_whole(grapheme: str) -> None:
    text = "x" * 7 + grapheme * 3
    for budget in range(1, 30):
        head, _ = fit_head(text, budget)
        assert (len(head) - 7) % len(grapheme) == 0 or len(head) < 7


def test_a_head_by_lines_ends_at_a_line() -> None:
    head, rest = fit_head("one two\nthree four\nfive six\n", 5, lines=True)
    assert (head, rest) == ("one two\nthree four\n", "five six\n")


def test_a_single_long_line_is_cut_inside() -> None:
    head, _ = fit_head("short\n" + "x" * 1000, 100, lines=True)
    assert len(head) == 400


def test_what_fits_is_left_alone() -> None:
    assert fit_head_tail("日本語です", 5) == ("日本語です", "", "")
    assert fit_head("日本語です", 5) == ("日本語です", "")


def test_the_tail_keeps_how_an_output_ended() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    head, middle, tail = fit_head_tail(text, 50, lines=True)
    assert head.startswith("line 0\n") and tail.endswith("line 999\n")
    assert middle.startswith("line ") and tail.startswith("line ")


def test_a_grapheme_longer_than_the_look_back_still_lets_the_cut_move_on() -> None:
    zalgo = "a" + "\u0301" * 5000
    head, rest = fit_head(zalgo, 100)
    assert head and head + rest == zalgo


@pytest.mark.parametrize(
    ("text", "limit", "short"),
    [
        ("日本語", 3, "日本語"),
        ("日本語です", 3, "日本…"),
        ("x" + FAMILY * 2, 5, "x…"),
        ("🇯🇵🇫🇷🇩🇪", 4, "🇯🇵…"),
        ("か\u3099か\u3099か\u3099", 4, "か\u3099…"),
        (FAMILY, 1, "…"),
    ],
)
def test_a_short_form_ends_with_an_ellipsis_between_two_graphemes(text: str, limit: int, short: str) -> None:
    assert cut(text, limit) == short


@given(TEXTS)
def test_graphemes_are_the_whole_text(text: str) -> None:
    assert "".join(graphemes(text)) == text


def test_a_run_of_flags_longer_than_the_look_back_is_cut_between_flags() -> None:
    flags = "🇯🇵" * 1000
    for index in (513, 601, 1023):
        assert grapheme_floor(flags, index) == index - 1 and grapheme_ceil(flags, index) == index + 1
