"""What happens as the context fills (engine.md §5), over real HTTP against a model that reports what it is
told to.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from engine.llm.scripted import ByMovement, ScriptReply, ScriptRequest, call, say
from tests.engine.filling import (
    DONE,
    EXHAUSTED,
    FORCE,
    PROMPT,
    WARN,
    at,
    full,
    nothing_twice,
    piece,
    pressure,
    read,
    run,
    server,
    users,
)
from tests.engine.killed import run_and_kill
from tests.engine.rig import rig


async def test_at_70_percent_a_warning_is_told_once(tmp_path: Path) -> None:
    work = [at(0.3, read("a.txt")), at(0.71, read("b.txt")), at(0.8, read("c.txt")), at(0.82, DONE)]
    async with rig(tmp_path, full(work), pieces={"full": piece()}, server=server()) as it:
        end, told = await run(it)
        assert end.status == "succeeded" and not end.forced
        assert told == [(WARN, 0.71)]
        assert [len(users(body)) for body in it.bodies()] == [1, 1, 1, 1], "the model is told nothing"
        assert end.usage.context_ratio == 0.82


@pytest.mark.parametrize(
    ("instruction", "rules", "text"),
    [
        ("Do it", "[{condition: done, next: after}]", "Wrap up your work and call transition."),
        ("やってください", "[{condition: done, next: after}]", "作業をまとめて transition してください"),
        ("Do it", "[]", "Wrap up your work and call complete."),
        ("やってください", "[]", "作業をまとめて complete してください"),
    ],
)
async def test_at_85_percent_the_model_is_asked_once_to_wrap_up_behind_the_results(
    tmp_path: Path, instruction: str, rules: str, text: str
) -> None:
    work = [at(0.3, read("a.txt")), at(0.86, read("b.txt")), at(0.9, read("c.txt")), at(0.91, DONE)]
    pieces = {"full": piece(rules=rules)}
    async with rig(tmp_path, full(work), pieces=pieces, server=server()) as it:
        end, told = await run(it, instruction=instruction)
        assert end.status == "succeeded" and told == [(WARN, 0.86), (PROMPT, 0.86)]
        bodies = it.bodies()
    assert [users(body)[1:] for body in bodies] == [[], [], [text], [text]]
    assert bodies[2]["messages"][-2]["role"] == "tool" and bodies[2]["messages"][-1]["content"] == text
    nothing_twice(bodies)


async def test_the_call_to_wrap_up_goes_with_a_reminder_or_a_comment_into_one_message(
    tmp_path: Path,
) -> None:
    work = [at(0.3, read("a.txt")), at(0.87, say("I think I am done")), at(0.88, DONE)]
    async with rig(tmp_path, full(work), pieces={"full": piece()}, server=server()) as it:
        await run(it)
        bodies = it.bodies()
    last = users(bodies[2])[-1]
    assert last.startswith("Your reply had no tool call") and last.endswith("call transition.")
    nothing_twice(bodies)


async def test_at_95_percent_the_job_moves_on_by_default_next_with_a_mechanical_lesson(
    tmp_path: Path,
) -> None:
    work = [
        at(0.3, call("Write", file_path="out.txt", content="x\n")),
        at(0.96, read("a.txt", text="I was about to read a.txt")),
    ]
    async with rig(tmp_path, full(work), pieces={"full": piece()}, server=server()) as it:
        end, told = await run(it)
        assert (end.status, end.forced) == ("succeeded", False), "the end itself was chosen"
        assert told == [(WARN, 0.96), (PROMPT, 0.96), (FORCE, 0.96)], "all that are due fire"
        bodies = it.bodies()
        events = await it.client.events(end.job_id)
    assert [(move.name, move.next, move.forced) for move in end.movements] == [
        ("work", "after", False),
        ("after", "COMPLETE", True),
    ]
    entered = [event for event in events if event["kind"] == "movement"]
    assert [event.get("forced", False) for event in entered] == [False, True]
    assert len(bodies) == 3, "the read at 96 % was not carried out"
    guidance = users(bodies[2])[0]
    assert "Movement work was cut at 96 % of the context" in guidance
    assert "I was about to read a.txt" in guidance and "Files it changed: out.txt" in guidance
    refused = [event for event in events if event["kind"] == "tool_result"][-1]
    assert refused["brief"] == "not run: context full" and not refused["ok"]


async def test_without_default_next_95_percent_aborts_with_the_last_text_shown(tmp_path: Path) -> None:
    work = [at(0.3, read("a.txt")), at(0.95, read("b.txt", text="half way"))]
    async with rig(tmp_path, full(work), pieces={"full": piece(None)}, server=server()) as it:
        end, told = await run(it)
    assert (end.status, end.reason, end.result) == ("aborted", "no_default_next", "half way")
    assert end.forced and [action for action, _ in told] == [WARN, PROMPT, FORCE]


@pytest.mark.parametrize(
    ("instruction", "title", "go_on"),
    [
        ("Do it", "Stopped at the context limit (97 % full)", "Comment on this task to go on"),
        (
            "やってください",
            "コンテキストの限界（97 % 使用）で止まりました",
            "このタスクにコメントしてください",
        ),
    ],
)
async def test_forced_to_complete_is_a_success_marked_and_titled_as_what_it_is(
    tmp_path: Path, instruction: str, title: str, go_on: str
) -> None:
    work = [
        at(0.3, call("Write", file_path="out.txt", content="x\n")),
        at(0.97, read("a.txt", text="not done yet")),
    ]
    async with rig(tmp_path, full(work), pieces={"full": piece("COMPLETE")}, server=server()) as it:
        end, _ = await run(it, instruction=instruction)
        summary = await it.client.summary(end.job_id)
    assert (end.status, end.forced, summary.forced) == ("succeeded", True, True)
    assert end.result is not None and end.result.startswith(title)
    assert "not done yet" in end.result and "out.txt" in end.result and go_on in end.result


async def test_a_forced_hop_counts_as_a_movement(tmp_path: Path) -> None:
    loop = (
        piece("work2", "[]")
        .replace("  - name: after", "  - name: work2", 1)
        .replace(
            "    instruction: End it.\n    allowed_tools: [Read]\n",
            "    instruction: End it.\n    allowed_tools: [Read]\n    default_next: work\n",
        )
    )
    script = ByMovement({"work": [at(0.97, read("a.txt"))], "work2": [at(0.97, read("a.txt"))]})
    async with rig(tmp_path, script, pieces={"full": loop}, server=server()) as it:
        end, told = await run(it)
    assert (end.status, end.reason) == ("aborted", "cycle"), "guarded as any other hop"
    assert len(end.movements) == told.count((FORCE, 0.97)), "the actions fire once per movement"


@pytest.mark.parametrize(
    ("reply", "status", "result"),
    [
        (DONE, "succeeded", "done"),
        (call("complete", status="aborted", result="cannot"), "aborted", "cannot"),
        (call("transition", next_step="after", summary="S"), "succeeded", "done"),
    ],
)
async def test_a_reply_at_96_percent_with_a_valid_control_call_wins(
    tmp_path: Path, reply: ScriptReply, status: str, result: str
) -> None:
    both = replace(reply, calls=(*read("b.txt").calls, *reply.calls), text="")
    work = [at(0.3, read("a.txt")), at(0.96, both)]
    async with rig(tmp_path, full(work), pieces={"full": piece("ABORT")}, server=server()) as it:
        end, _ = await run(it)
        events = await it.client.events(end.job_id)
    assert (end.status, end.result, end.forced) == (status, result, False)
    briefs = [event["brief"] for event in events if event["kind"] == "tool_result"]
    assert "not run: context full" in briefs
    assert not any(move.forced for move in end.movements)


async def test_beside_it_no_other_call_is_made_not_even_one_that_only_notes_or_spawns(tmp_path: Path) -> None:
    other = (
        ("SpawnSubTask", {"instruction": "a part", "title": "part"}),
        ("Checklist", {"action": "create", "name": "steps", "items": ["a"]}),
    )
    work = [at(0.3, read("a.txt")), at(0.96, replace(DONE, calls=(*other, *DONE.calls)))]
    text = piece("ABORT").replace("allowed_tools: [Read", "allowed_tools: [SpawnSubTask, Read", 1)
    async with rig(tmp_path, full(work), pieces={"full": text}, server=server()) as it:
        end, _ = await run(it)
        events = await it.client.events(end.job_id)
        jobs = await it.client.list_jobs()
    assert (end.status, len(jobs)) == ("succeeded", 1)
    assert [e["brief"] for e in events if e["kind"] == "tool_result"][1:3] == ["not run: context full"] * 2


async def test_forced_to_complete_waits_for_open_children_first(tmp_path: Path) -> None:
    work = [
        at(0.3, call("SpawnSubTask", instruction="a part", title="part", piece="part")),
        at(0.97, read("a.txt")),
    ]
    text = piece("COMPLETE").replace("allowed_tools: [Read", "allowed_tools: [SpawnSubTask, Read", 1)
    part = (
        "name: part\ndescription: d\nmax_movements: 2\ninitial_movement: ask\nmovements:\n"
        "  - {name: ask, edit: false, persona: p, instruction: Ask., allowed_tools: [], rules: []}\n"
    )
    script = ByMovement({"work": work, "ask": [call("complete", status="success", result="the part")]})
    pieces = {"full": text, "part": part}
    async with rig(tmp_path, script, pieces=pieces, server=server(), max_concurrency=1) as it:
        job_id = await it.start(piece="full")
        end = await it.until(job_id, lambda now: now.status == "succeeded")
        last = it.bodies()[-1]["messages"][1]["content"]
        events = await it.client.events(job_id)
    went = [event["to"] for event in events if event["kind"] == "status"]
    assert went == ["queued", "running", "waiting_subtasks", "queued", "running", "succeeded"]
    assert end.forced and "the part" in last, "the children's results are in the rebuilt prompt"


async def test_a_control_call_at_96_percent_that_is_not_valid_does_not_win(tmp_path: Path) -> None:
    work = [at(0.3, read("a.txt")), at(0.96, call("transition", next_step="COMPLETE", summary="S"))]
    async with rig(tmp_path, full(work), pieces={"full": piece()}, server=server()) as it:
        end, _ = await run(it)
    assert [move.forced for move in end.movements] == [False, True]


async def test_at_99_percent_the_verdict_is_told_too(tmp_path: Path) -> None:
    work = [at(0.995, read("a.txt"))]
    async with rig(tmp_path, full(work), pieces={"full": piece()}, server=server()) as it:
        _, told = await run(it)
    assert told == [(action, 0.995) for action in (WARN, PROMPT, FORCE, EXHAUSTED)]


@pytest.mark.parametrize(
    "reply",
    [
        ScriptReply(),
        say("cut off he", finish="length"),
        replace(read("a.txt"), finish="length"),
    ],
    ids=["empty", "text cut off", "call cut off"],
)
async def test_an_empty_or_cut_reply_at_the_limit_is_left_behind(tmp_path: Path, reply: ScriptReply) -> None:
    async with rig(tmp_path, full([at(0.98, reply)]), pieces={"full": piece()}, server=server()) as it:
        end, _ = await run(it)
        assert len(it.bodies()) == 2
    assert [move.name for move in end.movements] == ["work", "after"] and end.status == "succeeded"


@pytest.mark.parametrize("when", [1, 2, 3])
async def test_what_has_fired_survives_a_kill(tmp_path: Path, when: int) -> None:
    work = [
        at(0.3, read("a.txt")),
        at(0.88, read("b.txt")),
        at(0.9, read("c.txt")),
        at(0.96, read("d.txt")),
    ]
    async with rig(tmp_path, full(work), pieces={"full": piece()}, server=server(), start_engine=False) as it:
        for name in "abcd":
            (it.workspace / f"{name}.txt").write_text(f"{name}\n")
        job = await it.start(piece="full")
        await run_and_kill(it, lambda: len(it.server.requests) > when)
        await it.engine()
        end = await it.until_rest(job)
        told = [action for action, _ in await pressure(it, job)]
        bodies = it.bodies()
    assert end.status == "succeeded" and told == [WARN, PROMPT, FORCE]
    assert all(len(users(body)) <= 2 for body in bodies), "asked to wrap up once"
    assert sum(len(users(body)) == 2 for body in bodies) >= 2
    nothing_twice(bodies)


async def test_a_comment_and_the_call_to_wrap_up_come_as_one_message(tmp_path: Path) -> None:
    spoken = threading.Event()

    def wait(request: ScriptRequest) -> ScriptReply:
        assert spoken.wait(10)
        return at(0.87, read("b.txt"))

    work = [at(0.3, read("a.txt")), wait, at(0.88, DONE)]
    async with rig(tmp_path, full(work), pieces={"full": piece()}, server=server()) as it:
        for name in "ab":
            (it.workspace / f"{name}.txt").write_text("x\n")
        job = await it.start(piece="full")
        detail = await it.until(job, lambda _: len(it.server.requests) == 2)
        await it.client.comment(detail.task_id, "mind the tests")
        spoken.set()
        assert (await it.until_rest(job)).status == "succeeded"
        bodies = it.bodies()
    last = users(bodies[2])[-1]
    assert "mind the tests" in last and last.endswith("\nWrap up your work and call transition.")
    nothing_twice(bodies)


async def test_a_question_at_the_limit_is_resumed_with_a_prompt_made_anew(tmp_path: Path) -> None:
    """Also where the piece keeps conversations over a park: there is no room to go on in."""
    ask = call("complete", status="needs_user_input", result="Which?")

    def answered(request: ScriptRequest) -> ScriptReply:
        if request.contains("the left one"):
            return at(0.2, DONE)
        return at(0.97, ask) if request.turn else at(0.3, read("a.txt"))

    pieces = {"full": piece().replace("max_movements", "resume: continue\nmax_movements")}
    async with rig(tmp_path, answered, pieces=pieces, server=server()) as it:
        (it.workspace / "a.txt").write_text("x\n")
        job = await it.start(piece="full")
        request = await it.open_request(job)
        await it.client.answer(job, "the left one", request.request_id)
        end = await it.until(job, lambda d: d.status == "succeeded")
        last = it.bodies()[-1]["messages"]
    assert [move.name for move in end.movements] == ["work", "work"] and not end.movements[1].forced
    assert len(last) == 2 and "the left one" in last[1]["content"]
