"""``ListPieces``, ``GetPiece``, ``CreatePiece``, ``UpdatePiece``: pieces as something that the model can read
and build (``engine.md`` sections 2 and 6).

A piece says what an agent may do, so its file is a protected one: policy asks the person, who sees the
difference, whatever the mode. Only the workspace's own folder is written; a text with errors never is.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Annotated

import msgspec

from engine.core.piece_card import PieceReview
from engine.core.piece_keys import PIECE_NAME
from engine.core.piece_read import nearest
from engine.core.tooling import Effect, Outcome, Prepared, ToolResult, ToolSpec
from engine.core.truncate import fit_head
from engine.ports import Pieces, ToolContext
from engine.tools.spec import error, make
from engine.tools.targets import unsaved
from engine.tools.textio import one_line
from engine.tools.writing import WRITE, WriteArgs
from engine.workspace import bytes_hash, read_content, resolve

_LARGEST = 1 << 20
_FOR_NOTES = 400
_FINDINGS = 40


class ListPiecesArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``ListPieces``: none."""


class GetPieceArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``GetPiece``."""

    name: str
    offset: Annotated[int, msgspec.Meta(ge=1)] | None = None


class PieceArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``CreatePiece`` and ``UpdatePiece``."""

    name: str
    yaml_content: str


# --- reading ----------------------------------------------------------------------------------------


async def _prepare_list(ctx: ToolContext, args: ListPiecesArgs) -> Prepared:
    return Prepared("ListPieces")


async def _list(ctx: ToolContext, args: ListPiecesArgs, prepared: Prepared) -> Outcome:
    lines = []
    for card in await asyncio.to_thread(_pieces(ctx).cards):
        hides = f"; hides: {', '.join(card.shadows)}" if card.shadows else ""
        faults = f" [{card.errors} errors: it cannot be used]" if card.errors else ""
        lines.append(f"- {card.name} ({card.source}{hides}): {one_line(card.description, 300)}{faults}")
    return ToolResult("\n".join(lines) or "There are no pieces.", brief=f"{len(lines)} pieces")


async def _prepare_get(ctx: ToolContext, args: GetPieceArgs) -> Prepared | ToolResult:
    return _misnamed(args.name) or Prepared(f"GetPiece {args.name}")


async def _get(ctx: ToolContext, args: GetPieceArgs, prepared: Prepared) -> Outcome:
    found = await _own_text(ctx, args.name) or await asyncio.to_thread(_pieces(ctx).text, args.name)
    if found is None:
        return error(await asyncio.to_thread(_unknown, ctx, args.name))
    source, text = found
    review = await asyncio.to_thread(_pieces(ctx).review, text, ctx.language)
    notes = [f"[Piece `{args.name}`, from: {source}.{_not_in_use(ctx, source)}]", *_findings(review)]
    lines = text.splitlines(keepends=True)
    first = args.offset or 1
    if first > max(1, len(lines)):
        return error(f"`{args.name}` has only {len(lines)} lines. Give an offset up to {len(lines)}.")
    head, rest = fit_head(
        "".join(lines[first - 1 :]), max(ctx.budget - _FOR_NOTES, ctx.budget // 2), lines=True
    )
    if rest:
        onward = first + max(1, len(head.splitlines()))
        notes.append(f"[Cut at the budget. GetPiece with offset={onward} goes on at that line.]")
    return ToolResult("\n".join([*notes, head]), brief=f"{args.name} ({source})", truncated=bool(rest))


async def _own_text(ctx: ToolContext, name: str) -> tuple[str, str] | None:
    """The workspace's own piece as the person sees it (an unsaved buffer before the file), trusted or not."""
    path, there = await asyncio.to_thread(_pieces(ctx).place, name)
    if not there:
        return None
    place = await asyncio.to_thread(resolve, ctx.workspace, ctx.task_dir, path)
    if buffer := await unsaved(ctx, place):
        data = buffer.text.encode("utf-8", "surrogatepass")
        source = "workspace, the open editor buffer with unsaved changes"
    else:
        data, source = (await asyncio.to_thread(read_content, place, _LARGEST)).data, "workspace"
    ctx.read_marks[str(place.path)] = bytes_hash(data)
    return source, data.decode("utf-8", "replace")


def _not_in_use(ctx: ToolContext, source: str) -> str:
    if not source.startswith("workspace") or _pieces(ctx).trusted:
        return ""
    return " This workspace is not trusted: its pieces are not used until the person trusts it."


# --- writing ----------------------------------------------------------------------------------------


async def _prepare_create(ctx: ToolContext, args: PieceArgs) -> Prepared | Outcome:
    if (wrong := _misnamed(args.name) or _no_edit(ctx)) is not None:
        return wrong
    path, there = await asyncio.to_thread(_pieces(ctx).place, args.name)
    if there:
        return error(f"The piece `{args.name}` exists already ({path}). Change it with UpdatePiece.")
    if (source := await asyncio.to_thread(_elsewhere, ctx, args.name)) is not None:
        return error(
            f"There is a piece `{args.name}` already ({source}). One of the same name here would take its"
            " place for every task in this workspace, so none is made. Choose another name."
        )
    return await _prepare_write(ctx, "CreatePiece", path, args)


async def _prepare_update(ctx: ToolContext, args: PieceArgs) -> Prepared | Outcome:
    if (wrong := _misnamed(args.name) or _no_edit(ctx)) is not None:
        return wrong
    path, there = await asyncio.to_thread(_pieces(ctx).place, args.name)
    if not there:
        return error(await asyncio.to_thread(_not_here, ctx, args.name))
    place = await asyncio.to_thread(resolve, ctx.workspace, ctx.task_dir, path)
    if str(place.path) not in ctx.read_marks:
        return error(f"`{args.name}` was not read yet in this conversation. Read it with GetPiece first.")
    return await _prepare_write(ctx, "UpdatePiece", path, args)


async def _prepare_write(ctx: ToolContext, tool: str, path: str, args: PieceArgs) -> Prepared | Outcome:
    """A text that may stand in the file, prepared as ``Write`` prepares it: diff, hashes, protected path."""
    review = await asyncio.to_thread(_pieces(ctx).review, args.yaml_content, ctx.language)
    if review.name is None:
        findings = "\n".join(_findings(review))
        return error(
            f"Nothing was written: the text has errors. Mend them and call {tool} again.\n{findings}",
            f"{args.name}: {len(review.errors)} errors",
        )
    if review.name != args.name:
        return error(
            f"Nothing was written: `name:` in the text is `{review.name}`, and must be `{args.name}`.",
            f"{args.name}: the text names {review.name}",
        )
    prepared = await WRITE.prepare(ctx, WriteArgs(path, args.yaml_content))
    if not isinstance(prepared, Prepared):
        return prepared
    return replace(prepared, title=f"{tool} {prepared.title.removeprefix('Write ')}")


async def _write(ctx: ToolContext, args: PieceArgs, prepared: Prepared) -> Outcome:
    path = prepared.diffs[0].path
    done = await WRITE.run(ctx, WriteArgs(path, args.yaml_content), prepared)
    if not isinstance(done, ToolResult) or done.is_error:
        return done
    review = await asyncio.to_thread(_pieces(ctx).review, args.yaml_content, ctx.language)
    said = [*(_findings(review) or ["[The validator finds no faults.]"])]
    if unused := _not_in_use(ctx, "workspace"):
        said.append(f"[{unused.strip()}]")
    return replace(done, text="\n".join([*said, done.text]))


# --- what both share --------------------------------------------------------------------------------


def _pieces(ctx: ToolContext) -> Pieces:
    assert ctx.pieces is not None
    return ctx.pieces


def _misnamed(name: str) -> ToolResult | None:
    if re.fullmatch(PIECE_NAME, name):
        return None
    return error(
        f"`{one_line(name, 80)}` is not the name of a piece: small letters, digits and hyphens, without an"
        " ending. ListPieces shows those that exist."
    )


def _no_edit(ctx: ToolContext) -> ToolResult | None:
    if ctx.edit:
        return None
    return error(
        "This movement changes no files (edit: false), so no piece is written in it. Move on to a movement"
        " that edits, or say in the result what would be needed."
    )


def _elsewhere(ctx: ToolContext, name: str) -> str | None:
    """Where a piece of this name is from, if there is one."""
    return next((card.source for card in _pieces(ctx).cards() if card.name == name), None)


def _not_here(ctx: ToolContext, name: str) -> str:
    source = _elsewhere(ctx, name)
    if source is None:
        return f"{_unknown(ctx, name)} CreatePiece makes a new one."
    return (
        f"`{name}` is not a piece of this workspace ({source}); it is never changed in place. Make one with"
        " another name by CreatePiece."
    )


def _unknown(ctx: ToolContext, name: str) -> str:
    known = [card.name for card in _pieces(ctx).cards()]
    near = nearest(name, known)
    hint = f" Did you mean `{near}`?" if near else ""
    return f"There is no piece `{name}`.{hint} There are: {', '.join(known)}."


def _findings(review: PieceReview) -> list[str]:
    """The validator's findings as lines, errors first; at most ``_FINDINGS`` of them."""
    lines = [*review.errors, *review.notes]
    more = [f"… and {len(lines) - _FINDINGS} more"] if len(lines) > _FINDINGS else []
    return [f"- {line}" for line in [*lines[:_FINDINGS], *more]]


PIECE_TOOLS: tuple[ToolSpec, ...] = (
    make("ListPieces", ListPiecesArgs, Effect.READ, _prepare_list, _list),
    make("GetPiece", GetPieceArgs, Effect.READ, _prepare_get, _get),
    make("CreatePiece", PieceArgs, Effect.WRITE, _prepare_create, _write),
    make("UpdatePiece", PieceArgs, Effect.WRITE, _prepare_update, _write),
)
