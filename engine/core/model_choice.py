"""Which model worker works on what (engine.md §7, named workers). Pure.

A job that names a model gets the worker with that id, or those that offer that model. One that names none
gets a worker by its role: ``subtask`` for a child (else ``main``), ``main`` for everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.core.errors import NotConfigured

MAIN, SUBTASK, CLASSIFIER = "main", "subtask", "classifier"
ROLES = (MAIN, SUBTASK, CLASSIFIER)
_ALSO = {"default": MAIN}


@dataclass(frozen=True, slots=True)
class Card:
    """What is known of a worker where one is chosen: id, model ("": the server chooses), roles."""

    id: str
    model: str = ""
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wish:
    """What a job wants: the model that was named for it (a worker's id or a model's name), whether it is a
    subtask, and the worker that it had before.
    """

    model: str | None = None
    child: bool = False
    had: str | None = None


def role_of(name: str) -> str | None:
    """The role of a word in the configuration, None if there is no such role; ``default`` means ``main``."""
    role = _ALSO.get(name, name)
    return role if role in ROLES else None


def workers_of_role(cards: Sequence[Card], role: str) -> tuple[Card, ...]:
    """The workers of a role, in their order; where nobody has it, those of ``main``; where nobody has that
    either, the first.
    """
    for wanted in (role, MAIN):
        if found := tuple(card for card in cards if wanted in card.roles):
            return found
    return tuple(cards[:1])


def candidates(cards: Sequence[Card], wish: Wish, *, listed: bool) -> tuple[Card, ...]:
    """The workers that a job may have, the best first; empty if it names a model that nobody offers.

    A job keeps the worker it had: its cache lives there. ``listed`` says that the person listed workers:
    then a name that none of them has is a mistake; else it is a matter of the one server there is.
    """
    fitting = _fitting(cards, wish, listed=listed)
    return tuple(card for card in fitting if card.id == wish.had) or fitting


def _fitting(cards: Sequence[Card], wish: Wish, *, listed: bool) -> tuple[Card, ...]:
    if not wish.model:
        return workers_of_role(cards, SUBTASK if wish.child else MAIN)
    if named := tuple(card for card in cards if card.id == wish.model):
        return named
    if offering := tuple(card for card in cards if card.model == wish.model):
        return offering
    return () if listed else tuple(cards[:1])


def seat_for(
    cards: Sequence[Card], wish: Wish, room: Mapping[str, int], *, listed: bool
) -> tuple[Card | None, bool]:
    """The worker for a job that wants one now, and whether it has to wait because all that it may have are
    full. ``room`` is how many more jobs each worker takes. (None, False): nobody offers what it names.
    """
    fitting = candidates(cards, wish, listed=listed)
    free = next((card for card in fitting if room.get(card.id, 0) > 0), None)
    return free, bool(fitting) and free is None


def known_names(cards: Sequence[Card]) -> list[str]:
    """What a job may name: the ids of the workers and their models, each once, in order."""
    return list(dict.fromkeys(name for card in cards for name in (card.id, card.model) if name))


def model_sent(card: Card, wish: Wish) -> str | None:
    """The model to name in a request: what the job named, unless that is the worker's id; None: the
    worker's own.
    """
    return None if not wish.model or wish.model in (card.id, card.model) else wish.model


def unknown_model(cards: Sequence[Card], wish: Wish) -> NotConfigured:
    """The error of a job that no worker can take: what it names, and what it could have named."""
    if not cards:
        data: dict[str, object] = {"setting": "llm.endpoint", "mend": "MAESTRO_ENDPOINT"}
        return NotConfigured("config.no_endpoint", data=data)
    known = known_names(cards)
    return NotConfigured(
        "config.no_worker",
        data={"setting": "llm.workers", "known": known},
        model=wish.model or "",
        known=", ".join(known),
    )
