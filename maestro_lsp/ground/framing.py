"""``Content-Length`` framing without IO: bytes in, frames out, with caps.

pygls 2.1.1 has no limit (a ``Content-Length`` of 100 GB ends in a MemoryError) and waits for ever after a
header it does not understand. Here a header block is capped, a line that is no header breaks the framing at
once, and a message above the cap is skipped as it arrives (an editor may sync a file of 40 MB) or, when
absurd, breaks the framing. Unknown headers are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MAX_BODY = 32 << 20
"""Bytes of the longest message that is read."""

MAX_SKIPPED = 1 << 30
"""Bytes of the longest message that is skipped; a longer one ends the connection."""

MAX_HEADER = 8 << 10
"""Bytes of the longest header block, blank lines before it included."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The body of one message."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Oversize:
    """A message of ``length`` bytes that is skipped."""

    length: int


class BrokenFraming(Exception):
    """What was sent is no LSP framing; nothing after it can be understood. The text is one sentence."""


class FrameParser:
    """Cuts a byte stream into frames; chunks may be split anywhere."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skip = 0
        self._body_length: int | None = None
        self._start_header()

    def _start_header(self) -> None:
        self._header_bytes = 0
        self._header_lines = 0
        self._content_length: int | None = None

    @property
    def mid_message(self) -> bool:
        """Whether a message has begun and is not complete."""
        return bool(self._buffer) or self._skip > 0 or self._body_length is not None or self._header_lines > 0

    def feed(self, data: bytes) -> Iterator[Frame | Oversize]:
        """The frames that ``data`` completes. Exhaust the iterator. Raises `BrokenFraming`."""
        self._buffer += data
        while (item := self._next()) is not None:
            yield item

    def _next(self) -> Frame | Oversize | None:
        if self._skip:
            dropped = min(self._skip, len(self._buffer))
            del self._buffer[:dropped]
            self._skip -= dropped
            if self._skip:
                return None
        if self._body_length is None:
            self._body_length = self._read_header()
        if self._body_length is None:
            return None
        if self._body_length > MAX_BODY:
            item = Oversize(self._body_length)
            self._skip, self._body_length = self._body_length, None
            return item
        if len(self._buffer) < self._body_length:
            return None
        body = bytes(self._buffer[: self._body_length])
        del self._buffer[: self._body_length]
        self._body_length = None
        return Frame(body)

    def _read_header(self) -> int | None:
        """Consume whole header lines; the length of the body after the blank line, ``None`` before it."""
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end]).strip()
            del self._buffer[: end + 1]
            self._header_bytes += end + 1
            self._check_header_size(0)
            if line:
                self._read_header_line(line)
            elif self._header_lines:
                length = self._content_length
                if length is None:
                    raise BrokenFraming("A message has no Content-Length header.")
                self._start_header()
                return length
        self._check_header_size(len(self._buffer))
        return None

    def _check_header_size(self, unfinished: int) -> None:
        if self._header_bytes + unfinished > MAX_HEADER:
            raise BrokenFraming(f"A header block is longer than {MAX_HEADER} bytes.")

    def _read_header_line(self, line: bytes) -> None:
        self._header_lines += 1
        name, colon, value = line.partition(b":")
        if not colon:
            raise BrokenFraming(
                "A line where a header should be has no colon: this is not the LSP base protocol."
            )
        if name.strip().lower() != b"content-length":
            return
        digits = value.strip()
        if not digits.isdigit() or len(digits) > 20:
            raise BrokenFraming("A Content-Length header is not a number.")
        self._content_length = int(digits)
        if self._content_length > MAX_SKIPPED:
            raise BrokenFraming(
                f"A message of {self._content_length} bytes was announced; "
                f"messages up to {MAX_BODY} bytes are read."
            )


def frame(body: bytes) -> bytes:
    """``body`` with its header, ready to be written."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
