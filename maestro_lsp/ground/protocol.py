"""The protocol half of the pygls repairs; what is mended and why is told in `maestro_lsp.repairs`."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcMethodNotFound
from pygls.progress import Progress
from pygls.protocol import LanguageServerProtocol, lsp_method

from maestro_lsp.ground.framing import frame
from maestro_lsp.ground.lsp_json import encode, read_params, read_result
from maestro_lsp.ground.open_requests import OpenRequests
from maestro_lsp.ground.rpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    NOT_INITIALIZED,
    REQUEST_CANCELLED,
    Fault,
    MsgId,
    Notification,
    Rejected,
    Request,
    Response,
    decode,
)

if TYPE_CHECKING:
    from cattrs import Converter

logger = logging.getLogger(__name__)

Dispatch = Callable[[str, list[object]], Awaitable[object]]
"""Runs one command: its name and its arguments exactly as sent."""

ToRpcError = Callable[[Exception], tuple[int, str, object]]
"""``(code, message, data)`` of the response for an exception; ``data`` may be ``None``."""

_DOCUMENT_METHODS = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
)


UNKNOWN = Fault(INTERNAL_ERROR, "The request failed inside the server; its log says why.")


def unknown_error(_error: Exception) -> tuple[int, str, object]:
    """The response for an exception that nobody translates."""
    return UNKNOWN.code, UNKNOWN.message, UNKNOWN.data


class RepairedProgress(Progress):
    """Work-done progress whose tokens are forgotten at their end, so that they can be used again and do not
    pile up.
    """

    def end(self, token: types.ProgressToken, value: types.WorkDoneProgressEnd) -> None:
        """Notify the end of the work and forget the token."""
        super().end(token, value)
        self.tokens.pop(token, None)


class RepairedProtocol(LanguageServerProtocol):
    """One connection. `receive` takes whole messages; ``attach`` says where answers go."""

    def __init__(self, server: Any, converter: Converter) -> None:
        super().__init__(server, converter)
        self.progress = RepairedProgress(self)
        self.open_requests = OpenRequests(self._send_data)
        self.experimental: Mapping[str, object] | None = None
        self.to_rpc_error: ToRpcError = unknown_error
        self._commands: tuple[str, ...] = ()
        self._dispatch: Dispatch | None = None
        self._incoming: dict[MsgId, str] = {}
        self._on_exit: Callable[[], None] = lambda: None
        self._on_initialize: Callable[[int | None], None] = lambda _pid: None

    # -- set up

    def set_dispatcher(self, commands: Sequence[str], dispatch: Dispatch) -> None:
        """``commands`` are announced; ``dispatch`` runs them."""
        self._commands, self._dispatch = tuple(commands), dispatch

    def set_hooks(self, *, on_exit: Callable[[], None], on_initialize: Callable[[int | None], None]) -> None:
        """``on_exit`` is called at the ``exit`` notification, ``on_initialize`` with the client's process
        id.
        """
        self._on_exit, self._on_initialize = on_exit, on_initialize

    @property
    def was_shut_down(self) -> bool:
        """Whether the client's ``shutdown`` was served."""
        return bool(self._shutdown)

    def _register_builtin_features(self) -> None:
        super()._register_builtin_features()  # type: ignore[no-untyped-call]
        for method in _DOCUMENT_METHODS:
            del self.fm.builtin_features[method]

    # -- what comes in

    def receive(self, body: bytes) -> None:
        """Serve one message. Never raises."""
        try:
            match decode(body):
                case Rejected() as rejected:
                    self.reject(rejected)
                case Response() as response:
                    self.open_requests.settle(response)
                case Request() as request:
                    contextvars.copy_context().run(
                        self._handle_request, request.id, request.method, request.params
                    )
                case Notification() as note:
                    contextvars.copy_context().run(self._handle_notification, note.method, note.params)
        except Exception:
            logger.exception("a message could not be served")

    def reject(self, rejected: Rejected) -> None:
        """Answer what is no message."""
        logger.warning("refused a message of the client: %s", rejected.fault.message)
        self._send_fault(rejected.id, rejected.fault)

    def _handle_request(self, msg_id: MsgId, method_name: str, params: Any) -> None:
        try:
            self._check_state(method_name)
            handler = self._get_handler(method_name)
            structured = read_params(self._converter, method_name, params)
        except JsonRpcException as error:
            logger.info("refused %.80r: %s", method_name, error)
            self._send_failure(msg_id, error)
            return
        self._ctx_msg_id.set(msg_id)
        self._incoming[msg_id] = method_name
        callback = partial(self._send_handler_result, msg_id=msg_id)
        self._execute_handler(msg_id, handler, callback, args=(structured,))

    def _check_state(self, method: str) -> None:
        if self._shutdown:
            raise JsonRpcException("The server was shut down.", INVALID_REQUEST)
        if method == types.INITIALIZE and self._workspace is not None:
            raise JsonRpcException("The server is initialized already.", INVALID_REQUEST)
        if method != types.INITIALIZE and self._workspace is None:
            raise JsonRpcException("The server is not initialized yet.", NOT_INITIALIZED)

    def _handle_notification(self, method_name: str, params: Any) -> None:
        if method_name == types.CANCEL_REQUEST:
            self._handle_cancel_notification(params.get("id") if isinstance(params, dict) else None)
            return
        if method_name != types.EXIT and (self._workspace is None or self._shutdown):
            logger.info("ignored %.80r: the server is not initialized, or shut down", method_name)
            return
        try:
            handler = self._get_handler(method_name)
            structured = read_params(self._converter, method_name, params)
        except JsonRpcMethodNotFound:
            logger.debug("ignored the unknown notification %.80r", method_name)
        except JsonRpcException as error:
            logger.warning("ignored %.80r: %s", method_name, error)
        else:
            callback = partial(self._check_notification, method_name)
            self._execute_handler(object(), handler, callback, args=(structured,))

    def _handle_cancel_notification(self, msg_id: Any) -> None:
        """Cancel a request that is a task; others (``initialize``, threads) run to their end and answer
        with it.
        """
        running: object = self._request_futures.get(msg_id) if isinstance(msg_id, str | int) else None
        if isinstance(running, asyncio.Task):
            running.cancel()

    def _execute_handler(
        self, msg_id: Any, handler: Any, callback: Any, args: Any = None, kwargs: Any = None
    ) -> None:
        """As pygls does, but the future is forgotten when it is done: pygls keeps those of notifications
        for ever.
        """
        super()._execute_handler(msg_id, handler, callback, args, kwargs)
        running = self._request_futures.get(msg_id)
        if running is not None:
            running.add_done_callback(lambda _done: self._request_futures.pop(msg_id, None))

    def _check_notification(self, method: str, future: Future[Any]) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            logger.error("the handler of %.80r failed", method, exc_info=error)

    def cancel_requests(self) -> None:
        """Cancel the client's requests in flight; each is answered -32800. Fail ours."""
        for msg_id in list(self._incoming):
            self._handle_cancel_notification(msg_id)
        self.open_requests.fail_all()

    # -- built-in methods

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """As pygls does, with our commands and experimental capabilities."""
        self._on_initialize(params.process_id)
        result = yield from super().lsp_initialize(params)
        if self._commands:
            result.capabilities.execute_command_provider = types.ExecuteCommandOptions(list(self._commands))
        result.capabilities.experimental = self.experimental
        return result

    @lsp_method(types.INITIALIZED)
    def lsp_initialized(self, *args: Any) -> Generator[Any, Any, None]:
        """As pygls does; then what was imported and built so far leaves the garbage collector's sight."""
        yield from super().lsp_initialized(*args)  # type: ignore[no-untyped-call]
        gc.freeze()

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Generator[Any, Any, None]:
        """The registered feature first, then the requests in flight are cancelled."""
        if (handler := self.fm.features.get(types.SHUTDOWN)) is not None:
            yield handler, args, None
        self._shutdown = True
        self.cancel_requests()

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_args: Any) -> None:  # type: ignore[override]
        """Ask for the end; the exit status follows from `was_shut_down`."""
        self._on_exit()

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(self, params: Any) -> Any:  # type: ignore[override]
        """Hand name and arguments, as sent, to the dispatcher."""
        command = params.get("command") if isinstance(params, dict) else None
        if command not in self._commands or self._dispatch is None:
            data = {"path": "params.command", "expected": list(self._commands)}
            raise JsonRpcInvalidParams(f"There is no command {command!r:.80}.", data=data)
        arguments = params.get("arguments")
        if not isinstance(arguments, list | None):
            raise JsonRpcInvalidParams("arguments must be an array.", data={"path": "params.arguments"})
        return await self._dispatch(command, arguments or [])

    # -- what goes out

    def _send_handler_result(self, future: Future[Any], *, msg_id: MsgId) -> None:
        method = self._incoming.pop(msg_id, "")
        if future.cancelled():
            self._send_fault(msg_id, Fault(REQUEST_CANCELLED, "The request was cancelled."))
        elif (error := future.exception()) is not None:
            if not isinstance(error, JsonRpcException):
                logger.info("%.80r failed", method, exc_info=error)
            self._send_failure(msg_id, error)
        else:
            self._send_response(msg_id, future.result())

    def _send_response(
        self, msg_id: MsgId, result: Any = None, error: types.ResponseError | None = None
    ) -> None:
        if error is not None:
            self._send_fault(msg_id, Fault(error.code, error.message, error.data))
            return
        try:
            self._send_data({"jsonrpc": "2.0", "id": msg_id, "result": result})
        except Exception as fault:
            logger.exception("a result is no JSON")
            self._send_failure(msg_id, fault)

    def _send_failure(self, msg_id: MsgId, error: BaseException) -> None:
        """The response for an exception: a `JsonRpcException` as it is, others through ``to_rpc_error``."""
        try:
            if isinstance(error, JsonRpcException):
                self._send_fault(msg_id, Fault(error.code, error.message, error.data))
            elif isinstance(error, Exception):
                self._send_fault(msg_id, Fault(*self.to_rpc_error(error)))
            else:
                self._send_fault(msg_id, UNKNOWN)
        except Exception:
            logger.exception("an error could not be translated")
            self._send_fault(msg_id, UNKNOWN)

    def _send_fault(self, msg_id: MsgId | None, fault: Fault) -> None:
        error = {"code": fault.code, "message": fault.message}
        if fault.data is not None:
            error["data"] = fault.data
        self._send_data({"jsonrpc": "2.0", "id": msg_id, "error": error})

    def _send_data(self, data: Any) -> None:
        """Write one message. Raises TypeError or ValueError, with nothing written, if it is no JSON."""
        body = encode(self._converter, data)
        if self.writer is not None:
            self.writer.write(frame(body))

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification. Raises TypeError or ValueError if ``params`` is no JSON."""
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method}
        self._send_data(message if params is None else {**message, "params": params})

    def send_request(
        self, method: str, params: Any = None, callback: Any = None, msg_id: MsgId | None = None
    ) -> Future[Any]:
        """Send a request of lsprotocol's; the future holds the typed result or raises `ClientError`."""
        future = self.open_requests.open(
            method, params, partial(read_result, self._converter, method), msg_id
        )
        if callback is not None:
            future.add_done_callback(
                lambda done: None if done.cancelled() or done.exception() else callback(done.result())
            )
        return future
