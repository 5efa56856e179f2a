"""What differs in a repository, and its diff cut to what a prompt may hold: at hunks, long ones at lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.core.truncate import cut, escaped

DIFF_LIMIT = 4_000
"""The characters of a diff excerpt (``engine.md`` section 3)."""

_WORTH = 400
"""A hunk is cut only where so many characters of it can be shown; else it is left out whole."""
_FOR_MARKS = 48


@dataclass(frozen=True, slots=True)
class Changed:
    """A path that differs from the last commit, with git's two letters for it (index, file)."""

    letters: str
    path: str

    @property
    def line(self) -> str:
        """As ``git status --short`` shows it, what cannot be seen as escapes."""
        return f"{self.letters} {escaped(self.path)}"


@dataclass(frozen=True, slots=True)
class Differences:
    """The changed paths, and the diff of those that git knows, without secret-looking files. ``cut``: it is
    longer.
    """

    changed: tuple[Changed, ...]
    diff: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Excerpt:
    """``text`` is the part that is shown; ``hunks`` of ``files`` are not in it, or not whole."""

    text: str
    hunks: int = 0
    files: int = 0


@dataclass(slots=True)
class _File:
    header: list[str] = field(default_factory=list)
    hunks: list[list[str]] = field(default_factory=list)


def excerpt(diff: str, limit: int = DIFF_LIMIT) -> Excerpt:
    """At most ``limit`` characters of ``diff``, in its order: whole hunks while they fit, then one that is
    too long up to a line border, then what smaller ones still fit.
    """
    shown: list[str] = []
    room, hunks, files = limit, 0, 0
    for file in _files(diff):
        taken, left_out = _taken(file, room)
        shown += taken
        room -= sum(map(len, taken))
        hunks += left_out
        files += left_out > 0
    return Excerpt("".join(shown), hunks, files)


def _taken(file: _File, room: int) -> tuple[list[str], int]:
    """What of a file fits, and how many of its hunks (a file without any counts as one) do not."""
    head = "".join(file.header)
    pieces = ["".join(hunk) for hunk in file.hunks]
    if len(head) > room or (pieces and room - len(head) < min(*map(len, pieces), _WORTH + _FOR_MARKS)):
        return [], len(pieces) or 1
    taken, left_out = [head], 0
    room -= len(head)
    for lines, piece in zip(file.hunks, pieces, strict=True):
        whole = len(piece) <= room
        part = piece if whole else _cut_at_lines(lines, room)
        left_out += not whole
        taken.append(part)
        room -= len(part)
    return taken, left_out


def _cut_at_lines(lines: list[str], room: int) -> str:
    """The first lines of a hunk that fit, with the number of those behind them; nothing if that is little."""
    room -= _FOR_MARKS
    if room < _WORTH:
        return ""
    kept: list[str] = []
    for line in lines:
        if len(line) > room:
            break
        kept.append(line)
        room -= len(line)
    if len(kept) < len(lines) and room > _FOR_MARKS and len(lines[len(kept)]) > _WORTH:  # an endless line
        kept.append(cut(lines[len(kept)].rstrip("\n"), room) + "\n")
    return "".join(kept) + (f"[… {len(lines) - len(kept)} …]\n" if len(kept) < len(lines) else "")


def _files(diff: str) -> Iterator[_File]:
    file = _File()
    for line in _lines(diff):
        if line.startswith("diff --git "):
            if file.header:
                yield file
            file = _File([line])
        elif line.startswith("@@ ") and file.header:
            file.hunks.append([line])
        elif file.hunks:
            file.hunks[-1].append(line)
        else:
            file.header.append(line)
    if file.header:
        yield file


def _lines(diff: str) -> Iterator[str]:
    r"""Lines by ``\n`` alone: other line ends belong to the files."""
    at = 0
    while at < len(diff):
        end = diff.find("\n", at) + 1 or len(diff)
        yield diff[at:end]
        at = end
