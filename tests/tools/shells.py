"""Commands of the Bash tool, for tests: one shell in a world, and who is still alive."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.core.tooling import ToolResult, ToolSpec
from engine.tools.shell import ShellRegistry, shell_tools
from tests.tools.world import World

ROOT = Path(__file__).resolve().parents[2]

MARK = f"heartbeat-{os.getpid()}"
HEARTBEAT = f"while :; do : {MARK}; date +%s%N > beat; sleep 0.05; done"

ENGINE = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.tools.world import World
from engine.tools.shell import ShellRegistry, shell_tools

async def main():
    world = World(Path(sys.argv[2]))
    bash = shell_tools(ShellRegistry(Path(sys.argv[2]).parent / "commands"))[0]
    await world.call(bash, command=sys.argv[3], background=len(sys.argv) > 4)
    await asyncio.sleep(60)

asyncio.run(main())
"""
"""An engine in a process of its own: code, workspace, command, and anything for one in the background."""


@dataclass
class Shell:
    """The three tools in a world; called, it runs a command."""

    world: World
    registry: ShellRegistry
    bash: ToolSpec
    output: ToolSpec
    stop: ToolSpec

    async def __call__(self, command: str, **arguments: object) -> ToolResult:
        return await self.world.call(self.bash, command=command, **arguments)


def shell_in(world: World) -> Shell:
    """A shell with its registry, which notes its commands beside the workspace."""
    registry = ShellRegistry(notes(world))
    return Shell(world, registry, *shell_tools(registry))


def notes(world: World) -> Path:
    """Where the commands that run are noted."""
    return world.root.parent / "commands"


async def until(found: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, "it never happened"
        await asyncio.sleep(0.01)


def alive(marker: str) -> list[int]:
    """The processes whose command line holds ``marker``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words, stat = path.read_bytes(), path.with_name("stat").read_text()
        except OSError:
            continue
        if marker.encode() in words.replace(b"\0", b" ") and stat.rpartition(")")[2].split()[0] != "Z":
            found.append(int(path.parent.name))
    return found


def nap(number: int) -> str:
    """A sleep that no other run of these tests has."""
    return f"sleep {number}.{os.getpid():07d}"


def unnumbered(value: object) -> str:
    """A test's id without the process's own number, which differs between test runners."""
    return str(value).replace(f"{os.getpid():07d}", "N").replace(str(os.getpid()), "N")
