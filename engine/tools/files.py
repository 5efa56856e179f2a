"""``Read``, and the tuple of the file tools; ``Write`` and ``Edit`` are in ``writing``."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
from dataclasses import dataclass
from typing import Annotated, BinaryIO

import msgspec

from engine.core.tooling import Effect, Prepared, ToolResult, ToolSpec
from engine.ports import Buffer, ToolContext
from engine.tools.reading import Page, aligned, page_bytes, page_lines, page_shifted
from engine.tools.spec import error, make
from engine.tools.targets import missing, unsaved
from engine.tools.textio import UTF8, Charset, character_ends, detect, one_line
from engine.tools.writing import EDIT, WRITE
from engine.workspace import Place, Refused, bytes_hash, open_regular, resolve

_IN_MEMORY = 8 << 20
_SAMPLE = 256 << 10
_HASHED = 256 << 20
_FOR_NOTES = 200
_BEFORE = 3
_MAGIC = (
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"RIFF", "RIFF media file (WebP, WAV or AVI)"),
    (b"%PDF", "PDF document"),
    (b"PK\x03\x04", "ZIP archive (also xlsx, docx, pptx, jar)"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"SQLite format 3", "SQLite database"),
)


class ReadArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``Read``."""

    file_path: str
    offset: Annotated[int, msgspec.Meta(ge=1)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    byte_offset: Annotated[int, msgspec.Meta(ge=0)] | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    """What a page was read from: its encoding (None for binary), bytes, hash if it is not too large, and
    kind if binary.
    """

    charset: Charset | None
    size: int
    digest: str | None
    kind: str = ""


async def _prepare_read(ctx: ToolContext, args: ReadArgs) -> Prepared | ToolResult:
    if args.byte_offset is not None and (args.offset is not None or args.limit is not None):
        return error("Give either offset and limit (lines) or byte_offset, not both.")
    place = await asyncio.to_thread(resolve, ctx.workspace, ctx.task_dir, args.file_path)
    if await unsaved(ctx, place) is None:
        try:
            await asyncio.to_thread(lambda: os.close(open_regular(place)))
        except FileNotFoundError:
            return error(await asyncio.to_thread(missing, place))
    name = one_line(place.relative)
    return Prepared(
        f"Read {name}",
        paths=((place.relative, place.kind),),
        title_key="title.Read",
        title_values={"path": name},
    )


async def _run_read(ctx: ToolContext, args: ReadArgs, prepared: Prepared) -> ToolResult:
    place = await asyncio.to_thread(resolve, ctx.workspace, ctx.task_dir, args.file_path)
    budget = max(ctx.budget - _FOR_NOTES, ctx.budget // 2)
    if buffer := await unsaved(ctx, place):
        source, page = _read_buffer(buffer, args, budget)
    else:
        source, page = await asyncio.to_thread(_read_file, place, args, budget)
    if source.charset is None:
        said = f"{source.kind}, {source.size} bytes"
        text = f"`{place.relative}` is a binary file: {said}. Its content is not shown."
        return ToolResult(text, brief=f"{one_line(place.relative)}: {said}")
    if source.digest:
        ctx.read_marks[str(place.path)] = source.digest
    return _answer(place, args, source, page, unsaved=buffer is not None)


def _read_buffer(buffer: Buffer, args: ReadArgs, budget: int) -> tuple[_Source, Page]:
    data = buffer.text.encode("utf-8", "surrogatepass")
    source = _Source(UTF8, len(data), bytes_hash(data))
    if args.byte_offset is not None:
        start = args.byte_offset
        before, rest = data[max(0, start - _BEFORE) : start], io.BytesIO(data[start:])
        return source, page_bytes(rest, UTF8, start, budget, before)
    stream = io.StringIO(buffer.text, newline="")
    return source, page_lines(stream, UTF8, args.offset or 1, args.limit, budget, count=True)


def _read_file(place: Place, args: ReadArgs, budget: int) -> tuple[_Source, Page]:
    with os.fdopen(open_regular(place), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        small = size <= _IN_MEMORY
        sample = file.read(_IN_MEMORY if small else _SAMPLE)
        charset = detect(sample, whole=small)
        if charset is None:
            return _Source(None, size, None, _kind(sample)), Page("", False)
        if charset.shifts and not small:
            raise Refused(
                f"`{place.relative}` is {charset.shown} and larger than {_IN_MEMORY >> 20} MiB. Convert a"
                " copy with Bash (iconv) and read that."
            )
        digest = bytes_hash(sample) if small else _digest(file, size)
        source = _Source(charset, size, digest)
        stream: BinaryIO = io.BytesIO(sample) if small else file
        if args.byte_offset is not None:
            start = aligned(min(args.byte_offset, size + 1), charset)
            if charset.shifts:
                return source, page_shifted(sample, charset, start, budget)
            stream.seek(max(0, start - _BEFORE))
            before = stream.read(min(start, _BEFORE))
            return source, page_bytes(stream, charset, start, budget, before)
        stream.seek(len(charset.bom))
        text = io.TextIOWrapper(stream, charset.name, charset.errors, newline="")
        ends = character_ends(sample, charset) if charset.shifts else None
        try:
            return source, page_lines(
                text, charset, args.offset or 1, args.limit, budget, count=small, ends=ends
            )
        except UnicodeDecodeError:
            raise Refused(
                f"`{place.relative}` begins as {charset.shown} but is not valid further on; look at it with"
                " Bash."
            ) from None


def _digest(file: io.BufferedReader, size: int) -> str | None:
    """The hash of a large file; None for one so large that nobody will write it as a whole."""
    if size > _HASHED:
        return None
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def _kind(sample: bytes) -> str:
    return next((name for magic, name in _MAGIC if sample.startswith(magic)), "unknown type")


def _answer(place: Place, args: ReadArgs, source: _Source, page: Page, *, unsaved: bool) -> ToolResult:
    name = f"`{place.relative}`"
    if not page.text and not page.more and source.size > len(source.charset.bom if source.charset else b""):
        return error(_beyond(name, args, source, page))
    notes = [_where(name, args, source, page)]
    if unsaved:
        notes.append("This is the open editor buffer: its unsaved changes are not on disk yet.")
    if source.charset is not None and source.charset.shown:
        sure = (
            "" if source.charset.certain else " (not recognised for certain: it can be read, but not edited)"
        )
        notes.append(f"The encoding is {source.charset.shown}{sure}.")
    elif "\ufffd" in page.text:
        notes.append("Bytes that are not valid UTF-8 are shown as \ufffd.")
    said = "\n".join(f"[{note}]" for note in notes if note)
    line_end = "" if page.text.endswith("\n") or not page.text or not said else "\n"
    brief = f"lines {page.first}–{page.last}" if page.first else f"bytes {page.start}–{page.stop}"
    asked = args.limit is not None and page.last - page.first + 1 == args.limit and not page.stop
    return ToolResult(
        f"{page.text}{line_end}{said}",
        brief=f"{one_line(place.relative)}, {brief}",
        truncated=page.more and not asked,
    )


def _where(name: str, args: ReadArgs, source: _Source, page: Page) -> str:
    """What the page shows, and how to go on: always to a place further on in the file."""
    if not page.text:
        return f"{name} is empty."
    if not page.first:
        place = f"Bytes {page.start}-{page.stop} of {source.size} of {name}"
        onward = (
            f"Read with byte_offset={page.stop} goes on; Grep finds a place."
            if page.more
            else "This is the end."
        )
        return f"{place}. {onward}"
    if page.stop:
        return (
            f"Line {page.last} is too long for one result and was cut at byte {page.stop} of {source.size}."
            f" Read with byte_offset={page.stop} goes on from there, without line numbers; Grep finds a"
            f" place."
        )
    if page.more:
        total = f" of {page.total}" if page.total else ""
        lines = f"Lines {page.first}-{page.last}{total}"
        return f"{lines}. Read with offset={page.last + 1} goes on; Grep finds a place."
    return "" if page.first == 1 else f"Lines {page.first}-{page.last}: this is the end."


def _beyond(name: str, args: ReadArgs, source: _Source, page: Page) -> str:
    if args.byte_offset is not None:
        return (
            f"{name} has only {source.size} bytes; byte_offset {args.byte_offset} is after its end. Give a"
            " smaller one."
        )
    lines = f"{page.total} line{'' if page.total == 1 else 's'}"
    return (
        f"{name} has only {lines}; offset {args.offset} is after its end. Give an offset up to {page.total}."
    )


READ = make("Read", ReadArgs, Effect.READ, _prepare_read, _run_read)
FILE_TOOLS: tuple[ToolSpec, ...] = (READ, WRITE, EDIT)
