"""Where a path lies: resolved once, classified, and refused where no tool may go."""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from engine.core.secrets import path_class
from engine.core.tooling import PathClass

_LONGEST = 4096
_BYTES = re.compile(r"[\ud800-\udfff]")


class Refused(Exception):
    """What was asked cannot be done; the text says to the model what is wrong and what would be right."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path that was resolved: ``path`` is absolute and real, and ``parts`` lead there from ``root``.

    ``relative`` is what people and the model read; ``kind`` is what policy sees. ``link`` says that the
    path asked for is itself a link, and ``path`` is what it leads to.
    """

    asked: str
    path: Path
    root: Path
    parts: tuple[str, ...]
    relative: str
    kind: PathClass
    link: bool = False

    @property
    def name(self) -> str:
        """The last component; empty for the root itself."""
        return self.parts[-1] if self.parts else ""


def resolve(workspace: Path, task_dir: Path, asked: str) -> Place:
    """Where ``asked`` (relative to the workspace, or absolute) lies; it need not exist.

    Links are followed as long as they stay inside. A name that is not there is looked for in its other
    Unicode forms (NFC, NFD). Raises ``Refused`` for what is outside the workspace and the task's folder, for
    secret-looking names, and for what can be no path.
    """
    _require_path(asked)
    roots = (_real(workspace), task_root(workspace, task_dir))
    whole = workspace / asked
    target = _respelled(_target(whole), roots, asked)
    named = _named(whole, workspace, roots[0])
    place = _place(asked, target, roots, named, link=False)
    if not target.is_symlink():
        return place
    behind = _real(target)
    if not any(is_inside(root, behind) for root in roots):
        raise Refused(f"`{asked}` is a link that leads out of the workspace. Use a file that is inside it.")
    return _place(asked, behind, roots, named, link=True)


def _require_path(asked: str) -> None:
    try:
        size = len(os.fsencode(asked))
    except UnicodeEncodeError:
        raise Refused("The path holds half a character. Glob lists the names that there are.") from None
    if not asked or "\0" in asked or size > _LONGEST:
        raise Refused("A path must not be empty, hold NUL or have more than 4096 bytes.")
    if asked.startswith(("~/", "file:/")) or asked == "~":
        raise Refused(f"`{asked}` would be a file of this very name. Give a path relative to the workspace.")


def _target(whole: Path) -> Path:
    return _real(whole) if whole.name in ("", "..") else _real(whole.parent) / whole.name


def _named(whole: Path, *roots: Path) -> tuple[str, ...]:
    """The parts of a path as it was asked for, before any link is followed; empty if they lead elsewhere."""
    plain = Path(os.path.normpath(whole))
    root = next((root for root in roots if is_inside(root, plain)), None)
    return plain.relative_to(root).parts if root is not None else ()


def _respelled(target: Path, roots: tuple[Path, Path], asked: str) -> Path:
    """``target``, or the path that is there in its place if only the Unicode form of names differs.

    What one system stores as ``が`` in one code point another stores as two; nobody sees a difference, and a
    model writes either. A name with U+FFFD finds the file whose name is no text and is shown so.
    """
    root = next((root for root in roots if is_inside(root, target)), None)
    if root is None or str(target.relative_to(root)).isascii():
        return target
    found = root
    for part in target.relative_to(root).parts:
        found = found / (part if os.path.lexists(found / part) else _twin(found, part, asked))
    return target if found == target else _target(found)


def _twin(folder: Path, name: str, asked: str) -> str:
    """The one entry of a folder that looks exactly like ``name``, or ``name`` if there is none.

    Raises ``Refused`` if there are several.
    """
    if name.isascii():
        return name
    plain = unicodedata.normalize("NFC", name)
    try:
        with os.scandir(folder) as entries:
            twins = [entry.name for entry in entries if _shown(entry.name) == plain]
    except OSError:
        return name
    if len(twins) > 1:
        raise Refused(
            f"`{asked}` could be any of {len(twins)} files whose names look the same (other Unicode forms, or"
            " bytes that are no text). Rename them with Bash."
        )
    return twins[0] if twins else name


def _shown(name: str) -> str:
    return unicodedata.normalize("NFC", _BYTES.sub("\ufffd", name))


def task_root(workspace: Path, task_dir: Path) -> Path:
    """The task's folder, real down to the workspace and without following a link below it."""
    if is_inside(workspace, task_dir):
        return _real(workspace) / task_dir.relative_to(workspace)
    return _real(task_dir)


def _place(asked: str, path: Path, roots: tuple[Path, Path], named: tuple[str, ...], *, link: bool) -> Place:
    root = next((root for root in roots if is_inside(root, path)), None)
    if root is None:
        raise Refused(
            f"`{asked}` is outside the workspace. Paths are relative to the workspace ({roots[0]}) or"
            " absolute inside it; what lies elsewhere must be brought in by the person."
        )
    parts = path.relative_to(root).parts
    kind, asked_kind = path_class(parts), path_class(named)
    if PathClass.SECRET in (kind, asked_kind):
        raise Refused(
            f"`{asked}` has the name of a file that holds secrets: such files are never read, searched or"
            " written. Go on without it, or ask the person for the value you need."
        )
    if kind is PathClass.WORKSPACE and asked_kind is PathClass.PROTECTED:
        kind = PathClass.PROTECTED
    if is_inside(roots[1], path):
        # Nothing is opened or run from a task's folder unasked, so long as no tool takes settings from it.
        kind = PathClass.TASK if kind is not PathClass.PROTECTED else kind
    elif kind is PathClass.TASK:
        kind = PathClass.PROTECTED
    relative = "/".join(parts) if root == roots[0] else str(path)
    return Place(asked, path, root, parts, _BYTES.sub("\ufffd", relative) or ".", kind, link)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def is_inside(root: Path, path: Path) -> bool:
    """Whether ``path`` is ``root`` or below it, component by component (``/w2`` is not in ``/w``)."""
    return path == root or root in path.parents


def require_writable(place: Place, workspace: Path, task_dir: Path) -> None:
    """Raises ``Refused`` for what no tool may write: a folder's root, a name that is no text, the task's own
    records.

    A link is written through: its file changes, and the link stays.
    """
    if not place.parts:
        raise Refused(f"`{place.asked}` is a folder. Name a file in it.")
    if any(_BYTES.search(part) for part in place.parts):
        raise Refused(
            f"`{place.asked}` has a name that is no text (bytes that are not UTF-8). It can be read, but not"
            " written; rename it with Bash."
        )
    own = task_root(workspace, task_dir)
    if is_inside(own, place.path) and own / "output" not in place.path.parents:
        raise Refused(
            f"`{place.asked}` is a record of the task; in the task's folder only `{own / 'output'}` can be"
            " written."
        )


def behind_protected_link(place: Place) -> bool:
    """Whether a link of the root with a protected name (``.vscode``, ``.husky`` …) leads to ``place`` or to
    a folder it is in: who takes settings through the link takes them from here.
    """
    try:
        with os.scandir(place.root) as entries:
            links = [
                entry.path
                for entry in entries
                if entry.is_symlink() and path_class((entry.name,)) is PathClass.PROTECTED
            ]
    except OSError:
        return False
    return any(is_inside(_real(Path(link)), place.path) for link in links)
