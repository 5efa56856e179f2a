"""Server-sent events from bytes, however the network cut them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A CR at the end of the buffer waits for the next byte: it may be half of a CRLF."""
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name (``message`` unless the stream says otherwise) and its data lines, joined by
    newlines.
    """

    data: str
    name: str = "message"


class EventDecoder:
    """Feed it bytes, it gives whole events; invalid UTF-8 becomes U+FFFD. Comments (keep-alives) give
    nothing.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._first = True
        self._data: list[bytes] = []
        self._name = b""

    def feed(self, piece: bytes) -> list[Event]:
        """The events that end within ``piece``."""
        self._buffer += piece
        events: list[Event] = []
        start = 0
        # one byte back: a CR that waited at the end of the last piece
        for match in _LINE_END.finditer(self._buffer, max(0, self._searched - 1)):
            self._line(bytes(self._buffer[start : match.start()]), events)
            start = match.end()
        del self._buffer[:start]
        self._searched = len(self._buffer)
        return events

    def close(self) -> list[Event]:
        """What is left when the stream ends: servers exist that leave out the blank line after the last
        event.
        """
        events: list[Event] = []
        self._line(bytes(self._buffer).rstrip(b"\r"), events)
        self._buffer.clear()
        self._line(b"", events)
        return events

    def _line(self, line: bytes, events: list[Event]) -> None:
        if self._first:
            line = line.removeprefix(_BOM)
            self._first = False
        if not line:
            if self._data:
                data = b"\n".join(self._data).decode("utf-8", "replace")
                events.append(Event(data, self._name.decode("utf-8", "replace") or "message"))
            self._data, self._name = [], b""
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"error":  # older llama-server: a field of its own
            self._data.append(value)
            self._name = b"error"
