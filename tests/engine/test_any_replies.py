"""Two invariants over random replies, played through the whole engine with approvals, refusals and restarts
between: every call that is sent has exactly one result right after it, and nothing of a cut reply happens.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.jobs import ENDED, JobStatus
from engine.llm.scripted import ScriptReply, call
from engine.llm.scripted.strict import fault_of
from tests.engine.rig import Rig, rig

PIECE = """
name: two
description: two movements
max_movements: 6
initial_movement: work
movements:
  - name: work
    edit: true
    persona: You work.
    instruction: Work.
    allowed_tools: [Read, Glob]
    rules:
      - condition: it is done
        next: verify
  - name: verify
    edit: true
    persona: You look.
    instruction: Look.
    allowed_tools: [Read]
    rules:
      - condition: it is not done
        next: work
"""
DONE = call("complete", status="success", result="done")
NAMES = [
    "Read",
    "Write",
    "Write",
    "Write",
    "functions.Write",
    "write",
    "Glob",
    "Fly",
    "",
    "読む",
    "transition",
    "MissionUpdate",
]
BROKEN = [
    "",
    "null",
    "{",
    '{"file_path":"x',
    "[]",
    "true",
    '{"a":NaN}',
    "x" * 50,
    '{"file_path":"\\ud83d"}',
    '"{}"',
    "{}{}",
]
IDS = [None, "", "0", "call_0", "call_q7W2x9Lk4", "a b", "日本", "x" * 50]
FINISHES = ["stop", "tool_calls", None, "stop", "length", "content_filter", "drop"]
CUT = {"length", "content_filter", "drop"}


@dataclass(frozen=True)
class Said:
    """One reply: its calls as (name, arguments or None for good ones, id), text, finish and form."""

    calls: list[tuple[str, str | None, str | None]]
    text: str
    finish: str | None
    in_text: bool


CALL = st.tuples(
    st.sampled_from(NAMES), st.none() | st.none() | st.sampled_from(BROKEN), st.sampled_from(IDS)
)
SAID = st.builds(
    Said,
    st.lists(CALL, max_size=4),
    st.sampled_from(["", "Now I will.", "<think>hm</think>", "half \ud83d", "{}"]),
    st.sampled_from(FINISHES),
    st.booleans(),
)


def good(name: str, file: str) -> dict[str, Any]:
    """Arguments that the tool would take."""
    match name.removeprefix("functions.").casefold():
        case "write":
            return {"file_path": file, "content": "x"}
        case "read":
            return {"file_path": file}
        case "glob":
            return {"pattern": "*"}
        case "transition":
            return {"next_step": "verify", "summary": "s"}
        case "missionupdate":
            return {"goal": file}
        case _:
            return {}


def as_reply(number: int, said: Said) -> ScriptReply:
    """The reply as a server would stream it; a file that only a cut reply names has a name that says so."""
    kind = "cut" if said.finish in CUT else "ok"
    calls = []
    for place, (name, broken, call_id) in enumerate(said.calls):
        arguments = broken if broken is not None else json.dumps(good(name, f"{kind}-{number}-{place}"))
        calls.append((name, arguments, call_id))
    deltas: list[dict[str, Any]] = [{"content": said.text}]
    if said.in_text:
        blocks = [
            f'\n<tool_call>{{"name":{json.dumps(name)},"arguments":{given or "{"}}}</tool_call>'
            for name, given, _ in calls
        ]
        deltas += [{"content": block} for block in blocks]
    else:
        for place, (name, given, call_id) in enumerate(calls):
            head = {"index": place, "id": call_id, "function": {"name": name, "arguments": ""}}
            deltas.append({"tool_calls": [head]})
            deltas.append({"tool_calls": [{"index": place, "function": {"arguments": given}}]})
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    if said.finish == "drop":
        return ScriptReply(raw_chunks=(body.encode(),), drop_after=max(1, len(body) - 9))
    end = json.dumps({"choices": [{"delta": {}, "finish_reason": said.finish}]})
    return ScriptReply(raw_chunks=(f"{body}data: {end}\n\ndata: [DONE]\n\n".encode(),))


async def play(it: Rig, decisions: list[str]) -> None:
    """The job to its end: each approval is decided as drawn, some after a restart of the engine."""
    job = await it.start(piece="two")
    while JobStatus((detail := await it.until_rest(job)).status) not in ENDED:
        decision = decisions.pop() if decisions else "allow"
        if decision.startswith("restart"):
            await it.stop()
            await it.engine()
        (request,) = detail.open_requests
        await it.client.decide(request, "deny" if decision.endswith("deny") else "allow")
        await it.until(job, lambda now, request=request: request not in now.open_requests)  # type: ignore[misc]


@pytest.mark.fault("I1")
@pytest.mark.fault("I2")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(SAID, min_size=1, max_size=6),
    st.lists(st.sampled_from(["allow", "deny", "restart, allow", "restart, deny"]), max_size=4),
    st.sampled_from(["ask", "edits"]),
)
def test_whatever_a_model_says_the_history_is_valid_and_nothing_cut_happens(
    said: list[Said], decisions: list[str], mode: str
) -> None:
    replies = [as_reply(number, one) for number, one in enumerate(said)][::-1]

    async def example() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with rig(
                Path(folder),
                lambda request: replies.pop() if replies else DONE,
                pieces={"two": PIECE},
                mode=mode,
            ) as it:
                await play(it, list(decisions))
                for body in it.bodies():
                    assert fault_of(body["messages"]) is None
                ids = {
                    one["id"]
                    for body in it.bodies()
                    for m in body["messages"]
                    for one in m.get("tool_calls") or ()
                }
                assert all((len(one) == 9 and one.isalnum()) or one == "call_q7W2x9Lk4" for one in ids)
                assert not list(it.workspace.glob("cut-*"))

    asyncio.run(example())
