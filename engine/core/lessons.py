"""What a movement leaves to the next ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.outcome import COMPLETE, MovementResult
from engine.core.truncate import grapheme_ceil

LESSONS_LIMIT = 2_000
"""About this many characters of lessons are carried, oldest dropped first (``engine.md`` section 3)."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson as the task keeps it; ``at`` in POSIX seconds."""

    movement: str
    text: str
    job_id: str
    at: float


def lesson_of(outcome: MovementResult) -> str:
    """What a movement's end teaches: its lessons with its summary before them; on COMPLETE without lessons
    the result.
    """
    if outcome.next == COMPLETE and not (outcome.summary or outcome.lessons):
        return outcome.result.strip()
    parts = dict.fromkeys(part.strip() for part in (outcome.summary, outcome.lessons) if part.strip())
    return "\n".join(parts)


def carry(lessons: Sequence[tuple[str, str]], limit: int = LESSONS_LIMIT) -> list[tuple[str, str]]:
    """The newest lessons, (movement, text) in order, whose texts fit the limit together.

    A single lesson over the limit keeps its end: what was found last matters most.
    """
    kept: list[tuple[str, str]] = []
    left = limit
    for movement, text in reversed(lessons):
        if len(text) > left:
            if not kept:
                kept.append((movement, "… " + text[grapheme_ceil(text, len(text) - (limit - 2)) :]))
            break
        kept.append((movement, text))
        left -= len(text)
    return kept[::-1]
