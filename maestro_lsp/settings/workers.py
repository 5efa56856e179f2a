"""The model workers of ``llm.workers``: each may set whatever ``llm`` has, and takes the rest from there.

What belongs to a server (its key, headers, model and limits) is not taken over by a worker on another one: a
key must not travel to a server that it was not given for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from engine import DEFAULT_WORKER, ModelSettings, WorkerSettings, model_role
from maestro_lsp.settings.table import WORKER_KEYS, Key

Note = Callable[..., None]
"""Takes the key of a sentence and its values."""

_OF_A_SERVER = frozenset(
    {"model", "api_key", "api_key_env", "headers", "extra_body", "context_tokens", "price"}
)
_OF_A_MODEL = frozenset({"context_tokens", "price"})
_OWN = ("id", "roles", "max_concurrency", "vlm", "enabled")


def read_workers(
    entries: Sequence[Mapping[str, Any]],
    base: Mapping[str, Any],
    *,
    named: str,
    place: str,
    key_of: Callable[[str], str],
    note: Note,
) -> tuple[WorkerSettings, ...]:
    """The workers of a list as it was written. ``base`` are the values of ``llm``, by field; ``named`` is
    what the list is called where it was written, ``place`` where that is. ``key_of`` reads the variable that
    holds a key, empty if it is not set. What cannot be used is noted and left out.
    """
    found: dict[str, WorkerSettings] = {}
    for number, entry in enumerate(entries):
        told = f"{named}[{number}]"
        worker = _worker(entry, base, number=number, told=told, place=place, key_of=key_of, note=note)
        if not worker.llm.endpoint:
            note("worker_no_endpoint", key=told, place=place)
        elif worker.id in found:
            note("worker_twice", key=told, place=place)
        else:
            found[worker.id] = worker
    return tuple(found.values())


def _worker(
    entry: Mapping[str, Any],
    base: Mapping[str, Any],
    *,
    number: int,
    told: str,
    place: str,
    key_of: Callable[[str], str],
    note: Note,
) -> WorkerSettings:
    values: dict[str, Any] = {}
    for name, value in _flat(entry):
        key = WORKER_KEYS.get(name)
        if key is None:
            _unknown(name, told, place, note)
            continue
        try:
            values[key.field or name] = key.kind.read(value)
        except (ValueError, OverflowError, RecursionError):
            _wrong(key, told, place, note)
    own = {name: values.pop(name) for name in _OWN if name in values}
    own["roles"] = tuple(_roles(own.get("roles", ()), told, place, note))
    if variable := values.get("api_key_env"):
        values["api_key"] = key_of(variable)
        if not values["api_key"]:
            note("worker_key_not_set", key=f"{told}.api_key_env", place=place)
    settings = ModelSettings(**{**_inherited(base, values), **values})
    given = str(own.pop("id", "")) or settings.model or f"{DEFAULT_WORKER}-{number + 1}"
    return WorkerSettings(id=given, llm=settings, **own)


def _inherited(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """What a worker takes from ``llm``."""
    left_out: frozenset[str] = frozenset()
    if values.get("endpoint", base.get("endpoint", "")) != base.get("endpoint", ""):
        left_out = _OF_A_SERVER
    elif values.get("model", base.get("model", "")) != base.get("model", ""):
        left_out = _OF_A_MODEL
    return {name: value for name, value in base.items() if name not in left_out}


def _flat(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The names of an entry in snake_case, ``retry`` opened."""
    for name, value in entry.items():
        snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(name)).lower()
        if snake == "retry" and isinstance(value, Mapping):
            yield from ((f"retry.{part}", given) for part, given in _flat(value))
        elif value is not None:
            yield snake, value


def _roles(given: Sequence[str], told: str, place: str, note: Note) -> Iterator[str]:
    for name in given:
        if (role := model_role(name)) is None:
            note("worker_role", key=f"{told}.roles", place=place)
        else:
            yield role


def _unknown(name: str, told: str, place: str, note: Note) -> None:
    near = get_close_matches(name, WORKER_KEYS, n=1, cutoff=0.6)
    shown = {"key": f"{told}.{name[:40]}", "place": place}
    if near:
        note("unknown_key_near", near=near[0], **shown)
    else:
        note("unknown_key", **shown)


def _wrong(key: Key, told: str, place: str, note: Note) -> None:
    note(f"wrong_{key.kind.expected}", key=f"{told}.{key.name}", place=place)
