"""Pieces as they are listed, read and judged: what the piece tools show and the classifier chooses among."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PieceCard:
    """A piece that can be named: where it is from, what it hides (``shadows``), and how many ``errors`` keep
    it from being used.
    """

    name: str
    source: str
    description: str = ""
    keywords: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()
    errors: int = 0


@dataclass(frozen=True, slots=True)
class PieceReview:
    """What the one validator says of a text: the name in it (None if it cannot be used), and its findings as
    lines with line, column and fix.
    """

    name: str | None
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
