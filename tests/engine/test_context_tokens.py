"""How full the context is: reported, estimated or learnt (engine.md §5), against a model that counts what it
is sent.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.context import message_size
from engine.llm.scripted import ScriptReply, call
from engine.llm.tokens import TokenCounter
from tests.engine.filling import (
    DONE,
    ENGLISH,
    EXHAUSTED,
    FORCE,
    JAPANESE,
    LIMIT,
    PROMPT,
    WARN,
    at,
    configure,
    files,
    full,
    piece,
    pressure,
    read,
    run,
    server,
    true_tokens,
)
from tests.engine.rig import rig


def unreported(reply: ScriptReply) -> ScriptReply:
    return replace(reply, prompt_tokens=0)


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("weight", [0.5, 1.0, 3.0])
async def test_once_the_server_has_reported_the_estimate_is_within_ten_percent(
    tmp_path: Path, weight: float, language: str
) -> None:
    text = (ENGLISH if language == "en" else JAPANESE) * 60
    instruction = "Read it all" if language == "en" else "全部読んでください"
    replies = [call("Read", file_path=f"{number}.txt") for number in range(12)]
    work, limit = [*replies[:2], *map(unreported, replies[2:])], round(12_000 * weight)
    options = server(context=10**6, weight=weight)
    async with rig(tmp_path, full(work), pieces={"full": piece()}, server=options) as it:
        await configure(it, context_tokens=limit)
        files(it, text)
        job = await it.start(instruction, piece="full")
        end = await it.until_rest(job)
        told, bodies = await pressure(it, job), it.bodies()
    assert end.status == "succeeded" and [action for action, _ in told][:3] == [WARN, PROMPT, FORCE]
    true = [true_tokens(body, weight) / limit for body in bodies[:-1]]
    for _, ratio in told:
        assert any(abs(ratio - share) <= 0.1 * share for share in true), (told, true)
    assert true[-1] >= 0.95 / 1.1 and true[-2] < 0.95 * 1.1, "forced neither too soon nor too late"


@pytest.mark.fault("A: usage that cannot be trusted")
@pytest.mark.parametrize("usage", ["none", "zero"])
async def test_where_nothing_is_ever_reported_the_third_iteration_is_the_first_that_counts(
    tmp_path: Path, usage: str
) -> None:
    work = [call("Read", file_path=f"{number}.txt") for number in range(12)]
    options = server(usage=usage, context=131_072)
    async with rig(tmp_path, full(work), pieces={"full": piece()}, server=options) as it:
        await configure(it, context_tokens=14_000)
        files(it, ENGLISH * 90)
        job = await it.start(piece="full")
        end = await it.until_rest(job)
        told = await pressure(it, job)
        opening = true_tokens(it.bodies()[0])
        events = await it.client.events(job)
    assert opening < 9_000
    assert end.status == "succeeded" and [action for action, _ in told] == [WARN, PROMPT, FORCE]
    kinds = [event["kind"] for event in events]
    assert kinds[: kinds.index("context")].count("usage") >= 3


async def test_where_the_bytes_decide_nothing_is_counted(tmp_path: Path) -> None:
    work = [read("a.txt"), read("b.txt"), read("c.txt"), read("d.txt"), DONE]
    options = server(usage="zero", context=131_072)
    async with rig(tmp_path, full(work), pieces={"full": piece()}, server=options) as it:
        end, told = await run(it)
        assert end.status == "succeeded" and told == []
        assert it.service is not None and it.service.worker is not None
        counter = it.service.worker.kit.count_tokens
    assert isinstance(counter, TokenCounter) and counter._count is None
    assert end.usage.context_ratio > 0


@pytest.mark.fault("A: usage that cannot be trusted", neighbour=True)
async def test_a_report_that_cannot_be_true_is_none(tmp_path: Path) -> None:
    work = [replace(read(f"{name}.txt"), prompt_tokens=7) for name in "abcd"]
    work = [*work, replace(DONE, prompt_tokens=7)]
    async with rig(tmp_path, full(work), pieces={"full": piece()}, server=server(context=131_072)) as it:
        end, told = await run(it)
    assert end.status == "succeeded" and told == []
    assert end.usage.context_ratio > 0.005, "estimated, not 7 tokens"


async def test_each_message_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[bytes] = []

    def measure(body: bytes) -> int:
        measured.append(body)
        return message_size(body)

    monkeypatch.setattr("engine.pressure.message_size", measure)
    work: list[Any] = [call("Read", file_path=f"{number}.txt") for number in range(12)]
    async with rig(tmp_path, full([*work, DONE]), pieces={"full": piece()}) as it:
        files(it, ENGLISH)
        job = await it.start(piece="full")
        assert (await it.until_rest(job)).status == "succeeded"
    assert len(measured) <= 2 + 12 * 2 + 1


@pytest.mark.fault("B: overflow not recognised", neighbour=True)
async def test_the_smaller_of_the_configured_and_the_servers_limit_counts(tmp_path: Path) -> None:
    work = [at(0.3, read("a.txt")), at(0.72, read("b.txt")), at(0.8, DONE)]
    for context, configured, told in ((LIMIT, 10**6, [(WARN, 0.72)]), (10**6, LIMIT, [(WARN, 0.72)])):
        async with rig(
            tmp_path / str(context), full(work), pieces={"full": piece()}, server=server(context=context)
        ) as it:
            await configure(it, context_tokens=configured)
            assert (await run(it))[1] == told


@pytest.mark.fault("A: usage that cannot be trusted")
async def test_a_server_that_cuts_prompts_without_a_word_is_noticed(tmp_path: Path) -> None:
    work = [call("Read", file_path=f"{number}.txt") for number in range(12)]
    options = server(cuts=True, tells_context=False, context=9_000)
    async with rig(tmp_path, full(work, [DONE]), pieces={"full": piece()}, server=options) as it:
        files(it, ENGLISH * 90)
        job = await it.start(piece="full")
        end = await it.until_rest(job)
        told, bodies = await pressure(it, job), it.bodies()
    assert true_tokens(bodies[0]) < 9_000
    fired = [action for action, _ in told]
    assert end.status == "succeeded" and fired == [WARN, PROMPT, FORCE, EXHAUSTED], "each once"
    longest = max(true_tokens(body) for body in bodies)
    assert longest < 2.5 * 9_000, "long before the 32,768 tokens that were assumed"
