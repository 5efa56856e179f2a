"""What a search says beside what it found: what was left out and why, and how to see more. Pure.

Every hint names something that changes the answer, and whoever follows the hints comes to an end.
"""

from __future__ import annotations

import re

from engine.tools.finding import LARGEST, Query, Report, path_text
from engine.tools.walk import LeftOut, Names

MOST_LINES = 10_000
_GROWTH = 4
_FOR_NOTHING = (
    (re.compile(r"\\\|"), "\\| stands for the sign |; alternatives are written a|b."),
    (re.compile(r"\\[(){}]"), "\\( and its kind stand for the signs; groups are written ( )."),
    (re.compile(r"\[\\s\\S\]|\[\\S\\s\]|\(\?[a-z]*s"), "The search goes line by line: no match spans lines."),
)


def more(query: Query, report: Report) -> list[str]:
    """How to see what did not fit; nothing if all is shown."""
    narrower = "a narrower pattern" if query.single else "a narrower path, glob or pattern"
    if report.limited_by == "limit":
        larger = min(MOST_LINES, _GROWTH * query.limit)
        grow = f"head_limit {larger} or " if larger > query.limit else ""
        return [f"Stopped at {query.limit} lines: there is more. Give {grow}{narrower}."]
    if report.limited_by == "budget":
        other = ", or output_mode count to see how much there is" if query.mode == "content" else ""
        return [f"The rest does not fit in one result: there is more. Give {narrower}{other}."]
    return []


def stopped(seconds: float, *, single: bool = False) -> str:
    """That the time was up, and what takes less of it."""
    narrower = "Give a simpler pattern" if single else "Name a narrower path"
    return f"Stopped after {seconds:g} s: not everything was searched. {narrower}."


def nothing(pattern: str) -> list[str]:
    """What is often meant by a pattern that finds nothing."""
    return [hint for sign, hint in _FOR_NOTHING if sign.search(pattern)]


def folders(pattern: str) -> list[str]:
    """What shows the folders, for a pattern that asks for them."""
    return [f"Glob names files only. {path_text(pattern)}** names those in the folders."] * pattern.endswith(
        "/"
    )


def secrets(count: int) -> list[str]:
    """That files were left out by the rule for secrets; their names are none of the model's business."""
    if not count:
        return []
    files = "1 file that has" if count == 1 else f"{count} files that have"
    return [f"{files} the name of a secret were left out. If you need a value from there, ask the person."]


def ignored(left_out: LeftOut) -> list[str]:
    """What git's rules kept from a search that found nothing, and how to search it all the same."""
    return _listed("Left out because git ignores it", left_out.ignored, " Name one as path to search it.")


def unseen(report: Report) -> list[str]:
    """What could not be looked at."""
    return [
        *closed(report.left_out),
        *_listed("Not searched because it could not be read", report.unread),
        *_listed("Not searched because it is binary", report.binary),
        *_listed(f"Not searched because it has more than {LARGEST >> 20} MiB", report.too_large),
    ]


def closed(left_out: LeftOut) -> list[str]:
    """The folders that could not be opened."""
    return _listed("Not looked into because it could not be opened", left_out.closed)


def _listed(what: str, names: Names, then: str = "") -> list[str]:
    if not names.count:
        return []
    shown = ", ".join(path_text(name) for name in names.first)
    others = names.count - len(names.first)
    return [f"{what}: {shown}{f' and {others} more' if others else ''}.{then}"]


def unsaved(paths: list[str]) -> list[str]:
    """That what the editor shows of these files is newer than what was searched."""
    names = ", ".join(path_text(path) for path in paths[:10])
    return [f"Not saved in the editor; the older text on disk was searched: {names}"] if names else []


def noted(notes: list[str]) -> list[str]:
    """The notes as lines of a result."""
    return [f"[{note}]" for note in notes]
