"""The types of settings: each reads a value of YAML, JSON or a variable, or says what it expected."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine import Price


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of value: ``expected`` names the catalogue's words for it; ``read`` converts or raises
    ``ValueError``.
    """

    expected: str
    read: Callable[[Any], Any]
    choices: tuple[str, ...] = ()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value.strip()


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    number = int(value)
    if number < 0:
        raise ValueError
    return number


def _count(value: Any) -> int:
    if (number := _whole(value)) < 1:
        raise ValueError
    return number


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ValueError
    return number


def _positive(value: Any) -> float:
    if (number := _number(value)) <= 0:
        raise ValueError
    return number


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _share(value: Any) -> float:
    number = _number(value)
    if not 0 < number <= 1:
        raise ValueError
    return number


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part for part in (piece.strip() for piece in value.split(",")) if part]
    if isinstance(value, list | tuple):
        return list(value)
    raise ValueError


def _texts(value: Any) -> tuple[str, ...]:
    entries = [value] if isinstance(value, str) and "(" in value else _listed(value)
    return tuple(_text(entry) for entry in entries)


def _wholes(value: Any) -> tuple[int, ...]:
    return tuple(_whole(entry) for entry in _listed(value))


def _mapping(value: Any) -> dict[str, Any]:
    value = json.loads(value) if isinstance(value, str) else value
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError
    return dict(value)


def _headers(value: Any) -> dict[str, str]:
    return {name: _text(entry) for name, entry in _mapping(value).items()}


def _price(value: Any) -> Price:
    parts = {name: None if part is None else _number(part) for name, part in _mapping(value).items()}
    if not parts or not parts.keys() <= {"input", "cached", "output"}:
        raise ValueError
    return Price(**{name: part for name, part in parts.items() if part is not None})


def _workers(value: Any) -> tuple[dict[str, Any], ...]:
    """A list of mappings; what is in them is read by ``settings.workers``."""
    value = json.loads(value) if isinstance(value, str) else value
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(_mapping(entry) for entry in value)


def _anything(value: Any) -> Any:
    return value


def choice(*choices: str) -> Kind:
    def read(value: Any) -> str:
        # YAML 1.1 reads a bare `off` as false.
        chosen = "off" if value is False else _text(value)
        if chosen not in choices:
            raise ValueError
        return chosen

    return Kind("choice", read, choices)


TEXT = Kind("text", _text)
WHOLE = Kind("whole", _whole)
COUNT = Kind("count", _count)
NUMBER = Kind("number", _number)
SHARE = Kind("share", _share)
POSITIVE = Kind("positive", _positive)
TRUTH = Kind("truth", _truth)
PRICE = Kind("price", _price)
WORKERS = Kind("workers", _workers)
TEXTS = Kind("texts", _texts)
WHOLES = Kind("wholes", _wholes)
HEADERS = Kind("mapping", _headers)
MAPPING = Kind("mapping", _mapping)
ANYTHING = Kind("anything", _anything)
