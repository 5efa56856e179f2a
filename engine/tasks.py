"""Makes tasks on behalf of a running job: subtasks, tasks of their own, tasks in another workspace.

A task that was made before under the same key is returned, not made again: a model repeats itself after a
resume, and an engine may die between the commit and the tool's result (``engine.md`` section 4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from engine.attachments import attach
from engine.catalog import language_of_text
from engine.client import expanded, title_of
from engine.config import EngineConfig
from engine.core.errors import BadArgument
from engine.core.family import Spawned, SpawnOrder, child_key, spin_off_key
from engine.core.jobs import Job, JobStatus
from engine.core.model_choice import Wish, candidates, unknown_model
from engine.core.piece import piece_to_json
from engine.core.records import Lease, NewJob
from engine.core.toolnames import BUILTIN_NAMES
from engine.ids import new_id
from engine.loader import DEFAULT_PIECE, LoadedPiece, PieceDirs, default_dirs, load_named
from engine.paths import make_task_dir, state_dir, store_path
from engine.ports import Clock, Db
from engine.store.store import Store
from engine.workspace import is_inside, refuse_workspace


@dataclass(frozen=True, slots=True)
class TaskMaker:
    """``Tasks`` on the store of one workspace. ``redact`` masks secrets in what the model wrote."""

    workspace: Path
    trusted: bool
    config: EngineConfig
    store: Store
    db: Db
    clock: Clock
    redact: Callable[[str], str]

    async def child(self, job: Job, lease: Lease, order: SpawnOrder) -> Spawned:
        """A subtask of ``job``: a task of its own whose job has this parent. Raises ``LeaseLost``,
        ``NotFound`` / ``FaultyPiece`` / ``NotTrusted`` for the piece, ``BadArgument`` for too large a family.
        """
        return await self._here(job, lease, order, child_key(order), job.job_id)

    async def beside(self, job: Job, lease: Lease, order: SpawnOrder) -> Spawned:
        """A task of its own in this workspace; it outlives the job. Raises as ``child``."""
        return await self._here(job, lease, order, spin_off_key(order.instruction), None)

    async def _here(self, job: Job, lease: Lease, order: SpawnOrder, key: str, parent: str | None) -> Spawned:
        if (known := await self.db(self.store.spawned, job.job_id, key)) is not None:
            return known
        job = await self._as_it_is_now(job)
        dirs = self._dirs(self.workspace, self.trusted)
        new = await asyncio.to_thread(self._new_job, self.workspace, dirs, job, order)
        new = replace(new, parent_id=parent, spawned_by=job.job_id, spawn_key=key)
        await self.db(self.store.spawn, lease, new, self.clock.now())
        return _spawned(new)

    async def _as_it_is_now(self, job: Job) -> Job:
        mode, _ = await self.db(self.store.stance, job.job_id, job.task_id)
        return replace(job, mode=mode)

    async def check_elsewhere(self, target: Path, piece: str | None) -> None:
        """Raise ``BadArgument`` for a folder that is no workspace, or what is wrong with the piece there."""
        await asyncio.to_thread(self._check, target, piece)

    def _check(self, target: Path, piece: str | None) -> None:
        refuse_workspace(target, state_dir())
        if is_inside(self.workspace, target) or is_inside(target, self.workspace):
            raise BadArgument("spawn.overlaps", path=str(target), data={"path": "workspace"})
        with _opened(target) as store:
            self._load(piece, self._dirs(target, store.meta("trusted") == "1"))

    async def elsewhere(self, job: Job, request_id: str, target: Path, order: SpawnOrder) -> Spawned:
        """A task in another workspace, in that workspace's store. Raises as ``check_elsewhere``, and
        ``StoreFault``.
        """
        return await asyncio.to_thread(
            self._elsewhere, await self._as_it_is_now(job), request_id, target, order
        )

    def _elsewhere(self, job: Job, request_id: str, target: Path, order: SpawnOrder) -> Spawned:
        refuse_workspace(target, state_dir())
        key = "request"
        with _opened(target) as store:
            if (known := store.spawned(request_id, key)) is not None:
                return known
            dirs = self._dirs(target, store.meta("trusted") == "1")
            new = self._new_job(target, dirs, job, order)
            store.submit(replace(new, spawned_by=request_id, spawn_key=key), self.clock.now())
            return _spawned(new)

    def _dirs(self, workspace: Path, trusted: bool) -> PieceDirs:
        return default_dirs(workspace, trusted, expanded(self.config.pieces_dirs))

    def _load(self, piece: str | None, dirs: PieceDirs) -> LoadedPiece:
        return load_named(piece or DEFAULT_PIECE, dirs, BUILTIN_NAMES)

    def _new_job(self, workspace: Path, dirs: PieceDirs, job: Job, order: SpawnOrder) -> NewJob:
        """The new task's job: language by its instruction, mode and model as the job that asks for it."""
        loaded = self._load(order.piece, dirs)
        model = loaded.piece.model or job.model
        if not candidates(self.config.cards, Wish(model), listed=bool(self.config.workers)):
            raise unknown_model(self.config.cards, Wish(model))
        instruction = self.redact(order.instruction)
        task_id = new_id("t")
        make_task_dir(workspace, task_id)
        said = self.config.language
        return NewJob(
            job_id=new_id("j"),
            instruction=instruction,
            title=title_of(self.redact(order.title or instruction)),
            language=language_of_text(instruction) if said == "auto" else said,
            mode=job.mode,
            piece_name=loaded.piece.name,
            piece=piece_to_json(loaded.piece),
            piece_hash=loaded.hash,
            movement=loaded.piece.initial_movement,
            new_task_id=task_id,
            model=model,
            files=tuple(attach(workspace, task_id, instruction, (), None)),
        )


def _spawned(new: NewJob) -> Spawned:
    return Spawned(new.new_task_id, new.job_id, new.title, new.piece_name or "", JobStatus.QUEUED, new=True)


@contextmanager
def _opened(workspace: Path) -> Iterator[Store]:
    """The store of another workspace. Raises ``StoreFault``."""
    store = Store.open(store_path(workspace))
    try:
        if store.meta("workspace") is None:
            store.set_meta("workspace", str(workspace))
        yield store
    finally:
        store.close()
