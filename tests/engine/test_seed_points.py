"""Points of the engine's source documents that no other file shows (docs/engine.md): the choices in the
guidance, where a resume enters, what is shown as the outcome, how far a rule of the task reaches.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.llm.scripted import ByMovement, ScriptReply, ScriptRequest, call
from tests.engine.families import done, task_of
from tests.engine.rig import rig

TWO = """
name: two
description: two movements
max_movements: 4
initial_movement: look
movements:
  - name: look
    edit: false
    persona: You look.
    instruction: Look at it.
    allowed_tools: [Read, Grep]
    rules:
      - {condition: something was found 見つかった, next: tell}
      - {condition: subtasks are at work, next: WAIT_SUBTASKS}
    default_next: tell
  - name: tell
    edit: false
    persona: You tell.
    instruction: Tell it.
    allowed_tools: []
    rules: []
"""

ONE = """
name: one
description: one movement, whose forced end counts as success
max_movements: 3
initial_movement: work
movements:
  - name: work
    edit: true
    persona: You work.
    instruction: Work.
    allowed_tools: [Read, SpawnSubTask, WaitSubTask]
    rules: []
    default_next: COMPLETE
"""


@pytest.mark.parametrize(
    ("instruction", "tools", "choices", "none"),
    [
        (
            "Look",
            "Permitted here: Read, Grep, transition, complete",
            "Next steps you may choose with `transition`:\n"
            "- tell: something was found 見つかった\n- WAIT_SUBTASKS: subtasks are at work\n",
            "This movement has no next step.",
        ),
        (
            "見て",
            "ここで使えるツール: Read, Grep, transition, complete",
            "`transition` で選べる次のステップ:\n"
            "- tell: something was found 見つかった\n- WAIT_SUBTASKS: subtasks are at work\n",
            "このムーブメントに次のステップはありません。",
        ),
    ],
)
async def test_the_guidance_names_what_is_permitted_and_the_choices_with_their_conditions(
    tmp_path: Path, instruction: str, tools: str, choices: str, none: str
) -> None:
    script = ByMovement(
        {"look": [call("transition", next_step="tell", summary="s")], "tell": [done("told")]},
    )
    async with rig(tmp_path, script, pieces={"two": TWO}) as it:
        assert (await it.until_rest(await it.start(instruction, piece="two"))).status == "succeeded"
        look, tell = (str(body["messages"][1]["content"]) for body in it.bodies())
    assert tools in look and choices in look and none not in look
    assert none in tell and "見つかった" not in tell, "only the choices of this movement"


@pytest.mark.parametrize(
    "request_of",
    [
        call("complete", status="needs_user_input", result="Which one?"),
        call("RequestTool", tool="Bash", reason="to look"),
    ],
    ids=["a question", "a request for a tool"],
)
async def test_a_resume_enters_the_movement_again_and_not_its_default_next(
    tmp_path: Path, request_of: ScriptReply
) -> None:
    def work(request: ScriptRequest) -> ScriptReply:
        return request_of if request.number == 1 else done("worked on")

    async with rig(tmp_path, work, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        asked = await it.open_request(job)
        assert (await it.client.show(job)).resume_movement == "work"
        if asked.reason == "question":
            await it.client.answer(job, "the first")
        else:
            await it.client.decide(asked.request_id, "allow")
        end = await it.until(job, lambda detail: detail.status == "succeeded")
    assert (end.result, end.forced) == ("worked on", False)
    assert [move.name for move in end.movements] == ["work", "work"]


async def test_only_the_result_of_complete_is_shown_as_the_outcome(tmp_path: Path) -> None:
    reply = replace(done("The outcome."), text="Between ourselves: I am done.")
    async with rig(tmp_path, [reply], pieces={"one": ONE}) as it:
        end = await it.until_rest(await it.start(piece="one"))
    assert end.result == "The outcome."
    assert [comment.text for comment in end.comments if comment.author == "maestro"] == ["The outcome."]


async def test_a_rule_for_the_task_holds_for_its_subtasks_too(tmp_path: Path) -> None:
    def script(request: ScriptRequest) -> Any:
        name = task_of(request)
        if not request.results("Write"):
            return call("Write", file_path=f"{name}.txt", content="x\n")
        if name != "lead":
            return done(f"{name} wrote")
        if not request.results("SpawnSubTask"):
            return call("SpawnSubTask", instruction="child", piece="one")
        return done("both wrote") if request.contains("child wrote") else call("WaitSubTask")

    async with rig(tmp_path, script, pieces={"one": ONE}, mode="ask") as it:
        job = await it.start("lead", piece="one")
        await it.client.decide((await it.open_request(job)).request_id, "allow", scope="task")
        await it.until(job, lambda detail: bool(detail.children))
        await it.until(
            job, lambda detail: (it.workspace / "child.txt").exists() or bool(detail.open_requests)
        )
        assert (it.workspace / "child.txt").exists(), "the subtask asked again"
        stranger = await it.start("stranger", piece="one")
        assert (await it.until_rest(stranger)).wait_reason == "approval", "another task asks for itself"


async def test_a_subtask_that_names_no_piece_gets_general_without_a_classifier(tmp_path: Path) -> None:
    def script(request: ScriptRequest) -> ScriptReply:
        if task_of(request) != "lead":
            return done("it is done")
        if not request.results("SpawnSubTask"):
            return call("SpawnSubTask", instruction="a small thing")
        return done("both") if request.contains("it is done") else call("WaitSubTask")

    async with rig(tmp_path, script, pieces={"one": ONE}, piece=None) as it:
        job = await it.start("lead", piece="one")
        end = await it.until(job, lambda detail: detail.status == "succeeded")
        (child,) = end.children
        assert (await it.client.show(child.job_id)).piece == "general"
        assert all(request.get("tools") for request in it.bodies()), "nobody was asked for a piece"
