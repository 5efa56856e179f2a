"""The bytes of a command as text, as they come: UTF-8, and what else programs write that nobody can ask.

Pure. Old Japanese programs write Shift_JIS or EUC-JP, those of Windows UTF-16, often in the midst of UTF-8:
so a line that is no UTF-8 is looked at by itself. What is held back is bounded, and the text does not depend
on how the bytes were cut into pieces.
"""

from __future__ import annotations

import codecs
import re

from engine.tools.encodings import detect

_LONGEST = 4096
_CONTEXT = 32
_ENOUGH = 16
_BOMS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_WIDE_LINE_END = {"utf-16-le": b"\n\0", "utf-16-be": b"\0\n"}
# By the names of ``detect``. Windows-1252 is Latin-1 and more, for a terminal's output.
_LEGACY = {
    "cp932": "cp932",
    "euc_jp": "euc_jp",
    "euc_jis_2004": "euc_jis_2004",
    "cp1252": "cp1252",
    "iso8859-1": "cp1252",
}
_HIGH = re.compile(rb"[\x80-\xff]")
_LINE_END = re.compile(rb"[\r\n]")
# Hiragana: what nearly every Japanese line has, and what nothing else looks like.
_EUC_HIRAGANA = re.compile(rb"\xa4[\xa1-\xf3]")
_HIRAGANA = {
    "cp932": re.compile(rb"\x82[\x9f-\xf1]"),
    "euc_jp": _EUC_HIRAGANA,
    "euc_jis_2004": _EUC_HIRAGANA,
}
_NO_TEXT = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")


class Decoder:
    """Bytes as they come, as text. What no encoding explains becomes U+FFFD; nothing is raised."""

    def __init__(self) -> None:
        self._held = b""
        self._begun = False
        self._wide: str | None = None
        self._line = b""
        self._japanese: str | None = None

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text of the next bytes. At most 4 KiB of them are held back; ``final`` gives them back."""
        self._held += data
        if not self._begun and not self._begin(final):
            return ""
        text = self._wide_lines(self._wide, final) if self._wide else ""
        return text if self._wide else text + self._lines(final)

    def _begin(self, final: bool) -> bool:
        """Whether the first bytes are enough to tell UTF-16 from everything else."""
        start = self._held[:_ENOUGH]
        if not final and (len(start) < 2 or (start[1] == 0 and len(start) < _ENOUGH)):
            return False
        self._begun = True
        even = len(start) & ~1
        if start[:2] in _BOMS:
            self._wide, self._held = _BOMS[start[:2]], self._held[2:]
        elif len(start) >= 4 and 0 not in start[0:even:2] and start[1:even:2].count(0) * 4 >= even:
            # Without a zero in the first two bytes it was decided on those: more may not have been here yet.
            self._wide = "utf-16-le" if start[1] == 0 else None
        return True

    def _wide_lines(self, wide: str, final: bool) -> str:
        """Lines of UTF-16, until one is plain ASCII: then another program writes."""
        data, at, parts = self._held, 0, []
        while at < len(data):
            end = _aligned_end(data, at, _WIDE_LINE_END[wide])
            if end is None and not final and len(data) - at < _LONGEST:
                break
            piece = data[at : end or at + _LONGEST]
            if 0 not in piece and piece.isascii():
                self._wide = None
                break
            text, used = _decoded(piece, wide, final and at + len(piece) == len(data))
            parts.append(text)
            at += used
        self._held = data[at:]
        return "".join(parts)

    def _lines(self, final: bool) -> str:
        """Plain ASCII at once, anything else line by line, or in pieces of 4 KiB where there are no lines."""
        data, at, parts = self._held, 0, []
        whole = len(data) if final else max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if whole and _is(data[:whole], "utf-8", True):
            parts.append(data[:whole].decode())
            at, self._line = whole, b""
        while at < len(data):
            high = _HIGH.search(data, at)
            start = high.start() if high else len(data)
            if start > at:
                parts.append(self._plain(data[at:start]))
                at = start
                continue
            end = _LINE_END.search(data, at, at + _LONGEST)
            if end is None and not final and len(data) - at < _LONGEST:
                break
            piece = data[at : end.start() if end else at + _LONGEST]
            complete = end is not None or len(piece) < _LONGEST
            text, used = self._read(piece, complete)
            parts.append(text)
            at += used
        self._held = data[at:]
        return "".join(parts)

    def _read(self, piece: bytes, complete: bool) -> tuple[str, int]:
        """The text of a line, or of the beginning of what is left of one, and how many bytes it took."""
        if complete:  # the shortest way for what most lines are: all like the last one
            known = self._japanese
            try:
                return piece.decode(), len(piece)
            except UnicodeDecodeError:
                if known and _HIRAGANA[known].search(piece) and _is(piece, known, True):
                    return piece.decode(known), len(piece)
        return _decoded(piece, self._encoding(piece, complete), complete)

    def _plain(self, data: bytes) -> str:
        begin = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self._line = (data[begin:] if begin else self._line + data)[-_CONTEXT:]
        return data.decode("ascii")

    def _encoding(self, piece: bytes, complete: bool) -> str:
        """How these bytes of a line are encoded; ``utf-8`` for want of better."""
        if _is(piece, "utf-8", complete) or _NO_TEXT.search(piece):
            return "utf-8"
        known = self._japanese
        if known and _HIRAGANA[known].search(piece) and _is(piece, known, complete):
            return known
        found = detect(self._line + piece, whole=complete)
        name = _LEGACY.get(found.name) if found and found.certain else None
        if name and _is(piece, name, complete):
            self._japanese = known if name == "cp1252" else name
            return name
        return known if known and _is(piece, known, complete) else "utf-8"


def _is(data: bytes, encoding: str, complete: bool) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data, complete)
    except UnicodeDecodeError:
        return False
    return True


def _decoded(data: bytes, encoding: str, complete: bool) -> tuple[str, int]:
    """The text, and how many bytes it took: a character that is cut off waits for its rest."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    text = decoder.decode(data, complete)
    return text, len(data) - len(decoder.getstate()[0])


def _aligned_end(data: bytes, start: int, line_end: bytes) -> int | None:
    """The end of the line that begins at ``start``, within 4 KiB, counted in pairs of bytes."""
    at = start
    while (found := data.find(line_end, at, start + _LONGEST)) >= 0:
        if (found - start) % 2 == 0:
            return found + 2
        at = found + 1
    return None
