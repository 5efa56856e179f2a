"""The model connection: OpenAI-compatible chat completions over httpx, streaming, with its retries
(specification §7).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from engine.core.errors import ContextOverflow, ModelFault
from engine.core.reply import Delta, Reply
from engine.endpoint import parse_endpoint
from engine.llm.faults import HttpError, http_fault, is_unknown_model, mentions, retry_wait, shown_endpoint
from engine.llm.ids import looks_random, random_id
from engine.llm.normalise import CallIds
from engine.llm.probe import model_ids, models_context, ollama_context, props_context, props_slots
from engine.llm.reader import ReplyReader, UnusableReply
from engine.llm.request import offered, request_body, retry_after_s
from engine.llm.slot_book import SlotBook
from engine.llm.textcalls import Tools
from engine.llm.thoughts import Habit, learn
from engine.llm.worker_config import ModelWorker
from engine.ports import ModelRequest

if TYPE_CHECKING:
    import httpx

_CONNECT_S = 10.0
_PROBE_S = 2.0
_ASK_AGAIN_S = 60.0
_ERROR_BYTES = 64 * 1024
_PROBE_BYTES = 8 * 1024 * 1024
_GRACE_S = 5.0
"""How long usage and the end of the body may take after the finish reason: servers exist that never close the
stream.
"""


class OpenAIModel:
    """One model server; implements ``engine.ports.Model``. Used within one event loop; close it with
    ``aclose``.

    ``sleep`` waits between attempts, ``new_id`` makes ids of calls, ``on_retry`` is told the fault and the
    seconds until the next attempt. Raises ``NotConfigured`` for an endpoint that cannot be used.
    """

    def __init__(
        self,
        worker: ModelWorker,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        new_id: Callable[[], str] = random_id,
        on_retry: Callable[[ModelFault, float], None] | None = None,
    ) -> None:
        self.worker = worker
        self.endpoint = parse_endpoint(worker.endpoint)
        self._sleep = sleep
        self._new_id = new_id
        self._on_retry = on_retry
        self._client: httpx.AsyncClient | None = None
        self._unsupported: set[tuple[str, str]] = set()
        self._tools: tuple[bytes, Tools] = (b"[]", {})
        self._habits: dict[str, Habit] = {}
        self._props: object = None
        self._total_slots: int | None = None
        self._book = SlotBook(first=os.getpid())
        self._context: int | None = None
        self._asked = float("-inf")
        self._refused_at: dict[str, int] = {}

    async def reply(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> Reply:
        """Streams one reply. Raises ``ModelFault`` or ``ContextOverflow`` after its own retries.

        If an attempt fails after something was shown, ``on_delta`` gets an empty ``Delta``: the reply begins
        anew.
        """
        failures, shown = 0, False

        def show(delta: Delta) -> None:
            nonlocal shown
            shown = True
            on_delta(delta)

        while True:
            try:
                return await self._attempt(request, show)
            except ModelFault as fault:
                self._remember(request, fault)
                wait = retry_wait(self.worker, fault, failures, first_of_run=request.first_of_run)
                if wait is None:
                    raise
                if self._on_retry is not None:
                    self._on_retry(fault, wait)
            if shown:
                on_delta(Delta())
                shown = False
            failures += 1
            await self._sleep(wait)

    async def context_limit(self) -> int | None:
        """The context limit in tokens: the smallest of what is configured, what the server says (asked in at
        most 2 s, again only after a minute if it does not say) and what it named when it refused a prompt.
        """
        if self._context is None and time.monotonic() - self._asked > _ASK_AGAIN_S:
            self._asked = time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PROBE_S):
                    self._context = await self._ask_context()
        worker = self.worker
        known = (worker.context_tokens, self._context, self._refused_at.get(worker.model))
        return min(filter(None, known), default=None)

    def _remember(self, request: ModelRequest, fault: ModelFault) -> None:
        """Keep the limit that a refusal names: it holds for the next job too."""
        if isinstance(fault, ContextOverflow) and fault.limit:
            model = request.model or self.worker.model
            self._refused_at[model] = min(fault.limit, self._refused_at.get(model, fault.limit))

    async def slots(self) -> int | None:
        """How many requests the server works on at once: what it says, 1 for another server on this machine,
        else None.
        """
        told = props_slots(await self._ask_props())
        return told if told is not None else 1 if self.endpoint.loopback else None

    def rest(self, holder: str) -> None:
        """A job makes no more requests for now: others may have its slot."""
        self._book.rest(holder)

    async def _slot_of(self, request: ModelRequest) -> int | None:
        """The slot that a job keeps on a llama-server with several; None elsewhere.

        Asked anew at the start of a run: a server that came back with fewer slots would let a request for one
        that is gone wait for ever.
        """
        if not request.holder:
            return None
        if request.first_of_run and (self.endpoint.loopback or self._total_slots != 0):
            self._props = None
            self._total_slots = props_slots(await self._ask_props()) or 0
        total = self._total_slots or 0
        return self._book.take(request.holder, total) if total > 1 else None

    async def models(self) -> tuple[str, ...]:
        """The ids of the models that the server lists; empty if it does not answer within 2 s."""
        return model_ids(await self._probe("GET", self.endpoint.base + "/models"))

    async def aclose(self) -> None:
        """Closes all connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _attempt(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> Reply:
        import httpx

        from engine.llm.network import network_fault, unusable_fault

        try:
            async with asyncio.timeout(self.worker.longest_s):
                while True:
                    answer = await self._send(request, on_delta)
                    if isinstance(answer, Reply):
                        return answer
                    if not self._learn(request, answer):
                        raise http_fault(self.worker, answer, await self._known_models(answer))
        except httpx.HTTPError as error:
            raise network_fault(self.worker, self.endpoint, error) from None
        except UnusableReply as unusable:
            raise unusable_fault(self.worker, unusable) from None
        except TimeoutError:
            seconds, endpoint = round(self.worker.longest_s), shown_endpoint(self.worker)
            raise ModelFault("model.timeout", retryable=True, endpoint=endpoint, seconds=seconds) from None

    async def _send(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> Reply | HttpError:
        started = time.monotonic()
        model = request.model or self.worker.model
        without = {parameter for name, parameter in self._unsupported if name == model}
        slot = await self._slot_of(request)
        body = request_body(self.worker, request, without, self._habits.get(model, Habit()), slot)
        async with contextlib.AsyncExitStack() as stack:
            response = await self._open(stack, body)
            if not 200 <= response.status_code < 300:
                return await _read_error(response)
            reader = ReplyReader(self._known(request.tools))
            await self._read(response, reader, on_delta)
            ids = CallIds(self._new_id, lambda given: looks_random(given) and given not in request.taken)
            deltas, reply = reader.end(ids, seconds=time.monotonic() - started, model=model)
            for delta in deltas:
                on_delta(delta)
            return reply

    async def _open(self, stack: contextlib.AsyncExitStack, body: bytes) -> httpx.Response:
        """Sends the request and waits for the head of the answer.

        Asked once more at once where the connection ends before it: the server had just closed a kept-alive
        one.
        """
        import httpx

        url = self.endpoint.base + "/chat/completions"
        try:
            return await stack.enter_async_context(self._http().stream("POST", url, content=body))
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            return await stack.enter_async_context(self._http().stream("POST", url, content=body))

    async def _read(
        self, response: httpx.Response, reader: ReplyReader, on_delta: Callable[[Delta], None]
    ) -> None:
        """Reads the body to its end, or for a short while after the reply is known to be whole."""
        import httpx

        pieces = response.aiter_bytes()
        try:
            async with asyncio.timeout(None) as grace:
                async for piece in pieces:
                    for delta in reader.feed(piece):
                        on_delta(delta)
                    if reader.finished and grace.when() is None:
                        grace.reschedule(asyncio.get_running_loop().time() + _GRACE_S)
        except (TimeoutError, httpx.TransportError):
            if not reader.finished:
                raise

    def _learn(self, request: ModelRequest, error: HttpError) -> bool:
        """True if the server refused something that can be otherwise, as it will be from now on: a parameter
        is left out, reasoning goes back or stays away.
        """
        model = request.model or self.worker.model
        sent = {"stream_options", "id_slot"} | ({"tool_choice"} if request.tool_choice else set())
        new = {(model, name) for name in sent if mentions(error, name)} - self._unsupported
        self._unsupported |= new
        habit = self._habits.get(model, Habit())
        if mentions(error, "reasoning_"):
            self._habits[model] = learn(habit, error.texts, request.messages, request.thoughts)
        return bool(new) or self._habits.get(model, habit) != habit

    async def _known_models(self, error: HttpError) -> tuple[str, ...]:
        return await self.models() if error.status == 404 or is_unknown_model(self.worker, error, ()) else ()

    def _known(self, tools: bytes) -> Tools:
        """The tools offered; parsed once, since a job's tools never change."""
        if self._tools[0] != tools:
            self._tools = (tools, offered(tools))
        return self._tools[1]

    async def _ask_props(self) -> object:
        if self._props is None:
            self._props = await self._probe("GET", self.endpoint.root + "/props")
        return self._props

    async def _ask_context(self) -> int | None:
        """llama-server first, then what a list of models says, then the local servers that have ways of their
        own.
        """
        limit = props_context(await self._ask_props())
        if limit is not None:
            return limit
        root, model = self.endpoint.root, self.worker.model
        limit = models_context(await self._probe("GET", self.endpoint.base + "/models"), model)
        if limit is not None:
            return limit
        running = await self._probe("GET", root + "/api/ps")
        if running is not None:
            shown = await self._probe("POST", root + "/api/show", {"model": model})
            return ollama_context(running, shown, model)
        return models_context(await self._probe("GET", root + "/api/v0/models"), model)

    async def _probe(self, method: str, url: str, body: Mapping[str, object] | None = None) -> object:
        """The parsed JSON of a quick question; None for any failure."""
        import httpx

        try:
            async with asyncio.timeout(_PROBE_S), self._http().stream(method, url, json=body) as response:
                if response.status_code != 200:
                    return None
                return json.loads(await _read_all(response, _PROBE_BYTES))
        except (httpx.HTTPError, TimeoutError, ValueError, RecursionError):
            return None

    def _http(self) -> httpx.AsyncClient:
        """The client: no proxy or key from the environment, no redirects, the system's and the bundled
        certificates.
        """
        if self._client is None:
            import httpx

            from engine.llm.network import tls_context

            worker = self.worker
            key = {"authorization": f"Bearer {worker.api_key}"} if worker.api_key else {}
            own = {name.lower(): value for name, value in worker.headers.items()}
            fixed = {"content-type": "application/json", "accept-encoding": "identity"}
            self._client = httpx.AsyncClient(
                headers={"user-agent": "maestro-lsp", **key, **own, **fixed},
                timeout=httpx.Timeout(worker.timeout_s, connect=min(_CONNECT_S, worker.timeout_s), pool=None),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=30.0),
                verify=tls_context() if self.endpoint.tls else False,
                trust_env=False,
                follow_redirects=False,
            )
        return self._client


async def _read_error(response: httpx.Response) -> HttpError:
    try:
        async with asyncio.timeout(_CONNECT_S):
            body = await _read_all(response, _ERROR_BYTES)
    except TimeoutError:
        body = b""
    headers = response.headers
    return HttpError(
        response.status_code, body, retry_after_s(headers, time.time()), headers.get("location", "")
    )


async def _read_all(response: httpx.Response, limit: int) -> bytes:
    """The body, cut at ``limit`` bytes."""
    body = bytearray()
    pieces: AsyncIterator[bytes] = response.aiter_bytes()
    async for piece in pieces:
        body += piece
        if len(body) >= limit:
            break
    return bytes(body[:limit])
