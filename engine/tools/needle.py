"""What every line that matches a regular expression must hold: the text by which most files are ruled out
without a closer look. Pure.

The text is looked for in the bytes of a file, in every encoding that the file may be in, by ripgrep or by
ourselves; only files that hold it are read, decoded and matched. A pattern that is not understood has no
needle, and a needle may be found where nothing matches: it is never missing where something does.
"""

from __future__ import annotations

import functools
import re
import string
from dataclasses import dataclass

_MOST_TEXTS = 40
_LONGEST = 60
# Where a file's encoding is told by its bytes, it is one of these.
ENCODINGS = (
    "utf-8",
    "utf-16-le",
    "utf-16-be",
    "utf-32-le",
    "utf-32-be",
    "cp932",
    "euc_jp",
    "euc_jis_2004",
    "iso2022_jp",
    "iso2022_jp_ext",
    "cp1252",
    "iso8859-1",
)
_ESCAPE = re.compile(rb"\x1b(?:\$[@B]|\$\([D-Q]|\([BJI])")
# The letters that ignoring case makes equal to those of ASCII.
_ALSO = {"i": "\u0130", "k": "\u212a", "s": "\u017f"}
_KANA_AND_KANJI = re.compile(r"[\u3041-\u3093\u30a1-\u30f6\u4e00-\u9fff]")
_FLAGS = re.compile(r"\(\?([imsu]+)\)")
_COUNT = re.compile(r"\{(?:(\d+)(?:,\d*)?|,\d+)\}")
_GROUP = re.compile(r"\((?:\?(?:(:)|(>)|P?<[A-Za-z_]\w*>)|(?![?*]))")
_LOOK = re.compile(r"\(\?<?[=!]")
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")
_SINGLE = frozenset("dDwWsSbBAZ")
_SPELLED = {"t": "\t", "n": "\n", "r": "\r"}

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Needle:
    """One of ``texts`` is in every line that matches, with any letter case if ``folded``; ``forms`` are the
    bytes of all of them in all encodings (in small letters if ``folded``).
    """

    texts: Texts
    folded: bool
    forms: tuple[bytes, ...]

    def in_bytes(self, data: bytes) -> bool:
        """Whether a file with these bytes may have a line that matches."""
        looked_in = data.lower() if self.folded else data
        return any(form in looked_in for form in self.forms)

    @property
    def tells(self) -> bool:
        """Whether it rules out so many files that asking a program is worth while."""
        return all(len(form) > 1 for form in self.forms)


def needle(pattern: str) -> Needle | None:
    """The needle of a pattern, None if there is none that helps.

    Raises ``ValueError`` if no single line can match it, because it needs a line end.
    """
    flags = _FLAGS.match(pattern)
    folded = flags is not None and "i" in flags[1]
    try:
        texts = _Scan(pattern, flags.end() if flags else 0, folded).whole()
    except (_Unknown, RecursionError):
        return None
    if texts is None:
        return None
    if not texts:
        raise ValueError("it needs a line end within the match")
    looked_for = texts + _lookalikes(texts) if folded else texts
    forms = (form.lower() if folded else form for text in looked_for for form in _forms(text))
    return Needle(looked_for, folded, tuple(dict.fromkeys(forms)))


def _lookalikes(texts: Texts) -> Texts:
    """The letters beyond ASCII that count as one of these texts' letters when case does not count."""
    return tuple(also for letter, also in _ALSO.items() if any(letter in text.lower() for text in texts))


class _Unknown(Exception):
    """Something in the pattern whose meaning is not known here."""


class _Scan:
    """Reads a pattern once, from ``at`` on. What stands in it is described by texts of which one must be
    there: None for no such texts, none at all for what can never match.
    """

    def __init__(self, pattern: str, at: int, folded: bool) -> None:
        self._pattern, self._at, self._folded = pattern, at, folded

    def whole(self) -> Texts | None:
        """The texts of the whole pattern. Raises ``_Unknown``."""
        texts = self._choice()
        if self._at < len(self._pattern):
            raise _Unknown
        return texts

    def _choice(self) -> Texts | None:
        branches = [self._sequence()]
        while self._next() == "|":
            self._at += 1
            branches.append(self._sequence())
        if any(branch is None for branch in branches):
            return None
        texts = tuple(dict.fromkeys(text for branch in branches for text in branch or ()))
        return texts if len(texts) <= _MOST_TEXTS else None

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _sequence(self) -> Texts | None:
        found: list[Texts] = []
        run = ""
        while self._next() not in ("", "|", ")"):
            texts, literal = self._atom()
            least, repeats = self._repetition()
            if least and literal:
                run += literal
            if not literal or repeats:
                found += self._useful(run)
                run = ""
            if least and texts is not None:
                found.append(texts)
        return _best([*found, *self._useful(run)])

    def _useful(self, run: str) -> list[Texts]:
        """The part of a run of characters that is looked for, as the one text of a list; none if no part is
        the same bytes wherever it stands.
        """
        if "\n" in run or "\r" in run:
            return [()]
        part = max(_parts(run, self._folded), key=lambda text: len(text.encode()), default="")
        return [(part[:_LONGEST],)] if part else []

    def _atom(self) -> tuple[Texts | None, str]:
        """The next thing: the texts of a group, or the character it stands for, or neither."""
        char = self._next()
        if char == "(":
            return self._group(), ""
        if char in "*+?":
            raise _Unknown
        if char == "[":
            self._skip_class()
            return None, ""
        self._at += 1
        if char == "\\":
            return None, self._escaped()
        return None, "" if char in "^$." else char

    def _escaped(self) -> str:
        char = self._next()
        self._at += 1
        if char in _SINGLE and char:
            return ""
        if char in _SPELLED:
            return _SPELLED[char]
        if not char or char not in string.punctuation + " ":
            raise _Unknown
        return char

    def _group(self) -> Texts | None:
        look = _LOOK.match(self._pattern, self._at)
        opened = look or _GROUP.match(self._pattern, self._at)
        if opened is None:
            raise _Unknown
        self._at = opened.end()
        texts = self._choice()
        if self._next() != ")":
            raise _Unknown
        self._at += 1
        return None if look else texts

    def _skip_class(self) -> None:
        self._at += 1 + (self._pattern[self._at + 1 : self._at + 2] == "^")
        if self._next() == "]":
            raise _Unknown
        while (char := self._next()) != "]":
            posix = _POSIX.match(self._pattern, self._at)
            if not char or (char == "[" and not posix):
                raise _Unknown
            self._at = posix.end() if posix else self._at + 1 + (char == "\\")
        self._at += 1

    def _repetition(self) -> tuple[int, bool]:
        """How often at least what stood before comes, 0 or 1, and whether that is said at all."""
        count = _COUNT.match(self._pattern, self._at)
        if count is None and self._next() not in ("*", "+", "?"):
            return 1, False
        least = int(self._next() == "+" or (count is not None and int(count[1] or 0) > 0))
        self._at = count.end() if count else self._at + 1
        if self._next() in ("?", "+"):
            self._at += 1
        if self._next() in ("*", "+", "?") or _COUNT.match(self._pattern, self._at):
            raise _Unknown
        return least, True


def _best(found: list[Texts]) -> Texts | None:
    """Of several texts that must all be there those that rule out most: the longest, the fewest."""
    if () in found:
        return ()
    return max(found, key=lambda texts: (min(len(text) for text in texts), -len(texts)), default=None)


def _parts(run: str, folded: bool) -> list[str]:
    """The longest pieces of a run of characters that are of one kind each, so that each is a fixed row of
    bytes in every encoding.
    """
    parts, last = [""], ""
    for char in run:
        kind = _kind(char, folded)
        if kind != last:
            parts.append("")
        if kind:
            parts[-1] += char
        last = kind
    return [part for part in parts if part]


@functools.lru_cache(maxsize=4096)
def _kind(char: str, folded: bool) -> str:
    """``ascii`` or ``kanji`` or ``other`` of a character; empty for one that is not looked for.

    That is one that has several rows of bytes in an encoding (as the tilde in EUC-JP) or several cases, or a
    byte that is a line feed.
    """
    if char == "~" or any(b"\n" in form for form in _forms(char)):
        return ""
    if char.isascii():
        return "ascii"
    if _KANA_AND_KANJI.match(char):
        return "kanji" if _encoded(char, "iso2022_jp") else ""
    # Beyond the first plane only Unicode's own encodings go.
    return "other" if ord(char) > 0xFFFF and (not folded or char.lower() == char.upper()) else ""


def _forms(text: str) -> list[bytes]:
    return list(dict.fromkeys(form for name in ENCODINGS if (form := _encoded(text, name))))


def _encoded(text: str, encoding: str) -> bytes:
    """The bytes of a text in an encoding without those that shift; empty if it cannot be said."""
    try:
        return _ESCAPE.sub(b"", text.encode(encoding))
    except UnicodeEncodeError:
        return b""
