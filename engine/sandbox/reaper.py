"""Runs one command, and lets nothing that it started live longer than the command or the engine.

A script for ``python -I -S``, called with the engine's process id and the command. The engine starts it
instead of the command. It is the reaper of its descendants, so that a daemon that left the session
(``setsid``) comes back to it. It ends them all, by SIGTERM and then SIGKILL, when the command has ended,
when it gets a SIGTERM itself, or when the engine is gone. Its status is that of the command, or 128 + n if
signal n ended that.

Only a little of the standard library: every Bash call waits for these imports.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_TERM_S = 0.8
_LEFTOVER_S = 0.3
_KILL_S = 1.0
_LOOK_S = 0.5
_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Reaper:
    """The command's process and its descendants. ``code`` is the command's exit status once it has ended."""

    def __init__(self, engine: int, command: list[str]) -> None:
        self.engine = engine
        self.stopped = False
        self.code: int | None = None
        self.wake, ring = os.pipe()
        os.set_blocking(ring, False)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for stop in _STOPS:
            signal.signal(stop, self._stop)
        _adopt_orphans()
        self.child = os.fork()
        if self.child == 0:
            _become(command)

    def run(self) -> int:
        """Wait for the command, end what is left, and return the status to exit with."""
        while self.reap() and self.code is None and not self.stopped and os.getppid() == self.engine:
            self.wait(_LOOK_S)
        self.end(signal.SIGTERM, _TERM_S if self.code is None else _LEFTOVER_S)
        self.end(signal.SIGKILL, _KILL_S)
        return 128 + signal.SIGKILL if self.code is None else self.code

    def reap(self) -> bool:
        """Collect who has ended; whether anybody is left."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if process == 0:
                return True
            if process == self.child:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code

    def end(self, number: signal.Signals, seconds: float) -> None:
        """Send a signal to every descendant and wait at most ``seconds`` for them; SIGKILL repeatedly."""
        until = time.monotonic() + seconds
        told: set[int] = set()
        while self.reap() and time.monotonic() < until:
            found = _descendants(self.child)
            for process in found if number == signal.SIGKILL else found - told:
                told.add(process)
                _send(process, number)
            self.wait(0.02)

    def wait(self, seconds: float) -> None:
        """Sleep until a signal comes."""
        if select.select([self.wake], [], [], seconds)[0]:
            os.read(self.wake, 4096)

    def _stop(self, number: int, frame: object) -> None:
        self.stopped = True


def _adopt_orphans() -> None:
    if _LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _become(command: list[str]) -> None:
    """Turn this fork into the command, with every signal as a shell expects it."""
    signal.set_wakeup_fd(-1)
    for number in (*_STOPS, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if not _LINUX:
        os.setpgid(0, 0)
    try:
        os.execv(command[0], command)
    except OSError as fault:
        os.write(2, f"{command[0]}: {fault.strerror}\n".encode())
    os._exit(127)


def _send(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except (ProcessLookupError, PermissionError):
        return


def _descendants(child: int) -> set[int]:
    """The living processes below this one; without ``/proc`` the command's process group, as a negative
    number.
    """
    if not _LINUX:
        return {-child}
    below: dict[int, list[int]] = {}
    with os.scandir("/proc") as entries:
        for name in [entry.name for entry in entries if entry.name.isdecimal()]:
            below.setdefault(_parent_of(name), []).append(int(name))
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        new = below.get(todo.pop(), [])
        found.update(new)
        todo += new
    return found


def _parent_of(process: str) -> int:
    try:
        stat = os.open(f"/proc/{process}/stat", os.O_RDONLY)
    except OSError:
        return -1
    try:
        return int(os.read(stat, 4096).rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return -1
    finally:
        os.close(stat)


if __name__ == "__main__":
    sys.exit(Reaper(int(sys.argv[1]), sys.argv[2:]).run())
