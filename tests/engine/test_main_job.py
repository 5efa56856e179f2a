"""The main job at engine level: what a person lives, against the scripted model over real HTTP."""

from __future__ import annotations

from pathlib import Path

from engine.llm.scripted import ByMovement, call
from tests.engine.rig import rig

THREE = """
name: three
description: three movements
max_movements: 10
initial_movement: plan
movements:
  - name: plan
    edit: false
    persona: You plan.
    instruction: Plan it.
    allowed_tools: [Read]
    rules: [{condition: planned, next: implement}]
    default_next: implement
  - name: implement
    edit: true
    persona: You write.
    instruction: Write it.
    allowed_tools: [Read, Write, Edit]
    rules: [{condition: written, next: verify}]
    default_next: verify
  - name: verify
    edit: false
    persona: You check.
    instruction: Check it.
    allowed_tools: [Read]
    rules: [{condition: faults, next: implement}]
    default_next: ABORT
    max_consecutive_revisits: 3
"""


async def test_three_movements_write_a_file_and_finish(tmp_path: Path) -> None:
    script = ByMovement(
        {
            "plan": [
                call("Read", file_path="a.txt"),
                call("transition", next_step="implement", summary="a.txt holds one", lessons="mind the end"),
            ],
            "implement": [
                call("Read", file_path="a.txt"),
                call("Edit", file_path="a.txt", old_string="one", new_string="two"),
                call("transition", next_step="verify", summary="one became two"),
            ],
            "verify": [
                call("Read", file_path="a.txt"),
                call("complete", status="success", result="It says two."),
            ],
        }
    )
    async with rig(tmp_path, script, pieces={"three": THREE}) as it:
        (it.workspace / "a.txt").write_text("one\n")
        job = await it.start("Change one to two", piece="three")
        end = await it.until_rest(job)
        assert (end.status, end.result) == ("succeeded", "It says two.")
        assert (it.workspace / "a.txt").read_text() == "two\n"
        assert [(m.name, m.next) for m in end.movements] == [
            ("plan", "implement"),
            ("implement", "verify"),
            ("verify", "COMPLETE"),
        ]


async def test_a_question_parks_and_its_answer_resumes_the_same_movement(tmp_path: Path) -> None:
    def plan(request):  # type: ignore[no-untyped-def]
        if request.contains("to whole yen"):
            return call("complete", status="success", result="Rounded down.")
        return call("complete", status="needs_user_input", result="Round up or down?", options=["up", "down"])

    async with rig(tmp_path, ByMovement({"plan": plan}), pieces={"three": THREE}) as it:
        job = await it.start(piece="three")
        request = await it.open_request(job)
        assert (request.title, request.options) == ("Round up or down?", ["up", "down"])
        await it.client.answer(job, "down, to whole yen")
        end = await it.until_rest(job)
        assert end.status == "succeeded"
        assert [(m.name, m.visit, m.run, m.next) for m in end.movements] == [
            ("plan", 1, 1, "ASK"),
            ("plan", 1, 2, "COMPLETE"),
        ]
