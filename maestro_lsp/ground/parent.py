"""Notices when another process (the editor) has ended, on the running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable

POLL_SECONDS = 1.0


def watch_process(pid: int, on_end: Callable[[], None]) -> Callable[[], None]:
    """Call ``on_end`` once on the loop when process ``pid`` has ended; the function returned ends the watch.

    A process that is not there now is not watched: the client speaks to us, so its id must belong to
    another pid namespace (an editor outside our container). On Windows nothing is watched (``os.kill(pid,
    0)`` would end the process there); the end of stdin covers it.
    """
    if sys.platform == "win32" or pid <= 0 or not _is_there(pid):
        return lambda: None
    loop = asyncio.get_running_loop()
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(
            OSError
        ):  # an old kernel, or the process ended just now: the poll says which
            return _watch_pidfd(loop, os.pidfd_open(pid), on_end)
    return _watch_by_polling(loop, pid, on_end)


def _watch_pidfd(loop: asyncio.AbstractEventLoop, fd: int, on_end: Callable[[], None]) -> Callable[[], None]:
    open_fds = [fd]

    def close() -> None:
        while open_fds:
            loop.remove_reader(open_fds[0])
            os.close(open_fds.pop())

    def ended() -> None:
        close()
        on_end()

    loop.add_reader(fd, ended)
    return close


def _watch_by_polling(
    loop: asyncio.AbstractEventLoop, pid: int, on_end: Callable[[], None]
) -> Callable[[], None]:
    timers: list[asyncio.TimerHandle] = []

    def look() -> None:
        timers[:] = [loop.call_later(POLL_SECONDS, look)] if _is_there(pid) else []
        if not timers:
            on_end()

    def close() -> None:
        for timer in timers:
            timer.cancel()

    look()
    return close


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # it is somebody else's, and alive
    except (ProcessLookupError, OverflowError):
        return False
    return True
