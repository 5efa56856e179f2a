"""The texts of the product, by key and language: prompts for the model and messages for people, each from its
TOML files.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from engine.core.errors import EngineError
from engine.core.prompting import Texts

LANGUAGES = ("en", "ja")


@cache
def prompts(language: str) -> Texts:
    """What the model is told in a language (English for an unknown one)."""
    return _load("engine.prompts", language if language in LANGUAGES else "en")


@cache
def messages(language: str) -> Texts:
    """What people are told in a language (English for an unknown one)."""
    return _load("engine.messages", language if language in LANGUAGES else "en")


def language_of_locale(locale: str | None) -> str:
    """The language for a client's locale (``ja-JP`` → ``ja``; anything unknown → ``en``)."""
    return "ja" if (locale or "").lower().replace("_", "-").split("-")[0] == "ja" else "en"


def language_of_text(text: str) -> str:
    """The language of an instruction by its script: kana or mostly Han → ``ja``, else ``en``."""
    kana = sum("\u3040" <= c <= "\u30ff" or "\uff66" <= c <= "\uff9d" for c in text)
    han = sum("\u4e00" <= c <= "\u9fff" for c in text)
    return "ja" if kana or han * 2 > len(text.strip()) > 0 else "en"


def explain(error: EngineError, language: str) -> str:
    """An error as one sentence in a language. An unknown key is a bug, but a person still gets words, never a
    traceback.
    """
    texts = messages(language)
    try:
        return texts(error.key, **error.values)
    except (KeyError, ValueError, IndexError):
        return texts("error.internal", key=error.key)


def _load(package: str, language: str) -> Texts:
    def flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in table.items():
            name = f"{prefix}{key}"
            found |= flat(value, f"{name}.") if isinstance(value, dict) else {name: str(value).strip("\n")}
        return found

    table: dict[str, str] = {}
    for entry in sorted(files(package).iterdir(), key=lambda entry: entry.name):
        if entry.name == f"{language}.toml" or entry.name.endswith(f".{language}.toml"):
            table |= flat(tomllib.loads(entry.read_text("utf-8")))
    return Texts(language, table)
