"""From the bytes of a response body to a ``Reply``: event stream or one JSON body, told apart by its first
byte. Pure.
"""

from __future__ import annotations

import json
from typing import Any

from engine.core.reply import Delta, Reply
from engine.llm.normalise import BROKEN_REASONS, CallIds, ReplyBuilder
from engine.llm.sse import Event, EventDecoder
from engine.llm.textcalls import Tools

_BOM = b"\xef\xbb\xbf"
_DECODER = json.JSONDecoder(strict=False)
MAX_BYTES = 32 * 1024 * 1024


class UnusableReply(Exception):
    """The body is no reply. ``kind``: ``cut``, ``too_large``, ``page`` (HTML), ``garbage`` or ``error`` (then
    ``error`` holds it).
    """

    def __init__(self, kind: str, error: object = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.error = error


class ReplyReader:
    """Feed it the bytes of a body as they come, then ``end``. The content type is not asked: servers leave it
    out or lie.
    """

    def __init__(self, tools: Tools | None = None) -> None:
        self._builder = ReplyBuilder(tools)
        self._events = EventDecoder()
        self._body = bytearray()
        self._size = 0
        self._kind = ""
        self._chunks = 0
        self._done = False

    @property
    def finished(self) -> bool:
        """True if nothing but usage can follow: a finish reason or ``[DONE]`` was seen."""
        return self._done or self._builder.finish_reason is not None

    def feed(self, piece: bytes) -> list[Delta]:
        """What can be shown of this piece. Raises ``UnusableReply``."""
        self._size += len(piece)
        if self._size > MAX_BYTES:
            raise UnusableReply("too_large")
        if self._kind != "stream":
            self._body += piece
            if not self._kind and not self._sniff():
                return []
            if self._kind == "body":
                return []
            piece = bytes(self._body)
            self._body.clear()
        return self._take(self._events.feed(piece))

    def end(self, ids: CallIds, *, seconds: float = 0.0, model: str = "") -> tuple[list[Delta], Reply]:
        """The last pieces to show, and the reply, when the body has come to its end.

        A stream is whole if a finish reason or ``[DONE]`` was seen; a body without any chunk is an empty
        reply, which the caller counts. Raises ``UnusableReply``.
        """
        if self._kind == "body":
            deltas = self._whole_body()
        else:
            deltas = self._take(self._events.close())
            if self._chunks and not self.finished:
                raise UnusableReply("cut")
        if self._builder.finish_reason in BROKEN_REASONS:
            raise UnusableReply("error", {"message": f"finish reason {self._builder.finish_reason}"})
        return deltas, self._builder.build(ids, seconds=seconds, model=model)

    def _sniff(self) -> bool:
        if _BOM.startswith(self._body):
            return False
        self._body = self._body.removeprefix(_BOM).lstrip()  # servers that wait send line ends meanwhile
        start = self._body[:1]
        if not start:
            return False
        self._kind = {b"{": "body", b"[": "body", b"<": "page"}.get(bytes(start), "stream")
        if self._kind == "page":
            raise UnusableReply("page")
        return True

    def _take(self, events: list[Event]) -> list[Delta]:
        deltas: list[Delta] = []
        for event in events:
            data = event.data.strip()
            while not self._done and data.startswith(("{", "[{", "[DONE]")):  # else a keep-alive
                if data.startswith("[DONE]"):
                    self._done = True
                    break
                chunk, data = self._chunk(data, event.name)
                deltas += self._builder.feed(chunk)
                self._chunks += 1
                if self._builder.error is not None:
                    raise UnusableReply("error", self._builder.error)
        return deltas

    def _chunk(self, data: str, name: str) -> tuple[dict[str, Any], str]:
        """The first chunk of an event, and what follows it: servers exist that leave out the blank lines."""
        try:
            parsed, end = _DECODER.raw_decode(data)
        except (ValueError, RecursionError) as error:
            raise UnusableReply("cut" if name != "error" else "error", {"message": data[:300]}) from error
        chunk: dict[str, Any] = parsed[0] if isinstance(parsed, list) else parsed
        whole = {"error": chunk} if name == "error" and "error" not in chunk else chunk
        return whole, data[end:].lstrip()

    def _whole_body(self) -> list[Delta]:
        try:
            body = json.loads(bytes(self._body).decode("utf-8-sig", "replace"), strict=False)
        except (ValueError, RecursionError) as error:
            raise UnusableReply("cut") from error
        if isinstance(body, list) and len(body) == 1:
            body = body[0]  # Gemini puts its errors into an array
        if not isinstance(body, dict) or not ({"choices", "error", "object"} & set(body)):
            raise UnusableReply("garbage")
        deltas = self._builder.feed(body, whole=True)
        if self._builder.error is not None:
            raise UnusableReply("error", self._builder.error)
        return deltas
