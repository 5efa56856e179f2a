"""A model server that takes no more requests: the job goes back to the queue, holds no worker, and goes on
with its conversation (engine.md §7).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.allowance import wait_after
from engine.config import ModelSettings
from engine.core.errors import ModelFault
from engine.core.jobs import Counters, Owner
from engine.core.records import Lease, NewRequest
from engine.ids import new_id
from engine.llm.scripted import ScriptReply, call
from engine.service import Service
from engine.store.store import Store
from tests.engine.families import done
from tests.engine.rig import DEADLINE_S, Rig, rig

BUSY = ScriptReply(status=429, body=b'{"error": {"message": "slow down"}}')
SOON = {"max_attempts": 0, "requeue_s": 0.05}
LATER = {"max_attempts": 0, "requeue_s": 600.0}


async def moves(it: Rig, job: str) -> list[tuple[str, str | None]]:
    return [(e["to"], e.get("reason")) for e in await it.client.events(job) if e["kind"] == "status"]


async def put_off(it: Rig, job: str) -> None:
    detail = await it.until(job, lambda d: (d.status, d.reason) == ("queued", "rate_limited"))
    assert not detail.open_requests


def busy_at(*numbers: int, then: Any = None) -> Any:
    """A script that refuses the requests of these numbers, reads once, and ends."""

    def script(request: Any) -> ScriptReply:
        if request.number in numbers:
            return BUSY
        return call("Read", file_path="a.txt") if request.turn == 0 else done("read")

    return script


async def test_the_job_waits_in_the_queue_and_goes_on_with_its_conversation(tmp_path: Path) -> None:
    async with rig(tmp_path, busy_at(2, 3), llm=SOON) as it:
        (it.workspace / "a.txt").write_text("hello\n")
        job = await it.start()
        end = await it.until(job, lambda d: d.status == "succeeded")
        assert end.result == "read"
        told = await moves(it, job)
        assert told == [
            ("queued", None),
            *[("running", None), ("queued", "rate_limited")] * 2,
            ("running", None),
            ("succeeded", None),
        ]
        first, *refused, last = it.bodies()
        assert refused == [last, last], "the same request, byte for byte, each time"
        assert last["messages"][: len(first["messages"])] == first["messages"]
        counters = (await it.client.db(it.client.store.job, job)).counters
        assert (counters.put_off, counters.crashes, counters.movements) == (0, 0, 1)
        assert len(end.movements) == 1 and end.usage.calls == 2
        assert "error" not in await it.kinds(job)


async def test_no_worker_is_held_meanwhile(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return BUSY if request.contains("first of all") else done()

    async with rig(tmp_path, script, llm=LATER, max_concurrency=1) as it:
        waiting = await it.start("first of all")
        await put_off(it, waiting)
        assert (await it.until_rest(await it.start("another"))).status == "succeeded"
        summary = await it.client.summary(waiting)
        assert summary.status == "queued" and (summary.not_before or "") > summary.updated_at
        assert sum("first of all" in str(body) for body in it.bodies()) == 1, "it was not tried again"
        assert await it.client.cancel(waiting)
        summary = await it.client.summary(waiting)
        assert (summary.status, summary.not_before) == ("cancelled", None)


async def test_a_server_that_stays_busy_ends_the_job_at_last_and_a_reply_begins_the_count_anew(
    tmp_path: Path,
) -> None:
    def script(request: Any) -> ScriptReply:
        if request.number in (3, 4):
            return call("Read", file_path=f"{request.number}.txt")
        return BUSY

    async with rig(tmp_path, script, llm={**SOON, "max_requeues": 2, "requeue_cap_s": 0.05}) as it:
        job = await it.start()
        end = await it.until(job, lambda d: d.status == "failed")
        assert end.reason == "provider_error"
        told = await moves(it, job)
        assert told.count(("queued", "rate_limited")) == 4, "two before the first reply, two after the second"
        assert len(it.server.requests) == 2 + 2 + 3
        assert (await it.until(await it.client.retry(job), lambda d: d.status == "failed")).retry_of == job


async def test_it_waits_on_over_a_restart_and_is_not_taken_up_early(tmp_path: Path) -> None:
    async with rig(tmp_path, busy_at(1), llm=LATER) as it:
        job = await it.start()
        await put_off(it, job)
        await it.stop()
        await it.engine()
        assert (await it.until_rest(await it.start("another"))).status == "succeeded"
        assert (await it.client.summary(job)).status == "queued"


async def test_an_engine_that_leaves_when_idle_stays_as_long_as_a_job_waits(tmp_path: Path) -> None:
    waits = {"max_attempts": 0, "requeue_s": 0.5}
    async with rig(tmp_path, busy_at(1), llm=waits, start_engine=False) as it:
        job = await it.start()
        engine = Service(it.workspace, it.client.store_file, it.config)
        async with asyncio.timeout(DEADLINE_S):
            await engine.run(idle_s=0.05)
        assert (await it.client.summary(job)).status == "succeeded"


async def test_a_cancel_that_was_wanted_meanwhile_wins(tmp_path: Path) -> None:
    async with rig(tmp_path, busy_at(), start_engine=False) as it:
        store: Store = it.client.store
        job = await it.start()
        claimed = await it.client.db(store.claim, Owner("w", 1, "s", "b"), it.client.now(), 30.0)
        assert claimed is not None
        lease = Lease(job, claimed.task_id, claimed.fence, claimed.run)
        await it.client.cancel(job)
        await it.client.db(store.put_off, lease, it.client.now(), it.client.now() + 9, claimed.counters)
        assert (await it.client.summary(job)).status == "cancelled"


async def test_what_should_have_gone_on_long_ago_does_not_start_by_itself_the_next_morning(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path, busy_at(), start_engine=False) as it:
        store: Store = it.client.store
        db, now = it.client.db, it.client.now()
        leases = []
        for _ in range(2):
            await it.start()
            claimed = await db(store.claim, Owner("w", 1, "s", "b"), now, 30.0)
            assert claimed is not None
            lease = Lease(claimed.job_id, claimed.task_id, claimed.fence, claimed.run)
            leases.append(lease)
        for lease, not_before in zip(leases, (now - 3600, now + 3600), strict=True):
            await db(store.put_off, lease, now - 7200, not_before, Counters(put_off=1))
        assert await db(store.given_back, now - 600) == leases[:1]
        request = NewRequest(new_id("r"), "interrupted", "i", {"title": "go on?"})
        await db(store.park_given_back, leases[0], request, now - 600, now)
        assert (await it.client.summary(leases[0].job_id)).wait_reason == "interrupted"


SETTINGS = ModelSettings(requeue_s=30, requeue_cap_s=600, max_requeues=6)


def fault(status: int, retry_after: float | None = None, *, retryable: bool = True) -> ModelFault:
    data: dict[str, object] = {"status": status}
    if retry_after is not None:
        data["retryAfter"] = retry_after
    return ModelFault("x", retryable=retryable, data=data)


@pytest.mark.parametrize(
    ("error", "times", "wait"),
    [
        (fault(429), 0, 30.0),
        (fault(429), 1, 60.0),
        (fault(429), 5, 600.0),
        (fault(429), 6, None),
        (fault(429, 100), 0, 100.0),
        (fault(429, 3), 0, 30.0),
        (fault(429, 90_000), 0, 600.0),
        (fault(429, retryable=False), 0, None),
        (fault(503, 120), 0, 120.0),
        (fault(503, 5), 0, None),
        (fault(503), 0, None),
        (fault(500, 120), 0, None),
        (ModelFault("model.refused", retryable=True), 0, None),
    ],
)
def test_how_long_a_job_stays_away_from_a_busy_server(
    error: ModelFault, times: int, wait: float | None
) -> None:
    assert wait_after(error, SETTINGS, times) == wait


def test_a_job_may_be_made_to_fail_at_once() -> None:
    assert wait_after(fault(429), replace(SETTINGS, max_requeues=0), 0) is None
