"""What a YAML file holds, with places: the neutral tree between the YAML reader and the validator, and the
findings of both.

Lines and columns count from 0. Columns are Unicode code points; ``Lines.utf16`` turns them into the units
of the Language Server Protocol. A line ends where the protocol says so (LF, CR LF, CR), not where YAML 1.1
does (also NEL, LS, PS).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Literal

import msgspec

Severity = Literal["error", "warning", "info"]

_LINE_END = re.compile(r"\r\n|\n|\r")


class Span(msgspec.Struct, frozen=True):
    """A stretch of text, its end excluded."""

    line: int
    column: int
    end_line: int
    end_column: int


class Scalar(msgspec.Struct, frozen=True):
    """A scalar as text, untyped: ``plain`` says that it has no quotes and is no block. ``tag`` is an
    explicit tag, resolved, or None.
    """

    span: Span
    value: str
    plain: bool
    tag: str | None = None

    @property
    def is_null(self) -> bool:
        """True for what YAML reads as "no value"."""
        return self.plain and self.value in ("", "~", "null", "Null", "NULL")


class Sequence(msgspec.Struct, frozen=True):
    """A list."""

    span: Span
    items: tuple[Node, ...]
    tag: str | None = None


class Entry(msgspec.Struct, frozen=True):
    """One key with its value. YAML admits any node as a key."""

    key: Node
    value: Node


class Mapping(msgspec.Struct, frozen=True):
    """A mapping in the order of the file; a key written twice is there twice."""

    span: Span
    entries: tuple[Entry, ...]
    tag: str | None = None


Node = Scalar | Sequence | Mapping


class Problem(msgspec.Struct, frozen=True):
    """One finding.

    ``code`` is stable and for machines; ``key`` and ``values`` make the sentence from the message
    catalogue; ``fix`` is text that mends the file when it replaces ``span``.
    """

    severity: Severity
    code: str
    span: Span
    values: dict[str, str] = {}
    fix: str | None = None

    @property
    def key(self) -> str:
        """The catalogue key: ``piece.<code>``, with ``_near`` where a nearest name is known
        (``values["near"]``).
        """
        return f"piece.{self.code}_near" if "near" in self.values else f"piece.{self.code}"


def has_errors(problems: Iterable[Problem]) -> bool:
    """True if one of the problems forbids the use of the piece."""
    return any(problem.severity == "error" for problem in problems)


class Lines:
    """Where the lines of a text begin: from an offset in code points to a line and column, and on to
    UTF-16.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column (code points) of ``offset``; offsets past the end stand for the end."""
        offset = min(offset, len(self._text))
        line = bisect_right(self._starts, offset) - 1
        return line, offset - self._starts[line]

    def span(self, start: int, end: int) -> Span:
        """The span between two offsets in code points."""
        line, column = self.position(start)
        end_line, end_column = self.position(max(start, end))
        return Span(line, column, end_line, end_column)

    def utf16(self, line: int, column: int) -> int:
        """The column in UTF-16 code units."""
        start = self._starts[min(line, len(self._starts) - 1)]
        return column + sum(1 for char in self._text[start : start + column] if ord(char) > 0xFFFF)

    def range(self, span: Span) -> dict[str, dict[str, int]]:
        """The span as a Range of the Language Server Protocol, in UTF-16 code units (its default)."""
        return {
            "start": {"line": span.line, "character": self.utf16(span.line, span.column)},
            "end": {"line": span.end_line, "character": self.utf16(span.end_line, span.end_column)},
        }


def problem_data(problem: Problem, lines: Lines) -> dict[str, object]:
    """A problem as ``data.problems[]`` of error 4004 (``wire.md``), less ``message``.

    ``key`` and ``values`` are there for the edge that says it in its reader's language and adds the
    sentence as ``message``.
    """
    data: dict[str, object] = {
        "severity": problem.severity,
        "range": lines.range(problem.span),
        "code": problem.code,
        "key": problem.key,
        "values": dict(problem.values),
    }
    return data if problem.fix is None else {**data, "fix": problem.fix}
