"""How the tests start the tiny server."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from tests.lsp.raw_client import RawClient

ROOT = Path(__file__).parents[2]
POSITION = {"textDocument": {"uri": "file:///a"}, "position": {"line": 3, "character": 0}}


def tiny(*options: str | Path, env: dict[str, str] | None = None) -> AbstractAsyncContextManager[RawClient]:
    """A tiny server that is not initialized yet."""
    return RawClient.spawn(
        [sys.executable, "-m", "tests.lsp.tiny_server", *map(str, options)], env=env, cwd=ROOT
    )


async def until(holds: Callable[[], Any], within: float = 10.0) -> None:
    """Poll until ``holds()``. Raises TimeoutError."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.01)


def content(path: Path) -> str:
    """The file's text, empty while it is not there."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text()
    return ""
