"""The scripted model over real HTTP, asked by httpx."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from engine.llm.scripted import (
    ByMovement,
    Queue,
    ScriptedServer,
    ScriptReply,
    ScriptRequest,
    Sequence,
    ServerOptions,
    call,
    say,
    serve_in_thread,
)
from engine.llm.scripted.strict import fault_of

SYSTEM = {"role": "system", "content": "You are careful."}
TOOLS = [{"type": "function", "function": {"name": "Read", "description": "reads", "parameters": {}}}]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def called(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        yield client


async def ask(
    client: httpx.AsyncClient, server: ScriptedServer, *messages: Any, **fields: Any
) -> httpx.Response:
    body = {"model": "scripted", "messages": list(messages), **fields}
    return await client.post(server.base_url + "/chat/completions", json=body)


def events_of(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


async def test_a_stream_comes_in_small_pieces_that_join_to_the_reply(client: httpx.AsyncClient) -> None:
    text = "テストは 3 件失敗しました。 I will look at the file."
    async with ScriptedServer([say(text, reasoning="hmm, let me think")]) as server:
        answer = await ask(client, server, user("go"), stream=True, stream_options={"include_usage": True})
    chunks = events_of(answer.text)
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == text
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "hmm, let me think"
    assert len(deltas) > 8
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] > 8


async def test_without_stream_options_there_is_no_usage_chunk(client: httpx.AsyncClient) -> None:
    async with ScriptedServer([say("a")]) as server:
        answer = await ask(client, server, user("go"), stream=True)
    assert all("usage" not in chunk for chunk in events_of(answer.text))


async def test_a_reply_that_does_not_stream_has_the_same_call(client: httpx.AsyncClient) -> None:
    async with ScriptedServer([call("Write", path="日本.md", content="a\n")]) as server:
        message = (await ask(client, server, user("go"))).json()["choices"][0]["message"]
    assert message["content"] is None
    function = message["tool_calls"][0]["function"]
    assert function["name"] == "Write" and json.loads(function["arguments"]) == {
        "path": "日本.md",
        "content": "a\n",
    }


async def test_cached_tokens_are_the_common_prefix_of_system_tools_conversation(
    client: httpx.AsyncClient,
) -> None:
    first = [SYSTEM, user("instruction " * 200)]
    longer = [*first, called("c1", "Read", path="a"), result("c1", "content " * 50)]
    options = ServerOptions(slots=1)
    async with ScriptedServer(lambda request: say("ok"), options=options) as server:

        async def usage(*messages: Any, tools: Any = TOOLS) -> tuple[int, int]:
            body = (await ask(client, server, *messages, tools=tools)).json()["usage"]
            return body["prompt_tokens"], body["prompt_tokens_details"]["cached_tokens"]

        total, cached = await usage(*first)
        assert (total > 400, cached) == (True, 0)
        assert await usage(*first) == (total, total - 1), "one token is always evaluated"
        longer_total, cached = await usage(*longer)
        assert cached == total, "append-only: the whole previous prompt is reused"
        other_tools = [{**TOOLS[0], "function": {**TOOLS[0]["function"], "description": "Reads"}}]
        total, cached = await usage(*longer, tools=other_tools)
        assert total == longer_total and cached < 60, "one changed letter in a description loses all after it"


async def test_two_slots_keep_two_conversations_warm(client: httpx.AsyncClient) -> None:
    conversations = [
        [{"role": "system", "content": f"{name} " * 80}, user("go " * 80)] for name in ("red", "blue")
    ]
    cached: dict[int, list[int]] = {}
    for slots in (1, 2):
        async with ScriptedServer(lambda request: say("ok"), options=ServerOptions(slots=slots)) as server:
            answers = [await ask(client, server, *conversation) for conversation in conversations * 2]
        cached[slots] = [a.json()["usage"]["prompt_tokens_details"]["cached_tokens"] for a in answers]
    assert all(count < 10 for count in cached[1])
    assert min(cached[2][2:]) > 100


async def test_the_script_sees_results_and_movements_of_the_request(client: httpx.AsyncClient) -> None:
    seen: list[ScriptRequest] = []

    def answer(request: ScriptRequest) -> ScriptReply:
        seen.append(request)
        return say(f"the test says: {request.last_result('Bash')}")

    script = ByMovement(
        {"plan": [call("Read", path="a")], "verify": [call("Bash", command="pytest"), answer]}
    )
    async with ScriptedServer(script) as server:
        conversation: list[Any] = [
            SYSTEM,
            user("instruction\n\n## Movement: plan\nplan it"),
            called("c1", "Read", path="a"),
            result("c1", "file a"),
        ]
        guided = user("## 現在のステップ: verify\n確認する")
        first = (await ask(client, server, *conversation, guided)).json()
        assert first["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "Bash", (
            "turns count anew"
        )
        more = [*conversation, guided, called("c2", "Bash", command="pytest"), result("c2", "1 failed")]
        second = (await ask(client, server, *more, tools=TOOLS)).json()
    assert second["choices"][0]["message"]["content"] == "the test says: 1 failed"
    assert seen[0].movement == "verify" and seen[0].tool_names == ("Read",) and seen[0].turn == 1
    assert [(r.name, dict(r.arguments), r.text) for r in seen[0].results()] == [
        ("Read", {"path": "a"}, "file a"),
        ("Bash", {"command": "pytest"}, "1 failed"),
    ]
    assert seen[0].contains("確認する") and not seen[0].contains("確認しない")


async def test_a_sequence_gives_the_same_reply_to_the_same_request(client: httpx.AsyncClient) -> None:
    async with ScriptedServer(Sequence([call("Read", path="a"), say("done")])) as server:
        first, again = [(await ask(client, server, user("go"))).json()["choices"] for _ in range(2)]
    assert first == again


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (Sequence([]), "turn 1"),
        (Queue([]), "empty"),
        (ByMovement({"plan": [say("x")]}), "without a movement heading"),
        (lambda request: 1 / 0, "ZeroDivisionError"),
    ],
)
async def test_a_script_without_an_answer_is_an_error_that_nobody_retries(
    client: httpx.AsyncClient, script: Any, said: str
) -> None:
    async with ScriptedServer(script) as server:
        answer = await ask(client, server, user("go"))
    assert answer.status_code == 400 and said in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([user("a"), called("c1", "Read")], "without a result at the end: c1"),
        ([user("a"), called("c1", "Read"), user("b")], "without a result before it: c1"),
        ([user("a"), called("c1", "Read"), result("c1", "x"), result("c1", "x")], "no open tool call"),
        (
            [user("a"), called("c1", "Read"), result("c1", "x"), called("c1", "Read"), result("c1", "x")],
            "used before",
        ),
        ([user("a"), user("b")], "alternate"),
        ([user(" ")], "empty"),
        ([user("a"), called("c1", "Read"), result("c1", " ")], "empty"),
        ([user("a"), called("c 1", "Read"), result("c 1", "x")], "visible characters"),
        ([user("a"), called("", "Read"), result("", "x")], "visible characters"),
        ([user("a"), {"role": "assistant", "content": ""}, user("b")], "neither content nor tool calls"),
        ([user("a"), {"role": "assistant", "content": "b"}], "assistant's own"),
        ([user("a"), called("c1", "functions.Read"), result("c1", "x")], "not allowed"),
        ([user("a"), SYSTEM], "must be the first"),
        ([], "at least one"),
        (
            [
                user("a"),
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "R", "arguments": '{"a'}}
                    ],
                },
                result("c", "x"),
            ],
            "cannot be parsed",
        ),
    ],
)
async def test_a_conversation_that_a_strict_server_refuses_is_refused(
    client: httpx.AsyncClient, messages: list[Any], fault: str
) -> None:
    async with ScriptedServer([say("x")] * 3) as server:
        answer = await ask(client, server, *messages)
    assert answer.status_code == 400 and fault in answer.json()["error"]["message"]


async def test_a_prompt_longer_than_the_context_is_refused_as_llama_server_does(
    client: httpx.AsyncClient,
) -> None:
    async with ScriptedServer([say("x")], options=ServerOptions(context=100)) as server:
        error = (await ask(client, server, user("word " * 200))).json()["error"]
    assert (
        error["type"] == "exceed_context_size_error"
        and error["n_ctx"] == 100
        and error["n_prompt_tokens"] > 200
    )


async def test_the_other_addresses_answer(client: httpx.AsyncClient) -> None:
    async with ScriptedServer(
        [say("x")], options=ServerOptions(slots=3, context=9000, models=("m1", "m2"))
    ) as server:
        models = (await client.get(server.base_url + "/models")).json()
        props = (await client.get(server.base_url.removesuffix("/v1") + "/props")).json()
        health = await client.get(server.base_url.removesuffix("/v1") + "/health")
        missing = await client.get(server.base_url + "/nothing")
        no_chat = await client.post(server.base_url + "/chat/completions", content=b"{")
    assert [entry["id"] for entry in models["data"]] == ["m1", "m2"]
    assert props["total_slots"] == 3 and props["default_generation_settings"]["n_ctx"] == 9000
    assert (health.status_code, missing.status_code, no_chat.status_code) == (200, 404, 400)


async def test_key_and_model_are_checked_where_asked_for(client: httpx.AsyncClient) -> None:
    options = ServerOptions(api_key="right", listed_only=True)
    async with ScriptedServer([say("x")], options=options) as server:
        url = server.base_url + "/chat/completions"
        wrong = await client.post(
            url, json={"messages": [user("a")]}, headers={"authorization": "Bearer wrong"}
        )
        right = {"authorization": "Bearer right"}
        unknown = await client.post(url, json={"model": "x", "messages": [user("a")]}, headers=right)
        good = await client.post(url, json={"model": "scripted", "messages": [user("a")]}, headers=right)
    assert (wrong.status_code, unknown.status_code, good.status_code) == (401, 404, 200)


async def test_connections_are_kept_and_chunked_requests_are_read(client: httpx.AsyncClient) -> None:
    body = json.dumps({"messages": [user("あ" * 5000)], "stream": True}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 999):
            yield body[start : start + 999]

    async with ScriptedServer([say("x")]) as server:
        for _ in range(3):
            answer = await client.post(server.base_url + "/chat/completions", content=pieces())
            assert answer.status_code == 200
        assert len(server._connections) == 1
        assert server.requests == [body] * 3 and server.bodies()[0]["stream"] is True


@pytest.mark.parametrize("reset", [False, True])
async def test_a_stream_can_break_off(client: httpx.AsyncClient, reset: bool) -> None:
    async with ScriptedServer([say("word " * 50, drop_after=300, reset=reset)]) as server:
        with pytest.raises(httpx.HTTPError):
            await ask(client, server, user("a"), stream=True)
        assert server.aborted == 0, "the script's own cut is not the client's"


async def test_a_stream_whose_end_is_the_end_of_the_connection(client: httpx.AsyncClient) -> None:
    async with ScriptedServer([say("word", close_delimited=True)]) as server:
        answer = await ask(client, server, user("a"), stream=True)
        assert "word" in answer.text and "transfer-encoding" not in answer.headers


async def test_a_client_that_hangs_up_is_noticed(client: httpx.AsyncClient) -> None:
    release = threading.Event()

    def wait(request: ScriptRequest) -> ScriptReply:
        release.wait(10)
        return say("late")

    async with ScriptedServer(wait) as server:
        asking = asyncio.create_task(ask(client, server, user("a"), stream=True))
        await asyncio.to_thread(server.wait_requests, 1)
        asking.cancel()
        await asyncio.to_thread(server.wait_aborted, 1)
        release.set()


async def test_a_client_that_hangs_up_in_the_middle_of_a_paced_stream_is_noticed(
    client: httpx.AsyncClient,
) -> None:
    async with ScriptedServer([say("word " * 5000, delay=0.002)]) as server:
        body = {"messages": [user("a")], "stream": True}
        async with client.stream("POST", server.base_url + "/chat/completions", json=body) as answer:
            async for _ in answer.aiter_bytes():
                break
        await asyncio.to_thread(server.wait_aborted, 1)


async def test_garbage_instead_of_http_closes_the_connection() -> None:
    async with ScriptedServer([say("x")]) as server:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(server.base_url.split(":")[2].split("/")[0])
        )
        writer.write(b"hello\r\n\r\n")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


def test_a_synchronous_test_has_the_server_in_a_thread() -> None:
    with serve_in_thread([say("hello")]) as server:
        url = server.base_url + "/chat/completions"
        answer = httpx.post(url, json={"messages": [user("a")]}, trust_env=False)
        server.wait_requests(1)
        assert answer.json()["choices"][0]["message"]["content"] == "hello" and len(server.requests) == 1
    with pytest.raises(httpx.ConnectError):
        httpx.post(url, json={}, trust_env=False)


def test_a_used_port_is_said_at_once() -> None:
    with serve_in_thread([say("x")]) as server:
        port = int(server.base_url.split(":")[2].split("/")[0])
        with pytest.raises(OSError), serve_in_thread([say("x")], port):
            pass


def test_half_a_character_is_no_text_for_a_strict_server() -> None:
    assert "half a surrogate pair" in (fault_of([user("half \ud83d")]) or "")
    assert fault_of([user("whole 😀")]) is None
