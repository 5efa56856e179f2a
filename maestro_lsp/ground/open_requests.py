"""Our requests to the client that wait for an answer."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from maestro_lsp.ground.rpc import INTERNAL_ERROR, ClientError, ClientGone, MsgId, Response, client_error

logger = logging.getLogger(__name__)


class OpenRequests:
    """A table of its own (pygls keeps them among the client's requests, where an answer with the id of one
    would settle it).

    ``send`` writes one message. A future that is cancelled sends ``$/cancelRequest`` and forgets the
    request, so that the late answer is dropped.
    """

    def __init__(self, send: Callable[[dict[str, object]], None]) -> None:
        self._send = send
        self._open: dict[MsgId, tuple[Future[Any], Callable[[object], object]]] = {}
        self._ids = itertools.count(1)
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self, method: str, params: object, read: Callable[[object], object], msg_id: MsgId | None = None
    ) -> Future[Any]:
        """Send a request; the future holds ``read(result)``, or raises `ClientError`.

        Raises TypeError or ValueError if ``params`` cannot be written as JSON.
        """
        future: Future[Any] = Future()
        if self._closed:
            future.set_exception(_gone(method))
            return future
        key = f"s{next(self._ids)}" if msg_id is None else msg_id
        self._open[key] = (future, read)
        future.add_done_callback(partial(self._forget, key))
        message: dict[str, object] = {"jsonrpc": "2.0", "id": key, "method": method}
        try:
            self._send(message if params is None else {**message, "params": params})
        except Exception:
            del self._open[key]
            raise
        return future

    def settle(self, response: Response) -> None:
        """Give an answer to whoever waits for it; one that nobody waits for is dropped."""
        if response.id is None:
            logger.warning("the client could not read a message of ours")
            return
        future, read = self._open.pop(response.id, (None, None))
        if future is None or read is None or not future.set_running_or_notify_cancel():
            logger.debug("dropped an answer that nobody waits for")
            return
        if response.fault is not None:
            future.set_exception(client_error(response.fault))
            return
        try:
            result = read(response.result)
        except Exception:
            future.set_exception(ClientError(INTERNAL_ERROR, "The client's answer has an unknown shape."))
            return
        future.set_result(result)

    def fail_all(self) -> None:
        """No answer will come any more: `ClientGone` for all that wait and for all to come."""
        self._closed = True
        for future, _read in list(self._open.values()):
            if future.set_running_or_notify_cancel():
                future.set_exception(_gone("a request"))

    def _forget(self, key: MsgId, future: Future[Any]) -> None:
        self._open.pop(key, None)
        if future.cancelled() and not self._closed:
            self._send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": key}})


def _gone(what: str) -> ClientGone:
    return ClientGone(INTERNAL_ERROR, f"The client is gone; {what} gets no answer.")
