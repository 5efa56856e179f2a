"""Finds the store that holds an id, and the workspace a store belongs to: ids are global, so a command needs
no workspace.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine.core.errors import NotFound, NotTrusted, StoreFault
from engine.paths import all_stores, store_path
from engine.store.store import Store


async def find_store(has: str, wanted: str, here: Path | None = None) -> Path:
    """The store that holds a job, task or request (``has``: ``has_job`` …), looking at ``here`` first. Raises
    ``NotFound``.
    """

    def look() -> Path | None:
        first = [store_path(here)] if here is not None else []
        return next(
            (path for path in dict.fromkeys([*first, *all_stores()]) if _holds(path, has, wanted)), None
        )

    if (found := await asyncio.to_thread(look)) is not None:
        return found
    kind = has.removeprefix("has_")
    raise NotFound(f"{kind}.unknown", id=wanted, data={"id": wanted})


def _holds(path: Path, has: str, wanted: str) -> bool:
    if not path.is_file():
        return False
    try:
        store = Store.open(path)
    except StoreFault:
        return False
    try:
        return bool(getattr(store, has)(wanted))
    finally:
        store.close()


async def workspace_of(store_file: Path) -> Path:
    """The workspace a store belongs to."""

    def read() -> str | None:
        store = Store.open(store_file)
        try:
            return store.meta("workspace")
        finally:
            store.close()

    found = await asyncio.to_thread(read)
    if found is None:
        raise NotTrusted("store.no_workspace", path=str(store_file))
    return Path(found)
