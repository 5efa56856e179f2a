"""Which tasks are old enough to be forgotten. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_UNITS = {"min": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_AGE = re.compile(r"(\d{1,5})\s?(min|h|d|w)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Known:
    """What is needed of a job; ``updated_at`` is when anything last happened to it, POSIX seconds."""

    job_id: str
    task_id: str
    parent_id: str | None
    spawned_by: str | None
    ended: bool
    updated_at: float


def seconds_of(age: str) -> int | None:
    """The seconds of an age such as ``30d``, ``12h``, ``4w`` or ``90min``; None for anything else."""
    found = _AGE.fullmatch(age.strip())
    return int(found[1]) * _UNITS[found[2].lower()] if found else None


def old_families(jobs: Sequence[Known], before: float) -> list[tuple[str, ...]]:
    """The tasks that may be forgotten, oldest first: none of their jobs is open or younger than ``before``.

    Tasks that hang together (a parent with its subtasks, a task with those it made) go together or not at
    all: a job that still runs reads what its children did, and must not make them twice (engine.md §4).
    """
    task_of = {job.job_id: job.task_id for job in jobs}
    groups = _groups(jobs, task_of)
    fresh = {groups[job.task_id] for job in jobs if not job.ended or job.updated_at >= before}
    last: dict[str, float] = {}
    members: dict[str, list[str]] = {}
    for job in jobs:
        root = groups[job.task_id]
        if root in fresh:
            continue
        last[root] = max(last.get(root, 0.0), job.updated_at)
        if job.task_id not in members.setdefault(root, []):
            members[root].append(job.task_id)
    return [tuple(sorted(members[root])) for root in sorted(members, key=lambda root: (last[root], root))]


def _groups(jobs: Iterable[Known], task_of: dict[str, str]) -> dict[str, str]:
    """Each task and the name of its family."""
    root: dict[str, str] = {task: task for task in task_of.values()}

    def find(task: str) -> str:
        while root[task] != task:
            root[task] = root[root[task]]
            task = root[task]
        return task

    for job in jobs:
        for kin in (job.parent_id, job.spawned_by):
            if kin is not None and kin in task_of:
                root[find(job.task_id)] = find(task_of[kin])
    return {task: find(task) for task in root}
