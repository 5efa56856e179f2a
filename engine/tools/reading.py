"""Paging through a text: numbered lines from a line on, or plain text from a byte on, each within a budget
of tokens.

Every page that is not the last names where the next one starts; following these places shows each byte
once, and ends.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from engine.core.truncate import fit_head, quarter_tokens
from engine.tools.textio import Charset, shown

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
class _Line:
    """A line (or its beginning, ``whole`` False, if it is longer than anybody will read) and the byte where
    it starts.
    """

    text: str
    whole: bool
    at: int


def page_lines(
    stream: Text, charset: Charset, start: int, limit: int | None, budget: int, *, count: bool = False
) -> Page:
    """The lines from ``start`` (from 1) on, numbered: at most ``limit``, and as many as fit ``budget``
    tokens.

    A first line that does not fit is cut, and ``stop`` says at which byte. The stream is read no further
    than needed, unless ``count`` asks for the total.
    """
    lines = _lines(stream, charset, 4 * budget + 1)
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
            return _cut(line, number, charset, budget, total)
        return Page(shown("".join(taken)), True, start, start + len(taken) - 1, total=total)
    return Page(shown("".join(taken)), False, start, start + len(taken) - 1, total=number)


def _cut(line: _Line, number: int, charset: Charset, budget: int, total: int | None) -> Page:
    head, _ = fit_head(line.text, max(1, budget - 3))
    stop = line.at + len(charset.encode(head))
    return Page(shown(_numbered(number, head)), True, number, number, line.at, stop, total)


def _numbered(number: int, text: str) -> str:
    return f"{number:>5}\t{text}\n"


def _lines(stream: Text, charset: Charset, longest: int) -> Iterator[_Line]:
    """Every line once; of one that is longer than ``longest`` characters only the beginning."""
    at = len(charset.bom)
    while piece := stream.readline(longest):
        whole = len(piece) < longest or piece[-1] == "\n"
        yield _Line(piece, whole, at)
        at += len(charset.encode(piece))
        while not whole:
            piece = stream.readline(longest)
            whole = len(piece) < longest or piece[-1] == "\n"
            at += len(charset.encode(piece))


def page_bytes(stream: Bytes, charset: Charset, start: int, budget: int) -> Page:
    """The text from byte ``start`` on, where the stream stands, as much as fits ``budget`` tokens.

    It ends at the end of a line if there is one in its second half, else between two graphemes.
    """
    wanted = 4 * _WIDEST * budget + _WIDEST
    data = stream.read(wanted + 1)
    ended = len(data) <= wanted
    skipped = _misaligned(data, charset)
    decoder = codecs.getincrementaldecoder(charset.name)(charset.errors)
    head, rest = fit_head(decoder.decode(data[skipped:], ended), budget, lines=True)
    stop = start + skipped + len(charset.encode(head))
    return Page(shown(head), bool(rest) or not ended, start=start + skipped, stop=stop)


def aligned(start: int, charset: Charset) -> int:
    """``start``, after the byte order mark and on a border of the code units of UTF-16 and UTF-32."""
    inside = max(0, start - len(charset.bom))
    unit = {"utf-16": 2, "utf-32": 4}.get(charset.name[:6], 1)
    return len(charset.bom) + inside - inside % unit


def _misaligned(data: bytes, charset: Charset) -> int:
    """How many bytes at the start belong to a UTF-8 character that began before."""
    if charset.name != "utf-8":
        return 0
    return next((at for at, byte in enumerate(data[:_WIDEST]) if byte & 0xC0 != 0x80), 0)
