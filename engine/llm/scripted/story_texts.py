"""The words of the scripted model, by language."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from engine.llm.scripted.script import ScriptReply


class Words:
    """One part of the words of a language: texts with placeholders, lists, and tables of words."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table

    def __call__(self, key: str, /, **values: object) -> str:
        """The text of ``key``, filled."""
        return str(self._table[key]).strip("\n").format_map(values)

    def of(self, key: str, kind: str) -> str:
        """The word for ``kind`` in the table ``key``."""
        return str(self._table[key][kind])

    def options(self, key: str) -> list[str]:
        """A list of short answers."""
        return [str(option) for option in self._table[key]]

    def do(self, key: str, *calls: tuple[str, Mapping[str, Any]], **values: object) -> ScriptReply:
        """A reply that says the text of ``key`` and calls these tools."""
        return ScriptReply(text=self(key, **values), calls=calls)


@cache
def words(language: str, part: str) -> Words:
    """The words of a part of the story in a language."""
    text = files("engine.llm.scripted").joinpath(f"story.{language}.toml").read_text("utf-8")
    return Words(tomllib.loads(text)[part])
