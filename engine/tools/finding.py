"""A search in files: what is asked, and what is found in the text of a file.

Which files are looked at is the walk's to say, and what matches is said here alone; ``ripgrep`` only tells
which files need no look. So the result is the same with it and without.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import regex

from engine.core.truncate import grapheme_floor, quarter_tokens
from engine.tools.matching import Matcher
from engine.tools.patterns import Glob
from engine.tools.textio import UTF8, Charset, detect, plain, shown
from engine.tools.walk import Entry, Ignores, LeftOut, Names, found_place, is_secret, walk
from engine.workspace import Refused, open_regular

LARGEST = 64 << 20
LONGEST_LINE = 400
_LEAD = 100
_REGEX_S = 1.0
_LOOKED_AT = 1 << 20
_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Query:
    """What to find: ``start`` is a folder or (``single``) a file relative to the workspace, empty for all
    of it.

    ``ignores`` is None where git's rules do not count. ``mode`` is ``content``, ``files_with_matches`` or
    ``count``.
    """

    root: Path
    start: str
    single: bool
    pattern: str
    glob: Glob | None
    mode: str
    context: int
    limit: int
    ignores: Ignores | None

    def wants(self, relative: str) -> bool:
        """Whether the file's name is one to search: by ``glob``, from the workspace or from ``start``."""
        if self.glob is None:
            return True
        below = relative.removeprefix(f"{self.start}/") if self.start else relative
        return fits(self.glob, below) or (below != relative and fits(self.glob, relative))


def fits(glob: Glob, relative: str) -> bool:
    """Whether a path matches. Raises ``Refused`` for a pattern that takes too long."""
    try:
        return glob.matches(relative)
    except TimeoutError:
        raise Refused("The file name pattern takes too long to match. Give it fewer alternatives.") from None


@dataclass(slots=True)
class Stop:
    """When a search must end: at a time, or because nobody waits for it any more."""

    seconds: float
    event: threading.Event = field(default_factory=threading.Event)
    until: float = 0.0
    late: bool = False

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.seconds

    def __call__(self) -> bool:
        """Whether it is time to end."""
        self.late = self.late or self.left() < 0
        return self.late or self.event.is_set()

    def left(self) -> float:
        """The seconds until then."""
        return self.until - time.monotonic()


class Report:
    """What was found, as far as limit and budget (tokens) allow, and what was not looked at.

    ``limited_by`` says what there was too much for: ``limit`` or ``budget``.
    """

    def __init__(self, query: Query, budget: int) -> None:
        self._query = query
        self._left = 4 * budget
        self._last: tuple[str, int] | None = None
        self.lines: list[str] = []
        self.files: set[str] = set()
        self.hits = 0
        self.secrets = 0
        self.unread = Names()
        self.too_large = Names()
        self.binary = Names()
        self.left_out = LeftOut()
        self.limited_by = ""

    def full(self) -> bool:
        """Whether there is more than may be shown."""
        return self.limited_by != ""

    def line(self, relative: str, number: int, text: str, *, hit: bool) -> None:
        """Take a line that matches, or one beside it."""
        if self._query.context and self._last not in (None, (relative, number - 1)):
            self._add("--")
        self._last = (relative, number)
        mark = ":" if hit else "-"
        if self._add(f"{path_text(relative)}{mark}{number}{mark}{text}"):
            self.files.add(relative)
            self.hits += hit

    def file(self, relative: str, count: int | None = None) -> None:
        """Take a file that matches, with the number of its lines that do."""
        if self._add(path_text(relative) + ("" if count is None else f":{count}")):
            self.files.add(relative)
            self.hits += count or 1

    def _add(self, line: str) -> bool:
        self._left -= quarter_tokens(line) + 1
        if len(self.lines) >= self._query.limit:
            self.limited_by = "limit"
        elif self._left < 0 and self.lines:
            self.limited_by = "budget"
        if not self.full():
            self.lines.append(line)
        return not self.full()


def path_text(relative: str) -> str:
    """A path on one line as the model may use it: only what would break the line, and bytes that are no
    text, are escapes.
    """
    return _UNSHOWN.sub(_escaped, relative)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if code >= 0xDC80 else found[0].encode("unicode_escape").decode()


# --- searching -------------------------------------------------------------------------------------


def candidates(query: Query, report: Report, stop: Stop) -> Iterator[str]:
    """The files to search, in the order of their paths; those with the name of a secret and those of more
    than 64 MiB are only counted.
    """
    for entry in _named(query, report, stop):
        if is_secret(entry.relative):
            report.secrets += 1
        elif _size(entry.path) > LARGEST:
            report.too_large.add(entry.relative)
        else:
            yield entry.relative


def _named(query: Query, report: Report, stop: Stop) -> Iterator[Entry]:
    if query.single:
        yield Entry(query.start, str(query.root / query.start))
        return
    for entry in walk(query.root, query.start, query.ignores, stop, left_out=report.left_out):
        if query.wants(entry.relative):
            yield entry


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def scan(query: Query, wanted: Matcher, report: Report, names: Iterable[str], stop: Stop) -> None:
    """Search the files one after the other into ``report``.

    Made for a thread: it looks at ``stop`` between files and lines, and the matching lets other threads run.
    Raises ``Refused`` for a pattern that takes too long.
    """
    for relative in names:
        if report.full() or stop():
            return
        text = _text_of(query, wanted, report, relative)
        if not text:
            continue
        try:
            _scan_text(query, wanted, report, relative, text, stop)
        except (TimeoutError, MemoryError):
            raise Refused(
                f"The pattern takes too long on `{path_text(relative)}`. Write it without nested repetitions"
                f" such as (a+)+."
            ) from None


def _text_of(query: Query, wanted: Matcher, report: Report, relative: str) -> str | None:
    """The text of a file, or None for one that is binary, gone, unreadable or without needle. Raises
    ``Refused`` for one that was named and cannot be searched.
    """
    try:
        with os.fdopen(open_regular(found_place(query.root, relative)), "rb") as file:
            data = file.read(LARGEST)
    except FileNotFoundError:
        return None
    except Refused:
        if query.single:
            raise
        return None
    except OSError:
        report.unread.add(relative)
        return None
    if wanted.needle is not None and not query.single and not wanted.needle.in_bytes(data):
        return None
    charset = charset_of(data)
    if charset is None and query.single:
        report.binary.add(relative)
    return None if charset is None else plain(charset.decode(data[len(charset.bom) :]))


def charset_of(data: bytes) -> Charset | None:
    """``detect`` for files of any size: of a large one the part is looked at where it stops being plain."""
    if len(data) <= _LOOKED_AT:
        return detect(data)
    charset = detect(data[:_LOOKED_AT], whole=False)
    if charset != UTF8:
        return charset
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as fault:
        start = data.rfind(b"\n", 0, fault.start) + 1
        charset = detect(data[start : start + _LOOKED_AT], whole=False)
    return None if b"\0" in data else charset


def _scan_text(query: Query, wanted: Matcher, report: Report, relative: str, text: str, stop: Stop) -> None:
    hits: dict[int, int] = {}
    for number, line in _likely_lines(wanted, text):
        if (found := wanted.compiled.search(line, timeout=_REGEX_S)) is not None:
            hits[number] = found.start()
            if query.mode == "files_with_matches" or (query.mode == "content" and len(hits) > query.limit):
                break
        if stop():
            break
    if query.mode == "content":
        _report_lines(query, report, relative, text.removesuffix("\n").split("\n") if hits else [], hits)
    elif hits:
        report.file(relative, len(hits) if query.mode == "count" else None)


def _likely_lines(wanted: Matcher, text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text that may match, each with its number, from 0."""
    if wanted.likely is None:
        if _may_match(wanted.compiled, text):
            yield from enumerate(text.removesuffix("\n").split("\n"))
        return
    at = number = counted = 0
    while (found := wanted.likely.search(text, at)) is not None:
        start = text.rfind("\n", 0, found.start()) + 1
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        number += text.count("\n", counted, start)
        yield number, text[start:end]
        counted, at = start, end


def _may_match(compiled: regex.Pattern[str], text: str) -> bool:
    """Whether the text as a whole matches: one question in place of one for each line.

    Patterns that look around or at the ends of the text can match a line without matching the whole.
    """
    if any(sign in compiled.pattern for sign in ("(?", "\\A", "\\Z", "\\z", "\\G", "\\B")):
        return True
    try:
        return compiled.search(text, timeout=_REGEX_S) is not None
    except (TimeoutError, MemoryError):
        return True


def _report_lines(
    query: Query, report: Report, relative: str, lines: list[str], hits: dict[int, int]
) -> None:
    shown_to = -1
    for number in hits:
        first = max(shown_to + 1, number - query.context)
        # Lines after a hit that are before the next one belong to whichever comes first.
        for at in range(first, min(len(lines), number + query.context + 1)):
            if at > number and at in hits:
                break
            report.line(relative, at + 1, excerpt(lines[at], hits.get(at, 0)), hit=at in hits)
            shown_to = at
        if report.full():
            return


def excerpt(line: str, start: int) -> str:
    """A line as it is shown: of one with more than 400 characters the part around the match."""
    line = shown(line)
    if len(line) <= LONGEST_LINE:
        return line
    first = grapheme_floor(line, max(0, min(start - _LEAD, len(line) - LONGEST_LINE)))
    last = grapheme_floor(line, first + LONGEST_LINE)
    return f"{'…' if first else ''}{line[first:last]}{'…' if last < len(line) else ''}"
