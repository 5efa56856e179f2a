"""Commands: arguments as sent, real tasks, every outcome a response."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lsp.raw_client import RpcError
from tests.lsp.tiny import POSITION, content, tiny, until


async def test_arguments_arrive_exactly_as_sent() -> None:
    table: list[list[Any]] = [
        [],
        [None],
        [{"a": None, "b": "false", "from": [1, 2.5, True], "jsonrpc": "2.0", "id": 1, "method": "x"}],
        ["1", 1, False, {"nested": {"jsonrpc": "2.0", "result": []}}],
    ]
    async with tiny() as client:
        await client.initialize()
        for arguments in table:
            result = await client.command("tiny.echo", *arguments)
            assert result["arguments"] == arguments
            assert result["types"] == [type(argument).__name__ for argument in arguments]


async def test_every_outcome_of_a_command_is_a_response_without_a_traceback() -> None:
    async with tiny() as client:
        await client.initialize()
        outcomes: list[tuple[Any, Any]] = [
            ({"command": "tiny.refuse"}, (4002, "not now", {"status": "done"})),
            ({"command": "tiny.crash"}, (-32603, "something failed inside", None)),
            *(
                (
                    {"command": "tiny.unwritable", "arguments": [kind]},
                    (-32603, "something failed inside", None),
                )
                for kind in ("datetime", "set", "nan", "object")
            ),
            ({"command": "tiny.echo", "arguments": {}}, (-32602, None, {"path": "params.arguments"})),
            ({"command": "tiny.echo", "arguments": "x"}, (-32602, None, {"path": "params.arguments"})),
        ]
        for params, (code, message, data) in outcomes:
            with pytest.raises(RpcError) as caught:
                await client.request("workspace/executeCommand", params)
            assert (caught.value.code, caught.value.data) == (code, data), params
            assert message in (None, caught.value.message)
        for params in ({"command": "no.such"}, {"command": None}, {"command": ["tiny.echo"]}, {}, [], None):
            with pytest.raises(RpcError) as caught:
                await client.request("workspace/executeCommand", params)
            assert caught.value.code == -32602
            assert caught.value.data["path"] == "params.command"
        assert await client.request("workspace/executeCommand", {"command": "tiny.echo", "arguments": None})
        assert not client.received("window/showMessage")


async def test_a_cancelled_command_is_answered_and_really_cancelled(tmp_path: Path) -> None:
    async with tiny() as client:
        await client.initialize()
        path = tmp_path / "sleep"
        msg_id = client.send_request(
            "workspace/executeCommand", {"command": "tiny.sleep", "arguments": [str(path)]}
        )
        await until(lambda: content(path) == "started")
        client.cancel(msg_id)
        assert (await client.response(msg_id))["error"]["code"] == -32800
        assert content(path) == "cancelled"


async def test_shutdown_with_commands_in_flight_answers_all_and_ends_with_0(tmp_path: Path) -> None:
    async with tiny() as client:
        await client.initialize()
        paths = [tmp_path / str(number) for number in range(5)]
        running = [
            client.send_request(
                "workspace/executeCommand", {"command": "tiny.sleep", "arguments": [str(path)]}
            )
            for path in paths
        ]
        asked = client.send_request(
            "workspace/executeCommand", {"command": "tiny.ask", "arguments": ["x/never"]}
        )
        client.handlers["x/never"] = lambda _params: (
            __import__("tests.lsp.raw_client").lsp.raw_client.NO_ANSWER
        )
        await until(lambda: all(content(path) == "started" for path in paths) and client.received("x/never"))
        assert await client.request("shutdown") is None
        codes = [(await client.response(msg_id))["error"]["code"] for msg_id in (*running, asked)]
        assert set(codes) <= {-32800, 5002}
        assert [content(path) for path in paths] == ["cancelled"] * 5
        client.notify("exit")
        assert await client.wait_closed(within=2.0) == 0


async def test_nothing_piles_up_per_notification_command_or_request() -> None:
    async with tiny() as client:
        client.handlers["window/workDoneProgress/create"] = lambda _params: None
        await client.initialize()
        for version in range(100):
            change = {
                "textDocument": {"uri": "file:///a", "version": version},
                "contentChanges": [{"text": "x"}],
            }
            client.notify("textDocument/didChange", change)
            client.notify("textDocument/didSave", {"textDocument": {"uri": "file:///a"}})
            client.notify("$/cancelRequest", {"id": version})
        for _ in range(20):
            await client.command("tiny.echo")
            await client.request("textDocument/hover", POSITION)
            with pytest.raises(RpcError):
                await client.command("tiny.ask", "x/unknown")
            with pytest.raises(RpcError):
                await client.command("tiny.ask", "window/showMessageRequest", None, 0.0)
        sizes = await client.command("tiny.sizes")
        assert sizes == {"futures": 1, "incoming": 1, "open": 0, "result_types": 0}  # the command itself


async def test_a_progress_token_is_free_again_after_its_end() -> None:
    async with tiny() as client:
        client.handlers["window/workDoneProgress/create"] = lambda _params: None
        await client.initialize()
        assert await client.command("tiny.progress") == {"tokens": 0}
        kinds = [params["value"]["kind"] for params in client.received("$/progress")]
        assert kinds == ["begin", "end", "begin", "end"]
