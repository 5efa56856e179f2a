"""Diffs for people."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff

from maestro_lsp.cli.terminal import Terminal
from maestro_lsp.display import exact, lines

_STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))


def diff_lines(path: str, before: str | None, after: str | None) -> Iterator[str]:
    """A unified diff, whole and with nothing hidden in it; a missing side is a file that is not there."""
    old, new = (lines(text or "").split("\n") for text in (before, after))
    for side in (old, new):
        if side[-1] == "":
            side.pop()
    shown = exact(path)
    here = "/dev/null" if before is None else f"a/{shown}"
    there = "/dev/null" if after is None else f"b/{shown}"
    yield from unified_diff(old, new, here, there, lineterm="")
    if before and after and before.endswith("\n") != after.endswith("\n"):
        yield "\\ " + ("-" if before.endswith("\n") else "+") + "newline at end of file"


def show_diff(terminal: Terminal, path: str, before: str | None, after: str | None) -> None:
    """Print a unified diff in colours."""
    for line in diff_lines(path, before, after):
        style = next((style for mark, style in _STYLES if line.startswith(mark)), None)
        terminal.line(terminal.styled(line, style) if style else line)
