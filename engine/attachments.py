"""Files a person gives to a task: they go by path into the prompt's listing; what lies outside the workspace
is copied to ``input/``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from engine.core.errors import BadArgument
from engine.core.messages import heal
from engine.paths import task_dir

_MENTION = re.compile(r"(?<![A-Za-z0-9._%+@-])@([^\s@,;:!?、。\x00]{1,1024})")
"""``@path``, not the end of a mail address; in Japanese nothing need stand between it and the words around
it.
"""
_SUFFIX = re.compile(r"\.\w{1,16}")
MAX_BYTES = 64 * 1024 * 1024


def attach(
    workspace: Path, task_id: str, instruction: str, files: Sequence[Path], selection: tuple[str, str] | None
) -> list[str]:
    """Workspace-relative paths of what is attached: given files, ``@path`` in the instruction, the selection
    as ``input/selection-n``.

    Raises ``BadArgument`` for a file that does not exist or is too large to copy.
    """
    folder = task_dir(workspace, task_id) / "input"
    listed: dict[str, None] = {}
    for path in files:
        listed[_place(workspace, folder, path)] = None
    for mention in _MENTION.findall(instruction):
        if (found := _mentioned(workspace, mention)) is not None:
            listed[found] = None
    if selection is not None:
        name, text = map(heal, selection)
        number = 1 + sum(1 for _ in folder.glob("selection-*"))
        suffix = Path(name.partition(":")[0]).suffix
        target = folder / f"selection-{number}{suffix if _SUFFIX.fullmatch(suffix) else ''}"
        target.write_text(f"{name}\n\n{text}", "utf-8", newline="")
        listed[str(target.relative_to(workspace))] = None
    return list(listed)


def _mentioned(workspace: Path, mention: str) -> str | None:
    """The file of the workspace that a mention begins with: the longest that is there, cut only before a
    character that may be text again (``a.pyを``, ``a.py).``).
    """
    root = workspace.resolve()
    for end in range(len(mention), 0, -1):
        if end < len(mention) and mention[end].isascii() and mention[end].isalnum():
            continue
        path = workspace / mention[:end]
        try:
            if path.is_file() and path.resolve().is_relative_to(root):
                return str(path.relative_to(workspace))
        except (OSError, ValueError):
            continue
    return None


def _place(workspace: Path, folder: Path, path: Path) -> str:
    if not path.exists():
        raise BadArgument(
            "start.no_file", path=str(path), data={"path": "files", "expected": "existing files"}
        )
    inside = path.resolve().is_relative_to(workspace.resolve())
    if inside:
        return str(path.resolve().relative_to(workspace.resolve()))
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        raise BadArgument(
            "start.cannot_copy", path=str(path), data={"path": "files", "expected": "a file up to 64 MiB"}
        )
    target = first = folder / heal(path.name)
    for number in range(1, 1000):
        if not target.exists():
            break
        target = folder / f"{first.stem}-{number}{first.suffix}"
    shutil.copyfile(path, target)
    return str(target.relative_to(workspace))
