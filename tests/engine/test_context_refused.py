"""A prompt that the model server refuses as too long (engine.md §5)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.limits import ContextLimits
from engine.llm.scripted import ScriptReply, ScriptRequest
from engine.llm.scripted.wire import error_body
from tests.engine.filling import (
    DONE,
    EXHAUSTED,
    FORCE,
    LONG,
    full,
    nothing_twice,
    piece,
    pressure,
    read,
    server,
    users,
)
from tests.engine.killed import run_and_kill
from tests.engine.rig import rig


def refusal(limit: int | None = None) -> ScriptReply:
    text = "the request exceeds the available context size"
    named = {"n_ctx": limit} if limit else {}
    return ScriptReply(status=400, body=error_body(400, text, "exceed_context_size_error", **named))


@pytest.mark.fault("B: overflow not recognised")
@pytest.mark.parametrize("named", [True, False], ids=["named", "not named"])
async def test_a_refused_prompt_is_tried_once_more_with_its_new_results_shrunk(
    tmp_path: Path, named: bool
) -> None:
    options = server(context=16_000, tells_context=False, names_limit=named)
    limits = {"context": ContextLimits(default_limit=400_000)}
    script = full([read("long.txt"), DONE])
    async with rig(tmp_path, script, pieces={"full": piece()}, server=options, **limits) as it:
        (it.workspace / "long.txt").write_text(LONG)
        job = await it.start(piece="full")
        end = await it.until_rest(job)
        bodies, told = it.bodies(), await pressure(it, job)
        raw = [bytes(body) for body in it.server.requests]
        again = await it.start(piece="full")
        assert (await it.until_rest(again)).status == "succeeded"
        after = it.bodies()[len(bodies) :]
        kept = await it.service.worker.kit.db(it.service.worker.kit.store.messages, job, 1)
    assert end.status == "succeeded" and len(bodies) == 3
    refused, sent = (body["messages"][-1]["content"] for body in bodies[1:])
    assert len(sent) < len(refused) / 2 and "characters left out here" in sent
    assert sent.startswith("    1\tline 0") and "refused the prompt as too long" in sent
    start = raw[1].rindex(b'{"role":"tool"')
    assert raw[2][:start] == raw[1][:start], "what the server accepted stays byte for byte"
    assert json.loads(kept[3].body)["content"] == sent, "the journal holds what was sent"
    assert told[0][0] == EXHAUSTED and told[0][1] >= 1.0
    assert len(after) == (2 if named else 3), "a limit that was named holds for the next job too"


def refusing(movement: str) -> Any:
    """A script that refuses what a movement sends behind its first reply, for ever."""

    def reply(request: ScriptRequest) -> ScriptReply:
        if request.movement == movement and request.turn:
            return refusal()
        return read("long.txt") if request.movement == movement else replace(DONE, prompt_tokens=4_000)

    return reply


async def test_refused_again_the_job_moves_on_as_at_95_percent(tmp_path: Path) -> None:
    async with rig(tmp_path, refusing("work"), pieces={"full": piece()}, server=server()) as it:
        (it.workspace / "long.txt").write_text(LONG)
        job = await it.start(piece="full")
        end = await it.until_rest(job)
        told, bodies = await pressure(it, job), it.bodies()
    assert end.status == "succeeded"
    assert [(move.name, move.forced) for move in end.movements] == [("work", False), ("after", True)]
    assert FORCE in [action for action, _ in told] and len(bodies) == 4
    assert "was cut at" in users(bodies[3])[0]


async def test_refused_again_without_default_next_the_job_aborts(tmp_path: Path) -> None:
    async with rig(tmp_path, refusing("work"), pieces={"full": piece(None)}, server=server()) as it:
        (it.workspace / "long.txt").write_text(LONG)
        end = await it.until_rest(await it.start(piece="full"))
        assert len(it.bodies()) == 3
    assert (end.status, end.reason) == ("aborted", "no_default_next")


@pytest.mark.fault("B: failed recovery repeated unchanged")
async def test_a_server_that_refuses_for_ever_ends_the_job_after_two_movements(tmp_path: Path) -> None:
    def script(request: ScriptRequest) -> ScriptReply:
        return refusal() if request.turn else read("long.txt")

    async with rig(tmp_path, script, pieces={"full": piece()}, server=server()) as it:
        (it.workspace / "long.txt").write_text(LONG)
        job = await it.start(piece="full")
        end = await it.until_rest(job)
        events, bodies = await it.client.events(job), it.bodies()
        kept = [
            message
            for conversation in (1, 2)
            for message in await it.service.worker.kit.db(
                it.service.worker.kit.store.messages, job, conversation
            )
        ]
    assert (end.status, end.reason) == ("failed", "context_exhausted")
    assert len(bodies) == 6 and len(kept) == 8, "failed requests add nothing to the history"
    faults = [event for event in events if event["kind"] == "error"]
    assert [(fault["code"], fault["retryable"]) for fault in faults] == [("context_exhausted", True)]


@pytest.mark.fault("B: failed recovery repeated unchanged", neighbour=True)
@pytest.mark.parametrize(
    ("instruction", "words"), [("Do it", "does not fit the context"), ("やってください", "入りません")]
)
async def test_an_opening_that_does_not_fit_ends_at_once_with_a_clear_sentence(
    tmp_path: Path, instruction: str, words: str
) -> None:
    async with rig(tmp_path, full([DONE]), pieces={"full": piece()}, server=server(context=600)) as it:
        end = await it.until_rest(await it.start(instruction, piece="full"))
        assert len(it.bodies()) == 1
    assert (end.status, end.reason) == ("failed", "context_exhausted")
    assert end.result is not None and words in end.result and "600" in end.result


async def test_a_kill_between_the_shrinking_and_the_next_request_loses_nothing(tmp_path: Path) -> None:
    options = server(context=16_000, tells_context=False)
    limits = {"context": ContextLimits(default_limit=400_000)}
    async with rig(
        tmp_path,
        full([read("long.txt"), DONE]),
        pieces={"full": piece()},
        server=options,
        **limits,
        start_engine=False,
    ) as it:
        (it.workspace / "long.txt").write_text(LONG)
        job = await it.start(piece="full")
        await run_and_kill(it, lambda: len(it.server.requests) > 1)
        await it.engine()
        end = await it.until_rest(job)
        bodies = it.bodies()
    assert end.status == "succeeded" and len(bodies) <= 4
    assert "characters left out here" in bodies[-1]["messages"][-1]["content"]
    nothing_twice([bodies[0], bodies[-1]])
