"""What the engine says about a workspace: the task's files, the git branch, whether it may be one at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import BadArgument
from engine.workspace.paths import is_inside

_LISTED = 200
_COUNTED = 100_000
_HEAD_BYTES = 4096
_BRANCH = re.compile(r"ref: refs/heads/(\S{1,250})")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_GITDIR = re.compile(r"gitdir: (.+)")


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The first 200 files of a task's ``input`` and ``output``, as paths from the task's folder; ``more``
    were left out.
    """

    names: tuple[str, ...]
    more: int


def list_task_files(task_dir: Path) -> TaskFiles:
    """The files in ``input/`` and ``output/`` of a task, sorted; links and temporary files are not listed."""
    names: list[str] = []
    count = 0
    for part in ("input", "output"):
        for name in _files_below(task_dir, part):
            count += 1
            if len(names) < _LISTED:
                names.append(name)
            if count >= _COUNTED:
                break
    return TaskFiles(tuple(names), count - len(names))


def _files_below(base: Path, relative: str) -> Iterator[str]:
    folder = base / relative
    if folder.is_symlink():
        return
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        name = f"{relative}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(base, name)
        elif entry.is_file(follow_symlinks=False) and not entry.name.startswith(".maestro-"):
            yield name


def git_branch(root: Path) -> str | None:
    """The branch that is checked out in ``root``, the first 12 digits of a detached commit, or None without
    git.

    It is read from ``.git/HEAD`` (through the ``gitdir:`` file of worktrees and submodules); git is not
    run, because the configuration of a repository that somebody else made can run programs.
    """
    dot_git = root / ".git"
    pointer = _GITDIR.match(_first_line(dot_git)) if dot_git.is_file() else None
    head = _first_line((root / pointer[1] if pointer else dot_git) / "HEAD")
    if branch := _BRANCH.fullmatch(head):
        return branch[1] if branch[1].isprintable() else None
    return head[:12] if _COMMIT.fullmatch(head) else None


def _first_line(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES).decode("utf-8", "replace").split("\n", 1)[0].strip()
    except OSError:
        return ""


def refuse_workspace(root: Path, state_dir: Path, home: Path | None = None) -> None:
    """Raises ``BadArgument`` if ``root`` must not be a workspace.

    These are ``/``, the home folder, every parent of it, and what contains the folder of the engine's own
    state (sandbox note 1.2): a tool that may write the workspace could write there too.
    """
    real = Path(os.path.realpath(root))
    if not real.is_dir():
        raise BadArgument("workspace.not_a_folder", data={"path": str(root)}, path=str(root))
    if is_inside(real, Path(os.path.realpath(home or Path.home()))):
        raise BadArgument("workspace.too_wide", data={"path": str(root)}, path=str(root))
    if is_inside(real, Path(os.path.realpath(state_dir))):
        raise BadArgument(
            "workspace.holds_state", data={"path": str(root)}, path=str(root), state=str(state_dir)
        )


def find_program(name: str, workspace: Path, search: str | None = None) -> str | None:
    """The absolute path of a program of the machine: on ``search`` (default ``PATH``), never inside the
    workspace.

    A repository must not be able to bring its own ``rg`` or ``bash``.
    """
    root = Path(os.path.realpath(workspace))
    for folder in (os.environ.get("PATH", os.defpath) if search is None else search).split(os.pathsep):
        path = Path(folder, name)
        if not path.is_absolute() or is_inside(root, Path(os.path.realpath(path))) or is_inside(root, path):
            continue
        # Not Path.is_file: it raises for a folder that is closed to us, and PATH may name some.
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            return str(path)
    return None
