"""The rules for ignored files that hold beside ``.gitignore``: the person's own, and a repository's unshared
ones.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from engine.workspace import Refused, find_program, open_regular, resolve

_MOST_BYTES = 1 << 20
_GIT_S = 2.0
_GITDIR = re.compile(rb"gitdir: ([^\r\n]{1,4000})")
# What tells git where the person's settings are, and nothing that tells it of a repository.
_KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "USERPROFILE", "SYSTEMROOT")


def personal_rules(workspace: Path) -> bytes:
    """The person's global excludes: of the file that ``core.excludesFile`` names in their own git settings,
    else of ``git/ignore`` in their configuration folder. Empty where there are none.
    """
    kept = {name: value for name in _KEPT if (value := os.environ.get(name))}
    home = _home(kept)
    config = Path(kept.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    sources = [config / "config", home / ".gitconfig"]
    if "GIT_CONFIG_GLOBAL" in kept:
        sources = [Path(kept["GIT_CONFIG_GLOBAL"])]
    ages = tuple(_age(path) for path in sources)
    named = _named_file(workspace, tuple(kept.items()), ages) if any(ages) else None
    return _content(Path(named) if named is not None else config / "ignore")


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or environment.get("USERPROFILE") or os.devnull)


def _age(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=16)
def _named_file(
    workspace: Path, environment: tuple[tuple[str, str], ...], ages: tuple[int, ...]
) -> str | None:
    """What ``core.excludesFile`` is, None if it is not set. Asked again when a settings file has changed.

    git itself reads its settings best (quotes, includes, ``~``), but it is never run where the workspace
    could have a say: its folder is the root, and only the person's settings are read.
    """
    git = find_program("git", workspace)
    if git is None:
        return None
    try:
        said = subprocess.run(
            [git, "config", "--global", "--includes", "-z", "--path", "--get", "core.excludesFile"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=workspace.anchor,
            env={
                **dict(environment),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CEILING_DIRECTORIES": workspace.anchor,
            },
            timeout=_GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(said.stdout.rstrip(b"\0")) if said.returncode == 0 else None


def _content(path: Path) -> bytes:
    """A file of the person's own; it may be a link, as those who manage their settings like to have it."""
    try:
        if not path.is_absolute() or not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except (OSError, ValueError):
        return b""


def repository_rules(root: Path, folder: str) -> bytes:
    """``info/exclude`` of the repository whose top is ``folder`` (relative to the workspace ``root``).

    A submodule's lies in the repository above it; what lies outside the workspace is not read.
    """
    inside = f"{folder}/" if folder else ""
    if (root / inside / ".git").is_dir():
        return rules_file(root, f"{inside}.git/info/exclude")
    pointer = _GITDIR.match(rules_file(root, f"{inside}.git"))
    if pointer is None:
        return b""
    git = os.path.normpath(root / inside / os.fsdecode(pointer[1]))
    return rules_file(root, f"{git}/info/exclude")


def rules_file(root: Path, path: str) -> bytes:
    """A file of rules in the workspace ``root``, at most 1 MiB of it; empty if there is none, it lies
    elsewhere or is a link.
    """
    try:
        place = resolve(root, root / ".maestro" / "tasks", path)
        if place.link:
            return b""
        with os.fdopen(open_regular(place), "rb") as file:
            return file.read(_MOST_BYTES)
    except (OSError, Refused, ValueError):
        return b""
