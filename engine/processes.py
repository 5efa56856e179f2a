"""Who a process is, and whether it still lives: pid, start time and boot id together, because pids are used
again.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from engine.core.jobs import Owner


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
