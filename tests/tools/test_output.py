"""A command's output, cleaned as it comes, however it is cut into pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.truncate import estimate_tokens
from engine.tools.output import Capture, Cleaner, Live, settled

PARTS = st.lists(
    st.sampled_from(
        [
            "text",
            "日本語",
            "👨‍👩‍👧",
            "\n",
            "\r\n",
            "\x1b[31m",
            "\x1b[0m",
            "\x1b]0;title\x07",
            "\x1b]8;;x\x1b\\",
            "\x1b(B",
            "\t",
            "é",
        ]
    ).map(str.encode)
    | st.binary(max_size=4),
    max_size=15,
).map(b"".join)


def cleaned(*pieces: bytes) -> str:
    cleaner = Cleaner()
    return "".join(cleaner.feed(piece) for piece in pieces) + cleaner.feed(b"", final=True)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\n", "plain\n"),
        (b"\x1b[1;31mred\x1b[0m\n", "red\n"),
        (b"\x1b]0;window title\x07ok", "ok"),
        (b"a\r\nb", "a\nb"),
        (b"bad \xff\xfe bytes", "bad \ufffd\ufffd bytes"),
        (b"nul\0bell\x07", "nul\ufffdbell\ufffd"),
        (b"lone \x1b", "lone \ufffd"),
        ("日本".encode()[:4], "日\ufffd"),
    ],
)
def test_output_is_cleaned(data: bytes, text: str) -> None:
    assert cleaned(data) == text


@given(PARTS, st.lists(st.integers(0, 60), max_size=6))
def test_the_cuts_between_pieces_do_not_show(data: bytes, cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(borders)]
    assert cleaned(*pieces) == cleaned(data)


@given(PARTS)
def test_nothing_that_steers_a_terminal_is_left(data: bytes) -> None:
    text = cleaned(data)
    assert "\x1b" not in text and "\0" not in text
    text.encode()


@pytest.mark.parametrize(
    ("text", "last"),
    [("10%\r50%\r100%\n", "100%\n"), ("a\rb", "b"), ("done\r", "done"), ("no\n", "no\n"), ("\r\r", "")],
)
def test_of_a_line_that_was_written_over_the_last_state_is_shown(text: str, last: str) -> None:
    assert settled(text) == last


@given(st.lists(st.text(max_size=50), max_size=30), st.integers(10, 60))
def test_a_capture_fits_its_budget_and_counts_what_it_left_out(pieces: list[str], budget: int) -> None:
    pieces = [piece.encode("utf-8", "replace").decode().replace("\r", "") for piece in pieces]
    capture = Capture(budget)
    for piece in pieces:
        capture.add(piece)
    whole, shown = "".join(pieces), capture.shown()
    assert estimate_tokens(shown.head) + estimate_tokens(shown.tail) <= budget + 1
    assert len((shown.head + shown.tail).encode()) + shown.left_out == len(whole.encode())
    assert whole.startswith(shown.head) and whole.endswith(shown.tail)


def test_a_capture_of_anything_stays_small() -> None:
    capture = Capture(1000)
    for _ in range(2000):
        capture.add("x" * 65_536)
    assert len(capture.kept) < 4 * 1000 + 2 * 65_536


def test_live_output_comes_in_bounded_pieces_and_the_newest_wins() -> None:
    emitted: list[str] = []
    now = [0.0]
    live = Live(emitted.append, lambda: now[0])
    live.add("first\n")
    live.add("x" * 100_000)
    live.add("last\n")
    assert emitted == ["first\n"] and live.due_in == pytest.approx(0.1)
    now[0] = 0.2
    live.add("")
    assert len(emitted) == 2 and len(emitted[1]) < 4100
    assert emitted[1].endswith("last\n") and "[… 96005 characters …]" in emitted[1]
    assert live.due_in is None
