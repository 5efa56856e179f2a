"""A piece as a value: the state machine a job walks, and the bytes it is stored as.

A piece is checked once, when it is read (``engine.core.lint``); whoever holds a ``Piece`` may trust it. The
job stores the canonical bytes and their hash, so that it resumes on the piece it started with
(``engine.md`` section 2).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

import msgspec

from engine.core.outcome import ABORT, ASK, COMPLETE, WAIT_SUBTASKS

__all__ = [
    "ABORT",
    "ASK",
    "COMPLETE",
    "WAITING_PREFIX",
    "WAIT_SUBTASKS",
    "Conversation",
    "Movement",
    "Piece",
    "PieceResume",
    "Rule",
    "collect_piece_transition_targets",
    "conversation_into",
    "is_verify",
    "is_verify_name",
    "piece_from_json",
    "piece_hash",
    "piece_to_json",
]

WAITING_PREFIX = "WAITING_"
"""Every name that starts so is a sentinel, also those that a later table adds."""

Conversation = Literal["restart", "continue"]
PieceResume = Literal["rebuild", "continue"]

_VERIFY_WORDS = frozenset({"verify", "review", "検証", "レビュー"})


@dataclass(frozen=True, slots=True)
class Rule:
    """When to hop (text for the model) and where to: a movement name or ``WAIT_SUBTASKS``."""

    condition: str
    next: str


@dataclass(frozen=True, slots=True)
class Movement:
    """One state of a piece.

    ``allowed_commands`` None means the default list of commands, an empty tuple means none.
    ``default_next`` is a movement, ``COMPLETE``, ``ABORT`` or None. ``conversation`` None means: as the
    piece says. ``verify`` is the key of the file; ask ``is_verify``.
    """

    name: str
    edit: bool
    persona: str
    instruction: str
    allowed_tools: tuple[str, ...]
    rules: tuple[Rule, ...]
    allowed_commands: tuple[str, ...] | None = None
    default_next: str | None = None
    max_consecutive_revisits: int | None = None
    verify: bool = False
    conversation: Conversation | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A whole state machine. ``triggers`` are keywords, hints for the classifier; ``required_mcp`` are
    server slugs.
    """

    name: str
    description: str
    max_movements: int
    initial_movement: str
    movements: tuple[Movement, ...]
    triggers: tuple[str, ...] = ()
    required_mcp: tuple[str, ...] = ()
    model: str | None = None
    conversation: Conversation = "restart"
    resume: PieceResume = "rebuild"

    def movement(self, name: str) -> Movement:
        """The movement called ``name``; raises ``KeyError`` if there is none."""
        for movement in self.movements:
            if movement.name == name:
                return movement
        raise KeyError(name)


def collect_piece_transition_targets(piece: Piece) -> tuple[str, ...]:
    """What the one ``transition`` tool may name: the targets of all rules of all movements, in the order of
    their first appearance.

    The union over the whole piece, never per movement (the cache law, ``engine.md`` section 3). Empty: the
    piece has no such tool.
    """
    return tuple(dict.fromkeys(rule.next for movement in piece.movements for rule in movement.rules))


def is_verify_name(name: str) -> bool:
    """True if a part of ``name``, split at ``-`` and ``_``, says that the movement verifies (``engine.md``
    section 3).
    """
    return not _VERIFY_WORDS.isdisjoint(re.split("[-_]", name.lower()))


def is_verify(movement: Movement) -> bool:
    """True if the movement's summary and lessons are feedback for the movement it sends the job to."""
    return movement.verify or is_verify_name(movement.name)


def conversation_into(piece: Piece, movement: Movement) -> Conversation:
    """Whether entering ``movement`` restarts the conversation or continues it: its own key, else the
    piece's.
    """
    return movement.conversation or piece.conversation


def piece_to_json(piece: Piece) -> bytes:
    """The canonical bytes of a piece: UTF-8 JSON, keys in the order of the fields, nothing left out."""
    return msgspec.json.encode(piece)


def piece_from_json(data: bytes) -> Piece:
    """The piece that ``piece_to_json`` wrote. Keys unknown here are ignored, missing optional ones take
    their defaults.

    Raises ``msgspec.ValidationError`` or ``msgspec.DecodeError`` on anything else.
    """
    return msgspec.json.decode(data, type=Piece)


def piece_hash(piece: Piece) -> str:
    """SHA-256 of the canonical bytes, in hex: two files that mean the same piece have the same hash."""
    return hashlib.sha256(piece_to_json(piece)).hexdigest()
