"""The store: one class of a few parts over one connection, and the thread it lives on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from engine.store.families import FamiliesPart
from engine.store.journal import JournalPart
from engine.store.orphans import OrphansPart
from engine.store.pruning import PruningPart
from engine.store.reads import ReadsPart
from engine.store.requests import RequestsPart
from engine.store.sqlite import Database
from engine.store.waiting import WaitingPart

P = ParamSpec("P")
T = TypeVar("T")


class Store(FamiliesPart, OrphansPart, WaitingPart, JournalPart, RequestsPart, PruningPart, ReadsPart):
    """All verbs of the store. Synchronous; use it through ``StoreThread`` wherever there is an event loop."""

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open (and migrate) the database. Raises ``StoreFault``."""
        return cls(Database(path))

    def close(self) -> None:
        """Close the connection."""
        self.db.close()


class StoreThread:
    """The one thread that touches a store. ``await thread(store.claim, owner, …)`` keeps every lock and disk
    wait off the event loop.

    A call that has started always ends, even if its awaiter was cancelled: a committed row is never
    half-known.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")

    async def __call__(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``call`` on the store's thread."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, lambda: call(*args, **kwargs))
        return await asyncio.shield(future)

    def close(self) -> None:
        """Wait for what runs, then end the thread."""
        self._pool.shutdown(wait=True)
