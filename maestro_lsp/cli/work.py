"""An engine inside a command: `run` and `worker`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from engine import Client, Service
from maestro_lsp.cli.errors import log_to_file

STOP_S = 5.0


class Live(Protocol):
    """What is told of things that stream."""

    def __call__(self, job_id: str, kind: str, body: dict[str, Any]) -> None:
        """One delta."""
        ...


def silent(job_id: str, kind: str, body: dict[str, Any]) -> None:
    """Show nothing that streams."""


def engine_on(client: Client, live: Live = silent, only: str | None = None) -> Service:
    """An engine on a client's store, with its configuration; ``only`` for one job and its children. Its log
    goes to the log file.
    """
    log_to_file()
    return Service(
        client.workspace, client.store_file, client.config, live=live, on_stored=client.poke, only=only
    )


@asynccontextmanager
async def hosted(client: Client, live: Live, only: str) -> AsyncIterator[asyncio.Task[None]]:
    """An engine at work on one job of a client's store; the task that is its main loop. It ends in order,
    with the block.
    """
    service = engine_on(client, live, only)
    working = asyncio.create_task(service.run(), name="engine")
    try:
        yield working
    finally:
        service.stop()
        with suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(working), STOP_S)
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
