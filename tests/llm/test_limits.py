"""The context limit of a model: configured, asked, or learnt from a refusal; the smallest counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine.core.errors import ContextOverflow
from engine.core.messages import encode_message
from engine.llm.openai import OpenAIModel
from engine.llm.scripted import ScriptedServer, ScriptReply, ServerOptions, say
from engine.llm.scripted.wire import error_body
from engine.llm.worker_config import ModelWorker
from engine.ports import ModelRequest

ANSWERS: dict[str, dict[str, Any]] = {
    "llama-server": {"/props": {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 2}},
    "vLLM": {"/v1/models": {"data": [{"id": "m", "max_model_len": 4096}]}},
    "LM Studio": {
        "/v1/models": {"data": [{"id": "m"}]},
        "/api/v0/models": {
            "data": [{"id": "m", "max_context_length": 131072, "loaded_context_length": 4096}]
        },
    },
    "Ollama": {
        "/v1/models": {"data": [{"id": "m", "owned_by": "library"}]},
        "/api/ps": {"models": [{"name": "m", "context_length": 4096}]},
        "/api/show": {"model_info": {"x.context_length": 262144}},
    },
    "OpenAI-like": {"/v1/models": {"data": [{"id": "other"}, {"id": "m", "context_length": 4096}]}},
    "OpenAI": {"/v1/models": {"data": [{"id": "m", "object": "model"}, {"id": "other"}]}},
}


@asynccontextmanager
async def server_with(answers: dict[str, Any]) -> AsyncIterator[tuple[str, list[str]]]:
    """A server with these JSON pages and no other, its address, and the pages that were asked for."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        asked.append(path)
        body = json.dumps(answers.get(path)).encode() if path in answers else b"{}"
        status = "200 OK" if path in answers else "404 Not Found"
        writer.write(
            f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
        )
        writer.write(body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@asynccontextmanager
async def model_at(url: str, **fields: Any) -> AsyncIterator[OpenAIModel]:
    model = OpenAIModel(ModelWorker("w", url, "m", **{"timeout_s": 10, "retries": 0, **fields}))
    try:
        yield model
    finally:
        await model.aclose()


@pytest.mark.parametrize("kind", sorted(ANSWERS))
@pytest.mark.parametrize(
    ("configured", "limit"), [(None, 4096), (2048, 2048), (100_000, 4096)], ids=["not set", "less", "more"]
)
async def test_what_a_server_says_counts_where_it_is_less_than_configured(
    kind: str, configured: int | None, limit: int
) -> None:
    async with (
        server_with(ANSWERS[kind]) as (url, asked),
        model_at(url, context_tokens=configured) as model,
    ):
        expected = configured if kind == "OpenAI" else limit
        assert await model.context_limit() == expected
        count = len(asked)
        assert [await model.context_limit() for _ in range(3)] == [expected] * 3
        assert len(asked) == count, "asked once, whether it says something or not"


@pytest.mark.parametrize("configured", [None, 100_000])
async def test_a_limit_named_in_a_refusal_holds_from_then_on(configured: int | None) -> None:
    body = error_body(400, "exceeds", "exceed_context_size_error", n_ctx=3000)
    refusals = [ScriptReply(status=400, body=body), say("x")]
    async with (
        ScriptedServer(lambda request: refusals[request.number > 1]) as server,
        model_at(server.base_url, context_tokens=configured) as model,
    ):
        assert await model.context_limit() in (100_000, 131_072)
        request = ModelRequest([encode_message("user", "x")], b"[]")
        with pytest.raises(ContextOverflow):
            await model.reply(request, lambda delta: None)
        assert await model.context_limit() == 3000
        await model.reply(request, lambda delta: None)
        assert await model.context_limit() == 3000


async def test_a_refusal_of_another_model_says_nothing_about_this_one() -> None:
    body = error_body(400, "exceeds", "exceed_context_size_error", n_ctx=3000)
    options = ServerOptions(context=9000)
    async with (
        ScriptedServer([ScriptReply(status=400, body=body)], options=options) as server,
        model_at(server.base_url) as model,
    ):
        request = ModelRequest([encode_message("user", "x")], b"[]", model="another")
        with pytest.raises(ContextOverflow):
            await model.reply(request, lambda delta: None)
        assert await model.context_limit() == 9000
