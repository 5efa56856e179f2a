"""What has changed in a repository since its last commit, as git tells it (``engine.md`` section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.core.diffs import Changed, Differences
from engine.core.secrets import is_secret_path
from engine.workspace.git import Repository, open_repository

_DIFF_BYTES = 1 << 18
_IGNORE = "--ignore-submodules=all"
NO_SURPRISES = (
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--no-color",
    "--submodule=short",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    _IGNORE,
)
"""Options by which ``git diff`` runs no program and is not bent by anybody's settings."""


async def differences(workspace: Path) -> Differences | None:
    """How the workspace differs from its last commit; None if it is no repository, or git cannot tell."""
    repository = await open_repository(workspace)
    changed = None if repository is None else await changed_files(repository)
    if repository is None or changed is None:
        return None
    diff, cut = await _diff(repository, changed) if changed else ("", False)
    return Differences(tuple(changed), diff, cut)


async def changed_files(
    repository: Repository, paths: Sequence[str] = (), *, every: bool = False
) -> list[Changed] | None:
    """The changed files, below ``paths`` if given; ``every``: also each file of a new folder. None if git
    fails.
    """
    told = await repository.git(
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        f"--untracked-files={'all' if every else 'normal'}",
        _IGNORE,
        "--",
        *paths,
    )
    if not told.ok:
        return None
    return [Changed(entry[:2], entry[3:]) for entry in told.fields() if entry[2:3] == " "]


async def base_of(repository: Repository) -> tuple[str, ...]:
    """What a diff compares with: the last commit, or the index's beginning before there is one."""
    head = await repository.git("rev-parse", "--verify", "--quiet", "HEAD")
    return ("HEAD",) if head.ok else ("--cached",)


async def _diff(repository: Repository, changed: Sequence[Changed]) -> tuple[str, bool]:
    secret = [one.path for one in changed if is_secret_path(one.path.split("/"))]
    without = [f":(top,exclude,literal){path}" for path in secret]
    told = await repository.git(
        "diff",
        *await base_of(repository),
        *NO_SURPRISES,
        "-U3",
        "--",
        ".",
        *without,
        literal=False,
        most=_DIFF_BYTES,
    )
    return (told.out.decode("utf-8", "replace"), told.cut) if told.ok else ("", False)
