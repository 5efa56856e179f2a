"""JSON lines between the front and its engine process.

front → engine: ``hello`` (workspace, state, configuration), ``wake``, ``cancel``, ``answer`` (to an ``ask``).
engine → front: ``ready``, ``stored`` (look at the store), ``live`` (an event that is never stored), ``ask``
(an open buffer, the dirty ones).
The end of the engine's input ends the engine. Threads do the reading and writing, so that a stalled peer
never holds an event loop.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from engine.ports import Buffer
from engine.process import decode_line, encode_line

MAX_LINE = 64 * 1024 * 1024
_ANSWER_S = 5.0
_LIVE_QUEUE = 10_000


class LineChannel:
    """Reads and writes JSON lines on two binary files, from threads of its own."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._in: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="link-in", daemon=True).start()
        self._writer = threading.Thread(target=self._write, name="link-out", daemon=True)
        self._writer.start()

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message. Streaming that nobody reads is dropped; anything else is kept."""
        if message.get("kind") == "live" and self._out.qsize() > _LIVE_QUEUE:
            return
        self._out.put(encode_line(message))

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._in.get()) is not None:
            yield message

    def close(self) -> None:
        """Write what is queued, then stop writing."""
        self._out.put(None)
        self._writer.join(timeout=1.0)

    def _read(self) -> None:
        try:
            while line := self._source.readline(MAX_LINE):
                try:
                    message = decode_line(line)
                except ValueError:
                    continue
                if isinstance(message, dict):
                    self._loop.call_soon_threadsafe(self._in.put_nowait, message)
        except (OSError, ValueError):
            pass
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._in.put_nowait, None)

    def _write(self) -> None:
        try:
            while (line := self._out.get()) is not None:
                self._sink.write(line)
                if self._out.empty():
                    self._sink.flush()
            self._sink.flush()
        except (OSError, ValueError):
            pass


def private_stdio() -> tuple[BinaryIO, BinaryIO]:
    """This process's stdin and stdout for the link alone; everybody else's prints go to stderr and nobody
    inherits the link.
    """
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return source, sink


class FrontDocuments:
    """The editor's buffers, asked from the front over the link. An unanswered question counts as "not
    open".
    """

    def __init__(self, channel: LineChannel) -> None:
        self._channel = channel
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._next = 0

    def answered(self, message: dict[str, Any]) -> None:
        """Take an ``answer`` message."""
        future = self._waiting.pop(int(message.get("id", -1)), None)
        if future is not None and not future.done():
            future.set_result(message.get("value"))

    async def _ask(self, what: str, **values: object) -> Any:
        self._next += 1
        number = self._next
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._channel.send({"kind": "ask", "id": number, "what": what, **values})
        try:
            return await asyncio.wait_for(future, _ANSWER_S)
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(number, None)

    async def read(self, path: Path) -> Buffer | None:
        """The open buffer of a path, or None."""
        value = await self._ask("read", path=str(path))
        return None if value is None else msgspec.convert(value, Buffer)

    async def dirty(self) -> Sequence[Path]:
        """The paths of buffers with unsaved changes."""
        return [Path(path) for path in await self._ask("dirty") or ()]


class NoDocuments:
    """There is no editor: nothing is open."""

    async def read(self, path: Path) -> Buffer | None:
        """Never open."""
        return None

    async def dirty(self) -> Sequence[Path]:
        """Never dirty."""
        return ()
