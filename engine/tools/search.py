"""``Glob`` and ``Grep``."""

from __future__ import annotations

import asyncio
import heapq
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from engine.core.tooling import Effect, Prepared, ToolResult, ToolSpec
from engine.core.truncate import fit_head
from engine.ports import ToolContext
from engine.tools import search_notes as notes
from engine.tools.finding import (
    Query,
    Report,
    Stop,
    candidates,
    fits,
    path_text,
    scan,
)
from engine.tools.matching import LONGEST_PATTERN, Matcher, matcher
from engine.tools.patterns import Glob
from engine.tools.ripgrep import batches, holding
from engine.tools.spec import error, make
from engine.tools.targets import missing
from engine.tools.textio import one_line
from engine.tools.walk import Ignores, LeftOut, is_secret, walk
from engine.workspace import Place, Refused, find_program, is_inside, resolve

T = TypeVar("T")

_GLOB_FILES = 500
_GREP_LINES = 250
_GREP_FILES = 500
_MOST_CONTEXT = 50
_FOR_NOTES = 300
_LONGEST_SEARCH_S = 60.0
_WILD = frozenset("*?[{\\")


class GlobArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``Glob``."""

    pattern: str
    path: str | None = None


class GrepArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``Grep``."""

    pattern: str
    path: str | None = None
    glob: str | None = None
    output_mode: Literal["content", "files_with_matches", "count"] = "content"
    context: Annotated[int, msgspec.Meta(ge=0, le=_MOST_CONTEXT)] | None = None
    head_limit: Annotated[int, msgspec.Meta(ge=1, le=notes.MOST_LINES)] | None = None


async def in_thread(work: Callable[[], T], stop: Stop) -> T:
    """``work()`` in a thread; when nobody waits for it any more, ``stop`` tells it to end."""
    try:
        return await asyncio.to_thread(work)
    except BaseException:
        stop.event.set()
        raise


def _stop(ctx: ToolContext) -> Stop:
    return Stop(min(ctx.timeout_s, _LONGEST_SEARCH_S))


def _for_result(ctx: ToolContext) -> int:
    return max(ctx.budget - _FOR_NOTES, ctx.budget // 2)


def _glob(pattern: str, asked: str) -> Glob:
    if len(pattern) > LONGEST_PATTERN:
        raise Refused(
            f"The pattern for file names has more than {LONGEST_PATTERN} characters. Give a shorter one."
        )
    try:
        return Glob(pattern)
    except ValueError as fault:
        raise Refused(f"`{path_text(asked)}` is no pattern for file names: {fault}.") from None


# --- Glob -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Names:
    """What ``Glob`` looks for: ``glob`` below ``place``."""

    place: Place
    glob: Glob


@dataclass(frozen=True, slots=True)
class _Listing:
    names: list[str]
    count: int
    secrets: int
    left_out: LeftOut


async def _prepare_glob(ctx: ToolContext, args: GlobArgs) -> Prepared | ToolResult:
    names = await asyncio.to_thread(_names, ctx, args)
    where = f" in {one_line(args.path)}" if args.path else ""
    return Prepared(
        f"Glob {one_line(args.pattern)}{where}",
        paths=((names.place.relative, names.place.kind),),
        state=names,
    )


def _names(ctx: ToolContext, args: GlobArgs) -> _Names:
    if not args.pattern.strip("/ "):
        raise Refused("pattern is empty. Give one such as **/*.py.")
    folders, rest = _literal_start(args.pattern)
    base = folders if folders.startswith("/") else "/".join(filter(None, [args.path or ".", folders]))
    place = resolve(ctx.workspace, ctx.task_dir, base)
    if not place.path.is_dir():
        reason = "is no folder" if place.path.exists() else "does not exist"
        raise Refused(f"The folder `{path_text(base)}` {reason}. Paths are relative to the workspace.")
    return _Names(place, _glob(rest, args.pattern))


def _literal_start(pattern: str) -> tuple[str, str]:
    """The folders that a pattern names before its first wildcard, and the pattern from there."""
    parts = pattern.split("/")
    literal = 0
    while literal < len(parts) - 1 and not _WILD & set(parts[literal]):
        literal += 1
    rest = "/".join(parts[literal:]) or "**"
    return "/".join(parts[:literal]) or ("/" if literal else ""), f"/{rest}" if len(parts) > 1 else rest


async def _run_glob(ctx: ToolContext, args: GlobArgs, prepared: Prepared) -> ToolResult:
    stop = _stop(ctx)
    names = await asyncio.to_thread(_names, ctx, args)
    found = await in_thread(lambda: _list(names, stop), stop)
    said = [*notes.secrets(found.secrets), *notes.closed(found.left_out)]
    if stop.late:
        said.append(notes.stopped(stop.seconds))
    if not found.count:
        text = f"No file matches `{path_text(args.pattern)}` in `{path_text(names.place.relative)}`."
        said += [*notes.folders(args.pattern), *notes.ignored(found.left_out)]
        return ToolResult("\n".join([text, *notes.noted(said)]), brief="no file", truncated=stop.late)
    listed = "\n".join(path_text(name) for name in found.names)
    kept, _ = fit_head(f"{listed}\n", _for_result(ctx), lines=True)
    shown = kept.count("\n")
    if shown < found.count:
        said.insert(
            0, f"{shown} of {found.count} files, changed last; narrow the pattern or path for the others."
        )
    brief = f"{found.count} file{'' if found.count == 1 else 's'}"
    return ToolResult(
        "\n".join([kept.rstrip("\n"), *notes.noted(said)]),
        brief=brief,
        truncated=shown < found.count or stop.late,
    )


def _list(names: _Names, stop: Stop) -> _Listing:
    place = names.place
    start = "/".join(place.parts)
    ignores = Ignores(place.root)
    rules = None if ignores.hides_all(start) else ignores
    newest: list[tuple[float, str]] = []
    count = secrets = 0
    left_out = LeftOut()
    for entry in walk(place.root, start, rules, stop, links=True, left_out=left_out):
        below = entry.relative[len(start) + 1 :] if start else entry.relative
        if not fits(names.glob, below):
            continue
        if is_secret(entry.relative):
            secrets += 1
            continue
        count += 1
        item = (_changed_at(entry.path), entry.relative)
        (heapq.heappush if len(newest) < _GLOB_FILES else heapq.heappushpop)(newest, item)
    newest.sort(key=lambda item: (-item[0], item[1]))
    return _Listing([relative for _, relative in newest], count, secrets, left_out)


def _changed_at(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


# --- Grep -------------------------------------------------------------------------------------------


async def _prepare_grep(ctx: ToolContext, args: GrepArgs) -> Prepared | ToolResult:
    if not args.pattern:
        return error("pattern must not be empty. Give a word or a regular expression.")
    try:
        await asyncio.to_thread(matcher, args.pattern)
    except ValueError as fault:
        return _no_pattern(args.pattern, fault)
    place = await asyncio.to_thread(_searched, ctx, args)
    where = f" in {one_line(args.path)}" if args.path else ""
    return Prepared(f"Grep {one_line(args.pattern)}{where}", paths=((place.relative, place.kind),))


def _no_pattern(pattern: str, fault: ValueError) -> ToolResult:
    if "line end" in str(fault):
        return error(
            "The search goes line by line, so a pattern that needs a line feed finds nothing. Search for one"
            " of the lines; context shows those beside it."
        )
    return error(
        f"`{one_line(pattern)}` is no valid regular expression: {fault}. Put a backslash before signs you"
        f" mean."
    )


def _searched(ctx: ToolContext, args: GrepArgs) -> Place:
    place = resolve(ctx.workspace, ctx.task_dir, args.path or ".")
    if not place.path.exists():
        raise Refused(missing(place))
    return place


def _query(ctx: ToolContext, args: GrepArgs) -> tuple[Place, Query]:
    place = _searched(ctx, args)
    start = "/".join(place.parts)
    single = not place.path.is_dir()
    ignores = Ignores(place.root)
    content = args.output_mode == "content"
    return place, Query(
        root=place.root,
        start=start,
        single=single,
        pattern=args.pattern,
        glob=_glob(args.glob, args.glob) if args.glob else None,
        mode=args.output_mode,
        context=(args.context or 0) if content else 0,
        limit=args.head_limit or (_GREP_LINES if content else _GREP_FILES),
        ignores=None if single or ignores.hides_all(start) else ignores,
    )


async def _run_grep(ctx: ToolContext, args: GrepArgs, prepared: Prepared) -> ToolResult:
    place, query = await asyncio.to_thread(_query, ctx, args)
    stop = _stop(ctx)
    report = Report(query, _for_result(ctx))
    await _search(ctx, query, await asyncio.to_thread(matcher, args.pattern), report, stop)
    said = notes.more(query, report)
    if stop.late:
        said.append(notes.stopped(stop.seconds, single=query.single))
    said += [*notes.secrets(report.secrets), *notes.unseen(report)]
    said += notes.unsaved(_unsaved(ctx, place, list(await ctx.documents.dirty())))
    if not report.lines:
        text = f"No match for `{path_text(args.pattern)}` in `{path_text(place.relative)}`."
        said += [*notes.nothing(args.pattern), *notes.ignored(report.left_out)]
        return ToolResult("\n".join([text, *notes.noted(said)]), brief="no match", truncated=stop.late)
    return ToolResult(
        "\n".join([*report.lines, *notes.noted(said)]),
        brief=_brief(query, report),
        truncated=report.full() or stop.late,
    )


def _brief(query: Query, report: Report) -> str:
    files = f"{len(report.files)} file{'' if len(report.files) == 1 else 's'}"
    if query.mode != "content":
        return files
    return f"{report.hits} line{'' if report.hits == 1 else 's'} in {files}"


async def _search(ctx: ToolContext, query: Query, wanted: Matcher, report: Report, stop: Stop) -> None:
    """Search into ``report``; ``rg``, where it is there, tells which files need no look."""
    program = None
    if wanted.needle is not None and wanted.needle.tells and not query.single:
        program = await asyncio.to_thread(find_program, "rg", ctx.workspace)
    rows = batches(candidates(query, report, stop))
    while not report.full() and not stop():
        names = await in_thread(lambda: next(rows, []), stop)
        if not names:
            return
        if program is not None and wanted.needle is not None:
            names = await holding(program, query.root, names, wanted.needle, stop)
        await in_thread(lambda names=names: scan(query, wanted, report, names, stop), stop)  # type: ignore[misc]


def _unsaved(ctx: ToolContext, place: Place, paths: list[Path]) -> list[str]:
    inside = [path for path in paths if is_inside(place.path, path) and is_inside(ctx.workspace, path)]
    return [str(path.relative_to(ctx.workspace)) for path in inside]


GLOB = make("Glob", GlobArgs, Effect.READ, _prepare_glob, _run_glob)
GREP = make("Grep", GrepArgs, Effect.READ, _prepare_grep, _run_grep)
SEARCH_TOOLS: tuple[ToolSpec, ...] = (GLOB, GREP)
