"""Forgets old tasks: their rows, and their folders in the workspace.

A folder is moved aside in the transaction that removes the rows, and removed after it: whoever dies in
between leaves a task that the next ``prune`` finds again, or a folder that it knows as one of its own. The
bytes that only these tasks could have put back go when an engine next starts.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from engine.client import Client
from engine.core.errors import BadArgument, StoreLocked
from engine.core.prune import old_families, seconds_of
from engine.core.views import Pruned
from engine.paths import TASKS

_ASIDE = ".pruned-"


def age_of(text: str) -> int:
    """The seconds of an age such as ``30d``. Raises ``BadArgument`` for nonsense."""
    seconds = seconds_of(text)
    if seconds is None:
        raise BadArgument("prune.age", age=text)
    return seconds


async def prune_tasks(client: Client, older_than_s: float, *, dry_run: bool = False) -> Pruned:
    """Forget every task whose jobs, and those of its subtasks, all ended longer ago than ``older_than_s``
    seconds; what went. With ``dry_run`` nothing goes. Never one with a queued, running or parked job.
    """
    before = client.now() - older_than_s
    jobs = await client.db(client.store.known_jobs)
    folders = Folders(client.workspace)
    tasks, gone, size = 0, 0, 0
    for family in await asyncio.to_thread(old_families, jobs, before):
        weight = await client.db(client.store.weigh, family)
        weight += await asyncio.to_thread(folders.weigh, family)
        aside = partial(folders.aside, family)
        if not (dry_run or await client.db(client.store.forget, family, before, aside)):
            continue
        tasks, size = tasks + len(family), size + weight
        gone += sum(job.task_id in family for job in jobs)
    left: list[str] = []
    if not dry_run:
        left = await asyncio.to_thread(folders.sweep)
        with suppress(StoreLocked):  # somebody is at work; the room is used again
            await client.db(client.store.shrink)
    return Pruned(tasks=tasks, jobs=gone, bytes=size, dry_run=dry_run, left=left)


class Folders:
    """The task folders of a workspace. Links are not followed, nor removed."""

    def __init__(self, workspace: Path) -> None:
        self._tasks = workspace / TASKS
        self._usable = not (self._tasks.parent.is_symlink() or self._tasks.is_symlink())

    def weigh(self, tasks: Sequence[str]) -> int:
        """How many bytes are in the folders of these tasks."""
        return sum(size for folder in self._of(tasks) for size in _sizes(folder))

    def aside(self, tasks: Sequence[str]) -> None:
        """Move the folders of these tasks out of the way."""
        for folder in self._of(tasks):
            with suppress(OSError):  # it stays, and nobody looks into it
                folder.rename(self._tasks / f"{_ASIDE}{folder.name}")

    def sweep(self) -> list[str]:
        """Remove what was moved aside, now or by one that died; what could not be removed."""
        if not self._usable:
            return []
        found = [path for path in self._tasks.glob(f"{_ASIDE}*") if path.is_dir() and not path.is_symlink()]
        for path in found:
            shutil.rmtree(path, ignore_errors=True)
        return sorted(str(path) for path in found if path.exists())

    def _of(self, tasks: Sequence[str]) -> list[Path]:
        places = [self._tasks / task for task in tasks] if self._usable else []
        return [place for place in places if place.is_dir() and not place.is_symlink()]


def _sizes(folder: Path) -> Iterator[int]:
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                yield (Path(place) / name).lstat().st_size
