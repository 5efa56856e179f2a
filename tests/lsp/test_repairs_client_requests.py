"""Our requests to the client: plain JSON, typed errors, and no answer that can hang or hurt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from maestro_lsp.repairs import RepairedServer
from tests.lsp.raw_client import NO_ANSWER, RawClient, RpcError
from tests.lsp.tiny import tiny

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[RawClient]:
    """One server for the whole module."""
    async with tiny() as client:
        await client.initialize()
        yield client
        assert await client.shut_down() == 0


async def open_question(client: RawClient, method: str) -> tuple[int, Any]:
    """Have the server ask and leave it open: the id of the command, and of the server's request."""
    client.handlers[method] = lambda _params: NO_ANSWER
    seen = len(client.messages)
    msg_id = client.send_request("workspace/executeCommand", {"command": "tiny.ask", "arguments": [method]})
    asked = await client.wait_for(lambda m: m.get("method") == method, after=seen)
    return msg_id, asked["id"]


async def test_params_and_answers_are_plain_json_whatever_they_hold(client: RawClient) -> None:
    params = {"from": 1, "nested": {"jsonrpc": "2.0", "id": 1, "method": "x"}, "日本": None}
    client.handlers["maestro/input"] = lambda received: {"same": received == params, "got": received}
    answer = await client.command("tiny.ask", "maestro/input", params)
    assert answer == {"answer": {"same": True, "got": params}}


async def test_errors_of_the_client_are_typed(client: RawClient) -> None:
    def refuse(_params: Any) -> None:
        raise RpcError(-32000, "no", {"why": "because"})

    client.handlers["x/refused"] = refuse
    for method, code, data in (
        ("x/unknown", 5001, None),
        ("x/refused", 5003, {"code": -32000, "data": {"why": "because"}}),
    ):
        with pytest.raises(RpcError) as caught:
            await client.command("tiny.ask", method)
        assert (caught.value.code, caught.value.data) == (code, data)


@pytest.mark.parametrize("error", [None, "odd", {}, {"code": "x", "message": 5}, []])
async def test_an_error_answer_of_odd_shape_is_an_error_and_null_is_none(
    client: RawClient, error: Any
) -> None:
    msg_id, question = await open_question(client, "x/odd")
    client.send({"jsonrpc": "2.0", "id": question, "error": error, "result": 5})
    response = await client.response(msg_id)
    if error is None:
        assert response["result"] == {"answer": 5}
    else:
        assert response["error"]["code"] == 5003


@pytest.mark.parametrize(
    ("answer", "understood"),
    [
        ({"title": "up"}, "up"),
        ({"title": "up", "extra": {"jsonrpc": "2.0"}}, "up"),
        (None, None),
        ({}, None),
        ({"title": None}, None),
        ({"title": 5}, None),
        ("up", None),
        (["up"], None),
        (False, None),
    ],
)
async def test_an_answer_of_odd_shape_to_a_question_is_no_answer(
    client: RawClient, answer: Any, understood: str | None
) -> None:
    client.handlers["window/showMessageRequest"] = lambda _params: answer
    assert await client.command("tiny.ask_typed") == {"answer": understood}
    raw = await client.command(
        "tiny.ask", "window/showMessageRequest", {"type": 3, "message": "?", "actions": []}
    )
    assert raw == {"answer": answer}


async def test_a_question_given_up_is_cancelled_at_the_client_and_its_late_answer_dropped(
    client: RawClient,
) -> None:
    client.handlers["window/showMessageRequest"] = lambda _params: NO_ANSWER
    seen = len(client.messages)
    question = {"type": 3, "message": "?", "actions": [{"title": "up"}]}
    with pytest.raises(RpcError):
        await client.command("tiny.ask", "window/showMessageRequest", question, 0.05)
    asked = await client.wait_for(lambda m: m.get("method") == "window/showMessageRequest", after=seen)
    assert await client.notification("$/cancelRequest", after=seen) == {"id": asked["id"]}
    seen, log = len(client.messages), client.stderr
    client.respond(asked["id"], {"title": "up"})
    client.respond(asked["id"], {"title": "up"})
    sizes = await client.command("tiny.sizes")
    assert sizes == {"futures": 1, "incoming": 1, "open": 0, "result_types": 0}
    assert len(client.messages) == seen + 1
    assert client.stderr == log


async def test_a_command_cancelled_while_it_asks_cancels_its_question(client: RawClient) -> None:
    seen = len(client.messages)
    msg_id, question = await open_question(client, "x/ask")
    client.cancel(msg_id)
    assert (await client.response(msg_id))["error"]["code"] == -32800
    assert await client.notification("$/cancelRequest", after=seen) == {"id": question}


async def test_the_client_cannot_cancel_our_request_by_its_id(client: RawClient) -> None:
    msg_id, question = await open_question(client, "x/ask")
    client.notify("$/cancelRequest", {"id": question})
    client.respond(question, "still answered")
    assert await client.result(msg_id) == {"answer": "still answered"}


async def test_a_request_whose_params_are_no_json_fails_and_leaves_nothing_behind() -> None:
    server = RepairedServer("x", "0")
    with pytest.raises(TypeError):
        await server.client_request("x/y", {"set": {1}})
    with pytest.raises(ValueError, match="Out of range float"):
        server.client_notify("x/y", {"nan": float("nan")})
    assert len(server.protocol.open_requests) == 0
