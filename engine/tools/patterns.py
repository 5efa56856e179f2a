"""File name patterns as git and shells know them, and the rules of ``.gitignore`` files. Pure.

Patterns come from models and from repositories that somebody else made, so matching has a time limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import regex

_LIMIT_S = 0.2
_RULES = 2_000
_BRACES = 8


class Glob:
    """A pattern for paths: ``*``, ``?``, ``[…]``, ``**/`` and, unlike in ``.gitignore``, ``{a,b}``.

    Without a slash it matches the name at any depth, with one the path from the start.
    Raises ``ValueError`` if it is no pattern.
    """

    def __init__(self, pattern: str) -> None:
        anchored = "/" in pattern
        source = translate(pattern.lstrip("/") if anchored else f"**/{pattern}", braces=True)
        try:
            self._regex = regex.compile(source)
        except regex.error as fault:
            raise ValueError(str(fault)) from None

    def matches(self, relative: str) -> bool:
        """Whether a path matches. Raises ``TimeoutError`` if that takes too long."""
        return self._regex.fullmatch(relative, timeout=_LIMIT_S) is not None


@dataclass(frozen=True, slots=True)
class _Rule:
    source: str
    keeps: bool
    folders_only: bool


class IgnoreRules:
    """The rules of one ``.gitignore``; paths are relative to its folder, the last rule that matches
    decides.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for line in list(lines)[:_RULES] if (rule := _rule(line)) is not None]
        self._compiled = [regex.compile(rule.source) for rule in self._rules]
        self._any = regex.compile("|".join(rule.source for rule in self._rules)) if self._rules else None

    def __bool__(self) -> bool:
        return self._any is not None

    def verdict(self, relative: str, *, folder: bool) -> bool | None:
        """True if the path is ignored, False if a rule keeps it, None if no rule says anything."""
        try:
            # Nearly every path matches no rule at all: one question instead of many.
            if self._any is None or self._any.fullmatch(relative, timeout=_LIMIT_S) is None:
                return None
            for rule, compiled in zip(reversed(self._rules), reversed(self._compiled), strict=True):
                if (folder or not rule.folders_only) and compiled.fullmatch(relative, timeout=_LIMIT_S):
                    return not rule.keeps
        except TimeoutError:
            # A file of rules that explode is no rule.
            self._any = None
        return None


def _rule(line: str) -> _Rule | None:
    text = line.rstrip("\r\n")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    keeps = text.startswith("!")
    text = text[1:] if keeps else text
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    if not text or (text.endswith("\\") and not text.endswith("\\\\")):
        return None
    source = translate(text.lstrip("/") if "/" in text else f"**/{text}", braces=False)
    try:
        regex.compile(source)
    except regex.error:
        return None
    return _Rule(f"(?:{source})", keeps, folders_only)


def translate(pattern: str, *, braces: bool) -> str:
    """The regular expression of a pattern that stands for a path from its start."""
    pieces, at, depth = [], 0, 0
    while at < len(pattern):
        char = pattern[at]
        begins = at == 0 or pattern[at - 1] == "/"
        if begins and pattern.startswith("**/", at):
            pieces.append("(?:.*/)?")
            at += 3
        elif begins and pattern[at:] == "**":
            pieces.append(".+" if at == 0 or braces else "[^/].*")
            at += 2
        elif char == "*":
            at += len(pattern[at:]) - len(pattern[at:].lstrip("*"))
            pieces.append("[^/]*")
        elif char == "[" and (found := _character_class(pattern, at)):
            pieces.append(found[0])
            at = found[1]
        elif char == "\\" and at + 1 < len(pattern):
            pieces.append(regex.escape(pattern[at + 1]))
            at += 2
        else:
            piece, depth = _plain(pattern, at, depth, braces=braces)
            pieces.append(piece)
            at += 1
    return "(?s:" + "".join(pieces) + ")"


def _plain(pattern: str, at: int, depth: int, *, braces: bool) -> tuple[str, int]:
    """One character that is neither a star nor a class, and the depth of braces after it."""
    char = pattern[at]
    if char == "?":
        return "[^/]", depth
    if braces and char == "{" and depth < _BRACES and "}" in pattern[at:]:
        return "(?:", depth + 1
    if depth and char == "}":
        return ")", depth - 1
    if depth and char == ",":
        return "|", depth
    return regex.escape(char), depth


def _character_class(pattern: str, at: int) -> tuple[str, int] | None:
    """``[…]`` at ``at`` as an expression, and where it ends; None if it does not end."""
    start = at + 1
    negated = pattern[start : start + 1] in ("!", "^")
    start += negated
    end = pattern.find("]", start + 1)
    if end < 0:
        return None
    inside = pattern[start:end]
    escaped = "".join(f"\\{char}" if char in "\\[]^&~|" else char for char in inside.replace("\\", ""))
    return f"(?!/)[{'^' if negated else ''}{escaped}]", end + 1
