"""The output of a command: cleaned as it comes, kept in constant memory, shown live in small pieces."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from engine.core.truncate import fit_head, fit_head_tail, fit_tail

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/][0-~]"
    r"|[0-OQ-WYZ\\`-~])"
)
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/])?\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LONGEST_ESCAPE = 4096
_LIVE_PIECE = 4000
_LIVE_EVERY_S = 0.1


class Cleaner:
    """Bytes as they come from a command, as text: invalid UTF-8 and control characters replaced, ANSI
    sequences removed.

    Characters and sequences that are cut between two pieces are put together again.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text of the next bytes; ``final`` gives back what was still held."""
        text = self._held + self._decoder.decode(data, final)
        self._held = ""
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
            begun = None if final else _BEGUN.search(text, max(0, len(text) - _LONGEST_ESCAPE))
            if begun is not None:
                text, self._held = text[: begun.start()], begun[0]
        if text.endswith("\r") and not final and not self._held:
            text, self._held = text[:-1], "\r"
        return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n"))


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of an output: its start and, if bytes were left out, its end."""

    head: str
    left_out: int
    tail: str


class Capture:
    """The start and the end of a text of any length, enough of both for a result of ``budget`` tokens."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._room = 2 * budget + 2
        self._head: list[str] = []
        self._head_room = self._room
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._bytes = 0
        self._characters = 0
        self._overflowed = False

    def would_overflow(self, text: str) -> bool:
        """Whether with this piece the middle may be lost, so that ``kept`` must be stored before."""
        return self._characters + len(text) > 2 * self._room

    def add(self, text: str) -> None:
        """Take the next piece."""
        self._bytes += len(text.encode())
        self._characters += len(text)
        if self._head_room:
            self._head.append(text[: self._head_room])
            text = text[self._head_room :]
            self._head_room -= len(self._head[-1])
        if not text:
            return
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size - len(self._tail[0]) >= self._room:
            self._tail_size -= len(self._tail.popleft())
            self._overflowed = True

    @property
    def kept(self) -> str:
        """Everything so far, as long as nothing was lost."""
        return "".join([*self._head, *self._tail])

    def shown(self) -> Shown:
        """What fits the budget: the whole, or start and end with the number of bytes between them."""
        head, tail = "".join(self._head), "".join(self._tail)
        if self._overflowed:
            head, _ = fit_head(head, self._budget // 2, lines=True)
            _, tail = fit_tail(tail, self._budget // 2, lines=True)
        else:
            head, _, tail = fit_head_tail(head + tail, self._budget, lines=True)
        left_out = self._bytes - len(head.encode()) - len(tail.encode())
        return Shown(settled(head), left_out, settled(tail))


def settled(text: str) -> str:
    """``text`` as a terminal would show it in the end: of a line that was written over (``\\r``), the last
    state.
    """
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


class Live:
    """Passes text on as it comes, but not more than 4,000 characters every tenth of a second: the newest
    ones.
    """

    def __init__(self, emit: Callable[[str], None], now: Callable[[], float]) -> None:
        self._emit = emit
        self._now = now
        self._pending = ""
        self._skipped = 0
        self._next = 0.0

    def add(self, text: str) -> None:
        """Take the next piece, and pass on what is due."""
        self._pending += text
        if len(self._pending) > _LIVE_PIECE:
            self._skipped += len(self._pending) - _LIVE_PIECE
            self._pending = self._pending[-_LIVE_PIECE:]
        if self._now() >= self._next:
            self.flush()

    @property
    def due_in(self) -> float | None:
        """Seconds until something waits to be passed on, or None if nothing does."""
        return max(0.0, self._next - self._now()) if self._pending else None

    def flush(self) -> None:
        """Pass on what waits."""
        if self._pending:
            skipped = f"[… {self._skipped} characters …]\n" if self._skipped else ""
            self._emit(skipped + self._pending)
        self._pending, self._skipped = "", 0
        self._next = self._now() + _LIVE_EVERY_S
