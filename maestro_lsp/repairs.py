"""pygls 2.1.1 with its faults mended: the ground the language server stands on.

What others use
    ``RepairedServer(name, version, experimental=...)`` with ``set_dispatcher(commands, dispatch,
    to_rpc_error)`` · ``client_request`` · ``client_notify`` · ``on_stop`` · ``stop``, and pygls's own
    ``@server.feature(...)``. ``maestro_lsp.stdio.serve_stdio(server)`` runs it. Errors of
    ``client_request``: ``ClientError`` and its kinds in ``maestro_lsp.ground.rpc``.

What differs from pygls
    * Every request is answered. Params that do not fit: -32602 with ``data.path``; a result that is no
      JSON: an error; bad JSON, batches, unknown versions: -32700 and -32600; before initialize: -32002. No
      traceback leaves the process, and no protocol error becomes a ``window/showMessage``: they are logged,
      without the payload.
    * ``workspace/executeCommand`` hands the arguments as sent to one coroutine, a real task:
      ``$/cancelRequest`` cancels it. An exception of any handler becomes a response through
      ``to_rpc_error``.
    * Params of methods that lsprotocol does not know are plain JSON values.
    * Unknown values of enums pass through raw.
    * Requests of ours have their own table, so neither a late nor a forged answer can touch a request of
      the client's. A late answer is dropped; one of odd shape to ``window/showMessageRequest`` counts as
      none (``chosen_title``).
    * ``shutdown`` cancels the requests in flight, which are answered -32800, and fails ours with
      ``ClientGone``. ``exit`` asks ``serve_stdio`` to end; features registered for ``exit`` are not called:
      use ``on_stop``.
    * Text and notebook documents are not kept (pygls splits lines where the protocol does not): ``didOpen``
      and its kin go to the features registered for them only, and ``server.workspace`` knows folders, not
      buffers.

pygls's private names ``_execute_handler``, ``_request_futures``, ``_get_handler``, ``_ctx_msg_id``,
``_converter``, ``_shutdown``, ``_workspace`` and the ``_handle_*`` and ``_send_*`` methods are used;
tests/lsp/test_repairs_pygls.py pins them. Not for pygls's ``start_io``, ``start_tcp`` and ``start_ws``:
their loop bypasses all this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from maestro_lsp.ground.lsp_json import tolerant_converter
from maestro_lsp.ground.parent import watch_process
from maestro_lsp.ground.protocol import (
    Dispatch,
    RepairedProtocol,
    ToRpcError,
)

__all__ = ["Dispatch", "RepairedServer", "ToRpcError"]

logger = logging.getLogger(__name__)

StopCallback = Callable[[], Awaitable[None]]


class RepairedServer(LanguageServer):
    """pygls's server on the repaired protocol.

    ``experimental`` becomes ``capabilities.experimental``; ``name`` and ``version`` become ``serverInfo``.
    """

    protocol: RepairedProtocol

    def __init__(
        self,
        name: str,
        version: str,
        *,
        experimental: Mapping[str, object] | None = None,
        text_document_sync_kind: types.TextDocumentSyncKind = types.TextDocumentSyncKind.Incremental,
    ) -> None:
        super().__init__(
            name,
            version,
            text_document_sync_kind,
            protocol_cls=RepairedProtocol,
            converter_factory=tolerant_converter,
        )
        logging.getLogger("pygls").setLevel(logging.WARNING)  # at INFO it logs every payload
        self.protocol.experimental = experimental
        self.protocol.set_hooks(on_exit=self._exit, on_initialize=self._watch_client)
        self._stop_callbacks: list[StopCallback] = []
        self._request_stop: Callable[[str], None] = lambda _reason: None
        self._end_watch: Callable[[], None] = lambda: None

    def set_dispatcher(self, commands: Sequence[str], dispatch: Dispatch, to_rpc_error: ToRpcError) -> None:
        """Announce ``commands`` and run them by ``dispatch``; call it before ``initialize`` is served.

        ``to_rpc_error`` translates the exceptions of commands and of every other request handler.
        """
        self.protocol.set_dispatcher(commands, dispatch)
        self.protocol.to_rpc_error = to_rpc_error

    async def client_request(self, method: str, params: object = None) -> object:
        """Send a request and wait for the client's answer, plain JSON both ways; no time limit of its own.

        Cancelling it sends ``$/cancelRequest`` and drops the late answer. Raises `ClientMethodNotFound`,
        `ClientGone` or another `ClientError`; TypeError or ValueError if ``params`` is no JSON.
        """
        return await asyncio.wrap_future(
            self.protocol.open_requests.open(method, params, lambda result: result)
        )

    def client_notify(self, method: str, params: object = None) -> None:
        """Send a notification with plain JSON params. Raises TypeError or ValueError if they are none."""
        self.protocol.notify(method, params)

    def on_stop(self, callback: StopCallback) -> None:
        """Call ``callback`` when the server ends, for whatever reason; in order of registration, all within
        a second or so.
        """
        self._stop_callbacks.append(callback)

    def stop(self, reason: str) -> None:
        """Ask for an orderly end; from any thread. ``reason`` goes to the log."""
        self._request_stop(reason)

    @property
    def exit_status(self) -> int:
        """0 after ``shutdown``, else 1 (LSP)."""
        return 0 if self.protocol.was_shut_down else 1

    def attach(self, writer: object, request_stop: Callable[[str], None]) -> None:
        """For the main loop: where messages go, and how to ask for the end."""
        self.protocol.set_writer(writer)  # type: ignore[arg-type]
        self._request_stop = request_stop

    async def detach(self, seconds: float) -> None:
        """For the main loop: cancel what runs, then call the callbacks of `on_stop` within ``seconds``."""
        self._end_watch()
        self.protocol.cancel_requests()
        try:
            async with asyncio.timeout(seconds):
                for callback in self._stop_callbacks:
                    await self._call(callback)
        except TimeoutError:
            logger.warning("cleaning up took longer than %s s and was given up", seconds)

    async def _call(self, callback: StopCallback) -> None:
        try:
            await callback()
        except Exception:
            logger.exception("cleaning up failed")

    def _exit(self) -> None:
        self.stop("the client sent exit")

    def _watch_client(self, pid: int | None) -> None:
        if pid is not None:
            self._end_watch()
            self._end_watch = watch_process(pid, lambda: self.stop("the client's process ended"))

    def report_server_error(self, error: Exception, source: object) -> None:
        """Log only: pygls would pop up a message before the person. Not the text: it may quote a payload."""
        logger.warning("pygls reported %s", type(error).__name__)
