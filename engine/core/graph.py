"""A piece as a picture: Mermaid text and SVG, both made here and both the same for the same piece. Pure.

Movements in the order they are first reached, one row for each step away from the first one; rules as solid
arrows with their condition, forced hops (``default_next``) as dashed ones. Every movement may end the job
with ``complete``; drawn is that of those that are meant to: without rules, or verify-type, else the last.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from html import escape

from engine.core.outcome import ABORT, COMPLETE
from engine.core.piece import WAIT_SUBTASKS, Piece, is_verify
from engine.core.truncate import cut

_LABEL = 60
_TIP = 400

_ROW, _GAP, _HIGH, _LEFT = 118, 46, 44, 24
_STYLE = (
    "text{font:13px ui-sans-serif,system-ui,sans-serif;fill:#1f2328}"
    ".box{fill:#f6f8fa;stroke:#57606a;stroke-width:1.2}.edit{fill:#ddf4ff;stroke:#0969da}"
    ".end{fill:#eaeef2;stroke:#8c959f}.way{fill:none;stroke:#57606a;stroke-width:1.2}"
    ".forced{stroke-dasharray:5 4}.say{font-size:11px;fill:#57606a}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.box{fill:#21262d;stroke:#8b949e}"
    ".edit{fill:#0c2d6b;stroke:#388bfd}.end{fill:#161b22;stroke:#6e7681}.way{stroke:#8b949e}.say{fill:#8b949e}"
    ".tip{fill:#8b949e}}.tip{fill:#57606a}"
)


@dataclass(frozen=True, slots=True)
class Arrow:
    """A way from one node to another; ``forced`` is a hop that the model does not choose."""

    source: str
    target: str
    label: str
    forced: bool


def arrows(piece: Piece) -> tuple[Arrow, ...]:
    """Every way through a piece, in the order of the file."""
    found: list[Arrow] = []
    last = [m.name for m in piece.movements if not m.rules or is_verify(m)]
    finishing = last or [piece.movements[-1].name]
    for movement in piece.movements:
        for rule in movement.rules:
            if rule.next == WAIT_SUBTASKS:
                label = f"{WAIT_SUBTASKS}: {rule.condition}"
                found.append(Arrow(movement.name, movement.default_next or ABORT, label, False))
            else:
                found.append(Arrow(movement.name, rule.next, rule.condition, False))
        if movement.name in finishing:
            found.append(Arrow(movement.name, COMPLETE, "complete", False))
        if (
            movement.default_next is not None
            and Arrow(movement.name, movement.default_next, "", True) not in found
        ):
            found.append(Arrow(movement.name, movement.default_next, "", True))
    return tuple(found)


def mermaid(piece: Piece) -> str:
    """The flow chart as Mermaid text."""
    nodes = _nodes(piece)
    number = {name: f"n{at}" for at, name in enumerate(nodes)}
    lines = ["flowchart TD", f"  start(( )) --> {number[piece.initial_movement]}"]
    for name in nodes:
        shape = '(["{}"])' if name in (COMPLETE, ABORT) else '["{}"]'
        lines.append(f"  {number[name]}{shape.format(_quoted(_title(piece, name)))}")
    for arrow in arrows(piece):
        line = "-.->" if arrow.forced else "-->"
        label = f'|"{_quoted(_short(arrow.label))}"|' if arrow.label else ""
        lines.append(f"  {number[arrow.source]} {line}{label} {number[arrow.target]}")
    return "\n".join(lines) + "\n"


def _nodes(piece: Piece) -> tuple[str, ...]:
    ends = [arrow.target for arrow in arrows(piece) if arrow.target in (COMPLETE, ABORT)]
    return (*(movement.name for movement in piece.movements), *sorted(set(ends), reverse=True))


def _title(piece: Piece, name: str) -> str:
    if name in (COMPLETE, ABORT):
        return name
    movement = piece.movement(name)
    return name + (" ✎" if movement.edit else "") + (" ✓" if is_verify(movement) else "")


def _short(text: str) -> str:
    return cut(" ".join(_printable(text).split()), _LABEL)


def _printable(text: str) -> str:
    """Text without control and format characters, which pictures neither show nor may hold."""
    return "".join(
        " " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn") else c for c in text
    )


def _quoted(text: str) -> str:
    """Text inside Mermaid's quotes: every sign of its own by number."""
    plain = _printable(text)
    return "".join(c if c.isalnum() or c in " -_.,:✎✓…" or ord(c) > 0x2E7F else f"#{ord(c)};" for c in plain)


# -- SVG


@dataclass(frozen=True, slots=True)
class _Box:
    """A node's place: its middle, and how wide it is."""

    x: float
    y: float
    wide: float


def svg(piece: Piece) -> str:
    """The flow chart as a picture of its own: no script, no font, nothing to load."""
    boxes = _places(piece)
    far = max(box.x + box.wide / 2 for box in boxes.values())
    deep = max(box.y for box in boxes.values()) + _HIGH
    ways = arrows(piece)
    direct = [_down(way, boxes) for way in ways if _leads_down(way, boxes)]
    far = max([far, *(right for _, right in direct)])
    back = [way for way in ways if not _leads_down(way, boxes)]
    round_ = [_back(way, boxes, far + 24 + (at % 4) * 14) for at, way in enumerate(back)]
    wide = max([far, *(right for _, right in round_)]) + _LEFT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{deep:.0f}" '
        f'viewBox="0 0 {wide:.0f} {deep:.0f}" role="img">',
        f"<title>{_text(piece.name)}</title><desc>{_text(_printable(piece.description))}</desc>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
        *(way for way, _ in (*direct, *round_)),
        *(_box(piece, name, box) for name, box in boxes.items()),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ranks(piece: Piece) -> list[list[str]]:
    """The nodes by their distance from the first movement; then what is never reached, then the ends."""
    seen, rows, row = {piece.initial_movement}, [], [piece.initial_movement]
    ways = arrows(piece)
    ends = {COMPLETE, ABORT}
    while row:
        rows.append(row)
        near = [w.target for name in row for w in ways if w.source == name and w.target not in ends]
        row = [name for name in dict.fromkeys(near) if name not in seen]
        seen |= set(row)
    never = [movement.name for movement in piece.movements if movement.name not in seen]
    last = [name for name in _nodes(piece) if name in ends]
    return [*rows, *([never] if never else []), *([last] if last else [])]


def _places(piece: Piece) -> dict[str, _Box]:
    rows = [[(name, _wide(_title(piece, name)) + 32) for name in row] for row in _ranks(piece)]
    widths = [sum(wide for _, wide in row) + _GAP * (len(row) - 1) for row in rows]
    found = {}
    for down, (row, width) in enumerate(zip(rows, widths, strict=True)):
        x = _LEFT + (max(widths) - width) / 2
        for name, wide in row:
            found[name] = _Box(x + wide / 2, 34 + down * _ROW, wide)
            x += wide + _GAP
    return found


def _leads_down(way: Arrow, boxes: dict[str, _Box]) -> bool:
    return boxes[way.target].y > boxes[way.source].y


def _down(way: Arrow, boxes: dict[str, _Box]) -> tuple[str, float]:
    """(a way down, drawn; how far right it reaches). A forced one runs beside a chosen one."""
    source, target = boxes[way.source], boxes[way.target]
    aside = -12 if way.forced else 0
    x1, y1, x2, y2 = source.x + aside, source.y + _HIGH / 2, target.x + aside, target.y - _HIGH / 2
    path = f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + 36:.0f} {x2:.0f} {y2 - 36:.0f} {x2:.0f} {y2:.0f}"
    return _drawn(way, path, x2 + 8, y2 - 16)


def _back(way: Arrow, boxes: dict[str, _Box], side: float) -> tuple[str, float]:
    """(a way that does not lead down, drawn round the right; how far right it reaches)."""
    source, target = boxes[way.source], boxes[way.target]
    x1, y1, x2, y2 = source.x + source.wide / 2, source.y, target.x + target.wide / 2, target.y + 6
    path = f"M{x1:.0f} {y1:.0f}C{side:.0f} {y1:.0f} {side:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    middle = (x1 + x2) / 2
    drawn, right = _drawn(way, path, middle + (side - middle) * 0.75 + 8, (y1 + y2) / 2)
    return drawn, max(side, right)


def _drawn(way: Arrow, path: str, x: float, y: float) -> tuple[str, float]:
    style = "way forced" if way.forced else "way"
    drawn = f'<path class="{style}" d="{path}" marker-end="url(#tip)"/>'
    if not way.label:
        return drawn, x
    label = cut(" ".join(_printable(way.label).split()), _LABEL // 2)
    tip = _text(cut(_printable(way.label), _TIP))
    drawn += f'<text class="say" x="{x:.0f}" y="{y:.0f}">{_text(label)}<title>{tip}</title></text>'
    return drawn, x + _wide(label) * 0.85


def _box(piece: Piece, name: str, box: _Box) -> str:
    style = "box end" if name in (COMPLETE, ABORT) else "box edit" if piece.movement(name).edit else "box"
    round_ = 22 if name in (COMPLETE, ABORT) else 7
    first = ' stroke-width="2.6"' if name == piece.initial_movement else ""
    x, y = box.x - box.wide / 2, box.y - _HIGH / 2
    return (
        f'<rect class="{style}"{first} x="{x:.0f}" y="{y:.0f}" width="{box.wide:.0f}" height="{_HIGH}" '
        f'rx="{round_}"/><text x="{box.x:.0f}" y="{box.y + 5:.0f}" text-anchor="middle">'
        f"{_text(_title(piece, name))}</text>"
    )


def _wide(text: str) -> float:
    """About how wide a text is, in pixels."""
    return sum(13.5 if unicodedata.east_asian_width(c) in "WFA" else 7.6 for c in text)


def _text(text: str) -> str:
    return escape(_printable(text))
