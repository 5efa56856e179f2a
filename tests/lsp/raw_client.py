"""A small raw LSP client over stdio: framing and JSON, no more, so that it can say what no client should.

    async with RawClient.spawn([sys.executable, "-m", "maestro_lsp", "--stdio"]) as client:
        await client.initialize(locale="ja")
        client.handlers["window/showMessageRequest"] = lambda params: {"title": "up"}
        result = await client.request("workspace/executeCommand", {...})
        note = await client.wait_for(lambda m: m.get("method") == "maestro/jobChanged")

A handler returns the result (or an awaitable of it), raises `RpcError` to answer with an error, or returns
`NO_ANSWER`.
Requests of the server without a handler are answered -32601. Everything received is kept in `messages`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Message = dict[str, Any]
Handler = Callable[[Any], Any]

NO_ANSWER = object()
"""Returned by a handler that leaves the request open; `RawClient.respond` may answer it later."""

DEADLINE = 10.0
"""Seconds that any wait takes at most, unless told otherwise."""


class RpcError(Exception):
    """An error response: the server's to us, or raised by a handler to answer the server with one."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{code} {message}")
        self.code = code
        self.message = message
        self.data = data


class ServerGone(Exception):
    """The server closed its output before it answered."""


class RawClient:
    """One server process and the conversation with it. Make it with `spawn`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.messages: list[Message] = []
        self.handlers: dict[str, Handler] = {}
        self._stderr = bytearray()
        self._ids = itertools.count(1)
        self._arrived = asyncio.Condition()
        self._reading = asyncio.Event()
        self._reading.set()
        self._ended = False
        self._tasks = {
            asyncio.create_task(self._read_messages()),
            asyncio.create_task(self._read_stderr()),
        }

    @classmethod
    @contextlib.asynccontextmanager
    async def spawn(
        cls,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> AsyncIterator[RawClient]:
        """A running server; ``env`` is added to ours. At the end it is killed if it still runs."""
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
        client = cls(process)
        try:
            yield client
        finally:
            await client._clean_up()

    # -- sending

    def send_bytes(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def send_body(self, body: bytes) -> None:
        """Write a body with its header."""
        self.send_bytes(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def send(self, message: object) -> None:
        """Write any JSON value as a message."""
        self.send_body(json.dumps(message).encode())

    def notify(self, method: str, params: object = None) -> None:
        """Send a notification; ``params`` of ``None`` are left out."""
        self.send(_with_params({"jsonrpc": "2.0", "method": method}, params))

    def send_request(self, method: str, params: object = None) -> int:
        """Send a request and return its id at once."""
        msg_id = next(self._ids)
        self.send(_with_params({"jsonrpc": "2.0", "id": msg_id, "method": method}, params))
        return msg_id

    def cancel(self, msg_id: int) -> None:
        """Ask the server to cancel a request."""
        self.notify("$/cancelRequest", {"id": msg_id})

    def respond(self, msg_id: object, result: object) -> None:
        """Answer a request of the server that a handler left open."""
        self.send({"jsonrpc": "2.0", "id": msg_id, "result": result})

    # -- receiving

    async def wait_for(
        self, wanted: Callable[[Message], bool], *, after: int = 0, within: float = DEADLINE
    ) -> Message:
        """The first message that is ``wanted``, of those received (from index ``after``) or to come.

        Raises TimeoutError, or `ServerGone` when nothing more can come.
        """
        position = after
        async with asyncio.timeout(within), self._arrived:
            while True:
                for message in self.messages[position:]:
                    if wanted(message):
                        return message
                position = max(after, len(self.messages))
                if self._ended:
                    raise ServerGone(self.stderr)
                await self._arrived.wait()

    async def response(self, msg_id: object, *, within: float = DEADLINE) -> Message:
        """The whole response to the request ``msg_id``."""
        return await self.wait_for(lambda m: "method" not in m and m.get("id") == msg_id, within=within)

    async def result(self, msg_id: object, *, within: float = DEADLINE) -> Any:
        """The result of the request ``msg_id``. Raises `RpcError`."""
        message = await self.response(msg_id, within=within)
        if "error" in message:
            error = message["error"]
            raise RpcError(error["code"], error["message"], error.get("data"))
        return message["result"]

    async def request(self, method: str, params: object = None, *, within: float = DEADLINE) -> Any:
        """Send a request and wait for its result. Raises `RpcError`."""
        return await self.result(self.send_request(method, params), within=within)

    async def command(self, name: str, *arguments: object, within: float = DEADLINE) -> Any:
        """``workspace/executeCommand``. Raises `RpcError`."""
        params = {"command": name, "arguments": list(arguments)}
        return await self.request("workspace/executeCommand", params, within=within)

    async def notification(self, method: str, *, after: int = 0, within: float = DEADLINE) -> Any:
        """The params of the first notification or request of the server called ``method``."""
        message = await self.wait_for(lambda m: m.get("method") == method, after=after, within=within)
        return message.get("params")

    def received(self, method: str) -> list[Any]:
        """The params of all messages of the server called ``method`` so far."""
        return [message.get("params") for message in self.messages if message.get("method") == method]

    # -- life

    async def initialize(self, capabilities: object = None, **params: object) -> Any:
        """``initialize`` and ``initialized``; returns the result. ``params`` go over the defaults."""
        defaults = {"processId": os.getpid(), "rootUri": None, "capabilities": capabilities or {}}
        result = await self.request("initialize", {**defaults, **params}, within=30.0)
        self.notify("initialized", {})
        return result

    async def shut_down(self, *, within: float = DEADLINE) -> int:
        """``shutdown`` and ``exit``; returns the exit status."""
        await self.request("shutdown", within=within)
        self.notify("exit")
        return await self.wait_closed(within=within)

    async def wait_closed(self, *, within: float = DEADLINE) -> int:
        """Wait until the process ended; its exit status, negative for a signal. `stderr` is complete then."""
        async with asyncio.timeout(within):
            self._reading.set()
            await asyncio.gather(*self._tasks)
            return await self.process.wait()

    async def wait_ended(self, *, within: float = DEADLINE) -> int:
        """As `wait_closed`, but the process alone counts: its output may lie unread."""
        async with asyncio.timeout(within):
            while self.process.returncode is None:  # noqa: ASYNC110 - asyncio's wait() waits for the pipes too
                await asyncio.sleep(0.01)
        return self.process.returncode

    def close_stdin(self) -> None:
        """What the server sees when the editor dies."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close_stdout(self) -> None:
        """Close our end of the server's output: its next write meets a broken pipe."""
        transport: Any = self.process._transport  # type: ignore[attr-defined]
        transport.get_pipe_transport(1).close()

    def stop_reading(self) -> None:
        """Leave the server's output in the pipe after the message that is being read."""
        self._reading.clear()

    def resume_reading(self) -> None:
        """Read again."""
        self._reading.set()

    def kill(self) -> None:
        """SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    @property
    def stderr(self) -> str:
        """What the server wrote to stderr so far."""
        return self._stderr.decode(errors="replace")

    # -- inside

    async def _read_messages(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                await self._reading.wait()
                message = await _read_message(self.process.stdout)
                async with self._arrived:
                    self.messages.append(message)
                    self._arrived.notify_all()
                if "method" in message and "id" in message:
                    self._start(self._answer(message))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self._ended = True
            async with self._arrived:
                self._arrived.notify_all()

    async def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(1 << 16):
            self._stderr += data

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: Message) -> None:
        handler = self.handlers.get(message["method"])
        try:
            if handler is None:
                raise RpcError(-32601, f"no handler for {message['method']}")
            result = handler(message.get("params"))
            if inspect.isawaitable(result):
                result = await result
        except RpcError as error:
            answer = {"code": error.code, "message": error.message, "data": error.data}
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": answer})
            return
        if result is not NO_ANSWER:
            self.respond(message["id"], result)

    async def _clean_up(self) -> None:
        self.kill()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.close_stdin()
        await self.process.wait()
        transport: Any = self.process._transport  # type: ignore[attr-defined]
        transport.close()


def _with_params(message: Message, params: object) -> Message:
    return message if params is None else {**message, "params": params}


async def _read_message(stream: asyncio.StreamReader) -> Message:
    """One message. Fails loudly on anything on the stream that is no LSP header."""
    length = None
    while (line := (await stream.readuntil(b"\n")).strip()) or length is None:
        name, colon, value = line.partition(b":")
        assert colon, f"not the protocol on stdout: {line[:200]!r}"
        if name.lower() == b"content-length":
            length = int(value)
    message = json.loads(await stream.readexactly(length))
    assert isinstance(message, dict), message
    return message
