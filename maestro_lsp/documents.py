"""A mirror of the editor's open buffers, for the engine that must never overrule unsaved text.

pygls's own is not used: it splits lines where the protocol does not (form feed, U+2028 …), so that after such
a character every edit lands on a wrong line. Lines end with ``\\r\\n``, ``\\n`` or ``\\r`` only.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from maestro_lsp.convert import path_of

_EOL = re.compile(r"\r\n|\n|\r")
_LONE = re.compile(r"[\ud800-\udfff]")
_CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le"}
_UNIT_BYTES = {"utf-8": 1, "utf-16": 2}


@dataclass(frozen=True, slots=True)
class Place:
    """A position: line from 0, character from 0 in units of the position encoding."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Change:
    """One content change: ``text`` in place of what is between ``start`` and ``end``, or of everything."""

    text: str
    start: Place | None = None
    end: Place | None = None


def offset_at(text: str, place: Place, encoding: str) -> int:
    """The index in ``text`` of a position; what lies behind the end of a line or of the text is its end.

    ``encoding`` is ``utf-8``, ``utf-16`` or ``utf-32``. A position inside a character is its beginning.
    """
    start = 0
    if place.line:
        ends = next(islice(_EOL.finditer(text), place.line - 1, None), None)
        if ends is None:
            return len(text)
        start = ends.end()
    following = _EOL.search(text, start)
    end = len(text) if following is None else following.start()
    if place.character >= end - start and encoding == "utf-32":
        return end
    line = text[start:end]
    if line.isascii() or encoding == "utf-32":
        return start + min(place.character, len(line))
    return start + _characters(line, place.character, encoding)


def _characters(line: str, units: int, encoding: str) -> int:
    """How many whole characters of a line fit into so many units."""
    codec, width = _CODECS[encoding], _UNIT_BYTES[encoding]
    if not _LONE.search(line):
        return len(line.encode(codec)[: units * width].decode(codec, "ignore"))
    used = 0  # half a surrogate pair is no text for a decoder, yet a buffer may hold one
    for index, character in enumerate(line):
        used += len(character.encode(codec, "surrogatepass")) // width
        if used > units:
            return index
    return len(line)


def split_lines(text: str) -> list[str]:
    """The lines of a text without their ends."""
    return _EOL.split(text)


def units(text: str, encoding: str) -> int:
    """The length of a text in the units of a position encoding."""
    if text.isascii() or encoding == "utf-32":
        return len(text)
    return len(text.encode(_CODECS[encoding], "surrogatepass")) // _UNIT_BYTES[encoding]


def apply_changes(text: str, changes: Sequence[Change], encoding: str) -> str:
    """The text after changes that were made one after the other."""
    for change in changes:
        if change.start is None or change.end is None:
            text = change.text
            continue
        start = offset_at(text, change.start, encoding)
        end = max(start, offset_at(text, change.end, encoding))
        text = text[:start] + change.text + text[end:]
    return text


def text_between(text: str, start: Place, end: Place, encoding: str) -> str:
    """The part of a text between two positions."""
    return text[offset_at(text, start, encoding) : offset_at(text, end, encoding)]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An open buffer as it was at one moment."""

    version: int | None
    text: str


@dataclass(slots=True)
class _Document:
    path: Path | None
    version: int | None
    text: str
    saved: str | None
    """The text as it was last opened or saved, None if it was opened unlike its file."""


class Documents:
    """The open buffers by URI. Not for several threads."""

    def __init__(self) -> None:
        self.encoding = "utf-16"
        self._open: dict[str, _Document] = {}

    def opened(self, uri: str, version: int | None, text: str) -> None:
        """A buffer was opened."""
        path = path_of(uri)
        self._open[uri] = _Document(None if path is None else real_path(path), version, text, text)

    async def check_opened(self, uri: str) -> None:
        """Compare a buffer that was just opened with its file: an editor may restore unsaved text."""
        document = self._open.get(uri)
        if document is None or document.path is None:
            return
        text = document.text
        on_disk = await asyncio.to_thread(disk_text, document.path)
        if on_disk is not None and _same(document.saved, text) and not _same(on_disk, text):
            document.saved = None

    def changed(self, uri: str, version: int | None, changes: Sequence[Change]) -> None:
        """A buffer was edited; one that is not open is ignored."""
        document = self._open.get(uri)
        if document is not None:
            document.text = apply_changes(document.text, changes, self.encoding)
            document.version = version

    def saved(self, uri: str, text: str | None) -> None:
        """A buffer was saved; ``text`` if the client sent it."""
        document = self._open.get(uri)
        if document is not None:
            document.text = document.text if text is None else text
            document.saved = document.text

    def closed(self, uri: str) -> None:
        """A buffer was closed."""
        self._open.pop(uri, None)

    def text(self, uri: str) -> str | None:
        """The text of an open buffer."""
        document = self._open.get(uri)
        return None if document is None else document.text

    def snapshot(self, uri: str) -> Snapshot | None:
        """An open buffer as it is now."""
        document = self._open.get(uri)
        return None if document is None else Snapshot(document.version, document.text)

    def uris(self) -> list[str]:
        """The open buffers."""
        return list(self._open)

    async def read(self, path: Path) -> dict[str, object] | None:
        """The engine's question for a buffer: ``engine.Buffer`` as plain data, None if it is not open."""
        wanted = real_path(path)
        document = next((found for found in self._open.values() if found.path == wanted), None)
        if document is None:
            return None
        dirty = await self._is_dirty(document)
        return {"text": _sound(document.text), "version": document.version, "dirty": dirty}

    async def dirty(self) -> list[str]:
        """The engine's question for the paths of buffers with unsaved changes."""
        with_file = [document for document in self._open.values() if document.path is not None]
        return [str(document.path) for document in with_file if await self._is_dirty(document)]

    async def _is_dirty(self, document: _Document) -> bool:
        """Whether a buffer differs from its file.

        An editor that reloads a file after somebody wrote it reports a change but no save: text that the file
        holds already is not unsaved.
        """
        if _same(document.saved, document.text):
            return False
        if document.path is None:
            return True
        text = document.text
        if not _same(await asyncio.to_thread(disk_text, document.path), text):
            return True
        document.saved = text
        return False


def real_path(path: Path) -> Path:
    """A path without links, so that two names of a file are one."""
    return Path(os.path.realpath(path))


def disk_text(path: Path) -> str | None:
    """A file's text, None if it cannot be read as UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig") if path.is_file() else None
    except (OSError, UnicodeDecodeError):
        return None


def _same(one: str | None, other: str) -> bool:
    """Equal up to the style of line ends, which editors keep apart from the text, and a byte order mark."""
    if one is None:
        return False
    return one == other or _normal(one) == _normal(other)


def _normal(text: str) -> str:
    return _EOL.sub("\n", text.removeprefix("\ufeff"))


def _sound(text: str) -> str:
    """Without lone surrogates, which no JSON in UTF-8 can carry."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
