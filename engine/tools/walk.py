"""Walking the workspace: what a search sees when nobody says otherwise.

One rule for every search: what git ignores is left out, by ``.gitignore`` at any depth, ``.git/info/exclude``
and the person's global excludes, in a repository or not. A repository inside (a submodule) has its own rules
and none from above. Hidden files count like others; ``.ignore`` and ``.rgignore`` mean nothing.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.secrets import is_secret_path
from engine.core.tooling import PathClass
from engine.tools.excludes import personal_rules, repository_rules, rules_file
from engine.tools.patterns import IgnoreRules
from engine.workspace import Place, is_temporary

_TASKS = ".maestro/tasks"
_PROBE = "maestro-probe"
_NAMED = 3

Chain = tuple[tuple[int, IgnoreRules], ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that a walk found: its path relative to the workspace, and where it is on disk."""

    relative: str
    path: str


@dataclass(slots=True)
class Names:
    """Some things that were left out: how many, and the names of the first three."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.first) < _NAMED:
            self.first.append(name)


@dataclass(slots=True)
class LeftOut:
    """What a walk did not go into: folders that cannot be opened, and what git ignores (but for secrets)."""

    closed: Names = field(default_factory=Names)
    ignored: Names = field(default_factory=Names)


class Ignores:
    """The rules of a workspace for ignored files, each file of them read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._chains: dict[str, Chain] = {}

    def chain(self, folder: str) -> Chain:
        """The rules that hold in a folder (relative to the workspace, empty for the root), nearest first,
        each with the length of its folder's path.
        """
        if folder not in self._chains:
            top = not folder or os.path.lexists(self._root / folder / ".git")
            above = () if top else self.chain(folder.rpartition("/")[0])
            own = self._own(folder, top=top)
            self._chains[folder] = ((len(folder) + 1 if folder else 0, own), *above) if own else above
        return self._chains[folder]

    def _own(self, folder: str, *, top: bool) -> IgnoreRules:
        file = f"{folder}/.gitignore" if folder else ".gitignore"
        rules = rules_file(self._root, file) if os.path.lexists(self._root / file) else b""
        if not top:
            return IgnoreRules(rules)
        return IgnoreRules(personal_rules(self._root), repository_rules(self._root, folder), rules)

    def ignored(self, relative: str, *, folder: bool = False) -> bool:
        """Whether a file (or a ``folder``) is ignored, itself or by a folder on its way."""
        parts = relative.split("/")
        for depth in range(1, len(parts) + 1):
            chain = self.chain("/".join(parts[: depth - 1]))
            if is_ignored(chain, "/".join(parts[:depth]), folder=folder or depth < len(parts)):
                return True
        return False

    def hides_all(self, folder: str) -> bool:
        """Whether a folder is ignored, or all that is in it: who names it by path means what is in it.

        Where a rule takes something back, what is taken back is what is meant.
        """
        if not folder:
            return False
        if self.ignored(folder, folder=True):
            return True
        takes_back = any(rules.keeps_some for _, rules in self.chain(folder))
        return not takes_back and self.ignored(f"{folder}/{_PROBE}")


def is_ignored(chain: Chain, relative: str, *, folder: bool) -> bool:
    """Whether the nearest rules that say anything ignore the path."""
    for length, rules in chain:
        verdict = rules.verdict(relative[length:], folder=folder)
        if verdict is not None:
            return verdict
    return False


def is_secret(relative: str) -> bool:
    """``is_secret_path`` of a path as a walk finds it, quick for many."""
    folder, _, name = relative.rpartition("/")
    return _secret_name(name) or (folder != "" and _secret_folder(folder))


@functools.lru_cache(maxsize=1 << 14)
def _secret_name(name: str) -> bool:
    return is_secret_path((name,))


@functools.lru_cache(maxsize=1 << 12)
def _secret_folder(folder: str) -> bool:
    return is_secret_path((*folder.split("/"), _PROBE))


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder that is being walked: what is left of it, and the rules that hold in it."""

    prefix: str
    entries: Iterator[os.DirEntry[str]]
    chain: Chain


def walk(
    root: Path,
    start: str,
    ignores: Ignores | None,
    stopped: Callable[[], bool],
    *,
    links: bool = False,
    left_out: LeftOut | None = None,
) -> Iterator[Entry]:
    """The regular files below ``start`` (relative to the workspace, empty for all), each folder sorted by
    name.

    ``.git`` and the folders of tasks are left out unless ``start`` lies in them; links to folders are never
    followed, links to files are only named with ``links``. Without ``ignores`` no rule of git counts. Ends
    early when ``stopped()``.
    """
    left_out = left_out if left_out is not None else LeftOut()
    open_folders = [_opened(root, start, ignores, left_out)]
    while open_folders and not stopped():
        here = open_folders[-1]
        entry = next(here.entries, None)
        if entry is None:
            open_folders.pop()
            continue
        relative = here.prefix + entry.name
        if _is_ours(relative, entry.name, start):
            continue
        is_folder = entry.is_dir(follow_symlinks=False)
        if here.chain and is_ignored(here.chain, relative, folder=is_folder):
            if not is_secret(relative):
                left_out.ignored.add(f"{relative}/" if is_folder else relative)
        elif is_folder:
            open_folders.append(_opened(root, relative, ignores, left_out))
        elif entry.is_file(follow_symlinks=False) or (links and _is_link_to_file(entry)):
            yield Entry(relative, entry.path)


def _opened(root: Path, relative: str, ignores: Ignores | None, left_out: LeftOut) -> _Folder:
    try:
        with os.scandir(root / relative if relative else root) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        left_out.closed.add(relative or ".")
        entries = []
    chain = ignores.chain(relative) if ignores is not None else ()
    return _Folder(f"{relative}/" if relative else "", iter(entries), chain)


def _is_link_to_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink() and not entry.is_dir()
    except OSError:
        # A link that leads round to itself.
        return True


def _is_ours(relative: str, name: str, start: str) -> bool:
    """Whether nobody looks for it: git's own, our temporary files, the folders of tasks."""
    if name.startswith(".") and (name == ".git" or is_temporary(name)):
        return True
    return relative == _TASKS and not start.startswith(_TASKS)


def found_place(root: Path, relative: str) -> Place:
    """The place of a file that a walk of the real folder ``root`` found."""
    return Place(relative, root / relative, root, tuple(relative.split("/")), relative, PathClass.WORKSPACE)
