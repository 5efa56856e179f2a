"""YAML text to the neutral tree of ``engine.core.piece_tree``, from parser events, so that every scalar
stays text and has its place.

Built from events and not from PyYAML's nodes because the depth, the number of nodes and the reach of
aliases are bounded while reading: a hostile file costs no more than an honest one. No tag is ever resolved
to a Python object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from engine.core.piece_tree import Entry, Lines, Mapping, Node, Problem, Scalar, Sequence, Span

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 50
MAX_NODES: Final = 20_000
"""Nodes after following every alias; the longest honest piece has a few hundred."""

_BOM = "\ufeff"
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_SYNTAX: Final = (
    ("mapping values are not allowed", "yaml_colon"),
    ("tab character", "yaml_tab"),
    ("cannot start any token", "yaml_character"),
    ("unexpected end of stream", "yaml_unclosed"),
    ("maximum nesting depth", "too_deep"),
    ("expected ',' or", "yaml_unclosed"),
    ("did not find expected node content", "yaml_unclosed"),
    ("did not find expected key", "yaml_indent"),
    ("did not find expected '-' indicator", "yaml_indent"),
    ("expected <block end>", "yaml_indent"),
    ("could not find expected ':'", "yaml_no_colon"),
)
"""What the parser says (libyaml and the pure one use nearly the same words) and the code under which we say
it better.
"""


@dataclass(frozen=True, slots=True)
class Tree:
    """What was read: the root (None if there is none to speak of), what was wrong, and the lines of the
    text.
    """

    root: Node | None
    problems: tuple[Problem, ...]
    lines: Lines


class _Refused(Exception):
    """Reading stopped at a fault."""

    def __init__(self, code: str, start: int, end: int | None = None, **values: str) -> None:
        super().__init__(code)
        self.code, self.start, self.end, self.values = code, start, end, values


def _loader() -> Any:
    """The C parser if PyYAML was built with it (about ten times faster), else the pure one."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_tree(source: str | bytes, loader: Any = None) -> Tree:
    """Read one YAML document. Never raises on content: a fault is the one problem of the result.

    Bytes must be UTF-8, with or without a byte order mark. ``loader`` is a PyYAML loader class, for tests.
    """
    text = source if isinstance(source, str) else source.decode("utf-8", errors="surrogateescape")
    lines = Lines(text)
    try:
        _check_text(source, text)
        return Tree(_Builder(text, lines).build(loader or _loader()), (), lines)
    except _Refused as refusal:
        end = refusal.start + 1 if refusal.end is None else refusal.end
        return Tree(
            None, (Problem("error", refusal.code, lines.span(refusal.start, end), refusal.values),), lines
        )


def _check_text(source: str | bytes, text: str) -> None:
    size = len(source) if isinstance(source, bytes) else len(text.encode("utf-8", errors="surrogatepass"))
    if size > MAX_BYTES:
        raise _Refused("too_large", 0, size=str(size // 1024), limit=str(MAX_BYTES // 1024))
    if bad := _UNPRINTABLE.search(text, 1 if text.startswith(_BOM) else 0):
        code = "not_utf8" if isinstance(source, bytes) and _SURROGATE.match(bad.group()) else "bad_character"
        raise _Refused(code, bad.start(), name=f"U+{ord(bad.group()):04X}")


@dataclass(slots=True)
class _Part:
    """A finished node with what aliases to it cost: its nodes and its height."""

    node: Node
    count: int
    height: int


@dataclass(slots=True)
class _Frame:
    """A collection whose end has not come yet."""

    event: Any
    start: int
    parts: list[_Part] = field(default_factory=list)


class _Builder:
    """Turns events into nodes with a stack of its own: no recursion, every bound checked on the way."""

    def __init__(self, text: str, lines: Lines) -> None:
        self._shift = 1 if text.startswith(_BOM) else 0
        self._text = text[self._shift :]
        self._lines = lines
        self._anchors: dict[str, _Part | None] = {}
        self._stack: list[_Frame] = []
        self._count = 0

    def build(self, loader: Any) -> Node:
        """The root node. Raises ``_Refused`` for every fault of the text."""
        parser = loader(self._text)
        root: Node | None = None
        try:
            while parser.check_event():
                event = parser.get_event()
                if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                    raise _Refused("several_documents", self._offset(event.start_mark))
                part = self._take(event)
                if part and self._stack:
                    self._stack[-1].parts.append(part)
                elif part:
                    root = part.node
        except yaml.YAMLError as error:
            raise self._syntax(error) from None
        finally:
            parser.dispose()
        if root is None or (isinstance(root, Scalar) and root.is_null):
            raise _Refused("empty_file", 0)
        return root

    def _take(self, event: Any) -> _Part | None:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.CollectionStartEvent):
            if len(self._stack) >= MAX_DEPTH:
                raise _Refused("too_deep", self._offset(event.start_mark), limit=str(MAX_DEPTH))
            if event.anchor:
                self._anchors[event.anchor] = None
            self._stack.append(_Frame(event, self._offset(event.start_mark)))
        elif isinstance(event, yaml.CollectionEndEvent):
            return self._collection(self._stack.pop(), event)
        return None

    def _offset(self, mark: Any) -> int:
        return int(mark.index) + self._shift

    def _spend(self, count: int, code: str, start: int) -> None:
        self._count += count
        if self._count > MAX_NODES:
            raise _Refused(code, start, limit=str(MAX_NODES))

    def _alias(self, event: Any) -> _Part:
        start, end = self._offset(event.start_mark), self._offset(event.end_mark)
        if event.anchor not in self._anchors:
            raise _Refused("unknown_alias", start, end, name=event.anchor)
        part = self._anchors[event.anchor]
        if part is None:
            raise _Refused("recursive_alias", start, end, name=event.anchor)
        if len(self._stack) + part.height > MAX_DEPTH:
            raise _Refused("too_deep", start, end, limit=str(MAX_DEPTH))
        self._spend(part.count, "alias_bomb", start)
        return part

    def _scalar(self, event: Any) -> _Part:
        start, end = self._offset(event.start_mark), self._offset(event.end_mark)
        self._spend(1, "too_many_nodes", start)
        if bad := _SURROGATE.search(event.value):
            raise _Refused("bad_character", start, end, name=f"U+{ord(bad.group()):04X}")
        plain = not event.style
        part = _Part(Scalar(self._lines.span(start, end), event.value, plain, event.tag), 1, 0)
        return self._remember(event.anchor, part)

    def _collection(self, frame: _Frame, end: Any) -> _Part:
        self._spend(1, "too_many_nodes", frame.start)
        nodes = tuple(part.node for part in frame.parts)
        span = self._lines.span(frame.start, self._offset(end.end_mark))
        if nodes and not frame.event.flow_style:
            span = Span(span.line, span.column, *self._block_end(nodes[-1].span, span))
        node: Node
        if isinstance(frame.event, yaml.MappingStartEvent):
            pairs = zip(nodes[::2], nodes[1::2], strict=True)
            node = Mapping(span, tuple(Entry(key, value) for key, value in pairs), frame.event.tag)
        else:
            node = Sequence(span, nodes, frame.event.tag)
        count = 1 + sum(part.count for part in frame.parts)
        height = 1 + max((part.height for part in frame.parts), default=0)
        return self._remember(frame.event.anchor, _Part(node, count, height))

    @staticmethod
    def _block_end(last: Span, whole: Span) -> tuple[int, int]:
        """A block ends with its last child (the parser's mark is where the next token begins); an alias's
        place lies elsewhere.
        """
        inside = (whole.line, whole.column) <= (last.line, last.column)
        return (last.end_line, last.end_column) if inside else (whole.end_line, whole.end_column)

    def _remember(self, anchor: str | None, part: _Part) -> _Part:
        if anchor:
            self._anchors[anchor] = part
        return part

    def _syntax(self, error: yaml.YAMLError) -> _Refused:
        said = str(getattr(error, "problem", "") or getattr(error, "reason", "") or "?")
        mark = getattr(error, "problem_mark", None)
        offset = self._offset(mark) if mark is not None else self._shift
        code = next((code for words, code in _SYNTAX if words in said), "yaml_syntax")
        if code == "yaml_unclosed" and getattr(error, "context_mark", None) is not None:
            offset = self._offset(getattr(error, "context_mark"))  # noqa: B009 - untyped attribute of PyYAML
        if code == "yaml_character":
            said = self._text[offset - self._shift : offset - self._shift + 1]
            code = "yaml_tab" if said == "\t" else code
        return _Refused(code, offset, problem=said, limit=str(MAX_DEPTH))
