"""From a YAML tree to typed fields: one reader per kind of value, driven by the table of keys.

The readers find what can be seen in one value (missing, unknown and doubled keys, wrong types);
``engine.core.lint`` finds what needs the whole piece.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from engine.core.piece_keys import (
    CHOICES,
    KEYS,
    MAX_MOVEMENTS_LISTED,
    MOVEMENT_NAME,
    PIECE_NAME,
    SLUG,
    Key,
    Kind,
    Scope,
)
from engine.core.piece_tree import Mapping, Node, Problem, Scalar, Sequence, Severity, Span
from engine.core.truncate import cut

MAX_PROBLEMS: Final = 100
"""Findings past this many are counted as errors but not listed: nobody reads them and each costs time."""

MAX_SHOWN: Final = 300
"""Characters of a name or list of names in one sentence."""

_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")
_MEANT = dict.fromkeys(("yes", "on", "y"), "true") | dict.fromkeys(("no", "off", "n"), "false")
_COUNT = re.compile(r"[1-9][0-9]{0,5}")
_KNOWN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "bool", "seq", "map", "null", "float")
)


class Fault:
    """Stands for a value that could not be read; the report says why."""


FAULT: Final = Fault()


@dataclass(frozen=True, slots=True)
class Field:
    """A value that was read (or ``FAULT``), the node it came from, and where its key stands."""

    value: Any
    node: Node
    key: Span

    @property
    def ok(self) -> bool:
        """True if the value could be read."""
        return self.value is not FAULT

    @property
    def place(self) -> Span:
        """Where to show a finding about this value: the value, or its key if the value is a block."""
        return self.node.span if isinstance(self.node, Scalar) else self.key


Fields = dict[str, Field]


class Report:
    """Collects problems in the order they are found."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.failed = False

    def add(self, severity: Severity, code: str, span: Span, fix: str | None = None, **values: str) -> None:
        """Note a finding; ``values`` fill the sentence ``piece.<code>``."""
        self.failed = self.failed or severity == "error"
        values = {name: shown(value) for name, value in values.items()}
        problem = Problem(severity, code, span, values, fix)
        if (
            len(self.problems) < MAX_PROBLEMS and problem not in self.problems
        ):  # an alias shows its fault each time
            self.problems.append(problem)

    def error(self, code: str, span: Span, fix: str | None = None, **values: str) -> None:
        """Note what forbids the use of the piece."""
        self.add("error", code, span, fix, **values)

    def unknown(
        self, severity: Severity, code: str, span: Span, name: str, known: Iterable[str], **values: str
    ) -> None:
        """Note a name that does not exist, with the nearest one that does as its fix."""
        near = None if len(self.problems) >= MAX_PROBLEMS else nearest(name, known)
        if near is None:
            self.add(severity, code, span, name=name, **values)
        else:
            self.add(severity, code, span, as_scalar(near), name=name, near=near, **values)


def as_scalar(text: str) -> str:
    """A name as it may stand in a YAML file: quoted where plain it would mean something else."""
    plain = re.fullmatch(r"[^\W\d_](?:[\w.-]|(?<=\w) (?=\w))*", text)
    return (
        text
        if plain and text.lower() not in _WORDS
        else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )


_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
"""What other YAML readers take for something else than text."""


def shown(text: str) -> str:
    """What a sentence quotes from outside: bounded, on one line, nothing unprintable."""
    return "".join(char if char.isprintable() else " " for char in cut(text, MAX_SHOWN))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, or None. Letter case does not count as a difference."""
    if len(name) > 64:
        return None
    folded = {choice.casefold(): choice for choice in list(known)[:MAX_MOVEMENTS_LISTED]}
    found = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def read_mapping(report: Report, node: Node, scope: Scope, place: Span | None = None) -> Fields | None:
    """Read a mapping by the keys of its scope; None (and a finding at ``place``) if it is none."""
    _check_tag(report, node)
    if not isinstance(node, Mapping):
        report.error("not_mapping", place or _start(node), scope=str(scope))
        return None
    keys = KEYS[scope]
    seen: dict[str, Span] = {}
    fields: Fields = {}
    for entry in node.entries:
        name = _key_name(report, entry.key)
        if name is None:
            continue
        if name in seen:
            report.error("duplicate_key", entry.key.span, name=name, line=str(seen[name].line + 1))
            continue
        seen[name] = entry.key.span
        if name in keys:
            value = _read(report, entry.value, keys[name], entry.key.span)
            fields[name] = Field(value, entry.value, entry.key.span)
        elif name == "<<":
            report.error("merge_key", entry.key.span)
        else:
            report.unknown("warning", "unknown_key", entry.key.span, name, sorted(keys.keys() - seen.keys()))
    for key in keys.values():
        if key.required and key.name not in seen:
            report.error("missing_key", _start(node), name=key.name)
    return fields


def _start(node: Node) -> Span:
    """A short place for a finding about a whole collection: its first key or item, else its first
    character.
    """
    while not isinstance(node, Scalar):
        inner = node.entries[0].key if isinstance(node, Mapping) and node.entries else None
        inner = node.items[0] if isinstance(node, Sequence) and node.items else inner
        if inner is None:
            return Span(node.span.line, node.span.column, node.span.line, node.span.column + 1)
        node = inner
    return node.span


def _key_name(report: Report, key: Node) -> str | None:
    if isinstance(key, Scalar):
        return key.value
    report.error("key_not_text", _start(key))
    return None


def _check_tag(report: Report, node: Node) -> None:
    if node.tag not in (None, "!") and node.tag not in _KNOWN_TAGS:
        report.error("tag", _start(node), tag=str(node.tag))


def _read(report: Report, node: Node, key: Key, place: Span) -> Any:
    _check_tag(report, node)
    return _READERS[key.kind](report, node, key, place)


def _text(report: Report, node: Node, key: Key, place: Span) -> Any:
    """Text without the blanks around it; never empty."""
    if not isinstance(node, Scalar) or node.is_null:
        report.error("not_text", node.span if isinstance(node, Scalar) else place, name=key.name)
        return FAULT
    if not (text := node.value.strip()):
        report.error("empty_text", node.span, name=key.name)
        return FAULT
    return text


def _piece_name(report: Report, node: Node, key: Key, place: Span) -> Any:
    text = _text(report, node, key, place)
    if text is FAULT or re.fullmatch(PIECE_NAME, text):
        return text
    slug = "-".join(re.findall("[a-z0-9]+", text.lower())) if text.isascii() else ""
    report.error("piece_name", node.span, slug or None, name=text)
    return FAULT


def _movement_name(report: Report, node: Node, key: Key, place: Span) -> Any:
    text = _text(report, node, key, place)
    if text is FAULT or re.fullmatch(MOVEMENT_NAME, text):
        return text
    report.error("movement_name", node.span, name=text)
    return FAULT


def _boolean(report: Report, node: Node, key: Key, place: Span) -> Any:
    if isinstance(node, Scalar) and node.plain and node.value in _TRUE + _FALSE:
        return node.value in _TRUE
    meant = node.value.strip().lower() if isinstance(node, Scalar) else ""
    fix = _MEANT.get(meant, meant if meant in ("true", "false") else None)
    report.error("not_boolean", node.span if isinstance(node, Scalar) else place, fix, name=key.name)
    return FAULT


def _count(report: Report, node: Node, key: Key, place: Span) -> Any:
    if isinstance(node, Scalar) and node.plain and _COUNT.fullmatch(node.value):
        return int(node.value)
    quoted = isinstance(node, Scalar) and _COUNT.fullmatch(node.value.strip())
    fix = quoted.group() if quoted else None
    report.error("not_count", node.span if isinstance(node, Scalar) else place, fix, name=key.name)
    return FAULT


def _choice(report: Report, node: Node, key: Key, place: Span) -> Any:
    choices = CHOICES[key.kind]
    if isinstance(node, Scalar) and node.value in choices:
        return node.value
    span = node.span if isinstance(node, Scalar) else place
    written = node.value if isinstance(node, Scalar) else ""
    report.unknown("error", "not_choice", span, written, choices, key=key.name, choices=", ".join(choices))
    return FAULT


def _items(report: Report, node: Node, key: Key, place: Span) -> tuple[Node, ...] | None:
    if isinstance(node, Sequence):
        return node.items
    if isinstance(node, Scalar):
        inline = (
            f"[{node.value}]" if node.plain and re.fullmatch(r"[\w*-]+(, *[\w*-]+)*", node.value) else None
        )
        report.error(
            "not_list", node.span, " []" if node.is_null and not node.value else inline, name=key.name
        )
    else:
        report.error("not_list", place, name=key.name)
    return None


def _texts(report: Report, node: Node, key: Key, place: Span) -> Any:
    items = _items(report, node, key, place)
    if items is None:
        return FAULT
    texts = tuple(_text(report, item, key, _start(item)) for item in items)
    return FAULT if FAULT in texts else texts


def _slugs(report: Report, node: Node, key: Key, place: Span) -> Any:
    texts = _texts(report, node, key, place)
    if texts is FAULT or not isinstance(node, Sequence):
        return FAULT
    bad = [(text, item) for text, item in zip(texts, node.items, strict=True) if not re.fullmatch(SLUG, text)]
    for text, item in bad:
        report.error("slug", item.span, name=text)
    return FAULT if bad else texts


def _triggers(report: Report, node: Node, key: Key, place: Span) -> Any:
    fields = read_mapping(report, node, Scope.TRIGGERS, _start(node) if isinstance(node, Sequence) else place)
    if fields is None:
        return FAULT
    return fields["keywords"].value if "keywords" in fields else ()


def _mappings(scope: Scope) -> Callable[[Report, Node, Key, Span], Any]:
    def read(report: Report, node: Node, key: Key, place: Span) -> Any:
        items = _items(report, node, key, place)
        if items is None:
            return FAULT
        if scope is Scope.MOVEMENT and not items:
            report.error("no_movements", place)
        if scope is Scope.MOVEMENT and len(items) > MAX_MOVEMENTS_LISTED:
            report.error("too_many_movements", place, limit=str(MAX_MOVEMENTS_LISTED))
            return FAULT
        return tuple(fields for item in items if (fields := read_mapping(report, item, scope)) is not None)

    return read


def _unsupported(report: Report, node: Node, key: Key, place: Span) -> Any:
    report.add("info", "unsupported_key", place, name=key.name)
    return None


_READERS: dict[Kind, Callable[[Report, Node, Key, Span], Any]] = {
    Kind.TEXT: _text,
    Kind.PIECE_NAME: _piece_name,
    Kind.MOVEMENT_NAME: _movement_name,
    Kind.BOOLEAN: _boolean,
    Kind.COUNT: _count,
    Kind.TEXTS: _texts,
    Kind.TOOLS: _texts,
    Kind.SLUGS: _slugs,
    Kind.TARGET: _text,
    Kind.CONVERSATION: _choice,
    Kind.RESUME: _choice,
    Kind.TRIGGERS: _triggers,
    Kind.MOVEMENTS: _mappings(Scope.MOVEMENT),
    Kind.RULES: _mappings(Scope.RULE),
    Kind.UNSUPPORTED: _unsupported,
}
