"""What tools that ask the person have in common, and ``RequestTool``."""

from __future__ import annotations

import msgspec

from engine.core.grants import grant_offer, tool_key
from engine.core.outcome import WAITING_HUMAN_TOOL_REQUEST
from engine.core.policy import COMES_WITH
from engine.core.policy_rules import EDIT_TOOLS
from engine.core.tooling import Decision, Effect, Outcome, Prepared, RequestDraft, Signal, ToolResult
from engine.ports import ToolContext
from engine.tools.spec import error, make
from engine.tools.textio import one_line


def say(ctx: ToolContext, key: str, **values: object) -> str:
    """A text for the model in the language of the task."""
    assert ctx.texts is not None
    return ctx.texts(key, **values)


def declined(ctx: ToolContext, decision: Decision) -> ToolResult:
    """The error result of a request that the person declined: with the note, and without another card."""
    if decision.note:
        text = say(ctx, "result.request_declined_note", note=decision.note.rstrip(" .。"))
    else:
        text = say(ctx, "result.request_declined")
    return error(text, "declined by the person")


class RequestToolArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``RequestTool``."""

    tool: str
    reason: str


async def _prepare(ctx: ToolContext, args: RequestToolArgs) -> Prepared | ToolResult:
    tool = COMES_WITH.get(args.tool.strip(), args.tool.strip())
    if tool not in ctx.known_tools:
        listed = ", ".join(ctx.known_tools)
        return error(say(ctx, "result.tool_unknown", name=one_line(tool, 80) or "(empty)", tools=listed))
    return Prepared(f"RequestTool: {tool}", state=tool)


async def _request(ctx: ToolContext, args: RequestToolArgs, prepared: Prepared) -> Outcome:
    tool = str(prepared.state)
    if tool in ctx.permitted_tools:
        return ToolResult(say(ctx, "result.tool_permitted", name=tool), brief=f"{tool} is permitted")
    if tool in EDIT_TOOLS:
        return error(say(ctx, "result.tool_no_edit", name=tool), f"{tool} is refused by edit: false")
    decision = await ctx.decided(key := tool_key(tool))
    if decision is not None and decision.decision != "allow":
        return declined(ctx, decision)
    return Signal(
        WAITING_HUMAN_TOOL_REQUEST,
        wait_reason="tool_request",
        request=RequestDraft(
            key,
            title_key="asked.tool",
            title_values={"tool": tool, "movement": ctx.movement},
            detail=args.reason,
            arguments={"tool": tool, "reason": args.reason},
            rule=grant_offer(tool),
        ),
    )


REQUEST_TOOL = make(
    "RequestTool", RequestToolArgs, Effect.CONTROL, _prepare, _request, always=True, folds=True
)
