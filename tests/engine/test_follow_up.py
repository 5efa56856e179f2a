"""A follow-up: a comment on a task at rest is a new job in it, which knows what the task knows (engine.md §3,
§4).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import NotConfigured, NotFound
from engine.llm.scripted import ScriptedServer, ScriptReply, call
from tests.engine.families import CHILD, done, prompt_of, section
from tests.engine.rig import rig
from tests.engine.test_workers import worker

TWO = """
name: two
description: two movements
max_movements: 5
initial_movement: look
movements:
  - name: look
    edit: false
    persona: You look.
    instruction: Look.
    allowed_tools: [Read]
    default_next: ABORT
    rules:
      - condition: seen
        next: work
  - name: work
    edit: true
    persona: You work.
    instruction: Work.
    allowed_tools: [Read, Write]
    rules: []
"""


def first_then_done(request: Any) -> ScriptReply:
    """The first job learns something, notes the goal and ends; every later one ends at once."""
    match request.number:
        case 1:
            return call("MissionUpdate", goal="Ship it", open="the tests")
        case 2:
            return call("transition", next_step="work", summary="seen", lessons="The key is in a.txt.")
        case _:
            return done(f"result {request.number}")


@pytest.mark.parametrize(
    ("said", "thread", "lessons"),
    [
        ("Look at it", "## Conversation so far", "## Lessons from earlier steps"),
        ("これを見てください", "## これまでのやり取り", "## 前のステップで得た教訓"),
    ],
)
async def test_it_knows_lessons_brief_and_thread_and_goes_on_in_the_tasks_language(
    tmp_path: Path, said: str, thread: str, lessons: str
) -> None:
    async with rig(tmp_path, first_then_done, pieces={"two": TWO, "child": CHILD}) as it:
        job = await it.start(said, piece="two", mode="plan")
        task = (await it.until(job, lambda d: d.status == "succeeded")).task_id
        follow_up = await it.client.comment(task, "And now the second half.", piece="child")
        assert follow_up is not None
        end = await it.until(follow_up, lambda d: d.status == "succeeded")
        first = await it.client.show(job)
        assert (end.piece, end.mode, end.language) == ("child", "plan", first.language)
        assert end.task_id == task and end.retry_of is None
        prompt = prompt_of(it.bodies()[-1])
        assert thread in prompt and "result 3" in section(prompt, thread.removeprefix("## "))
        assert "The key is in a.txt." in section(prompt, lessons.removeprefix("## "))
        assert "Ship it" in prompt and "the tests" in prompt
        assert prompt.count("And now the second half.") == 1, "the instruction is not repeated in the thread"


async def test_it_keeps_piece_mode_and_model_of_the_last_job(tmp_path: Path) -> None:
    async with ScriptedServer(lambda request: done()) as other:
        listed = (worker("coder", other, model="coder-7b"),)
        async with rig(tmp_path, lambda request: done(), pieces={"two": TWO}, workers=listed) as it:
            job = await it.start(piece="two", mode="all", model="coder")
            task = (await it.until(job, lambda d: d.status == "succeeded")).task_id
            follow_up = await it.client.comment(task, "More")
            assert follow_up is not None
            end = await it.until(follow_up, lambda d: d.status == "succeeded")
            assert (end.piece, end.mode) == ("two", "all")
            assert (len(other.requests), len(it.server.requests)) == (2, 0)


async def test_a_piece_or_a_worker_that_is_gone_is_told_and_no_job_is_made(tmp_path: Path) -> None:
    async with ScriptedServer(lambda request: done()) as other:
        listed = (worker("coder", other), worker("small", other))
        async with rig(tmp_path, lambda request: done(), workers=listed) as it:
            job = await it.start(model="coder")
            task = (await it.until(job, lambda d: d.status == "succeeded")).task_id
            with pytest.raises(NotFound):
                await it.client.comment(task, "More", piece="nonesuch")
            it.client.config = replace(it.client.config, workers=listed[1:])
            with pytest.raises(NotConfigured):
                await it.client.comment(task, "More")
            assert len(await it.client.list_jobs()) == 1
