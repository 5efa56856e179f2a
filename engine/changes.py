"""What a job changed: its snapshots against the files as they are now."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.manifest import DIR, has_mode, is_bytes, is_file, is_generated, is_stat, link_target
from engine.core.records import Snapshot
from engine.core.views import FileChanged
from engine.workspace import Contents, Refused, open_regular
from engine.workspace.now import Now, now_at, place_below

_SHOWN = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Seen:
    row: Snapshot
    now: Now


def changes_of(workspace: Path, snapshots: Sequence[Snapshot], contents_file: Path) -> list[FileChanged]:
    """Each changed file and link with its text before and now (None for none, or for one too large or binary
    to show). A file that went and came elsewhere with the same bytes is one renamed file. Folders and
    caches are not listed, nor what was put back.
    """
    root = Path(os.path.realpath(workspace))
    listed = [row for row in snapshots if not row.reverted and not is_generated(row.path)]
    seen = [_Seen(row, now) for row in listed if (now := _now(root, row)) is not None]
    seen = [one for one in seen if _differs(one)]
    from_ = _renames(seen)
    moved = set(from_.values())
    contents = Contents(contents_file)
    try:
        return [
            _changed(root, one, contents, from_.get(one.row.path))
            for one in seen
            if one.row.path not in moved
        ]
    finally:
        contents.close()


def _now(root: Path, row: Snapshot) -> Now | None:
    """What is there now; None for folders, and for what cannot be read."""
    try:
        now = now_at(root, row.path, row.after_hash)
        if is_stat(row.before_hash) and now_at(root, row.path, row.before_hash).print == row.before_hash:
            now = Now(row.before_hash, now.mode)
    except OSError:
        return None
    return None if {row.before_hash, now.print} <= {DIR, None} else now


def _differs(one: _Seen) -> bool:
    row, now = one.row, one.now
    if row.before_hash != now.print:
        return True
    return has_mode(now.print) and row.before_mode is not None and row.before_mode != now.mode


def _renames(seen: Sequence[_Seen]) -> dict[str, str]:
    """New path → old path of files that went and came with the same bytes; no two share one."""
    gone: dict[str | None, list[str]] = {}
    for one in seen:
        if one.now.print is None and is_file(one.row.before_hash):
            gone.setdefault(one.row.before_hash, []).append(one.row.path)
    found: dict[str, str] = {}
    for one in seen:
        if one.row.before_hash is None and gone.get(one.now.print):
            found[one.row.path] = gone[one.now.print].pop(0)
    return found


def _changed(root: Path, one: _Seen, contents: Contents, renamed_from: str | None) -> FileChanged:
    row, now = one.row, one.now
    was = None if row.before_hash == DIR else row.before_hash
    status = "added" if was is None else "deleted" if now.print in (None, DIR) else "modified"
    after, hidden = _text_now(root, row.path, now)
    before, too = (None, False) if renamed_from else _text_before(row, contents)
    modes = has_mode(was) and has_mode(now.print) and row.before_mode != now.mode
    return FileChanged(
        path=row.path,
        status="renamed" if renamed_from else status,
        before=after if renamed_from else before,
        after=after,
        binary=hidden or too,
        current_matches=now.print == row.after_hash and row.after_mode in (None, now.mode),
        renamed_from=renamed_from,
        before_mode=f"{row.before_mode:04o}" if modes and row.before_mode is not None else None,
        after_mode=f"{now.mode:04o}" if modes and row.before_mode is not None else None,
        link=link_target(was) is not None or link_target(now.print) is not None,
    )


def _text_before(row: Snapshot, contents: Contents) -> tuple[str | None, bool]:
    """(text, whether there is something that is not shown)."""
    if row.before_hash in (None, DIR):
        return None, False
    if (target := link_target(row.before_hash)) is not None:
        return target, False
    data = row.before
    if data is None and is_bytes(row.before_hash) and row.before_hash is not None:
        with contextlib.suppress(OSError):
            data = contents.get(row.before_hash)
    text = _text(data)
    return text, text is None


def _text_now(root: Path, path: str, now: Now) -> tuple[str | None, bool]:
    if now.print in (None, DIR):
        return None, False
    if (target := link_target(now.print)) is not None:
        return target, False
    if is_stat(now.print):
        return None, True
    try:
        with os.fdopen(open_regular(place_below(root, path)), "rb") as file:
            text = _text(file.read(_SHOWN + 1))
    except (OSError, Refused):
        return None, True
    return text, text is None


def _text(data: bytes | None) -> str | None:
    if data is None or b"\0" in data or len(data) > _SHOWN:
        return None
    return data.decode("utf-8", "replace")
