"""A plain editor for tests: a real server process on a real workspace, spoken to over the real protocol.

    async with editor(place, name="nvim") as it:
        ids = await it.start("Do it", piece="chat")
        asked = await it.question()
        it.choose(asked, "up")

What the server sends is read in order: `Editor.next` takes the next message that a person would see, so a
test can play a transcript message by message.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from maestro_lsp.protocol import COMMANDS
from maestro_lsp.shapes import AnyEvent
from tests.lsp.raw_client import NO_ANSWER, Handler, Message, RawClient

SERVER = [sys.executable, "-I", "-m", "maestro_lsp", "--stdio"]

PLAIN: dict[str, Any] = {"window": {"workDoneProgress": True, "showDocument": {"support": True}}}
"""A client that knows the protocol and nothing of ours."""

UNSEEN = frozenset({"maestro/event", "$/cancelRequest", "window/logMessage"})
WITHIN = 15.0


@dataclass
class Place:
    """A workspace with its state folder; servers that share a place share its store."""

    workspace: Path
    state: Path
    endpoint: str = ""
    env: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """What a server is started with."""
        told = {"MAESTRO_ENDPOINT": self.endpoint, "MAESTRO_MODEL": "scripted"} if self.endpoint else {}
        return {"MAESTRO_STATE_DIR": str(self.state), "LC_ALL": "C.UTF-8", **told, **self.env}


class Editor:
    """One client with its server."""

    def __init__(self, client: RawClient, place: Place) -> None:
        self.client = client
        self.place = place
        self.initialized: Any = None
        self._read = 0

    # -- saying

    async def command(self, name: str, **params: Any) -> Any:
        """A command by the end of its name: ``command("task.start", instruction="…")``. Its result must have
        the shape that the protocol says.
        """
        result = await self.client.command(f"maestro.{name}", params, within=WITHIN)
        msgspec.convert(result, COMMANDS[f"maestro.{name}"].result)
        return result

    async def start(self, instruction: str = "Do it", **params: Any) -> dict[str, str]:
        """Start a task; ``{taskId, jobId}``."""
        found: dict[str, str] = await self.command("task.start", instruction=instruction, **params)
        return found

    def choose(self, asked: Message, title: str | None) -> None:
        """Answer a ``window/showMessageRequest`` with a title (None: dismissed)."""
        assert title is None or title in titles(asked), (title, titles(asked))
        self.client.respond(asked["id"], None if title is None else {"title": title})

    # -- hearing

    async def next(self, method: str | None = None, *, ignore: frozenset[str] = UNSEEN) -> Message:
        """The next message of the server that a person would see; it must be of this ``method``."""

        def wanted(message: Message) -> bool:
            return "method" in message and message["method"] not in ignore

        found = await self.client.wait_for(wanted, after=self._read, within=WITHIN)
        self._read = next(i for i, m in enumerate(self.client.messages) if m is found) + 1
        if method is not None:
            assert found["method"] == method, found
        return found

    async def seen(self, method: str, test: Callable[[Any], bool] = lambda _: True) -> Message:
        """The next message of a ``method`` whose params pass; what comes before it is passed over."""

        def wanted(message: Message) -> bool:
            return message.get("method") == method and test(message.get("params"))

        found = await self.client.wait_for(wanted, after=self._read, within=WITHIN)
        self._read = next(i for i, m in enumerate(self.client.messages) if m is found) + 1
        return found

    async def question(self) -> Message:
        """The next ``window/showMessageRequest``."""
        return await self.seen("window/showMessageRequest")

    async def changed(self, job_id: str, status: str) -> Any:
        """The next ``maestro/jobChanged`` that says so."""
        found = await self.seen(
            "maestro/jobChanged", lambda p: p["jobId"] == job_id and p["status"] == status
        )
        return found["params"]

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The events received so far."""
        found = [event for event in self.client.received("maestro/event")]
        return [event for event in found if kind is None or event["kind"] == kind]

    async def status_says(self, test: Callable[[Any], bool]) -> Any:
        """``maestro.status`` once it passes."""
        async with asyncio.timeout(WITHIN):
            while not test(found := await self.command("status")):  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.02)
        return found

    async def until(self, job_id: str, status: str) -> Any:
        """The job's detail once it has a status."""
        async with asyncio.timeout(WITHIN):
            while (found := await self.command("task.show", jobId=job_id))["status"] != status:
                assert found["status"] not in ("succeeded", "failed", "aborted", "cancelled"), found
                await asyncio.sleep(0.02)
        return found

    # -- life

    async def engine_pid(self) -> int:
        """The engine process, once there is one."""
        return int(
            (await self.status_says(lambda status: status["engine"]["pid"] is not None))["engine"]["pid"]
        )

    async def kill_engine(self) -> int:
        """SIGKILL to the engine process; its id."""
        pid = await self.engine_pid()
        os.kill(pid, signal.SIGKILL)
        return pid


@contextlib.asynccontextmanager
async def editor(
    place: Place,
    *,
    name: str = "vscode",
    capabilities: dict[str, Any] | None = None,
    handlers: dict[str, Handler] | None = None,
    **initialize: Any,
) -> AsyncIterator[Editor]:
    """A client that has initialized a server. Every event it received must be of a shape of the protocol."""
    async with RawClient.spawn(SERVER, env=place.environment(), cwd=place.workspace) as client:
        client.handlers["window/workDoneProgress/create"] = lambda _params: None
        client.handlers["window/showMessageRequest"] = lambda _params: NO_ANSWER
        client.handlers["window/showDocument"] = lambda _params: {"success": True}
        client.handlers |= handlers or {}
        it = Editor(client, place)
        told: dict[str, Any] = {
            "rootUri": place.workspace.as_uri(),
            "locale": "en",
            "clientInfo": {"name": name},
            "initializationOptions": {"trusted": True, "mode": "ask"},
        }
        it.initialized = await client.initialize(
            PLAIN if capabilities is None else capabilities, **{**told, **initialize}
        )
        yield it
        for event in it.events():
            msgspec.convert(event, AnyEvent)
        assert "Traceback" not in client.stderr, client.stderr


def titles(asked: Message) -> list[str]:
    """The buttons of a ``window/showMessageRequest``."""
    return [action["title"] for action in asked["params"]["actions"]]


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
