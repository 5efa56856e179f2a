"""An engine in a process of its own that is killed with SIGKILL: when a test says so, or by itself at a named
point.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.engine.rig import DEADLINE_S, Rig

CHILD = """
import asyncio, json, os, signal, sys
from pathlib import Path
import msgspec
from engine.config import EngineConfig
from engine.service import Service
from engine.store.store import Store

order = json.loads(sys.stdin.readline())
crash_at = order["crashAt"]
if crash_at:
    tool = crash_at.removeprefix("effect:")
    begun, plain_begin, plain_finish = [], Store.begin_step, Store.finish_steps

    def begin(self, lease, intent, *rest):
        begun.append(intent.tool)
        return plain_begin(self, lease, intent, *rest)

    def finish(self, *args, **kwargs):
        if tool in begun:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain_finish(self, *args, **kwargs)

    Store.begin_step, Store.finish_steps = begin, finish
service = Service(Path(order["workspace"]), Path(order["store"]), msgspec.convert(order["config"],
EngineConfig))
asyncio.run(service.run())
"""


async def spawn(it: Rig, crash_at: str | None = None) -> asyncio.subprocess.Process:
    """Start an engine on the rig's store in a process of its own."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, stdin=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert child.stdin is not None
    order = {
        "workspace": str(it.workspace),
        "store": str(it.client.store_file),
        "config": msgspec.to_builtins(it.config),
        "crashAt": crash_at,
    }
    child.stdin.write(msgspec.json.encode(order) + b"\n")
    return child


async def run_and_kill(it: Rig, when: Callable[[], bool] | None, *, crash_at: str | None = None) -> None:
    """Run an engine until ``when`` holds, then SIGKILL it; with ``crash_at`` ``effect:<tool>`` it kills
    itself between effect and result.
    """
    child = await spawn(it, crash_at)
    try:
        async with asyncio.timeout(DEADLINE_S):
            if when is None:
                await child.wait()
            else:
                while not when():
                    assert child.returncode is None, "the engine ended by itself"
                    await asyncio.sleep(0.01)
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
