"""``Write`` and ``Edit``: what a file will be is worked out first (``prepare``), and done only if it is
still what it was.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from engine.core.tooling import Effect, FileChange, FileDiff, Prepared, ToolResult
from engine.core.truncate import fit_head
from engine.ports import ToolContext
from engine.tools.edits import Change, Found, Missed, compare, find_edit
from engine.tools.spec import error, make
from engine.tools.targets import (
    Target,
    about_names,
    as_in_file,
    edited,
    encoded,
    missing,
    new_text,
    require_certain,
    require_read,
    require_saved,
    target_of,
)
from engine.tools.textio import (
    count_lines,
    main_line_end,
    one_line,
    shown,
    spliced,
    with_line_end,
)
from engine.workspace import (
    Content,
    Place,
    Refused,
    atomic_write,
    bytes_hash,
    changed,
    require_writable,
    resolve,
)


class WriteArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``Write``."""

    file_path: str
    content: str


class EditArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``Edit``."""

    file_path: str
    old_string: str
    new_string: str
    replace_all: bool = False


@dataclass(frozen=True, slots=True)
class _Plan:
    """A write that was worked out: the bytes before and after, and what is said about it."""

    place: Place
    before: Content | None
    after: bytes
    change: Change
    note: str = ""


# --- working out ------------------------------------------------------------------------------------


async def _prepare_write(ctx: ToolContext, args: WriteArgs) -> Prepared | ToolResult:
    target = await target_of(ctx, args.file_path)
    return await asyncio.to_thread(_plan_write, ctx, target, args.content)


def _plan_write(ctx: ToolContext, target: Target, content: str) -> Prepared | ToolResult:
    content = new_text(target, content)
    if target.before is None:
        return _prepared("Write", target, content, encoded(target, content))
    if (line_end := main_line_end(target.text)) != "\n":
        content = with_line_end(content, line_end)
    if not content.isascii():
        require_certain(target)
    after = target.charset.bom + encoded(target, content)
    if after == target.before.data:
        ctx.read_marks[str(target.place.path)] = bytes_hash(after)
        name = one_line(target.place.relative)
        return ToolResult(
            f"`{target.place.relative}` has exactly this content already; nothing was written.",
            f"{name}: unchanged",
            brief_key="brief.unchanged",
            brief_values={"path": name},
        )
    require_read(ctx, target)
    return _prepared("Write", target, content, after)


async def _prepare_edit(ctx: ToolContext, args: EditArgs) -> Prepared | ToolResult:
    target = await target_of(ctx, args.file_path)
    return await asyncio.to_thread(_plan_edit, ctx, target, args)


def _plan_edit(ctx: ToolContext, target: Target, args: EditArgs) -> Prepared | ToolResult:
    if args.old_string == args.new_string:
        return error(
            "old_string and new_string are the same: there is nothing to change. Give in new_string the text"
            " that is to take its place."
        )
    new = new_text(target, args.new_string)
    if not args.old_string:
        return _plan_first_text(target, new)
    if target.before is None:
        return error(missing(target.place))
    require_certain(target)
    stale = ctx.read_marks.get(str(target.place.path), target.digest) != target.digest
    old = as_in_file(target, args.old_string)
    match find_edit(target.text, old, new, replace_all=args.replace_all):
        case Missed(text):
            changed = f"`{target.place.relative}` changed since it was read; read it again. " if stale else ""
            return error(f"{changed}{shown(text)}", brief=f"{one_line(target.place.relative)}: no match")
        case Found(splices, note):
            note += " The file had changed since it was read; the edit still fitted." if stale else ""
            after = edited(target, list(splices))
            if after == target.before.data:
                return error(
                    f"This edit changes nothing in `{target.place.relative}`: the file keeps its own line"
                    " ends and Unicode forms. To change those, use Write or Bash."
                )
            return _prepared("Edit", target, spliced(target.text, list(splices)), after, note)


def _plan_first_text(target: Target, text: str) -> Prepared | ToolResult:
    if target.text:
        return error(
            f"`{target.place.relative}` is not empty, so an empty old_string says nothing. Give the text"
            " to replace, or use Write for the whole file."
        )
    return _prepared("Edit", target, text, target.charset.bom + encoded(target, text))


def _prepared(tool: str, target: Target, text: str, after: bytes, note: str = "") -> Prepared:
    place = target.place
    change = compare(target.text, text)
    name = one_line(place.relative)
    lines = count_lines(text)
    said, key = change.counts, f"title.{tool}"
    if target.before is None:
        said, key = f"new, {lines}", f"title.new_{tool}{'_one' if lines == '1 line' else ''}"
    before = None if target.before is None else shown(target.text)
    return Prepared(
        f"{tool} {name} ({said})",
        paths=((place.relative, place.kind),),
        diffs=(FileDiff(place.relative, before, shown(text)),),
        pre_hash=target.digest,
        post_hash=bytes_hash(after),
        state=_Plan(place, target.before, after, change, note + about_names(target)),
        title_key=key,
        title_values={"path": name, "said": said, "lines": lines.partition(" ")[0]},
    )


# --- doing ------------------------------------------------------------------------------------------


async def _run(ctx: ToolContext, args: WriteArgs | EditArgs, prepared: Prepared) -> ToolResult:
    plan = prepared.state
    assert isinstance(plan, _Plan)
    await require_saved(ctx, plan.place)
    await asyncio.to_thread(_write, ctx, args.file_path, plan, prepared)
    path = str(plan.place.path)
    if isinstance(args, WriteArgs) or plan.before is None or ctx.read_marks.get(path) == prepared.pre_hash:
        ctx.read_marks[path] = str(prepared.post_hash)
    return _report(ctx, plan, prepared)


def _write(ctx: ToolContext, asked: str, plan: _Plan, prepared: Prepared) -> None:
    place = resolve(ctx.workspace, ctx.task_dir, asked)
    require_writable(place, ctx.workspace, ctx.task_dir)
    if place.path != plan.place.path:
        raise Refused(changed(plan.place, prepared.pre_hash))
    atomic_write(place, plan.after, expected=prepared.pre_hash, like=plan.before, label=ctx.call_id)


def _report(ctx: ToolContext, plan: _Plan, prepared: Prepared) -> ToolResult:
    name = one_line(plan.place.relative)
    change = FileChange(
        plan.place.relative,
        plan.before.data if plan.before else None,
        prepared.post_hash,
        plan.before.mode if plan.before else None,
    )
    if plan.before is None:
        said = f"new, {count_lines(prepared.diffs[0].after)}"
        return ToolResult(f"Made {name} ({said}).{plan.note}", brief=f"{name} ({said})", changes=(change,))
    hunks, rest = fit_head(shown(plan.change.hunks), max(ctx.budget - 100, 100), lines=True)
    left_out = "\n[The rest of the diff is left out.]" if rest else ""
    text = f"Changed {name} ({plan.change.counts}).{plan.note}\n{hunks}{left_out}"
    return ToolResult(text, brief=f"{name} {plan.change.counts}", truncated=bool(rest), changes=(change,))


WRITE = make("Write", WriteArgs, Effect.WRITE, _prepare_write, _run)
EDIT = make("Edit", EditArgs, Effect.WRITE, _prepare_edit, _run)
