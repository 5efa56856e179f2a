"""Several model workers: who serves what, how many jobs at a time, and that a job keeps its worker (engine.md
§7).
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.catalog import explain
from engine.client import StartOrder
from engine.config import EngineConfig, ModelSettings, WorkerSettings
from engine.core.errors import NotConfigured
from engine.llm.pool import ModelPool
from engine.llm.scripted import ScriptedServer, ScriptReply, ServerOptions, call, say
from tests.engine.families import PIECES, done, spawn, task_of
from tests.engine.rig import DEADLINE_S, Rig, rig

FAST = {"model": "scripted", "backoff_ms": (1, 1, 1)}


def worker(
    name: str, server: ScriptedServer, *roles: str, jobs: int | None = None, **llm: Any
) -> WorkerSettings:
    settings = ModelSettings(**{"endpoint": server.base_url, **FAST, **llm})
    return WorkerSettings(name, settings, roles, jobs)


def at_once(request: Any) -> ScriptReply:
    return done("done")


def models_of(server: ScriptedServer) -> list[str]:
    return [json.loads(body)["model"] for body in server.requests]


async def stored_worker(it: Rig, job: str) -> str | None:
    return (await it.client.db(it.client.store.job, job)).worker


class Gate:
    """A script whose replies wait until the test lets them go; ``most`` is how many waited at once."""

    def __init__(self) -> None:
        self.waiting = self.most = 0
        self._open = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, request: Any) -> ScriptReply:
        with self._lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        try:
            assert self._open.wait(DEADLINE_S)
        finally:
            with self._lock:
                self.waiting -= 1
        return done()

    def open(self) -> None:
        self._open.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            for _ in iter(int, 1):
                if self.waiting >= count:
                    return
                await asyncio.sleep(0.005)


@pytest.mark.parametrize(("named", "sent"), [("coder", "coder-7b"), ("coder-7b", "coder-7b")])
async def test_a_job_runs_on_the_worker_that_it_names_by_id_or_by_model(
    tmp_path: Path, named: str, sent: str
) -> None:
    async with ScriptedServer(at_once) as other:
        listed = (worker("coder", other, model="coder-7b"),)
        async with rig(tmp_path, at_once, workers=listed) as it:
            theirs, mine = await it.start(model=named), await it.start()
            for job in (theirs, mine):
                assert (await it.until_rest(job)).status == "succeeded"
            assert models_of(other) == [sent]
            assert models_of(it.server) == ["scripted"]
            assert await stored_worker(it, theirs) == "coder"
            assert await stored_worker(it, mine) == "default"


async def test_a_piece_may_name_its_model(tmp_path: Path) -> None:
    text = PIECES["child"].replace("max_movements", "model: coder\nmax_movements")
    async with ScriptedServer(at_once) as other:
        async with rig(tmp_path, at_once, pieces={"child": text}, workers=(worker("coder", other),)) as it:
            assert (await it.until_rest(await it.start(piece="child"))).status == "succeeded"
        assert len(other.requests) == 1


async def test_subtasks_go_to_the_worker_of_that_role_and_everything_else_to_main(tmp_path: Path) -> None:
    def lead(request: Any) -> ScriptReply:
        assert task_of(request) == "lead"
        if request.contains("## Results of subtasks"):
            return done("gathered")
        return call("WaitSubTask") if request.results("SpawnSubTask") else spawn("one", "two")

    async with ScriptedServer(at_once) as small:
        listed = (worker("small", small, "subtask"),)
        async with rig(tmp_path, lead, pieces=PIECES, workers=listed) as it:
            end = await it.until(await it.start("lead", piece="parent"), lambda d: d.status == "succeeded")
            assert end.result == "gathered"
            assert len(small.requests) == 2


async def test_the_piece_is_chosen_by_the_worker_of_the_role_classifier(tmp_path: Path) -> None:
    async with ScriptedServer(lambda request: say("child")) as small:
        listed = (worker("small", small, "classifier", model="tiny"),)
        async with rig(tmp_path, at_once, pieces=PIECES, piece=None, workers=listed) as it:
            end = await it.until_rest(await it.start())
            assert (end.piece, end.status) == ("child", "succeeded")
            assert models_of(small) == ["tiny"]
            assert len(it.server.requests) == 1


async def test_a_model_that_nobody_offers_is_refused_at_the_start_with_the_known_names(
    tmp_path: Path,
) -> None:
    async with ScriptedServer(at_once) as other:
        disabled = replace(worker("old", other), enabled=False)
        listed = (worker("coder", other, model="coder-7b"), disabled)
        async with rig(tmp_path, at_once, workers=listed, start_engine=False) as it:
            for name in ("gpt", "old"):
                with pytest.raises(NotConfigured) as caught:
                    await it.client.start(StartOrder("Do it", model=name))
                assert caught.value.data["known"] == ["default", "scripted", "coder", "coder-7b"]
                assert explain(caught.value, "en") == (
                    f"The model {name} is none of your workers. "
                    "Name one of these: default, scripted, coder, coder-7b."
                )
            assert await it.client.list_jobs() == []


async def test_each_worker_takes_its_own_number_of_jobs_and_a_full_one_holds_up_nobody_else(
    tmp_path: Path,
) -> None:
    slow, quick = Gate(), Gate()
    async with ScriptedServer(slow) as one, ScriptedServer(quick) as two:
        listed = (worker("one", one, "main", jobs=1), worker("two", two, jobs=2))
        async with rig(tmp_path, at_once, llm={"endpoint": ""}, workers=listed) as it:
            ones = [await it.start() for _ in range(3)]
            await slow.until(1)
            twos = [await it.start(model="two") for _ in range(3)]
            await quick.until(2)
            statuses = Counter([(await it.client.summary(job)).status for job in (*ones, *twos)])
            assert statuses == {"running": 3, "queued": 3}
            quick.open()
            for job in twos:
                await it.until(job, lambda d: d.status == "succeeded")
            assert [(await it.client.summary(job)).status for job in ones] == ["running", "queued", "queued"]
            slow.open()
            for job in ones:
                await it.until(job, lambda d: d.status == "succeeded")
        assert (slow.most, quick.most) == (1, 2)


async def test_max_concurrency_caps_all_workers_together(tmp_path: Path) -> None:
    gate = Gate()
    async with ScriptedServer(gate) as one, ScriptedServer(gate) as two:
        listed = (worker("one", one, "main", jobs=4), worker("two", two, jobs=4))
        async with rig(tmp_path, gate, llm={"endpoint": ""}, workers=listed, max_concurrency=3) as it:
            jobs = [await it.start(model=name) for name in ("one", "two", "one", "two", "one")]
            await gate.until(3)
            counts = await it.client.counts()
            gate.open()
            for job in jobs:
                await it.until(job, lambda d: d.status == "succeeded")
            assert counts == {"running": 3, "queued": 2}
            assert gate.most == 3


async def test_two_main_workers_share_the_jobs_and_a_parked_job_goes_on_where_its_cache_is(
    tmp_path: Path,
) -> None:
    def asks(request: Any) -> ScriptReply:
        if request.contains("The person answered: blue"):
            return done("blue")
        return call("complete", status="needs_user_input", result="Which colour?")

    gate = Gate()
    async with ScriptedServer(gate) as first, ScriptedServer(asks) as second:
        listed = (worker("first", first, "main", jobs=1), worker("second", second, "main", jobs=1))
        async with rig(tmp_path, at_once, llm={"endpoint": ""}, workers=listed) as it:
            busy = await it.start()
            await gate.until(1)
            parked = await it.start()
            await it.open_request(parked)
            gate.open()
            await it.until(busy, lambda d: d.status == "succeeded")
            await it.client.answer(parked, "blue")
            assert (await it.until(parked, lambda d: d.status == "succeeded")).result == "blue"
            assert (len(first.requests), len(second.requests)) == (1, 2)
            assert await stored_worker(it, parked) == "second"


async def test_a_server_takes_as_many_jobs_as_it_has_slots_and_another_one_here_takes_one() -> None:
    async with ScriptedServer(at_once, options=ServerOptions(slots=3)) as server:
        listed = (worker("three", server), worker("fixed", server, jobs=7))
        pool = ModelPool(EngineConfig(workers=listed))
        for name in ("three", "fixed"):
            await pool.learn_jobs(name)
        assert not pool.any_full(["three"] * 2) and pool.any_full(["three"] * 3)
        assert not pool.any_full(["fixed"] * 6) and pool.any_full(["fixed"] * 7)
        await pool.aclose()
    lonely = ModelPool(EngineConfig(llm=ModelSettings(endpoint="http://127.0.0.1:9/v1")))
    await lonely.learn_jobs("default")
    assert not lonely.all_full([]) and lonely.all_full(["default"])
    await lonely.aclose()


async def test_each_worker_has_quirks_of_its_own(tmp_path: Path) -> None:
    """What one server refuses is learnt for that one: the other still gets it."""

    def picky(request: Any) -> ScriptReply:
        if request.number == 1:
            return ScriptReply(status=400, body=b'{"error": {"message": "unknown field stream_options"}}')
        return done()

    async with (
        ScriptedServer(picky) as other,
        rig(tmp_path, at_once, workers=(worker("picky", other),)) as it,
    ):
        for _ in range(2):
            assert (await it.until_rest(await it.start(model="picky"))).status == "succeeded"
        assert (await it.until_rest(await it.start())).status == "succeeded"
        assert ["stream_options" in json.loads(body) for body in other.requests] == [True, False, False]
        assert all("stream_options" in body for body in it.bodies())


async def test_a_job_whose_worker_is_gone_gets_another_and_one_whose_model_is_gone_says_so(
    tmp_path: Path,
) -> None:
    async with ScriptedServer(at_once) as other:
        listed = (worker("coder", other, "main", model="coder-7b"), worker("small", other))
        async with rig(tmp_path, at_once, llm={"endpoint": ""}, workers=listed, start_engine=False) as it:
            job, lost = await it.start(), await it.start(model="coder")
            it.config = replace(it.config, workers=listed[1:])
            await it.engine()
            assert (await it.until_rest(job)).status == "succeeded"
            assert await stored_worker(it, job) == "small"
            end = await it.until_rest(lost)
            assert (end.status, end.reason) == ("failed", "config.no_worker")
            assert "coder" in (end.result or "") and "small" in (end.result or "")


async def test_no_secret_of_any_worker_reaches_a_prompt_or_the_store(tmp_path: Path) -> None:
    keys = ("key-of-the-second-worker", "header-of-a-disabled-one")
    async with ScriptedServer(at_once) as other:
        disabled = replace(worker("off", other, headers={"x-key": keys[1]}), enabled=False)
        listed = (worker("second", other, api_key=keys[0]), disabled)
        async with rig(tmp_path, at_once, workers=listed) as it:
            job = await it.start(f"Use {keys[0]} and {keys[1]}")
            await it.until_rest(job)
            stored = str(await it.client.show(job)) + str(await it.client.events(job))
            for key in keys:
                assert key not in stored
                assert key.encode() not in b"".join(it.server.requests)
            assert keys[0] not in repr(it.config) and keys[1] not in repr(it.config)
