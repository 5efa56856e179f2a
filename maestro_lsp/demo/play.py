"""The demo as it goes: the client's side of one task, from the start to what it cost."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from maestro_lsp.cli.terminal import clean
from maestro_lsp.demo.client import LspClient, LspError
from maestro_lsp.demo.person import Person
from maestro_lsp.demo.screen import Screen
from maestro_lsp.demo.view import INDENT, Say, View, costs, diff_rows, heading, row, share_rows, wrapped
from maestro_lsp.display import exact
from maestro_lsp.ground.rpc import Notification, Request

_KILL_IN = "implement"
_ENDED = frozenset({"succeeded", "failed", "aborted", "cancelled"})
_TICK_S = 0.1
_LOOK_S = 1.2
_SIGKILL = getattr(signal, "SIGKILL", signal.SIGTERM)

Params = Mapping[str, Any]


@dataclass(slots=True)
class Play:
    """One task on the sample, followed to its end. ``unhurried``: with pauses for a person to look."""

    client: LspClient
    screen: Screen
    person: Person
    say: Say
    workspace: Path
    unhurried: bool
    job_id: str = ""
    movement: str = ""
    status: str = ""
    asked: int = 0
    killed: int | None = None
    resumed: bool = False
    usage: dict[str, Any] = field(default_factory=dict)
    told: str = ""
    view: View = field(init=False)

    def __post_init__(self) -> None:
        self.view = View(self.say, self.screen.columns)

    async def run(self, instruction: str, locale: str) -> bool:
        """Start the task and follow it; whether it succeeded. Raises ``LspError``."""
        await self._initialize(locale)
        started = time.monotonic()
        result = await self.client.command("maestro.task.start", instruction=instruction, piece="code")
        self.job_id = result["jobId"]
        await self.client.command("maestro.task.watch", jobId=self.job_id, on=True)
        self.screen.show(
            [(), row(("▶ ", "cyan bold"), (instruction, "bold"), (f"   {self.say('demo.how')}", "dim"))]
        )
        ticking = asyncio.create_task(self._tick())
        try:
            while self.status not in _ENDED:
                message = await self.client.incoming.get()
                if message is None:
                    raise LspError("demo.server_gone")
                await self._take(message)
        finally:
            ticking.cancel()
            self.screen.progress(None)
        await self._finish(time.monotonic() - started)
        return self.status == "succeeded"

    async def _initialize(self, locale: str) -> None:
        capabilities = {"window": {"workDoneProgress": True, "showDocument": {"support": True}}}
        await self.client.request(
            "initialize",
            {
                "processId": os.getpid(),
                "clientInfo": {"name": "demo"},
                "rootUri": self.workspace.as_uri(),
                "locale": locale,
                "capabilities": capabilities,
                "initializationOptions": {"trusted": True, "mode": "ask"},
            },
        )
        self.client.notify("initialized", {})

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.screen.tick()

    # -- what the server sends

    async def _take(self, message: Notification | Request) -> None:
        params = cast(Params, message.params if isinstance(message.params, dict) else {})
        match message:
            case Request(method="window/showMessageRequest"):
                await self._asked(message, params)
            case Request(method="window/showDocument"):
                self._show_document(params)
                self.client.answer(message, {"success": True})
            case Request(method="window/workDoneProgress/create" | "client/registerCapability"):
                self.client.answer(message, None)
            case Request(method="workspace/configuration"):
                self.client.answer(message, [None] * len(params.get("items", ())))
            case Request():
                self.client.refuse(message)
            case Notification(method="maestro/event"):
                await self._event(params)
            case Notification(method="maestro/jobChanged"):
                self._changed(params)
            case Notification(method="$/progress"):
                self._progress(params["value"])
            case Notification(method="window/showMessage"):
                self.told = str(params["message"])
                self.screen.show([(), *wrapped(f"✉ {self.told}", self.screen.columns)])

    def _changed(self, params: Params) -> None:
        if params["jobId"] == self.job_id:
            self.usage = dict(params["usage"])
            self.status = str(params["status"])

    def _progress(self, value: Params) -> None:
        if value["kind"] == "end":
            self.screen.progress(None)
            return
        spent = self.say("demo.live", calls=self.usage.get("calls", 0)) if self.usage.get("calls") else ""
        self.screen.progress(
            " · ".join(filter(None, (value.get("title", "code"), value.get("message", ""), spent)))
        )

    async def _event(self, event: Params) -> None:
        kind = event["kind"]
        if event["jobId"] != self.job_id:
            return
        if kind == "movement":
            self.movement = event["name"]
        if kind == "usage":
            self.usage["calls"] = self.usage.get("calls", 0) + 1
        if kind == "text":
            if "delta" in event:
                # Unpaced, a reply would overtake the results before it, which come by way of the store.
                if self.unhurried:
                    self.screen.stream(event["delta"])
            elif not self.screen.end_text():
                self.screen.show(wrapped(event["full"], self.screen.columns))
            return
        rows = self.view.rows(event)
        if rows:
            self.screen.show(rows)
        await self._maybe_kill(event, bool(rows))

    # -- the kill

    async def _maybe_kill(self, event: Params, shown: bool) -> None:
        """SIGKILL the engine process while it runs the tests of the change, once; then say who took over."""
        if self.killed is None:
            if shown and self.movement == _KILL_IN and event["kind"] in ("tool_output", "tool_result"):
                tool, _ = self.view.titles.get(str(event["callId"]), ("", ""))
                if tool == "Bash":
                    await self._kill()
        elif not self.resumed and event["kind"] == "status" and event["to"] == "running":
            self.resumed = True
            pid = (await self.client.command("maestro.status"))["engine"]["pid"]
            self.screen.show([*wrapped(self.say("demo.resumed", pid=pid), self.screen.columns, "cyan"), ()])
            await self._look()

    async def _kill(self) -> None:
        pid = (await self.client.command("maestro.status"))["engine"]["pid"]
        if pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, _SIGKILL)
        self.killed = pid
        self.screen.show(
            [*self.view.interrupted(), (), row(INDENT, ("⚡ ", "red bold"), (f"kill -9 {pid}", "red bold"))]
        )
        told = self.say("demo.killed", server=self.client.process.pid)
        self.screen.show(wrapped(told, self.screen.columns, "", INDENT * 2))
        await self._look()

    async def _look(self) -> None:
        if self.unhurried:
            await asyncio.sleep(_LOOK_S)

    # -- questions and approvals

    async def _asked(self, message: Request, params: Params) -> None:
        """A message with buttons: shown with what the open request tells, answered as a person would."""
        detail = await self.client.command("maestro.task.show", jobId=self.job_id)
        opened = [request for request in detail["requests"] if not request.get("settled")]
        titles = [str(action["title"]) for action in params.get("actions", ())]
        if not opened or not titles:
            self.client.answer(message, None)
            return
        self.asked += 1
        request = opened[-1]
        self.screen.progress(None)
        first, *rest = wrapped(str(params["message"]), self.screen.columns - len(INDENT), "bold", "")
        mark = row(INDENT, ("? ", "cyan bold"), *first[1:])
        self.screen.show([(), mark, *(row(INDENT * 2, *line[1:]) for line in rest)])
        if request["reason"] == "question":
            await self._question(message, request, titles)
        else:
            await self._approval(message, request, titles)

    async def _question(self, message: Request, request: Params, titles: list[str]) -> None:
        options = len(request.get("options") or ())
        choice = await self.person.answer(titles[:options] if not self.person.present else titles)
        if choice.index is None:
            text = choice.text
        elif choice.index < options or choice.index >= options + 1 or not self.person.present:
            self.client.answer(message, {"title": choice.text})
            return
        else:
            text = await self.person.words(self.say("demo.prompt.words"))
        self.client.answer(message, None)
        if text:
            await self.client.command(
                "maestro.task.answer", jobId=self.job_id, requestId=request["requestId"], text=text
            )

    async def _approval(self, message: Request, request: Params, titles: list[str]) -> None:
        for diff in request.get("diff") or ():
            path = Path(url2pathname(urlsplit(diff["uri"]).path)).name
            self.screen.show(diff_rows(path, diff.get("before"), diff["after"], self.screen.columns))
        key = request.get("whyKey")
        why = self.say(key, **request.get("whyValues", {})) if key else str(request.get("why", ""))
        if why:
            self.screen.show(wrapped(why, self.screen.columns, "dim"))
        # A command that comes again is allowed for the task, each change of a file is looked at; and nobody
        # being there, a job that crashes again and again ends.
        own = 1 if request.get("tool") == "Bash" or request["reason"] != "approval" else 0
        choice = await self.person.decide(titles, min(own, len(titles) - 1))
        self.client.answer(message, {"title": choice.text})

    def _show_document(self, params: Params) -> None:
        path = Path(url2pathname(urlsplit(str(params["uri"])).path))
        with suppress(OSError):
            rows = [heading(path.name, self.screen.columns, "")]
            rows += [row((clean(line), "")) for line in path.read_text("utf-8").splitlines()]
            self.screen.show(rows)

    # -- the end

    async def _finish(self, seconds: float) -> None:
        columns = self.screen.columns
        detail = await self.client.command("maestro.task.show", jobId=self.job_id)
        changes = await self.client.command("maestro.task.changes", jobId=self.job_id)
        rows = [(), heading(self.say("demo.result", status=self.say(f"demo.status.{self.status}")), columns)]
        rows += wrapped(str(detail.get("result") or detail.get("reason") or ""), columns)
        if changes["files"]:
            rows += [(), heading(self.say("demo.changes", count=len(changes["files"])), columns)]
        for file in changes["files"]:
            rows += diff_rows(exact(file["path"]), file.get("before"), file.get("after"), columns)
        rows += [(), heading(self.say("demo.costs"), columns)]
        rows += wrapped(costs(detail["usage"], seconds, self.asked, self.say), columns)
        rows += share_rows(self.view.transitions, self.say)
        self.screen.show(rows)
