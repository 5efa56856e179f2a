"""What an edit does to a text: finding the one place that is meant, and saying what is there instead if
there is none.

Pure. Positions are those of the text as the model sees it (line ends as a line feed).
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from engine.tools.textio import Splice, main_line_end, plain, plain_positions, spliced, with_line_end

_NUMBERED = re.compile(r" {0,6}\d+\t")
_SHOWN_PLACES = 20
_COMPARED_LINES = 20_000
_NEAREST = 3
_CONTEXT = 3
_DIFFED_LINES = 3_000


@dataclass(frozen=True, slots=True)
class Found:
    """The places that an edit replaces, and the line (from 1) of each."""

    splices: tuple[Splice, ...]
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Missed:
    """Why there is nothing to replace: a sentence or more for the model. ``absent`` says that the text is
    not there at all.
    """

    text: str
    absent: bool


def find_edit(text: str, old: str, new: str, *, replace_all: bool) -> Found | Missed:
    """Where ``old`` is in ``text``, and what takes its place there; never a guess between candidates.

    Line ends are compared as one kind, for the model cannot see which a file has; new lines get the one
    that most lines of the file have, and what ``old`` and ``new`` share at their start and end stays
    untouched.
    """
    seen, wanted, becomes = plain(text), plain(old), plain(new)
    starts = _overlapping(seen, wanted)
    if not starts:
        return _missed(seen, wanted, becomes)
    lines = tuple(seen.count("\n", 0, start) + 1 for start in starts[: _SHOWN_PLACES + 1])
    if len(starts) > 1 and not replace_all:
        return Missed(
            f"old_string occurs {len(starts)} times, at {_said_lines(lines)}. Add lines around the one you"
            " mean until it is unique, or set replace_all to change every one.",
            absent=False,
        )
    taken = _separate(starts, len(wanted))
    splices = _splices(text, taken, wanted, becomes)
    if plain(spliced(text, splices)) != _replaced(seen, taken, len(wanted), becomes):
        return Missed(
            "This file mixes kinds of line ends, and at this place the edit would join two of them into"
            " one. Replace"
            " whole lines, or Write the whole file.",
            absent=False,
        )
    return Found(tuple(splices), lines)


def _overlapping(text: str, wanted: str) -> list[int]:
    starts, at = [], text.find(wanted)
    while at >= 0:
        starts.append(at)
        at = text.find(wanted, at + 1)
    return starts


def _separate(starts: list[int], length: int) -> list[int]:
    taken: list[int] = []
    for start in starts:
        if not taken or start >= taken[-1] + length:
            taken.append(start)
    return taken


def _replaced(text: str, starts: list[int], length: int, new: str) -> str:
    return spliced(text, [Splice(start, start + length, new) for start in starts])


def _splices(text: str, starts: list[int], old: str, new: str) -> list[Splice]:
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    middle = with_line_end(new[head : len(new) - tail], main_line_end(text))
    borders = [at for start in starts for at in (start + head, start + len(old) - tail)]
    found = plain_positions(text, borders)
    return [Splice(start, end, middle) for start, end in zip(found[::2], found[1::2], strict=True)]


def _shared(one: str, other: str) -> int:
    length = min(len(one), len(other))
    return next((at for at in range(length) if one[at] != other[at]), length)


def _said_lines(lines: tuple[int, ...]) -> str:
    listed = ", ".join(str(line) for line in lines[:_SHOWN_PLACES])
    return f"line{'s' if len(lines) > 1 else ''} {listed}{', …' if len(lines) > _SHOWN_PLACES else ''}"


# --- a miss, explained ------------------------------------------------------------------------------


def _missed(text: str, old: str, new: str) -> Missed:
    bare = without_numbers(old)
    if bare is not None and bare in text:
        return Missed(
            "old_string holds the line numbers that Read shows. They are not part of the file: leave out each"
            " number and the tab after it, in new_string too.",
            absent=False,
        )
    if new.strip() and len(new) > 2 and (starts := _overlapping(text, new)):
        line = text.count("\n", 0, starts[0]) + 1
        return Missed(
            f"old_string is not in the file, but new_string is, at line {line}: this edit seems to be applied"
            " already. Nothing was changed.",
            absent=False,
        )
    return Missed("old_string is not in the file." + nearest_lines(text, old), absent=True)


def without_numbers(text: str) -> str | None:
    """``text`` without the line numbers of ``Read``, or None if not every line that has text begins with
    one.
    """
    lines = text.split("\n")
    if not all(_NUMBERED.match(line) for line in lines if line.strip()) or not text.strip():
        return None
    return "\n".join(_NUMBERED.sub("", line, count=1) for line in lines)


def nearest_lines(text: str, old: str) -> str:
    """The places of ``text`` that look most like ``old``, with line numbers, as sentences that go on after
    an error.
    """
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    anchor = max(wanted, key=lambda line: len(line.strip()))
    offset = wanted.index(anchor)
    stripped = [line.strip() for line in lines[:_COMPARED_LINES]]
    close = difflib.get_close_matches(anchor.strip(), list(dict.fromkeys(stripped)), _NEAREST, 0.6)
    found = [at for at, line in enumerate(stripped) if line and line in close]
    found.sort(key=lambda at: close.index(stripped[at]))
    if not found:
        return " No line resembles it. Read the file again, or Grep for a word of it."
    shown = [_excerpt(lines, max(0, at - offset), len(wanted)) for at in found[:_NEAREST]]
    same = any(_unspaced(lines, max(0, at - offset), len(wanted)) == "".join(old.split()) for at in found)
    reason = " They differ in white space only." if same else ""
    return f" The nearest lines are:{reason}\n" + "\n--\n".join(shown)


def _unspaced(lines: list[str], start: int, count: int) -> str:
    return "".join("".join(lines[start : start + count]).split())


def _excerpt(lines: list[str], start: int, count: int) -> str:
    chosen = lines[start : start + min(count, 12)]
    return "\n".join(f"{number:>5}\t{line[:400]}" for number, line in enumerate(chosen, start + 1))


# --- what changed -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """How a text changed: lines added and removed, and the changed places with some lines around them."""

    added: int
    removed: int
    hunks: str

    @property
    def counts(self) -> str:
        """For people: ``+2 −1``."""
        return f"+{self.added} −{self.removed}"


def compare(before: str, after: str) -> Change:
    """The lines that differ, as unified hunks without file names. Line ends do not count."""
    old, new = _lines(before), _lines(after)
    head = _shared_lines(old, new)
    tail = _shared_lines(old[head:][::-1], new[head:][::-1])
    start, old_end, new_end = max(0, head - _CONTEXT), len(old) - tail, len(new) - tail
    left, right = old[start : old_end + _CONTEXT], new[start : new_end + _CONTEXT]
    if max(len(left), len(right)) > _DIFFED_LINES:
        hunk = f"@@ lines {head + 1}-{old_end} were replaced by lines {head + 1}-{new_end} @@"
        return Change(new_end - head, old_end - head, hunk)
    lines = list(difflib.unified_diff(left, right, lineterm="", n=_CONTEXT))[2:]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return Change(added, removed, "\n".join(_shifted(line, start) for line in lines))


def _lines(text: str) -> list[str]:
    lines = plain(text).split("\n")
    if lines[-1]:
        lines[-1] += "\n\\ No newline at end of file"
    else:
        lines.pop()
    return lines


def _shared_lines(one: list[str], other: list[str]) -> int:
    length = min(len(one), len(other))
    return next((at for at in range(length) if one[at] != other[at]), length)


def _shifted(line: str, start: int) -> str:
    """A hunk's header with its line numbers counted from the start of the file."""
    if not line.startswith("@@"):
        return line
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + start}", line, count=2)
