"""How a tool becomes a ``ToolSpec``: its description from the ``.md`` beside it, its schema from its
arguments.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from engine.core.tooling import Effect, Outcome, Prepare, Prepared, Run, ToolResult, ToolSpec, argument_schema
from engine.workspace import Refused

T = TypeVar("T")

_FOLDER = Path(__file__).parent


def make(
    name: str,
    arguments: type[msgspec.Struct],
    effect: Effect,
    prepare: Prepare,
    run: Run,
    *,
    always: bool = False,
    folds: bool = False,
) -> ToolSpec:
    """The spec of a tool; its description is ``<name>.md`` beside this module, without the final newline.

    In ``prepare`` and ``run`` a tool may raise ``Refused`` with a sentence for the model, or let an
    ``OSError`` through: either becomes an error result.
    """

    async def guarded_prepare(ctx: Any, args: Any) -> Prepared | Outcome:
        return await _plainly(prepare(ctx, args))

    async def guarded_run(ctx: Any, args: Any, prepared: Prepared) -> Outcome:
        return await _plainly(run(ctx, args, prepared))

    return ToolSpec(
        name=name,
        description=_description(name),
        arguments=arguments,
        effect=effect,
        run=guarded_run,
        prepare=guarded_prepare,
        always=always,
        folds=folds,
        schema=argument_schema(arguments),
    )


@cache
def _description(name: str) -> str:
    """Read once: the control tools are made for every claimed job, on the engine's event loop."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


async def _plainly(work: Awaitable[T]) -> T | ToolResult:
    try:
        return await work
    except Refused as refused:
        return error(str(refused))
    except OSError as fault:
        return error(said(fault))


def error(text: str, brief: str = "") -> ToolResult:
    """An error result; ``brief`` is the first sentence unless given."""
    return ToolResult(text, brief=brief or text.split("\n", 1)[0], is_error=True)


def said(fault: OSError) -> str:
    """A fault of the file system in one sentence."""
    reason = fault.strerror or str(fault)
    name = os.fsdecode(fault.filename) if isinstance(fault.filename, str | bytes) else ""
    return f"{reason}: {name}" if name else f"{reason}."
