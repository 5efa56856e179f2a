"""Opening the store that a command is about. Ids are global: no folder needs to be named."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from engine import (
    BadArgument,
    Client,
    EngineConfig,
    NotFound,
    NotTrusted,
    StoreFault,
    all_stores,
    find_store,
    store_path,
    workspace_of,
)
from maestro_lsp.settings import Notice, load_config

Kind = Literal["job", "task", "request", "rule"]

_WHOLE = re.compile(r"[a-z]-[0-9A-HJKMNP-TV-Z]{26}")
_SHORT = re.compile(r"(?:[a-z]?-)?…?([0-9A-HJKMNP-TV-Z]{4,25})", re.IGNORECASE)


def folder(given: Path | None) -> Path:
    """The workspace a command works in: the one named by ``-w``, else the current folder.

    Raises ``BadArgument`` if it is no folder.
    """
    path = (given or Path.cwd()).expanduser().absolute()
    if not path.is_dir():
        raise BadArgument("cli.no_folder", path=str(given))
    return path


def has_store(workspace: Path) -> bool:
    """Whether anything was ever done in a workspace; looking must not make a store."""
    return store_path(workspace).is_file()


@asynccontextmanager
async def opened(
    workspace: Path, config: EngineConfig | None = None, store_file: Path | None = None
) -> AsyncIterator[Client]:
    """The client of a workspace, open. Raises ``StoreFault``."""
    client = Client(workspace, config or EngineConfig(), by="cli", store_file=store_file)
    await client.open()
    try:
        yield client
    finally:
        await client.close()


async def configure(client: Client, overrides: Mapping[str, Any] | None = None) -> tuple[Notice, ...]:
    """Give a client what is configured for its workspace; what is worth a warning. Raises ``NotConfigured``.

    Two steps, because only a trusted workspace has a say and the store knows whether it is.
    """
    client.config = load_config(overrides=overrides).config
    trusted = await client.trusted()
    loaded = load_config(workspace=client.workspace, overrides=overrides, trusted=trusted)
    client.config = loaded.config
    return loaded.warnings


@asynccontextmanager
async def holding(kind: Kind, wanted: str, here: Path | None = None) -> AsyncIterator[tuple[Client, str]]:
    """The client of the workspace that holds a job, task, request or rule, and its whole id.

    ``wanted`` is an id, or the end of one (at least four characters) that fits one only, looking into
    ``here`` (default: the current folder) first. A task is also found by one of its jobs (``j-…``), for
    those are what `jobs` lists. Raises ``NotFound``, ``BadArgument``.
    """
    here = here or Path.cwd()
    if kind == "task" and wanted.lower().startswith("j-"):
        async with holding("job", wanted, here) as (client, job_id):
            yield client, (await client.summary(job_id)).task_id
        return
    if kind != "rule" and _WHOLE.fullmatch(wanted):
        file, whole = await find_store(f"has_{kind}", wanted, here=here), wanted
    else:
        file, whole = await _by_end(kind, wanted, here)
    async with opened(await workspace_of(file), store_file=file) as client:
        yield client, whole


async def _by_end(kind: Kind, wanted: str, here: Path) -> tuple[Path, str]:
    short = _SHORT.fullmatch(wanted)
    end = (short[1] if short else wanted).upper()
    mine = store_path(here)
    found: list[tuple[Path, str]] = []
    for file in dict.fromkeys([mine, *all_stores()]):
        if not file.is_file():
            continue
        with suppress(StoreFault, NotTrusted):  # one broken store must not hide the others
            found += [(file, whole) for whole in await _ids(kind, file) if _ends(whole, wanted, end, short)]
        if file == mine and len(found) == 1:
            break
    if not found and kind == "request":  # only open ones are looked for by their end
        raise NotFound("cli.no_open_request", id=wanted, data={"id": wanted})
    if not found:
        raise NotFound(f"{kind}.unknown", id=wanted, data={"id": wanted})
    if len(found) > 1:
        raise BadArgument("cli.ambiguous_id", id=wanted, ids=", ".join(whole for _, whole in found[:5]))
    return found[0]


def _ends(whole: str, wanted: str, end: str, short: re.Match[str] | None) -> bool:
    return whole == wanted or (short is not None and whole.endswith(end))


async def _ids(kind: Kind, file: Path) -> list[str]:
    async with opened(await workspace_of(file), store_file=file) as client:
        match kind:
            case "rule":
                return [rule.id for rule in await client.rules()]
            case "request":
                return [request.request_id for request in await client.open_requests()]
            case "job" | "task":
                jobs = await client.list_jobs(limit=1_000_000)
                return list(dict.fromkeys(job.job_id if kind == "job" else job.task_id for job in jobs))
