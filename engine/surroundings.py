"""What the engine reads around a job, and the copy of its lessons that it leaves there: the changes since the
last commit, the project's own instructions, ``logs/lessons.jsonl`` (``engine.md`` section 3).

Nothing of it may end a job: what cannot be read or written is left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.diffs import Differences
from engine.core.lessons import Lesson
from engine.core.prompting import PROJECT_FILES, ProjectFile
from engine.core.views import iso
from engine.paths import TASKS, task_dir
from engine.ports import Documents
from engine.tools.encodings import detect
from engine.workspace import Place, Refused, bytes_hash, differences, folder_of, open_regular, resolve
from engine.workspace.now import place_below

_LARGEST = 1 << 16
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class WorkspaceSurroundings:
    """``Surroundings`` of one workspace. ``redact`` masks secrets: before anything is cut, so that no half of
    one is left.
    """

    workspace: Path
    trusted: bool
    documents: Documents
    redact: Callable[[str], str]

    async def differences(self) -> Differences | None:
        """How the workspace differs from its last commit; None if it is not trusted (git would be run on its
        configuration), is no repository, or git cannot tell.
        """
        found = await differences(self.workspace) if self.trusted else None
        return (
            None if found is None else replace(found, diff=await asyncio.to_thread(self.redact, found.diff))
        )

    async def project_file(self, task_id: str) -> ProjectFile | None:
        """``AGENTS.md`` of the root, else ``CLAUDE.md``, as the person sees it (an unsaved buffer before the
        file); None if there is neither, or the workspace is not trusted.
        """
        for name in PROJECT_FILES if self.trusted else ():
            data = await self._read(name, task_id)
            if data is None:
                continue
            charset = detect(data, whole=len(data) < _LARGEST)
            text = "" if charset is None else data[len(charset.bom) :].decode(charset.name, "replace").strip()
            if text:
                return ProjectFile(name, await asyncio.to_thread(self.redact, text), bytes_hash(data))
        return None

    async def _read(self, name: str, task_id: str) -> bytes | None:
        """The first 64 KiB of a file of the root; None for what is no regular file or leads out of it."""
        try:
            place = await asyncio.to_thread(resolve, self.workspace, task_dir(self.workspace, task_id), name)
            buffer = await self.documents.read(place.path)
            if buffer is not None and buffer.dirty:
                return buffer.text.encode("utf-8", "replace")[:_LARGEST]
            return await asyncio.to_thread(_head, place)
        except (Refused, OSError):
            return None

    async def keep_lessons(self, task_id: str, lessons: Sequence[Lesson]) -> None:
        """Append to ``logs/lessons.jsonl`` those of the task's lessons that it does not hold yet."""
        with suppress(Refused, OSError):
            await asyncio.to_thread(_append, self.workspace, task_id, lessons)


def _head(place: Place) -> bytes:
    with os.fdopen(open_regular(place), "rb") as file:
        return file.read(_LARGEST)


def _append(workspace: Path, task_id: str, lessons: Sequence[Lesson]) -> None:
    """One JSON object a line, in the order of the database, which is the authority. A line that a crash cut
    off is written again.
    """
    place = place_below(
        Path(os.path.realpath(workspace)), f"{(TASKS / task_id).as_posix()}/logs/lessons.jsonl"
    )
    with (
        folder_of(place) as folder,
        os.fdopen(os.open(place.name, _APPEND, 0o666, dir_fd=folder), "r+b") as file,
    ):
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return
        held = file.read()
        whole = held.rfind(b"\n") + 1
        if whole < len(held):
            file.truncate(whole)
        lines = [_line(lesson) for lesson in lessons[held.count(b"\n") :]]
        file.write(b"".join(lines))


def _line(lesson: Lesson) -> bytes:
    told = {
        "at": iso(lesson.at),
        "jobId": lesson.job_id,
        "movement": lesson.movement,
        "lesson": lesson.text,
    }
    return json.dumps(told, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
