"""The pieces of one workspace, as a running engine sees them (``engine.ports.Pieces``)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.catalog import messages
from engine.client import expanded
from engine.core.errors import NotFound
from engine.core.piece import Piece
from engine.core.piece_card import PieceCard, PieceReview
from engine.core.piece_read import shown
from engine.core.piece_tree import Problem
from engine.core.toolnames import BUILTIN_NAMES
from engine.loader import (
    SUFFIXES,
    WORKSPACE_FOLDER,
    PieceDirs,
    check_text,
    default_dirs,
    list_pieces,
    load_named,
    piece_text,
)


@dataclass(frozen=True, slots=True)
class Shelf:
    """``Pieces`` in these folders. Everything reads files: not for an event loop."""

    dirs: PieceDirs

    @property
    def trusted(self) -> bool:
        """Whether the pieces of the workspace count."""
        return self.dirs.trusted

    def cards(self) -> list[PieceCard]:
        """Every piece that can be named, by name."""
        return [
            PieceCard(
                entry.name,
                entry.source,
                entry.description,
                entry.keywords,
                entry.shadows,
                sum(problem.severity == "error" for problem in entry.problems),
            )
            for entry in list_pieces(self.dirs, BUILTIN_NAMES)
        ]

    def load(self, name: str) -> Piece:
        """A piece that may run. Raises ``NotFound``, ``FaultyPiece``, ``NotTrusted``."""
        return load_named(name, self.dirs, BUILTIN_NAMES).piece

    def text(self, name: str) -> tuple[str, str] | None:
        """(source, text) of the piece of this name, sound or not; None if there is none."""
        try:
            source, data = piece_text(name, self.dirs)
        except NotFound:
            return None
        return source, data.decode("utf-8", "replace")

    def place(self, name: str) -> tuple[str, bool]:
        """The workspace's own file for this name, relative to it, and whether it is there; it need not be
        trusted.
        """
        assert self.dirs.workspace is not None
        places = [WORKSPACE_FOLDER / f"{name}{suffix}" for suffix in SUFFIXES]
        for place in places:
            if os.path.lexists(self.dirs.workspace / place):
                return place.as_posix(), True
        return places[0].as_posix(), False

    def review(self, text: str, language: str) -> PieceReview:
        """What is right and wrong with the text of a piece, in sentences of ``language``."""
        checked = check_text(text, None, BUILTIN_NAMES)
        said: dict[bool, list[str]] = {True: [], False: []}
        for problem in checked.problems:
            said[problem.severity == "error"].append(_line(problem, language))
        name = checked.piece.name if checked.piece is not None else None
        return PieceReview(name, tuple(said[True]), tuple(said[False]))


def shelf_of(workspace: Path, trusted: bool, pieces_dirs: Sequence[str]) -> Shelf:
    """The pieces of a workspace in the usual places, ``pieces_dirs`` as configured."""
    return Shelf(default_dirs(workspace, trusted, expanded(pieces_dirs)))


def _line(problem: Problem, language: str) -> str:
    """A finding in one line, its place counted from 1 and its fix at the end."""
    sentence = messages(language)(problem.key, **problem.values)
    place = f"{problem.severity} at line {problem.span.line + 1}, column {problem.span.column + 1}"
    fix = "" if problem.fix is None else f" Fix: `{shown(problem.fix)}`"
    return f"{place}: {' '.join(sentence.split())}{fix}"
