"""``Bash``, ``BashOutput`` and ``BashStop``. What is running belongs to a registry, so that it can be ended
with its job.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from engine.core.errors import NotConfigured
from engine.core.tooling import Effect, Prepared, Run, ToolResult, ToolSpec
from engine.core.truncate import first_characters, fit_head
from engine.ports import ToolContext
from engine.processes import CommandMarks
from engine.tools.exits import exit_words
from engine.tools.output import Shown
from engine.tools.processes import Command, OutputLog, start_command, unbroken
from engine.tools.spec import error, make
from engine.tools.textio import one_line, shown
from engine.workspace import Place, Refused, is_inside, resolve

_LONGEST_TIMEOUT_S = 600.0
_LONGEST_COMMAND = 100_000
_IN_BACKGROUND = 16
_WAIT_FOR_NEWS_S = 10.0
_FOR_NOTES = 300
_FOR_NAMES = 100
_NAMED_BUFFERS = 10
_NAMED_COMMANDS = 20


class BashArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``Bash``; ``timeout`` in milliseconds."""

    command: str
    timeout: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cwd: str | None = None
    description: str | None = None
    background: bool = False


class IdArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``BashOutput`` and ``BashStop``."""

    id: str


@dataclass(slots=True)
class Background:
    """A background command; ``watch`` is the task that waits for its end."""

    id: str
    title: str
    command: Command
    watch: asyncio.Task[None]


@dataclass(slots=True)
class _JobCommands:
    background: dict[str, Background] = field(default_factory=dict)
    foreground: set[Command] = field(default_factory=set)
    started: int = 0


class ShellRegistry:
    """The commands that run for each job. Lives in one event loop. What a killed engine left is found by the
    notes in ``folder``, which is part of the engine's own state; without it nothing is noted.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._jobs: dict[str, _JobCommands] = {}
        self.marks = CommandMarks(folder)

    def of(self, job_id: str) -> _JobCommands:
        """The commands of a job."""
        return self._jobs.setdefault(job_id, _JobCommands())

    def find(self, job_id: str, identifier: str) -> Background:
        """A background command of a job. Raises ``Refused`` with the ids there are."""
        known = self.of(job_id).background
        if identifier in known:
            return known[identifier]
        latest = list(known.values())[-_NAMED_COMMANDS:]
        listed = (
            ", ".join(f"{one.id} ({one.title})" for one in latest)
            or "none (Bash starts one with background: true)"
        )
        raise Refused(
            f"There is no background command `{one_line(identifier, 40)}`; it may have ended when the"
            f" engine was"
            f" restarted. There are: {listed}."
        )

    def jobs(self) -> list[str]:
        """The jobs that have commands running."""
        return [
            job_id
            for job_id, commands in self._jobs.items()
            if commands.foreground or any(one.command.status is None for one in commands.background.values())
        ]

    async def end_all(self, job_id: str) -> None:
        """End every command of a job and all they started; returns in less than two seconds, also if it is
        cancelled.
        """
        commands = self._jobs.pop(job_id, _JobCommands())
        running = [*commands.foreground, *(one.command for one in commands.background.values())]
        if running:
            await unbroken(_together(running))

    def end_left(self) -> None:
        """End what the commands of engines that were killed have left running. Reads files: not for an event
        loop.
        """
        self.marks.end_left()

    async def end_everything(self) -> None:
        """End the commands of every job: the engine itself is ending."""
        for job_id in list(self._jobs):
            await self.end_all(job_id)


async def _together(commands: list[Command]) -> None:
    await asyncio.gather(*(command.end() for command in commands))


# --- Bash -------------------------------------------------------------------------------------------


async def _prepare_bash(ctx: ToolContext, args: BashArgs) -> Prepared | ToolResult:
    if not args.command.strip():
        return error("command is empty. Give the command line to run.")
    if "\0" in args.command or shown(args.command) != args.command:
        return error("command holds NUL or half a character, which no command line can. Write it without.")
    if len(args.command.encode()) > _LONGEST_COMMAND:
        return error("command is longer than 100,000 bytes. Write a script to a file and run that.")
    place = await asyncio.to_thread(_folder, ctx, args.cwd)
    title = "Bash (background)" if args.background else "Bash"
    return Prepared(
        f"{title}: {one_line(args.command)}",
        paths=((place.relative, place.kind),),
        command=args.command,
        detail=args.description or "",
        state=place.path,
    )


def _folder(ctx: ToolContext, asked: str | None) -> Place:
    place = resolve(ctx.workspace, ctx.task_dir, asked or ".")
    if not place.path.is_dir():
        raise Refused(
            f"cwd `{asked}` is not a folder of the workspace. Leave it out for the workspace's root."
        )
    return place


async def _start(registry: ShellRegistry, ctx: ToolContext, args: BashArgs, cwd: Path) -> Command:
    extra = {"MAESTRO_INPUT": str(ctx.task_dir / "input"), "MAESTRO_OUTPUT": str(ctx.task_dir / "output")}
    try:
        argv = ctx.commands.argv(
            args.command, cwd=cwd, workspace=ctx.workspace, writable=ctx.edit, network=ctx.network
        )
    except NotConfigured:
        raise Refused(
            "No bash was found on this machine (on PATH, outside the workspace): commands cannot run."
            " Use the other tools, or say in the result what had to be run."
        ) from None
    return await start_command(
        argv,
        env=ctx.commands.env(extra),
        cwd=cwd,
        budget=max(ctx.budget - _FOR_NOTES, ctx.budget // 2),
        log=OutputLog(ctx.workspace, ctx.task_dir, ctx.call_id),
        emit=ctx.emit,
        marks=registry.marks,
    )


def _run_bash(registry: ShellRegistry) -> Run:
    async def run(ctx: ToolContext, args: BashArgs, prepared: Prepared) -> ToolResult:
        unsaved = await ctx.documents.dirty()
        cwd = (await asyncio.to_thread(_folder, ctx, args.cwd)).path
        if args.background:
            return await _run_in_background(registry, ctx, args, cwd, list(unsaved))
        command = await _start(registry, ctx, args, cwd)
        running = registry.of(ctx.job_id).foreground
        running.add(command)
        limit = _limit(ctx, args)
        late = False
        try:
            async with asyncio.timeout(limit):
                await command.ended()
        except TimeoutError:
            late = True
        finally:
            await unbroken(command.end())
            running.discard(command)
        return await _finished(ctx, command, limit if late else None, list(unsaved))

    return run


def _limit(ctx: ToolContext, args: BashArgs) -> float:
    if args.timeout is None:
        return ctx.timeout_s
    return min(args.timeout / 1000, max(ctx.timeout_s, _LONGEST_TIMEOUT_S))


async def _finished(
    ctx: ToolContext, command: Command, late: float | None, unsaved: list[Path]
) -> ToolResult:
    output = await command.taken()
    command.log.close()
    notes = [_unsaved(ctx, unsaved)]
    if late is None:
        notes.append(exit_words(command.status))
        brief = f"exit {command.status}"
    else:
        notes.append(
            f"Stopped after {late:g} s, for it had not ended. Ask for less, give a longer timeout"
            f" (milliseconds, at"
            " most 600000), or run it with background: true."
        )
        brief = f"stopped after {late:g} s"
    text = _text(ctx, output, command.log, notes)
    failed = late is not None or command.status != 0
    return ToolResult(text, brief=brief, is_error=failed, truncated=output.left_out > 0)


def _unsaved(ctx: ToolContext, paths: list[Path]) -> str:
    """What the command could not see: changes that are only in the editor."""
    inside = [path for path in paths if is_inside(ctx.workspace, path)]
    names = [one_line(str(path.relative_to(ctx.workspace)), 80) for path in inside[:_NAMED_BUFFERS]]
    listed, cut = fit_head(", ".join(names), _FOR_NAMES)
    more = f" and {len(inside) - len(names)} more" if len(inside) > len(names) else ""
    return (
        f"Not saved in the editor, so a command sees the older text on disk: {listed}{'…' * bool(cut)}{more}"
        if names
        else ""
    )


def _text(ctx: ToolContext, output: Shown, log: OutputLog, notes: list[str]) -> str:
    said = [f"[{note}]" for note in notes if note]
    parts = [output.head or ("" if output.left_out else "(no output)")]
    if output.left_out:
        parts += [f"[… {output.left_out:,} bytes left out. {_where(ctx, log)}]", output.tail]
    if output.binary:
        parts.append("[This is no text. Send it to a file, and look at that with file, xxd or strings.]")
    return "\n".join([*(part.rstrip("\n") for part in parts if part), *said])


def _where(ctx: ToolContext, log: OutputLog) -> str:
    why = f" ({log.fault.rstrip('.')})" if log.fault else ""
    if log.path is None or not log.kept:
        return f"They could not be stored{why}; run the command with less output."
    path = os.path.relpath(log.path, ctx.workspace) if is_inside(ctx.workspace, log.path) else str(log.path)
    some = f"{log.kept:,} bytes" if why else "64 MiB"
    whole = "The full output is" if log.complete else f"The first {some} of the output are"
    return f"{whole} in {path}{why}: look into it with head, tail, grep, awk or sed, or with Grep and Read."


# --- background -------------------------------------------------------------------------------------


async def _run_in_background(
    registry: ShellRegistry, ctx: ToolContext, args: BashArgs, cwd: Path, unsaved: list[Path]
) -> ToolResult:
    commands = registry.of(ctx.job_id)
    if sum(one.command.status is None for one in commands.background.values()) >= _IN_BACKGROUND:
        return error(f"{_IN_BACKGROUND} background commands are running. Stop one with BashStop first.")
    command = await _start(registry, ctx, args, cwd)
    commands.started += 1
    identifier = f"bash-{commands.started}"
    title, _ = first_characters(one_line(args.command), 60)
    commands.background[identifier] = Background(
        identifier, title, command, asyncio.create_task(command.ended())
    )
    await command.log_from_now()
    text = (
        f"Started in the background as {identifier}. BashOutput returns its output, BashStop ends it; it"
        f" ends with the job."
    )
    if note := _unsaved(ctx, unsaved):
        text += f"\n[{note}]"
    return ToolResult(text, brief=f"{identifier} started")


async def _prepare_output(ctx: ToolContext, args: IdArgs) -> Prepared | ToolResult:
    return Prepared(f"BashOutput: {one_line(args.id, 40)}")


async def _prepare_stop(ctx: ToolContext, args: IdArgs) -> Prepared | ToolResult:
    return Prepared(f"BashStop: {one_line(args.id, 40)}")


def _run_output(registry: ShellRegistry) -> Run:
    async def run(ctx: ToolContext, args: IdArgs, prepared: Prepared) -> ToolResult:
        found = registry.find(ctx.job_id, args.id)
        await found.command.news(min(_WAIT_FOR_NEWS_S, ctx.timeout_s))
        return await _so_far(ctx, found)

    return run


def _run_stop(registry: ShellRegistry) -> Run:
    async def run(ctx: ToolContext, args: IdArgs, prepared: Prepared) -> ToolResult:
        found = registry.find(ctx.job_id, args.id)
        await unbroken(found.command.end())
        return await _so_far(ctx, found)

    return run


async def _so_far(ctx: ToolContext, found: Background) -> ToolResult:
    status = found.command.status
    output = await found.command.taken()
    state = "still running" if status is None else exit_words(status)
    if not output.head and not output.left_out:
        return ToolResult(f"(nothing new)\n[{found.id}: {state}]", brief=f"{found.id}: {state}")
    text = _text(ctx, output, found.command.log, [f"{found.id}: {state}"])
    return ToolResult(text, brief=f"{found.id}: {state}", truncated=output.left_out > 0)


def shell_tools(registry: ShellRegistry) -> tuple[ToolSpec, ...]:
    """``Bash``, ``BashOutput`` and ``BashStop``, whose commands belong to ``registry``."""
    return (
        make("Bash", BashArgs, Effect.EXECUTE, _prepare_bash, _run_bash(registry)),
        make("BashOutput", IdArgs, Effect.READ, _prepare_output, _run_output(registry)),
        make("BashStop", IdArgs, Effect.READ, _prepare_stop, _run_stop(registry)),
    )
