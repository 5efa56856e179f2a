"""An engine for tests: real SQLite, real HTTP to the scripted model, the engine in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.client import Client, StartOrder
from engine.config import EngineConfig, ModelSettings
from engine.core.jobs import ENDED, PARKED, JobStatus
from engine.core.limits import Leases
from engine.core.views import JobDetail, Request
from engine.llm.scripted import ScriptedServer, ServerOptions
from engine.service import Extras, Service

DEADLINE_S = 10.0
NO_EXTRAS = Extras()


@dataclass
class Rig:
    """A client and the means to start and stop engines on its store."""

    client: Client
    workspace: Path
    config: EngineConfig
    server: ScriptedServer
    extras: Extras = NO_EXTRAS
    live: list[dict[str, Any]] = field(default_factory=list)
    service: Service | None = None
    _task: asyncio.Task[None] | None = None

    async def engine(self) -> Service:
        """Start an engine on the store."""
        self.service = Service(
            self.workspace,
            self.client.store_file,
            self.config,
            live=lambda job_id, kind, body: self.live.append({"jobId": job_id, "kind": kind, **body}),
            on_stored=self.client.poke,
            extras=self.extras,
        )
        self._task = asyncio.create_task(self.service.run())
        return self.service

    async def stop(self) -> None:
        """Stop the engine in order."""
        if self.service is not None and self._task is not None:
            self.service.stop()
            await asyncio.wait_for(self._task, DEADLINE_S)
            self.service = self._task = None

    async def start(self, instruction: str = "Do it", **order: Any) -> str:
        """Submit a task; its job id."""
        _, job_id = await self.client.start(StartOrder(instruction, **order))
        return job_id

    async def until(
        self, job_id: str, test: Callable[[JobDetail], bool], within: float = DEADLINE_S
    ) -> JobDetail:
        """The job's detail once ``test`` holds."""
        end = asyncio.get_running_loop().time() + within
        while True:
            detail = await self.client.show(job_id)
            if test(detail):
                return detail
            if asyncio.get_running_loop().time() > end:
                events = "\n".join(str(event)[:300] for event in await self.client.events(job_id))
                raise AssertionError(
                    f"{detail.status} {detail.wait_reason} {detail.reason} {detail.result}\n{events}"
                )
            await asyncio.sleep(0.01)

    async def until_rest(self, job_id: str, within: float = DEADLINE_S) -> JobDetail:
        """The job's detail once it is parked or ended."""
        resting = ENDED | PARKED
        return await self.until(job_id, lambda d: JobStatus(d.status) in resting, within)

    async def open_request(self, job_id: str) -> Request:
        """The one open request of a parked job."""
        detail = await self.until(job_id, lambda d: bool(d.open_requests))
        return await self.client.request(detail.open_requests[0])

    def bodies(self) -> list[dict[str, Any]]:
        """The request bodies the model server got, parsed."""
        return [json.loads(body) for body in self.server.requests]

    async def kinds(self, job_id: str) -> list[str]:
        """The kinds of the job's stored events, in order."""
        return [event["kind"] for event in await self.client.events(job_id)]


@asynccontextmanager
async def rig(
    tmp_path: Path,
    script: Any,
    *,
    pieces: dict[str, str] | None = None,
    extras: Extras = NO_EXTRAS,
    start_engine: bool = True,
    server: ServerOptions | None = None,
    llm: dict[str, Any] | None = None,
    **config: Any,
) -> AsyncIterator[Rig]:
    """A whole engine in ``tmp_path``; ``pieces`` are written to the workspace, which is trusted. ``llm`` are
    other settings of its model.
    """
    workspace = tmp_path / "work"
    (workspace / ".maestro" / "pieces").mkdir(parents=True)
    for name, text in (pieces or {}).items():
        (workspace / ".maestro" / "pieces" / f"{name}.yaml").write_text(text, "utf-8")
    async with ScriptedServer(script, options=server) as model:
        settings = EngineConfig(
            llm=ModelSettings(
                **{"endpoint": model.base_url, "model": "scripted", "backoff_ms": (1, 1, 1), **(llm or {})}
            ),
            piece="general",
            trusted=True,
            leases=replace(Leases(), poll_s=0.02, recover_s=0.1),
        )
        settings = replace(settings, **config)
        client = Client(workspace, settings, by="test", store_file=tmp_path / "state" / "store.db")
        await client.open()
        it = Rig(client, workspace, settings, model, extras)
        if start_engine:
            await it.engine()
        try:
            yield it
        finally:
            await it.stop()
            await client.close()
