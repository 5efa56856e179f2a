"""From stored events to what an editor shows: progress, ``maestro/jobChanged``, ``maestro/event``, the end.

`steps` decides, without IO; `Bridge` fetches and sends. Each job has a lane of its own, in which what is sent
keeps its order and a client that answers late holds up nobody else's job.

Who is told of a job's end by ``window/showMessage``: a client that started, answered, decided, commented,
retried or watches it, and one that opened the workspace while the job was queued or running (so a restart
loses nobody, and a second editor hears nothing about jobs it has no part in). ``maestro.task.watch`` with
``on: false`` ends that too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol, assert_never

from lsprotocol.types import MessageType

from engine import Client, EngineError, JobStatus, Request, to_wire
from maestro_lsp.display import head, plain, sentence, subject, told_event
from maestro_lsp.ground.rpc import ClientError
from maestro_lsp.protocol import EVENT, JOB_CHANGED
from maestro_lsp.steps import (
    Begin,
    Changed,
    Chosen,
    Filling,
    Finish,
    Forward,
    Known,
    Offer,
    Report,
    Step,
    Tell,
    Watches,
    Withdraw,
    as_of,
    joined,
    remembered,
    runs,
    steps,
)

logger = logging.getLogger(__name__)

PROGRESS = "$/progress"
CREATE = "window/workDoneProgress/create"
CREATE_SECONDS = 5.0
RESULT_LIMIT = 300
RETRY_SECONDS = 1.0

_KIND = {
    JobStatus.SUCCEEDED: MessageType.Info,
    JobStatus.FAILED: MessageType.Error,
    JobStatus.ABORTED: MessageType.Warning,
}


class Wire(Protocol):
    """How the client is reached; `RepairedServer` is one."""

    async def client_request(self, method: str, params: object = None) -> object: ...

    def client_notify(self, method: str, params: object = None) -> None: ...


class Listener(Protocol):
    """Who wants to know what jobs ask and do; none of these may block."""

    def offered(self, request: Request) -> None:
        """A request is open."""

    def settled(self, request_id: str) -> None:
        """A request was settled, here or elsewhere."""

    def withdrawn(self, job_id: str) -> None:
        """A job waits for nobody any more."""

    def moved(self, source: str | None, target: str) -> None:
        """Some job moved."""


class Bridge:
    """Follows the store for one client. ``say`` is the catalogue in the client's language."""

    def __init__(
        self, client: Client, wire: Wire, listener: Listener, say: Callable[..., str], progress: bool
    ) -> None:
        self.watches = Watches()
        self._client = client
        self._wire = wire
        self._listener = listener
        self._say = say
        self._progress = progress
        self._known: dict[str, Known] = {}
        self._mine: set[str] = set()
        self._created: set[str] = set()
        self._joining: list[str] = []
        self._mark: int | None = None
        self._lanes: dict[str, deque[Step]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def started(self, job_id: str) -> None:
        """This client made a job: it knows that it is queued, and follows it."""
        self._mine.add(job_id)
        self.watches.touched(job_id)

    async def prepare(self) -> None:
        """Remember how things stand, so that nothing that happens from here on is missed. Sends nothing."""
        self._mark = await self._client.mark()
        for job in await self._client.list_jobs([JobStatus.QUEUED, JobStatus.RUNNING]):
            self.watches.adopted(job.job_id)
            events = await self._client.events(job.job_id)
            if job.job_id not in self._known and runs(events):
                self._known[job.job_id] = remembered(job.movement, events)
                self._joining.append(job.job_id)

    async def run(self) -> None:
        """Show how things stand, then follow until cancelled; a store that fails is tried again."""
        while True:
            try:
                for job_id in self._joining:
                    self._send(job_id, *joined(self._known[job_id], job_id))
                self._joining.clear()
                for request in await self._client.open_requests():
                    self._listener.offered(request)
                await self._client.follow(self._on_events, after=self._mark)
            except EngineError as error:
                logger.error("the store cannot be followed: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        """Send nothing more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def token_job(self, token: object) -> str | None:
        """The job of a progress token of ours."""
        job_id = token.rpartition(":")[0] if isinstance(token, str) else ""
        known = self._known.get(job_id)
        return job_id if known is not None and known.token == token else None

    def live(self, event: dict[str, Any]) -> None:
        """Hand on what streams, to a client that asked for it."""
        job_id = str(event.get("jobId"))
        known = self._known.get(job_id)
        if known is not None and self.watches.wants_live(job_id):
            at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self._send(job_id, Forward({"jobId": job_id, "seq": known.seq, "at": at, **event}))

    # -- what comes from the store

    async def _on_events(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            try:
                await self._on_event(event)
            except EngineError as error:
                logger.error("an event of %s could not be shown: %s", event["jobId"], error)

    async def _on_event(self, event: dict[str, Any]) -> None:
        job_id = event["jobId"]
        known = self._known.get(job_id) or await self._meet(job_id, event["seq"])
        if event["seq"] <= known.seq:
            return
        known.seq = event["seq"]
        if event["kind"] == "decision":
            self._listener.settled(event["requestId"])
        if event["kind"] == "status":
            self._listener.moved(event["from"], event["to"])
        event = told_event(event, self._say)
        forward = [Forward(event)] if self.watches.wants_stored(job_id) else []
        self._send(job_id, *forward, *steps(known, event))

    async def _meet(self, job_id: str, seq: int) -> Known:
        """A job seen for the first time: as it was before the event ``seq``."""
        summary = await self._client.summary(job_id)
        earlier = [e for e in await self._client.events(job_id) if e["seq"] < seq] if seq > 1 else []
        return self._known.setdefault(job_id, remembered(summary.movement, earlier))

    # -- what goes to the client

    def _send(self, job_id: str, *found: Step) -> None:
        if not found:
            return
        lane = self._lanes.get(job_id)
        if lane is not None:
            lane.extend(found)
            return
        self._lanes[job_id] = deque(found)
        task = asyncio.create_task(self._drain(job_id), name=f"lane {job_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self, job_id: str) -> None:
        lane = self._lanes[job_id]
        try:
            while lane:
                await self._do(job_id, lane.popleft())
        finally:
            del self._lanes[job_id]

    async def _do(self, job_id: str, step: Step) -> None:
        try:
            await self._perform(job_id, step)
        except Exception:
            logger.exception("%s of %s could not be shown", type(step).__name__, job_id)

    async def _perform(self, job_id: str, step: Step) -> None:
        match step:
            case Begin(token, movement):
                await self._begin(job_id, token, movement)
            case Report() | Filling() | Chosen():
                self._note(step.token, {"kind": "report", "message": self._reported(step)})
            case Finish(token, key):
                self._note(token, {"kind": "end", "message": self._words(key, self._say("lsp.wait.other"))})
            case Changed():
                await self._tell_change(job_id, step)
            case Offer():
                for request_id in (await self._client.summary(job_id)).open_requests:
                    self._listener.offered(await self._client.request(request_id))
            case Withdraw():
                self._listener.withdrawn(job_id)
            case Tell(status, reason):
                await self._tell_end(job_id, status, reason)
            case Forward(event):
                self._wire.client_notify(EVENT, event)
            case _:
                assert_never(step)

    async def _begin(self, job_id: str, token: str, movement: str | None) -> None:
        if not self._progress:
            return
        try:
            async with asyncio.timeout(CREATE_SECONDS):
                await self._wire.client_request(CREATE, {"token": token})
        except (ClientError, TimeoutError):
            return  # without the token's creation the client would take what follows for nonsense
        summary = await self._client.summary(job_id)
        self._created.add(token)
        begin = {"kind": "begin", "title": summary.piece or "maestro", "cancellable": True}
        told = movement or summary.movement
        self._note(token, {**begin, "message": plain(told)} if told else begin)

    def _note(self, token: str, value: dict[str, object]) -> None:
        """Progress of a token that the client knows; no percentage, for nobody knows how long it takes."""
        if token in self._created:
            self._wire.client_notify(PROGRESS, {"token": token, "value": value})
        if value["kind"] == "end":
            self._created.discard(token)

    def _reported(self, step: Report | Filling | Chosen) -> str:
        match step:
            case Report(_, message):
                return plain(message)
            case Filling(_, key, percent):
                return self._say(key, percent=percent)
            case Chosen(_, key, piece):
                return self._say(key, piece=piece)

    def _words(self, key: str, otherwise: str) -> str:
        """The text of a key that an addition to the engine may have made up."""
        try:
            return self._say(key)
        except KeyError:
            return otherwise

    async def _tell_change(self, job_id: str, changed: Changed) -> None:
        if changed.new and job_id in self._mine:
            return  # the answer to its command said so
        summary = await self._client.summary(job_id)
        self._wire.client_notify(JOB_CHANGED, to_wire(as_of(summary, changed)))

    async def _tell_end(self, job_id: str, status: str, reason: str | None) -> None:
        told = self.watches.wants_end(job_id)
        self.watches.ended(job_id)
        self._mine.discard(job_id)
        if not told or status == JobStatus.CANCELLED:
            return
        job = await self._client.show(job_id)
        result = sentence(head(plain(job.result or ""), RESULT_LIMIT), self._say("lsp.stop"))
        about = subject(job.task_id)
        if status == JobStatus.SUCCEEDED:
            changed = self._files(len(await self._client.changes(job_id)))
            key = "lsp.done_forced" if job.forced else "lsp.done"
            text = self._say(key, subject=about, result=result, files=changed)
        else:
            why = self._words(f"reason.{reason}", "")
            text = self._say(f"lsp.ended.{status}", subject=about, why=why, result=result)
        self._show(_KIND[JobStatus(status)], " ".join(text.split()))

    def _files(self, count: int) -> str:
        if not count:
            return ""
        return self._say("lsp.files_one") if count == 1 else self._say("lsp.files", count=count)

    def _show(self, kind: MessageType, text: str) -> None:
        self._wire.client_notify("window/showMessage", {"type": kind.value, "message": text})
