"""``SpawnSubTask``, ``WaitSubTask`` and ``SpinOffTask``: work that is done by other tasks.

None of them waits inside a call: waiting is a park, which frees the worker (``engine.md`` section 4). Each
finds what it made before by a key without free text, for after a resume the model asks again in other words.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from engine.core.family import Spawned, SpawnOrder, child_lines
from engine.core.outcome import WAIT_SUBTASKS, WAITING_HUMAN_SPAWN_REQUEST
from engine.core.tooling import Decision, Effect, Outcome, Prepared, RequestDraft, Signal, ToolResult
from engine.ports import Family, ToolContext
from engine.tools.asking import declined, say
from engine.tools.spec import error, make
from engine.tools.textio import one_line


class SpawnArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``SpawnSubTask``."""

    instruction: str
    piece: str | None = None
    title: str | None = None


class WaitArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``WaitSubTask``: none."""


class SpinOffArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``SpinOffTask``."""

    instruction: str
    piece: str | None = None
    workspace: str | None = None


# --- subtasks ---------------------------------------------------------------------------------------


async def _prepare_spawn(ctx: ToolContext, args: SpawnArgs) -> Prepared | ToolResult:
    if not args.instruction.strip():
        return error(say(ctx, "result.spawn_empty"))
    return Prepared(f"SpawnSubTask: {_named(args.title or args.instruction)}")


async def _spawn(ctx: ToolContext, args: SpawnArgs, prepared: Prepared) -> Outcome:
    title = (args.title or "").strip() or None
    made = await _family(ctx).child(SpawnOrder(args.instruction, args.piece, title))
    key = "result.spawned" if made.new else "result.spawned_before"
    text = say(ctx, key, id=made.job_id, title=made.title, piece=made.piece, status=made.status.value)
    return ToolResult(text, brief=f"{made.title}: {made.status.value}")


async def _prepare_wait(ctx: ToolContext, args: WaitArgs) -> Prepared:
    return Prepared("WaitSubTask")


async def _wait(ctx: ToolContext, args: WaitArgs, prepared: Prepared) -> Outcome:
    children = await _family(ctx).children()
    if any(child.is_open for child in children):
        return Signal(WAIT_SUBTASKS, wait_reason="subtasks")
    if not children:
        return error(say(ctx, "result.no_children"))
    assert ctx.texts is not None
    lines = child_lines(children, ctx.budget, ctx.texts)
    text = "\n".join(f"- {line}" for line in lines)
    return ToolResult(text, brief=f"{len(lines)} subtasks ended", closes=True)


# --- tasks of their own -----------------------------------------------------------------------------


async def _prepare_spin_off(ctx: ToolContext, args: SpinOffArgs) -> Prepared | ToolResult:
    if not args.instruction.strip():
        return error(say(ctx, "result.spawn_empty"))
    target = None
    if args.workspace is not None and args.workspace.strip():
        try:
            target = await asyncio.to_thread(_elsewhere, ctx.workspace, args.workspace)
        except (ValueError, RuntimeError, OSError):  # a NUL, an unknown user after ~, a path too long
            return error(f"`{one_line(args.workspace, 80)}` is not the path of a folder.")
    return Prepared(f"SpinOffTask: {_named(args.instruction)}", state=target)


def _elsewhere(workspace: Path, asked: str) -> Path | None:
    """The folder that is meant, links resolved (what the person is shown is what is used); None if it is
    this workspace.
    """
    target = Path(os.path.realpath(workspace / Path(asked).expanduser()))
    return None if target == Path(os.path.realpath(workspace)) else target


async def _spin_off(ctx: ToolContext, args: SpinOffArgs, prepared: Prepared) -> Outcome:
    order = SpawnOrder(args.instruction, args.piece)
    if not isinstance(prepared.state, Path):
        return _told(ctx, await _family(ctx).beside(order))
    target = prepared.state
    decision = await ctx.decided(key := f"spawn:{target}")
    if decision is None:
        await _family(ctx).check_elsewhere(target, args.piece)
        return Signal(
            WAITING_HUMAN_SPAWN_REQUEST,
            wait_reason="spawn_request",
            request=RequestDraft(
                key,
                title_key="asked.spawn",
                title_values={"path": str(target)},
                detail=args.instruction,
                arguments=msgspec.to_builtins(args) | {"workspace": str(target)},
            ),
        )
    if decision.decision != "allow":
        return declined(ctx, decision)
    if decision.made:
        text = say(ctx, "result.spun_off_before", task=decision.made, path=str(target))
        return ToolResult(text, brief="started before")
    return await _start_elsewhere(ctx, decision, target)


async def _start_elsewhere(ctx: ToolContext, decision: Decision, target: Path) -> ToolResult:
    """What was shown and allowed is what is started, whatever words the model uses now."""
    shown = decision.arguments
    piece = shown.get("piece")
    order = SpawnOrder(str(shown.get("instruction", "")), piece if isinstance(piece, str) else None)
    made = await _family(ctx).elsewhere(decision.request_id, target, order)
    text = say(ctx, "result.spun_off_elsewhere", task=made.task_id, title=made.title, path=str(target))
    return ToolResult(text, brief=f"task started in {target}")


def _told(ctx: ToolContext, made: Spawned) -> ToolResult:
    key = "result.spun_off" if made.new else "result.spawned_before"
    text = say(ctx, key, id=made.job_id, title=made.title, piece=made.piece, status=made.status.value)
    return ToolResult(text, brief=f"{made.title}: {made.status.value}")


def _family(ctx: ToolContext) -> Family:
    assert ctx.family is not None
    return ctx.family


def _named(text: str) -> str:
    return one_line(" ".join(text.split()), 80)


ORCHESTRATION_TOOLS = (
    make("SpawnSubTask", SpawnArgs, Effect.CONTROL, _prepare_spawn, _spawn),
    make("WaitSubTask", WaitArgs, Effect.CONTROL, _prepare_wait, _wait, folds=True),
    make("SpinOffTask", SpinOffArgs, Effect.CONTROL, _prepare_spin_off, _spin_off),
)
"""In the order of the tools array."""
