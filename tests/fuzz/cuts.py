"""Cuts: no grapheme is split, no limit passed, nothing lost, and whoever pages on gets to the end."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import regex
from hypothesis import strategies as st

from engine.consent import masked
from engine.core import piece_read, truncate
from engine.core.lessons import carry
from engine.llm.arguments import parse_arguments
from engine.tools.reading import Page, page_bytes, page_lines
from engine.tools.textio import UTF8, one_line, plain, shown
from maestro_lsp import display
from maestro_lsp.cli import terminal
from maestro_lsp.demo import view

LOOK_BACK = 512
PIECES = [
    *["a", "word ", "\n", "\r\n", "\r", "\t", " ", "\x00", "\x1b[31m", "\ufeff", "\u2028", "\x0c", "\x85"],
    *["日本語", "が", "か\u3099", "ｶﾞ", "葛\U000e0100", "𠮷", "、", "한", "\u1112\u1161\u11ab", "\u1100" * 3],
    *["👨‍👩‍👧‍👦", "🇯🇵", "🇯", "🏴\U000e0067\U000e0062\U000e007f", "👍🏽", "☎️", "\u200d", "🧑‍🚀"],
    *["e\u0301", "\u0301", "\u0600١", "ক্ষি", "สวัสดี", "שלום", "\u202eabc\u202c", "a" + "\u0301" * 700],
    *["\ud800", "\udfff", "\ud83d", "\udc80"],
]


@dataclass(frozen=True, slots=True)
class Cutting:
    """A text, a place or size, and whether lines are kept."""

    text: str
    size: int
    lines: bool


TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=80).map("".join),
    st.builds(
        lambda piece, count, end: piece * count + end, st.sampled_from(PIECES), st.integers(0, 700), st.text()
    ),
)
strategy = st.builds(Cutting, TEXTS, st.integers(0, 60) | st.integers(0, 2_000), st.booleans())


def check(example: Cutting) -> None:
    """Every function that cuts, on this text."""
    borders = {0, *(match.end() for match in regex.finditer(r"\X", example.text))}
    _check_borders(example.text, example.size, borders)
    _check_budgets(example, borders)
    _check_limits(example.text, example.size, borders)
    _check_pages(example)


def whole(text: str, at: int, borders: set[int]) -> bool:
    """Whether a cut at this place splits no grapheme but one that is longer than anybody looks back."""
    if at in borders:
        return True
    start = max(border for border in borders if border < at)
    return at - start >= LOOK_BACK


def _check_borders(text: str, at: int, borders: set[int]) -> None:
    floor, ceil = truncate.grapheme_floor(text, at), truncate.grapheme_ceil(text, at)
    inside = min(at, len(text))
    assert floor <= inside <= ceil
    assert whole(text, floor, borders) and whole(text, ceil, borders)
    assert not any(floor < border <= inside for border in borders), "a nearer border was passed over"


def _check_budgets(example: Cutting, borders: set[int]) -> None:
    text, budget, lines = example.text, example.size, example.lines
    first = max((match.end() - match.start() for match in regex.finditer(r"\X", text)), default=0)
    head, rest = truncate.fit_head(text, budget, lines=lines)
    assert head + rest == text and truncate.estimate_tokens(head) <= budget
    assert (head, rest) == truncate.fit_head(text, budget, lines=lines)
    assert whole(text, len(head), borders) or first > budget
    assert head or not text or not budget, "nothing fits: whoever pages would stand still"
    before, tail = truncate.fit_tail(text, budget, lines=lines)
    assert before + tail == text and truncate.estimate_tokens(tail) <= budget
    assert whole(text, len(before), borders) or first > budget
    one, middle, two = truncate.fit_head_tail(text, budget, lines=lines)
    assert one + middle + two == text
    assert truncate.quarter_tokens(one) + truncate.quarter_tokens(two) <= 4 * budget
    assert middle or not two


BEGINNINGS: dict[str, Callable[[str, int], str]] = {
    "truncate.cut": truncate.cut,
    "display.head": display.head,
    "display.clip": lambda text, limit: display.clip(text, limit + 40).partition(" …(")[0],
    "consent.masked": lambda text, limit: str(masked(text, str, limit)),
    "terminal.fit": lambda text, limit: terminal.fit(text, limit + 1).rstrip(" "),
    "view.cut": view.cut,
    "piece_read.shown": lambda text, _: piece_read.shown(text),
}
"""What shortens a text to its beginning, for a person or a log."""


def _check_limits(text: str, limit: int, borders: set[int]) -> None:
    head, rest = truncate.first_characters(text, limit)
    assert head + rest == text and len(head) <= limit
    assert whole(text, len(head), borders)
    assert "".join(truncate.graphemes(text)) == text
    title = one_line(text, max(limit, 1))
    assert len(title) <= max(limit, 1) + 1 and title.translate(dict.fromkeys((0x200C, 0x200D))).isprintable()
    title.encode()
    visible = "".join(char for char in text if char.isprintable() and char != " ") or "x"
    own = {0, *(match.end() for match in regex.finditer(r"\X", visible))}
    for name, shorten in BEGINNINGS.items():
        short = shorten(visible, max(limit, 1))
        kept = len(short.removesuffix("…"))
        assert short == visible or visible.startswith(short.removesuffix("…")), name
        assert short == visible or whole(visible, kept, own), f"{name} splits a character"
    ((_, lesson),) = carry([("work", visible)], max(limit, 3))
    end = lesson.removeprefix("… ")
    assert visible.endswith(end) and whole(visible, len(visible) - len(end), own)
    problem = parse_arguments('{"a": ' + visible).problem or ""
    problem.encode()


def _check_pages(example: Cutting) -> None:
    """The pages of a file, by lines or by bytes, one after the other."""
    text, budget = (
        example.text.replace("\ud83d", "").replace("\ud800", "").replace("\udfff", ""),
        example.size + 4,
    )
    data = UTF8.encode(text)
    assert UTF8.decode(data) == text or "\udc80" in text
    text = UTF8.decode(data)
    seen, page = "", Page("", True)
    while page.more:
        begin = page.stop
        page = page_bytes(io.BytesIO(data[begin:]), UTF8, begin, budget, data[max(0, begin - 3) : begin])
        assert page.stop > begin or not data, "a page that shows nothing new"
        assert truncate.estimate_tokens(page.text) <= 3 * budget, (
            "what is no text may be shown three times as long"
        )
        seen += page.text
    assert seen == shown(text)
    numbers, line, page = [], 1, Page("", True)
    while page.more:
        page = page_lines(io.StringIO(text, newline=""), UTF8, line, None, budget, count=True)
        assert page.first == line
        line = page.last + 1
        numbers.append(page.last)
    assert numbers[-1] == len(plain(text).split("\n")) - (not text or plain(text).endswith("\n"))
