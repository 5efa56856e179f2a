"""The front's side of its engine process: nothing it says, and no moment of stopping, loses track of it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import process as module
from engine.process import EngineProcess, encode_line

SPEAKER = """
import sys
sys.stdin.readline()
print('{"kind": "ready"}', flush=True)
print('no json', flush=True)
print('{"kind": "odd"}', flush=True)
print('{"kind": "after"}', flush=True)
sys.exit(3)
"""
SLEEPER = "import sys; sys.stdin.read()"


class Front:
    """Takes messages and ends; raises at the kind ``odd``."""

    def __init__(self, code: str) -> None:
        self.kinds: list[str] = []
        self.exits: asyncio.Queue[int] = asyncio.Queue()
        argv = [sys.executable, "-c", code]
        self.process = EngineProcess(argv, lambda: {"kind": "hello"}, self.take, self.ended)

    async def take(self, message: dict[str, Any]) -> None:
        if message["kind"] == "odd":
            raise KeyError("odd")
        self.kinds.append(message["kind"])

    async def ended(self, status: int) -> None:
        self.exits.put_nowait(status)


async def test_a_message_that_cannot_be_handled_does_not_hide_the_engines_death() -> None:
    front = Front(SPEAKER)
    await front.process.ensure()
    assert await asyncio.wait_for(front.exits.get(), 5) == 3
    assert front.kinds == ["ready", "after"]
    await front.process.stop()


async def test_an_engine_that_was_to_be_started_later_is_not_started_after_the_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", (0.2,))
    front = Front(SLEEPER)
    starting = asyncio.create_task(front.process.ensure())
    await asyncio.sleep(0)
    await front.process.stop()
    await asyncio.wait_for(starting, 5)
    assert front.process.pid is None


async def test_an_engine_that_cannot_read_its_orders_ends_and_does_not_live_on(tmp_path: Path) -> None:
    engine = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "maestro_lsp", "worker", "--link"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert engine.stdin is not None and engine.stdout is not None
    try:
        hello = {"kind": "hello", "workspace": str(tmp_path), "store": str(tmp_path / "s" / "store.db")}
        engine.stdin.write(encode_line({**hello, "config": {}}))
        assert b'"ready"' in await asyncio.wait_for(engine.stdout.readline(), 20)
        engine.stdin.write(encode_line({"kind": "answer", "id": "no number"}))
        assert await asyncio.wait_for(engine.wait(), 20) == 0
    finally:
        if engine.returncode is None:
            engine.kill()
            await engine.wait()
