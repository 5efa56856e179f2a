"""The output of a command: cleaned as it comes, kept in constant memory, shown live in small pieces."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from engine.core.truncate import fit_head, fit_head_tail, fit_tail, grapheme_ceil
from engine.tools.decoding import Decoder

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/][0-~]"
    r"|[0-OQ-WYZ\\`-~])"
)
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/])?\Z")
_CONTROL = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LONGEST_ESCAPE = 4096
_LONGEST_STATE = 4096
_BINARY_SHARE = 0.2
_BINARY_LEAST = 100
_BINARY_TOKENS = 200
_LIVE_PIECE = 4000
_LIVE_EVERY_S = 0.1


class Cleaner:
    """Bytes as they come from a command, as text: decoded, control characters replaced, ANSI sequences
    removed. What writes over a line (``\\r``, backspace) is left in.

    Characters and sequences that are cut between two pieces are put together again.
    """

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._held = ""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text of the next bytes; ``final`` gives back what was still held."""
        text = self._held + self._decoder.feed(data, final=final)
        self._held = ""
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
            begun = None if final else _BEGUN.search(text, max(0, len(text) - _LONGEST_ESCAPE))
            if begun is not None:
                text, self._held = text[: begun.start()], begun[0]
        if text.endswith("\r") and not final and not self._held:
            text, self._held = text[:-1], "\r"
        return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n").replace("\ufeff", ""))


class Overwriting:
    """Cleaned text as it comes, as a terminal would show it in the end: of a line that was written over, the
    last state.

    A state of more than 4,096 characters, or one that was ``released``, stays, as a line of its own.
    """

    def __init__(self) -> None:
        self._state = ""
        self._returned = False
        self._stays = False

    def feed(self, text: str) -> str:
        """What can no longer be written over, after the next piece of text."""
        end = text.rfind("\n") + 1
        done, parts = text[:end], []
        if "\r" in done or "\b" in done:
            for line in done[:-1].split("\n"):
                parts += [self._over(line), self._settled(), "\n"]
        elif done:
            first, newline, rest = done.partition("\n")
            parts += [self._over(first), self._settled(), newline, rest]
        return "".join([*parts, self._over(text[end:])])

    def release(self) -> str:
        """The last state of the line that has not ended: it is shown now, and can be written over no more."""
        state, self._state = self._state, ""
        self._stays = self._stays or bool(state)
        return _erased(state)

    def final(self) -> str:
        """What is still held, when nothing follows."""
        return self._settled()

    def _over(self, line: str) -> str:
        """Write on, on the same line."""
        parts = []
        for number, state in enumerate(line.split("\r")):
            self._returned = self._returned or number > 0
            if state and self._returned:
                parts.append("\n" if self._stays else "")
                self._state, self._returned, self._stays = "", False, False
            if self._stays:
                parts.append(state.replace("\b", ""))
                continue
            self._state += state
            if len(self._state) > _LONGEST_STATE:
                first, rest = self._state[:_LONGEST_STATE], self._state[_LONGEST_STATE:]
                parts.append(_erased(first) + rest.replace("\b", ""))
                self._state, self._stays = "", True
        return "".join(parts)

    def _settled(self) -> str:
        state = _erased(self._state)
        self._state, self._returned, self._stays = "", False, False
        return state


def _erased(state: str) -> str:
    """One state of a line with its backspaces carried out."""
    if "\b" not in state:
        return state
    kept: list[str] = []
    for character in state:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of an output: its start and, if bytes were left out, its end. Little of what is
    ``binary``.
    """

    head: str
    left_out: int
    tail: str
    binary: bool = False


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
        if not text:
            return
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
        binary = _is_binary(head + tail)
        budget = min(self._budget, _BINARY_TOKENS) if binary else self._budget
        if self._overflowed:
            head, _ = fit_head(head, budget // 2, lines=True)
            _, tail = fit_tail(tail, budget // 2, lines=True)
        else:
            head, _, tail = fit_head_tail(head + tail, budget, lines=True)
        left_out = self._bytes - len(head.encode()) - len(tail.encode())
        return Shown(head, left_out, tail, binary)


def _is_binary(text: str) -> bool:
    """Whether so much of it was no text that nobody wants to read it."""
    strange = text.count("\ufffd")
    return strange >= _BINARY_LEAST and strange >= _BINARY_SHARE * len(text)


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
        self._pending += text.replace("\b", "")
        if len(self._pending) > _LIVE_PIECE:
            start = grapheme_ceil(self._pending, len(self._pending) - _LIVE_PIECE)
            self._skipped += start
            self._pending = self._pending[start:]
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
