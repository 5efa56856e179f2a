"""The arguments of a tool call, whatever form the server gave them. Pure.

Understood without guessing: an object, a JSON text of an object, that text encoded twice, the same object
repeated, nothing. All else is a problem told to the model; the text that goes into the history is then
``{}``, since servers fail on a history whose arguments do not parse.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.messages import heal
from engine.core.truncate import grapheme_ceil

_EXCERPT = 40
_DEEPEST = 100
"""Levels of nesting that every server can read again; some end at 128."""
_DECODER = json.JSONDecoder(strict=False)
_TYPES = {
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class Arguments:
    """``value`` and ``raw`` agree; with a ``problem`` (English, for the model) they are None and ``{}``."""

    value: Mapping[str, object] | None
    raw: str
    problem: str | None = None


def parse_arguments(given: object) -> Arguments:
    """What a call's ``arguments`` mean. Never raises."""
    if isinstance(given, Mapping):
        return _understood(given)
    if given is None:
        return Arguments({}, "{}")
    if not isinstance(given, str):
        return _problem(f"the arguments must be a JSON object, not {_TYPES.get(type(given), 'this')}")
    return _parse_text(heal(given).strip(), depth=2)


def complete(given: object) -> bool:
    """True if the arguments gathered so far are a whole object: what comes next belongs to another call."""
    if isinstance(given, str):
        return given.rstrip().endswith("}") and parse_arguments(given).problem is None
    return isinstance(given, Mapping)


def _parse_text(text: str, depth: int) -> Arguments:
    if not text:
        return Arguments({}, "{}")
    try:
        value, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        return _problem(_syntax(text, error))
    except (RecursionError, ValueError) as error:
        return _problem(f"the arguments are not valid JSON: {_reason(error)}")
    if odd := unsendable(value):
        return _problem(f"the arguments are not valid JSON: {odd}")
    rest = text[end:].strip()
    if rest and not _repeats(value, rest):
        return _problem(_trailing(text, end))
    match value:
        case dict():
            return Arguments(value, text) if _as_it_is(text) else _understood(value)
        case None:
            return Arguments({}, "{}")
        case str() if depth > 0:
            return _parse_text(value.strip(), depth - 1)
        case _:
            return _problem(f"the arguments must be a JSON object, not {_TYPES.get(type(value), 'this')}")


def _as_it_is(text: str) -> bool:
    """True if the model's own text may be sent back unchanged: strict JSON without an escaped surrogate."""
    if "\\ud" in text.lower():
        return False
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _understood(value: Mapping[str, Any]) -> Arguments:
    if odd := unsendable(value):
        return _problem(f"the arguments are not valid JSON: {odd}")
    try:
        raw = heal(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
        healed = json.loads(raw)
    except (RecursionError, TypeError, ValueError) as error:
        return _problem(f"the arguments are not valid JSON: {_reason(error)}")
    return Arguments(healed, raw)


def unsendable(value: object) -> str:
    """Why a server would refuse a history that holds this parsed JSON; empty if none would: numbers that JSON
    does not have (NaN) or that no double holds (1e999), and nesting without end.
    """
    level = [value]
    for _ in range(_DEEPEST):
        if not level:
            return ""
        if any(isinstance(one, int | float) and not _is_double(one) for one in level):
            return "it holds NaN, or a number that is too large"
        level = [inner for one in level for inner in _inside(one)]
    return "it is nested too deeply"


def _is_double(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _inside(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()


def _repeats(value: object, rest: str) -> bool:
    """True if the rest is the same object again: some servers send the whole text once more at the end."""
    while rest:
        try:
            again, end = _DECODER.raw_decode(rest)
        except ValueError:
            return False
        if again != value or not isinstance(value, dict):
            return False
        rest = rest[end:].strip()
    return True


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _syntax(text: str, error: json.JSONDecodeError) -> str:
    at_end = error.pos >= len(text) or error.msg.startswith("Unterminated string")
    column = len(text.rsplit("\n", 1)[-1]) + 1 if at_end else error.colno
    line = text.count("\n") + 1 if at_end else error.lineno
    if at_end:
        what = f"the text breaks off at {_place(line, column)}, after {_near(text, len(text))}"
        if error.msg.startswith("Unterminated string"):
            what += f"; the string that begins at {_place(error.lineno, error.colno)} is not closed"
    else:
        said = error.msg[:1].lower() + error.msg[1:]
        what = f"{said} at {_place(line, column)}, after {_near(text, error.pos)}"
    return f"the arguments are not valid JSON: {what}"


def _trailing(text: str, end: int) -> str:
    line, column = text.count("\n", 0, end) + 1, end - text.rfind("\n", 0, end)
    return f"the arguments are not one JSON object: more text follows it at {_place(line, column)}"


def _place(line: int, column: int) -> str:
    return f"column {column}" if line == 1 else f"line {line}, column {column}"


def _near(text: str, position: int) -> str:
    start = grapheme_ceil(text, max(0, position - _EXCERPT))
    return json.dumps(heal(text[start:position]), ensure_ascii=False)


def _problem(text: str) -> Arguments:
    return Arguments(None, "{}", f"{heal(text)}. Send one JSON object.")
