"""SIGKILL at the n-th commit of a job that goes through everything: one conversation over movements and
parks, a wait by a rule, a granted tool, a forced hop, the ASK limit.
"""

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
from engine.llm.scripted import ScriptReply, ServerOptions, call
from engine.llm.scripted.script import ScriptRequest, ScriptResult, text_of
from tests.engine.families import CHILD, done, task_of
from tests.engine.filling import LIMIT
from tests.engine.rig import DEADLINE_S, Rig, rig
from tests.engine.test_kill_points import Forker, check_messages, integrity, person

PIECE = """
name: whole
description: everything at once
max_movements: 12
initial_movement: plan
conversation: continue
resume: continue
movements:
  - name: plan
    edit: false
    persona: You plan.
    instruction: Plan.
    allowed_tools: [Read]
    rules: [{condition: planned, next: out}]
  - name: out
    edit: true
    persona: You hand out.
    instruction: Hand out.
    allowed_tools: [Read, SpawnSubTask]
    default_next: gather-review
    rules: [{condition: handed out, next: WAIT_SUBTASKS}]
  - name: gather-review
    edit: false
    persona: You gather.
    instruction: Gather.
    allowed_tools: [Read]
    default_next: fix
    rules: [{condition: all is well, next: fix}]
  - name: fix
    edit: true
    persona: You fix.
    instruction: Fix.
    allowed_tools: [Read, Write]
    default_next: ABORT
    rules: []
"""


def ask(question: str) -> ScriptReply:
    return call("complete", status="needs_user_input", result=question)


def hop(to: str, lesson: str) -> tuple[str, dict[str, str]]:
    return ("transition", {"next_step": to, "summary": to, "lessons": lesson})


def child(title: str) -> tuple[str, dict[str, str]]:
    return ("SpawnSubTask", {"instruction": f"child: {title}", "piece": "child", "title": title})


READ = ("Read", {"file_path": "a.txt"})


def of_child(request: ScriptRequest) -> ScriptReply:
    title = task_of(request).removeprefix("child: ")
    if request.results("Write"):
        return done("made")
    return call("Write", file_path=f"{title}.txt", content=title)


def of_fix(results: list[ScriptResult]) -> ScriptReply:
    """It asks until nobody answers any more."""
    made = [result.name for result in results]
    if "Write" not in made:
        return call("Write", file_path="fixed.txt", content="fixed\n")
    if results[-1].text.startswith("The person will not be asked again"):
        return done("all done")
    return ask(f"Question {sum(name == 'complete' for name in made)}?")


def script(request: ScriptRequest) -> ScriptReply:
    """Computed from the request alone."""
    if task_of(request).startswith("child:"):
        return of_child(request)
    opening = text_of(request.messages[1])
    here = replace(request, messages=request.messages[request.find_movement()[0] :])  # type: ignore[index]
    results = here.results()
    made = [result.name for result in results]
    match request.movement:
        case "plan" if not made:
            return ScriptReply(calls=(READ, ("Checklist", {"action": "create", "name": "l", "items": ["a"]})))
        case "plan" if not request.contains("The person answered"):
            return ask("First?")
        case "plan":
            return ScriptReply(calls=(hop("out", "one"),))
        case "out" if not made:
            return ScriptReply(calls=(child("this"), child("that")))
        case "out":
            return ScriptReply(calls=(hop("WAIT_SUBTASKS", "two"), READ))
        case "gather-review" if "Use Grep" not in opening:
            return call("RequestTool", tool="Grep", reason="to look")
        case "gather-review":
            return ScriptReply(text="half way", calls=(READ,), prompt_tokens=round(0.97 * LIMIT))
        case _:
            return of_fix(results)


async def check(it: Rig, job: str, asked: Counter[str]) -> None:
    detail = await it.client.show(job)
    assert (detail.status, detail.result) == ("succeeded", "all done"), detail.reason
    titles = Counter(found.title for found in await it.client.list_jobs())
    assert titles == {"lead": 1, "this": 1, "that": 1}
    assert len(asked) == 4 and set(asked.values()) == {1}, asked
    lessons = await it.client.db(it.client.store.lessons, detail.task_id)
    assert [lesson.movement for lesson in lessons] == ["plan", "out", "gather-review", "fix"]
    assert [movement.visit for movement in detail.movements] == [1] * len(detail.movements)
    assert all(movement.ended_at is not None for movement in detail.movements)
    events = await it.client.events(job)
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    hops = [(e["from"], e["to"]) for e in events if e["kind"] == "transition"]
    assert hops == [("plan", "out"), ("gather-review", "fix")]
    assert all(e.get("announced") for e in events if e["kind"] == "cache_break")
    for body in it.bodies():
        check_messages(body)


async def killed_at(it: Rig, forker: Forker, n: int) -> bool:
    """One job whose first engine dies at the n-th commit; whether it got through before that."""
    (it.workspace / "a.txt").write_text("one\n")
    job = await it.start("lead", piece="whole")
    asked: Counter[str] = Counter()
    answering = asyncio.create_task(person(it, asked))
    try:
        ended, whole = await forker.engine(it, n, before=n % 2 == 1), False
        async with asyncio.timeout(DEADLINE_S):
            while not ended.done() and not whole:
                whole = (await it.client.show(job)).status == "succeeded"
                await asyncio.sleep(0.01)
        if whole:
            with suppress(ProcessLookupError):  # the last commit may have been the n-th
                os.kill(forker.pid, signal.SIGKILL)
            await ended
        else:
            await it.engine()
        await it.until(job, lambda d: d.status in ("succeeded", "failed", "aborted"))
        await check(it, job, asked)
        await it.stop()
    except BaseException as error:
        error.add_note(f"killed at commit {n}")
        raise
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
    return whole


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_killed_anywhere_a_job_that_goes_through_everything_ends_the_same(tmp_path: Path) -> None:
    leases = replace(Leases(), poll_s=0.02, recover_s=0.02)
    options: dict[str, Any] = {"start_engine": False, "leases": leases}
    pieces = {"whole": PIECE, "child": CHILD}
    forker = await Forker.start()
    try:
        for n in range(1, 300, 5):
            folder = tmp_path / str(n)
            folder.mkdir()
            async with rig(
                folder, script, pieces=pieces, server=ServerOptions(context=LIMIT), **options
            ) as it:
                whole = await killed_at(it, forker, n)
                assert integrity(it.client.store_file) == "ok"
            if whole:
                assert n > 50, "too few commits for this job: is every step journalled?"
                return
        raise AssertionError("the job never got through")
    finally:
        forker.process.kill()
        await forker.process.wait()
