"""Walking the workspace: what a search sees when nobody says otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.core.tooling import PathClass
from engine.tools.patterns import IgnoreRules
from engine.workspace import Place, Refused, is_temporary, open_regular, resolve

_RULES_BYTES = 1 << 20
_TASKS = ".maestro/tasks"
_PROBE = "maestro-probe"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that a walk found: its path relative to the workspace, and where it is on disk."""

    relative: str
    path: str


class Ignores:
    """The ``.gitignore`` files of a workspace, each read once, and ``.git/info/exclude``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[str, IgnoreRules] = {}

    def rules(self, folder: str) -> IgnoreRules:
        """The rules that a folder (relative to the workspace, empty for the root) brings."""
        if folder not in self._read:
            lines = _lines(self._root, f"{folder}/.gitignore" if folder else ".gitignore")
            if not folder:
                lines = _lines(self._root, ".git/info/exclude") + lines
            self._read[folder] = IgnoreRules(lines)
        return self._read[folder]

    def chain(self, folder: str) -> tuple[tuple[int, IgnoreRules], ...]:
        """The rules that hold in a folder, nearest first, each with the length of its folder's path."""
        parts = folder.split("/") if folder else []
        above = ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]
        return tuple((len(one) + 1 if one else 0, self.rules(one)) for one in above if self.rules(one))

    def ignored(self, relative: str) -> bool:
        """Whether a file is ignored, itself or by a folder on its way."""
        parts = relative.split("/")
        for depth in range(1, len(parts) + 1):
            folder = "/".join(parts[: depth - 1])
            if is_ignored(self.chain(folder), "/".join(parts[:depth]), folder=depth < len(parts)):
                return True
        return False

    def hides_all(self, folder: str) -> bool:
        """Whether a folder is ignored, or all that is in it: who names it by path means what is in it."""
        return bool(folder) and self.ignored(f"{folder}/{_PROBE}")


def is_ignored(chain: tuple[tuple[int, IgnoreRules], ...], relative: str, *, folder: bool) -> bool:
    """Whether the nearest rules that say anything ignore the path."""
    for length, rules in chain:
        verdict = rules.verdict(relative[length:], folder=folder)
        if verdict is not None:
            return verdict
    return False


def _lines(root: Path, relative: str) -> list[str]:
    try:
        place = resolve(root, root / _TASKS, relative)
        if place.link:
            return []
        with os.fdopen(open_regular(place), "rb") as file:
            return file.read(_RULES_BYTES).decode("utf-8-sig", "surrogateescape").splitlines()
    except (OSError, Refused):
        return []


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder that is being walked: what is left of it, and the rules that hold in it."""

    relative: str
    entries: Iterator[os.DirEntry[str]]
    chain: tuple[tuple[int, IgnoreRules], ...]

    @classmethod
    def read(cls, root: Path, relative: str, ignores: Ignores | None) -> _Folder:
        chain = ignores.chain(relative) if ignores is not None else ()
        return cls(relative, iter(_sorted(root / relative if relative else root)), chain)


def walk(
    root: Path, start: str, ignores: Ignores | None, stopped: Callable[[], bool], *, links: bool = False
) -> Iterator[Entry]:
    """The regular files below ``start`` (relative to the workspace, empty for all), each folder sorted by
    name.

    ``.git`` and the folders of tasks are left out unless ``start`` lies in them; links to folders are never
    followed, links to files are only named with ``links``. Without ``ignores`` no rule of git counts. Ends
    early when ``stopped()``.
    """
    open_folders = [_Folder.read(root, start, ignores)]
    while open_folders and not stopped():
        here = open_folders[-1]
        entry = next(here.entries, None)
        if entry is None:
            open_folders.pop()
            continue
        relative = f"{here.relative}/{entry.name}" if here.relative else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if _left_out(relative, entry.name, start) or is_ignored(here.chain, relative, folder=is_folder):
            continue
        if is_folder:
            open_folders.append(_Folder.read(root, relative, ignores))
        elif entry.is_file(follow_symlinks=False) or (links and entry.is_symlink() and not entry.is_dir()):
            yield Entry(relative, entry.path)


def _left_out(relative: str, name: str, start: str) -> bool:
    if name == ".git" or is_temporary(name):
        return True
    return relative == _TASKS and not start.startswith(_TASKS)


def _sorted(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return []


def found_place(root: Path, relative: str) -> Place:
    """The place of a file that a walk of the real folder ``root`` found."""
    return Place(relative, root / relative, root, tuple(relative.split("/")), relative, PathClass.WORKSPACE)
