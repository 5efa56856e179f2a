"""Tool calls that a server left in the text of the reply. Pure, and conservative: what a person may read
stays text.

Two forms are taken: Hermes' ``<tool_call>{…}</tool_call>`` at the beginning of a line, outside of code
fences; and a message that is nothing but one JSON call (bare, in a fence, or after Mistral's
``[TOOL_CALLS]``) of a tool that was offered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

MARK = "<tool_call>"
_HERMES = re.compile(
    r"(?:\A|(?<=\n))[ \t]*<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z|(?=\n[ \t]*<tool_call>))", re.DOTALL
)
_NAME = re.compile(r'\{\s*"name"\s*:\s*"([^"\\]{1,64})"')
_FENCED = re.compile(r"\A```(?:json|tool_call)?[ \t]*\n(.*)\n```\Z", re.DOTALL)
_MISTRAL = "[TOOL_CALLS]"
_ARGUMENTS = ("arguments", "parameters")


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call found in the text; ``arguments`` as the model gave them."""

    name: str
    arguments: object


def calls_in_text(text: str, known: Collection[str]) -> tuple[str, tuple[TextCall, ...]]:
    """The text without its calls, and the calls; the text as it is where there are none. ``known`` are the
    tools offered.
    """
    if not known:
        return text, ()
    if MARK in text and (found := _hermes(text)) is not None:
        return found
    calls = _whole_message(text.strip(), known)
    return ("", calls) if calls else (text, ())


def _hermes(text: str) -> tuple[str, tuple[TextCall, ...]] | None:
    calls: list[TextCall] = []
    rest: list[str] = []
    start = 0
    for match in _HERMES.finditer(text):
        call = _hermes_call(match[1])
        if call is None or text.count("```", 0, match.start()) % 2:
            continue
        calls.append(call)
        rest.append(text[start : match.start()])
        start = match.end()
    if not calls:
        return None
    return "".join([*rest, text[start:]]).strip(), tuple(calls)


def _hermes_call(body: str) -> TextCall | None:
    """One call; where its JSON is broken but the name can be read, the broken text stays for the model to be
    told of.
    """
    try:
        return _as_call(json.loads(body, strict=False))
    except (ValueError, RecursionError):
        found = _NAME.match(body)
        if found is None:
            return None
        after = re.compile(r'"(?:arguments|parameters)"\s*:\s*').search(body, found.end())
        return TextCall(found[1], body[after.end() :] if after else body)


def _whole_message(text: str, known: Collection[str]) -> tuple[TextCall, ...]:
    if text.startswith(_MISTRAL):
        text = text.removeprefix(_MISTRAL).strip()
    elif fenced := _FENCED.match(text):
        text = fenced[1].strip()
    if not text.startswith(("{", "[")):
        return ()
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return ()
    calls = [_as_call(entry) for entry in (value if isinstance(value, list) else [value])]
    if not all(call is not None and call.name in known for call in calls):
        return ()
    return tuple(call for call in calls if call is not None)


def _as_call(value: Any) -> TextCall | None:
    """A call if the object is one and nothing else: a name, arguments, at most an id and a type."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("function"), Mapping) and set(value) <= {"type", "id", "function"}:
        value = value["function"]
    name = value.get("name")
    given = [key for key in _ARGUMENTS if key in value]
    if (
        not isinstance(name, str)
        or not name
        or len(given) != 1
        or not set(value) <= {"name", "id", "type", *given}
    ):
        return None
    arguments = value[given[0]]
    return TextCall(name, arguments) if isinstance(arguments, str | dict) or arguments is None else None
