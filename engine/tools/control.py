"""Tools that do no work but fold the movement (``transition``, ``complete``) or keep the task's brief
(``MissionUpdate``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec

from engine.core.conversation import in_full
from engine.core.hops import AskVerdict
from engine.core.outcome import ABORT, ASK, COMPLETE
from engine.core.tooling import Effect, Outcome, Prepared, RequestDraft, Signal, ToolResult, ToolSpec
from engine.ports import ToolContext
from engine.tools.spec import make


class TransitionArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``transition``; the enum of ``next_step`` is set per piece."""

    next_step: str
    summary: str
    lessons: str | None = None


class CompleteArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``complete``."""

    status: Literal["success", "aborted", "needs_user_input"]
    result: str
    options: Annotated[list[str], msgspec.Meta(max_length=8)] | None = None


class MissionArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``MissionUpdate``: only the given fields are replaced."""

    goal: str | None = None
    done: str | None = None
    open: str | None = None
    clarifications: str | None = None


async def _look(ctx: ToolContext, args: msgspec.Struct) -> Prepared:
    return Prepared(title=type(args).__name__.removesuffix("Args"))


async def _transition(ctx: ToolContext, args: TransitionArgs, prepared: Prepared) -> Outcome:
    assert ctx.hop is not None
    return ctx.hop(args.next_step, args.summary, args.lessons or "")


async def _complete(ctx: ToolContext, args: CompleteArgs, prepared: Prepared) -> Outcome:
    assert ctx.texts is not None
    result = args.result.strip()
    if not result:
        key = "result.empty_question" if args.status == "needs_user_input" else "result.empty_result"
        return ToolResult(ctx.texts(key), is_error=True, brief="complete without a result")
    match args.status:
        case "success":
            if ctx.open_children is not None and await ctx.open_children():
                return ToolResult(ctx.texts("result.open_children"), is_error=True, brief="subtasks are open")
            return await _unheard(ctx) or Signal(COMPLETE, result=result)
        case "aborted":
            return await _unheard(ctx) or Signal(ABORT, result=result, reason="aborted_by_model")
        case "needs_user_input":
            return await _question(ctx, result, args.options)


async def _unheard(ctx: ToolContext) -> ToolResult | None:
    """Why the task does not end yet: what the person said meanwhile may be the way out, or more to do."""
    assert ctx.texts is not None
    if ctx.unheard is None or not await ctx.unheard():
        return None
    return ToolResult(ctx.texts("result.unheard"), is_error=True, brief="the person spoke meanwhile")


async def _question(ctx: ToolContext, question: str, options: list[str] | None) -> Outcome:
    """Park with the question; with ``resume: continue`` this very call is made again and has its answer."""
    assert ctx.ask is not None and ctx.texts is not None
    key = f"question:{ctx.call_id}"
    if (decided := await ctx.decided(key)) is not None:
        answer = await asyncio.to_thread(in_full, decided.text, ctx.budget, ctx.texts)
        text = ctx.texts("result.answered", answer=answer)
        return ToolResult(text, brief="answered", closes=True, heard=True)
    match ctx.ask():
        case AskVerdict.PARK:
            request = RequestDraft(key=key, title=question, options=_distinct(options or ()))
            return Signal(ASK, wait_reason="question", request=request, result=question)
        case AskVerdict.DEFLECT:
            return ToolResult(ctx.texts("result.decide_yourself"), brief="the person is not asked again")
        case AskVerdict.ABORT:
            return Signal(ABORT, reason="ask_limit_reached", result=question)


def _distinct(options: Sequence[str]) -> tuple[str, ...]:
    """The options that can be shown: none empty, none twice."""
    return tuple(dict.fromkeys(option.strip() for option in options if option.strip()))


async def _mission(ctx: ToolContext, args: MissionArgs, prepared: Prepared) -> Outcome:
    given = {name: value for name, value in msgspec.to_builtins(args).items() if value is not None}
    return ToolResult(await ctx.update_brief(given), brief="mission brief updated")


def build_transition_tool(targets: tuple[str, ...]) -> ToolSpec:
    """The one ``transition`` tool of a piece: its enum is the union of all targets, its description never
    changes (the cache law).
    """
    spec = make("transition", TransitionArgs, Effect.CONTROL, _look, _transition, always=True, folds=True)
    properties: dict[str, Any] = dict(_mapping(spec.schema["properties"]))
    properties["next_step"] = {**_mapping(properties["next_step"]), "enum": list(targets)}
    return replace(spec, schema={**spec.schema, "properties": properties})


def control_tools(targets: tuple[str, ...]) -> tuple[ToolSpec, ...]:
    """The control tools of a piece, in their fixed order; a piece without targets has no ``transition``."""
    complete = make("complete", CompleteArgs, Effect.CONTROL, _look, _complete, always=True, folds=True)
    mission = make("MissionUpdate", MissionArgs, Effect.CONTROL, _look, _mission, always=True)
    return (*((build_transition_tool(targets),) if targets else ()), complete, mission)


def _mapping(value: object) -> Mapping[str, Any]:
    assert isinstance(value, dict)
    return value
