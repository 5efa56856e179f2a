"""The text of a file and the bytes behind it: which line ends, and how a piece of it is replaced.

Pure. What is not touched by a replacement keeps its very bytes: the new bytes are put between slices of the
old ones.
"""

from __future__ import annotations

import codecs
import re
from array import array
from dataclasses import dataclass

from engine.core.truncate import escaped, first_characters
from engine.tools.encodings import UTF8 as UTF8
from engine.tools.encodings import Charset as Charset
from engine.tools.encodings import detect as detect

_LINE_END = re.compile(r"\r\n|\r|\n")
_UNSHOWN = re.compile(r"[\ud800-\udfff\0]")
_ESCAPE = re.compile(rb"\x1b(?:\$\(D|\$[@B]|\([BJI])")
_ASCII = b"\x1b(B"
_LONGEST_SHIFTED = 8 << 20


def shown(text: str) -> str:
    """``text`` as the model may see it: bytes that are no text (kept as lone surrogates) and NUL become
    U+FFFD.
    """
    return _UNSHOWN.sub("\ufffd", text) if "\0" in text or not text.isascii() else text


# --- line ends --------------------------------------------------------------------------------------


def main_line_end(text: str) -> str:
    r"""The line end that most lines of ``text`` have; ``\n`` where none has more."""
    crlf = text.count("\r\n")
    lf, cr = text.count("\n") - crlf, text.count("\r") - crlf
    if crlf > lf and crlf >= cr:
        return "\r\n"
    return "\r" if cr > lf else "\n"


def with_line_end(text: str, line_end: str) -> str:
    """``text`` with every line end replaced by ``line_end``."""
    return _LINE_END.sub(lambda _: line_end, text) if "\r" in text or line_end != "\n" else text


def plain(text: str) -> str:
    r"""``text`` with every line end as ``\n``: how the model sees a file."""
    return with_line_end(text, "\n")


def plain_positions(text: str, positions: list[int]) -> list[int]:
    r"""Positions in ``plain(text)``, ascending, as positions in ``text``."""
    found, shift = [], 0
    borders = (match.start() for match in re.finditer("\r\n", text))
    border = next(borders, None)
    for position in positions:
        while border is not None and border - shift < position:
            shift += 1
            border = next(borders, None)
        found.append(position + shift)
    return found


# --- replacing --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Splice:
    """``text[start:end]`` becomes ``new``."""

    start: int
    end: int
    new: str


def spliced(text: str, splices: list[Splice]) -> str:
    """``text`` with the splices, which are in order and do not overlap."""
    pieces, done = [], 0
    for splice in splices:
        pieces += [text[done : splice.start], splice.new]
        done = splice.end
    return "".join([*pieces, text[done:]])


def splice_bytes(data: bytes, text: str, charset: Charset, splices: list[Splice]) -> bytes | None:
    """``data`` (whose text is ``text``) with the splices; every byte outside them is kept.

    None if the borders in the bytes cannot be told for certain (bytes with two readings). Raises
    ``UnicodeEncodeError`` if the encoding cannot say the new text.
    """
    body = data[len(charset.bom) :]
    if charset.shifts and len(body) > _LONGEST_SHIFTED:
        return None
    replaced = _replace_shifted if charset.shifts else _replace
    after = replaced(body, text, charset, splices)
    if after is None or charset.decode(after) != spliced(text, splices):
        return None
    return charset.bom + after


def _replace(body: bytes, text: str, charset: Charset, splices: list[Splice]) -> bytes:
    pieces, done_text, done_bytes = [], 0, 0
    for splice in splices:
        start = done_bytes + len(charset.encode(text[done_text : splice.start]))
        end = start + len(charset.encode(text[splice.start : splice.end]))
        pieces += [body[done_bytes:start], charset.put(splice.new)]
        done_text, done_bytes = splice.end, end
    return b"".join([*pieces, body[done_bytes:]])


def _replace_shifted(body: bytes, text: str, charset: Charset, splices: list[Splice]) -> bytes | None:
    """The same where escape sequences say what bytes mean: those that stand outside stay where they are, and
    the new bytes lead from what holds before them to what must hold after them.
    """
    ends = character_ends(body, charset)
    if len(ends) != len(text):
        return None
    pieces, done = [], 0
    for splice in splices:
        start = ends[splice.start - 1] if splice.start else 0
        end = max(start, ends[splice.end - 1] if splice.end else 0)
        follows = None if _ESCAPE.match(body, end) else _shift_at(body, end)
        pieces += [body[done:start], _joined(charset.put(splice.new), _shift_at(body, start), follows)]
        done = end
    return b"".join([*pieces, body[done:]])


def character_ends(body: bytes, charset: Charset) -> array[int]:
    """For each character of ``body`` the place after its last byte. For encodings that shift, where one
    character tells nothing about the bytes of the next.
    """
    decoder = codecs.getincrementaldecoder(charset.name)(charset.errors)
    ends = array("L")
    for at in range(len(body)):
        ends.extend([at + 1] * len(decoder.decode(body[at : at + 1])))
    return ends


def _shift_at(body: bytes, place: int) -> bytes:
    """The escape sequence that holds at a place between two characters."""
    found = body.rfind(b"\x1b", 0, place)
    match = _ESCAPE.match(body, found, place) if found >= 0 else None
    return match[0] if match else _ASCII


def _joined(new: bytes, before: bytes, after: bytes | None) -> bytes:
    """``new``, which starts and ends in ASCII, between bytes under ``before`` and bytes that need ``after``
    (None: they begin with an escape sequence of their own).
    """
    if not new:
        return b"" if after in (None, before) else after or b""
    open_ended = new.removesuffix(_ASCII)
    if after is None or (open_ended != new and _shift_at(open_ended, len(open_ended)) == after):
        new = open_ended
    elif after != _ASCII:
        new += after
    if before == _ASCII:
        return new
    return new[len(before) :] if new.startswith(before) else _ASCII + new


def one_line(text: str, limit: int = 120) -> str:
    """``text`` on one line for a title: control characters as escapes, the end cut off if it is long."""
    head, rest = first_characters(escaped(shown(text[: 2 * limit])), limit)
    return f"{head}…" if rest or len(text) > 2 * limit else head


def count_lines(text: str) -> str:
    """How many lines a text has, in words: ``1 line``, ``12 lines``."""
    number = len(_LINE_END.findall(text)) + (text[-1:] not in ("", "\n", "\r"))
    return f"{number} line{'' if number == 1 else 's'}"
