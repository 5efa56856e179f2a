"""The keys of piece files: one table for the validator and the JSON Schema, which therefore cannot
disagree.

To add a key: a row here, a field in ``engine.core.piece``, a line ``piece.key.<scope>.<name>`` in both
message catalogues. A kind is added here and in ``engine.core.lint``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

PIECE_NAME = r"[a-z0-9-]+"
SLUG = r"[a-z0-9_-]{1,64}"
MOVEMENT_NAME = r"\S(?:[^\x00-\x1f\x7f-\x9f\u2028\u2029]{0,62}\S)?"
MAX_COUNT = 999_999
MAX_MOVEMENTS_LISTED = 200
CONVERSATIONS = ("restart", "continue")
RESUMES = ("rebuild", "continue")


class Kind(StrEnum):
    """What a key holds; the validator has one reader and the schema one shape for each."""

    TEXT = "text"
    PIECE_NAME = "piece_name"
    MOVEMENT_NAME = "movement_name"
    BOOLEAN = "boolean"
    COUNT = "count"
    TEXTS = "texts"
    TOOLS = "tools"
    SLUGS = "slugs"
    TARGET = "target"
    CONVERSATION = "conversation"
    RESUME = "resume"
    TRIGGERS = "triggers"
    MOVEMENTS = "movements"
    RULES = "rules"
    UNSUPPORTED = "unsupported"


class Scope(StrEnum):
    """Which mapping a key belongs to."""

    PIECE = "piece"
    TRIGGERS = "triggers"
    MOVEMENT = "movement"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its name in the file, what it holds, and whether it must be there."""

    name: str
    kind: Kind
    required: bool = False


def _keys(*keys: Key) -> dict[str, Key]:
    return {key.name: key for key in keys}


KEYS: dict[Scope, dict[str, Key]] = {
    Scope.PIECE: _keys(
        Key("name", Kind.PIECE_NAME, required=True),
        Key("description", Kind.TEXT, required=True),
        Key("max_movements", Kind.COUNT, required=True),
        Key("initial_movement", Kind.TARGET, required=True),
        Key("movements", Kind.MOVEMENTS, required=True),
        Key("triggers", Kind.TRIGGERS),
        Key("required_mcp", Kind.SLUGS),
        Key("model", Kind.TEXT),
        Key("conversation", Kind.CONVERSATION),
        Key("resume", Kind.RESUME),
    ),
    Scope.TRIGGERS: _keys(Key("keywords", Kind.TEXTS)),
    Scope.MOVEMENT: _keys(
        Key("name", Kind.MOVEMENT_NAME, required=True),
        Key("edit", Kind.BOOLEAN, required=True),
        Key("persona", Kind.TEXT, required=True),
        Key("instruction", Kind.TEXT, required=True),
        Key("allowed_tools", Kind.TOOLS, required=True),
        Key("rules", Kind.RULES, required=True),
        Key("allowed_commands", Kind.TEXTS),
        Key("default_next", Kind.TARGET),
        Key("max_consecutive_revisits", Kind.COUNT),
        Key("verify", Kind.BOOLEAN),
        Key("conversation", Kind.CONVERSATION),
        Key("allowed_ssh_connections", Kind.UNSUPPORTED),
    ),
    Scope.RULE: _keys(Key("condition", Kind.TEXT, required=True), Key("next", Kind.TARGET, required=True)),
}

CHOICES: dict[Kind, tuple[str, ...]] = {Kind.CONVERSATION: CONVERSATIONS, Kind.RESUME: RESUMES}


def key_message(scope: Scope, name: str) -> str:
    """The catalogue key of what a key of a piece file means (schema descriptions, hover)."""
    return f"piece.key.{scope}.{name}"


def _text(pattern: str = r"\S") -> dict[str, Any]:
    return {"type": "string", "pattern": pattern}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_SHAPES: dict[Kind, dict[str, Any]] = {
    Kind.TEXT: _text(),
    Kind.PIECE_NAME: _text(f"^{PIECE_NAME}$"),
    Kind.MOVEMENT_NAME: {**_text(), "maxLength": 64},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.COUNT: {"type": "integer", "minimum": 1, "maximum": MAX_COUNT},
    Kind.TEXTS: _list(_text()),
    Kind.TOOLS: _list(_text()),
    Kind.SLUGS: _list(_text(f"^{SLUG}$")),
    Kind.TARGET: _text(),
    Kind.CONVERSATION: {"type": "string", "enum": list(CONVERSATIONS)},
    Kind.RESUME: {"type": "string", "enum": list(RESUMES)},
    Kind.TRIGGERS: {"$ref": "#/$defs/triggers"},
    Kind.MOVEMENTS: {**_list({"$ref": "#/$defs/movement"}), "minItems": 1, "maxItems": MAX_MOVEMENTS_LISTED},
    Kind.RULES: _list({"$ref": "#/$defs/rule"}),
    Kind.UNSUPPORTED: {},
}


def _object(scope: Scope, keys: Iterable[Key], describe: Callable[[str], str] | None) -> dict[str, Any]:
    keys = tuple(keys)
    properties = {key.name: dict(_SHAPES[key.kind]) for key in keys}
    if describe:
        for name, shape in properties.items():
            shape["description"] = describe(key_message(scope, name))
    required = [key.name for key in keys if key.required]
    whole: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**whole, "required": required} if required else whole


def piece_schema(describe: Callable[[str], str] | None = None) -> dict[str, Any]:
    """The JSON Schema (2020-12) of piece files. ``describe`` turns a catalogue key (``key_message``) into a
    description.

    It holds the shapes; what needs the whole file (targets that exist, cycles) is the validator's.
    """
    objects = {scope: _object(scope, keys.values(), describe) for scope, keys in KEYS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "maestro piece",
        **objects[Scope.PIECE],
        "$defs": {str(scope): shape for scope, shape in objects.items() if scope is not Scope.PIECE},
    }
