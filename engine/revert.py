"""Puts back what a job changed: every path that is still as the job left it becomes what it was before.

Whatever somebody else touched since stays as it is and is reported. Every single file is changed in one step,
and a revert that was cut off is finished by the next one. Nothing outside the workspace is touched, and no
link is followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

from engine.core.manifest import DIR, NAME, UNSURE, is_file, is_generated, is_stat, link_target, stat_size
from engine.core.records import Snapshot
from engine.core.views import Reverted, RevertKept
from engine.restoring import (
    ALREADY,
    CHANGED,
    FAILED,
    LOST,
    NOT_CHANGED,
    NOT_EMPTY,
    ONLY_COPY,
    UNSAVED,
    Plan,
    bytes_before,
    carry_out,
    same_mode,
)
from engine.workspace import Contents, Refused, remove_temporaries
from engine.workspace.now import now_at


def revert(
    workspace: Path,
    job_id: str,
    snapshots: Sequence[Snapshot],
    contents_file: Path,
    unsaved: Collection[Path] = (),
    files: Collection[str] | None = None,
) -> Reverted:
    """Put back what the job changed, or only ``files`` (paths, also of folders). ``unsaved`` are documents
    with unsaved changes: they stay. The texts of reasons are the caller's.

    Reads and writes files: not for an event loop.
    """
    contents = Contents(contents_file)
    try:
        return _revert(workspace, job_id, snapshots, contents, _below(workspace, unsaved), files)
    finally:
        contents.close()


def _below(workspace: Path, paths: Collection[Path]) -> set[str]:
    root = os.path.realpath(workspace)
    return {os.path.relpath(os.path.realpath(path), root) for path in paths}


def _revert(
    workspace: Path,
    job_id: str,
    snapshots: Sequence[Snapshot],
    contents: Contents,
    unsaved: Collection[str],
    files: Collection[str] | None,
) -> Reverted:
    rows, unknown, on_the_way = _chosen(snapshots, files)
    plan = _done(workspace, job_id, rows, contents, unsaved)
    if FAILED in plan.kept.values() and plan.todo:
        # A folder that nobody could look into may have its mode back by now.
        plan = _done(workspace, job_id, rows, contents, unsaved)
    kept = dict.fromkeys(unknown, NOT_CHANGED) | plan.kept
    quiet = {path for path, why in kept.items() if why == NOT_EMPTY and _says_enough(path, kept, on_the_way)}
    quiet |= {path for path in plan.kept if files is None and is_generated(path)}
    told = [RevertKept(path=_shown(path, rows), reason=kept[path]) for path in sorted(kept.keys() - quiet)]
    return Reverted(reverted=[_shown(path, rows) for path in sorted(set(plan.done))], kept=told)


def _shown(path: str, rows: dict[str, Snapshot]) -> str:
    """A path as it is reported: a folder ends with a slash."""
    row = rows.get(path)
    return f"{path}/" if row is not None and DIR in (row.before_hash, row.after_hash) else path


def _done(
    workspace: Path,
    job_id: str,
    rows: dict[str, Snapshot],
    contents: Contents,
    unsaved: Collection[str],
) -> Plan:
    plan = Plan(Path(os.path.realpath(workspace)), job_id, contents, rows)
    for path in {path.rpartition("/")[0]: path for path in rows}.values():
        _tidy(plan, path)
    for row in rows.values():
        _judge(plan, row, unsaved)
    _find_moves(plan)
    _spare_only_copies(plan)
    carry_out(plan)
    return plan


def _chosen(
    snapshots: Sequence[Snapshot], files: Collection[str] | None
) -> tuple[dict[str, Snapshot], list[str], set[str]]:
    """The rows that are meant; what names none; and the folders on the way to them, which come and go with
    them.
    """
    every = {row.path: row for row in snapshots}
    if files is None:
        return every, [], set()
    wanted = {os.path.normpath(file) for file in files}
    chosen = {path for path in every if any(_is_in(path, file) for file in wanted)}
    made_or_gone = {path for path, row in every.items() if DIR in (row.before_hash, row.after_hash)}
    made_or_gone -= {path for path in made_or_gone if every[path].before_hash == every[path].after_hash}
    above = {path for path in made_or_gone - chosen if any(_is_in(one, path) for one in chosen)}
    unknown = [file for file in wanted if not any(_is_in(path, file) for path in chosen)]
    return {path: row for path, row in every.items() if path in chosen | above}, unknown, above


def _says_enough(folder: str, kept: dict[str, str], on_the_way: set[str]) -> bool:
    """Whether that a folder stays needs no word: it was not asked for, or what is kept in it says why."""
    return folder in on_the_way or any(path != folder and _is_in(path, folder) for path in kept)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or folder == "." or path.startswith(f"{folder}/")


# --- judging ----------------------------------------------------------------------------------------


def _judge(plan: Plan, row: Snapshot, unsaved: Collection[str]) -> None:
    if row.reverted:
        plan.kept[row.path] = ALREADY
        return
    if row.path in unsaved or row.why == NAME:  # nobody can look at a path whose name is no text
        plan.kept[row.path] = NAME if row.why == NAME else UNSAVED
        return
    try:
        as_left = now_at(plan.root, row.path, row.after_hash)
        as_before = now_at(plan.root, row.path, row.before_hash)
    except (OSError, Refused):
        plan.kept[row.path] = FAILED
        return
    if as_before.print == row.before_hash and same_mode(row.before_mode, as_before.mode, row.before_hash):
        plan.done.append(row.path)
    elif row.why == UNSURE:
        plan.kept[row.path] = row.why
    elif as_left.print != row.after_hash or not same_mode(row.after_mode, as_left.mode, row.after_hash):
        plan.kept[row.path] = CHANGED
    else:
        plan.todo.append(row.path)


def _tidy(plan: Plan, path: str) -> None:
    """Remove what a revert that was cut off left beside a file."""
    with contextlib.suppress(OSError, Refused):
        remove_temporaries(plan.place(path), plan.label)


def _find_moves(plan: Plan) -> None:
    """Which files without kept bytes can be moved back from where the job moved them; what else cannot be put
    back for want of its bytes stays.
    """
    new_places = {
        plan.rows[path].after_hash: path
        for path in plan.todo
        if plan.rows[path].before_hash is None and is_stat(plan.rows[path].after_hash)
    }
    for path in list(plan.todo):
        row = plan.rows[path]
        if _in_reach(plan, row):
            continue
        if (source := new_places.get(row.before_hash)) is not None:
            plan.moves[path] = source
        else:
            plan.kept[path] = row.why or LOST
            plan.todo.remove(path)


def _spare_only_copies(plan: Plan) -> None:
    """Nothing is removed that may be the only copy of what cannot be put back: it went there from a path that
    stays as it is.
    """
    staying = [row for path, row in plan.rows.items() if path in plan.kept and not row.reverted]
    prints = {row.before_hash for row in staying if is_file(row.before_hash)}
    sizes = {stat_size(row.before_hash) for row in staying if is_stat(row.before_hash)}
    for path in list(plan.todo):
        row = plan.rows[path]
        if row.before_hash is not None or path in plan.moves.values():
            continue
        if row.after_hash in prints or (sizes and _size(plan, path) in sizes):
            plan.kept[path] = ONLY_COPY
            plan.todo.remove(path)


def _size(plan: Plan, path: str) -> int | None:
    """The size of a file, which is all that is known of a lost one."""
    try:
        status = plan.place(path).path.lstat()
    except (OSError, Refused):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _in_reach(plan: Plan, row: Snapshot) -> bool:
    """Whether what was there before can be made: nothing, a folder, a link, kept bytes, or only a mode."""
    before = row.before_hash
    if before in (None, DIR) or link_target(before) is not None or before == row.after_hash:
        return True
    return bytes_before(plan, row) is not None
