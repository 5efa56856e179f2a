"""A job as one document: the shape of a JSON export, and the parts that both formats share. Pure.

Version 1 is: ``format``, ``version``, ``job`` (a ``JobDetail``), ``changes``, and ``events`` (the stored
events in order). A later version may add fields; a field that is there keeps its meaning.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from engine.core.secrets import is_secret_path
from engine.core.truncate import first_characters
from engine.core.views import FileChanged, JobDetail, View

FORMATS = ("md", "json")
MOST_DIFF = 20_000
"""Characters of one file's diff."""
MOST_DIFFS = 400_000
"""Characters of all diffs of an export."""
_MOST_COMPARED = 1_000_000

_HIDDEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff"
    "\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


class ExportedChange(View, frozen=True, kw_only=True):
    """A file a job changed. ``diff`` is a unified one; ``cut`` says that not all of it, or none, is here."""

    path: str
    status: str
    renamed_from: str | None = None
    before_mode: str | None = None
    after_mode: str | None = None
    binary: bool = False
    link: bool = False
    current_matches: bool = True
    diff: str = ""
    cut: bool = False


class ExportHead(View, frozen=True, kw_only=True):
    """An export without its events."""

    format: Literal["maestro.export"] = "maestro.export"
    version: Literal[1] = 1
    job: JobDetail
    changes: list[ExportedChange]


class Export(ExportHead, frozen=True, kw_only=True):
    """A whole export. ``events`` are as ``maestro.task.events`` gives them."""

    events: list[dict[str, Any]]


def exported_changes(files: Sequence[FileChanged]) -> list[ExportedChange]:
    """The changes with their diffs, as far as there is room. A file that usually holds secrets has none."""
    room = MOST_DIFFS
    found = []
    for file in files:
        diff, cut = _diff(file, min(room, MOST_DIFF))
        room -= len(diff)
        found.append(
            ExportedChange(
                path=file.path,
                status=file.status,
                renamed_from=file.renamed_from,
                before_mode=file.before_mode,
                after_mode=file.after_mode,
                binary=file.binary,
                link=file.link,
                current_matches=file.current_matches,
                diff=diff,
                cut=cut,
            )
        )
    return found


def _diff(file: FileChanged, room: int) -> tuple[str, bool]:
    """(the diff, whether something is missing)."""
    before, after = file.before or "", file.after or ""
    if is_secret_path(file.path.split("/")):
        return "", True
    if file.binary or file.status == "renamed":
        return "", False
    if room <= 0 or len(before) + len(after) > _MOST_COMPARED:
        return "", True
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3)
    shown, rest = first_characters("\n".join(list(lines)[2:]), room)
    return shown, bool(rest)


def redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """Plain data with every text in it, keys too, as ``redact`` leaves it."""
    match value:
        case str():
            return redact(value)
        case dict():
            return {redact(key): redacted(child, redact) for key, child in value.items()}
        case list():
            return [redacted(child, redact) for child in value]
        case _:
            return value


def visible(json_text: str) -> str:
    """JSON text with what no eye can see, or what turns its direction, as escapes: the same value."""
    return _HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], json_text)


def json_parts(head: dict[str, Any], encode: Callable[[Any], str]) -> Iterator[str]:
    """The JSON text of an export's head, up to where its events begin; one line for each field."""
    for name, value in head.items():
        yield f"{'{' if name == 'format' else ' '}{encode(name)}:{encode(value)},\n"
    yield f" {encode('events')}:["
