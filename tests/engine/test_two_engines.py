"""Several engines and a store that is not always there."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import StoreFault
from engine.core.limits import Leases
from engine.llm.scripted import ScriptReply, call
from engine.store.sqlite import Database
from tests.engine.killed import spawn
from tests.engine.odd import BASH, DONE
from tests.engine.rig import DEADLINE_S, Rig, rig
from tests.engine.test_approvals import ONE

# -- the store ---------------------------------------------------------------------------------------


async def test_a_store_that_is_locked_for_long_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is held for four times the busy time-out while a call is under way."""
    asked, gate = threading.Event(), threading.Event()

    def script(request: Any) -> ScriptReply:
        if request.results("Write"):
            return DONE
        asked.set()
        gate.wait(5)
        return call("Write", file_path="b.txt", content="b")

    monkeypatch.setattr("engine.store.sqlite._BUSY_MS", 150)
    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await asyncio.to_thread(asked.wait, 5)
        locker = sqlite3.connect(it.client.store_file, isolation_level=None)
        locker.execute("BEGIN IMMEDIATE")
        gate.set()
        await asyncio.sleep(0.6)
        locker.execute("ROLLBACK")
        locker.close()
        end = await it.until_rest(job)
        assert end.status == "succeeded", (end.reason, end.result)
        assert not await _counted_crashes(it, job)


async def _counted_crashes(it: Rig, job: str) -> int:
    return (await it.client.db(it.client.store.job, job)).counters.crashes


async def test_a_state_folder_that_cannot_be_made_is_a_store_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreFault):
        Database(tmp_path / "file" / "store.db")


# -- two engines -------------------------------------------------------------------------------------


async def test_an_engine_that_slept_past_its_lease_writes_nothing_when_it_wakes(tmp_path: Path) -> None:
    asked, gate = threading.Event(), threading.Event()

    def script(request: Any) -> ScriptReply:
        if request.results("Write"):
            return DONE
        if request.number == 1:
            asked.set()
            gate.wait(8)
            return call("Write", file_path="from_the_sleeper.txt", content="x")
        return call("Write", file_path="b.txt", content="b")

    leases = replace(Leases(), poll_s=0.02, recover_s=0.05, lease_s=0.5, heartbeat_s=0.1)
    async with rig(tmp_path, script, pieces={"one": ONE}, start_engine=False, leases=leases) as it:
        job = await it.start(piece="one")
        sleeper = await spawn(it)
        try:
            assert await asyncio.to_thread(asked.wait, DEADLINE_S)
            os.kill(sleeper.pid, signal.SIGSTOP)
            await it.engine()
            assert (await it.until_rest(job)).status == "succeeded"
            before = await it.client.events(job)
            gate.set()
            os.kill(sleeper.pid, signal.SIGCONT)
            other = await it.start(piece="one", instruction="another")
            await it.until_rest(other)
            await asyncio.sleep(0.3)
            assert await it.client.events(job) == before
            assert not (it.workspace / "from_the_sleeper.txt").exists()
        finally:
            sleeper.kill()
            await sleeper.wait()


async def test_two_engines_share_a_queue_without_doubling(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return DONE if request.results("Bash") else call("Bash", command="echo x >> n.txt")

    rules = BASH.replace("[Read, Bash, BashOutput]", "[Bash]") + ""
    async with rig(
        tmp_path, script, pieces={"one": rules}, start_engine=False, mode="edits", sandbox="off"
    ) as it:
        jobs = [await it.start(piece="one", instruction=f"n {n}") for n in range(12)]
        other = await spawn(it)
        try:
            await it.engine()
            for job in jobs:
                await it.until(job, lambda d: d.status in ("succeeded", "waiting_human"))
            asked = await it.client.open_requests()
            for request in asked:
                await it.client.decide(request.request_id, "allow")
            for job in jobs:
                assert (await it.until(job, lambda d: d.status == "succeeded")).status == "succeeded"
                events = await it.client.events(job)
                assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
            assert (it.workspace / "n.txt").read_text() == "x\n" * 12
        finally:
            other.kill()
            await other.wait()
