"""Finding a text whose characters are written in another form than those of the file.

Pure. Two differences nobody sees: the Unicode form (``が`` as one code point or as two), and typographic
signs (``“`` for ``"``, ``–`` for ``-``, a no-break space). They are compared as one, grapheme by grapheme, so
that a place that is found never begins or ends inside one.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass

import regex

_ODD_RUN = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
_GRAPHEME = regex.compile(r"\X")
_LONGEST = 4 << 20
MOST_PLACES = 100_000
"""More than this one edit does not replace: it would take minutes."""
_GLUE = "\u200d\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_SIGNS = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2007\u202f", " "),
        "…": "...",
    }
)
_SIGN = re.compile(f"[{''.join(map(chr, _SIGNS))}]")
FORMS = "The file has some of these characters in another Unicode form; the edit fitted all the same."
SIGNS = "The file has other quotes, dashes or spaces (typographic ones) there; the edit fitted all the same."


@dataclass(frozen=True, slots=True)
class Folded:
    """A text with every character in its one form.

    ``changed`` are the graphemes that differ from the source: start in ``text``, start in the source, length
    in ``text``, length in the source.
    """

    text: str
    changed: tuple[tuple[int, int, int, int], ...]

    def source(self, position: int) -> int | None:
        """A position of ``text`` in the source; None inside a grapheme that was changed."""
        at = bisect_right(self.changed, position, key=lambda one: one[0]) - 1
        if at < 0:
            return position
        start, source, length, source_length = self.changed[at]
        if position == start:
            return source
        inside = position - start - length
        return source + source_length + inside if inside >= 0 else None


def fold(text: str, *, signs: bool) -> Folded:
    """``text`` with NFC forms, and with ``signs`` also with plain quotes, dashes and spaces."""
    pieces: list[str] = []
    changed: list[tuple[int, int, int, int]] = []
    done = length = 0
    for run in _ODD_RUN.finditer(text):
        if unicodedata.is_normalized("NFC", run[0]) and not (signs and _SIGN.search(run[0])):
            continue
        for grapheme in _GRAPHEME.finditer(run[0]):
            plain = unicodedata.normalize("NFC", grapheme[0])
            plain = plain.translate(_SIGNS) if signs else plain
            if plain == grapheme[0]:
                continue
            start = run.start() + grapheme.start()
            pieces += [text[done:start], plain]
            length += start - done
            changed.append((length, start, len(plain), len(grapheme[0])))
            done, length = start + len(grapheme[0]), length + len(plain)
    return Folded("".join([*pieces, text[done:]]), tuple(changed))


@dataclass(frozen=True, slots=True)
class Near:
    """What is replaced: places of the text (start, end, new) in order; and a sentence on the difference."""

    places: tuple[tuple[int, int, str], ...]
    note: str


def find_near(text: str, old: str, new: str) -> Near | None:
    """The places of ``text`` that differ from ``old`` in form only; None if there are none, or the text is
    too large to look.

    Of what ``old`` and ``new`` share at their start and end, the file's own characters stay.
    """
    if len(text) > _LONGEST or (text.isascii() and old.isascii()):
        return None
    for signs, note in ((False, FORMS), (True, SIGNS)):
        where, wanted = fold(text, signs=signs), fold(old, signs=signs)
        if wanted.text and (places := _places(where, wanted, fold(new, signs=signs), new)):
            return Near(tuple(places), note)
    return None


def _places(where: Folded, wanted: Folded, becomes: Folded, new: str) -> list[tuple[int, int, str]]:
    places: list[tuple[int, int, str]] = []
    length = len(wanted.text)
    start = where.text.find(wanted.text)
    while start >= 0 and len(places) <= MOST_PLACES:
        borders = where.source(start), where.source(start + length)
        if None not in borders and not splits(where.text, start + length):
            places.append(_replacement(where, start, wanted.text, becomes, new))
        start = where.text.find(wanted.text, start + length)
    return places


def _replacement(where: Folded, start: int, wanted: str, becomes: Folded, new: str) -> tuple[int, int, str]:
    """The part of one place that ``new`` really changes."""
    end, head, tail = start + len(wanted), 0, 0
    if wanted != becomes.text:
        shortest = min(len(wanted), len(becomes.text))
        head = shared(wanted, becomes.text)
        tail = min(shared(wanted[::-1], becomes.text[::-1]), shortest - head)
    while head and (where.source(start + head) is None or becomes.source(head) is None):
        head -= 1
    while tail and (where.source(end - tail) is None or becomes.source(len(becomes.text) - tail) is None):
        tail -= 1
    first, last = where.source(start + head), where.source(end - tail)
    inner, outer = becomes.source(head), becomes.source(len(becomes.text) - tail)
    assert first is not None and last is not None and inner is not None and outer is not None
    return first, last, new[inner:outer]


def splits(text: str, place: int) -> bool:
    """Whether a character that has begun goes on at a place, with a mark, a joiner or a tone of skin: the
    ``か`` of a decomposed ``が`` is nothing that anybody means.
    """
    after = text[place : place + 1]
    return not after.isascii() and (after in _GLUE or unicodedata.category(after)[0] == "M")


def shared(one: str, other: str) -> int:
    """How many characters two texts share at their start."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one.startswith(other[:middle]) else (low, middle - 1)
    return low
