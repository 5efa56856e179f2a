"""The front's side of its engine process: start it, talk to it, notice its death, start the next one."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from engine.processes import keep_private

log = logging.getLogger("engine")

_STOP_S = 3.0
_LIMIT = 64 * 1024 * 1024
BACKOFF_S = (0.0, 0.5, 2.0, 10.0)
"""Waits before the next start after deaths in a row; a process that lived a minute starts the count anew."""


def encode_line(message: dict[str, Any]) -> bytes:
    """A message as one line. Paths may hold what is no text (file names in other encodings): that is escaped,
    which not every reader of JSON takes, but ``decode_line`` does.
    """
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(message), separators=(",", ":")).encode() + b"\n"


def decode_line(line: bytes) -> Any:
    """What ``encode_line`` wrote. Raises ``ValueError`` for anything else."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return json.loads(line)


class EngineProcess:
    """At most one engine process. ``hello()`` makes its first message; ``on_message(dict)`` gets what it
    says; ``on_exit(status)`` its end.
    """

    def __init__(
        self,
        argv: Sequence[str],
        hello: Callable[[], dict[str, Any]],
        on_message: Callable[[dict[str, Any]], Awaitable[None]],
        on_exit: Callable[[int], Awaitable[None]],
    ) -> None:
        self._argv = list(argv)
        self._hello = hello
        self._on_message = on_message
        self._on_exit = on_exit
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._stopping = False
        self._deaths = 0
        self._started_at = 0.0

    @property
    def pid(self) -> int | None:
        """The process's id while it lives."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def ensure(self) -> None:
        """Start the process unless it lives; then wake it. Raises ``OSError`` if it cannot be started."""
        async with self._starting:
            if self.pid is None:
                await asyncio.sleep(BACKOFF_S[min(self._deaths, len(BACKOFF_S) - 1)])
            if self._stopping:
                return
            if self.pid is None:
                await self._start()
        self.send({"kind": "wake"})

    async def _start(self) -> None:
        keep_private()  # from now on commands run below this process
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=None,
            limit=_LIMIT,
            start_new_session=True,
            env={**os.environ, "MAESTRO_ENGINE_PROCESS": "1"},
        )
        self._started_at = asyncio.get_running_loop().time()
        self.send(self._hello())
        self._reader = asyncio.create_task(self._read(self._process), name="engine process")

    def send(self, message: dict[str, Any]) -> None:
        """Send a message if the process lives; what is lost with a dead one is in the store anyway."""
        process = self._process
        if (
            process is None
            or process.stdin is None
            or process.returncode is not None
            or process.stdin.is_closing()
        ):
            return
        with suppress(OSError, RuntimeError):
            process.stdin.write(encode_line(message))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        with suppress(OSError, ValueError):
            while line := await process.stdout.readline():
                await self._take(line)
        status = await process.wait()
        lived = asyncio.get_running_loop().time() - self._started_at
        self._deaths = 0 if status == 0 or lived > 60 else self._deaths + 1
        if not self._stopping:
            log.info("the engine process ended with status %s", status)
            await self._on_exit(status)

    async def _take(self, line: bytes) -> None:
        """A message that cannot be handled must not end the reading: then nobody would notice the engine's
        death.
        """
        try:
            await self._on_message(decode_line(line))
        except Exception as error:
            log.error("a message of the engine process could not be handled: %s", type(error).__name__)

    async def stop(self) -> None:
        """End the process in order; what does not end in time is killed. Running jobs go on with the next
        engine.
        """
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._reader is not None:
            self._reader.cancel()
