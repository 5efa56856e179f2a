"""Lines from the terminal for a program with an event loop."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import sys
import threading
from contextlib import suppress

KEYS = re.compile(r"\x1b(?:\[[0-9;?]{0,16}[ -/]{0,4}[@-~]|O.|.)?|[\x00-\x08\x0b-\x1f\x7f]")
"""Arrow keys and their kin as a terminal in line mode sends them: never a part of an answer."""


def without_keys(line: str) -> str:
    """A typed line without what control keys left in it."""
    return KEYS.sub("", line)


class Keyboard:
    """Lines of stdin. What was typed before a question was asked never answers it.

    A daemon thread reads the raw descriptor: a read cannot be interrupted, and one on ``sys.stdin`` would
    hold its lock at the interpreter's end.
    """

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._started = False
        self._ended = False

    def forget(self) -> None:
        """Drop what was typed so far, in the terminal's own buffer too."""
        with suppress(ImportError, OSError, ValueError):
            import termios

            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        if not self._started:
            self._started = True
            threading.Thread(target=self._read, name="keyboard", daemon=True).start()
        while not self._lines.empty():
            if self._lines.get_nowait() is None:
                self._ended = True

    async def line(self) -> str | None:
        """The next line without its end, None at the end of the input."""
        if self._ended:
            return None
        found = await self._lines.get()
        self._ended = found is None
        return found

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder(sys.stdin.encoding or "utf-8")("replace")
        rest = ""
        while True:
            try:
                data = os.read(sys.stdin.fileno(), 4096)
            except (OSError, ValueError):
                data = b""
            *lines, rest = (rest + decoder.decode(data)).replace("\r\n", "\n").split("\n")
            try:
                for line in lines:
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, without_keys(line))
                if not data:
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, None)
            except RuntimeError:  # the loop is closed: the command has ended
                return
            if not data:
                return
