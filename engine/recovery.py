"""What becomes of a running job whose owner is gone: a pure verdict, and the pass that applies it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from enum import Enum, auto

from engine.core.limits import Leases
from engine.core.records import NewRequest, Running
from engine.ports import Clock, Db
from engine.run_store import RunStore


class Fate(Enum):
    """What to do with a running job."""

    LEAVE = auto()
    REQUEUE = auto()
    INTERRUPTED = auto()
    CRASHED = auto()


def judge(job: Running, *, owner_dead: bool, now: float, leases: Leases) -> Fate:
    """A job whose owner is dead (or whose lease ran out) goes on, unless it is old or has crashed too often:
    then a person decides.
    """
    if not owner_dead and job.lease_until > now:
        return Fate.LEAVE
    if job.crashes + 1 >= leases.max_crashes:
        return Fate.CRASHED
    if now - job.updated_at > leases.stale_s:
        return Fate.INTERRUPTED
    return Fate.REQUEUE


async def recover(
    db: Db,
    store: RunStore,
    clock: Clock,
    leases: Leases,
    *,
    mine: Collection[str],
    owner: str,
    is_dead: Callable[[int, str, str], bool],
    new_id: Callable[[str], str],
    waking: bool,
) -> int:
    """Take up or park the jobs of dead owners; how many were found. ``mine`` are jobs this process works on
    right now.

    An engine that is just ``waking`` also parks what was given back to the queue long ago (by an editor that
    was closed in the evening): nothing starts by itself the next morning.
    """
    found = 0
    if waking:
        before = clock.now() - leases.stale_s
        for left in await db(store.given_back, before):
            await db(store.park_given_back, left, _request(new_id, "interrupted"), before, clock.now())
            found += 1
    for job in await db(store.running):
        if job.job_id in mine:
            continue
        dead = job.owner == owner or await asyncio.to_thread(is_dead, job.pid, job.start, job.boot)
        match judge(job, owner_dead=dead, now=clock.now(), leases=leases):
            case Fate.LEAVE:
                continue
            case Fate.REQUEUE:
                await db(store.requeue_orphan, job, clock.now())
            case Fate.INTERRUPTED:
                await db(store.park_orphan, job, _request(new_id, "interrupted"), clock.now())
            case Fate.CRASHED:
                await db(store.park_orphan, job, _request(new_id, "crashed"), clock.now())
        found += 1
    return found


def _request(new_id: Callable[[str], str], reason: str) -> NewRequest:
    """The request "go on?"; its words come from the catalogue at the edge."""
    request_id = new_id("r")
    shown = {"title": "", "titleKey": f"request.{reason}", "whyKey": f"why.{reason}"}
    return NewRequest(request_id=request_id, reason=reason, key=f"{reason}:{request_id}", shown=shown)
