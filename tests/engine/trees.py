"""Trees of files for tests, and a job that acts on one."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.core.views import JobDetail
from engine.llm.scripted import ScriptReply
from tests.engine.odd import DONE
from tests.engine.rig import Rig
from tests.engine.test_approvals import ONE

PIECE = ONE.replace("[Read, Write, Edit]", "[Read, Write, Edit, Bash, BashOutput, BashStop]")
Action = tuple[str, dict[str, Any]]


def bash(command: str, **more: Any) -> Action:
    """A call of ``Bash``."""
    return "Bash", {"command": command, **more}


def write(path: str, content: str) -> Action:
    """A call of ``Write``."""
    return "Write", {"file_path": path, "content": content}


def edit(path: str, old: str, new: str) -> Action:
    """A call of ``Edit``."""
    return "Edit", {"file_path": path, "old_string": old, "new_string": new}


def acting(actions: Sequence[Action]) -> list[ScriptReply]:
    """A model that makes these calls, one after the other, and completes."""
    return [*(ScriptReply(calls=(action,)) for action in actions), DONE]


async def play(it: Rig, instruction: str = "Do it") -> str:
    """A job to its end, or to its question; every call that it asks for is allowed."""
    job = await it.start(instruction, piece="one")
    await allow_all(it, job)
    return job


async def allow_all(it: Rig, job: str) -> JobDetail:
    """Allow every call until the job has ended or waits for something else."""
    while (detail := await it.until_rest(job)).wait_reason == "approval":
        (request,) = detail.open_requests
        await it.client.decide(request, "allow")
        await it.until(job, lambda now, request=request: request not in now.open_requests)  # type: ignore[misc]
    return detail


def tree_of(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Everything below a folder but the tasks' own: kind, mode, and bytes or target."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            relative = str(path.relative_to(root))
            if relative.startswith(".maestro/tasks"):
                continue
            mode = stat.S_IMODE(path.lstat().st_mode)
            if path.is_symlink():
                found[relative] = ("link", 0, os.fsencode(path.readlink()))
            elif not path.is_file():
                found[relative] = ("folder" if path.is_dir() else "other", mode, b"")
            else:
                found[relative] = ("file", mode, path.read_bytes())
    return found
