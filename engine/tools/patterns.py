"""File name patterns as git and shells know them, and the rules of ``.gitignore`` files. Pure.

Patterns come from models and from repositories that somebody else made, so matching has a time limit.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import regex

_LIMIT_S = 0.2
_RULES = 10_000
_BRACES = 8
_BOM = b"\xef\xbb\xbf"
_RUN = 64
"""So many plain characters at most stand together in an expression: ``regex`` makes a table of a whole run,
which takes minutes for some thousands, and no time limit holds.
"""
_NEVER = r"(?!)"
_WILD = frozenset("*?[\\")
_LAST = 0x10FFFF
# The named classes of shells are those of ASCII.
_NAMED: dict[str, tuple[tuple[int, int], ...]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "blank": ((32, 32), (9, 9)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}


class Glob:
    """A pattern for paths: ``*``, ``?``, ``[…]``, ``**/`` and, unlike in ``.gitignore``, ``{a,b}``.

    Without a slash it matches the name at any depth, with one the path from the start. Composed and
    decomposed letters (が as one character or two) are the same. Raises ``ValueError`` if it is no pattern.
    """

    def __init__(self, pattern: str) -> None:
        pattern = _composed(pattern)
        anchored = "/" in pattern
        source = translate(pattern.lstrip("/") if anchored else f"**/{pattern}", braces=True)
        try:
            self._regex = regex.compile(source)
        except (regex.error, RecursionError) as fault:
            raise ValueError(str(fault)) from None

    def matches(self, relative: str) -> bool:
        """Whether a path matches. Raises ``TimeoutError`` if that takes too long."""
        return self._regex.fullmatch(_composed(relative), timeout=_LIMIT_S) is not None


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@dataclass(frozen=True, slots=True)
class _Rule:
    """``text`` is the pattern without marks; ``anchored`` counts from the folder, else it is a name."""

    text: str
    keeps: bool
    folders_only: bool
    anchored: bool

    @property
    def source(self) -> str:
        return f"(?:{translate(self.text if self.anchored else f'**/{self.text}', braces=False)})"


class IgnoreRules:
    """The rules of one or more ``.gitignore`` files, given as bytes; of all rules that match a path (relative
    to the folder they hold in) the last decides.

    As git does it, names are compared byte by byte: ``?`` is one byte. Of a file, 10,000 rules count.
    """

    def __init__(self, *files: bytes) -> None:
        self._rules = [rule for data in files for rule in _rules(data)]
        self._names: dict[str, list[int]] = {}
        self._paths: dict[str, list[int]] = {}
        self._endings: dict[str, list[int]] = {}
        self._others: list[tuple[int, regex.Pattern[str]]] = []
        for at, rule in enumerate(self._rules):
            self._sort_in(at, rule)
        self._any = self._joined()

    def _sort_in(self, at: int, rule: _Rule) -> None:
        if not _WILD & set(rule.text):
            (self._paths if rule.anchored else self._names).setdefault(rule.text, []).append(at)
        elif rule.text.startswith("*.") and not rule.anchored and not _WILD & set(rule.text[1:]):
            self._endings.setdefault(rule.text[1:], []).append(at)
        else:
            self._others.append((at, regex.compile(rule.source)))

    def _joined(self) -> regex.Pattern[str] | None:
        """One question in place of many: nearly every path matches no rule at all."""
        sources = "|".join(compiled.pattern for _, compiled in self._others)
        return regex.compile(sources) if sources else None

    def __bool__(self) -> bool:
        return bool(self._rules)

    @property
    def keeps_some(self) -> bool:
        """Whether a rule takes something back (``!src``)."""
        return any(rule.keeps for rule in self._rules)

    def verdict(self, relative: str, *, folder: bool) -> bool | None:
        """True if the path is ignored, False if a rule keeps it, None if no rule says anything."""
        last = max(self._matching(_bytewise(relative), folder), default=-1)
        return None if last < 0 else not self._rules[last].keeps

    def _matching(self, path: str, folder: bool) -> Iterator[int]:
        name = path[path.rfind("/") + 1 :]
        found = [*self._names.get(name, ()), *self._paths.get(path, ())]
        dot = name.find(".") if self._endings else -1
        while dot >= 0:
            found += self._endings.get(name[dot:], ())
            dot = name.find(".", dot + 1)
        if self._any is not None:
            found += self._slow(path)
        return (at for at in found if folder or not self._rules[at].folders_only)

    def _slow(self, path: str) -> list[int]:
        try:
            if self._any is None or self._any.fullmatch(path, timeout=_LIMIT_S) is None:
                return []
            return [at for at, one in self._others if one.fullmatch(path, timeout=_LIMIT_S)]
        except TimeoutError:
            # Rules that explode are no rules.
            self._any = None
            return []


def _bytewise(path: str) -> str:
    """A path with one character for each of its bytes."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


def _rules(data: bytes) -> list[_Rule]:
    lines = data.removeprefix(_BOM).decode("latin-1").split("\n")
    return [rule for line in lines[:_RULES] if (rule := _rule(line.removesuffix("\r"))) is not None]


def _rule(line: str) -> _Rule | None:
    if line.startswith("#"):
        return None
    keeps = line.startswith("!")
    text = _without_trailing_spaces(line[1:] if keeps else line)
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    if not text:
        return None
    return _Rule(text.removeprefix("/"), keeps, folders_only, "/" in text)


def _without_trailing_spaces(line: str) -> str:
    kept = at = 0
    while at < len(line):
        escaped = line[at] == "\\"
        at += 1 + escaped
        if escaped or line[at - 1] != " ":
            kept = at
    return line[:kept]


def translate(pattern: str, *, braces: bool) -> str:
    """The regular expression of a pattern that stands for a path from its start.

    ``braces`` is how people write globs: with ``{a,b}``, and an open ``[`` or a last backslash mean
    themselves. Without it, it is how git reads rules, where such a pattern matches nothing.
    """
    pieces: list[str] = []
    at = depth = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            piece, at = _stars(pattern, at)
        elif char == "[" and (found := _character_class(pattern, at)):
            piece, at = found
        elif char == "\\" and at + 1 < len(pattern):
            piece, at = regex.escape(pattern[at + 1]), at + 2
        elif char in "[\\" and not braces:
            return _NEVER
        else:
            piece, depth = _plain(pattern, at, depth, braces=braces)
            at += 1
        if len(pieces) % _RUN == _RUN - 1 and piece == regex.escape(pattern[at - 1]):
            piece = f"(?=.){piece}"
        pieces.append(piece)
    return f"(?s:{''.join(pieces)}{')' * depth})"


def _stars(pattern: str, at: int) -> tuple[str, int]:
    """What a run of stars at ``at`` stands for, and where it ends: two or more between slashes are any
    folders, everywhere else they are one star.
    """
    end = at
    while pattern[end : end + 1] == "*":
        end += 1
    begins = at == 0 or pattern[at - 1] == "/"
    if end - at < 2 or not begins or pattern[end : end + 1] not in ("", "/"):
        return "[^/]*", end
    return ("(?:.*/)?", end + 1) if end < len(pattern) else (".+", end)


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
    """``[…]`` at ``at`` as an expression, and where it ends; None if it does not end or names no class."""
    at += 1
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    ranges: list[tuple[int, int]] = []
    first, previous = True, -1
    while at < len(pattern) and (first or pattern[at] != "]"):
        first = False
        if pattern.startswith("[:", at) and (named := _named_class(pattern, at)) is not None:
            if not named[0]:
                return None
            ranges += named[0]
            previous, at = -1, named[1]
            continue
        between = pattern[at] == "-" and previous >= 0 and pattern[at + 1 : at + 2] not in ("", "]")
        at += between
        at += pattern[at] == "\\"
        if at == len(pattern):
            return None
        code = ord(pattern[at])
        ranges.append((previous, code) if between else (code, code))
        previous, at = -1 if between else code, at + 1
    return (_one_of(ranges, negated), at + 1) if at < len(pattern) else None


def _named_class(pattern: str, at: int) -> tuple[tuple[tuple[int, int], ...], int] | None:
    """``[:alpha:]`` at ``at`` as ranges (none for a name that is no class) and where it ends; None if it is
    plain characters.
    """
    end = pattern.find("]", at + 2)
    if end < 0 or pattern[end - 1] != ":" or end - 1 < at + 2:
        return None
    return _NAMED.get(pattern[at + 2 : end - 1], ()), end + 1


def _one_of(ranges: Iterable[tuple[int, int]], negated: bool) -> str:
    """One character in (or not in) the ranges, never a slash; an empty range holds nothing."""
    inside = "".join(f"{_code(low)}-{_code(high)}" for low, high in ranges if low <= high)
    if not inside:
        return "[^/]" if negated else _NEVER
    return f"(?!/)[{'^' if negated else ''}{inside}]"


def _code(point: int) -> str:
    return f"\\U{min(point, _LAST):08x}"
