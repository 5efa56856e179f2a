"""A new park is one function and one row of the settlement table. This file is the proof: nothing in the
engine knows its names.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine.core.jobs import RunResult
from engine.core.outcome import Resume, Settlement
from engine.core.tooling import (
    Effect,
    Outcome,
    Prepared,
    RequestDraft,
    Signal,
    ToolResult,
    ToolSpec,
    argument_schema,
)
from engine.llm.scripted import call
from engine.ports import ToolContext
from engine.service import Extras
from tests.engine.rig import rig

ROW = Settlement("WAITING_HUMAN_TIDE", RunResult.WAITING_HUMAN, resume=Resume.CURRENT, wait_reasons=("tide",))


class TideArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the tool."""

    harbour: str


async def wait_for_tide(ctx: ToolContext, args: TideArgs, prepared: Prepared) -> Outcome:
    """The one function."""
    decision = await ctx.decided(f"tide:{args.harbour}")
    if decision is not None:
        return ToolResult(f"The tide was decided: {decision.decision}.")
    return Signal(
        ROW.sentinel,
        wait_reason="tide",
        request=RequestDraft(f"tide:{args.harbour}", f"Is it high tide in {args.harbour}?"),
    )


async def look(ctx: ToolContext, args: TideArgs) -> Prepared:
    return Prepared(title="Tide")


TIDE = ToolSpec(
    "WaitForTide",
    "Wait for the tide.",
    TideArgs,
    Effect.CONTROL,
    wait_for_tide,
    look,
    schema=argument_schema(TideArgs),
)

PIECE = """
name: sail
description: sails
max_movements: 2
initial_movement: go
movements:
  - name: go
    edit: false
    persona: A sailor.
    instruction: Sail.
    allowed_tools: [WaitForTide]
    rules: []
"""


async def test_a_park_tool_needs_one_function_and_one_row(tmp_path: Path) -> None:
    def script(request):  # type: ignore[no-untyped-def]
        if request.results("WaitForTide"):
            return call("complete", status="success", result=request.last_result("WaitForTide"))
        return call("WaitForTide", harbour="Shimoda")

    extras = Extras(tools=(TIDE,), settlements=(ROW,))
    async with rig(tmp_path, script, pieces={"sail": PIECE}, extras=extras) as it:
        job = await it.start(piece="sail")
        request = await it.open_request(job)
        detail = await it.client.show(job)
        assert (detail.status, detail.wait_reason, detail.resume_movement) == ("waiting_human", "tide", "go")
        assert request.title == "Is it high tide in Shimoda?"
        await it.client.decide(request.request_id, "deny")
        end = await it.until_rest(job)
        assert (end.status, end.result) == ("succeeded", "The tide was decided: deny.")
        assert "Is it high tide in Shimoda?: declined" in it.bodies()[-1]["messages"][1]["content"]
