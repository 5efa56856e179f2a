"""A job with its task as one document: what both formats are made of, and the JSON one.

The events, which may be many, come page by page; nothing of it happens in an event loop. Everything goes
through the one redactor once more: a key may have been configured after a text was stored.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from engine.client import Client
from engine.core.errors import BadArgument
from engine.core.export import ExportHead, exported_changes, json_parts, redacted, visible
from engine.core.secrets import redact
from engine.core.views import FileChanged, JobDetail, to_wire
from engine.ids import new_id
from engine.paths import make_task_dir

_PAGE = 500


async def export_head(client: Client, job_id: str) -> ExportHead:
    """A job without its events, redacted. Raises ``NotFound``."""
    job = await client.show(job_id)
    files = await client.changes(job_id)
    return await asyncio.to_thread(_head, client, job, files)


def _head(client: Client, job: JobDetail, files: Sequence[FileChanged]) -> ExportHead:
    """Redacted before texts are cut into diffs too: half a key is not recognised."""
    files = msgspec.convert(_redacted(client, files), list[FileChanged])
    return msgspec.convert(
        _redacted(client, ExportHead(job=job, changes=exported_changes(files))), ExportHead
    )


async def export_events(client: Client, job_id: str) -> AsyncIterator[list[dict[str, Any]]]:
    """A job's stored events, redacted, some at a time."""
    last = 0
    while page := await client.db(client.store.job_events, job_id, last, _PAGE):
        last = page[-1]["seq"]
        yield await asyncio.to_thread(_redacted, client, page)


async def export_json(client: Client, job_id: str) -> AsyncIterator[str]:
    """The JSON export, in parts. Raises ``NotFound`` before the first one."""
    head = await export_head(client, job_id)
    yield await asyncio.to_thread(lambda: "".join(json_parts(to_wire(head), _encode)))
    before = "\n  "
    async for page in export_events(client, job_id):
        yield before + await asyncio.to_thread(_joined, page)
        before = ",\n  "
    yield "\n ]}\n"


def _joined(page: list[dict[str, Any]]) -> str:
    return ",\n  ".join(_encode(event) for event in page)


def _redacted(client: Client, value: Any) -> Any:
    return redacted(to_wire(value), partial(redact, known=client.config.secrets))


def _encode(value: Any) -> str:
    return visible(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


async def export_to_file(client: Client, task_id: str, name: str, parts: AsyncIterator[str]) -> Path:
    """Write a document into the ``output`` folder of a task, whole or not at all; its path. Raises
    ``BadArgument`` if it cannot be written, also for a link on the way there.
    """
    place = await asyncio.to_thread(make_task_dir, client.workspace, task_id) / "output"
    draft = place / f".{name}.{new_id('x')}"
    try:
        await _write(draft, parts)
        await asyncio.to_thread(os.replace, draft, place / name)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise BadArgument("export.unwritable", path=str(place / name), why=why) from None
    finally:
        with suppress(OSError):  # it has its name by now, unless something went wrong
            draft.unlink()
    return place / name


async def _write(path: Path, parts: AsyncIterator[str]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    handle = await asyncio.to_thread(os.open, path, flags, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
        async for part in parts:
            await asyncio.to_thread(file.write, part)
        await asyncio.to_thread(file.flush)
