"""Replies as models and servers really give them, played through the whole engine: what runs, what is
answered, what is sent back. The scripted server refuses what a strict server would refuse.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.tooling import Effect, Outcome, Prepared, RequestDraft, Signal, ToolResult
from engine.core.views import JobDetail
from engine.llm.scripted import Queue, ScriptReply, call, say
from engine.ports import ToolContext
from engine.service import Extras
from engine.toolbox import resolve_name
from tests.engine.families import PARENT, PIECES, spawn, task_of
from tests.engine.odd import BASH, DONE, ODD_PIECE, NoArgs, odd_tool, tool_messages
from tests.engine.rig import Rig, rig
from tests.engine.test_approvals import ONE

ASKS = {"pieces": {"one": ONE}, "mode": "ask"}
TWO = """
name: two
description: two movements in one conversation
max_movements: 3
initial_movement: work
conversation: continue
movements:
  - name: work
    edit: true
    persona: You work.
    instruction: Work.
    allowed_tools: [Read, Bash, Odd]
    rules:
      - condition: it is done
        next: verify
      - condition: it cannot be done
        next: report
  - name: verify
    edit: false
    persona: You look.
    instruction: Look.
    allowed_tools: [Read]
    rules: []
  - name: report
    edit: false
    persona: You tell.
    instruction: Tell.
    allowed_tools: [Read]
    rules: []
"""


def raw(*deltas: Any, finish: str | None = "tool_calls") -> ScriptReply:
    """A stream of these deltas."""
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return ScriptReply(raw_chunks=(body.encode(),))


def entry(name: str, arguments: str, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"index": index, "function": {"name": name, "arguments": arguments}, **more}


def assistants(it: Rig) -> list[dict[str, Any]]:
    return [m for m in it.bodies()[-1]["messages"] if m["role"] == "assistant"]


def then_done(*replies: ScriptReply) -> Any:
    """These replies, then the end."""
    return lambda request: replies[request.turn] if request.turn < len(replies) else DONE


async def ended(it: Rig, piece: str = "one") -> JobDetail:
    """A job at its end; whatever it asks for is allowed."""
    job = await it.start(piece=piece)
    while True:
        detail = await it.until_rest(job)
        if not detail.open_requests:
            return detail
        for request in detail.open_requests:
            await it.client.decide(request, "allow")
        asked = set(detail.open_requests)
        await it.until(job, lambda now, asked=asked: not asked & set(now.open_requests))  # type: ignore[misc]


# -- ids ---------------------------------------------------------------------------------------------


@pytest.mark.fault("A: first delta has index but no id")
async def test_a_call_without_an_id_gets_one_runs_once_and_goes_back_under_it(tmp_path: Path) -> None:
    first = raw(
        {"tool_calls": [{"index": 0, "function": {"name": "Bash"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"command":"echo x'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ' >> log"}'}}]},
    )
    async with rig(tmp_path, then_done(first, first), pieces={"one": BASH}, mode="ask") as it:
        end = await ended(it)
        assert end.status == "succeeded", end.result
        assert (it.workspace / "log").read_text() == "x\nx\n"
        sent = it.bodies()[-1]["messages"]
        calls = [call for message in sent for call in message.get("tool_calls") or ()]
        answers = [m["tool_call_id"] for m in sent if m["role"] == "tool"]
        assert [call["id"] for call in calls] == answers and len(set(answers)) == 2
        assert all(len(one) == 9 and one.isalnum() for one in answers)
        assert not any("echo" in (message["content"] or "") for message in assistants(it))
        journalled = {e["callId"] for e in await it.client.events(end.job_id) if e["kind"] == "tool_call"}
        assert set(answers) == journalled


@pytest.mark.fault("A: first delta has index but no id", neighbour=True)
async def test_a_random_id_that_comes_again_in_another_conversation_is_another_call(tmp_path: Path) -> None:
    """A server that draws its ids from a fixed seed gives the same ones in every new conversation."""
    same = raw({"tool_calls": [entry("Bash", '{"command":"echo x >> log"}', id="call_q7W2x9Lk4")]})
    piece = TWO.replace("conversation: continue\n", "").replace("[Read]", "[Bash]")
    hop = call("transition", next_step="verify", summary="s")

    def script(request: Any) -> ScriptReply:
        if not request.results("Bash"):
            return same
        return hop if request.movement == "work" else DONE

    async with rig(tmp_path, script, pieces={"two": piece}, mode="ask") as it:
        end = await ended(it, "two")
        assert end.status == "succeeded", end.result
        assert (it.workspace / "log").read_text() == "x\nx\n", tool_messages(it)


# -- duplicates ----------------------------------------------------------------------------------------


@pytest.mark.fault("A: the same call nine times")
async def test_nine_times_the_same_command_is_asked_about_once_and_run_once(tmp_path: Path) -> None:
    nine = raw(
        {"tool_calls": [entry("Bash", '{"command":"echo up >> log"}', n, id=f"x{n}") for n in range(9)]}
    )
    async with rig(tmp_path, then_done(nine), pieces={"one": BASH}, mode="ask") as it:
        end = await ended(it)
        assert (it.workspace / "log").read_text() == "up\n" and len(end.requests) == 1
        ran, *others = tool_messages(it)
        assert "exit status 0" in ran
        assert len(others) == 8 and all("repeats call 1 " in text for text in others), others


@pytest.mark.fault("A: the same call nine times", neighbour=True)
async def test_the_same_write_in_other_words_is_written_once_and_reads_are_all_answered(
    tmp_path: Path,
) -> None:
    same = [
        '{"file_path":"a","content":"x"}',
        '{ "content": "x", "file_path": "a" }',
        '"{\\"file_path\\":\\"a\\",\\"content\\":\\"x\\"}"',
    ]
    reads = [entry("Read", '{"file_path":"b"}', n) for n in range(3)]
    writes = [entry("Write", text, 3 + n) for n, text in enumerate(same)]
    async with rig(tmp_path, then_done(raw({"tool_calls": [*reads, *writes]})), pieces={"one": ONE}) as it:
        (it.workspace / "b").write_text("here\n")
        assert (await ended(it)).status == "succeeded"
        texts = tool_messages(it)
        assert all("here" in text for text in texts[:3])
        assert ["repeats call" in text for text in texts[3:]] == [False, True, True]


# -- broken arguments ------------------------------------------------------------------------------------

BROKEN = '{"path":"a.py", "content":"x'


@pytest.mark.fault("A: malformed arguments poison the history")
async def test_broken_arguments_are_answered_with_their_place_and_the_next_turn_succeeds(
    tmp_path: Path,
) -> None:
    async with rig(
        tmp_path, then_done(raw({"tool_calls": [entry("Write", BROKEN)]})), pieces={"one": ONE}
    ) as it:
        assert (await ended(it)).status == "succeeded"
        (text,) = tool_messages(it)
        assert "column 29" in text and "column 27 is not closed" in text and "file_path: string" in text
        (sent,) = assistants(it)[0]["tool_calls"]
        assert json.loads(sent["function"]["arguments"]) == {}


@pytest.mark.fault("A: malformed arguments poison the history")
async def test_arguments_that_stay_broken_end_with_a_reason_after_a_few_turns(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return raw({"tool_calls": [entry("Write", BROKEN + "x" * request.turn)]})

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        end = await ended(it)
        assert (end.status, end.reason) == ("aborted", "repeated_calls") and len(it.server.requests) == 4


@pytest.mark.fault("A: malformed arguments poison the history", neighbour=True)
async def test_another_tool_each_time_does_not_make_broken_arguments_endless(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return raw({"tool_calls": [entry(("Write", "Edit", "Read")[request.turn % 3], BROKEN)]})

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        end = await ended(it)
        assert (end.status, end.reason) == ("aborted", "repeated_calls") and len(it.server.requests) == 4


@pytest.mark.fault("A: malformed arguments poison the history", neighbour=True)
@pytest.mark.parametrize("broken", ['{"n": 1, ', '["n"]', "[" * 5000, '{"n": NaN}', '{"n":1}{"n":2}'])
async def test_a_broken_call_is_still_broken_after_a_park_and_a_restart(tmp_path: Path, broken: str) -> None:
    ran: list[int] = []

    async def run(ctx: ToolContext, args: NoArgs, prepared: Prepared) -> Outcome:
        ran.append(args.n)
        return ToolResult("fine")

    both = raw({"tool_calls": [entry("Write", '{"file_path":"a","content":"x"}'), entry("Odd", broken, 1)]})
    extras = Extras(tools=(odd_tool(Effect.READ, run),))
    piece = {"one": ODD_PIECE.replace("Read, Odd", "Read, Write, Odd")}
    async with rig(tmp_path, then_done(both), pieces=piece, mode="ask", extras=extras) as it:
        job = await it.start(piece="one")
        request = await it.open_request(job)
        await it.stop()
        await it.engine()
        await it.client.decide(request.request_id, "allow")
        end = await it.until(job, lambda d: d.status in ("succeeded", "failed", "aborted"))
        assert end.status == "succeeded", end.result
        assert "arguments of Odd are not valid" in tool_messages(it)[1] and "JSON" in tool_messages(it)[1]
        assert ran == [] and (it.workspace / "a").exists()


# -- names -----------------------------------------------------------------------------------------------


@pytest.mark.fault("A: unknown or decorated tool names")
@pytest.mark.parametrize("name", ["Readread", "functions.Read", "Read<|channel|>commentary", "read", "READ "])
async def test_a_name_that_can_mean_one_tool_only_is_that_tool(tmp_path: Path, name: str) -> None:
    reply = raw({"tool_calls": [entry(name, '{"file_path":"a"}')]})
    async with rig(tmp_path, then_done(reply), pieces={"one": ONE}) as it:
        (it.workspace / "a").write_text("here\n")
        assert (await ended(it)).status == "succeeded"
        assert "here" in tool_messages(it)[0]
        assert assistants(it)[0]["tool_calls"][0]["function"]["name"] == "Read"


@pytest.mark.fault("A: unknown or decorated tool names")
@pytest.mark.parametrize(
    "name", ["str_replace_editor", "Readwrite", "Rea", "functions", "", "読む", "R" * 90]
)
async def test_a_name_that_means_no_tool_is_answered_with_those_there_are(tmp_path: Path, name: str) -> None:
    reply = raw({"tool_calls": [entry(name, "{}", id="a")]})
    async with rig(tmp_path, then_done(reply), pieces={"one": ONE}) as it:
        assert (await ended(it)).status == "succeeded"
        (text,) = tool_messages(it)
        assert "There is no tool called" in text and "Read" in text and "Write" in text and "complete" in text


@pytest.mark.fault("A: unknown or decorated tool names")
async def test_three_replies_with_invented_tools_end_with_the_reason(tmp_path: Path) -> None:
    async with rig(tmp_path, lambda request: call(f"Fly{request.turn}"), pieces={"one": ONE}) as it:
        end = await ended(it)
        assert (end.status, end.reason, len(it.server.requests)) == ("aborted", "unknown_tool", 3)


@pytest.mark.fault("A: unknown or decorated tool names")
@pytest.mark.parametrize("name", ["functions.write", "WriteWrite", "WRITE<|channel|>commentary"])
async def test_a_decorated_name_is_judged_as_the_tool_it_means(tmp_path: Path, name: str) -> None:
    reply = raw({"tool_calls": [entry(name, '{"file_path":"a","content":"x"}')]})
    async with rig(tmp_path, then_done(reply), **ASKS) as it:
        job = await it.start(piece="one")
        request = await it.open_request(job)
        assert (request.tool, request.title[:7]) == ("Write", "Write a") and request.rule
        assert not (it.workspace / "a").exists()


@pytest.mark.fault("A: unknown or decorated tool names", neighbour=True)
@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("READ", ["Read", "read"], None),
        ("read", ["Read", "read"], "read"),
        ("readREAD", ["Read"], "Read"),
        ("ReadReadRead", ["Read"], None),
        ("default_api.Read", ["Read"], "Read"),
        ("tools:functions.Read", ["Read"], "Read"),
        ("mcp__a__Read", ["Read"], None),
        ("a.b", ["a_b"], None),
    ],
)
def test_only_what_is_certain_is_repaired(name: str, known: list[str], meant: str | None) -> None:
    assert resolve_name(name, known) == meant


# -- several calls of which one ends the movement ----------------------------------------------------------


EDIT = ("Edit", {"file_path": "f", "old_string": "one", "new_string": "two"})
WRITE = ("Write", {"file_path": "late", "content": "x"})
COMPLETE = ("complete", {"status": "success", "result": "done"})


def hop(to: str) -> tuple[str, dict[str, str]]:
    return ("transition", {"next_step": to, "summary": f"to {to}"})


def first_then_done(*calls: Any) -> Any:
    """One reply with these calls, then the end as soon as another movement or another turn begins."""
    first = ScriptReply(calls=calls)
    look = call("Read", file_path="f")
    return lambda request: (
        first if request.turn == (0 if calls[0][0] != "Edit" else 1) else DONE if request.turn else look
    )


@pytest.mark.fault("A: transition called together with other tools")
async def test_calls_before_the_hop_run_and_those_after_it_do_not(tmp_path: Path) -> None:
    script = first_then_done(EDIT, hop("verify"), ("Bash", {"command": "touch late"}))
    async with rig(tmp_path, script, pieces={"two": TWO}, mode="all") as it:
        (it.workspace / "f").write_text("one\n")
        end = await ended(it, "two")
        assert end.status == "succeeded", end.result
        assert [movement.name for movement in end.movements] == ["work", "verify"]
        assert (it.workspace / "f").read_text() == "two\n" and not (it.workspace / "late").exists()
        _, edited, _, late = tool_messages(it)
        assert "Changed f" in edited and late == NOT_RUN.format("transition")


NOT_RUN = "Not run: the movement ended with {} before this call."


@pytest.mark.fault("A: transition called together with other tools")
@pytest.mark.parametrize(
    ("targets", "visited", "answers"),
    [
        (("verify", "report"), ["work", "verify"], ("ok", NOT_RUN.format("transition"))),
        (("nowhere", "report"), ["work", "report"], ("Valid: verify, report", "ok")),
        (("COMPLETE", "verify"), ["work", "verify"], ("call `complete`", "ok")),
    ],
)
async def test_of_two_hops_the_first_that_is_valid_wins(
    tmp_path: Path, targets: tuple[str, str], visited: list[str], answers: tuple[str, str]
) -> None:
    script = first_then_done(*map(hop, targets))
    async with rig(tmp_path, script, pieces={"two": TWO}) as it:
        end = await ended(it, "two")
        assert [movement.name for movement in end.movements] == visited and end.status == "succeeded"
        told = tool_messages(it)
        assert len(told) == 2 and all(text in said for text, said in zip(answers, told, strict=True)), told


@pytest.mark.fault("A: transition called together with other tools")
async def test_nothing_after_complete_runs(tmp_path: Path) -> None:
    async with rig(tmp_path, [ScriptReply(calls=(COMPLETE, EDIT, WRITE))], pieces={"one": ONE}) as it:
        (it.workspace / "f").write_text("one\n")
        assert (await ended(it)).status == "succeeded"
        assert not (it.workspace / "late").exists() and len(it.server.requests) == 1
        assert (it.workspace / "f").read_text() == "one\n"


@pytest.mark.fault("A: transition called together with other tools")
@pytest.mark.parametrize("kept", ["resume: rebuild", "conversation: continue\nresume: continue"])
async def test_nothing_after_a_wait_for_subtasks_runs(tmp_path: Path, kept: str) -> None:
    """Neither before the results are there, nor after: it was written without them."""

    def script(request: Any) -> ScriptReply:
        if task_of(request) != "lead" or request.contains("succeeded"):
            return DONE
        return (
            ScriptReply(calls=(("WaitSubTask", {}), EDIT)) if request.results("SpawnSubTask") else spawn("a")
        )

    parent = PARENT.replace("initial_movement", f"{kept}\ninitial_movement")
    async with rig(tmp_path, script, pieces={**PIECES, "parent": parent}) as it:
        (it.workspace / "f").write_text("one\n")
        job = await it.start("lead", piece="parent")
        await it.until(job, lambda detail: detail.status == "succeeded")
        assert (it.workspace / "f").read_text() == "one\n"
        if "conversation" in kept:
            _, results, late = tool_messages(it)
            assert "succeeded" in results and "before you had read the result of WaitSubTask" in late


@pytest.mark.fault("A: transition called together with other tools", neighbour=True)
async def test_waiting_again_and_again_for_what_has_ended_is_still_a_repetition(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request) != "lead":
            return DONE
        ready = request.contains("Results of subtasks") or request.results("SpawnSubTask")
        return call("WaitSubTask") if ready else spawn("a")

    async with rig(tmp_path, script, pieces=PIECES) as it:
        job = await it.start("lead", piece="parent")
        end = await it.until(job, lambda detail: detail.status in ("aborted", "succeeded", "failed"))
        assert (end.status, end.reason) == ("aborted", "repeated_calls")


async def _park(ctx: ToolContext, args: NoArgs, prepared: Prepared) -> Outcome:
    if await ctx.decided("odd") is not None:
        return ToolResult("decided")
    draft = RequestDraft("odd", "Odd?")
    return Signal("WAITING_HUMAN_TOOL_REQUEST", wait_reason="tool_request", request=draft)


@pytest.mark.fault("A: transition called together with other tools")
async def test_nothing_after_a_call_that_parks_runs(tmp_path: Path) -> None:
    """A wait of any kind: the movement folds at the call."""
    extras = Extras(tools=(odd_tool(Effect.CONTROL, _park),))
    piece = ODD_PIECE.replace("Read, Odd", "Read, Write, Odd")
    script = then_done(ScriptReply(calls=(("Odd", {}), WRITE)))
    async with rig(tmp_path, script, pieces={"one": piece}, extras=extras) as it:
        job = await it.start(piece="one")
        request = await it.open_request(job)
        assert not (it.workspace / "late").exists()
        await it.client.decide(request.request_id, "allow")
        await it.until(job, lambda d: d.status == "succeeded")
        assert (it.workspace / "late").exists(), "the model made its calls again, after the answer"


@pytest.mark.fault("A: transition called together with other tools", neighbour=True)
async def test_a_complete_that_is_refused_does_not_end_the_reply(tmp_path: Path) -> None:
    script = then_done(ScriptReply(calls=(("complete", {"status": "success", "result": " "}), WRITE)))
    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        assert (await ended(it)).status == "succeeded"
        refused, written = tool_messages(it)
        assert "empty" in refused and (it.workspace / "late").exists(), written


# -- order -------------------------------------------------------------------------------------------------


@pytest.mark.fault("A: order between parallel calls")
async def test_a_command_sees_the_file_that_the_call_before_it_wrote(tmp_path: Path) -> None:
    both = ScriptReply(
        calls=(("Write", {"file_path": "plan.md", "content": "x"}), ("Bash", {"command": "ls"}))
    )
    piece = ONE.replace("[Read, Write, Edit]", "[Read, Bash]")
    async with rig(tmp_path, then_done(both), pieces={"one": piece}, mode="ask") as it:
        assert (await ended(it)).status == "succeeded"
        assert "plan.md" in tool_messages(it)[1]


@pytest.mark.fault("A: order between parallel calls")
async def test_two_edits_of_one_file_happen_one_after_the_other(tmp_path: Path) -> None:
    edits = [
        ("Edit", {"file_path": "f", "old_string": a, "new_string": b})
        for a, b in (("one", "two"), ("two", "three"))
    ]
    script = then_done(call("Read", file_path="f"), ScriptReply(calls=tuple(edits)))
    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        (it.workspace / "f").write_text("one\n")
        assert (await ended(it)).status == "succeeded"
        assert (it.workspace / "f").read_text() == "three\n"


@pytest.mark.fault("A: order between parallel calls", neighbour=True)
async def test_results_stand_in_the_order_of_the_calls_whichever_ended_first(tmp_path: Path) -> None:
    """Reads run at once; the first waits for the last, and only then ends."""
    last = asyncio.Event()
    order: list[int] = []

    async def run(ctx: ToolContext, args: NoArgs, prepared: Prepared) -> Outcome:
        if args.n < 2:
            await asyncio.wait_for(last.wait(), 5)
        order.append(args.n)
        last.set()
        return ToolResult(f"number {args.n}")

    extras = Extras(tools=(odd_tool(Effect.READ, run),))
    three = ScriptReply(calls=tuple(("Odd", {"n": n}) for n in range(3)))
    async with rig(tmp_path, then_done(three), pieces={"one": ODD_PIECE}, extras=extras) as it:
        assert (await ended(it)).status == "succeeded"
        assert tool_messages(it) == ["number 0", "number 1", "number 2"] and order[0] == 2


# -- cut replies --------------------------------------------------------------------------------------------

HALF, WHOLE = '{"file_path":"README.md","content":"# A\\n', '{"file_path":"README.md","content":"# A"}'


@pytest.mark.fault("A: output limit hit inside a tool call")
@pytest.mark.parametrize("arguments", [HALF, WHOLE])
async def test_nothing_of_a_reply_cut_at_the_limit_is_done_and_the_way_out_is_told(
    tmp_path: Path, arguments: str
) -> None:
    cut = raw({"tool_calls": [entry("Write", arguments)]}, finish="length")
    async with rig(tmp_path, then_done(cut), pieces={"one": ONE}) as it:
        assert (await ended(it)).status == "succeeded"
        (text,) = tool_messages(it)
        assert "output limit" in text and "smaller edits" in text
        assert not (it.workspace / "README.md").exists()


@pytest.mark.fault("A: output limit hit inside a tool call")
async def test_a_second_cut_in_a_row_ends_with_the_reason(tmp_path: Path) -> None:
    cut = raw({"tool_calls": [entry("Write", HALF)]}, finish="length")
    async with rig(tmp_path, lambda request: cut, pieces={"one": ONE}) as it:
        end = await ended(it)
        assert (end.status, end.reason, len(it.server.requests)) == ("aborted", "truncated_reply", 2)


@pytest.mark.fault("A: output limit hit inside a tool call", neighbour=True)
@pytest.mark.parametrize("finish", ["content_filter", "max_tokens", "MAX_TOKENS"])
async def test_all_calls_of_a_cut_reply_are_left_also_the_whole_ones_and_those_in_the_text(
    tmp_path: Path, finish: str
) -> None:
    calls = raw({"tool_calls": [entry("Write", WHOLE), entry("Read", '{"file_path":"a"}', 1)]}, finish=finish)
    said = raw(
        {"content": '<tool_call>{"name":"Write","arguments":' + WHOLE + "}</tool_call>"}, finish=finish
    )
    async with rig(tmp_path, then_done(calls, call("Read", file_path="a"), said), pieces={"one": ONE}) as it:
        assert (await ended(it)).status == "succeeded"
        first, second, _, third = tool_messages(it)
        assert all("Not run" in text for text in (first, second, third))
        assert not (it.workspace / "README.md").exists()


# -- finish reasons, texts and nothing -----------------------------------------------------------------------


@pytest.mark.fault("A: finish says stop, but there are tool calls")
@pytest.mark.parametrize("finish", ["stop", None, "tool_calls"])
async def test_a_call_runs_whatever_the_finish_reason(tmp_path: Path, finish: str | None) -> None:
    reply = raw({"tool_calls": [entry("Write", WHOLE)]}, finish=finish)
    async with rig(tmp_path, then_done(reply), pieces={"one": ONE}) as it:
        assert (await ended(it)).status == "succeeded"
        assert (it.workspace / "README.md").exists()


@pytest.mark.fault("A: finish says stop, but there are tool calls", neighbour=True)
@pytest.mark.parametrize("finish", ["function_call", "eos", "", "end_turn", 0])
async def test_a_call_runs_after_a_finish_that_nobody_knows(tmp_path: Path, finish: Any) -> None:
    reply = raw({"tool_calls": [entry("Write", WHOLE)]}, finish=finish)
    async with rig(tmp_path, then_done(reply), pieces={"one": ONE}) as it:
        assert (await ended(it)).status == "succeeded"
        assert (it.workspace / "README.md").exists()


@pytest.mark.fault("A: finish says stop, but there are tool calls")
async def test_a_finish_of_calls_without_calls_is_a_text(tmp_path: Path) -> None:
    reply = raw({"content": "Now I look.", "tool_calls": []}, finish="tool_calls")
    async with rig(tmp_path, then_done(reply), pieces={"one": ONE}) as it:
        assert (await ended(it)).status == "succeeded"
        said = it.bodies()[-1]["messages"][2:]
        assert said[0] == {"role": "assistant", "content": "Now I look."}
        assert said[1]["role"] == "user" and "no tool call" in said[1]["content"]


@pytest.mark.fault("A: says it will go on, then stops")
async def test_a_text_that_promises_is_reminded_and_is_never_success(tmp_path: Path) -> None:
    replies = [call("Read", file_path="f"), *[say(f"Now I will edit, {n}") for n in range(3)]]
    async with rig(tmp_path, replies, pieces={"two": TWO}) as it:
        (it.workspace / "f").write_text("one\n")
        end = await ended(it, "two")
        assert (end.status, end.reason, end.result) == ("aborted", "text_only_limit", "Now I will edit, 2")
        reminders = [m["content"] for m in it.bodies()[-1]["messages"][2:] if m["role"] == "user"]
        assert len(reminders) == 2 and all("`complete`" in text for text in reminders)
        assert "`transition`" in reminders[1]
        assert [body.get("tool_choice") for body in it.bodies()] == [None, None, "required", "required"]


@pytest.mark.fault("A: says it will go on, then stops", neighbour=True)
async def test_promises_with_work_between_them_are_not_counted_together(tmp_path: Path) -> None:
    replies = [step for n in range(4) for step in (say("Now I will."), call("Read", file_path=f"f{n}"))]
    async with rig(tmp_path, then_done(*replies), pieces={"one": ONE}) as it:
        assert (await ended(it)).status == "succeeded"


EMPTY = {
    "reasoning only": raw({"reasoning_content": "Hm, 日本."}, finish="stop"),
    "no chunks": ScriptReply(raw_chunks=(b"data: [DONE]\n\n",)),
    "no byte": ScriptReply(raw_chunks=(b"",)),
    "no choices": ScriptReply(raw_chunks=(b'data: {"choices":[]}\n\ndata: [DONE]\n\n',)),
    "only thoughts in tags": raw({"content": "<think>Hm.</think>\n"}, finish="stop"),
    "blanks": raw({"content": " \n"}, finish="stop"),
    "a body without choices": ScriptReply(
        raw_chunks=(b'{"object":"chat.completion","choices":[]}',), content_type="application/json"
    ),
}


@pytest.mark.fault("A: empty answer")
@pytest.mark.parametrize("name", ["reasoning only", "no chunks", "no choices"])
async def test_an_empty_reply_is_asked_again_twice_and_then_fails_resumably(
    tmp_path: Path, name: str
) -> None:
    script = Queue([EMPTY[name]] * 3 + [DONE])
    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        end = await ended(it)
        assert (end.status, end.reason, len(it.server.requests)) == ("failed", "empty_response", 3)
        assert len({bytes(body) for body in it.server.requests}) == 1, "nothing empty came into the history"
        again = await it.until_rest(await it.client.retry(end.job_id))
        assert again.status == "succeeded"


@pytest.mark.fault("A: empty answer", neighbour=True)
@pytest.mark.parametrize("name", EMPTY)
async def test_one_empty_reply_is_not_noticed(tmp_path: Path, name: str) -> None:
    async with rig(tmp_path, Queue([EMPTY[name], DONE]), pieces={"one": ONE}) as it:
        assert (await ended(it)).status == "succeeded"
        assert len(it.server.requests) == 2 and it.server.requests[0] == it.server.requests[1]


@pytest.mark.fault("A: empty answer", neighbour=True)
async def test_a_server_that_gave_nothing_is_left_alone_for_a_while_which_cancel_cuts_short(
    tmp_path: Path,
) -> None:
    script = Queue([EMPTY["no chunks"], DONE])
    async with rig(tmp_path, script, pieces={"one": ONE}, start_engine=False) as it:
        it.config = replace(it.config, llm=replace(it.config.llm, backoff_ms=(60_000,)))
        await it.engine()
        job = await it.start(piece="one")
        await it.until(job, lambda now: now.usage.calls == 1)
        await it.client.cancel(job)
        end = await it.until_rest(job, within=2.0)
        assert (end.status, len(it.server.requests)) == ("cancelled", 1)


# -- usage ---------------------------------------------------------------------------------------------------


@pytest.mark.fault("A: usage that cannot be trusted", neighbour=True)
async def test_usage_of_a_job_is_the_sum_of_its_replies_and_not_of_their_chunks(tmp_path: Path) -> None:
    def chunk(delta: dict[str, Any], finish: str | None, prompt: int, completion: int) -> str:
        usage = {"prompt_tokens": prompt, "completion_tokens": completion}
        return (
            "data: "
            + json.dumps({"choices": [{"delta": delta, "finish_reason": finish}], "usage": usage})
            + "\n\n"
        )

    def counted(delta: dict[str, Any], prompt: int) -> ScriptReply:
        text = "".join(
            [chunk({}, None, prompt, 1), chunk(delta, None, prompt, 5), chunk({}, "stop", prompt, 9)]
        )
        return ScriptReply(raw_chunks=((text + "data: [DONE]\n\n").encode(),))

    look = counted({"tool_calls": [entry("Read", '{"file_path":"a"}')]}, 100)
    done = counted({"tool_calls": [entry("complete", json.dumps(COMPLETE[1]))]}, 60)
    async with rig(tmp_path, [look, done], pieces={"one": ONE}) as it:
        end = await ended(it)
        assert end.status == "succeeded"
        assert (end.usage.prompt_tokens, end.usage.completion_tokens) == (160, 18)


@pytest.mark.fault("A: malformed arguments poison the history", neighbour=True)
async def test_a_field_with_an_endless_name_is_answered_in_a_few_words(tmp_path: Path) -> None:
    endless = raw({"tool_calls": [entry("Read", json.dumps({"k" * 100_000: 1}))]})
    async with rig(tmp_path, then_done(endless), pieces={"one": ONE}) as it:
        assert (await ended(it)).status == "succeeded"
        (said,) = tool_messages(it)
        assert "unknown field" in said and "file_path" in said and len(said) < 1000
