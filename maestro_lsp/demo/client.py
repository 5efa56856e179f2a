"""A small LSP client over stdio: what an editor is to the language server, as far as the demo needs it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from engine import EngineError
from maestro_lsp.ground.framing import Frame, FrameParser, frame
from maestro_lsp.ground.rpc import Notification, Request, Response, decode

_ANSWER_S = 30.0
_END_S = 8.0
_CHUNK = 64 * 1024

Incoming = Notification | Request | None
"""What the server sends of its own accord; None once it has gone."""


class LspError(EngineError):
    """The server answered a request with an error, or not at all."""


class LspClient:
    """One server process and the conversation with it; made by ``start``.

    ``incoming`` holds the server's notifications and requests in the order in which they came.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.incoming: asyncio.Queue[Incoming] = asyncio.Queue()
        self._ids = itertools.count(1)
        self._waiting: dict[object, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read(), name="lsp client")

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, argv: Sequence[str], env: Mapping[str, str], log: Path) -> AsyncIterator[Self]:
        """A running server, its stderr in ``log``. At the end it is shut down, or killed if it stays."""
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                env=dict(env),
                # Ctrl-C is for the demo alone, which then ends the server in order.
                start_new_session=True,
            )
        client = cls(process)
        try:
            yield client
        finally:
            await client._end()

    async def request(self, method: str, params: object = None) -> Any:
        """The result of a request. Raises ``LspError``."""
        number = next(self._ids)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, "method": method, **({} if params is None else {"params": params})})
            return await asyncio.wait_for(waiting, _ANSWER_S)
        except TimeoutError:
            raise LspError("demo.no_answer", method=method, seconds=round(_ANSWER_S)) from None
        finally:
            self._waiting.pop(number, None)

    async def command(self, name: str, **params: object) -> Any:
        """The result of a command (``workspace/executeCommand``). Raises ``LspError``."""
        return await self.request("workspace/executeCommand", {"command": name, "arguments": [params]})

    def notify(self, method: str, params: object = None) -> None:
        """Send a notification."""
        self._send({"method": method, **({} if params is None else {"params": params})})

    def answer(self, request: Request, result: object) -> None:
        """Answer a request of the server."""
        self._send({"id": request.id, "result": result})

    def refuse(self, request: Request) -> None:
        """Answer a request of the server that this client does not know."""
        self._send({"id": request.id, "error": {"code": -32601, "message": f"unknown: {request.method}"}})

    def _send(self, message: Mapping[str, object]) -> None:
        stdin = self.process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(frame(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode()))

    async def _read(self) -> None:
        parser = FrameParser()
        assert self.process.stdout is not None
        try:
            while data := await self.process.stdout.read(_CHUNK):
                for item in parser.feed(data):
                    if isinstance(item, Frame):
                        self._take(item.body)
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(LspError("demo.server_gone"))
            self.incoming.put_nowait(None)

    def _take(self, body: bytes) -> None:
        match decode(body):
            case Notification() | Request() as message:
                self.incoming.put_nowait(message)
            case Response(id=number, result=result, fault=fault):
                waiting = self._waiting.get(number)
                if waiting is None or waiting.done():
                    return
                if fault is None:
                    waiting.set_result(result)
                else:
                    waiting.set_exception(LspError("demo.server_error", message=fault.message))

    async def _end(self) -> None:
        """``shutdown`` and ``exit``, then the end of the input; what is still there after that is killed."""
        with contextlib.suppress(LspError, ConnectionError, TimeoutError):
            async with asyncio.timeout(_END_S):
                await self.request("shutdown")
                self.notify("exit")
                await self.process.wait()
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
