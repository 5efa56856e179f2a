"""``ReadToolDoc``: the full page of a tool (``engine.md`` sections 3 and 6).

The description in the tools array is short, because every request carries it; the page says the rest.
"""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path

import msgspec

from engine.core.piece_read import nearest
from engine.core.tooling import Effect, Outcome, Prepared, ToolResult
from engine.core.toolnames import BUILTIN_NAMES
from engine.ports import ToolContext
from engine.tools.spec import error, make
from engine.tools.textio import one_line

_PAGES = Path(__file__).parent / "docs"


class ReadToolDocArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``ReadToolDoc``."""

    name: str


async def _look(ctx: ToolContext, args: ReadToolDocArgs) -> Prepared | ToolResult:
    known = (*BUILTIN_NAMES, *(name for name in ctx.known_tools if name not in BUILTIN_NAMES))
    folded = {name.casefold(): name for name in known}
    name = folded.get(args.name.strip().casefold())
    if name is None:
        near = nearest(args.name.strip(), known)
        hint = f" Did you mean `{near}`?" if near else ""
        asked = one_line(args.name, 80) or "(empty)"
        return error(f"There is no tool `{asked}`.{hint} There are: {', '.join(known)}.")
    return Prepared(f"ReadToolDoc {name}", state=name)


async def _read(ctx: ToolContext, args: ReadToolDocArgs, prepared: Prepared) -> Outcome:
    name = str(prepared.state)
    page = await asyncio.to_thread(tool_page, name) if name in BUILTIN_NAMES else None
    if page is None:
        return error(f"`{name}` has no page. Its description in the list of tools is all there is.")
    return ToolResult(page, brief=f"the page of {name}")


@cache
def tool_page(name: str) -> str:
    """The page of a built-in tool, in Markdown. Reads a file: not for an event loop."""
    return (_PAGES / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


READ_TOOL_DOC = make("ReadToolDoc", ReadToolDocArgs, Effect.READ, _look, _read, always=True)
