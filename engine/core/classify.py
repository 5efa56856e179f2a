"""Which piece works on a task that names none (engine.md §2): what the model is asked, and what its answer
means. Pure.

Keywords are hints for the model and decide nothing. An answer that does not name exactly one piece of the
list counts as none.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.core.piece_card import PieceCard
from engine.core.prompting import Texts
from engine.core.truncate import cut, fit_head_tail

FALLBACK = "general"
"""The piece that is taken where none could be chosen."""

SETTINGS_WRONG = frozenset(
    {
        "model.refused",
        "model.unknown_host",
        "model.bad_key",
        "model.key_missing",
        "model.forbidden",
        "model.not_found",
        "model.unknown_model",
        "model.no_credit",
    }
)
"""Faults that the job's own first call would meet as well: they end it at once, with their one sentence."""

_DESCRIPTION = 600
_HINTS = 20
_READ = 8_000
_THOUGHTS_END = re.compile(r"</(?:think|thinking|reasoning)>")
_FENCE = re.compile(r"^```[a-z]*\n(.*?)\n?```$", re.DOTALL)
_KEYS = ("piece", "name", "choice", "answer")
_AROUND = " \t\r\n\"'`*_“”‘’「」『』【】()<>[]{}.。,、:!#-"
_MARKED = re.compile(r"[\"'`*“‘「『【]{1,3}([^\"'`*“”‘’「」『』【】\n]{1,80})[\"'`*”’」』】]")


class By(StrEnum):
    """Who chose: the model, nobody (there was only one), or nobody could."""

    CLASSIFIER = "classifier"
    ONLY = "only"
    FALLBACK = "fallback"


class Failure(StrEnum):
    """Why the model chose none."""

    FAULT = "fault"
    TIMEOUT = "timeout"
    EMPTY = "empty"
    UNCLEAR = "unclear"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class Choice:
    """The piece, who chose it, and why the model did not."""

    name: str
    by: By
    failure: Failure | None = None


def fallback(failure: Failure) -> Choice:
    """What is taken when no piece could be chosen."""
    return Choice(FALLBACK, By.FALLBACK, failure)


def usable(cards: Sequence[PieceCard]) -> tuple[PieceCard, ...]:
    """The pieces that can run."""
    return tuple(card for card in cards if not card.errors)


def hits(card: PieceCard, task: str) -> tuple[str, ...]:
    """The keywords of a piece that the task holds, whatever their case and width."""
    folded = _folded(task)
    return tuple(word for word in card.keywords if _folded(word).strip() and _holds(folded, _folded(word)))


def _holds(text: str, word: str) -> bool:
    """Whether a text holds a word: as a word of its own where it is written in letters of the alphabet."""
    if not re.fullmatch(r"[ -~]+", word):
        return word in text
    return re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text) is not None


def question(cards: Sequence[PieceCard], task: str, tokens: int, texts: Texts) -> tuple[str, str]:
    """The system text and the message of the one call: every piece with its keywords, then the task, cut to
    ``tokens``.
    """
    head, middle, tail = fit_head_tail(task, tokens)
    shown = f"{head}\n[…]\n{tail}" if middle else head
    pieces = "\n".join(_line(card, task, texts) for card in cards)
    system = texts("classify.system", fallback=FALLBACK)
    return system, texts("classify.message", pieces=pieces, task=shown)


def _line(card: PieceCard, task: str, texts: Texts) -> str:
    line = f"- {card.name}: {cut(' '.join(card.description.split()), _DESCRIPTION)}"
    if card.keywords:
        line += " " + texts("classify.keywords", words=", ".join(card.keywords[:_HINTS]))
    if found := hits(card, task):
        line += " " + texts("classify.hits", words=", ".join(found[:_HINTS]))
    return line


def chosen(answer: str, names: Sequence[str]) -> str | None:
    """The one piece that an answer names, None if it names none or several.

    A name alone, quoted or in JSON; else the last line, where a conclusion stands; else the only one that is
    quoted; else the only one that is mentioned.
    """
    known = {_folded(name): name for name in names}
    text = _THOUGHTS_END.split(_folded(answer[-_READ:]))[-1].strip()
    text = fenced[1].strip() if (fenced := _FENCE.match(text)) else text
    if not text:
        return None
    last = text.splitlines()[-1]
    for found in (_alone(text, known), _in_json(text, known), _alone(last, known), _in_json(last, known)):
        if found is not None:
            return found
    marked = {name for match in _MARKED.finditer(text) if (name := _alone(match[1], known)) is not None}
    if marked:
        return marked.pop() if len(marked) == 1 else None
    for part in (last, text):
        mentioned = [name for folded, name in known.items() if _mentions(part, folded)]
        if mentioned:
            return mentioned[0] if len(mentioned) == 1 else None
    return None


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _alone(text: str, known: Mapping[str, str]) -> str | None:
    return known.get(text.strip(_AROUND))


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<![a-z0-9-]){re.escape(name)}(?![a-z0-9-])", text) is not None


def _in_json(text: str, known: Mapping[str, str]) -> str | None:
    if text[:1] not in ('"', "{", "["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        value = next((value[key] for key in _KEYS if key in value), None)
    return known.get(value.strip()) if isinstance(value, str) else None
