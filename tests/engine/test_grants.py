"""RequestTool: the person grants a tool for this movement, for the task or always, and no more than that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.grants import Grants, ToolRequest, grant_offer, granted_tools
from engine.core.policy_rules import RuleDraft, RuleKind, rule_from_json
from engine.llm.scripted import ScriptReply, call
from tests.engine.families import done, prompt_of, task_of
from tests.engine.rig import rig

PIECE = """
name: two
description: two movements
max_movements: 6
initial_movement: look
movements:
  - name: look
    edit: false
    persona: You look.
    instruction: Look.
    allowed_tools: [Read, SpawnSubTask, WaitSubTask]
    rules:
      - condition: seen
        next: again
  - name: again
    edit: false
    persona: You look again.
    instruction: Look again.
    allowed_tools: [Read]
    rules: []
"""
PIECES = {"two": PIECE}
BASH = ("Bash", {"command": "echo granted"})


def asks(request: Any, tool: str = "Bash", reason: str = "to count") -> ScriptReply:
    """Asks for a tool, and ends with what it was told the second time."""
    results = request.results("RequestTool")
    return done(results[-1].text) if results else call("RequestTool", tool=tool, reason=reason)


def names(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


def permitted(body: dict[str, Any]) -> str:
    return next(line for line in prompt_of(body).splitlines() if line.startswith("Permitted here: "))


async def test_a_tool_granted_once_is_offered_permitted_and_announced(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if request.results("Bash"):
            return done(request.last_result("Bash"))
        return call(BASH[0], **BASH[1]) if "Bash" in request.tool_names else asks(request)

    async with rig(tmp_path, script, pieces=PIECES, sandbox="off") as it:
        job = await it.start("count", piece="two")
        request = await it.open_request(job)
        detail = await it.client.show(job)
        assert (detail.status, detail.wait_reason, detail.resume_movement) == (
            "waiting_human",
            "tool_request",
            "look",
        )
        assert (request.tool, request.title) == ("RequestTool", "Use Bash in the movement “look”")
        assert request.detail == "to count" and request.rule is not None and "Bash" in request.rule
        assert (request.title_key, request.title_values) == (
            "asked.tool",
            {"tool": "Bash", "movement": "look"},
        )
        await it.client.decide(request.request_id, "allow")
        asked = await it.open_request(
            job
        )  # the grant permits; the person's mode still asks about the command
        assert asked.reason == "approval" and asked.tool == "Bash"
        await it.client.decide(asked.request_id, "allow")
        end = await it.until_rest(job)
        assert end.status == "succeeded" and "granted" in (end.result or "")

        first, second, third = it.bodies()
        assert "Bash" not in names(first) and {"Bash", "BashOutput", "BashStop"} <= set(names(second))
        assert "Bash" not in permitted(first) and "Bash" in permitted(second)
        assert "Use Bash in the movement “look”: allowed" in prompt_of(second)
        assert second["tools"] == third["tools"], "after the break the bytes stand again"
        (broken,) = [e for e in await it.client.events(job) if e["kind"] == "cache_break"]
        assert broken["announced"] is True and broken["reason"] == "tool_request"
        assert broken["tools"] == ["Bash", "BashOutput", "BashStop"]
        old, new = (
            json.dumps(b["tools"], ensure_ascii=False, separators=(",", ":")).encode()
            for b in (first, second)
        )
        at = broken["firstDifference"]
        assert old[:at] == new[:at] and old[at] != new[at]


@pytest.mark.parametrize("scope", ["once", "task", "always"])
async def test_how_far_a_grant_reaches(tmp_path: Path, scope: str) -> None:
    def script(request: Any) -> ScriptReply:
        task = task_of(request)
        if task == "lead":
            if "Bash" not in request.tool_names:
                return call("RequestTool", tool="Bash", reason="x")
            if request.movement == "look" and not request.results():
                return ScriptReply(calls=(("SpawnSubTask", {"instruction": "child", "piece": "two"}),))
            if request.movement == "look" and not request.contains("Results of subtasks"):
                return call("WaitSubTask")
            if request.movement == "look" and not request.results("transition"):
                return call("transition", next_step="again", summary="s")
        return asks(request)

    async with rig(tmp_path, script, pieces=PIECES) as it:
        job = await it.start("lead", piece="two")
        await it.client.decide((await it.open_request(job)).request_id, "allow", scope=scope)
        # The child, the other movement, another task: each asks for the same tool.
        for _ in range(2 if scope == "once" else 0):
            request = await it.open_request(job)
            assert request.reason == "tool_request"
            await it.client.decide(request.request_id, "deny")
        end = await it.until(job, lambda d: d.status == "succeeded")
        assert ("permitted here" in (end.result or "")) is (scope != "once")
        stranger = await it.start("stranger", piece="two")
        rest = await it.until_rest(stranger)
        assert (rest.status == "succeeded") is (scope == "always")
        assert len(await it.client.rules()) == int(scope != "once")
        if scope == "always":
            body = it.bodies()[-1]
            assert "Bash" in names(body), (
                "a tool granted before the first claim is in the array from the start"
            )
            assert not [e for e in await it.client.events(stranger) if e["kind"] == "cache_break"]
            (stored,) = await it.client.rules()
            await it.client.remove_rule(stored.id)
            late = await it.start("late", piece="two")
            assert (await it.until_rest(late)).wait_reason == "tool_request"


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("Read", "Read is permitted here"),
        ("complete", "complete is permitted here"),
        ("Fly", "Tools that exist: Read, Write"),
        ("Write", "edit: false"),
        ("Edit", "edit: false"),
        ("", "Tools that exist"),
    ],
)
async def test_what_is_not_worth_asking_is_said_at_once(tmp_path: Path, tool: str, said: str) -> None:
    async with rig(tmp_path, lambda request: asks(request, tool), pieces=PIECES) as it:
        job = await it.start("look", piece="two")
        end = await it.until_rest(job)
        assert end.status == "succeeded" and said in (end.result or "")
        assert end.requests == []


async def test_a_removed_rule_permits_nothing_from_the_next_call_on(tmp_path: Path) -> None:
    gate = tmp_path / "removed"

    def script(request: Any) -> ScriptReply:
        if "Glob" not in request.tool_names:
            return call("RequestTool", tool="Glob", reason="x")
        results = request.results("Glob")
        if len(results) == 1 and not gate.exists():
            return call("Read", file_path=f"n{request.turn}")
        return (
            done("\n".join(r.text for r in results))
            if len(results) == 2
            else call("Glob", pattern=f"*.{len(results)}")
        )

    async with rig(tmp_path, script, pieces=PIECES) as it:
        job = await it.start("look", piece="two")
        await it.client.decide((await it.open_request(job)).request_id, "allow", scope="task")
        await it.until(
            job,
            lambda d: (
                any(r.get("function") for b in it.bodies()[-1:] for r in b["tools"])
                and len(it.server.requests) > 3
            ),
        )
        for stored in await it.client.rules():
            await it.client.remove_rule(stored.id)
        gate.touch()
        end = await it.until_rest(job)
        assert "Glob is not permitted" in (end.result or "")


async def test_a_tool_is_not_added_to_a_conversation_that_is_restored(tmp_path: Path) -> None:
    """An approval goes on with the same bytes, whatever another job was granted meanwhile."""

    def script(request: Any) -> ScriptReply:
        if task_of(request) == "other":
            return asks(request)
        return done() if request.results("Write") else call("Write", file_path="a.txt", content="x")

    writes = PIECE.replace("edit: false", "edit: true").replace("name: two", "name: writes")
    async with rig(tmp_path, script, pieces={**PIECES, "writes": writes}, mode="ask") as it:
        job = await it.start("mine", piece="writes")
        approval = await it.open_request(job)
        other = await it.start("other", piece="two")
        await it.client.decide((await it.open_request(other)).request_id, "allow", scope="always")
        assert (
            await it.until(other, lambda d: d.status == "succeeded")
        ).result == "Bash is permitted here. Call it."
        await it.client.decide(approval.request_id, "allow")
        assert (await it.until(job, lambda d: d.status == "succeeded")).result == "done"
        mine = [body for body in it.bodies() if "mine" in prompt_of(body)]
        assert len(mine) == 2 and mine[0]["tools"] == mine[1]["tools"]
        assert "cache_break" not in await it.kinds(job)


TOOLS = st.sampled_from(["Bash", "Glob", "Grep"])
MOVEMENTS = st.sampled_from(["a", "b"])
REQUESTS = st.lists(
    st.builds(
        ToolRequest,
        TOOLS.map("tool:{}".format),
        st.sampled_from(["allow", "deny"]),
        st.sampled_from(["once", "task", "always"]),
        MOVEMENTS,
    )
)
RULES = st.lists(st.builds(RuleDraft, st.sampled_from(list(RuleKind)), st.just(()), TOOLS))


@given(requests=REQUESTS, rules=RULES, movement=MOVEMENTS)
def test_a_grant_never_reaches_further_than_what_was_said(
    requests: list[ToolRequest], rules: list[RuleDraft], movement: str
) -> None:
    found = granted_tools(movement, requests, rules)
    for tool in found:
        by_rule = any(rule.kind is RuleKind.GRANT and rule.name == tool for rule in rules)
        by_request = any(
            (r.key, r.decision, r.scope, r.movement) == (f"tool:{tool}", "allow", "once", movement)
            for r in requests
        )
        assert by_rule or by_request
    assert found <= Grants(tuple(requests), tuple(rules)).anywhere()


def test_a_stored_grant_reads_back_as_itself_and_covers_no_call() -> None:
    offer = grant_offer("Bash")
    assert rule_from_json(json.dumps(offer.draft)) == RuleDraft(RuleKind.GRANT, name="Bash")
    from engine.core.policy_rules import Question, matches
    from engine.core.tooling import Effect

    for effect in Effect:
        question = Question(tool="Bash", effect=effect, command="echo x")
        assert not matches(RuleDraft(RuleKind.GRANT, name="Bash"), question)
