"""Private pipes, and every way to the end: the status of LSP, the cleanup hook run, within two seconds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from maestro_lsp.ground.framing import frame
from tests.lsp.raw_client import RawClient
from tests.lsp.tiny import content, tiny, until

pytestmark = pytest.mark.slow

PROMPTLY = 2.5
"""Two seconds, and what a busy machine may add."""


async def test_neither_prints_nor_children_touch_the_protocol() -> None:
    async with tiny() as client:
        await client.initialize()
        client.notify("workspace/didChangeConfiguration", {"settings": 1})
        assert await client.command("tiny.spoil") == {"seen": "''"}
        assert await client.command("tiny.echo", 1) == {"arguments": [1], "types": ["int"]}
        assert await client.shut_down() == 0
        for text in ("print", "write to fd 1", "child"):
            assert text in client.stderr


@pytest.mark.parametrize(("shut_down", "status"), [(True, 0), (False, 1)])
async def test_exit_has_the_status_of_the_specification(shut_down: bool, status: int, tmp_path: Path) -> None:
    async with tiny("--stopped", tmp_path / "stopped") as client:
        await client.initialize()
        if shut_down:
            await client.request("shutdown")
        client.notify("exit", {})
        assert await client.wait_closed(within=PROMPTLY) == status
        assert content(tmp_path / "stopped") == "stopped"


async def test_exit_before_initialize_ends_too() -> None:
    async with tiny() as client:
        client.notify("exit")
        assert await client.wait_closed(within=PROMPTLY + 5) == 1  # the interpreter starts within it


ENDS: dict[str, Callable[[RawClient], None]] = {
    "end of stdin": RawClient.close_stdin,
    "SIGTERM": lambda client: client.process.send_signal(signal.SIGTERM),
    "SIGINT": lambda client: client.process.send_signal(signal.SIGINT),
    "SIGHUP": lambda client: client.process.send_signal(signal.SIGHUP),
}


@pytest.mark.parametrize("end", ENDS)
async def test_other_ends_run_the_cleanup_and_cancel_what_runs(end: str, tmp_path: Path) -> None:
    async with tiny("--stopped", tmp_path / "stopped") as client:
        await client.initialize()
        client.send_request(
            "workspace/executeCommand", {"command": "tiny.sleep", "arguments": [str(tmp_path / "a")]}
        )
        await until(lambda: content(tmp_path / "a") == "started")
        ENDS[end](client)
        assert await client.wait_closed(within=PROMPTLY) == 1
        assert content(tmp_path / "stopped") == "stopped"
        assert content(tmp_path / "a") == "cancelled"


@pytest.mark.parametrize("end", ["end of stdin", "SIGTERM"])
async def test_a_blocked_loop_does_not_outlive_its_client(end: str, tmp_path: Path) -> None:
    async with tiny() as client:
        await client.initialize()
        client.send_request(
            "workspace/executeCommand", {"command": "tiny.block", "arguments": [str(tmp_path / "a")]}
        )
        await until(lambda: content(tmp_path / "a") == "blocking")
        ENDS[end](client)
        assert await client.wait_closed(within=PROMPTLY) == 1


@pytest.mark.parametrize(
    "options", [["--hang-at-exit"], ["--slow-stop", "30"]], ids=["a hanging atexit", "a hanging cleanup"]
)
async def test_nothing_that_hangs_at_the_end_keeps_the_process(options: list[str]) -> None:
    async with tiny(*options) as client:
        await client.initialize()
        await client.command("tiny.block_pool")
        await client.request("shutdown")
        client.close_stdin()
        assert await client.wait_closed(within=PROMPTLY) == 0


@pytest.mark.parametrize("options", [[], ["--no-pidfd"]], ids=["by pidfd", "by polling"])
async def test_the_death_of_the_clients_process_ends_the_server(options: list[str], tmp_path: Path) -> None:
    editor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        async with tiny("--stopped", tmp_path / "stopped", *options) as client:
            await client.initialize(processId=editor.pid)
            assert await client.command("tiny.echo")
            editor.kill()
            await asyncio.to_thread(editor.wait)
            assert await client.wait_closed(within=PROMPTLY + 1) == 1
            assert content(tmp_path / "stopped") == "stopped"
    finally:
        editor.kill()
        editor.communicate()


async def test_process_ids_that_are_nobody_here_are_not_watched() -> None:
    async with contextlib.AsyncExitStack() as stack:
        pids = (None, 0, -1, 2**31 - 1)
        clients = [await stack.enter_async_context(tiny("--no-pidfd")) for _ in pids]
        for client, pid in zip(clients, pids, strict=True):
            await client.initialize(processId=pid)
        started = time.monotonic()
        while time.monotonic() < started + 1.2:  # one turn of the poll
            for client in clients:
                await client.command("tiny.echo")
            await asyncio.sleep(0.05)


async def test_a_broken_pipe_ends_the_server_quietly() -> None:
    async with tiny("--log-level", "ERROR") as client:
        await client.initialize()
        noise = client.stderr
        client.close_stdout()
        client.notify("workspace/didChangeConfiguration", {"settings": 1})
        assert await client.wait_ended(within=PROMPTLY) == 1
        assert "BrokenPipe" not in client.stderr + noise


async def test_a_client_that_does_not_read_blocks_neither_the_loop_nor_the_end(tmp_path: Path) -> None:
    async with tiny("--stopped", tmp_path / "stopped") as client:
        await client.initialize()
        client.stop_reading()
        client.send_request("workspace/executeCommand", {"command": "tiny.flood", "arguments": [20, 1 << 20]})
        client.send_request(
            "workspace/executeCommand", {"command": "tiny.touch", "arguments": [str(tmp_path / "a")]}
        )
        await until(lambda: content(tmp_path / "a") == "touched")
        client.close_stdin()
        assert await client.wait_ended(within=PROMPTLY) == 1
        assert content(tmp_path / "stopped") == "stopped"


async def test_a_client_that_reads_late_gets_all_in_order() -> None:
    async with tiny() as client:
        await client.initialize()
        client.stop_reading()
        msg_id = client.send_request(
            "workspace/executeCommand", {"command": "tiny.flood", "arguments": [30, 1 << 20]}
        )
        client.resume_reading()
        await client.response(msg_id)
        assert [params["number"] for params in client.received("tiny/flood")] == list(range(30))


async def test_a_client_that_never_reads_is_given_up_before_memory_is_full() -> None:
    async with tiny() as client:
        await client.initialize()
        client.stop_reading()
        client.send_request("workspace/executeCommand", {"command": "tiny.flood", "arguments": [90, 1 << 20]})
        assert await client.wait_ended() == 1
        await until(lambda: "counts as gone" in client.stderr)


async def test_shutdown_and_exit_sent_in_one_go_before_the_end_of_stdin_give_0() -> None:
    async with tiny() as client:
        await client.initialize()
        client.send({"jsonrpc": "2.0", "id": "bye", "method": "shutdown"})
        client.notify("exit")
        client.close_stdin()
        assert await client.wait_closed(within=PROMPTLY) == 0
        assert {"jsonrpc": "2.0", "id": "bye", "result": None} in client.messages


async def test_a_half_message_at_the_end_of_stdin_is_told_to_the_log() -> None:
    async with tiny() as client:
        await client.initialize()
        client.send_bytes(b"Content-Length: 100\r\n\r\n{")
        client.close_stdin()
        assert await client.wait_closed(within=PROMPTLY) == 1
        assert "middle of a message" in client.stderr


async def test_a_pipe_left_non_blocking_by_the_parent_is_no_trouble() -> None:
    """Our end of the pipe may come with O_NONBLOCK set by a parent that shares it."""
    into, out_of = os.pipe(), os.pipe()
    for fd in (into[0], out_of[1]):
        os.set_blocking(fd, False)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.lsp.tiny_server",
        stdin=into[0],
        stdout=out_of[1],
        cwd=Path(__file__).parents[2],
    )
    os.close(into[0])
    os.close(out_of[1])
    try:
        for _ in range(2):  # the second finds the pipe empty first
            os.write(into[1], frame(b'{"jsonrpc":"2.0","id":1,"method":"shutdown"}'))
            answer = await asyncio.wait_for(asyncio.to_thread(os.read, out_of[0], 4096), 10.0)
            assert b"-32002" in answer
        os.close(into[1])
        assert await asyncio.wait_for(process.wait(), PROMPTLY) == 1
    finally:
        os.close(out_of[0])
        if process.returncode is None:
            process.kill()
            await process.wait()
