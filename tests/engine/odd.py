"""What the tests of odd moments and odd material share."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.core.tooling import Effect, Outcome, Prepared, ToolResult, ToolSpec, argument_schema
from engine.llm.scripted import ScriptReply, call
from engine.ports import ToolContext
from tests.engine.rig import Rig
from tests.engine.test_approvals import ONE

BASH = ONE.replace("[Read, Write, Edit]", "[Read, Bash, BashOutput]")
DONE = call("complete", status="success", result="done")
SLOW = ScriptReply(text="slow", delay=60.0)
ASK = call("complete", status="needs_user_input", result="Which colour?")


def tool_messages(it: Rig) -> list[str]:
    """The tool results of the last request."""
    return [m["content"] for m in it.bodies()[-1]["messages"] if m["role"] == "tool"]


class NoArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""

    n: int = 0


def odd_tool(effect: Effect, run: Any, *, in_prepare: bool = False) -> ToolSpec:
    async def look(ctx: ToolContext, args: NoArgs) -> Prepared:
        if in_prepare:
            await run(ctx, args, Prepared("Odd"))
        return Prepared("Odd")

    async def plain(ctx: ToolContext, args: NoArgs, prepared: Prepared) -> Outcome:
        return ToolResult("fine")

    return ToolSpec(
        "Odd",
        "An odd tool.",
        NoArgs,
        effect,
        plain if in_prepare else run,
        look,
        schema=argument_schema(NoArgs),
    )


ODD_PIECE = ONE.replace("[Read, Write, Edit]", "[Read, Odd]")
