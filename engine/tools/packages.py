"""``RequestPackage``: a package for the project, installed when the person allowed exactly that command."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import msgspec

from engine.core.outcome import WAITING_HUMAN_TOOL_REQUEST
from engine.core.packages import LOOKED_FOR, PROGRAMS, Install, NoInstall, plan_install
from engine.core.tooling import (
    Decision,
    Effect,
    Outcome,
    Prepared,
    RequestDraft,
    Run,
    Signal,
    ToolResult,
    ToolSpec,
)
from engine.ports import ToolContext
from engine.tools.asking import declined, say
from engine.tools.shell import BashArgs
from engine.tools.spec import error, make
from engine.workspace import find_program

_INSTALL_MS = 600_000


class RequestPackageArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``RequestPackage``."""

    package: str
    manager: str
    reason: str


async def _prepare(ctx: ToolContext, args: RequestPackageArgs) -> Prepared | Outcome:
    assert ctx.mode is not None
    if not ctx.edit:
        return error(say(ctx, "package.no_edit"))
    if await ctx.mode() == "plan":
        return error(say(ctx, "package.plan"))
    plan = await asyncio.to_thread(_planned, ctx.workspace, args)
    if isinstance(plan, NoInstall):
        return error(say(ctx, plan.key, **plan.values))
    command = shlex.join(plan.argv)
    decision = await ctx.decided(plan.key)
    if decision is None:
        return _ask(plan, command, args)
    if decision.decision != "allow":
        return declined(ctx, decision)
    if decision.arguments.get("command") != command:
        allowed = decision.arguments.get("command")
        return error(say(ctx, "package.another", allowed=allowed, package=decision.arguments.get("package")))
    if decision.used:
        return _done_before(ctx, decision, command)
    return Prepared(f"RequestPackage: {command}", command=command, granted=decision.request_id)


def _planned(workspace: Path, args: RequestPackageArgs) -> Install | NoInstall:
    present = [name for name in LOOKED_FOR if (workspace / name).exists()]
    name = PROGRAMS.get(args.manager.strip().lower())
    program = None if name is None else find_program(name, workspace)
    return plan_install(args.manager, args.package, present, program)


def _ask(plan: Install, command: str, args: RequestPackageArgs) -> Signal:
    return Signal(
        WAITING_HUMAN_TOOL_REQUEST,
        wait_reason="package_request",
        request=RequestDraft(
            plan.key,
            title_key="asked.package",
            title_values={"package": args.package.strip(), "command": command},
            detail=args.reason,
            arguments={
                "package": args.package.strip(),
                "manager": args.manager.strip().lower(),
                "command": command,
            },
        ),
    )


def _done_before(ctx: ToolContext, decision: Decision, command: str) -> ToolResult:
    if decision.succeeded:
        return ToolResult(say(ctx, "package.installed", command=command), brief="installed already")
    outcome = decision.outcome or say(ctx, "done.unknown")
    return error(say(ctx, "package.failed", command=command, outcome=outcome), "tried before, and failed")


def package_tools(bash: Run) -> tuple[ToolSpec, ...]:
    """``RequestPackage``, which runs its command as ``bash`` runs one: in a group of its own, with a deadline
    and an output budget.
    """

    async def run(ctx: ToolContext, args: RequestPackageArgs, prepared: Prepared) -> Outcome:
        assert prepared.command is not None
        return await bash(ctx, BashArgs(prepared.command, timeout=_INSTALL_MS), prepared)

    return (make("RequestPackage", RequestPackageArgs, Effect.EXECUTE, _prepare, run),)
