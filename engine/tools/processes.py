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
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

from engine.processes import MARK, CommandMarks
from engine.tools.output import Capture, Cleaner, Live, Overwriting, Shown
from engine.workspace import Refused, create_file, resolve

T = TypeVar("T")

_CHUNK = 1 << 15
_LOG_BYTES = 64 << 20
_TERM_S = 1.2
_KILL_S = 0.3
_DRAIN_S = 0.3
_DRAINS = 5
"""How often ``_DRAIN_S`` is waited for the last output while some comes: a busy machine reads slowly."""


class OutputLog:
    """The whole output of a call in a file of the task's folder, at most 64 MiB, made when it is first
    written to.

    ``path`` is None as long as there is none; ``kept`` bytes are in it, which is everything while it is
    ``complete``. A fault of the disk, told in ``fault``, ends the log, not the command.
    """

    def __init__(self, workspace: Path, task_dir: Path, call_id: str) -> None:
        self._workspace = workspace
        self._task_dir = task_dir
        self._name = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)[:100] or "call"
        self._file: BinaryIO | None = None
        self.path: Path | None = None
        self.kept = 0
        self.complete = True
        self.fault = ""

    async def write(self, text: str) -> None:
        """Append ``text``, or what of it there is room for."""
        if self.complete and text:
            await unbroken(asyncio.to_thread(self._write, text.encode()))

    def _write(self, data: bytes) -> None:
        room = _LOG_BYTES - self.kept
        if len(data) > room:
            self.complete = False
            data = data[:room].decode("utf-8", "ignore").encode()
        try:
            if self._file is None:
                self._file = self._open()
            while data:
                written = self._file.write(data)
                self.kept += written
                data = data[written:]
        except (OSError, Refused) as fault:
            self.complete = False
            self.fault = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)

    def _open(self) -> BinaryIO:
        for number in range(1, 1000):
            name = f"{self._name}.txt" if number == 1 else f"{self._name}-{number}.txt"
            place = resolve(self._workspace, self._task_dir, str(self._task_dir / "logs" / name))
            with contextlib.suppress(FileExistsError):
                # Without a buffer: what was written is there, and what was not is known.
                file: BinaryIO = os.fdopen(create_file(place), "wb", buffering=0)
                self.path = place.path
                return file
        raise Refused("there are too many logs of one call")

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
        forget: Callable[[bool], None],
    ) -> None:
        self._process = process
        self._forget = forget
        self._forgotten = False
        self._budget = budget
        self._capture = Capture(budget)
        self._live = Live(emit, asyncio.get_running_loop().time)
        self._lines = Overwriting()
        self._spilled = False
        self._reader = asyncio.StreamReader()
        self._news = asyncio.Event()
        self._in_order = asyncio.Lock()
        self._pieces = 0
        self.log = log
        self._pump = asyncio.create_task(self._pumped(output))

    @property
    def status(self) -> int | None:
        """The exit status: 128 + n if signal n ended the command; None while it runs."""
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    async def ended(self) -> None:
        """Wait for the end of the command and of its output; who keeps the pipe open is not waited for."""
        await self._process.wait()
        await self._leave_nothing()

    async def end(self) -> None:
        """End the command and all it started: SIGTERM, then SIGKILL; in less than two seconds."""
        for number, seconds in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, _KILL_S)):
            if self._process.returncode is not None:
                break
            self._signal(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), seconds)
        await self._leave_nothing()

    async def _leave_nothing(self) -> None:
        """What the reaper could not end goes now, and the last output is taken."""
        if not self._forgotten:
            code = self._process.returncode
            failed = code is None or code < 0 or code == 128 + signal.SIGKILL
            await asyncio.to_thread(self._forget, failed)
            self._forgotten = True
        for _ in range(_DRAINS):
            before = self._pieces
            await asyncio.wait([self._pump], timeout=_DRAIN_S)
            if self._pump.done() or self._pieces == before:
                break
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
        async with self._in_order:
            await self._keep(self._lines.release())
            shown = self._capture.shown()
            if shown.left_out:
                await self._spill()
            self._capture = Capture(self._budget)
            if not self._pump.done():
                self._news.clear()
            return shown

    async def log_from_now(self) -> None:
        """Keep the whole output in the log from its first byte on."""
        async with self._in_order:
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
            await self._take(cleaner.feed(b"", final=True), final=True)
            self._live.flush()
            self._news.set()

    async def _next(self) -> bytes | None:
        """The next bytes; nothing at the end; None when something waits to be shown."""
        try:
            return await asyncio.wait_for(self._reader.read(_CHUNK), self._live.due_in)
        except TimeoutError:
            return None

    async def _take(self, text: str, *, final: bool = False) -> None:
        self._pieces += 1
        async with self._in_order:
            await self._keep(self._lines.feed(text) + (self._lines.final() if final else ""))
            if text:
                self._live.add(text)
                self._news.set()

    async def _keep(self, text: str) -> None:
        if self._spilled:
            await self.log.write(text)
        elif self._capture.would_overflow(text):
            await self._spill()
            await self.log.write(text)
        self._capture.add(text)

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
    marks: CommandMarks,
) -> Command:
    """Start ``argv`` in a session of its own, without standard input, terminal or inherited descriptors, and
    with a mark in its environment.

    Raises ``OSError`` if it cannot be started.
    """
    mark = await asyncio.to_thread(marks.new)
    forget = partial(_forget, marks, mark)
    try:
        process, output = await _started(argv, {**env, MARK: mark}, cwd)
    except BaseException:
        await unbroken(asyncio.to_thread(forget, False))
        raise
    return Command(process, os.fdopen(output, "rb", buffering=0), budget, log, emit, forget)


def _forget(marks: CommandMarks, mark: str, look: bool) -> None:
    marks.ended(mark, look=look)


async def _started(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path
) -> tuple[asyncio.subprocess.Process, int]:
    output, end = os.pipe()
    try:
        process = await unbroken(
            asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=end,
                stderr=end,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        )
    except BaseException:
        os.close(output)
        raise
    finally:
        os.close(end)
    return process, output


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
