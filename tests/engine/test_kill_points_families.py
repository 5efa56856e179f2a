"""SIGKILL at the n-th commit of a family: no child twice, nothing asked twice, the parent wakes once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.limits import Leases
from engine.llm.scripted import ScriptReply, call
from tests.engine.families import PIECES, done, section, spawn, task_of
from tests.engine.rig import DEADLINE_S, Rig, rig
from tests.engine.test_kill_points import Forker, check_messages, integrity, person

RESULTS = "Results of subtasks"


def told_of_children(request: Any) -> str:
    """What the model knows of its children: from its guidance, or at once where all had ended."""
    return section(request.messages[1]["content"], RESULTS) or request.last_result("WaitSubTask")


def script(request: Any) -> ScriptReply:
    """Two children: one asks for a tool, one starts a task of its own; computed from the request alone."""
    match task_of(request):
        case "lead":
            if told := told_of_children(request):
                return done(f"{told.count(': succeeded')} succeeded")
            return call("WaitSubTask") if request.results("SpawnSubTask") else spawn("asks", "spins")
        case "child: asks":
            results = request.results("RequestTool")
            return done(results[-1].text) if results else call("RequestTool", tool="Glob", reason="x")
        case "child: spins":
            results = request.results("SpawnSubTask")
            if told_of_children(request):
                return done("spun")
            return call("WaitSubTask") if results else spawn("below")
        case _:
            return done("below")


async def check(it: Rig, job: str, asked: Counter[str]) -> None:
    detail = await it.client.show(job)
    assert detail.result == "2 succeeded"
    titles = Counter(found.title for found in await it.client.list_jobs())
    assert titles == {"lead": 1, "asks": 1, "spins": 1, "below": 1}
    assert asked == {"tool_request:Use Glob in the movement “do”": 1}
    for summary in await it.client.list_jobs():
        assert summary.status == "succeeded" and summary.open_requests == []
        events = await it.client.events(summary.job_id)
        assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
        assert sum(e["kind"] == "status" and e["from"] == "waiting_subtasks" for e in events) <= 1
    for body in it.bodies():
        check_messages(body)


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_killed_anywhere_a_family_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    leases = replace(Leases(), poll_s=0.02, recover_s=0.02)
    forker = await Forker.start()
    try:
        for n in range(1, 400, 2):
            folder = tmp_path / str(n)
            folder.mkdir()
            async with rig(
                folder, script, pieces=PIECES, start_engine=False, leases=leases, max_concurrency=1
            ) as it:
                job = await it.start("lead", piece="parent")
                asked: Counter[str] = Counter()
                answering = asyncio.create_task(person(it, asked))
                try:
                    ended = await forker.engine(it, n, before=n % 4 == 1)
                    async with asyncio.timeout(DEADLINE_S):
                        whole = False
                        while not ended.done() and not whole:
                            whole = (await it.client.show(job)).status == "succeeded"
                            await asyncio.sleep(0.01)
                    if whole:
                        with suppress(ProcessLookupError):  # the last commit may have been the n-th
                            os.kill(forker.pid, signal.SIGKILL)
                        await ended
                    else:
                        await it.engine()
                    await it.until(job, lambda d: d.status == "succeeded")
                    await check(it, job, asked)
                    await it.stop()
                except BaseException as error:
                    error.add_note(f"killed at commit {n}")
                    raise
                finally:
                    answering.cancel()
                    await asyncio.gather(answering, return_exceptions=True)
                assert integrity(it.client.store_file) == "ok"
            if whole:
                assert n > 40, "too few commits for this family: is every step journalled?"
                return
        raise AssertionError("the family never got through")
    finally:
        forker.process.kill()
        await forker.process.wait()
