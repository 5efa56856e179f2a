"""The scripted model's server. All of it is real but the replies: HTTP, streaming, token counts, prompt
cache, errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from engine.llm.scripted import wire
from engine.llm.scripted.http import (
    MAX_HEAD,
    BadRequest,
    Cut,
    HttpRequest,
    read_request,
    write_stream,
    write_whole,
)
from engine.llm.scripted.script import Script, ScriptExhausted, ScriptReply, ScriptRequest, Step, as_script
from engine.llm.scripted.slots import PromptSlots, render_prompt, tokens_of
from engine.llm.scripted.strict import fault_of

_JSON = {"content-type": "application/json"}
_KEPT_REQUESTS = 2000
_KEPT_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the scripted model behaves. ``delay`` is seconds per streamed piece; ``context`` and ``slots`` are
    what ``/props`` says.

    ``strict`` refuses conversations that a strict server would refuse; ``api_key`` asks for that key;
    ``listed_only`` refuses models that are not in ``models``. A prompt longer than ``context`` is refused as
    llama-server does it; ``names_limit`` False leaves the limit out of the refusal, and ``cuts`` cuts the
    prompt without a word, as Ollama does. ``tells_context`` False keeps the context out of ``/props``.
    ``usage`` is ``told``, ``zero`` or ``none``; ``weight`` multiplies all counts, for another tokenizer.
    """

    delay: float = 0.0
    slots: int = 4
    context: int = 131_072
    models: tuple[str, ...] = ("scripted",)
    strict: bool = True
    api_key: str | None = None
    listed_only: bool = False
    names_limit: bool = True
    cuts: bool = False
    tells_context: bool = True
    usage: str = "told"
    weight: float = 1.0


class ScriptedServer:
    """The server, on 127.0.0.1 in the running event loop: ``async with ScriptedServer(script) as server:
    server.base_url``.

    ``script`` is a ``Script``, a list of steps, or a function of the request. ``requests`` holds the raw
    bodies of the chat requests in order (the last 2,000, at most 256 MiB); ``aborted`` counts answers that
    the client did not wait for.
    """

    def __init__(
        self, script: Script | Iterable[Step] | Step, port: int = 0, options: ServerOptions | None = None
    ) -> None:
        self.script = as_script(script)
        self.options = options or ServerOptions()
        self.requests: list[bytes] = []
        self.aborted = 0
        self._port = port
        self._count = 0
        self._kept = 0
        self._changed = threading.Condition()
        self._slots = PromptSlots(self.options.slots)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._pool = ThreadPoolExecutor(max_workers=32, thread_name_prefix="script")

    @property
    def base_url(self) -> str:
        """The base URL up to and with ``/v1``."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._on_connection, "127.0.0.1", self._port, limit=MAX_HEAD, backlog=512
        )
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def wait_requests(self, count: int, timeout: float = 10.0) -> None:
        """Blocks until ``count`` chat requests have arrived in total. Raises ``TimeoutError``. Not for the
        server's own loop.
        """
        self._wait(lambda: self._count >= count, f"{count} requests, {self._count} came", timeout)

    def wait_aborted(self, count: int, timeout: float = 10.0) -> None:
        """Blocks until the client has left ``count`` answers unfinished. Raises ``TimeoutError``. Not for the
        server's own loop.
        """
        self._wait(lambda: self.aborted >= count, f"{count} aborted answers, {self.aborted} came", timeout)

    def bodies(self) -> list[dict[str, Any]]:
        """The kept chat requests, parsed."""
        return [json.loads(body) for body in list(self.requests)]

    def _wait(self, predicate: Any, what: str, timeout: float) -> None:
        with self._changed:
            if not self._changed.wait_for(predicate, timeout):
                raise TimeoutError(f"waited {timeout:g} s for {what}")

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while (request := await read_request(reader, writer)) is not None:
                if not await self._answer(request, reader, writer) or not request.keep_alive:
                    break
        except (ConnectionError, BadRequest, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(
        self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answers one request; False if the connection is to be closed."""
        path = request.path.rstrip("/")
        chat = path.endswith("/chat/completions")
        if (
            self.options.api_key is not None
            and request.headers.get("authorization") != f"Bearer {self.options.api_key}"
        ):
            await write_whole(
                writer, 401, _JSON, wire.error_body(401, "Invalid API Key", "authentication_error")
            )
        elif chat and request.method == "POST":
            return await self._chat(request.body, reader, writer)
        elif request.method != "GET" or (known := self._known(path)) is None:
            await write_whole(writer, 404, _JSON, wire.error_body(404, "File Not Found", "not_found_error"))
        else:
            await write_whole(writer, 200, _JSON, wire.dump(known).encode())
        return True

    def _known(self, path: str) -> dict[str, Any] | None:
        if path.endswith("/models"):
            entries = [
                {"id": name, "object": "model", "created": wire.CREATED, "owned_by": "script"}
                for name in self.options.models
            ]
            return {"object": "list", "data": entries}
        if path.endswith("/health"):
            return {"status": "ok"}
        if path.endswith("/props"):
            generation = {"n_ctx": self.options.context} if self.options.tells_context else {}
            return {"total_slots": self.options.slots, "default_generation_settings": generation}
        return None

    async def _chat(self, raw: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self._record(raw)
        try:
            body = json.loads(raw)
            messages, tools = tuple(body["messages"]), tuple(body.get("tools") or ())
        except (ValueError, KeyError, TypeError):
            await write_whole(
                writer,
                400,
                _JSON,
                wire.error_body(400, "the body is no chat request", "invalid_request_error"),
            )
            return True
        prompt = tokens_of(render_prompt(messages, tools))
        tokens = round(self.options.weight * len(prompt))
        refusal = self._refusal(body, messages, tokens)
        if refusal is not None:
            await write_whole(writer, refusal[0], _JSON, refusal[1])
            return True
        request = ScriptRequest(
            messages,
            tools,
            str(body.get("model", "")),
            body.get("tool_choice"),
            bool(body.get("stream")),
            self._count,
        )
        asking = asyncio.create_task(self._ask_script(request))
        if not await self._client_waits(asking, reader):
            return False
        reply = asking.result()
        if reply.status is not None:
            error = (
                reply.body
                if reply.body is not None
                else wire.error_body(reply.status, reply.text, "scripted_error")
            )
            await write_whole(writer, reply.status, {**_JSON, **reply.headers}, error)
            return True
        usage = self._usage(reply, prompt, tokens, body.get("id_slot"))
        return await self._send(reply, body, usage, writer)

    def _usage(
        self, reply: ScriptReply, prompt: list[str], tokens: int, slot: int | None
    ) -> wire.Usage | None:
        """What is reported of a request; None for nothing."""
        weight, cached = self.options.weight, self._slots.take(prompt, slot)
        match self.options.usage:
            case "none":
                return None
            case "zero":
                return wire.Usage(0, 0, 0)
        told = min(tokens, self.options.context) if reply.prompt_tokens is None else reply.prompt_tokens
        return wire.Usage(
            told, min(told, round(weight * cached)), round(weight * wire.completion_tokens(reply))
        )

    async def _client_waits(self, asking: asyncio.Task[ScriptReply], reader: asyncio.StreamReader) -> bool:
        """Waits for the script's reply; False if the client hangs up before (it sends nothing while it
        waits).
        """
        hang_up = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait((asking, hang_up), return_when=asyncio.FIRST_COMPLETED)
        finally:
            left = hang_up.done() and not asking.done()
            hang_up.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await hang_up
        if left:
            asking.cancel()
            self._abort()
        return not left

    async def _ask_script(self, request: ScriptRequest) -> ScriptReply:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self.script.reply, request)
        except ScriptExhausted as error:
            return ScriptReply(status=400, body=wire.error_body(400, str(error), "script_exhausted"))
        except (
            Exception
        ) as error:  # a faulty script must reach the person who wrote it, as any fault of a server does
            return ScriptReply(
                status=400, body=wire.error_body(400, f"{type(error).__name__}: {error}", "script_error")
            )

    async def _send(
        self,
        reply: ScriptReply,
        body: dict[str, Any],
        usage: wire.Usage | None,
        writer: asyncio.StreamWriter,
    ) -> bool:
        model = str(body.get("model") or self.options.models[0])
        ids = wire.call_ids(body["messages"], len(reply.calls))
        if not body.get("stream") and reply.raw_chunks is None:
            whole = wire.whole_body(reply, ids, model, usage or wire.Usage(0, 0, 0))
            await write_whole(writer, 200, {**_JSON, **reply.headers}, whole)
            return True
        asked = bool((body.get("stream_options") or {}).get("include_usage"))
        pieces: Iterable[bytes] = reply.raw_chunks or ()
        if reply.raw_chunks is None:
            pieces = wire.stream_events(reply, ids, model, usage if asked else None)
        kind = {"content-type": reply.content_type} if reply.content_type else {}
        cut = Cut(reply.drop_after, reply.reset) if reply.drop_after is not None else None
        paced = _paced(pieces, self.options.delay if reply.delay is None else reply.delay)
        chunked = not reply.close_delimited
        try:
            sent = await write_stream(writer, {**kind, **reply.headers}, paced, chunked=chunked, cut=cut)
        except ConnectionError:
            sent = False
        if not sent and cut is None:
            self._abort()
        return sent and chunked

    def _refusal(
        self, body: dict[str, Any], messages: tuple[Any, ...], tokens: int
    ) -> tuple[int, bytes] | None:
        """Status and body of the error that this request deserves, None if it is fine."""
        model = body.get("model")
        if self.options.listed_only and model not in self.options.models:
            text = f"The model `{model}` does not exist."
            return 404, wire.error_body(404, text, "invalid_request_error", param="model")
        if self.options.strict and (fault := fault_of(messages)) is not None:
            return 400, wire.error_body(400, fault, "invalid_request_error")
        if tokens > self.options.context and not self.options.cuts:
            return 400, self._too_long(tokens)
        return None

    def _too_long(self, tokens: int) -> bytes:
        size, kind = self.options.context, "exceed_context_size_error"
        if not self.options.names_limit:
            return wire.error_body(400, "the request exceeds the available context size", kind)
        text = f"request ({tokens} tokens) exceeds the available context size ({size} tokens)"
        return wire.error_body(400, text, kind, n_prompt_tokens=tokens, n_ctx=size)

    def _record(self, raw: bytes) -> None:
        with self._changed:
            self.requests.append(raw)
            self._count += 1
            self._kept += len(raw)
            while len(self.requests) > _KEPT_REQUESTS or (
                self._kept > _KEPT_BYTES and len(self.requests) > 1
            ):
                self._kept -= len(self.requests.pop(0))
            self._changed.notify_all()

    def _abort(self) -> None:
        with self._changed:
            self.aborted += 1
            self._changed.notify_all()


async def _paced(pieces: Iterable[bytes], delay: float) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        if delay > 0:
            await asyncio.sleep(delay)
