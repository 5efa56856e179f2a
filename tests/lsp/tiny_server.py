"""A small server on the repaired classes: the fixture of the tests of the protocol ground.

Its commands do one odd thing each. Effects that a test must see while stdout is not read go to files.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import datetime
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from lsprotocol import types

from maestro_lsp.ground.rpc import ClientError, ClientGone, ClientMethodNotFound
from maestro_lsp.repairs import RepairedServer
from maestro_lsp.stdio import serve_stdio

server = RepairedServer("tiny", "1.2.3", experimental={"maestro": {"protocol": 1}})
asking: set[asyncio.Task[None]] = set()


class Refusal(Exception):
    """A mistake that ``to_rpc_error`` knows."""


def to_rpc_error(error: Exception) -> tuple[int, str, object]:
    """Known mistakes by their own code; everything else as one sentence."""
    match error:
        case Refusal():
            return 4002, str(error), {"status": "done"}
        case ClientMethodNotFound():
            return 5001, "the client does not know the method", None
        case ClientGone():
            return 5002, "the client is gone", None
        case ClientError(code=code, data=data):
            return 5003, "the client refused", {"code": code, "data": data}
        case _:
            return -32603, "something failed inside", None


async def echo(arguments: list[object]) -> object:
    return {"arguments": arguments, "types": [type(argument).__name__ for argument in arguments]}


async def refuse(arguments: list[object]) -> object:
    raise Refusal("not now")


async def crash(arguments: list[object]) -> object:
    raise RuntimeError("secret-in-exception")


async def unwritable(arguments: list[object]) -> object:
    return {
        "datetime": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        "set": {1},
        "nan": float("nan"),
        "object": object(),
    }[str(arguments[0])]


async def sleep(arguments: list[object]) -> object:
    """Sleep until cancelled; write to the file given what happened."""
    path = Path(str(arguments[0]))
    path.write_text("started")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        path.write_text("cancelled")
        raise
    path.write_text("ran to its end")
    return None


async def block(arguments: list[object]) -> object:
    """Block the event loop."""
    Path(str(arguments[0])).write_text("blocking")
    time.sleep(30)  # noqa: ASYNC251 - the point of it
    return None


async def block_pool(arguments: list[object]) -> object:
    """Leave a thread of the default executor busy."""
    threading.Thread(target=time.sleep, args=(30,)).start()
    asking.add(asyncio.create_task(asyncio.to_thread(time.sleep, 30)))
    return None


async def touch(arguments: list[object]) -> object:
    Path(str(arguments[0])).write_text("touched")
    return None


async def spoil(arguments: list[object]) -> object:
    """All that could get into the protocol by mistake; returns what a child finds on stdin."""
    print("print")
    os.write(1, b"write to fd 1\n")
    script = "import sys; print('child', flush=True); sys.stderr.write(repr(sys.stdin.read()))"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stderr=subprocess.PIPE)
    _, seen = await child.communicate()
    return {"seen": seen.decode()}


async def flood(arguments: list[object]) -> object:
    """``[count, bytes]`` notifications at once."""
    count, size = (int(str(argument)) for argument in arguments)
    for number in range(count):
        server.client_notify("tiny/flood", {"number": number, "text": "x" * size})
    return None


async def ask(arguments: list[object]) -> object:
    """``[method, params, seconds]``: a raw request to the client."""
    method, params, seconds = (*arguments, None, None)[:3]
    assert isinstance(method, str)
    async with asyncio.timeout(seconds if isinstance(seconds, int | float) else None):
        return {"answer": await server.client_request(method, params)}


async def ask_typed(arguments: list[object]) -> object:
    """``showMessageRequest`` by pygls's own sender."""
    params = types.ShowMessageRequestParams(types.MessageType.Info, "?", [types.MessageActionItem("up")])
    item = await server.window_show_message_request_async(params)
    return {"answer": None if item is None else item.title}


async def progress(arguments: list[object]) -> object:
    """The same token twice, by pygls's own senders."""
    for _ in range(2):
        await server.work_done_progress.create_async("token")
        server.work_done_progress.begin("token", types.WorkDoneProgressBegin(title="t"))
        server.work_done_progress.end("token", types.WorkDoneProgressEnd())
    return {"tokens": len(server.work_done_progress.tokens)}


async def sizes(arguments: list[object]) -> object:
    protocol = server.protocol
    return {
        "futures": len(protocol._request_futures),
        "incoming": len(protocol._incoming),
        "open": len(protocol.open_requests),
        "result_types": len(protocol._result_types),
    }


HANDLERS = (
    *(echo, refuse, crash, unwritable, sleep, block, block_pool, touch, spoil, flood),
    *(ask, ask_typed, progress, sizes),
)
COMMANDS = {f"tiny.{handler.__name__}": handler for handler in HANDLERS}


async def dispatch(command: str, arguments: list[object]) -> object:
    return await COMMANDS[command](arguments)


@server.feature(types.TEXT_DOCUMENT_HOVER)
async def hover(params: types.HoverParams) -> types.Hover:
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, f"line {params.position.line}"))


@server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
async def did_change(params: types.DidChangeTextDocumentParams) -> None:
    server.client_notify("tiny/changed", {"texts": [change.text for change in params.content_changes]})


@server.feature(types.TEXT_DOCUMENT_DID_SAVE)
async def did_save(params: types.DidSaveTextDocumentParams) -> None:
    raise RuntimeError("secret-in-exception")


@server.feature("tiny/raw")
async def raw(params: Any) -> object:
    return {"type": type(params).__name__, "params": params}


@server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
def configuration(params: types.DidChangeConfigurationParams) -> None:
    server.client_notify("tiny/configured", params.settings)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stopped", type=Path, help="the cleanup hook writes this file")
    parser.add_argument("--slow-stop", type=float, default=0, help="the cleanup hook takes so many seconds")
    parser.add_argument("--hang-at-exit", action="store_true")
    parser.add_argument("--no-pidfd", action="store_true")
    parser.add_argument("--log-level", default="WARNING")
    options = parser.parse_args()
    logging.basicConfig(level=options.log_level)
    if options.no_pidfd and hasattr(os, "pidfd_open"):
        del os.pidfd_open
    if options.hang_at_exit:
        atexit.register(time.sleep, 30)

    async def stopped() -> None:
        await asyncio.sleep(options.slow_stop)
        if options.stopped is not None:
            await asyncio.to_thread(options.stopped.write_text, "stopped")

    async def broken() -> None:
        raise RuntimeError("a broken hook")

    server.on_stop(broken)
    server.on_stop(stopped)
    server.set_dispatcher(list(COMMANDS), dispatch, to_rpc_error)
    return serve_stdio(server)


if __name__ == "__main__":
    sys.exit(main())
