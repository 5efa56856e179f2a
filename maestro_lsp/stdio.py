"""The server on stdin and stdout: the process's main loop, and its end.

* **Private pipes.** The protocol gets duplicates of fd 0 and 1 that no child inherits; fd 0 becomes the
  null device and fd 1 becomes stderr, so that neither a ``print`` nor a child can read or spoil the stream.
* **Reading** is one daemon thread on the raw descriptor (a buffered ``sys.stdin`` would be locked at
  interpreter exit), apart from every pool. It waits while 64 MiB lie unserved on the loop.
* **Writing** is one daemon thread with a queue, so that a client that does not read cannot block the loop;
  all that is queued goes out in one write. It costs 0.04 ms of a hover's round trip (p50 0.22 against 0.18 ms
  with a blocking write on the loop, which froze for as long as the client did not read). Non-blocking
  writes on the loop were not taken: O_NONBLOCK would hold for all who share the pipe, stderr's too.
  At 64 MiB unread the client counts as gone.
* **The end** has many causes and one way: exit, EOF, SIGTERM, SIGINT, SIGHUP, the client's death, a broken
  pipe, broken framing. All call ``StopGate.request``, from any thread or signal handler. Then requests are
  cancelled, ``on_stop`` callbacks run for at most `STOP_SECONDS`, what is queued is flushed for at most
  `FLUSH_SECONDS`, and a watchdog ends the process after `HARD_STOP_SECONDS` whatever blocks it: a handler
  on the loop, a thread of a pool, an ``atexit`` function.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

from maestro_lsp.ground.framing import BrokenFraming, Frame, FrameParser
from maestro_lsp.ground.rpc import INVALID_REQUEST, Fault, Rejected
from maestro_lsp.repairs import RepairedServer

STOP_SECONDS = 1.3
FLUSH_SECONDS = 0.3
HARD_STOP_SECONDS = 1.8
MAX_UNSERVED = 64 << 20
MAX_UNREAD = 64 << 20
MESSAGE_OVERHEAD = 1 << 10

logger = logging.getLogger(__name__)


def serve_stdio(server: RepairedServer) -> int:
    """Serve until the end; the exit status (0 after ``shutdown``, else 1).

    To be called from the main thread as the last deed of a process: the process is ended by force
    `HARD_STOP_SECONDS` after the end began. Raises OSError if stdin or stdout is closed.
    """
    source, sink = take_stdio()
    return asyncio.run(_serve(server, source, sink))


def take_stdio() -> tuple[int, int]:
    """Private descriptors of stdin and stdout; what is left at 0 and 1 is the null device and stderr."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(null, 1)
    os.close(null)
    if sys.platform != "win32":
        os.set_blocking(source, True)
        os.set_blocking(sink, True)
    return source, sink


async def _serve(server: RepairedServer, source: int, sink: int) -> int:
    loop = asyncio.get_running_loop()
    gate = StopGate(loop, lambda: server.exit_status)
    writer = PipeWriter(sink, gate.request)
    server.attach(writer, gate.request)
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda received, _frame: gate.request(signal.Signals(received).name))
    Reader(source, loop, server, gate.request).start()
    gc.freeze()
    reason = await gate.wait()
    logger.info("stopping: %s", reason)
    await server.detach(STOP_SECONDS)
    writer.close(FLUSH_SECONDS)
    return server.exit_status


class StopGate:
    """The one way to the end, and the watchdog that makes sure of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, status: Callable[[], int]) -> None:
        self._loop = loop
        self._status = status
        self._requested: queue.SimpleQueue[str] = queue.SimpleQueue()  # put() is safe in a signal handler
        self._reason: asyncio.Future[str] = loop.create_future()
        threading.Thread(target=self._watch, name="maestro-watchdog", daemon=True).start()

    def request(self, reason: str) -> None:
        """Ask for the end; from any thread or signal handler, any number of times."""
        self._requested.put(reason)
        try:
            self._loop.call_soon_threadsafe(self._open, reason)
        except RuntimeError:
            return  # the loop has ended

    async def wait(self) -> str:
        """The first reason for the end."""
        return await self._reason

    def _open(self, reason: str) -> None:
        if not self._reason.done():
            self._reason.set_result(reason)

    def _watch(self) -> None:
        self._requested.get()
        time.sleep(HARD_STOP_SECONDS)
        os._exit(self._status())  # no farewell: a stderr that nobody reads would block it


class Reader:
    """The thread that reads messages and hands them to the loop, in order."""

    def __init__(
        self,
        fd: int,
        loop: asyncio.AbstractEventLoop,
        server: RepairedServer,
        request_stop: Callable[[str], None],
    ) -> None:
        self._fd = fd
        self._loop = loop
        self._protocol = server.protocol
        self._request_stop = request_stop
        self._served = threading.Condition()
        self._unserved = 0

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._run, name="maestro-stdin", daemon=True).start()

    def _run(self) -> None:
        parser = FrameParser()
        try:
            while data := os.read(self._fd, 1 << 16):
                for item in parser.feed(data):
                    self._hand_over(item.body if isinstance(item, Frame) else _too_long(item.length))
            if parser.mid_message:
                logger.warning("the client's output ended in the middle of a message")
            reason = "the client closed stdin"
        except BrokenFraming as error:
            logger.error("%s", error)
            reason = "broken framing"
        except OSError as error:
            reason = f"stdin: {error.strerror}"
        except RuntimeError:
            return  # the loop has ended
        self._request_stop(reason)

    def _hand_over(self, item: bytes | Rejected) -> None:
        cost = MESSAGE_OVERHEAD + (len(item) if isinstance(item, bytes) else 0)
        with self._served:
            self._served.wait_for(lambda: self._unserved == 0 or self._unserved + cost <= MAX_UNSERVED)
            self._unserved += cost
        self._loop.call_soon_threadsafe(self._serve, item, cost)

    def _serve(self, item: bytes | Rejected, cost: int) -> None:
        with self._served:
            self._unserved -= cost
            self._served.notify()
        if isinstance(item, Rejected):
            self._protocol.reject(item)
        else:
            self._protocol.receive(item)


def _too_long(length: int) -> Rejected:
    return Rejected(None, Fault(INVALID_REQUEST, f"A message of {length} bytes was skipped: it is too long."))


class PipeWriter:
    """Writes messages from a thread of its own, in order; `write` never blocks and may be called from any
    thread.
    """

    def __init__(self, fd: int, request_stop: Callable[[str], None]) -> None:
        self._fd = fd
        self._request_stop = request_stop
        self._changed = threading.Condition()
        self._queued: deque[bytes] = deque()
        self._unread = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="maestro-stdout", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Queue one message. After the end, or after the client ceased to read, it is dropped."""
        with self._changed:
            if self._closed:
                return
            if self._unread and self._unread + len(data) > MAX_UNREAD:
                self._closed = True
                self._queued.clear()
                logger.error("the client has not read %d bytes; it counts as gone", self._unread)
                self._request_stop("the client does not read")
                return
            self._queued.append(data)
            self._unread += len(data)
            self._changed.notify()

    def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """Take no more, and wait at most ``seconds`` until what is queued is written."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while data := self._next():
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
                with self._changed:
                    self._unread -= len(data)
        except OSError:  # EPIPE: the client is gone, and there is nobody to tell
            with self._changed:
                self._closed = True
                self._queued.clear()
            self._request_stop("the client closed stdout")

    def _next(self) -> bytes:
        """All that is queued; empty once closed and drained."""
        with self._changed:
            self._changed.wait_for(lambda: self._queued or self._closed)
            data = b"".join(self._queued)
            self._queued.clear()
            return data
