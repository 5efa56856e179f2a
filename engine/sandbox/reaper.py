"""Runs one command, and lets nothing that it started live longer than the command or the engine.

A script for ``python -I -S``, called with the engine's process id and the command. The engine starts it
instead of the command. It is the reaper of its descendants, so that a daemon that left the session
(``setsid``) comes back to it. It ends them all, by SIGTERM and then SIGKILL, when the command has ended,
when it gets a SIGTERM itself, or when the engine is gone. Its status is that of the command, or 128 + n if
signal n ended that. It holds none of the command's pipes, so that nothing of its own gets into the output.

The command has a process group of its own: ``kill 0`` in it does not reach the reaper. Should the reaper be
killed, the command goes with it (Linux), and the engine ends the rest by the mark in their environment.

Only a little of the standard library: every Bash call waits for these imports.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time

_TERM_S = 0.7
_LEFTOVER_S = 0.3
_KILL_S = 1.0
_LOOK_S = 0.5
_LEAD_S = 10.0
_SET_DEATH_SIGNAL = 1
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
        _prctl(_SET_CHILD_SUBREAPER, 1)
        self.group = _new_group()
        self.child = os.fork()
        if self.child == 0:
            _become(command, self.group)
        _join(self.child, self.group)
        os.kill(self.group, signal.SIGKILL)
        _let_go()
        self.watched = [self.wake, *_death_of(engine)]

    def run(self) -> int:
        """Wait for the command, end what is left, and return the status to exit with."""
        while self.reap() and self.code is None and not self.stopped and os.getppid() == self.engine:
            self.wait(_LOOK_S, self.watched)
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
        """Send a signal to every descendant and wait at most ``seconds`` for them; SIGKILL repeatedly, and to
        whole groups, for nobody in a group can fork away from it.
        """
        until = time.monotonic() + seconds
        told: set[int] = set()
        while self.reap() and time.monotonic() < until:
            found = self.descendants()
            if number == signal.SIGKILL:
                for group in set(found.values()) - {os.getpgrp()}:
                    _send(-group, number)
                told.clear()
            for process in found.keys() - told:
                told.add(process)
                _send(process, number)
            self.wait(0.01, [self.wake])

    def descendants(self) -> dict[int, int]:
        """The living processes below this one, each with its group; without ``/proc`` the command's group."""
        if not _LINUX:
            return {-self.group: self.group}
        below: dict[int, list[tuple[int, int]]] = {}
        with os.scandir("/proc") as entries:
            for name in [entry.name for entry in entries if entry.name.isdecimal()]:
                parent, group = _parent_and_group(name)
                below.setdefault(parent, []).append((int(name), group))
        found: dict[int, int] = {}
        todo = [os.getpid()]
        while todo:
            new = below.get(todo.pop(), [])
            found.update(new)
            todo += [process for process, _ in new]
        return found

    def wait(self, seconds: float, watched: list[int]) -> None:
        """Sleep until a signal comes or the engine ends."""
        ready = select.select(watched, [], [], seconds)[0]
        if self.wake in ready:
            os.read(self.wake, 4096)
        self.stopped = self.stopped or any(descriptor != self.wake for descriptor in ready)

    def _stop(self, number: int, frame: object) -> None:
        self.stopped = True


def _prctl(option: int, value: int) -> None:
    if _LINUX:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _new_group() -> int:
    """A process group that is led by a process which only waits to be ended, as soon as there is a member.

    The command must not lead it: ``setsid`` goes into the background if it is the leader of a group.
    """
    leader = os.fork()
    if leader == 0:
        time.sleep(_LEAD_S)
        os._exit(0)
    _join(leader, leader)
    return leader


def _join(process: int, group: int) -> None:
    """Put a process into a group, unless it is the command already and has joined by itself."""
    try:
        os.setpgid(process, group)
    except OSError:
        return


def _death_of(engine: int) -> list[int]:
    """A descriptor that tells at once when the engine has ended, where the system has such; else nobody
    tells, and it is looked at twice a second.
    """
    try:
        return [os.pidfd_open(engine)]
    except (AttributeError, OSError):
        return []


def _let_go() -> None:
    """Leave the command's output to the command."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _become(command: list[str], group: int) -> None:
    """Turn this fork into the command, with every signal as a shell expects it. It never returns."""
    try:
        reaper = os.getppid()
        signal.set_wakeup_fd(-1)
        for number in (*_STOPS, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        _join(0, group)
        _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() == reaper:
            _hold_back()
            os.execv(command[0], command)
    except OSError as fault:
        os.write(2, f"{command[0]}: {fault.strerror}\n".encode())
    finally:
        os._exit(127)


def _hold_back() -> None:
    """No core dumps; and if memory runs out the command goes before the engine and the editor do."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if _LINUX:
            score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
            os.write(score, b"500")
            os.close(score)
    except (OSError, ValueError):
        return


def _send(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except (ProcessLookupError, PermissionError):
        return


def _parent_and_group(process: str) -> tuple[int, int]:
    try:
        stat = os.open(f"/proc/{process}/stat", os.O_RDONLY)
    except OSError:
        return -1, 0
    try:
        fields = os.read(stat, 4096).rpartition(b")")[2].split()
        return int(fields[1]), int(fields[2])
    except (OSError, IndexError, ValueError):
        return -1, 0
    finally:
        os.close(stat)


def main() -> int:
    """The status to exit with. A reaper that fails ends by SIGKILL, so that the engine looks for the rest."""
    try:
        return Reaper(int(sys.argv[1]), sys.argv[2:]).run()
    except BaseException:
        os.kill(os.getpid(), signal.SIGKILL)
        raise


if __name__ == "__main__":
    sys.exit(main())
