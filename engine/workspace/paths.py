"""Where a path lies: resolved once, classified, and refused where no tool may go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from engine.core.secrets import path_class
from engine.core.tooling import PathClass

_LONGEST = 4096


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

    Links are followed as long as they stay inside. Raises ``Refused`` for what is outside the workspace and
    the task's folder, for secret-looking names, and for what can be no path.
    """
    if not asked or "\0" in asked or len(os.fsencode(asked)) > _LONGEST:
        raise Refused("A path must not be empty, hold NUL or have more than 4096 bytes.")
    roots = (_real(workspace), task_root(workspace, task_dir))
    whole = workspace / asked
    target = _real(whole) if whole.name in ("", "..") else _real(whole.parent) / whole.name
    place = _place(asked, target, roots, link=False)
    if not target.is_symlink():
        return place
    behind = _real(target)
    if not any(is_inside(root, behind) for root in roots):
        raise Refused(f"`{asked}` is a link that leads out of the workspace. Use a file that is inside it.")
    return _place(asked, behind, roots, link=True)


def task_root(workspace: Path, task_dir: Path) -> Path:
    """The task's folder, real down to the workspace and without following a link below it."""
    if is_inside(workspace, task_dir):
        return _real(workspace) / task_dir.relative_to(workspace)
    return _real(task_dir)


def _place(asked: str, path: Path, roots: tuple[Path, Path], *, link: bool) -> Place:
    root = next((root for root in roots if is_inside(root, path)), None)
    if root is None:
        raise Refused(
            f"`{asked}` is outside the workspace. Paths are relative to the workspace ({roots[0]}) or"
            " absolute inside it; what lies elsewhere must be brought in by the person."
        )
    parts = path.relative_to(root).parts
    kind = path_class(parts)
    if kind is PathClass.SECRET:
        raise Refused(
            f"`{asked}` has the name of a file that holds secrets: such files are never read, searched or"
            " written. Go on without it, or ask the person for the value you need."
        )
    if is_inside(roots[1], path):
        kind = PathClass.TASK
    elif kind is PathClass.TASK:
        kind = PathClass.PROTECTED
    relative = "/".join(parts) if root == roots[0] else str(path)
    return Place(asked, path, root, parts, relative or ".", kind, link)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def is_inside(root: Path, path: Path) -> bool:
    """Whether ``path`` is ``root`` or below it, component by component (``/w2`` is not in ``/w``)."""
    return path == root or root in path.parents


def require_writable(place: Place, workspace: Path, task_dir: Path) -> None:
    """Raises ``Refused`` for what no tool may write: a link, a folder's root, the task's own records."""
    if place.link:
        raise Refused(f"`{place.asked}` is a link to `{place.relative}`. Name `{place.relative}` itself.")
    if not place.parts:
        raise Refused(f"`{place.asked}` is a folder. Name a file in it.")
    output = task_root(workspace, task_dir) / "output"
    if place.kind is PathClass.TASK and output not in place.path.parents:
        raise Refused(
            f"`{place.asked}` is a record of the task; in the task's folder only `{output}` can be written."
        )
