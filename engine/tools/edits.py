"""What an edit does to a text: finding the one place that is meant, and saying what is there instead if
there is none.

Pure. Positions are those of the text as the model sees it (line ends as a line feed).
"""

from __future__ import annotations

import difflib
import heapq
import re
from dataclasses import dataclass

from engine.core.truncate import first_characters, grapheme_floor
from engine.tools.textio import Splice, main_line_end, plain, plain_positions, spliced, with_line_end
from engine.tools.tolerant import MOST_PLACES, find_near, shared, splits

# What stands before a line in Read (a number and a tab) and in Grep (path and number).
_NUMBERED = re.compile(r" {0,6}\d+[\t→]|[^\s:]{1,200}[:-]\d+[:-]")
_WORD = re.compile(r"\w{2,}")
_SHOWN_PLACES = 20
_COUNTED_PLACES = 1_000
_COMPARED_LINES = 300
_COMPARED = 200
_SLACK = 8
_ALIKE = 0.6
_LONGEST_LINE = 400
_NEAREST = 3
_CONTEXT = 3
_DIFFED_LINES = 3_000


@dataclass(frozen=True, slots=True)
class Found:
    """The places that an edit replaces, and a sentence about what fitted only in another form (or empty)."""

    splices: tuple[Splice, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Missed:
    """Why there is nothing to replace: a sentence or more for the model."""

    text: str


_TOO_MANY = Missed(
    f"old_string occurs more than {MOST_PLACES:,} times: too often for one edit. Nothing was changed; use"
    " Bash (sed or a script) for this file."
)


def find_edit(text: str, old: str, new: str, *, replace_all: bool) -> Found | Missed:
    """Where ``old`` is in ``text``, and what takes its place there; never a guess between candidates.

    Line ends are compared as one kind, for the model cannot see which a file has; new lines get the one
    that most lines of the file have, and what ``old`` and ``new`` share at their start and end stays
    untouched. Only where ``old`` is not there letter for letter, other Unicode forms and typographic signs
    count as the same.
    """
    seen, wanted, becomes = plain(text), plain(old), plain(new)
    starts = _whole_places(seen, wanted, replace_all=replace_all)
    if len(starts) > MOST_PLACES:
        return _TOO_MANY
    if len(starts) > 1 and not replace_all:
        starts = _as_given(text, old, starts)
    if not starts:
        return _find_near(text, seen, wanted, becomes, replace_all=replace_all)
    if len(starts) > 1 and not replace_all:
        return _ambiguous(seen, starts)
    if wanted != becomes and not replace_all and (line := _applied_line(seen, wanted, becomes, starts[0])):
        return Missed(
            f"new_string is at line {line} already, around the only place of old_string: this edit seems to"
            " be applied already. Nothing was changed. To put it there once more, give more lines around."
        )
    head = shared(wanted, becomes)
    tail = shared(wanted[head:][::-1], becomes[head:][::-1])
    middle = becomes[head : len(becomes) - tail]
    return _in_text(text, seen, [(at + head, at + len(wanted) - tail, middle) for at in starts])


def _in_text(text: str, seen: str, places: list[tuple[int, int, str]], note: str = "") -> Found | Missed:
    """Places of the text as the model sees it, in the text as it is."""
    line_end = main_line_end(text)
    found = plain_positions(text, [border for start, end, _ in places for border in (start, end)])
    splices = [
        Splice(start, end, with_line_end(new, line_end))
        for start, end, (*_, new) in zip(found[::2], found[1::2], places, strict=True)
    ]
    if plain(spliced(text, splices)) != spliced(seen, [Splice(*place) for place in places]):
        return Missed(
            "This file mixes kinds of line ends, and at this place the edit would join two of them into"
            " one. Replace whole lines, or Write the whole file."
        )
    return Found(tuple(splices), note)


def _find_near(text: str, seen: str, wanted: str, becomes: str, *, replace_all: bool) -> Found | Missed:
    near = find_near(seen, wanted, becomes)
    if near is None:
        return _missed(seen, wanted, becomes)
    if len(near.places) > MOST_PLACES:
        return _TOO_MANY
    starts = [start for start, _, _ in near.places]
    if len(starts) > 1 and not replace_all:
        return _ambiguous(seen, starts, " (in other Unicode forms, or with other quotes, dashes or spaces)")
    if spliced(seen, [Splice(*place) for place in near.places]) == seen:
        return _already(seen, starts[0])
    return _in_text(text, seen, list(near.places), f" {near.note}")


def _whole_places(text: str, wanted: str, *, replace_all: bool) -> list[int]:
    """Where ``wanted`` is, not where its last character goes on: each place that can be replaced if all are
    to be; else the first thousand, places that overlap too.
    """
    most, starts, at = MOST_PLACES + 1 if replace_all else _COUNTED_PLACES, list[int](), text.find(wanted)
    while at >= 0 and len(starts) < most:
        whole = not splits(text, at + len(wanted))
        if whole:
            starts.append(at)
        at = text.find(wanted, at + (len(wanted) if whole and replace_all else 1))
    return starts


def _as_given(text: str, old: str, starts: list[int]) -> list[int]:
    """Of several places the one with the line ends that ``old`` itself has, if it has any but line feeds."""
    if "\r" not in old or text.count(old) != 1:
        return starts
    exact = text.find(old)
    return [start for start, at in zip(starts, plain_positions(text, starts), strict=True) if at == exact]


def _ambiguous(text: str, starts: list[int], how: str = "") -> Missed:
    lines = tuple(text.count("\n", 0, start) + 1 for start in starts[: _SHOWN_PLACES + 1])
    least = "at least " if len(starts) >= _COUNTED_PLACES else ""
    return Missed(
        f"old_string occurs {least}{len(starts)} times{how}, at {_said_lines(lines)}. Add lines around the"
        " one you mean until it is unique, or set replace_all to change every one."
    )


def _applied_line(text: str, wanted: str, becomes: str, start: int) -> int:
    """The line of ``becomes`` if it is in the text already, around ``wanted`` at ``start``; else 0."""
    inner = becomes.find(wanted)
    while inner >= 0:
        if start >= inner and text.startswith(becomes, start - inner):
            return text.count("\n", 0, start - inner) + 1
        inner = becomes.find(wanted, inner + 1)
    return 0


def _said_lines(lines: tuple[int, ...]) -> str:
    listed = ", ".join(str(line) for line in lines[:_SHOWN_PLACES])
    return f"line{'s' if len(lines) > 1 else ''} {listed}{', …' if len(lines) > _SHOWN_PLACES else ''}"


# --- a miss, explained ------------------------------------------------------------------------------


def _missed(text: str, old: str, new: str) -> Missed:
    bare = without_numbers(old)
    if bare is not None and bare.strip() and bare in text:
        return Missed(
            "old_string holds the line numbers that Read and Grep show. They are not part of the file: leave"
            " out each number and the sign after it, in new_string too."
        )
    if new.strip() and len(new) > 2 and (at := text.find(new)) >= 0:
        return _already(text, at)
    return Missed("old_string is not in the file." + nearest_lines(text, old))


def _already(text: str, at: int) -> Missed:
    line = text.count("\n", 0, at) + 1
    return Missed(
        f"old_string is not in the file, but new_string is, at line {line}: this edit seems to be applied"
        " already. Nothing was changed."
    )


def without_numbers(text: str) -> str | None:
    """``text`` without the line numbers of ``Read`` or ``Grep``, or None if not every line that has text
    begins with one.
    """
    lines = text.split("\n")
    if not all(_NUMBERED.match(line) for line in lines if line.strip()) or not text.strip():
        return None
    return "\n".join(_NUMBERED.sub("", line, count=1) for line in lines)


@dataclass(frozen=True, slots=True)
class _Like:
    """A line that resembles what was looked for: its index, and where in it the likeness starts."""

    at: int
    start: int


def nearest_lines(text: str, old: str) -> str:
    """The places of ``text`` that look most like ``old``, with line numbers, as sentences that go on after
    an error.
    """
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    anchor = max(wanted, key=lambda line: len(line.strip()))
    offset = wanted.index(anchor)
    found = _like(lines, anchor.strip()[:_COMPARED])
    if not found:
        return " No line resembles it. Read the file again, or Grep for a word of it."
    shown = [_excerpt(lines, max(0, one.at - offset), len(wanted), one) for one in found]
    bare = "".join(old.split())
    same = any(_unspaced(lines, max(0, one.at - offset), len(wanted)) == bare for one in found)
    reason = " They differ in white space only." if same else ""
    return f" The nearest lines are:{reason}\n" + "\n--\n".join(shown)


def _like(lines: list[str], anchor: str) -> list[_Like]:
    """The lines that hold something like ``anchor``, the best first.

    To compare two texts takes a while, so of many lines only those are compared that share most with the
    words of ``anchor``, and of a long line only the part around the longest of them.
    """
    words = sorted(set(_WORD.findall(anchor)), key=len, reverse=True)
    places = [at for at, line in enumerate(lines) if line.strip()]
    if len(places) > _COMPARED_LINES:
        shares = [(sum(len(word) for word in words if word in lines[at]), -at) for at in places]
        places = [-at for _, at in heapq.nlargest(_COMPARED_LINES, shares)]
    matcher = difflib.SequenceMatcher(None, "", anchor, autojunk=False)
    rated = []
    for at in places:
        start = _start_of_likeness(lines[at], anchor, words)
        matcher.set_seq1(lines[at][start : start + len(anchor) + _SLACK].strip())
        if matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE:
            rated.append((-matcher.ratio(), at, start))
    return [_Like(at, start) for ratio, at, start in sorted(rated)[:_NEAREST] if -ratio >= _ALIKE]


def _start_of_likeness(line: str, anchor: str, words: list[str]) -> int:
    for word in words:
        if (found := line.find(word)) >= 0:
            return max(0, found - anchor.find(word))
    return 0


def _unspaced(lines: list[str], start: int, count: int) -> str:
    return "".join("".join(lines[start : start + count]).split())


def _excerpt(lines: list[str], start: int, count: int, like: _Like) -> str:
    shown = []
    for at, line in enumerate(lines[start : start + min(count, 12)], start):
        first = grapheme_floor(line, like.start) if at == like.at and like.start > _LONGEST_LINE // 2 else 0
        part, rest = first_characters(line[first:], _LONGEST_LINE)
        shown.append(f"{at + 1:>5}\t{'…' if first else ''}{part}{'…' if rest else ''}")
    return "\n".join(shown)


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
