"""Each finding about a piece can be said in English and in Japanese."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine.core
from engine.core.piece_keys import KEYS, key_message

MESSAGES = Path(engine.core.__file__).parents[1] / "messages"
SOURCES = [
    *sorted(Path(engine.core.__file__).parent.glob("piece_*.py")),
    Path(engine.core.__file__).parent / "lint.py",
]
SOURCES += [MESSAGES.parent / "loader.py", MESSAGES.parent / "yaml_tree.py"]


def flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def catalogue(language: str) -> dict[str, str]:
    """All lines of a language whose key begins with ``piece.``, whatever file they are in."""
    files = sorted(MESSAGES.rglob(f"*{language}.toml"))
    lines = {
        key: text for file in files for key, text in flat(tomllib.loads(file.read_text(encoding="utf-8")))
    }
    return {key: text for key, text in lines.items() if key.startswith("piece.")}


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


EN, JA = catalogue("en"), catalogue("ja")


def test_both_languages_have_the_same_lines_with_the_same_values() -> None:
    assert {key: placeholders(text) for key, text in EN.items()} == {
        key: placeholders(text) for key, text in JA.items()
    }


def test_every_key_of_piece_files_is_described() -> None:
    wanted = {key_message(scope, name) for scope, keys in KEYS.items() for name in keys}
    assert {key for key in EN if key.startswith("piece.key.")} == wanted


def test_every_line_is_used_by_the_code() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    lines = {
        key.removeprefix("piece.").removesuffix("_near") for key in EN if not key.startswith("piece.key.")
    }
    assert [line for line in sorted(lines) if f'"{line}"' not in code and f'"piece.{line}"' not in code] == []


@pytest.mark.parametrize("language", [EN, JA], ids=["en", "ja"])
def test_a_finding_with_a_nearest_name_also_has_a_line_without(language: dict[str, str]) -> None:
    near = {key for key in language if key.endswith("_near")}
    assert near and {key.removesuffix("_near") for key in near} <= language.keys()
    assert all("near" in placeholders(language[key]) for key in near)
