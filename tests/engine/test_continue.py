"""``conversation: continue`` and ``resume: continue``: one conversation over movements and over parks."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.core.conversation import goes_on, kept_over, turn_of_next
from engine.core.jobs import Pressure, TurnState
from engine.core.limits import ContextLimits
from engine.core.outcome import SETTLEMENTS, MovementResult
from engine.core.piece import Movement, Piece, Rule
from engine.llm.scripted import ByMovement, ScriptReply, ServerOptions, call
from tests.engine.rig import Rig, rig

PIECE = """
name: flow
description: two or three movements
max_movements: 10
initial_movement: plan
conversation: {conversation}
resume: {resume}
movements:
  - name: plan
    edit: false
    persona: You plan.
    instruction: Plan it.
    allowed_tools: [Read]
    rules: [{{condition: planned, next: implement}}]
    default_next: implement
  - name: implement
    edit: true
    persona: You write.
    instruction: Write it.
    allowed_tools: [Read, Write, Edit]
    rules: [{{condition: written, next: verify}}]
    default_next: verify
  - name: verify
    edit: false
    conversation: {verify}
    persona: You check.
    instruction: Check it.
    allowed_tools: [Read]
    rules: [{{condition: faults, next: implement}}]
    default_next: ABORT
"""


def flow(conversation: str = "continue", verify: str = "continue", resume: str = "rebuild") -> dict[str, str]:
    return {"flow": PIECE.format(conversation=conversation, verify=verify, resume=resume)}


def hop(to: str, summary: str = "S", **more: str) -> ScriptReply:
    return call("transition", next_step=to, summary=summary, **more)


DONE = call("complete", status="success", result="ok")
ASK = call("complete", status="needs_user_input", result="Which one?")


def joined(it: Rig) -> list[bool]:
    """For each request after the first: whether it begins with all the messages of the one before it."""
    bodies = [body["messages"] for body in it.bodies()]
    return [later[: len(earlier)] == earlier for earlier, later in pairwise(bodies)]


def answers(messages: list[dict[str, Any]]) -> dict[str, str]:
    """The tool results of a conversation by the call they answer; each call has exactly one."""
    asked = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    results = [(m["tool_call_id"], m["content"]) for m in messages if m["role"] == "tool"]
    assert [call_id for call_id, _ in results] == asked
    return dict(results)


def no_two_of_the_user(messages: list[dict[str, Any]]) -> bool:
    return all((a["role"], b["role"]) != ("user", "user") for a, b in pairwise(messages))


# --- the next movement ------------------------------------------------------------------------------


async def test_the_guidance_of_the_next_movement_is_appended_to_the_same_messages(tmp_path: Path) -> None:
    script = ByMovement(
        {
            "plan": [call("Read", file_path="a.txt"), hop("implement", "S-PLAN", lessons="L-PLAN")],
            "implement": [
                call("Edit", file_path="a.txt", old_string="one", new_string="two"),
                hop("verify", "S-IMPL"),
            ],
            "verify": [DONE],
        }
    )
    async with rig(tmp_path, script, pieces=flow()) as it:
        (it.workspace / "a.txt").write_text("one\n")
        job = await it.start("Change it", piece="flow")
        end = await it.until_rest(job)
        assert end.status == "succeeded", end.result
        assert (it.workspace / "a.txt").read_text() == "two\n", "what was read before the hop is still known"
        last = it.bodies()[-1]["messages"]
    assert all(joined(it))
    answers(last)
    assert no_two_of_the_user(last)
    guidances = [m["content"] for m in last if m["role"] == "user"]
    assert len(guidances) == 3
    assert "## Task" in guidances[0] and "## Task" not in guidances[1] + guidances[2]
    assert guidances[1].startswith("The movement plan is over.")
    assert "## Movement: implement\n\nYou write." in guidances[1]
    assert "Permitted here: Read, Write, Edit, transition" in guidances[1]
    assert "- verify: written" in guidances[1]
    assert "Lessons" not in guidances[1] + guidances[2], "the calls above hold them"
    assert [move.name for move in end.movements] == ["plan", "implement", "verify"]
    assert await conversations(it, job) == [1, 1, 1]


async def conversations(it: Rig, job: str) -> list[int]:
    with sqlite3.connect(it.client.store_file) as db:
        rows = db.execute(
            "SELECT conversation FROM movements WHERE job_id = ? ORDER BY movement_seq", (job,)
        ).fetchall()
    return [row[0] for row in rows]


async def test_the_key_of_a_movement_is_about_entering_it(tmp_path: Path) -> None:
    script = ByMovement(
        {"plan": [hop("implement", "S-PLAN")], "implement": [hop("verify")], "verify": [DONE]}
    )
    async with rig(tmp_path, script, pieces=flow("continue", verify="restart")) as it:
        job = await it.start(piece="flow")
        assert (await it.until_rest(job)).status == "succeeded"
        assert joined(it) == [True, False]
        assert await conversations(it, job) == [1, 1, 2]
        opening = it.bodies()[-1]["messages"]
        assert [m["role"] for m in opening] == ["system", "user"]
        assert "[plan] S-PLAN" in opening[1]["content"], "a conversation that restarts gets the lessons"


async def test_what_verify_found_stands_under_its_heading_also_in_a_conversation_that_goes_on(
    tmp_path: Path,
) -> None:
    def verify(request: Any) -> ScriptReply:
        hops = len(request.results("transition"))
        return DONE if hops == 4 else hop("implement", "V-BAD", lessons="V-LESSON")

    def implement(request: Any) -> ScriptReply:
        return hop("verify")

    script = ByMovement({"plan": [hop("implement")], "implement": implement, "verify": verify})
    async with rig(tmp_path, script, pieces=flow()) as it:
        job = await it.start(piece="flow")
        assert (await it.until_rest(job)).status == "succeeded"
        assert all(joined(it))
        guidance = it.bodies()[3]["messages"][-1]["content"]
        assert "## Feedback from verify\nV-BAD\nV-LESSON" in guidance


async def test_calls_behind_the_transition_are_answered_before_the_guidance(tmp_path: Path) -> None:
    two = ScriptReply(
        calls=(
            ("transition", {"next_step": "implement", "summary": "S"}),
            ("Read", {"file_path": "a.txt"}),
        )
    )
    script = ByMovement({"plan": [two], "implement": [DONE]})
    async with rig(tmp_path, script, pieces=flow()) as it:
        job = await it.start(piece="flow")
        assert (await it.until_rest(job)).status == "succeeded"
        results = list(answers(it.bodies()[-1]["messages"]).values())
        assert results[0] == "ok" and results[1].startswith("Not run: the movement ended with transition")


@pytest.mark.parametrize(("share", "on"), [(0.6, True), (0.75, False)])
async def test_at_seventy_percent_of_the_context_it_restarts(tmp_path: Path, share: float, on: bool) -> None:
    script = ByMovement({"plan": [hop("implement", "S-PLAN")], "implement": [DONE]})
    async with rig(tmp_path, script, pieces=flow()) as it:
        whole = await it.until_rest(await it.start(piece="flow"))
        prompts = [e["promptTokens"] for e in await it.client.events(whole.job_id) if e["kind"] == "usage"]
        await it.stop()
        it.server.options = ServerOptions(context=round(prompts[0] / share))
        await it.engine()
        again = await it.until_rest(await it.start(piece="flow"))
        assert again.status == "succeeded", again.result
        assert joined(it)[-1] is on
        assert ("[plan] S-PLAN" in it.bodies()[-1]["messages"][1]["content"]) is not on


@pytest.mark.parametrize(
    ("conversation", "ratio", "forced", "on"),
    [
        ("continue", 0.0, False, True),
        ("continue", 0.699, False, True),
        ("continue", 0.70, False, False),
        ("continue", 0.2, True, False),
        ("restart", 0.0, False, False),
    ],
)
def test_when_a_conversation_goes_on(conversation: Any, ratio: float, forced: bool, on: bool) -> None:
    two = tuple(Movement(name, False, "", "x", (), (Rule("c", "b"),)) for name in ("a", "b"))
    piece = Piece("p", "", 5, "a", two, conversation=conversation)
    outcome = MovementResult(next="b", forced=forced)
    assert goes_on(piece, outcome, ratio, ContextLimits()) is on


def test_a_movement_that_joins_counts_afresh_but_knows_the_size_of_the_messages() -> None:
    known = Pressure(fired=("warn",), wrap_up=True, shrunk=True, accepted=7, prompt=900, real=900, real_at=7)
    after = turn_of_next(TurnState(iteration=9, text_only=2, batch="x", repeats=3, pressure=known))
    assert after == TurnState(pressure=Pressure(accepted=7, prompt=900, real=900, real_at=7))


# --- over a park ------------------------------------------------------------------------------------


def test_which_parks_keep_the_conversation() -> None:
    plain = Piece("p", "", 5, "a", (), resume="rebuild")
    kept = Piece("p", "", 5, "a", (), resume="continue")
    assert {row.sentinel for row in SETTLEMENTS if kept_over(row, plain)} == {
        "WAITING_HUMAN_APPROVAL",
        "WAITING_HUMAN_INTERRUPTED",
    }
    assert {row.sentinel for row in SETTLEMENTS if kept_over(row, kept)} == {
        "ASK",
        "WAIT_SUBTASKS",
        "WAITING_HUMAN_APPROVAL",
        "WAITING_HUMAN_INTERRUPTED",
    }


LOG = "\n".join(f"line {number} of the log" for number in range(150)) + "\nTHE LAST LINE"


@pytest.mark.parametrize("restarted", [False, True])
async def test_an_answer_becomes_the_result_of_the_question(tmp_path: Path, restarted: bool) -> None:
    def plan(request: Any) -> ScriptReply:
        return hop("implement") if request.contains("THE LAST LINE") else ASK

    script = ByMovement({"plan": plan, "implement": [DONE]})
    async with rig(tmp_path, script, pieces=flow(resume="continue")) as it:
        job = await it.start(piece="flow")
        parked = await it.until_rest(job)
        assert (parked.status, parked.wait_reason) == ("waiting_human", "question")
        if restarted:
            await it.stop()
            await it.engine()
        await it.client.answer(job, LOG)
        end = await it.until(job, lambda d: d.status == "succeeded")
        assert all(joined(it)), "message for message, and only appended"
        result = list(answers(it.bodies()[1]["messages"]).values())[-1]
        assert result == f"The person answered: {LOG}", "whole: a pasted log must not lose its end"
        assert [move.name for move in end.movements] == ["plan", "implement"], "the stay went on"
        assert sum(body["messages"][-1]["role"] == "user" for body in it.bodies()) == 2


async def test_the_answer_is_read_before_the_calls_that_stood_behind_the_question(tmp_path: Path) -> None:
    both = ScriptReply(
        calls=(
            ("complete", {"status": "needs_user_input", "result": "Overwrite?"}),
            ("Write", {"file_path": "b.txt", "content": "x\n"}),
        )
    )
    script = ByMovement({"implement": lambda request: DONE if request.contains("No!") else both})
    piece = flow(resume="continue")["flow"].replace("initial_movement: plan", "initial_movement: implement")
    async with rig(tmp_path, script, pieces={"flow": piece}) as it:
        job = await it.start(piece="flow")
        await it.until_rest(job)
        await it.client.answer(job, "No!")
        await it.until(job, lambda d: d.status == "succeeded")
        results = list(answers(it.bodies()[-1]["messages"]).values())
        assert results[0] == "The person answered: No!"
        assert results[1].startswith(
            "Not run: this call was made before you had read the result of complete."
        )
        assert not (it.workspace / "b.txt").exists()


async def test_each_question_of_one_conversation_gets_its_own_answer(tmp_path: Path) -> None:
    def plan(request: Any) -> ScriptReply:
        count = len(request.results("complete"))
        return (ASK, ASK, DONE)[count]

    async with rig(tmp_path, ByMovement({"plan": plan}), pieces=flow(resume="continue")) as it:
        job = await it.start(piece="flow")
        for text in ("the first", "the second"):
            request = await it.open_request(job)
            await it.client.answer(job, text, request.request_id)
            await it.until(job, lambda d, r=request: r.request_id not in d.open_requests)  # type: ignore[misc]
        end = await it.until(job, lambda d: d.status == "succeeded")
        results = list(answers(it.bodies()[-1]["messages"]).values())
        assert results == ["The person answered: the first", "The person answered: the second"]
        assert len(end.movements) == 1


async def test_after_more_than_an_hour_the_answer_is_followed_by_the_time(tmp_path: Path) -> None:
    script = ByMovement({"plan": lambda request: DONE if request.contains("at last") else ASK})
    async with rig(tmp_path, script, pieces=flow(resume="continue")) as it:
        job = await it.start(piece="flow")
        await it.until_rest(job)
        with sqlite3.connect(it.client.store_file) as db:
            db.execute("UPDATE runs SET started_at = started_at - 7200, ended_at = ended_at - 7200")
        await it.client.answer(job, "at last")
        await it.until(job, lambda d: d.status == "succeeded")
        assert all(joined(it))
        result, time = it.bodies()[1]["messages"][-2:]
        assert (result["role"], result["content"]) == ("tool", "The person answered: at last")
        assert time["role"] == "user" and "Now: 2" in time["content"]


async def test_with_rebuild_the_movement_starts_again_from_its_head(tmp_path: Path) -> None:
    script = ByMovement({"plan": lambda request: DONE if request.contains("the red one") else ASK})
    async with rig(tmp_path, script, pieces=flow(resume="rebuild")) as it:
        job = await it.start(piece="flow")
        await it.until_rest(job)
        await it.client.answer(job, "the red one")
        await it.until(job, lambda d: d.status == "succeeded")
        assert joined(it) == [False]
        assert it.bodies()[1]["messages"][1]["content"].endswith("The person answered: the red one")


# --- subtasks ---------------------------------------------------------------------------------------

FAMILY = """
name: family
description: fans out
max_movements: 10
initial_movement: split
conversation: {conversation}
resume: continue
movements:
  - name: split
    edit: false
    persona: You split.
    instruction: Split it.
    allowed_tools: [SpawnSubTask, WaitSubTask]
    rules: [{{condition: started, next: WAIT_SUBTASKS}}]
    default_next: gather
  - name: gather
    edit: false
    persona: You gather.
    instruction: Gather it.
    allowed_tools: []
    rules: []
"""


def family(*, by_rule: bool) -> ByMovement:
    spawn = call("SpawnSubTask", instruction="CHILD look", piece="chat", title="the child")
    wait = hop("WAIT_SUBTASKS", "S-SPLIT") if by_rule else call("WaitSubTask")
    return ByMovement(
        {
            "split": lambda request: (
                DONE if request.results("WaitSubTask") else wait if request.turn else spawn
            ),
            "gather": [DONE],
            "answer": [call("complete", status="success", result="CHILD-RESULT")],
        }
    )


def of_parent(it: Rig) -> list[list[dict[str, Any]]]:
    return [
        body["messages"]
        for body in it.bodies()
        if "You answer" not in str(body["messages"][1]) and "CHILD look" not in body["messages"][1]["content"]
    ]


@pytest.mark.parametrize("restarted", [False, True])
async def test_the_wait_gets_the_results_of_the_children(tmp_path: Path, restarted: bool) -> None:
    script = family(by_rule=False)
    async with rig(tmp_path, script, pieces={"family": FAMILY.format(conversation="restart")}) as it:
        job = await it.start(piece="family")
        if restarted:
            await it.until(job, lambda d: d.status == "waiting_subtasks")
            await it.stop()
            await it.engine()
        end = await it.until(job, lambda d: d.status == "succeeded")
        requests = of_parent(it)
        assert [later[: len(earlier)] == earlier for earlier, later in pairwise(requests)] == [True, True]
        result = list(answers(requests[-1]).values())[-1]
        assert "the child" in result and "CHILD-RESULT" in result
        assert [move.name for move in end.movements] == ["split"]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_wait_through_a_rule_goes_on_at_default_next_in_the_same_conversation(
    tmp_path: Path, restarted: bool
) -> None:
    script = family(by_rule=True)
    async with rig(tmp_path, script, pieces={"family": FAMILY.format(conversation="continue")}) as it:
        job = await it.start(piece="family")
        if restarted:
            await it.until(job, lambda d: d.status == "waiting_subtasks")
            await it.stop()
            await it.engine()
        end = await it.until(job, lambda d: d.status == "succeeded")
        requests = of_parent(it)
        assert [later[: len(earlier)] == earlier for earlier, later in pairwise(requests)] == [True, True]
        result = list(answers(requests[-1]).values())[-1]
        assert result.startswith("## Results of subtasks\n- ") and "CHILD-RESULT" in result
        guidance = requests[-1][-1]["content"]
        assert guidance.startswith("The movement split is over.") and "## Movement: gather" in guidance
        assert [(move.name, move.next) for move in end.movements] == [
            ("split", "WAIT_SUBTASKS"),
            ("gather", "COMPLETE"),
        ]


async def test_a_movement_that_restarts_after_such_a_wait_is_told_in_its_opening(tmp_path: Path) -> None:
    script = family(by_rule=True)
    async with rig(tmp_path, script, pieces={"family": FAMILY.format(conversation="restart")}) as it:
        job = await it.start(piece="family")
        await it.until(job, lambda d: d.status == "succeeded")
        opening = of_parent(it)[-1]
        assert [m["role"] for m in opening] == ["system", "user"]
        assert "CHILD-RESULT" in opening[1]["content"] and "[split] S-SPLIT" in opening[1]["content"]
