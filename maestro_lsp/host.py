"""The front's engine process: started when there is work, told of everything, replaced when it died or is
out of date. Nothing here ever holds up a command.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from engine import Client, EngineConfig, EngineError, EngineProcess, JobStatus
from maestro_lsp.documents import Documents

logger = logging.getLogger(__name__)

ARGV = (sys.executable, "-I", "-m", "maestro_lsp", "worker", "--link")
"""``-I``: a folder ``engine/`` in the workspace must not be taken for ours."""

WORK = (JobStatus.QUEUED, JobStatus.RUNNING)


class Background:
    """Tasks that nobody awaits: kept alive, their failures logged, cancelled at the end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run ``work`` beside everything else."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def close(self) -> None:
        """Cancel what still runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task in the background failed", exc_info=error)


class EngineHost:
    """At most one engine process for one client. ``on_live`` gets streaming events, ``on_failed`` the key and
    values of a sentence that says why the engine cannot work. None is started while ``may_work()`` is false.
    """

    def __init__(
        self,
        client: Client,
        documents: Documents,
        on_live: Callable[[dict[str, Any]], None],
        on_failed: Callable[[str, dict[str, str]], None],
        may_work: Callable[[], bool],
    ) -> None:
        self._client = client
        self._documents = documents
        self._on_live = on_live
        self._on_failed = on_failed
        self._may_work = may_work
        self._background = Background()
        self._process = self._new()
        self._waking = False
        self._given: EngineConfig | None = None
        self._stopped = False

    @property
    def pid(self) -> int | None:
        """The engine process's id while it lives."""
        return self._process.pid

    def wake(self) -> None:
        """There is work: start the engine unless it runs, and have it look."""
        if not self._waking and not self._stopped and self._may_work():
            self._waking = True
            self._background.spawn(self._ensure())

    def wake_if_needed(self, *, after: float = 0.0) -> None:
        """Wake the engine if a job is queued or was left running; look ``after`` so many seconds."""
        if not self._stopped:
            self._background.spawn(self._wake_if_needed(after))

    def cancel(self, job_id: str) -> None:
        """Have the engine end a job now; its row says so already, this only spares it the look."""
        self._process.send({"kind": "cancel", "jobId": job_id})

    def configured(self, *, at_once: bool = False) -> None:
        """The configuration may have changed: the next engine gets the new one. A job that runs goes on with
        the old, unless a change must hold ``at_once`` (then it goes on after a restart).
        """
        if self._out_of_date():
            self._background.spawn(self._replace(at_once))

    def at_rest(self) -> None:
        """A job left the engine: time to replace one that is out of date."""
        self.configured()

    async def stop(self) -> None:
        """End the engine in order; running jobs go back to the queue. One that does not end by the time that
        is left to us (stopped by a debugger, say) is killed.
        """
        self._stopped = True
        try:
            await self._process.stop()
        finally:
            if (pid := self.pid) is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        await self._background.close()

    # -- inside

    def _new(self) -> EngineProcess:
        return EngineProcess(ARGV, self._hello, self._take, self._on_exit)

    def _hello(self) -> dict[str, Any]:
        client = self._client
        self._given = client.config
        config = msgspec.to_builtins(client.config)
        return {
            "kind": "hello",
            "workspace": str(client.workspace),
            "store": str(client.store_file),
            "config": config,
        }

    def _out_of_date(self) -> bool:
        """Whether the engine that runs was given another configuration; the mode stands with each job."""
        given, mode = self._given, self._client.config.mode
        return self.pid is not None and given is not None and replace(given, mode=mode) != self._client.config

    async def _ensure(self) -> None:
        try:
            await self._process.ensure()
        except OSError as error:
            self._on_failed("lsp.engine_failed", {"why": error.strerror or type(error).__name__})
        finally:
            self._waking = False

    async def _wake_if_needed(self, after: float = 0.0) -> None:
        await asyncio.sleep(after)
        try:
            counts = await self._client.counts()
        except EngineError as error:
            logger.error("the queue cannot be read: %s", error)
            return
        if any(counts.get(status) for status in WORK):
            self.wake()

    async def _replace(self, at_once: bool) -> None:
        counts = await self._client.counts()
        if counts.get(JobStatus.RUNNING) and not at_once:
            return
        if self._stopped or not self._out_of_date():
            return
        old, self._process = self._process, self._new()
        await old.stop()
        await self._wake_if_needed()

    async def _take(self, message: dict[str, Any]) -> None:
        match message.get("kind"):
            case "stored":
                self._client.poke()
            case "live":
                self._on_live(message["event"])
            case "ask":
                self._background.spawn(self._answer(message))
            case "failed":
                self._on_failed(str(message["key"]), message.get("values") or {})
            case "ready":
                logger.info("engine process %s is ready", message.get("pid"))
            case other:
                logger.debug("the engine said %r", other)

    async def _answer(self, message: dict[str, Any]) -> None:
        value: object = None
        match message.get("what"):
            case "read":
                value = await self._documents.read(Path(message["path"]))
            case "dirty":
                value = await self._documents.dirty()
        self._process.send({"kind": "answer", "id": message["id"], "value": value})

    async def _on_exit(self, status: int) -> None:
        logger.info("the engine process ended with status %s", status)
        self.wake_if_needed()
