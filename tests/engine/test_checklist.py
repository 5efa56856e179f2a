"""Checklist: kept from movement to movement, shown at the start of each, copied to the task folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.core.checklist import created, find, name_problem, shown, shown_all
from engine.llm.scripted import ByMovement, ScriptReply
from tests.engine.rig import rig

PIECE = """
name: two
description: Two movements.
max_movements: 5
initial_movement: plan
movements:
  - name: plan
    edit: false
    persona: p
    instruction: plan it
    allowed_tools: []
    rules: [{condition: planned, next: work}]
    default_next: work
  - name: work
    edit: false
    persona: p
    instruction: work
    allowed_tools: []
    rules: []
"""


def call(tool: str, **arguments: object) -> ScriptReply:
    return ScriptReply(calls=((tool, arguments),))


@pytest.mark.parametrize(
    ("instruction", "heading", "items"),
    [
        ("Do it", "## Checklists", ["read the code", "run the tests"]),
        ("やってください", "## チェックリスト", ["コードを読む", "テストを実行する"]),
    ],
)
async def test_a_checklist_reaches_the_next_movement_with_what_is_checked(
    tmp_path: Path, instruction: str, heading: str, items: list[str]
) -> None:
    script = ByMovement(
        {
            "plan": [
                call("Checklist", action="create", name="steps", items=items),
                call("Checklist", action="check", name="steps", item=items[0]),
                call("transition", next_step="work", summary="planned"),
            ],
            "work": [call("complete", status="success", result="done")],
        }
    )
    async with rig(tmp_path, script, pieces={"two": PIECE}) as it:
        job_id = await it.start(instruction, piece="two")
        detail = await it.until_rest(job_id)
        assert detail.status == "succeeded", detail.result
        opening = it.bodies()[-1]["messages"][1]["content"]
        assert f"{heading}\nsteps (1/2)\n1. [x] {items[0]}\n2. [ ] {items[1]}" in opening
        copy = it.workspace / ".maestro" / "tasks" / detail.task_id / "logs" / "checklists" / "steps.json"
        assert json.loads(copy.read_text("utf-8")) == [
            {"item": items[0], "done": True},
            {"item": items[1], "done": False},
        ]


async def test_mistakes_with_checklists_are_answered_with_what_would_be_right(tmp_path: Path) -> None:
    mistakes = [
        call("Checklist", action="check", name="steps", item="a"),
        call("Checklist", action="create", name="../steps", items=["a"]),
        call("Checklist", action="create", name="steps", items=[" "]),
        call("Checklist", action="create", name="steps", items=["read the code", "read the tests"]),
        call("Checklist", action="check", name="steps", item="read"),
        call("Checklist", action="check", name="steps"),
        call("complete", status="success", result="done"),
    ]
    async with rig(tmp_path, ByMovement({"plan": mistakes}), pieces={"two": PIECE}) as it:
        job_id = await it.start(piece="two")
        assert (await it.until_rest(job_id)).status == "succeeded"
        said = [m["content"] for m in it.bodies()[-1]["messages"] if m["role"] == "tool"]
    assert "Make it with `create`" in said[0]
    assert "cannot be the name of a checklist" in said[1]
    assert "needs `items`" in said[2]
    assert "Did you mean: `read the code`; `read the tests`?" in said[4]
    assert "needs `item`" in said[5]


@pytest.mark.parametrize("name", ["steps", "手順", "step 1", "a-b_c", "がぎ"])
def test_names_in_any_script_are_names(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a\nb", "x" * 61, "-x", "con.json"])
def test_a_name_that_could_be_a_path_is_none(name: str) -> None:
    assert name_problem(name)


def test_making_a_list_again_keeps_what_was_checked() -> None:
    before = created(["a", "b"])
    before = (type(before[0])("a", True), before[1])
    assert [(i.text, i.done) for i in created(["c", "a", "a", ""], before)] == [("c", False), ("a", True)]


def test_an_item_is_found_by_text_by_number_and_by_the_only_one_that_holds_it() -> None:
    items = created(["read the code", "run the tests", "読む"])
    assert find(items, "run  the tests") == 1
    assert find(items, "3") == 2
    assert find(items, "CODE") == 0
    assert find(items, "読") == 2
    assert find(items, "the") == ["read the code", "run the tests"]


def test_of_a_long_list_the_guidance_shows_the_open_items_and_counts_the_rest() -> None:
    items = created([f"item {n}" for n in range(90)])
    items = tuple(type(i)(i.text, n < 50) for n, i in enumerate(items))
    text = shown_all({"long": items})
    assert all(f"[ ] item {n}" in text for n in range(50, 90))
    assert text.endswith("… 30")
    assert "…" not in shown("long", items)
