"""Who a process is, and whether it still lives: pid, start time and boot id together, because pids are used
again. What a process started is known by a mark in its environment, which all its descendants inherit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import msgspec

from engine.core.jobs import Owner

MARK = "MAESTRO_COMMAND"
"""The environment variable by which a command and all it started can be found."""

_PROC_ENVIRON = Path("/proc/self/environ")
_SET_DUMPABLE = 4
_END_S = 1.0
_KEEP_S = 30 * 86_400.0


def this_process(token: str) -> Owner:
    """This process as an owner of jobs; ``token`` must be unique."""
    pid = os.getpid()
    return Owner(token=token, pid=pid, start=start_time(pid), boot=boot_id())


def boot_id() -> str:
    """An id of the running boot, empty where the system has none to read."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def start_time(pid: int) -> str:
    """When a process started, in the system's own form; empty if it does not exist or cannot be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        fields = stat.rpartition(")")[2].split()
        return "" if fields[0] in ("Z", "X") else fields[19]
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return ""
    try:
        shown = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
        )
        return shown.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def known_dead(owner_pid: int, owner_start: str, owner_boot: str) -> bool:
    """True only if the owner certainly no longer lives. Another boot may be another machine: then its lease
    decides.
    """
    if owner_boot != boot_id() or not owner_pid:
        return False
    started = start_time(owner_pid)
    if started:
        return started != owner_start
    try:
        os.kill(owner_pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return bool(owner_boot)


def keep_private() -> None:
    """Shut this process's memory, environment and descriptors to other processes of the same person (Linux):
    a command could else read the key, or write into the protocol, through ``/proc``. Root is not stopped.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)


class _Note(msgspec.Struct, frozen=True):
    """Which engine a running command belongs to."""

    pid: int
    start: str
    boot: str


class CommandMarks:
    """A mark for each running command, in its environment and as a file of ``folder``.

    If the engine and the command's reaper are killed together, the next engine finds what was left of the
    command by it. It is random, so no process that was not started by the command can have it. Without
    ``/proc`` nothing can be found, and without ``folder`` nothing is kept. Every method reads or writes
    files: not for an event loop.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def new(self) -> str:
        """A mark for the environment variable ``MARK``, written down before the command is started."""
        mark = uuid4().hex
        if self._folder is not None and _PROC_ENVIRON.exists():
            me = this_process(mark)
            with contextlib.suppress(OSError):  # a full disk must not keep commands from running
                self._folder.mkdir(mode=0o700, exist_ok=True)
                (self._folder / mark).write_bytes(msgspec.json.encode(_Note(me.pid, me.start, me.boot)))
        return mark

    def ended(self, mark: str, *, look: bool) -> None:
        """Forget a mark; with ``look`` after what still bears it was ended."""
        if look:
            _end_marked(mark)
        if self._folder is not None:
            with contextlib.suppress(OSError):
                (self._folder / mark).unlink()

    def end_left(self) -> None:
        """End what is left of the commands of engines that certainly no longer live."""
        if self._folder is None or not self._folder.is_dir():
            return
        for path in list(self._folder.iterdir()):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                owner = msgspec.json.decode(path.read_bytes(), type=_Note)
                if known_dead(owner.pid, owner.start, owner.boot):
                    self.ended(path.name, look=True)
                elif owner.boot != boot_id() and time.time() - path.stat().st_mtime > _KEEP_S:
                    path.unlink()


def _end_marked(mark: str) -> None:
    """SIGKILL to whoever bears the mark, until nobody does or a second has passed."""
    until = time.monotonic() + _END_S
    while any([_end_if_marked(process, mark) for process in _all_processes()]):
        if time.monotonic() > until:
            return
        time.sleep(0.01)


def _all_processes() -> list[int]:
    try:
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    except OSError:
        return []


def _end_if_marked(process: int, mark: str) -> bool:
    """Whether the process bore the mark. Its id cannot come to mean another one between look and signal."""
    try:
        handle = os.pidfd_open(process)
    except (AttributeError, OSError):
        return False
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes()
        if f"{MARK}={mark}".encode() not in environment.split(b"\0"):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
