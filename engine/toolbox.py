"""From a call as the model wrote it to a call that can be run, or to the error result that says what would be
right. No IO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import regex

from engine.core.piece import Movement
from engine.core.policy import Permissions, permitted
from engine.core.prompting import Texts
from engine.core.reply import ToolCall
from engine.core.tooling import ToolResult, ToolSpec
from engine.core.truncate import first_characters, fit_head, quarter_tokens

_DECORATION = regex.compile(r"^(?:functions?[.:/]|tools?[.:/]|default_api[.:])+|<\|.*$|[\s\x00]+$")

_LONGEST_PROBLEM = 600
_FOR_NOTES = 256
"""Tokens that the notes of a tool may take beside the text that fills its budget."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may be prepared."""

    call: ToolCall
    spec: ToolSpec
    args: msgspec.Struct


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that is answered with an error result. ``unknown`` counts for the guard against invented
    tools.
    """

    call: ToolCall
    text: str
    brief: str
    unknown: bool = False


def permissions_of(movement: Movement, granted: frozenset[str] = frozenset()) -> Permissions:
    """What a movement permits, as policy reads it, with what RequestTool got for it."""
    return Permissions(movement.allowed_tools, movement.edit, movement.allowed_commands, granted)


def resolve_name(name: str, known: Sequence[str]) -> str | None:
    """The known tool a name means, if only one can be meant: exact, or by letter case, one known prefix or
    suffix, or a doubled name.
    """
    plain = _DECORATION.sub("", name)
    if plain in known:
        return plain
    folded = plain.casefold()
    candidates = [tool for tool in known if folded in (tool.casefold(), tool.casefold() * 2)]
    return candidates[0] if len(candidates) == 1 else None


def permitted_names(
    tools: Sequence[ToolSpec], movement: Movement, granted: frozenset[str] = frozenset()
) -> list[str]:
    """The names of the tools a movement permits, in the order of the tools array."""
    permissions = permissions_of(movement, granted)
    return [spec.name for spec in tools if spec.always or permitted(spec.name, permissions)]


def check_call(
    call: ToolCall,
    tools: Sequence[ToolSpec],
    movement: Movement,
    texts: Texts,
    granted: frozenset[str] = frozenset(),
) -> Ready | Refused:
    """Resolve the name, check the movement's permission, validate the arguments."""
    listed = ", ".join(permitted_names(tools, movement, granted))
    name = resolve_name(call.name, [spec.name for spec in tools])
    if name is None:
        shown, _ = first_characters(call.name, 80)
        text = texts("result.unknown_tool", name=shown or "(empty)", tools=listed)
        return Refused(call, text, f"unknown tool {shown}", unknown=True)
    spec = next(spec for spec in tools if spec.name == name)
    if not spec.always and not permitted(name, permissions_of(movement, granted)):
        return Refused(
            call, texts("result.not_permitted", name=name, tools=listed), f"{name} is not permitted here"
        )
    if call.arguments is None:
        return _bad(call, spec, call.problem or "not a JSON object", texts)
    try:
        args = msgspec.convert(dict(call.arguments), spec.arguments, strict=False)
    except msgspec.ValidationError as error:
        return _bad(call, spec, str(error), texts)
    return Ready(call, spec, args)


def control_only(item: Ready | Refused, texts: Texts) -> Ready | Refused:
    """The call if it may end the movement or was refused anyway; else its refusal because the context is
    full.
    """
    if isinstance(item, Refused) or item.spec.folds:
        return item
    return Refused(item.call, texts("result.context_full"), "not run: context full")


def within(result: ToolResult, budget: int, texts: Texts) -> ToolResult:
    """A result as its tool gave it, which keeps to the budget (in tokens) by itself and says how to go on;
    one that does not is cut behind its head.
    """
    if quarter_tokens(result.text) <= 4 * (budget + _FOR_NOTES):
        return result
    head, rest = fit_head(result.text, budget, lines=True)
    text = head + texts("result.too_large", count=len(rest))
    return replace(result, text=text, truncated=True)


def _bad(call: ToolCall, spec: ToolSpec, problem: str, texts: Texts) -> Refused:
    problem, _ = first_characters(problem, _LONGEST_PROBLEM)
    text = texts("result.bad_arguments", name=spec.name, problem=problem.rstrip(" ."), expected=shape(spec))
    return Refused(call, text, f"{spec.name}: {problem}")


def shape(spec: ToolSpec) -> str:
    """A tool's arguments in one line, e.g. ``{file_path: string, offset?: integer}``."""
    properties = spec.schema.get("properties")
    required = spec.schema.get("required")
    if not isinstance(properties, dict):
        return "{}"
    needed = set(required) if isinstance(required, list) else set()
    parts = [
        f"{name}{'' if name in needed else '?'}: {_type(schema)}"
        for name, schema in properties.items()
        if isinstance(schema, dict)
    ]
    return "{" + ", ".join(parts) + "}"


def _type(schema: dict[str, object]) -> str:
    if isinstance(schema.get("enum"), list):
        return " | ".join(f'"{value}"' for value in schema["enum"])  # type: ignore[attr-defined]
    return str(schema.get("type", "value"))
