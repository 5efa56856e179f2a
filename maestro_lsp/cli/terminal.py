"""The person's terminal: its language, its colours, its widths, and nothing that could take it over.

What the model, a file or a server said may hold escape sequences. `Terminal` never prints such text without
`clean`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, Protocol, TextIO

from engine import catalogue, graphemes, language_of_locale

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Notable(Protocol):
    """Something that can be said in a language (``maestro_lsp.settings.Notice``)."""

    def text(self, language: str) -> str:
        """The sentence."""
        ...


def terminal_locale() -> str:
    """The locale of the terminal, as POSIX orders the variables."""
    return os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""


def clean(text: str) -> str:
    """The text without what could move the cursor, hide text or turn its direction; tabs, newlines stay."""
    return _CONTROLS.sub("�", text.replace("\r\n", "\n"))


def width(text: str) -> int:
    """Columns of a terminal: wide East Asian characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def fit(text: str, columns: int) -> str:
    """The text on one line, cut (with ``…``) or padded to exactly ``columns``."""
    text = " ".join(clean(text).split())
    if width(text) > columns:
        kept, room = "", columns - 1
        for character in graphemes(text):
            room -= width(character)
            if room < 0:
                break
            kept += character
        text = kept + "…"
    return text + " " * (columns - width(text))


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


class Terminal:
    """Where a command speaks: results and progress on stdout, mistakes and warnings on stderr."""

    def __init__(self) -> None:
        self.language = language_of_locale(terminal_locale())
        self._texts = catalogue(self.language)
        # A stream that was closed (`>&-`) is None, and nobody could be told of it.
        sys.stdout = sys.stdout or _nowhere()
        sys.stderr = sys.stderr or _nowhere()
        for stream in (sys.stdout, sys.stderr):
            if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
                reconfigure(errors="backslashreplace")
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self.tty = sys.stdout.isatty()
        self.interactive = sys.stdin.isatty() if sys.stdin is not None else False
        self._colours = self.tty and not plain

    def text(self, key: str, /, **values: object) -> str:
        """A sentence of the catalogue in the person's language."""
        return self._texts(key, **values)

    def say(self, key: str, /, **values: object) -> None:
        """Print a sentence of the catalogue."""
        self.line(self.text(key, **values))

    def line(self, text: str = "") -> None:
        """Print a line."""
        print(text, flush=True)

    def part(self, text: str) -> None:
        """Print without ending the line."""
        print(text, end="", flush=True)

    def json(self, value: Any) -> None:
        """Print one JSON value on one line."""
        ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
        text = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
        print(text.encode("utf-8", "replace").decode("utf-8"), flush=True)

    def mistake(self, sentence: str) -> None:
        """Print a mistake: one line on stderr."""
        print(f"maestro-lsp: {' '.join(clean(sentence).split())}", file=sys.stderr, flush=True)

    def warn(self, notices: Iterable[Notable]) -> None:
        """Print warnings, each once."""
        for sentence in dict.fromkeys(notice.text(self.language) for notice in notices):
            self.mistake(f"{self.text('cli.warning')} {sentence}")

    def styled(self, text: str, *styles: str) -> str:
        """The text in colours, where the terminal has them."""
        if not self._colours or not text:
            return text
        return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"

    def columns(self) -> int:
        """How wide the terminal is; 100 where there is none."""
        return get_terminal_size((100, 24)).columns

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print rows under heads; the last column takes what is left, the others what they need."""
        cells = [[" ".join(clean(cell).split()) for cell in row] for row in (heads, *rows)]
        wide = [max(width(row[at]) for row in cells) for at in range(len(heads) - 1)]
        room = self.columns() - sum(wide) - 2 * len(wide)
        for number, row in enumerate(cells):
            last = fit(row[-1], max(room, 20)).rstrip() if self.tty else row[-1]
            parts = [fit(cell, columns) for cell, columns in zip(row, wide, strict=False)]
            line = "  ".join([*parts, last]).rstrip()
            self.line(self.styled(line, "bold") if number == 0 else line)
