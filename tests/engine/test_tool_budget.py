"""The budget of tool results (engine.md §5): shared, scaled, kept to, and followed by hints to the end."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from engine.core.limits import ContextLimits
from engine.core.tooling import Effect, Prepared, ToolResult, ToolSpec
from engine.core.truncate import estimate_tokens
from engine.llm.scripted import ScriptReply, ScriptRequest, call
from engine.ports import ToolContext
from engine.service import Extras
from tests.engine.filling import (
    DONE,
    LONG,
    files,
    full,
    piece,
    read,
    server,
    true_tokens,
)
from tests.engine.rig import rig


def budget_of(body: dict[str, Any]) -> list[int]:
    return [estimate_tokens(message["content"]) for message in body["messages"] if message["role"] == "tool"]


async def test_reads_at_once_share_what_is_left_and_later_ones_get_less(tmp_path: Path) -> None:
    three = replace(read("1.txt"), calls=tuple(("Read", {"file_path": f"{n}.txt"}) for n in range(3)))
    options = server(context=40_000)
    async with rig(
        tmp_path, full([three, read("3.txt"), DONE]), pieces={"full": piece()}, server=options
    ) as it:
        files(it, LONG, 4)
        end = await it.until_rest(await it.start(piece="full"))
        bodies = it.bodies()
    assert end.status == "succeeded" and len(bodies) == 3
    true = [true_tokens(body) for body in bodies]
    left = 40_000 - true[0]
    first = budget_of(bodies[1])
    assert len(first) == 3 and max(first) - min(first) < 300, "equal shares"
    assert 0.4 * left < true[1] - true[0] < 0.8 * left
    assert 0.3 * (40_000 - true[1]) < true[2] - true[1] < 0.55 * (40_000 - true[1])


async def test_a_model_with_a_finer_tokenizer_gets_less_text(tmp_path: Path) -> None:
    sizes = {}
    for weight in (1.0, 3.0):
        options = server(context=round(40_000 * weight), weight=weight)
        async with rig(
            tmp_path / str(weight), full([read("1.txt"), DONE]), pieces={"full": piece()}, server=options
        ) as it:
            files(it, LONG, 2)
            end = await it.until_rest(await it.start(piece="full"))
            bodies = it.bodies()
        assert end.status == "succeeded" and len(bodies) == 2
        sizes[weight] = budget_of(bodies[1])[0]
        assert true_tokens(bodies[1], weight) < 0.8 * options.context
    assert 0.7 < sizes[3.0] / sizes[1.0] < 1.3, "as much text of a context as large in its own tokens"


async def test_following_the_hints_reads_the_whole_file_once_and_ends(tmp_path: Path) -> None:
    """By lines where there are lines, by bytes where there are none; the budget is small on purpose."""
    text = "".join(f"{number:05} " + "漢字かな" * (number % 30) + "\n" for number in range(800))
    text += "x" * 20_000 + "\nthe end\n"

    def follow(request: ScriptRequest) -> ScriptReply:
        results = request.results("Read")
        if not results:
            return read("long.txt")
        hint = re.search(r"\b(byte_offset|offset)[=: ]+(\d+)", results[-1].text[-400:])
        if hint is None:
            return DONE
        return call("Read", file_path="long.txt", **{hint[1]: int(hint[2])})

    limits = ContextLimits(result_max=3_000)
    async with rig(tmp_path, follow, pieces={"full": piece(None)}, context=limits) as it:
        (it.workspace / "long.txt").write_text(text, "utf-8")
        end = await it.until_rest(await it.start(piece="full"))
        read_results = [
            message["content"] for message in it.bodies()[-1]["messages"] if message["role"] == "tool"
        ]
    assert end.status == "succeeded" and len(read_results) > 5
    assert all(estimate_tokens(result) <= 3_300 for result in read_results)
    numbers = [
        int(found) for result in read_results for found in re.findall(r"^ *\d+\t(\d{5}) ", result, re.M)
    ]
    assert numbers == list(range(800)), "each line once, in order"
    assert sum(result.count("x") for result in read_results) >= 20_000
    assert "the end" in read_results[-1]


async def test_a_tool_that_ignores_its_budget_is_cut(tmp_path: Path) -> None:
    class Nothing(msgspec.Struct, frozen=True):
        """No arguments."""

    async def prepare(ctx: ToolContext, args: Nothing) -> Prepared:
        return Prepared("flood")

    async def flood(ctx: ToolContext, args: Nothing, prepared: Prepared) -> ToolResult:
        return ToolResult("flood " * 100_000)

    spec = ToolSpec(
        name="Flood",
        description="Floods.",
        arguments=Nothing,
        schema={"type": "object", "properties": {}},
        effect=Effect.READ,
        prepare=prepare,
        run=flood,
        always=True,
    )
    script = full([call("Flood"), DONE])
    async with rig(tmp_path, script, pieces={"full": piece()}, extras=Extras(tools=(spec,))) as it:
        end = await it.until_rest(await it.start(piece="full"))
        result = it.bodies()[1]["messages"][-1]["content"]
    assert end.status == "succeeded"
    assert estimate_tokens(result) < 60_100 and "more characters do not fit into the context" in result
