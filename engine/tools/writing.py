"""``Write`` and ``Edit``: what a file will be is worked out first (``prepare``), and done only if it is
still what it was.
"""

from __future__ import annotations

import asyncio
import difflib
import os
from dataclasses import dataclass, replace

import msgspec

from engine.core.secrets import completes_bare_repository, is_secret_path
from engine.core.tooling import Effect, FileChange, FileDiff, PathClass, Prepared, ToolResult
from engine.core.truncate import fit_head
from engine.ports import Buffer, ToolContext
from engine.tools.edits import Change, Found, Missed, compare, find_edit
from engine.tools.spec import error, make
from engine.tools.textio import (
    UTF8,
    Charset,
    Splice,
    count_lines,
    detect,
    main_line_end,
    one_line,
    shown,
    splice_bytes,
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
    folder_of,
    is_temporary,
    read_content,
    require_writable,
    resolve,
)

_LARGEST = 64 << 20


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
class _Target:
    """The file that is to be written, as it is now. ``before`` is None if there is none; text and BOM are
    taken apart.
    """

    place: Place
    before: Content | None
    charset: Charset
    text: str

    @property
    def digest(self) -> str | None:
        """The hash of the file as it is now."""
        return bytes_hash(self.before.data) if self.before is not None else None


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
    target = await _target(ctx, args.file_path)
    _require_text(args.content)
    if target.before is None:
        return _prepared("Write", target, args.content, _encode(target, args.content))
    content = args.content
    if (line_end := main_line_end(target.text)) != "\n":
        content = with_line_end(content, line_end)
    if not content.isascii():
        _require_certain(target)
    after = target.charset.bom + _encode(target, content)
    if after == target.before.data:
        ctx.read_marks[str(target.place.path)] = bytes_hash(after)
        return ToolResult(
            f"`{target.place.relative}` has exactly this content already; nothing was written.", "unchanged"
        )
    _require_read(ctx, target)
    return _prepared("Write", target, content, after)


async def _prepare_edit(ctx: ToolContext, args: EditArgs) -> Prepared | ToolResult:
    target = await _target(ctx, args.file_path)
    _require_text(args.new_string)
    if args.old_string == args.new_string:
        return error("old_string and new_string are the same: there is nothing to change.")
    if not args.old_string:
        return _prepare_first_text(target, args.new_string)
    if target.before is None:
        return error(await asyncio.to_thread(missing, target.place))
    _require_certain(target)
    stale = ctx.read_marks.get(str(target.place.path), target.digest) != target.digest
    match await asyncio.to_thread(
        find_edit, target.text, args.old_string, args.new_string, replace_all=args.replace_all
    ):
        case Missed(text, absent):
            reason = (
                f"`{target.place.relative}` changed since it was read; read it again. "
                if stale and absent
                else ""
            )
            return error(f"{reason}{shown(text)}", brief=f"{one_line(target.place.relative)}: no match")
        case Found(splices, _):
            after = _splice(target, list(splices))
    note = " The file had changed since it was read; the edit still fitted." if stale else ""
    return await asyncio.to_thread(
        _prepared, "Edit", target, spliced(target.text, list(splices)), after, note
    )


def _prepare_first_text(target: _Target, text: str) -> Prepared | ToolResult:
    if target.text:
        return error(
            f"`{target.place.relative}` is not empty, so an empty old_string says nothing. Give the text"
            f" to replace, or"
            " use Write for the whole file."
        )
    return _prepared("Edit", target, text, target.charset.bom + _encode(target, text))


def _prepared(tool: str, target: _Target, text: str, after: bytes, note: str = "") -> Prepared:
    place = target.place
    change = compare(target.text, text)
    said = change.counts if target.before is not None else f"new, {count_lines(text)}"
    before = None if target.before is None else shown(target.text)
    return Prepared(
        f"{tool} {one_line(place.relative)} ({said})",
        paths=((place.relative, place.kind),),
        diffs=(FileDiff(place.relative, before, shown(text)),),
        pre_hash=target.digest,
        post_hash=bytes_hash(after),
        state=_Plan(place, target.before, after, change, note),
    )


async def _target(ctx: ToolContext, asked: str) -> _Target:
    target = await asyncio.to_thread(_look, ctx, asked)
    await _require_saved(ctx, target.place)
    return target


def _look(ctx: ToolContext, asked: str) -> _Target:
    place = resolve(ctx.workspace, ctx.task_dir, asked)
    require_writable(place, ctx.workspace, ctx.task_dir)
    if _completes_repository(place):
        place = replace(place, kind=PathClass.PROTECTED)
    try:
        before = read_content(place, _LARGEST)
    except FileNotFoundError:
        return _Target(place, None, UTF8, "")
    charset = detect(before.data)
    if charset is None:
        raise Refused(f"`{asked}` is a binary file. Read, Write and Edit are for text; use Bash for others.")
    return _Target(place, before, charset, charset.decode(before.data[len(charset.bom) :]))


def _completes_repository(place: Place) -> bool:
    try:
        with folder_of(place) as folder, os.scandir(folder) as entries:
            return completes_bare_repository((entry.name for entry in entries), place.name)
    except FileNotFoundError:
        return False


# --- refusals ---------------------------------------------------------------------------------------


async def unsaved(ctx: ToolContext, place: Place) -> Buffer | None:
    """The open buffer of a file if it has unsaved changes."""
    buffer = await ctx.documents.read(place.path)
    return buffer if buffer is not None and buffer.dirty else None


async def _require_saved(ctx: ToolContext, place: Place) -> None:
    if await unsaved(ctx, place) is not None:
        raise Refused(
            f"`{place.relative}` has unsaved changes in the editor, which writing the file would put at"
            f" risk. Ask the"
            " person to save or discard them, then repeat the change."
        )


def _require_read(ctx: ToolContext, target: _Target) -> None:
    mark = ctx.read_marks.get(str(target.place.path))
    if mark is None:
        raise Refused(
            f"`{target.place.relative}` exists and was not read yet in this conversation. Read it first,"
            f" then write it"
            " as a whole, or Edit the part that changes."
        )
    if mark != target.digest:
        raise Refused(
            f"`{target.place.relative}` changed since it was read. Read it again before writing it as a"
            f" whole."
        )


def _require_certain(target: _Target) -> None:
    if not target.charset.certain:
        raise Refused(
            f"The encoding of `{target.place.relative}` was not recognised for certain, so writing text"
            f" into it could"
            " damage it. Ask the person for its encoding, and convert it with Bash (iconv) if they agree."
        )


def _require_text(text: str) -> None:
    half = next((char for char in text if "\ud800" <= char <= "\udfff"), None)
    if half is not None:
        raise Refused(f"The new text holds half a character (U+{ord(half):04X}). Send the whole character.")


def _encode(target: _Target, text: str) -> bytes:
    try:
        return target.charset.encode(text)
    except UnicodeEncodeError as fault:
        raise _unsayable(target, fault) from None


def _splice(target: _Target, splices: list[Splice]) -> bytes:
    try:
        after = splice_bytes(
            target.before.data if target.before else b"", target.text, target.charset, splices
        )
    except UnicodeEncodeError as fault:
        raise _unsayable(target, fault) from None
    if after is None:
        raise Refused(
            f"In `{target.place.relative}` ({target.charset.shown}) this place cannot be changed without"
            f" touching the"
            " bytes around it. Nothing was changed; replace whole lines, or convert the file with Bash"
            " (iconv)."
        )
    return after


def _unsayable(target: _Target, fault: UnicodeEncodeError) -> Refused:
    char = fault.object[fault.start]
    return Refused(
        f"`{target.place.relative}` is {target.charset.shown}, which has no “{char}” (U+{ord(char):04X})."
        f" Nothing was"
        " changed; use other characters, or ask the person whether the file may become UTF-8."
    )


# --- doing ------------------------------------------------------------------------------------------


async def _run(ctx: ToolContext, args: WriteArgs | EditArgs, prepared: Prepared) -> ToolResult:
    plan = prepared.state
    assert isinstance(plan, _Plan)
    await _require_saved(ctx, plan.place)
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
        return ToolResult(f"Made {name} ({said}).", brief=f"{name} ({said})", changes=(change,))
    hunks, rest = fit_head(shown(plan.change.hunks), max(ctx.budget - 100, 100), lines=True)
    left_out = "\n[The rest of the diff is left out.]" if rest else ""
    text = f"Changed {name} ({plan.change.counts}).{plan.note}\n{hunks}{left_out}"
    return ToolResult(text, brief=f"{name} {plan.change.counts}", truncated=bool(rest), changes=(change,))


# --- names ------------------------------------------------------------------------------------------


def missing(place: Place) -> str:
    """The sentence for a file that does not exist, with the names nearest to it in its folder."""
    near = _near_names(place)
    hint = f" There is: {', '.join(f'`{name}`' for name in near)}." if near else " Glob finds files by name."
    return f"`{place.asked}` does not exist.{hint}"


def _near_names(place: Place) -> list[str]:
    folder = place.path.parent
    try:
        with folder_of(place) as descriptor, os.scandir(descriptor) as entries:
            names = [e.name for e in entries if not is_secret_path((e.name,)) and not is_temporary(e.name)]
    except (OSError, Refused):
        return []
    folded = {name.casefold(): name for name in sorted(names)}
    close = difflib.get_close_matches(place.name.casefold(), folded, 4, 0.6)
    stem = place.name.partition(".")[0].casefold()
    close += [name for name in folded if stem and name.partition(".")[0] == stem and name not in close][:4]
    root = place.root
    return [str((folder / folded[name]).relative_to(root)) for name in close]


WRITE = make("Write", WriteArgs, Effect.WRITE, _prepare_write, _run)
EDIT = make("Edit", EditArgs, Effect.WRITE, _prepare_edit, _run)
