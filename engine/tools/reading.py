"""Paging through a text: numbered lines from a line on, or plain text from a byte on, each within a budget
of tokens.

Every page that is not the last names where the next one starts; following these places shows each byte
once, and ends.
"""

from __future__ import annotations

import codecs
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from engine.core.truncate import fit_head, quarter_tokens
from engine.tools.textio import Charset, character_ends, shown

_LINE_ENDS = "\r\n"
_WIDEST = 4


class Text(Protocol):
    """A text stream opened with ``newline=""``."""

    def readline(self, size: int, /) -> str:
        """At most ``size`` characters of the next line, with its line end."""
        ...


class Bytes(Protocol):
    """A binary stream."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; fewer only at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a file as the model reads it.

    ``first`` and ``last`` are its lines (``last`` < ``first`` for none). ``start`` and ``stop`` are the
    bytes of the file that it shows, given where it was cut inside a line or asked for by bytes. ``more``
    says that something follows; ``total`` is the number of lines of the file, where it is known.
    """

    text: str
    more: bool
    first: int = 0
    last: int = 0
    start: int = 0
    stop: int = 0
    total: int | None = None


@dataclass(frozen=True, slots=True)
class _At:
    """A place in a file: characters after the byte order mark, and bytes from the start."""

    chars: int
    byte: int


class _Measure:
    """How far a text reaches in the bytes of a file. ``ends`` (of ``character_ends``) are needed where the
    bytes of a character depend on what came before it.
    """

    def __init__(self, charset: Charset, ends: array[int] | None) -> None:
        self._charset, self._ends = charset, ends
        self.start = _At(0, len(charset.bom))

    def after(self, at: _At, text: str) -> _At:
        """Where a text ends that begins at a place."""
        chars = at.chars + len(text)
        if self._ends is None:
            return _At(chars, at.byte + len(self._charset.encode(text)))
        return _At(chars, self.start.byte + (self._ends[chars - 1] if chars else 0))


@dataclass(frozen=True, slots=True)
class _Line:
    """A line (or its beginning, ``whole`` False, if it is longer than anybody will read) and where it
    starts.
    """

    text: str
    whole: bool
    at: _At


def page_lines(
    stream: Text,
    charset: Charset,
    start: int,
    limit: int | None,
    budget: int,
    *,
    count: bool = False,
    ends: array[int] | None = None,
) -> Page:
    """The lines from ``start`` (from 1) on, numbered: at most ``limit``, and as many as fit ``budget``
    tokens.

    A first line that does not fit is cut, and ``stop`` says at which byte. The stream is read no further
    than needed, unless ``count`` asks for the total. ``ends``: see ``character_ends``.
    """
    measure = _Measure(charset, ends)
    lines = _lines(stream, measure, 4 * budget + 1)
    last = start - 1 + limit if limit is not None else None
    taken: list[str] = []
    left, number = 4 * budget, 0
    for number, line in enumerate(lines, 1):
        if number < start:
            continue
        text = _numbered(number, line.text.rstrip(_LINE_ENDS))
        left -= quarter_tokens(text)
        if line.whole and left >= 0 and (last is None or number <= last):
            taken.append(text)
            continue
        total = number + sum(1 for _ in lines) if count else None
        if not taken and (last is None or number <= last):
            return _cut(line, number, measure, budget, total)
        return Page(shown("".join(taken)), True, start, start + len(taken) - 1, total=total)
    return Page(shown("".join(taken)), False, start, start + len(taken) - 1, total=number)


def _cut(line: _Line, number: int, measure: _Measure, budget: int, total: int | None) -> Page:
    head, _ = fit_head(line.text, max(1, budget - 3))
    stop = measure.after(line.at, head)
    return Page(shown(_numbered(number, head)), True, number, number, line.at.byte, stop.byte, total)


def _numbered(number: int, text: str) -> str:
    return f"{number:>5}\t{text}\n"


def _lines(stream: Text, measure: _Measure, longest: int) -> Iterator[_Line]:
    """Every line once; of one that is longer than ``longest`` characters only the beginning."""
    at, begins = measure.start, True
    for piece, ends in _pieces(stream, longest):
        if begins:
            yield _Line(piece, ends, at)
        at, begins = measure.after(at, piece), ends


def _pieces(stream: Text, longest: int) -> Iterator[tuple[str, bool]]:
    """The stream in pieces of about ``longest`` characters, each with whether its line ends with it.

    A piece that ends with a carriage return may go on with a line feed, or its line may end there: only the
    next character tells.
    """
    held = ""
    while piece := held if held == "\r" else held + stream.readline(longest - len(held)):
        held = ""
        if piece[-1] == "\r":
            held = stream.readline(1)
            if held == "\n":
                piece, held = piece + held, ""
        yield piece, piece[-1] in _LINE_ENDS or len(piece) < longest


def page_bytes(stream: Bytes, charset: Charset, start: int, budget: int, before: bytes = b"") -> Page:
    """The text from byte ``start`` on, where the stream stands, as much as fits ``budget`` tokens.

    ``before`` are the last few bytes before ``start``: they tell a byte that is no text from the rest of a
    character, which is passed over.
    It ends at the end of a line if there is one in its second half, else between two graphemes.
    """
    wanted = 4 * _WIDEST * budget + _WIDEST
    data = stream.read(wanted + 1)
    ended = len(data) <= wanted
    skipped = _misaligned(before, data) if charset.name == "utf-8" else 0
    decoder = codecs.getincrementaldecoder(charset.name)(charset.errors)
    head, rest = fit_head(decoder.decode(data[skipped:], ended), budget, lines=True)
    stop = start + skipped + len(charset.encode(head))
    return Page(shown(head), bool(rest) or not ended, start=start + skipped, stop=stop)


def page_shifted(data: bytes, charset: Charset, start: int, budget: int) -> Page:
    """The same as ``page_bytes`` for the whole ``data`` of a file in an encoding that shifts."""
    body, inside = data[len(charset.bom) :], max(0, start - len(charset.bom))
    ends = character_ends(body, charset)
    first = bisect_right(ends, inside)
    text = charset.decode(body)
    head, _ = fit_head(text[first : first + 4 * budget + 1], budget, lines=True)
    after = first + len(head)
    stop = ends[after - 1] if first < after < len(text) else len(body)
    return Page(shown(head), after < len(text), start=start, stop=len(charset.bom) + stop)


def aligned(start: int, charset: Charset) -> int:
    """``start``, after the byte order mark and on a border of the code units of UTF-16 and UTF-32."""
    inside = max(0, start - len(charset.bom))
    unit = {"utf-16": 2, "utf-32": 4}.get(charset.name[:6], 1)
    return len(charset.bom) + inside - inside % unit


def _misaligned(before: bytes, data: bytes) -> int:
    """How many bytes at the start belong to a UTF-8 character that began before."""
    for begun in range(1, min(len(before), _WIDEST - 1) + 1):
        for size in range(begun + 1, min(_WIDEST, begun + len(data)) + 1):
            try:
                if len((before[-begun:] + data[: size - begun]).decode()) == 1:
                    return size - begun
            except UnicodeDecodeError:
                continue
    return 0
