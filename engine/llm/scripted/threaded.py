"""The scripted model in a thread of its own, for code without an event loop: synchronous tests, the demo."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from engine.llm.scripted.script import Script, Step
from engine.llm.scripted.server import ScriptedServer, ServerOptions


class ThreadedServer:
    """A ``ScriptedServer`` in a thread with a loop of its own, for code that has none. Made by
    ``serve_in_thread``.
    """

    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="scripted-model", daemon=True)

    @property
    def base_url(self) -> str:
        """The base URL up to and with ``/v1``."""
        return self.server.base_url

    @property
    def requests(self) -> list[bytes]:
        """Raw bodies of the chat requests in order."""
        return self.server.requests

    def bodies(self) -> list[dict[str, Any]]:
        """The kept chat requests, parsed."""
        return self.server.bodies()

    def wait_requests(self, count: int, timeout: float = 10.0) -> None:
        """Blocks until ``count`` chat requests have arrived in total. Raises ``TimeoutError``."""
        self.server.wait_requests(count, timeout)

    def wait_aborted(self, count: int, timeout: float = 10.0) -> None:
        """Blocks until the client has left ``count`` answers unfinished. Raises ``TimeoutError``."""
        self.server.wait_aborted(count, timeout)

    def start(self) -> None:
        """Starts the server and returns when it listens. Raises what the server raised, such as ``OSError``
        for a used port.
        """
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Ends all connections and the thread."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=10)

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self.server:
            self._ready.set()
            await self._stop.wait()


@contextlib.contextmanager
def serve_in_thread(
    script: Script | Iterable[Step] | Step, port: int = 0, options: ServerOptions | None = None
) -> Iterator[ThreadedServer]:
    """The scripted model for code without an event loop: ``with serve_in_thread(script) as server:
    server.base_url``.
    """
    hosted = ThreadedServer(ScriptedServer(script, port, options))
    hosted.start()
    try:
        yield hosted
    finally:
        hosted.stop()
