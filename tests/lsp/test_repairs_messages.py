"""Every request is answered; what is wrong with a message never pops up, and its content gets into no log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from maestro_lsp.ground.framing import MAX_BODY
from tests.lsp.raw_client import RawClient, RpcError, ServerGone
from tests.lsp.tiny import POSITION, tiny

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[RawClient]:
    """One server for the whole module: nothing here may break it, and the last line proves it."""
    async with tiny("--log-level", "DEBUG") as client:
        await client.initialize(initializationOptions={"key": "secret-in-payload"})
        yield client
        assert await client.command("tiny.echo", "alive")
        assert not client.received("window/showMessage")
        assert await client.shut_down() == 0
        assert "secret-in-payload" not in client.stderr


async def next_error(client: RawClient, after: int) -> Any:
    message = await client.wait_for(lambda m: "error" in m, after=after)
    assert "traceback" not in json.dumps(message).lower()
    return message["id"], message["error"]["code"]


HEAD = {"jsonrpc": "2.0", "id": 7007}


@pytest.mark.parametrize(
    ("body", "msg_id", "code"),
    [
        (b"", None, -32700),
        (b"{", None, -32700),
        (b'{"a": "secret-in-payload\xff"}', None, -32700),
        (b"[" * 100_000, None, -32700),
        (b'{"a":' + b"9" * 10_000 + b"}", None, -32700),
        (b"[]", None, -32600),
        (json.dumps([{**HEAD, "method": "shutdown"}]).encode(), None, -32600),
        (b"1", None, -32600),
        (b"null", None, -32600),
        (b'"x"', None, -32600),
        (b"{}", None, -32600),
        (b'{"id": 7007, "method": "shutdown"}', 7007, -32600),
        (b'{"jsonrpc": "1.0", "id": 7007, "method": "shutdown"}', 7007, -32600),
        (json.dumps({**HEAD, "method": 5}).encode(), 7007, -32600),
        (json.dumps({**HEAD, "id": None, "method": "shutdown"}).encode(), None, -32600),
        (json.dumps({**HEAD, "id": 1.5, "method": "shutdown"}).encode(), None, -32600),
        (json.dumps({**HEAD, "id": True, "method": "shutdown"}).encode(), None, -32600),
        (json.dumps({**HEAD, "id": {}, "method": "shutdown"}).encode(), None, -32600),
        (json.dumps(HEAD).encode(), None, -32600),
        (json.dumps({**HEAD, "method": "tiny/raw", "params": "scalar"}).encode(), 7007, -32602),
        (json.dumps({**HEAD, "method": "no/such"}).encode(), 7007, -32601),
        (json.dumps({**HEAD, "method": "$/no"}).encode(), 7007, -32601),
        (json.dumps({**HEAD, "method": "initialize", "params": {"capabilities": {}}}).encode(), 7007, -32600),
    ],
)
async def test_what_is_no_request_is_answered_by_its_code(
    client: RawClient, body: bytes, msg_id: Any, code: int
) -> None:
    seen = len(client.messages)
    client.send_body(body)
    assert await next_error(client, seen) == (msg_id, code)


@pytest.mark.parametrize(
    ("params", "path"),
    [
        (None, "params.textDocument"),
        ([], "params.textDocument"),
        ({"position": POSITION["position"]}, "params.textDocument"),
        ({**POSITION, "position": {"line": 1}}, "params.position.character"),
        ({**POSITION, "position": {"line": -1, "character": 0}}, "params.position"),
        ({**POSITION, "position": "secret-in-payload"}, "params.position.line"),
    ],
)
async def test_wrong_params_are_answered_with_the_path_of_the_fault(
    client: RawClient, params: Any, path: str
) -> None:
    with pytest.raises(RpcError) as caught:
        await client.request("textDocument/hover", params)
    assert caught.value.code == -32602
    assert caught.value.data == {"path": path}
    assert "secret" not in caught.value.message


async def test_params_of_unknown_methods_come_as_plain_json(client: RawClient) -> None:
    params = {"from": 1, "1bad": None, "type_name": "T", "nested": {"jsonrpc": "2.0", "id": 3, "method": "m"}}
    assert await client.request("tiny/raw", params) == {"type": "dict", "params": params}
    assert await client.request("tiny/raw", [1, {"jsonrpc": "2.0"}]) == {
        "type": "list",
        "params": [1, {"jsonrpc": "2.0"}],
    }
    assert await client.request("tiny/raw") == {"type": "NoneType", "params": None}


async def test_half_a_surrogate_pair_goes_there_and_back(client: RawClient) -> None:
    assert await client.request("tiny/raw", {"text": "\udc00 日本語 𝄞"}) == {
        "type": "dict",
        "params": {"text": "\udc00 日本語 𝄞"},
    }


async def test_bad_and_unknown_notifications_are_ignored_without_a_word_to_the_person(
    client: RawClient,
) -> None:
    seen = len(client.messages)
    client.notify("textDocument/didSave", {"textDocument": "secret-in-payload"})
    client.notify("textDocument/didSave", {"textDocument": {"uri": "file:///a"}})  # its handler raises
    client.notify("no/such", {"x": "secret-in-payload"})
    client.notify("$/cancelRequest", {"id": {"odd": 1}})
    client.notify("$/cancelRequest", {"id": 4711})
    client.notify("$/cancelRequest")
    client.notify("window/workDoneProgress/cancel", {"token": "unknown"})
    assert await client.request("tiny/raw", {}) == {"type": "dict", "params": {}}
    assert client.messages[seen + 1 :] == []


async def test_changes_of_unopened_and_odd_documents_reach_our_handler_and_nobody_else(
    client: RawClient,
) -> None:
    seen = len(client.messages)
    for texts in (["a\x0cb\u2028c\x85"], ["x", "y"]):
        changes = [{"text": text} for text in texts]
        client.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": "file:///unopened", "version": 2}, "contentChanges": changes},
        )
        assert await client.notification("tiny/changed", after=seen) == {"texts": texts}
        seen = len(client.messages)
    client.notify("textDocument/didClose", {"textDocument": {"uri": "file:///unopened"}})
    client.notify(
        "notebookDocument/didChange", {"notebookDocument": {"uri": "x:y", "version": 1}, "change": {}}
    )
    assert await client.command("tiny.echo") == {"arguments": [], "types": []}
    assert len(client.messages) == seen + 1


async def test_unknown_values_of_enums_do_not_break_a_message(client: RawClient) -> None:
    result = await client.request(
        "textDocument/hover", {**POSITION, "workDoneToken": 1, "unknownMember": {"jsonrpc": "2.0"}}
    )
    assert result["contents"] == {"kind": "markdown", "value": "line 3"}
    client.notify("$/setTrace", {"value": "compact"})
    assert await client.command("tiny.echo") == {"arguments": [], "types": []}


async def test_answers_that_nobody_waits_for_are_dropped(client: RawClient) -> None:
    seen = len(client.messages)
    running = client.send_request(
        "workspace/executeCommand", {"command": "tiny.ask", "arguments": ["tiny/never", None, 0.3]}
    )
    for msg_id in ("s9999", 9999, running, None):
        client.send({"jsonrpc": "2.0", "id": msg_id, "result": {"forged": True}})
        client.send({"jsonrpc": "2.0", "id": msg_id, "error": {"code": 1, "message": "forged"}})
        client.send({"jsonrpc": "2.0", "id": msg_id, "error": "odd", "result": None})
    assert (await client.response(running))["error"]["code"] in (-32603, 5001)
    assert all(
        message.get("id") in (running, None) or "method" in message for message in client.messages[seen:]
    )


async def test_a_message_above_the_cap_is_skipped_and_answered(client: RawClient) -> None:
    seen = len(client.messages)
    client.send_body(b" " * (MAX_BODY + 1))
    assert await next_error(client, seen) == (None, -32600)
    assert await client.command("tiny.echo") == {"arguments": [], "types": []}


async def test_shutdown_takes_any_params_and_requests_after_it_are_refused() -> None:
    async with tiny() as client:
        await client.initialize()
        assert await client.request("shutdown", {}) is None
        with pytest.raises(RpcError) as caught:
            await client.request("textDocument/hover", POSITION)
        assert caught.value.code == -32600


async def test_before_initialize_requests_are_refused_and_notifications_dropped() -> None:
    async with tiny() as client:
        client.notify("workspace/didChangeConfiguration", {"settings": {"early": 1}})
        for method in ("textDocument/hover", "shutdown", "no/such"):
            with pytest.raises(RpcError) as caught:
                await client.request(method, POSITION)
            assert caught.value.code == -32002
        await client.initialize()
        client.notify("workspace/didChangeConfiguration", {"settings": {"late": 1}})
        assert await client.notification("tiny/configured") == {"late": 1}


ODD_CAPABILITIES = {
    "workspace": {
        "workspaceEdit": {"resourceOperations": ["create", "teleport"], "failureHandling": "pray"},
        "symbol": {"symbolKind": {"valueSet": [1, 999]}, "tagSupport": {"valueSet": [1, 99]}},
    },
    "textDocument": {
        "hover": {"contentFormat": ["asciidoc", "markdown"]},
        "publishDiagnostics": {"tagSupport": {"valueSet": [1, 2, 77]}},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "x.y"]}},
            "tagSupport": {"valueSet": [1, 42]},
        },
        "completion": {
            "completionItem": {
                "insertTextModeSupport": {"valueSet": [1, 9]},
                "tagSupport": {"valueSet": [8]},
            }
        },
        "semanticTokens": {
            "requests": {},
            "tokenTypes": ["odd"],
            "tokenModifiers": ["odd"],
            "formats": ["relative", "absolute"],
        },
    },
    "general": {"positionEncodings": ["utf-7", "utf-16"]},
    "unknownFutureCapability": {"a": 1},
}


async def test_a_client_of_the_future_gets_its_initialize_answer_with_our_hooks() -> None:
    async with tiny() as client:
        result = await client.initialize(ODD_CAPABILITIES, trace="compact", locale="ja")
        assert result["capabilities"]["experimental"] == {"maestro": {"protocol": 1}}
        assert result["serverInfo"] == {"name": "tiny", "version": "1.2.3"}
        assert "tiny.echo" in result["capabilities"]["executeCommandProvider"]["commands"]
        assert result["capabilities"]["textDocumentSync"]["change"] == 2
        assert result["capabilities"]["positionEncoding"] == "utf-16"


async def test_an_initialize_that_does_not_fit_is_answered_and_may_be_sent_again() -> None:
    async with tiny() as client:
        with pytest.raises(RpcError) as caught:
            await client.request("initialize", {"processId": None})
        assert (caught.value.code, caught.value.data) == (-32602, {"path": "params.capabilities"})
        assert await client.initialize()


@pytest.mark.parametrize(
    ("garbage", "said"),
    [
        (b"hello\r\n", "no colon"),
        (b"Content-Length: -5\r\n\r\n{}", "not a number"),
        (b"Content-Length: 100000000000\r\n\r\n", "100000000000 bytes"),
        (b"X" * 10_000, "longer than"),
    ],
)
async def test_broken_framing_ends_the_process_with_a_sentence_in_the_log(garbage: bytes, said: str) -> None:
    async with tiny() as client:
        await client.initialize()
        client.send_bytes(garbage)
        assert await client.wait_closed(within=2.0) == 1
        assert said in client.stderr
        with pytest.raises(ServerGone):
            await client.request("shutdown")
