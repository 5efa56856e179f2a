"""From the bytes of a response body to a ``Reply``: event stream or one JSON body, told apart by its first
byte. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from engine.core.reply import Delta, Reply
from engine.llm.normalise import BROKEN_REASONS, CallIds, ReplyBuilder
from engine.llm.sse import Event, EventDecoder

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

    def __init__(self, known: Collection[str] = ()) -> None:
        self._builder = ReplyBuilder(known)
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
        start = bytes(self._body[:64]).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not start:
            return False
        self._kind = {b"{": "body", b"[": "body", b"<": "page"}.get(start[:1], "stream")
        if self._kind == "page":
            raise UnusableReply("page")
        return True

    def _take(self, events: list[Event]) -> list[Delta]:
        deltas: list[Delta] = []
        for event in events:
            data = event.data.strip()
            if self._done or not data.startswith(("{", "[DONE]")):
                continue  # keep-alives in a data line
            if data == "[DONE]":
                self._done = True
                continue
            shown = self._builder.feed(self._chunk(data, event.name))
            self._chunks += 1
            if self._builder.error is not None:
                raise UnusableReply("error", self._builder.error)
            deltas += shown
        return deltas

    def _chunk(self, data: str, name: str) -> dict[str, Any]:
        try:
            chunk: dict[str, Any] = json.loads(data, strict=False)
        except (ValueError, RecursionError) as error:
            raise UnusableReply("cut" if name != "error" else "error", {"message": data[:300]}) from error
        return {"error": chunk} if name == "error" and "error" not in chunk else chunk

    def _whole_body(self) -> list[Delta]:
        try:
            body = json.loads(bytes(self._body).decode("utf-8-sig", "replace"), strict=False)
        except (ValueError, RecursionError) as error:
            raise UnusableReply("cut") from error
        if not isinstance(body, dict) or not ({"choices", "error", "object"} & set(body)):
            raise UnusableReply("garbage")
        deltas = self._builder.feed(body, whole=True)
        if self._builder.error is not None:
            raise UnusableReply("error", self._builder.error)
        return deltas
