"""A command's output, cleaned as it comes, however it is cut into pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.truncate import estimate_tokens
from engine.tools.output import Capture, Cleaner, Live, Overwriting


def overwritten(*pieces: str) -> str:
    lines = Overwriting()
    return "".join(lines.feed(piece) for piece in pieces) + lines.final()


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
        (b"\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\ after", "link after"),
        (b"\x1b]8;;https://example.com\x07link\x1b]8;;\x07 after", "link after"),
        (b"up\x1b[1A\x1b[2K\x1b[1Gdown\x1b[?25h\x1b7\x1b8", "updown"),
        (b"\x1b[38;2;1;2;3mcolour\x1b[m \x1b[>4;1m\x1bP1$r0m\x1b\\", "colour "),
        ("\x9b31mC1 \x85".encode(), "\ufffd31mC1 \ufffd"),
        ("\ufeffBOM".encode(), "BOM"),
        ("日本語です\n".encode("cp932"), "日本語です\n"),
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


@pytest.mark.fault("D: megabytes of output", neighbour=True)
@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("10%\r50%\r100%\n", "100%\n"),
        ("a\rb", "b"),
        ("done\r", "done"),
        ("no\n", "no\n"),
        ("\r\r", ""),
        ("one\ntwo\r2\nthree", "one\n2\nthree"),
        ("|\b/\b-\bready\n", "ready\n"),
        ("N\bNA\bA\n", "NA\n"),
        ("\b\bx\n", "x\n"),
        ("日本\b語\n", "日語\n"),
        ("x" * 5000 + "\rshort\n", "x" * 5000 + "\nshort\n"),
        ("50%\r\n", "50%\n"),
    ],
)
def test_of_a_line_that_was_written_over_the_last_state_is_shown(text: str, last: str) -> None:
    assert overwritten(text) == last
    assert overwritten(*text) == last


@given(
    st.lists(st.sampled_from(["a", "日", "\r", "\n", "\b", "50%", "x" * 5000]), max_size=12).map("".join),
    st.lists(st.integers(0, 9000), max_size=5),
)
def test_how_an_overwritten_text_was_cut_does_not_show(text: str, cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    shown = overwritten(*(text[start:end] for start, end in pairwise(borders)))
    assert shown == overwritten(text)
    assert not {"\r", "\b"} & set(shown)


def test_a_million_steps_of_a_progress_bar_are_one_line() -> None:
    lines = Overwriting()
    kept = sum(len(lines.feed(f"\r{step} of 1000000")) for step in range(100_000))
    assert kept == 0 and lines.final() == "99999 of 1000000"


def test_what_was_shown_before_its_line_ended_stays_and_what_is_written_over_it_is_a_line_of_its_own() -> (
    None
):
    lines = Overwriting()
    assert lines.feed("10%") == "" and lines.release() == "10%" and lines.release() == ""
    assert lines.feed(" of all\r20%") == " of all\n" and lines.release() == "20%"
    assert lines.feed("\n100%\r") == "\n" and lines.release() == "100%" and lines.feed("\nend") == "\n"
    assert lines.final() == "end"


@pytest.mark.fault("D: megabytes of output", neighbour=True)
def test_of_what_is_no_text_little_is_shown() -> None:
    capture = Capture(10_000)
    for _ in range(100):
        capture.add("\ufffdELF\ufffd\ufffd" * 100)
    shown = capture.shown()
    assert shown.binary and shown.left_out > 0
    assert estimate_tokens(shown.head) + estimate_tokens(shown.tail) <= 201
    text = Capture(10_000)
    text.add("a stray \ufffd in a text\n" * 100)
    assert not text.shown().binary


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
