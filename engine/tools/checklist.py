"""``Checklist``: named lists that a task keeps from movement to movement (``engine.md`` section 3).

The database holds them; ``logs/checklists/<name>.json`` is a copy for people and scripts.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Annotated, Literal

import msgspec

from engine.core.checklist import (
    MOST_ITEMS,
    MOST_LISTS,
    Checklist,
    checked,
    created,
    find,
    name_problem,
    shown,
    to_json,
)
from engine.core.tooling import Effect, Outcome, Prepared, ToolResult
from engine.ports import ToolContext
from engine.tools.spec import error, make
from engine.tools.textio import one_line
from engine.workspace import Refused, atomic_write, file_hash, resolve


class ChecklistArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``Checklist``."""

    action: Literal["create", "check", "list"]
    name: str
    items: Annotated[list[str], msgspec.Meta(max_length=MOST_ITEMS)] | None = None
    item: str | None = None


async def _look(ctx: ToolContext, args: ChecklistArgs) -> Prepared | ToolResult:
    if (problem := name_problem(args.name.strip())) is not None:
        return error(f"`{one_line(args.name, 80)}` cannot be the name of a checklist: {problem}.")
    return Prepared(title=f"Checklist {args.action} {args.name.strip()}")


async def _checklist(ctx: ToolContext, args: ChecklistArgs, prepared: Prepared) -> Outcome:
    name = args.name.strip()
    assert ctx.lists is not None
    lists = await ctx.lists.all()
    match args.action:
        case "create":
            if name not in lists and len(lists) >= MOST_LISTS:
                return error(f"There are {MOST_LISTS} checklists already; use one of: {', '.join(lists)}.")
            items = created(args.items or (), lists.get(name, ()))
            if not items:
                return error("`create` needs `items`: a list of texts, one for each thing to check off.")
            return await _kept(ctx, name, items)
        case "list" | "check" if name not in lists:
            known = f"There are: {', '.join(lists)}." if lists else "Make it with `create`."
            return error(f"There is no checklist `{name}`. {known}")
        case "list":
            return ToolResult(shown(name, lists[name]), brief=f"{name}: {len(lists[name])} items")
        case "check":
            return await _check(ctx, name, lists[name], args.item or "")


async def _check(ctx: ToolContext, name: str, items: Checklist, asked: str) -> Outcome:
    if not asked.strip():
        return error("`check` needs `item`: the text or the number of the item to check off.")
    at = find(items, asked)
    if isinstance(at, list):
        near = "; ".join(f"`{text}`" for text in at)
        return error(f"No single item of `{name}` is `{one_line(asked.strip(), 100)}`. Did you mean: {near}?")
    return await _kept(ctx, name, checked(items, at))


async def _kept(ctx: ToolContext, name: str, items: Checklist) -> ToolResult:
    assert ctx.lists is not None
    items = await ctx.lists.keep(name, items)
    with suppress(Refused, OSError):  # the list is kept; a copy that cannot be written is none
        await asyncio.to_thread(_copy, ctx, name, items)
    done = sum(item.done for item in items)
    return ToolResult(shown(name, items), brief=f"{name}: {done}/{len(items)}")


def _copy(ctx: ToolContext, name: str, items: Checklist) -> None:
    folder = ctx.task_dir.relative_to(ctx.workspace)
    place = resolve(ctx.workspace, ctx.task_dir, f"{folder}/logs/checklists/{name}.json")
    data = json.dumps(to_json(items), ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"
    atomic_write(place, data, expected=file_hash(place), like=None, label=ctx.call_id)


CHECKLIST = make("Checklist", ChecklistArgs, Effect.CONTROL, _look, _checklist, always=True)
