"""Reasoning that a server leaves in the text: ``<think>…</think>`` and its kin, told apart while it streams.
Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TAGS: dict[str, str] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
}
"""Opening and closing tags. They count only where the reply begins: further on, a tag is something the model
writes about.
"""

_ORPHAN = re.compile(r"(?:\A|\n)[ \t]*(</(?:think|thinking|thought)>|\[/THINK\])[ \t]*(?:\n|\Z)")


def partial_end(text: str, *wanted: str) -> int:
    """Length of the longest end of ``text`` that could be the beginning of one of the wanted strings."""
    longest = max(map(len, wanted))
    for size in range(min(len(text), longest - 1), 0, -1):
        if any(one.startswith(text[-size:]) for one in wanted):
            return size
    return 0


@dataclass(slots=True)
class ReasoningSplitter:
    """Tells text from reasoning piece by piece; ``feed`` and ``close`` return (text, reasoning) that is now
    certain.
    """

    _held: str = ""
    _closing: str | None = None
    _at_start: bool = True
    _seen: bool = False

    def feed(self, piece: str) -> tuple[str, str]:
        """Takes the next piece of the reply's content."""
        if not self._at_start and self._closing is None:
            return piece, ""
        self._held += piece
        text, reasoning = "", ""
        while True:
            if self._closing is not None:
                more, closed = self._inside()
                reasoning += more
                if not closed:
                    return text, reasoning
            elif not self._opens():
                if self._undecided():
                    return text, reasoning
                self._at_start = False
                text, self._held = self._start(), ""
                return text, reasoning

    def close(self) -> tuple[str, str]:
        """The end: what was held back. A block that was never closed is reasoning to its end."""
        inside, self._closing = self._closing is not None, None
        rest, self._held = self._held if inside else self._start(), ""
        return ("", rest) if inside else (rest, "")

    def _start(self) -> str:
        return self._held.lstrip() if self._seen else self._held

    def _inside(self) -> tuple[str, bool]:
        assert self._closing is not None
        end = self._held.find(self._closing)
        if end < 0:
            keep = partial_end(self._held, self._closing)
            reasoning = self._held[: len(self._held) - keep]
            self._held = self._held[len(self._held) - keep :]
            return reasoning, False
        reasoning = self._held[:end]
        self._held = self._held[end + len(self._closing) :]
        self._closing = None
        return reasoning, True

    def _opens(self) -> bool:
        start = self._held.lstrip()
        for opening, closing in TAGS.items():
            if start.startswith(opening):
                self._held, self._closing, self._seen = start[len(opening) :], closing, True
                return True
        return False

    def _undecided(self) -> bool:
        start = self._held.lstrip()
        return not start or any(opening.startswith(start) for opening in TAGS)


def split_orphan(text: str) -> tuple[str, str]:
    """(text, reasoning) of a reply whose opening tag was in the prompt, so that only the closing one was
    streamed.

    Taken only if it stands alone on its line, once, and no opening tag is there.
    """
    found = list(_ORPHAN.finditer(text))
    if len(found) != 1 or any(opening in text for opening in TAGS):
        return text, ""
    return text[found[0].end() :].lstrip("\n"), text[: found[0].start()]
