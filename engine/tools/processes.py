"""Running a command: its output pumped as it comes, its end awaited, and nothing left of it when it is told
to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from engine.tools.output import Capture, Cleaner, Live, Shown
from engine.workspace import Refused, create_file, resolve

T = TypeVar("T")

_CHUNK = 1 << 16
_LOG_BYTES = 64 << 20
_TERM_S = 1.4
_KILL_S = 0.4
_DRAIN_S = 0.5


class OutputLog:
    """The whole output of a call in a file of the task's folder, at most 64 MiB, made when it is first
    written to.

    ``path`` is None as long as there is none. A fault of the disk ends the log, not the command.
    """

    def __init__(self, workspace: Path, task_dir: Path, call_id: str) -> None:
        self._workspace = workspace
        self._task_dir = task_dir
        self._name = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)[:100] or "call"
        self._file: BinaryIO | None = None
        self._room = _LOG_BYTES
        self.path: Path | None = None
        self.complete = True

    async def write(self, text: str) -> None:
        """Append ``text``, or what of it there is room for."""
        if self.complete and text:
            await asyncio.to_thread(self._write, text.encode())

    def _write(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._file = self._open()
            self._file.write(data[: self._room])
            self._file.flush()
        except (OSError, Refused):
            self.complete = False
        self.complete = self.complete and len(data) <= self._room
        self._room -= len(data[: self._room])

    def _open(self) -> BinaryIO:
        for number in range(1, 1000):
            name = f"{self._name}.txt" if number == 1 else f"{self._name}-{number}.txt"
            place = resolve(self._workspace, self._task_dir, str(self._task_dir / "logs" / name))
            with contextlib.suppress(FileExistsError):
                file = os.fdopen(create_file(place), "wb")
                self.path = place.path
                return file
        raise Refused("There are too many logs of one call.")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Command:
    """A started command with its output.

    ``status`` is its exit status once it has ended. Made by ``start_command``; whoever made it must see it
    to its end.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        output: BinaryIO,
        budget: int,
        log: OutputLog,
        emit: Callable[[str], None],
    ) -> None:
        self._process = process
        self._budget = budget
        self._capture = Capture(budget)
        self._live = Live(emit, asyncio.get_running_loop().time)
        self._spilled = False
        self._reader = asyncio.StreamReader()
        self._news = asyncio.Event()
        self.log = log
        self._pump = asyncio.create_task(self._pumped(output))

    @property
    def status(self) -> int | None:
        """The exit status: 128 + n if signal n ended the command; None while it runs."""
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    async def ended(self) -> None:
        """Wait for the end of the command and of its output; who keeps the pipe open is not waited for."""
        if await self._process.wait() < 0:
            # Whoever ends commands was killed itself and left its own: at least the group goes now.
            self._signal(signal.SIGKILL)
        await asyncio.wait([self._pump], timeout=_DRAIN_S)
        await self._drop_pump()

    async def end(self) -> None:
        """End the command and all it started: SIGTERM, then SIGKILL; in less than two seconds."""
        for number, seconds in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, _KILL_S)):
            if self._process.returncode is not None:
                break
            self._signal(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), seconds)
        await asyncio.wait([self._pump], timeout=_DRAIN_S)
        await self._drop_pump()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def news(self, seconds: float) -> None:
        """Wait until there is output that was not taken yet, or the command has ended, or ``seconds`` have
        passed.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)

    async def taken(self) -> Shown:
        """The output since the last call of this, within the budget; if some is left out, all of it is in
        the log.
        """
        shown = self._capture.shown()
        if shown.left_out:
            await self._spill()
        self._capture = Capture(self._budget)
        if not self._pump.done():
            self._news.clear()
        return shown

    async def log_from_now(self) -> None:
        """Keep the whole output in the log from its first byte on."""
        await self._spill()

    async def _spill(self) -> None:
        if not self._spilled:
            self._spilled = True
            await self.log.write(self._capture.kept)

    async def _pumped(self, output: BinaryIO) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), output
        )
        cleaner = Cleaner()
        try:
            while (data := await self._next()) != b"":
                await self._take(cleaner.feed(data)) if data else self._live.flush()
        finally:
            transport.close()
            await self._take(cleaner.feed(b"", final=True))
            self._live.flush()
            self._news.set()

    async def _next(self) -> bytes | None:
        """The next bytes; nothing at the end; None when something waits to be shown."""
        try:
            return await asyncio.wait_for(self._reader.read(_CHUNK), self._live.due_in)
        except TimeoutError:
            return None

    async def _take(self, text: str) -> None:
        if not text:
            return
        if self._spilled:
            await self.log.write(text)
        elif self._capture.would_overflow(text):
            await self._spill()
            await self.log.write(text)
        self._capture.add(text)
        self._live.add(text)
        self._news.set()

    async def _drop_pump(self) -> None:
        if not self._pump.done():
            self._pump.cancel()
            await asyncio.wait([self._pump])
        self.log.close()


async def start_command(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    budget: int,
    log: OutputLog,
    emit: Callable[[str], None],
) -> Command:
    """Start ``argv`` in a session of its own, without standard input, terminal or inherited descriptors.

    Raises ``OSError`` if it cannot be started.
    """
    output, end = os.pipe()
    try:
        process = await unbroken(
            asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=end,
                stderr=end,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
            )
        )
    except BaseException:
        os.close(output)
        raise
    finally:
        os.close(end)
    return Command(process, os.fdopen(output, "rb", buffering=0), budget, log, emit)


async def unbroken(work: Coroutine[object, object, T]) -> T:
    """``await work``, to its end also if this task is cancelled meanwhile; the cancellation is for the next
    await.
    """
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    current = asyncio.current_task()
    if cancelled and current is not None:
        current.cancel()
    return task.result()
