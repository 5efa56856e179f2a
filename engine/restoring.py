"""Puts paths back as a plan says: each file in one step, and only if it still is what it was planned for."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.manifest import DIR, has_mode, link_target
from engine.core.records import Snapshot
from engine.workspace import Contents, Place, Refused, folder_of
from engine.workspace.now import now_at, place_below, put_file, put_link

CHANGED = "changed"
NOT_EMPTY = "not_empty"
FAILED = "failed"
ALREADY = "already_reverted"
UNSAVED = "unsaved"
NOT_CHANGED = "not_changed"
LOST = "lost"
ONLY_COPY = "only_copy"


@dataclass(slots=True)
class Plan:
    """What is to be put back below ``root`` (``todo``; ``moves``: from where a file without kept bytes is),
    and what became of each path: ``done``, or ``kept`` with the reason. ``label`` marks temporary files.
    """

    root: Path
    label: str
    contents: Contents
    rows: dict[str, Snapshot]
    done: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    todo: list[str] = field(default_factory=list)
    moves: dict[str, str] = field(default_factory=dict)

    def place(self, path: str) -> Place:
        """Where a path lies."""
        return place_below(self.root, path)


def same_mode(wanted: int | None, mode: int | None, found: str | None) -> bool:
    """Whether the mode is as wanted, where it means anything."""
    return wanted is None or not has_mode(found) or wanted == mode


def bytes_before(plan: Plan, row: Snapshot) -> bytes | None:
    """The bytes of a file before the job, if they are kept."""
    if row.before is not None or row.before_hash is None:
        return row.before
    return plan.contents.get(row.before_hash)


def carry_out(plan: Plan) -> None:
    """Do what the plan says; what became of each path is in ``done`` and ``kept``."""
    for step in (_move_all_back, _remove, _make_folders, _restore, _folder_modes):
        step(plan)


@contextlib.contextmanager
def _trying(plan: Plan, path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, Refused):
        plan.kept[path] = CHANGED
    except OSError:
        plan.kept[path] = FAILED


def _deepest_first(paths: Collection[str]) -> list[str]:
    return sorted(paths, key=lambda path: (-path.count("/"), path))


def _move_all_back(plan: Plan) -> None:
    """Files whose bytes are not kept go back to where they were."""
    for path, source in plan.moves.items():
        row, old, new = plan.rows[path], path.rpartition("/")[2], source.rpartition("/")[2]
        with (
            _trying(plan, path),
            _open_folder(plan, path) as above,
            _open_folder(plan, source) as beside,
        ):
            _still(plan, row)
            _still(plan, plan.rows[source])
            os.rename(new, old, src_dir_fd=beside, dst_dir_fd=above)
            _chmod(old, row.before_mode, above)
            plan.done += [path, source]


def _remove(plan: Plan) -> None:
    """What the job made, and what is of another kind than before where a folder is or is to be."""
    for path in _deepest_first(plan.todo):
        row = plan.rows[path]
        folder = row.after_hash == DIR
        if row.after_hash is None or path in plan.moves or path in plan.moves.values():
            continue
        if row.before_hash is not None and folder == (row.before_hash == DIR):
            continue
        with _trying(plan, path), _open_folder(plan, path) as above:
            _still(plan, row)
            name = path.rpartition("/")[2]
            if folder:
                if not _rmdir(name, above):
                    plan.kept[path] = NOT_EMPTY
                    continue
            else:
                os.unlink(name, dir_fd=above)
            if row.before_hash is None:
                plan.done.append(path)


def _rmdir(name: str, above: int) -> bool:
    try:
        os.rmdir(name, dir_fd=above)
    except OSError as fault:
        if fault.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _make_folders(plan: Plan) -> None:
    """The folders that were there, from the top down; their modes come when everything is in them."""
    for path in reversed(_deepest_first(plan.todo)):
        row = plan.rows[path]
        if row.before_hash != DIR or row.after_hash == DIR or path in plan.kept:
            continue
        with _trying(plan, path), _open_folder(plan, path) as above:
            if now_at(plan.root, path, DIR).print != DIR:  # made on the way to a file that was moved back
                os.mkdir(path.rpartition("/")[2], 0o700, dir_fd=above)


def _restore(plan: Plan) -> None:
    """Files and links get their old content, each in one step, or only their mode."""
    for path in plan.todo:
        row = plan.rows[path]
        if row.before_hash in (None, DIR) or path in plan.kept or path in plan.moves:
            continue
        with _trying(plan, path), _open_folder(plan, path) as above:
            if row.after_hash != DIR:
                _still(plan, row)
            name = path.rpartition("/")[2]
            if row.before_hash == row.after_hash:
                _chmod(name, row.before_mode, above)
            elif (target := link_target(row.before_hash)) is not None:
                put_link(name, target, above, plan.label)
            else:
                data = bytes_before(plan, row)
                if data is None:
                    plan.kept[path] = LOST
                    continue
                put_file(name, data, row.before_mode, above, plan.label)
            plan.done.append(path)


def _folder_modes(plan: Plan) -> None:
    for path in _deepest_first(plan.todo):
        row = plan.rows[path]
        if row.before_hash != DIR or path in plan.kept:
            continue
        with _trying(plan, path), _open_folder(plan, path) as above:
            _chmod(path.rpartition("/")[2], row.before_mode, above)
            plan.done.append(path)


def _still(plan: Plan, row: Snapshot) -> None:
    """Raises ``Refused`` if the path is no longer as the job left it: somebody was faster."""
    now = now_at(plan.root, row.path, row.after_hash)
    if now.print != row.after_hash or not same_mode(row.after_mode, now.mode, row.after_hash):
        raise Refused(f"`{row.path}` changed meanwhile.")


def _chmod(name: str, mode: int | None, above: int) -> None:
    status = os.stat(name, dir_fd=above, follow_symlinks=False)
    if mode is None or stat.S_ISLNK(status.st_mode) or stat.S_IMODE(status.st_mode) == mode:
        return
    os.chmod(name, mode, dir_fd=above)


@contextlib.contextmanager
def _open_folder(plan: Plan, path: str) -> Iterator[int]:
    """The folder that holds ``path``, made if it is gone, and writable for the moment."""
    with folder_of(plan.place(path), create=plan.rows[path].before_hash is not None) as above:
        mode = stat.S_IMODE(os.fstat(above).st_mode)
        locked = not os.access(".", os.W_OK | os.X_OK, dir_fd=above, effective_ids=True)
        if locked:
            os.fchmod(above, mode | 0o700)
        try:
            yield above
        finally:
            if locked:
                os.fchmod(above, mode)
