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

from engine.core.secrets import is_secret_path
from engine.core.tooling import Effect, Prepared, ToolResult, ToolSpec
from engine.core.truncate import fit_head
from engine.ports import ToolContext
from engine.tools.finding import Query, Report, Stop, compile_pattern, fits, scan
from engine.tools.patterns import Glob
from engine.tools.ripgrep import ripgrep
from engine.tools.spec import error, make
from engine.tools.textio import one_line
from engine.tools.walk import Ignores, walk
from engine.tools.writing import missing
from engine.workspace import Place, Refused, find_program, is_inside, resolve

T = TypeVar("T")

_GLOB_FILES = 500
_GREP_LINES = 250
_GREP_FILES = 500
_MOST_LINES = 10_000
_MOST_CONTEXT = 50
_FOR_NOTES = 200
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
    head_limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST_LINES)] | None = None


async def in_thread(work: Callable[[Stop], T], stop: Stop) -> T:
    """``work(stop)`` in a thread; when nobody waits for it any more it is told to stop."""
    try:
        return await asyncio.to_thread(work, stop)
    finally:
        stop.event.set()


def _stop(ctx: ToolContext) -> Stop:
    return Stop(min(ctx.timeout_s, _LONGEST_SEARCH_S))


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
        raise Refused(f"The folder `{base}` {reason}. Paths are relative to the workspace.")
    try:
        return _Names(place, Glob(rest))
    except ValueError as fault:
        raise Refused(f"`{args.pattern}` is no pattern for file names: {fault}.") from None


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
    found = await in_thread(lambda stop: _list(names, stop), stop)
    notes = _secret_note(found.secrets)
    if stop.late:
        notes.append(f"Stopped after {stop.seconds:g} s: not everything was looked at. Name a narrower path.")
    if not found.count:
        text = f"No file matches `{args.pattern}` in `{names.place.relative}`."
        return ToolResult("\n".join([text, *_noted(notes)]), brief="no file")
    listed = "\n".join(one_line(name, 4096) for name in found.names)
    kept, _ = fit_head(f"{listed}\n", max(ctx.budget - _FOR_NOTES, ctx.budget // 2), lines=True)
    shown = kept.count("\n")
    if shown < found.count:
        notes.insert(
            0, f"{shown} of {found.count} files, changed last; narrow the pattern or path for the others."
        )
    brief = f"{found.count} file{'' if found.count == 1 else 's'}"
    return ToolResult(
        "\n".join([kept.rstrip("\n"), *_noted(notes)]),
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
    for entry in walk(place.root, start, rules, stop, links=True):
        below = entry.relative[len(start) + 1 :] if start else entry.relative
        if not fits(names.glob, below):
            continue
        if is_secret_path(entry.relative.split("/")):
            secrets += 1
            continue
        count += 1
        item = (_changed_at(entry.path), entry.relative)
        (heapq.heappush if len(newest) < _GLOB_FILES else heapq.heappushpop)(newest, item)
    newest.sort(key=lambda item: (-item[0], item[1]))
    return _Listing([relative for _, relative in newest], count, secrets)


def _changed_at(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


# --- Grep -------------------------------------------------------------------------------------------


async def _prepare_grep(ctx: ToolContext, args: GrepArgs) -> Prepared | ToolResult:
    if not args.pattern or "\n" in args.pattern:
        return error("pattern must not be empty or hold a line feed: the search goes line by line.")
    place = await asyncio.to_thread(_searched, ctx, args)
    where = f" in {one_line(args.path)}" if args.path else ""
    return Prepared(f"Grep {one_line(args.pattern)}{where}", paths=((place.relative, place.kind),))


def _searched(ctx: ToolContext, args: GrepArgs) -> Place:
    place = resolve(ctx.workspace, ctx.task_dir, args.path or ".")
    if not place.path.exists():
        raise Refused(missing(place))
    return place


def _query(place: Place, args: GrepArgs) -> Query:
    start = "/".join(place.parts)
    single = not place.path.is_dir()
    ignores = Ignores(place.root)
    try:
        glob = Glob(args.glob) if args.glob else None
    except ValueError as fault:
        raise Refused(f"`{args.glob}` is no pattern for file names: {fault}.") from None
    names = args.glob if args.glob and "/" not in args.glob and not args.glob.startswith("!") else ""
    content = args.output_mode == "content"
    return Query(
        root=place.root,
        start=start,
        single=single,
        pattern=args.pattern,
        glob=glob,
        names=names,
        mode=args.output_mode,
        context=(args.context or 0) if content else 0,
        limit=args.head_limit or (_GREP_LINES if content else _GREP_FILES),
        ignores=None if single or ignores.hides_all(start) else ignores,
    )


async def _run_grep(ctx: ToolContext, args: GrepArgs, prepared: Prepared) -> ToolResult:
    place = await asyncio.to_thread(_searched, ctx, args)
    query = await asyncio.to_thread(_query, place, args)
    stop = _stop(ctx)
    report = Report(query, max(ctx.budget - _FOR_NOTES, ctx.budget // 2))
    fault = await _search(ctx, query, report, stop)
    if fault:
        return error(
            f"`{args.pattern}` is no valid regular expression: {fault}. Put a backslash before signs you"
            f" mean."
        )
    notes = _secret_note(report.secrets) + _unsaved_note(ctx, place, list(await ctx.documents.dirty()))
    if report.full():
        why = (
            f"Stopped at {query.limit} lines"
            if report.limited_by == "limit"
            else "The rest does not fit in one result"
        )
        notes.insert(0, f"{why}: there is more. Name a narrower path or glob, or use output_mode count.")
    if stop.late:
        notes.insert(
            0, f"Stopped after {stop.seconds:g} s: not everything was searched. Name a narrower path."
        )
    if not report.lines:
        text = f"No match for `{args.pattern}` in `{place.relative}`."
        return ToolResult("\n".join([text, *_noted(notes)]), brief="no match", truncated=stop.late)
    files = f"{len(report.files)} file{'' if len(report.files) == 1 else 's'}"
    brief = (
        files
        if query.mode != "content"
        else f"{report.hits} line{'' if report.hits == 1 else 's'} in {files}"
    )
    return ToolResult(
        "\n".join([*report.lines, *_noted(notes)]), brief=brief, truncated=report.full() or stop.late
    )


async def _search(ctx: ToolContext, query: Query, report: Report, stop: Stop) -> str:
    """Search with ``rg`` or without; the reason if the pattern is none, else empty.

    ``rg`` compares bytes, so for text beyond ASCII, which a file may hold in another encoding, our own
    search is right.
    """
    program = await asyncio.to_thread(find_program, "rg", ctx.workspace)
    if program is not None and query.pattern.isascii() and await ripgrep(program, query, report, stop):
        return ""
    try:
        compiled = compile_pattern(query.pattern)
    except ValueError as fault:
        return str(fault)
    await in_thread(lambda stop: scan(query, compiled, report, stop), stop)
    return ""


def _unsaved_note(ctx: ToolContext, place: Place, paths: list[Path]) -> list[str]:
    inside = [path for path in paths if is_inside(place.path, path) and is_inside(ctx.workspace, path)]
    names = ", ".join(one_line(str(path.relative_to(ctx.workspace)), 80) for path in inside[:10])
    return [f"Not saved in the editor; the older text on disk was searched: {names}"] if names else []


def _secret_note(count: int) -> list[str]:
    files = "1 file that has" if count == 1 else f"{count} files that have"
    return [f"{files} the name of a secret were left out."] if count else []


def _noted(notes: list[str]) -> list[str]:
    return [f"[{note}]" for note in notes]


GLOB = make("Glob", GlobArgs, Effect.READ, _prepare_glob, _run_glob)
GREP = make("Grep", GrepArgs, Effect.READ, _prepare_grep, _run_grep)
SEARCH_TOOLS: tuple[ToolSpec, ...] = (GLOB, GREP)
