"""Records the demo as a picture: ``python -m tests.demo.record docs/demo.svg [--lang ja]``.

The demo runs in a pseudo-terminal and is answered as a person would. What it prints becomes an SVG that
scrolls as the terminal did, on a background of its own, so that it can be read on light and dark pages. Where
less motion is asked for it shows the end.
"""

from __future__ import annotations

import argparse
import codecs
import os
import pty
import re
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fcntl import ioctl
from itertools import groupby
from pathlib import Path
from termios import TIOCSWINSZ
from xml.sax.saxutils import escape

from maestro_lsp.cli.terminal import width

COLUMNS, ROWS = 92, 30
CELL, LINE, MARGIN, BAR = 8.4, 19, 18, 34
HOLD_S, THINK_S, KEY_S = 6.0, 1.5, 0.05
PROMPTS = {
    "en": ("A number: ", "A number, or your own words: ", "down, to whole yen"),
    "ja": ("番号: ", "番号、または自由な回答: ", "切り捨て、円単位で"),
}
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
TOKEN = re.compile(r"\x1b\[(?P<codes>[0-9;]*)(?P<command>[a-zA-Z])|(?P<end>\n)|(?P<plain>[^\x1b\r\n]+)")
FONTS = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Noto Sans Mono CJK JP",monospace'

Cell = tuple[str, str]


@dataclass
class Tape:
    """A terminal just good enough for the demo: colours, line ends, erased lines. Each line has its time."""

    lines: list[tuple[float, list[Cell]]] = field(default_factory=list)
    line: list[Cell] = field(default_factory=list)
    style: str = ""

    def feed(self, text: str, at: float) -> None:
        for found in TOKEN.finditer(text):
            if found["command"] == "m":
                self.style = found["codes"].removeprefix("0")
            elif found["command"] == "K":
                self.line = []
            elif found["end"]:
                self.lines.append((at, self.line))
                self.line = []
            elif found["plain"]:
                self.line += [(char, self.style) for char in found["plain"]]


def start_demo(home: str, language: str) -> tuple[int, int]:
    """The demo in a pseudo-terminal of its own: process and descriptor."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(home)
        os.environ.update(HOME=home, TERM="xterm-256color", LC_ALL="C.UTF-8")
        os.environ.pop("NO_COLOR", None)
        argv = [sys.executable, "-I", "-m", "maestro_lsp", "demo", "--keep", "demo", "--lang", language]
        os.execv(sys.executable, argv)
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    return pid, terminal


def output(terminal: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return
        if not data:
            return
        yield decoder.decode(data)


def record(language: str) -> Tape:
    """Run the demo and type what its prompts ask for."""
    decide, ask, words = PROMPTS[language]
    tape, began, seen, answered = Tape(), time.monotonic(), "", 0
    with tempfile.TemporaryDirectory() as home:
        pid, terminal = start_demo(home, language)
        for text in output(terminal):
            shown = text.replace(os.path.realpath(home), "~")
            tape.feed(shown, time.monotonic() - began)
            seen = (seen + re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", text))[-200:]
            if seen.endswith((ask, decide)):
                typed = words if seen.endswith(ask) else "1" if answered else "2"
                answered, seen = answered + 1, ""
                time.sleep(THINK_S)
                for char in f"{typed}\n":
                    os.write(terminal, char.encode())
                    time.sleep(KEY_S)
        _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        said = "\n".join("".join(char for char, _ in line) for _, line in tape.lines)
        raise SystemExit(f"the demo did not succeed:\n{said}")
    return tape


def spans(line: list[Cell]) -> str:
    """A line: each run of a style at its own column, each wide character too, whatever font there is."""
    parts, column = [], 0
    for (style, wide), run in groupby(line, lambda cell: (cell[1], width(cell[0]) == 2)):
        text = "".join(char for char, _ in run)
        places = range(column, column + len(text) * 2, 2) if wide else [column]
        if text.strip():
            at = " ".join(f"{MARGIN + place * CELL:.1f}" for place in places)
            parts.append(f'<tspan x="{at}"{look(style, wide)}>{escape(text)}</tspan>')
        column += width(text)
    return "".join(parts)


def look(style: str, wide: bool) -> str:
    codes = style.split(";")
    colour = next((COLOURS[code] for code in codes if code in COLOURS), "#8b949e" if "2" in codes else "")
    size = ' class="w"' if wide else ""
    bold = ' font-weight="700"' if "1" in codes else ""
    return size + (f' fill="{colour}"' if colour else "") + bold


def svg(tape: Tape) -> str:
    """The picture: every line once, in a window that follows the last; a cover hides what is yet to come."""
    lines = tape.lines
    total = lines[-1][0] + HOLD_S
    wide, high = round(COLUMNS * CELL + 2 * MARGIN), ROWS * LINE + BAR + MARGIN
    counts = {at: number for number, (at, _) in enumerate(lines, 1)}
    last_roll, last_cover = min(0, ROWS - len(lines)) * LINE, min(ROWS, len(lines)) * LINE
    moves = [keyframes(move, counts, total) for move in (roll, uncover)]
    body = [
        f'<text y="{BAR + at * LINE - 5}">{spans(line)}</text>'
        for at, (_, line) in enumerate(lines, 1)
        if line
    ]
    dots = [
        f'<circle cx="{22 + 20 * at}" cy="17" r="6" fill="{colour}"/>'
        for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}"'
            f' height="{high}" role="img" aria-label="A recording of maestro-lsp demo in a terminal">',
            "<style>",
            f"text{{font:14px {FONTS};fill:#e6edf3;white-space:pre}}",
            # An ideograph is one em wide, two cells are 1.2: a little larger, it fills them.
            ".w{font-size:16px}",
            *moves,
            "@media (prefers-reduced-motion:reduce){.roll,.uncover{animation:none}}",
            "</style>",
            f'<rect x=".5" y=".5" width="{wide - 1}" height="{high - 1}" rx="10" fill="#0d1117"'
            ' stroke="#8b949e" stroke-opacity=".4"/>',
            *dots,
            f'<clipPath id="window"><rect y="{BAR}" width="100%" height="{ROWS * LINE}"/></clipPath>',
            # The attributes are the last picture, for whoever plays no animation.
            f'<g clip-path="url(#window)"><g class="roll" transform="translate(0 {last_roll})"'
            ' xml:space="preserve">',
            *body,
            f'</g><rect class="uncover" transform="translate(0 {last_cover})" x="1" y="{BAR}"'
            f' width="{wide - 2}" height="{ROWS * LINE}"',
            ' fill="#0d1117"/></g>',
            "</svg>\n",
        ]
    )


def roll(count: int) -> str:
    """Where the lines stand when number ``count`` is the last shown: a terminal scrolls once it is full."""
    return f"transform:translateY({min(0, ROWS - count) * LINE}px)"


def uncover(count: int) -> str:
    """Where the cover stands that hides the lines after number ``count``, until the terminal is full."""
    return f"transform:translateY({min(ROWS, count) * LINE}px)"


def keyframes(move: Callable[[int], str], counts: dict[float, int], total: float) -> str:
    """The style of the class of that name: its place at each time, each given where it changes."""
    name, end = move.__name__, move(max(counts.values()))
    steps, last = [f"0%{{{move(0)}}}"], move(0)
    for at, count in counts.items():
        if move(count) != last:
            last = move(count)
            steps.append(f"{100 * at / total:.2f}%{{{last}}}")
    frames = f"@keyframes {name}{{{''.join(steps)}100%{{{end}}}}}"
    return f".{name}{{animation:{name} {total:.1f}s step-end infinite}}{frames}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lang", choices=("en", "ja"), default="en")
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(svg(record(options.lang)), "utf-8")


if __name__ == "__main__":
    main()
