"""Claims jobs, runs them, settles them. One task per job, nothing detached; a parked job holds nothing
here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from engine.allowance import PutOff
from engine.carrying import keep_lessons
from engine.classifier import choose_piece
from engine.core.context import ContextManager
from engine.core.errors import EngineError, FaultyPiece, LeaseLost, ModelFault, StoreFault
from engine.core.jobs import ENDED, Job, JobStatus, Owner
from engine.core.outcome import PieceRunResult
from engine.core.piece import Piece, piece_from_json
from engine.core.prompting import ProjectFile, system_text
from engine.core.records import Event, Lease
from engine.core.tooling import tools_bytes
from engine.granting import granted_tools_of
from engine.kit import JobRun, Kit, log, traced
from engine.piece_runner import PieceEnd, run_piece
from engine.recovery import recover


@dataclass(slots=True)
class _Working:
    task: asyncio.Task[None]
    worker: str
    cancelled: bool = False


class Worker:
    """Works the queue of one store. ``is_dead(pid, start, boot)`` tells whether another owner's process is
    gone. ``only`` is a job: then nothing but it and its children is taken.
    """

    def __init__(
        self,
        kit: Kit,
        owner: Owner,
        is_dead: Callable[[int, str, str], bool],
        only: str | None = None,
    ) -> None:
        self.kit = kit
        self.owner = owner
        self._is_dead = is_dead
        self._only = only
        self._working: dict[Lease, _Working] = {}
        self._wake = asyncio.Event()
        self._stopping = False
        self._waking = True

    def wake(self) -> None:
        """Look at the queue now."""
        self._wake.set()

    def cancel(self, job_id: str) -> None:
        """End a job this process works on; its row already says so."""
        for lease in [lease for lease in self._working if lease.job_id == job_id]:
            self._end(lease)

    def _end(self, lease: Lease) -> None:
        working = self._working.get(lease)
        if working is not None and not working.cancelled:
            working.cancelled = True
            working.task.cancel()

    async def run(self, *, until_idle: bool = False, idle_s: float | None = None) -> None:
        """Work until ``stop``; or until nothing is queued or running; or until that has been so for
        ``idle_s`` seconds.
        """
        leases = self.kit.config.leases
        loop = asyncio.get_running_loop()
        recovered_at, version, idle_since = -leases.recover_s, -1, loop.time()
        try:
            while not self._stopping:
                self._wake.clear()
                if loop.time() - recovered_at >= leases.recover_s:
                    await self._recover()
                    recovered_at, version = loop.time(), -1
                current = await self.kit.db(self.kit.store.data_version)
                if current != version or self._working:
                    version = current
                    await self._cancel_wanted()
                    await self._end_left_behind()
                await self._claim_all()
                if self._working:
                    idle_since = loop.time()
                elif (until_idle and await self._nothing_left()) or (
                    idle_s is not None and loop.time() - idle_since > idle_s and not await self._queued()
                ):
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(leases.poll_s):
                        await self._wake.wait()
        finally:
            await self._end_all()

    def stop(self) -> None:
        """End in order: running jobs go back to the queue with everything they did."""
        self._stopping = True
        self._wake.set()

    async def _queued(self) -> bool:
        """Whether a job waits for its turn: for a server that had too many requests, that may be long."""
        return bool((await self.kit.db(self.kit.store.counts)).get(JobStatus.QUEUED))

    async def _nothing_left(self) -> bool:
        counts = await self.kit.db(self.kit.store.counts)
        return not counts.get(JobStatus.QUEUED) and not counts.get(JobStatus.RUNNING)

    async def _recover(self) -> None:
        await recover(
            self.kit.db,
            self.kit.store,
            self.kit.clock,
            self.kit.config.leases,
            mine={lease.job_id for lease in self._working},
            owner=self.owner.token,
            is_dead=self._is_dead,
            new_id=self.kit.new_id,
            waking=self._waking,
        )
        self._waking = False

    async def _cancel_wanted(self) -> None:
        for job_id in await self.kit.db(self.kit.store.cancel_wanted, self.owner):
            self.cancel(job_id)

    async def _end_left_behind(self) -> None:
        """End the background commands of jobs that were cancelled while they were parked."""
        mine = {lease.job_id for lease in self._working}
        if left := [job_id for job_id in self.kit.running_commands() if job_id not in mine]:
            for job_id in await self.kit.db(self.kit.store.ended_among, left):
                await self.kit.end_processes(job_id)

    async def _claim_all(self) -> None:
        store, workers = self.kit.store, self.kit.workers
        while not self._stopping and not workers.all_full(busy := self._busy()):
            lease_s, now = self.kit.config.leases.lease_s, self.kit.clock.now()
            full = partial(workers.full, at_work=busy) if workers.any_full(busy) else None
            job = await self.kit.db(store.claim, self.owner, now, lease_s, self._only, full)
            if job is None:
                return
            lease = Lease(job.job_id, job.task_id, job.fence, job.run)
            worker = workers.place(job, busy)
            task = asyncio.create_task(self._work(job, lease, worker), name=job.job_id)
            self._working[lease] = _Working(task, worker or "")
            task.add_done_callback(partial(self._done, lease))
            await asyncio.sleep(0)  # begun: a task that is cancelled before would leave its job running
            if worker is not None:
                await workers.learn_jobs(worker)

    def _busy(self) -> list[str]:
        return [working.worker for working in self._working.values()]

    def _done(self, lease: Lease, task: asyncio.Task[None]) -> None:
        self._working.pop(lease, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("job %s: could not be settled: %s", lease.job_id, self.kit.redact(traced(error)))
        self._wake.set()

    async def _work(self, job: Job, lease: Lease, worker: str | None) -> None:
        heart = asyncio.create_task(self._beat(lease), name=f"heartbeat {job.job_id}")
        try:
            await self._run_and_settle(job, lease, worker)
        except LeaseLost:
            log.warning("job %s: another process owns it now", job.job_id)
            await self.kit.end_processes(job.job_id)
        except StoreFault as fault:
            log.error("job %s: the store failed: %s", job.job_id, fault)
        finally:
            heart.cancel()
            with suppress(EngineError):
                self.kit.model(replace(job, worker=worker)).rest(job.job_id)
            with suppress(asyncio.CancelledError, Exception):
                await heart

    async def _beat(self, lease: Lease) -> None:
        leases = self.kit.config.leases
        while True:
            await asyncio.sleep(leases.heartbeat_s)
            await asyncio.to_thread(self.kit.checkpoints.alive, lease.job_id)
            with suppress(StoreFault):
                if not await self.kit.db(
                    self.kit.store.heartbeat, lease, self.kit.clock.now(), leases.lease_s
                ):
                    self._end(lease)
                    return

    async def _run_and_settle(self, job: Job, lease: Lease, worker: str | None) -> None:
        run: JobRun | None = None
        try:
            job = await self._seated(job, lease, worker)
            run = await self._open(job, lease)
            end = await run_piece(run)
        except asyncio.CancelledError:
            await self._cancelled(job, lease, run)
            raise
        except (LeaseLost, StoreFault):
            raise
        except PutOff as off:
            await asyncio.shield(self._put_off(lease, off))
            return
        except ModelFault as fault:
            end = _failed("provider_error", self.kit.explain(fault, job.language), retryable=True)
        except EngineError as error:
            end = _failed(error.key, self.kit.explain(error, job.language))
        except Exception as error:
            log.error("job %s failed inside the engine: %s", job.job_id, self.kit.redact(traced(error)))
            end = _failed("internal_error", self.kit.redact(f"{type(error).__name__}: {error}"))
        await asyncio.shield(self._settle(job, lease, run, end))

    async def _seated(self, job: Job, lease: Lease, worker: str | None) -> Job:
        """The job with the model worker that it keeps."""
        if worker is None or worker == job.worker:
            return job
        await self.kit.db(self.kit.store.set_worker, lease, worker, self.kit.clock.now())
        return replace(job, worker=worker)

    async def _put_off(self, lease: Lease, off: PutOff) -> None:
        """Back to the queue, because the model server takes no more requests for now."""
        now = self.kit.clock.now()
        log.info("job %s: the model server has too many requests; again in %.0f s", lease.job_id, off.wait_s)
        await self.kit.db(self.kit.store.put_off, lease, now, now + off.wait_s, off.counters)

    async def _open(self, job: Job, lease: Lease) -> JobRun:
        """A job's run: piece, tools and system text fixed at its first claim, state as journalled."""
        kit = self.kit
        if not job.piece:
            job = await choose_piece(kit, job, lease)
        try:
            piece = piece_from_json(job.piece)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FaultyPiece("job.piece_unreadable", id=job.job_id) from error
        await kit.checkpoints.left(job.job_id)
        texts = kit.prompts(job.language)
        job, tools, grants = await granted_tools_of(kit, job, lease, piece)
        if not job.tools:
            project = await kit.around.project_file(job.task_id)
            system = system_text(project, texts)
            job = await self._prepare(job, lease, piece, tools_bytes(tools), system, project)
        limit = await kit.model(job).context_limit() or kit.config.context.default_limit
        limit = min(limit, job.counters.context_limit or limit)
        return JobRun(
            kit=kit,
            job=job,
            lease=lease,
            piece=piece,
            tools=tools,
            texts=texts,
            counters=job.counters,
            usage=job.usage,
            turn=job.turn,
            movement=job.movement or piece.initial_movement,
            movement_seq=job.movement_seq,
            conversation=job.conversation,
            context=ContextManager(limit),
            call_ids=set(await kit.db(kit.store.call_ids, job.job_id)),
            grants=grants,
            began=kit.clock.now(),
            worked_s=await kit.db(kit.store.worked_s, job.job_id, job.run),
        )

    async def _prepare(
        self,
        job: Job,
        lease: Lease,
        piece: Piece,
        tools: bytes,
        system: str,
        project: ProjectFile | None,
    ) -> Job:
        movement = job.movement or piece.initial_movement
        await self.kit.db(
            self.kit.store.prepare_job,
            lease,
            self.kit.clock.now(),
            piece_name=piece.name,
            piece=job.piece,
            piece_hash=job.piece_hash,
            movement=movement,
            tools=tools,
            system=system,
            project_hash=None if project is None else project.hash,
        )
        return job.with_prepared(piece.name, movement, tools, system)

    async def _settle(self, job: Job, lease: Lease, run: JobRun | None, end: PieceEnd) -> None:
        kit = self.kit
        if end.result.status in ENDED:
            await kit.end_processes(job.job_id)
        comment: tuple[str, str] | None = None
        if end.request is not None and end.request.reason == "question":
            comment = (kit.new_id("c"), str(end.request.shown["title"]))
        elif end.result.status in ENDED and end.result.result:
            comment = (kit.new_id("c"), end.result.result)
        await kit.db(
            kit.store.settle,
            lease,
            end.result,
            kit.clock.now(),
            counters=run.counters if run else job.counters,
            restores=end.restores,
            request=end.request,
            comment=comment,
            leaving=end.leaving,
            events=_faults(end),
        )
        if run is not None and end.leaving is not None:
            await keep_lessons(run)

    async def _cancelled(self, job: Job, lease: Lease, run: JobRun | None) -> None:
        """End what the job started, then store why it stopped: a person's cancel, or an orderly stop of this
        process.
        """
        working = self._working.get(lease)
        await self.kit.end_processes(job.job_id)
        with suppress(LeaseLost, StoreFault):
            if working is not None and working.cancelled:
                end = PieceEnd(PieceRunResult(status=JobStatus.CANCELLED, reason="cancelled"))
                await asyncio.shield(self._settle(job, lease, run, end))
            else:
                await asyncio.shield(self.kit.db(self.kit.store.requeue, lease, self.kit.clock.now()))

    async def _end_all(self) -> None:
        tasks = [working.task for working in self._working.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _faults(end: PieceEnd) -> list[Event]:
    """What went wrong outside the model's work, for those who show or count faults."""
    result = end.result
    if result.status is not JobStatus.FAILED:
        return []
    body = {"code": result.reason, "message": result.result, "retryable": result.retryable}
    return [Event("error", body)]


def _failed(reason: str, text: str, *, retryable: bool = False) -> PieceEnd:
    return PieceEnd(PieceRunResult(status=JobStatus.FAILED, reason=reason, result=text, retryable=retryable))
