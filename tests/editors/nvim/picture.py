"""A terminal's screen as an SVG: what the tests saw, for README and eyes.

``MAESTRO_PICTURES=docs/pictures python -m pytest tests/editors/nvim`` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from xml.sax.saxutils import escape

from maestro_lsp.cli.terminal import width

CELL, LINE, MARGIN = 8.4, 19, 10
FOREGROUND, BACKGROUND = "#e0e2ea", "#14161b"
FONTS = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Noto Sans Mono CJK JP",monospace'
_PLAIN = ["#07080d", "#ffc0b9", "#b3f6c0", "#fce094", "#a6dbff", "#ffcaff", "#8cf8f7", "#eef1f8"]
_BRIGHT = ["#4f5258", *_PLAIN[1:]]
_SIXTEEN = [*_PLAIN, *_BRIGHT]
_SGR = re.compile(r"\x1b\[([0-9;:]*)m|\x1b[^m]*?[A-Za-z]|([^\x1b])")


@dataclass(frozen=True, slots=True)
class Style:
    """How a cell looks; colours as ``#rrggbb``, empty for the terminal's own."""

    fore: str = ""
    back: str = ""
    bold: bool = False
    italic: bool = False
    reverse: bool = False

    def colours(self) -> tuple[str, str]:
        """The colours of text and ground as they are drawn."""
        pair = self.fore or FOREGROUND, self.back or BACKGROUND
        return (pair[1], pair[0]) if self.reverse else pair


_SIMPLE: dict[int, Callable[[Style], Style]] = {
    0: lambda style: Style(),
    1: lambda style: replace(style, bold=True),
    3: lambda style: replace(style, italic=True),
    7: lambda style: replace(style, reverse=True),
    22: lambda style: replace(style, bold=False),
    23: lambda style: replace(style, italic=False),
    27: lambda style: replace(style, reverse=False),
    39: lambda style: replace(style, fore=""),
    49: lambda style: replace(style, back=""),
}


def styled(style: Style, codes: str) -> Style:
    """The style after the numbers of one escape sequence."""
    numbers = [int(code or 0) for code in codes.replace(":", ";").split(";")]
    while numbers:
        number = numbers.pop(0)
        if number in _SIMPLE:
            style = _SIMPLE[number](style)
        elif number == 38 or 30 <= number < 38 or 90 <= number < 98:
            style = replace(style, fore=_colour(number, numbers))
        elif number == 48 or 40 <= number < 48 or 100 <= number < 108:
            style = replace(style, back=_colour(number, numbers))
    return style


def _colour(number: int, numbers: list[int]) -> str:
    """The colour a number names, or those that follow it, which are taken away."""
    if number % 10 < 8:
        return (_BRIGHT if number >= 90 else _PLAIN)[number % 10]
    if numbers.pop(0) == 2:
        red, green, blue = numbers[:3]
        del numbers[:3]
        return f"#{red:02x}{green:02x}{blue:02x}"
    index = numbers.pop(0)
    if index < 16:
        return _SIXTEEN[index]
    if index >= 232:
        return "#" + f"{8 + 10 * (index - 232):02x}" * 3
    parts = (index - 16) // 36, (index - 16) // 6 % 6, (index - 16) % 6
    return "#" + "".join(f"{55 + 40 * part if part else 0:02x}" for part in parts)


def cells(line: str, style: Style) -> tuple[list[tuple[str, Style]], Style]:
    """The characters of a line with their styles, and the style it ends in."""
    found = []
    for codes, char in _SGR.findall(line):
        if char:
            found.append((char, style))
        else:
            style = styled(style, codes)
    return found, style


def _drawn(line: list[tuple[str, Style]], top: float) -> Iterator[str]:
    column = 0
    for (style, wide), run in groupby(line, lambda cell: (cell[1], width(cell[0]) == 2)):
        text = "".join(char for char, _ in run)
        span = len(text) * (2 if wide else 1)
        fore, back = style.colours()
        x = MARGIN + column * CELL
        if back != BACKGROUND:
            yield f'<rect x="{x:.1f}" y="{top}" width="{span * CELL:.1f}" height="{LINE}" fill="{back}"/>'
        text = text.rstrip()
        if text:
            step = 2 if wide else 1
            at = (
                " ".join(f"{x + place * step * CELL:.1f}" for place in range(len(text)))
                if wide
                else f"{x:.1f}"
            )
            more = (' font-weight="700"' if style.bold else "") + (
                ' font-style="italic"' if style.italic else ""
            )
            more += ' class="w"' if wide else f' textLength="{len(text) * CELL:.1f}"'
            yield f'<text x="{at}" y="{top + LINE - 5}" fill="{fore}"{more}>{escape(text)}</text>'
        column += span


def svg(screen: str, columns: int, label: str) -> str:
    """The picture of a screen that was captured with its escape sequences."""
    rows = screen.rstrip("\n").split("\n")
    wide, high = round(columns * CELL + 2 * MARGIN), len(rows) * LINE + 2 * MARGIN
    drawn: list[str] = []
    style = Style()
    for at, row in enumerate(rows):
        line, style = cells(row, style)
        drawn += _drawn(line, MARGIN + at * LINE)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}"'
            f' height="{high}" role="img" aria-label="{escape(label)}">',
            f"<style>text{{font:14px {FONTS};white-space:pre}}.w{{font-size:16px}}</style>",
            f'<rect width="{wide}" height="{high}" rx="8" fill="{BACKGROUND}"/>',
            '<g xml:space="preserve">',
            *drawn,
            "</g>",
            "</svg>\n",
        ]
    )
