"""Prints rows, streams text, and keeps one live line of progress at the bottom of a terminal."""

from __future__ import annotations

import itertools

from maestro_lsp.cli.terminal import Terminal, clean, fit, width
from maestro_lsp.demo.view import INDENT, STICKS, Row

_SPIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ERASE = "\r\x1b[2K"


class Screen:
    """A terminal with a live line. Where the output is none, there is no live line and nothing is erased."""

    def __init__(self, terminal: Terminal, columns: int) -> None:
        self.terminal = terminal
        self.columns = columns
        self._spin = itertools.cycle(_SPIN)
        self._progress: str | None = None
        self._drawn = False
        self._column = 0
        self._word = ""

    def show(self, rows: list[Row]) -> None:
        """Print rows."""
        self.end_text()
        self._erase()
        for spans in rows:
            styled = self.terminal.styled
            line = "".join(styled(text, *style.split()) if style else text for text, style in spans)
            self.terminal.line(line.rstrip())

    def stream(self, delta: str) -> None:
        """Print text as it comes, broken at the edge of the screen between words."""
        self._erase()
        for char in clean(delta):
            if char not in " \n" and width(char) < 2:
                self._word += char
                continue
            self._put(self._word)
            self._word = ""
            if char == "\n":
                self._new_line()
            elif char != " " or self._column:
                self._put(char)

    def end_text(self) -> bool:
        """End the streamed line, if there is one; whether there was."""
        self._put(self._word)
        self._word = ""
        if not self._column:
            return False
        self._new_line()
        return True

    def progress(self, text: str | None) -> None:
        """What the live line says; None for no such line."""
        self._progress = text
        if text is None:
            self._erase()
        self.tick()

    def tick(self) -> None:
        """Draw the live line anew: it moves, so that a person sees that something goes on."""
        if self._progress is None or not self.terminal.tty or self._column:
            return
        line = fit(f"{next(self._spin)} {self._progress}", self.columns - 1).rstrip()
        self.terminal.part(_ERASE + self.terminal.styled(line, "cyan"))
        self._drawn = True

    def _put(self, text: str) -> None:
        if not text:
            return
        if self._column and text not in STICKS and self._column + width(text) > self.columns:
            self._new_line()
            text = text.lstrip()
        if not self._column:
            self.terminal.part(INDENT)
            self._column = width(INDENT)
        self.terminal.part(text)
        self._column += width(text)

    def _new_line(self) -> None:
        self.terminal.line()
        self._column = 0

    def _erase(self) -> None:
        if self._drawn:
            self.terminal.part(_ERASE)
            self._drawn = False
