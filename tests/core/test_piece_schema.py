"""The JSON Schema of pieces agrees with the validator on what has a shape."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.core.piece_keys import KEYS, piece_schema
from engine.loader import check_text, shipped_folder

DATA = Path(__file__).parents[1] / "data" / "pieces"
FILES = [*sorted(shipped_folder().glob("*.yaml")), DATA / "every-key.yaml"]
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}


def faults(schema: dict[str, Any], value: object, root: dict[str, Any], path: str = "") -> list[str]:
    """Where ``value`` breaks the schema: the keywords that our schema uses, no more."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (kind == "integer" and isinstance(value, bool))):
        return [f"{path}: not {kind}"]
    if isinstance(value, dict):
        return in_object(schema, value, root, path)
    if isinstance(value, list):
        few = [f"{path}: too few"] if len(value) < schema.get("minItems", 0) else []
        items = schema.get("items", {})
        return few + [
            fault for n, item in enumerate(value) for fault in faults(items, item, root, f"{path}/{n}")
        ]
    return in_scalar(schema, value, path)


def in_object(schema: dict[str, Any], value: dict[str, Any], root: dict[str, Any], path: str) -> list[str]:
    found = [f"{path}: {name} missing" for name in schema.get("required", ()) if name not in value]
    known = schema.get("properties", {})
    if schema.get("additionalProperties") is False:
        found += [f"{path}: {name} unknown" for name in value if name not in known]
    for name in value.keys() & known.keys():
        found += faults(known[name], value[name], root, f"{path}/{name}")
    return found


def in_scalar(schema: dict[str, Any], value: object, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, str):
        found += [f"{path}: pattern"] if not re.search(schema.get("pattern", ""), value) else []
        found += [f"{path}: enum"] if value not in schema.get("enum", [value]) else []
    if isinstance(value, int) and value < schema.get("minimum", value):
        found.append(f"{path}: minimum")
    return found


def load(text: str) -> Any:
    """Parse as other tools do, for which the schema is."""
    return yaml.safe_load(
        text.replace("[on, no,", '["on", "no",').replace("condition: yes", 'condition: "yes"')
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_schema_accepts_what_the_validator_accepts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert check_text(text).piece is not None
    assert faults(piece_schema(), load(text), piece_schema()) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("max_movements: 24\n", "", ": max_movements missing"),
        ("max_movements: 24", "max_movements: 0", "/max_movements: minimum"),
        ("max_movements: 24", "max_movements: yes", "/max_movements: not integer"),
        ("max_movements: 24", "max_movement: 24", ": max_movement unknown"),
        ("name: code", "name: My Code", "/name: pattern"),
        ("edit: true", "edit: 1", "/movements/1/edit: not boolean"),
        ("conversation: continue", "conversation: go", "/movements/1/conversation: enum"),
        ("next: implement", "next: ''", "/movements/0/rules/0/next: pattern"),
        ("persona:", "person:", "/movements/0: persona missing"),
    ],
)
def test_the_schema_refuses_what_the_validator_refuses(old: str, new: str, fault: str) -> None:
    text = (shipped_folder() / "code.yaml").read_text(encoding="utf-8")
    assert old in text
    text = text.replace(old, new, 1)
    assert check_text(text).piece is None
    assert fault in faults(piece_schema(), load(text), piece_schema())


def test_a_list_of_no_movements_is_refused() -> None:
    assert "/movements: too few" in faults(piece_schema(), {"movements": []}, piece_schema())


def test_every_key_of_the_table_is_in_the_schema_and_described() -> None:
    schema = piece_schema(lambda key: f"about {key}")
    for scope, keys in KEYS.items():
        shape = schema if scope == "piece" else schema["$defs"][scope]
        assert set(shape["properties"]) == set(keys)
        assert [name for name, key in keys.items() if key.required] == shape.get("required", [])
        for name in keys:
            assert shape["properties"][name]["description"] == f"about piece.key.{scope}.{name}"


def test_the_schema_is_plain_json() -> None:
    assert json.loads(json.dumps(piece_schema())) == piece_schema()
