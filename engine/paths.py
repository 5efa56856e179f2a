"""Where things live: the person's state folder with one store per workspace, and the task folders inside the
workspace.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from engine.core.errors import BadArgument

STORE_NAME = "store.db"
CONTENTS = "contents.db"
"""Beside the store: the bytes of workspace files as they were before jobs changed them."""
TASKS = Path(".maestro") / "tasks"


def state_dir() -> Path:
    """``$MAESTRO_STATE_DIR``, else the platform's user state folder. Never inside a workspace: a repository
    must not bring one.
    """
    configured = os.environ.get("MAESTRO_STATE_DIR")
    if configured:
        return Path(configured).expanduser().absolute()
    from platformdirs import user_state_path

    return user_state_path("maestro-lsp")


def store_path(workspace: Path, state: Path | None = None) -> Path:
    """The store of a workspace, by the hash of its real path."""
    real = os.path.realpath(workspace)
    key = hashlib.sha256(real.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return (state or state_dir()) / key / STORE_NAME


def all_stores(state: Path | None = None) -> Iterator[Path]:
    """Every store of this person, newest first: ids are global, so a job can be found without its
    workspace.
    """
    found = [
        path
        for path in (state or state_dir()).glob(f"*/{STORE_NAME}")
        if path.is_file() and not path.is_symlink()
    ]
    yield from sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def task_dir(workspace: Path, task_id: str) -> Path:
    """A task's folder, ``.maestro/tasks/<task id>``."""
    return workspace / TASKS / task_id


def make_task_dir(workspace: Path, task_id: str) -> Path:
    """Make a task's folder with ``input``, ``output`` and ``logs``, hidden from git. Raises ``BadArgument``
    if a part of it is a link or cannot be made.
    """
    folder = task_dir(workspace, task_id)
    for part in (
        workspace / ".maestro",
        workspace / TASKS,
        folder,
        *(folder / name for name in ("input", "output", "logs")),
    ):
        if part.is_symlink():
            raise BadArgument("task.folder_is_link", path=str(part.relative_to(workspace)))
        try:
            part.mkdir(exist_ok=True)
        except OSError as error:
            raise BadArgument("task.no_folder", path=str(part), why=error.strerror or str(error)) from error
    ignore = workspace / TASKS / ".gitignore"
    with suppress(OSError):  # the task works without it
        if not ignore.exists() and not ignore.is_symlink():
            ignore.write_text("*\n", "utf-8")
    return folder
