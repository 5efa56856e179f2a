"""Just enough of HTTP/1.1 for the scripted model: requests with a length or in chunks, kept-alive
connections, chunked answers.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

MAX_HEAD = 64 * 1024
MAX_BODY = 64 * 1024 * 1024


class BadRequest(Exception):
    """The peer does not speak HTTP, or sends more than is read; the connection is closed."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request: header names in lower case, the body whole."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def keep_alive(self) -> bool:
        """Whether the client may send another request on this connection."""
        return self.headers.get("connection", "").lower() != "close"


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest | None:
    """The next request of a connection; None where the client has closed it. Raises ``BadRequest``."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadRequest("the head of the request is cut") from error
        return None
    except asyncio.LimitOverrunError as error:
        raise BadRequest("the head of the request is too long") from error
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    try:
        method, target, _version = first.split(" ")
        headers = {
            name.strip().lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)
        }
    except ValueError as error:
        raise BadRequest("this is no HTTP request") from error
    if "100-continue" in headers.get("expect", "").lower():
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        body = await _read_body(reader, headers)
    except (ValueError, asyncio.IncompleteReadError) as error:
        raise BadRequest("the body of the request is cut or has a wrong length") from error
    return HttpRequest(method, target.partition("?")[0], headers, body)


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "chunked" not in headers.get("transfer-encoding", "").lower():
        length = int(headers.get("content-length", "0"))
        if not 0 <= length <= MAX_BODY:
            raise ValueError(length)
        return await reader.readexactly(length)
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        if size < 0 or len(body) + size > MAX_BODY:
            raise ValueError(size)
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    while (await reader.readline()).strip():
        pass
    return bytes(body)


async def write_whole(
    writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """One answer with its length."""
    writer.write(_head(status, {**headers, "content-length": str(len(body))}) + body)
    await writer.drain()


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a streamed answer breaks off: after so many bytes of its body, by a TCP reset if ``reset``."""

    after: int
    reset: bool


async def write_stream(
    writer: asyncio.StreamWriter,
    headers: Mapping[str, str],
    pieces: AsyncIterable[bytes],
    *,
    chunked: bool,
    cut: Cut | None,
) -> bool:
    """A streamed answer. False if it broke off: by ``cut``, or because the client went away."""
    framing = {"transfer-encoding": "chunked"} if chunked else {"connection": "close"}
    writer.write(_head(200, {**headers, **framing}))
    sent = 0
    async for piece in pieces:
        if writer.transport.is_closing():
            return False
        part = piece if cut is None else piece[: max(0, cut.after - sent)]
        sent += len(part)
        if part:
            writer.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
        await writer.drain()
        if cut is not None and sent >= cut.after:
            await _break_off(writer, reset=cut.reset)
            return False
    if chunked:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    return not writer.transport.is_closing()


async def _break_off(writer: asyncio.StreamWriter, *, reset: bool) -> None:
    if not reset:
        writer.close()
        return
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    reason = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Unknown"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
