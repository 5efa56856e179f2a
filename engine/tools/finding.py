"""A search in files: what is asked, what is found, and the pure-Python way to find it.

``ripgrep`` is the quick way; which files count and how much is shown is decided here for both.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import regex

from engine.core.secrets import is_secret_path
from engine.core.truncate import grapheme_floor, quarter_tokens
from engine.tools.patterns import Glob
from engine.tools.textio import detect, one_line, plain, shown
from engine.tools.walk import Ignores, found_place, walk
from engine.workspace import Refused, read_content

LARGEST = 64 << 20
LONGEST_LINE = 400
_LEAD = 100
_REGEX_S = 2.0


@dataclass(frozen=True, slots=True)
class Query:
    """What to find: ``start`` is a folder or (``single``) a file relative to the workspace, empty for all
    of it.

    ``names`` is a glob for names only, or empty. ``ignores`` is None where git's rules do not count.
    ``mode`` is ``content``, ``files_with_matches`` or ``count``.
    """

    root: Path
    start: str
    single: bool
    pattern: str
    glob: Glob | None
    names: str
    mode: str
    context: int
    limit: int
    ignores: Ignores | None

    def wants(self, relative: str) -> bool:
        """Whether the file's name is one to search: by ``glob``, from the workspace or from ``start``."""
        if self.glob is None:
            return True
        below = relative.removeprefix(f"{self.start}/") if self.start else relative
        return fits(self.glob, relative) or fits(self.glob, below)


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
        self.late = self.late or time.monotonic() > self.until
        return self.late or self.event.is_set()


class Report:
    """What was found, as far as limit and budget (tokens) allow. ``limited_by`` says what there was too
    much for.
    """

    def __init__(self, query: Query, budget: int) -> None:
        self._query = query
        self._left = 4 * budget
        self._last: tuple[str, int] | None = None
        self.lines: list[str] = []
        self.files: set[str] = set()
        self.hits = 0
        self.secrets = 0
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
        if self._add(f"{one_line(relative, LONGEST_LINE)}{mark}{number}{mark}{text}"):
            self.files.add(relative)
            self.hits += hit

    def file(self, relative: str, count: int | None = None) -> None:
        """Take a file that matches, with the number of its lines that do."""
        if self._add(one_line(relative, LONGEST_LINE) + ("" if count is None else f":{count}")):
            self.files.add(relative)
            self.hits += count or 1

    def _add(self, line: str) -> bool:
        self._left -= quarter_tokens(line) + 1
        if len(self.lines) >= self._query.limit:
            self.limited_by = "limit"
        elif self._left < 0:
            self.limited_by = "budget"
        if not self.full():
            self.lines.append(line)
        return not self.full()


def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """The regular expression of a search by lines. Raises ``ValueError`` with the reason."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return regex.compile(pattern, regex.MULTILINE)
    except regex.error as fault:
        raise ValueError(str(fault)) from None


def scan(query: Query, compiled: regex.Pattern[str], report: Report, stop: Stop) -> None:
    """Search the files one after the other, in the order of their paths, into ``report``.

    Made for a thread: it looks at ``stop`` between files, and the matching lets other threads run. Raises
    ``Refused`` for a pattern that takes too long.
    """
    for relative in _candidates(query, report, stop):
        text = _text_of(query, relative)
        if text is None:
            continue
        try:
            _scan_text(query, compiled, report, relative, text)
        except TimeoutError:
            raise Refused(
                f"The pattern takes too long on `{relative}`. Write it without nested repetitions such as"
                f" (a+)+."
            ) from None
        if report.full() or stop():
            return


def _candidates(query: Query, report: Report, stop: Stop) -> Iterator[str]:
    if query.single:
        yield query.start
        return
    for entry in walk(query.root, query.start, query.ignores, stop):
        if not query.wants(entry.relative):
            continue
        if is_secret_path(entry.relative.split("/")):
            report.secrets += 1
        else:
            yield entry.relative


def _text_of(query: Query, relative: str) -> str | None:
    """The text of a file, or None for one that is binary, too large, gone or unreadable."""
    try:
        data = read_content(found_place(query.root, relative), LARGEST).data
    except (OSError, Refused):
        return None
    charset = detect(data)
    return None if charset is None else plain(charset.decode(data[len(charset.bom) :]))


def _scan_text(query: Query, compiled: regex.Pattern[str], report: Report, relative: str, text: str) -> None:
    lines = text.removesuffix("\n").split("\n")
    hits: dict[int, int] = {}
    for number, line in enumerate(lines) if _may_match(compiled, text) else ():
        if (found := compiled.search(line, timeout=_REGEX_S)) is not None:
            hits[number] = found.start()
            if query.mode == "files_with_matches" or (query.mode == "content" and len(hits) > query.limit):
                break
    if query.mode == "content":
        _report_lines(query, report, relative, lines, hits)
    elif hits:
        report.file(relative, len(hits) if query.mode == "count" else None)


def _may_match(compiled: regex.Pattern[str], text: str) -> bool:
    """Whether the text as a whole matches: one question in place of one for each line.

    Patterns that look around or at the ends of the text can match a line without matching the whole.
    """
    if any(sign in compiled.pattern for sign in ("(?", "\\A", "\\Z", "\\z", "\\G")):
        return True
    return compiled.search(text, timeout=_REGEX_S) is not None


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
