"""Approvals: the conversation goes on message for message, the call runs exactly once, silence does
nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.errors import AlreadySettled, BadArgument, IllegalMove
from engine.llm.scripted import call
from tests.engine.rig import Rig, rig

ONE = """
name: one
description: one movement
max_movements: 3
initial_movement: work
movements:
  - name: work
    edit: true
    persona: You work.
    instruction: Work.
    allowed_tools: [Read, Write, Edit]
    rules: []
"""


def writer(request):  # type: ignore[no-untyped-def]
    """Writes b.txt and c.txt in one reply, then ends with what it was told."""
    results = request.results("Write")
    if not results:
        from engine.llm.scripted import ScriptReply

        return ScriptReply(
            calls=(
                ("Write", {"file_path": "b.txt", "content": "b\n"}),
                ("Write", {"file_path": "c.txt", "content": "c\n"}),
            )
        )
    return call("complete", status="success", result=" | ".join(result.text for result in results))


async def parked(it: Rig) -> tuple[str, str]:
    job = await it.start(piece="one")
    request = await it.open_request(job)
    return job, request.request_id


async def test_an_approval_shows_the_diff_and_why_and_resumes_where_it_was(tmp_path: Path) -> None:
    async with rig(tmp_path, writer, pieces={"one": ONE}, mode="ask") as it:
        job, first = await parked(it)
        request = await it.client.request(first)
        assert request.reason == "approval"
        assert request.tool == "Write" and request.title.startswith("Write b.txt")
        assert request.diff is not None and request.diff[0].before is None and request.diff[0].after == "b\n"
        assert request.why and request.rule
        assert not (it.workspace / "b.txt").exists()
        await it.client.decide(first, "allow")
        second = (await it.open_request(job)).request_id
        assert second != first
        assert (it.workspace / "b.txt").read_text() == "b\n" and not (it.workspace / "c.txt").exists()
        await it.client.decide(second, "allow")
        end = await it.until_rest(job)
        assert end.status == "succeeded"
        bodies = it.bodies()
        assert len(bodies) == 2, "an approval costs no model call"
        assert bodies[1]["messages"][: len(bodies[0]["messages"])] == bodies[0]["messages"]
        tools = [message for message in bodies[1]["messages"] if message["role"] == "tool"]
        assert len(tools) == 2 and len({message["tool_call_id"] for message in tools}) == 2
        events = [event for event in await it.client.events(job) if event["kind"] == "tool_result"]
        assert [event["ok"] for event in events] == [True, True]


async def test_a_declined_call_comes_back_with_the_note_and_the_rest_goes_on(tmp_path: Path) -> None:
    async with rig(tmp_path, writer, pieces={"one": ONE}, mode="ask") as it:
        job, first = await parked(it)
        await it.client.decide(first, "deny", note="keep b for later")
        second = (await it.open_request(job)).request_id
        await it.client.decide(second, "allow")
        end = await it.until_rest(job)
        assert "keep b for later" in (end.result or "")
        assert not (it.workspace / "b.txt").exists() and (it.workspace / "c.txt").exists()


async def test_allow_for_this_task_stores_a_rule_and_asks_no_more(tmp_path: Path) -> None:
    async with rig(tmp_path, writer, pieces={"one": ONE}, mode="ask") as it:
        job, first = await parked(it)
        await it.client.decide(first, "allow", scope="task")
        end = await it.until_rest(job)
        assert end.status == "succeeded" and (it.workspace / "c.txt").exists()
        assert [rule.scope for rule in await it.client.rules()] == ["task"]
        for name in ("b.txt", "c.txt"):
            (it.workspace / name).unlink()
        other = await it.start(piece="one", instruction="again")
        assert (await it.until(other, lambda d: bool(d.open_requests))).status == "waiting_human"


async def test_the_first_decision_wins_and_the_second_learns_of_it(tmp_path: Path) -> None:
    async with rig(tmp_path, writer, pieces={"one": ONE}, mode="ask") as it:
        _, first = await parked(it)
        await it.client.decide(first, "deny")
        with pytest.raises(AlreadySettled) as late:
            await it.client.decide(first, "allow")
        assert late.value.data["decision"] == "deny" and late.value.data["by"] == "test"


async def test_a_changed_file_makes_it_another_request(tmp_path: Path) -> None:
    async with rig(tmp_path, writer, pieces={"one": ONE}, mode="ask") as it:
        job, first = await parked(it)
        await it.stop()
        (it.workspace / "b.txt").write_text("somebody else's\n")
        await it.client.decide(first, "allow")
        await it.engine()
        detail = await it.until_rest(job)
        assert (it.workspace / "b.txt").read_text() == "somebody else's\n"
        assert detail.status == "waiting_human", "only c.txt is asked for now; b.txt was refused"


async def test_an_approval_survives_a_restart_of_the_engine(tmp_path: Path) -> None:
    async with rig(tmp_path, writer, pieces={"one": ONE}, mode="ask") as it:
        job, first = await parked(it)
        await it.stop()
        assert [request.request_id for request in await it.client.open_requests()] == [first]
        await it.client.decide(first, "allow", scope="task")
        await it.engine()
        assert (await it.until_rest(job)).status == "succeeded"
        assert len(it.bodies()) == 2


async def test_a_cancelled_job_withdraws_its_request(tmp_path: Path) -> None:
    async with rig(tmp_path, writer, pieces={"one": ONE}, mode="ask") as it:
        job, first = await parked(it)
        assert await it.client.cancel(job) is True
        assert (await it.client.show(job)).status == "cancelled"
        with pytest.raises(AlreadySettled):
            await it.client.decide(first, "allow")
        with pytest.raises(IllegalMove):
            await it.client.cancel(job)


async def test_a_question_wants_an_answer_and_an_approval_a_decision(tmp_path: Path) -> None:
    ask = call("complete", status="needs_user_input", result="Which?")
    async with rig(tmp_path, [ask], pieces={"one": ONE}) as it:
        job, request = await parked(it)
        with pytest.raises(BadArgument):
            await it.client.decide(request, "allow")
        with pytest.raises(BadArgument):
            await it.client.answer(job, "   ")
