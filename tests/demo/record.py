"""Records the demo as a picture: `python -m tests.demo.record docs/demo.svg [--lang ja]`.

The demo runs in a pseudo-terminal, answered as a person would; what it prints becomes an SVG that scrolls as the
terminal did, on a background of its own, so that it can be read on light and dark pages. Without animation (or where
less motion is asked for) it shows the end.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import struct
import sys
import tempfile
import time
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ
from xml.sax.saxutils import escape

from maestro_lsp.cli.terminal import width

COLUMNS, ROWS = 92, 30
CELL, LINE, MARGIN, BAR = 8.4, 19, 18, 34
HOLD_S = 6.0
LIMIT_S = 120.0
PROMPTS = {
    "en": ("A number: ", "A number, or your own words: ", "down, to whole yen"),
    "ja": ("番号: ", "番号、または自由な回答: ", "切り捨て、円単位で"),
}
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
TOKEN = re.compile(r"\x1b\[([0-9;]*)([a-zA-Z])|(\r)|(\n)|([^\x1b\r\n]+)")

Cell = tuple[str, str]


@dataclass
class Tape:
    """A terminal just good enough for the demo: colours, line ends, erased lines. ``lines`` have their time."""

    lines: list[tuple[float, list[Cell]]] = field(default_factory=list)
    line: list[Cell] = field(default_factory=list)
    style: str = ""
    drop: bool = False

    def feed(self, text: str, at: float) -> None:
        for found in TOKEN.finditer(text):
            codes, command, back, end, plain = found.groups()
            if command == "m":
                self.style = "" if codes in ("", "0") else codes
            elif command == "K":
                self.line = []
            elif end:
                self.lines.append((at, self.line))
                self.line = []
            elif plain:
                self.line += [(char, self.style) for char in plain]


def record(language: str) -> Tape:
    """Run the demo in a pseudo-terminal and type what its prompts ask for."""
    decide, ask, words = PROMPTS[language]
    tape, began, pending, answered = Tape(), time.monotonic(), "", 0
    with tempfile.TemporaryDirectory() as home:
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(home)
            os.environ.update(
                HOME=home, TERM="xterm-256color", LANG=f"{language}.UTF-8", LC_ALL=f"{language}.UTF-8"
            )
            os.environ.pop("NO_COLOR", None)
            os.execv(
                sys.executable,
                [sys.executable, "-I", "-m", "maestro_lsp", "demo", "--keep", "demo", "--lang", language],
            )
        ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        data = b""
        while time.monotonic() - began < LIMIT_S:
            if not select.select([terminal], [], [], LIMIT_S)[0]:
                break
            try:
                chunk = os.read(terminal, 65536)
            except OSError:
                break
            if not chunk:
                break
            data += chunk
            try:
                text, data = data.decode(), b""
            except UnicodeDecodeError:
                continue
            tape.feed(
                text.replace(os.path.realpath(home), "~").replace("\r\n", "\n"), time.monotonic() - began
            )
            pending = (pending + re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", text))[-200:]
            reply = None
            if pending.endswith(ask):
                reply = words
            elif pending.endswith(decide):
                reply = "2" if answered == 0 else "1"
            if reply is not None:
                answered, pending = answered + 1, ""
                time.sleep(1.5)
                for char in reply:
                    os.write(terminal, char.encode())
                    time.sleep(0.05)
                os.write(terminal, b"\n")
        _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(
            "the demo did not succeed:\n" + "\n".join("".join(c for c, _ in line) for _, line in tape.lines)
        )
    return tape


def spans(line: list[Cell]) -> str:
    """A line as text elements, each at its own column, so that wide characters keep the columns after them."""
    parts, column, run, start, style = [], 0, "", 0, ""
    for char, own in [*line, ("", "end")]:
        if run and (own != style or width(run[-1]) != width(char)):
            if run.strip():
                parts.append(f'<tspan x="{MARGIN + start * CELL:.1f}"{fill(style)}>{escape(run)}</tspan>')
            run = ""
        if not run:
            start, style = column, own
        run += char
        column += width(char)
    return "".join(parts)


def fill(style: str) -> str:
    codes = style.split(";")
    colour = next((COLOURS[code] for code in codes if code in COLOURS), "#8b949e" if "2" in codes else "")
    bold = ' font-weight="700"' if "1" in codes else ""
    return (f' fill="{colour}"' if colour else "") + bold


def svg(tape: Tape) -> str:
    """The picture: every line once, in a window that follows the last one."""
    lines, total = tape.lines, tape.lines[-1][0] + HOLD_S
    wide, high = COLUMNS * CELL + 2 * MARGIN, ROWS * LINE + BAR + MARGIN
    steps, shown = [], -1
    for at, _ in lines:
        count = sum(1 for when, _ in lines if when <= at)
        if count != shown:
            shown = count
            steps.append(f"{100 * at / total:.2f}%{{transform:translateY({(ROWS - count) * LINE}px)}}")
    end = f"translateY({(ROWS - len(lines)) * LINE}px)"
    body = "\n".join(
        f'<text y="{BAR + (at + 1) * LINE - 5}">{spans(line)}</text>'
        for at, (_, line) in enumerate(lines)
        if line
    )
    dots = "".join(
        f'<circle cx="{22 + at * 20}" cy="17" r="6" fill="{colour}"/>'
        for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}" role="img" aria-label="A recording of maestro-lsp demo in a terminal">
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Noto Sans Mono CJK JP",monospace;fill:#e6edf3;white-space:pre}}
.roll{{transform:{end};animation:roll {total:.1f}s step-end infinite}}
@keyframes roll{{0%{{transform:translateY({ROWS * LINE}px)}}{"".join(steps)}100%{{transform:{end}}}}}
@media (prefers-reduced-motion:reduce){{.roll{{animation:none}}}}
</style>
<rect width="100%" height="100%" rx="10" fill="#0d1117"/><rect x=".5" y=".5" width="{wide - 1:.0f}" height="{high - 1:.0f}" rx="10" fill="none" stroke="#8b949e" stroke-opacity=".4"/>
{dots}
<clipPath id="window"><rect x="0" y="{BAR}" width="100%" height="{ROWS * LINE}"/></clipPath>
<g clip-path="url(#window)"><g class="roll" xml:space="preserve">
{body}
</g></g>
</svg>
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lang", choices=("en", "ja"), default="en")
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(svg(record(options.lang)), "utf-8")


if __name__ == "__main__":
    main()
