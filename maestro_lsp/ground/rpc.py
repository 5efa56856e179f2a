"""JSON-RPC 2.0 messages as values: what came in, and how a fault in it is named.

pygls parses with an ``object_hook`` (any nested object with a ``jsonrpc`` key is taken for a message) and
answers nothing when a message is malformed. Here one function reads a body into exactly one of four values,
params as plain JSON.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

MsgId = str | int

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_INITIALIZED = -32002
REQUEST_CANCELLED = -32800


@dataclass(frozen=True, slots=True)
class Fault:
    """The ``error`` member of a response."""

    code: int
    message: str
    data: object = None


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the client; ``params`` is plain JSON, ``None`` if absent."""

    id: MsgId
    method: str
    params: object


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification of the client; ``params`` is plain JSON, ``None`` if absent."""

    method: str
    params: object


@dataclass(frozen=True, slots=True)
class Response:
    """The client's answer to a request of ours. ``id`` is ``None`` when the client could not read what we
    sent.
    """

    id: MsgId | None
    result: object
    fault: Fault | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """No message; ``id`` is that of the request to be told so, if it had one."""

    id: MsgId | None
    fault: Fault


Incoming = Request | Notification | Response | Rejected


class ClientError(Exception):
    """The client answered a request of ours with an error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ClientMethodNotFound(ClientError):
    """The client does not know the method."""


class ClientGone(ClientError):
    """No answer will come: the client shut us down or is gone."""


def client_error(fault: Fault) -> ClientError:
    """The exception for an error answer of the client."""
    kind = ClientMethodNotFound if fault.code == METHOD_NOT_FOUND else ClientError
    return kind(fault.code, fault.message, fault.data)


def decode(body: bytes) -> Incoming:
    """The message in ``body``; `Rejected` for anything that is none (bad JSON, batch, scalar, wrong
    version).
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):  # bad UTF-8 is a ValueError; nesting of 100 000 a RecursionError
        return Rejected(None, Fault(PARSE_ERROR, "The message is not JSON in UTF-8."))
    if isinstance(value, list):
        return _invalid(None, "Batches are not part of the language server protocol.")
    if not isinstance(value, dict):
        return _invalid(None, "A message must be an object.")
    return _classify(value)


def _classify(value: dict[str, object]) -> Incoming:
    msg_id = value.get("id")
    if isinstance(msg_id, bool) or not isinstance(msg_id, str | int | None):
        return _invalid(None, "The id of a message must be a whole number or a string.")
    if "method" not in value:
        return _classify_response(value, msg_id)
    if value.get("jsonrpc") != "2.0":
        return _invalid(msg_id, 'The member "jsonrpc" of a message must be "2.0".')
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        return _invalid(msg_id, 'The member "method" of a message must be a string.')
    if not isinstance(params, dict | list | None):
        return Rejected(
            msg_id, Fault(INVALID_PARAMS, "params must be an object or an array.", {"path": "params"})
        )
    if "id" not in value:
        return Notification(method, params)
    if msg_id is None:
        return _invalid(None, "The id of a request must not be null.")
    return Request(msg_id, method, params)


def _classify_response(value: dict[str, object], msg_id: MsgId | None) -> Incoming:
    """A message without a method is an answer, or nothing. Faults carry no id: it would be taken for one of
    the client's.
    """
    if value.get("jsonrpc") != "2.0" or "id" not in value or not ("result" in value or "error" in value):
        return _invalid(None, "A message must be a request, a notification or a response.")
    error = value.get("error")
    return Response(msg_id, value.get("result"), None if error is None else _fault(error))


def _fault(error: object) -> Fault:
    if not isinstance(error, dict):
        return Fault(INTERNAL_ERROR, "The client answered with an error of unknown shape.")
    code, message = error.get("code"), error.get("message")
    return Fault(
        code if isinstance(code, int) else INTERNAL_ERROR,
        message if isinstance(message, str) else "The client gave no reason.",
        error.get("data"),
    )


def _invalid(msg_id: MsgId | None, message: str) -> Rejected:
    return Rejected(msg_id, Fault(INVALID_REQUEST, message))


def params_fault(error: BaseException) -> Fault:
    """The -32602 of a cattrs error, with ``data.path`` as far as cattrs knows it. Never quotes a value of
    the client's.
    """
    path, leaf = "params", error
    while isinstance(leaf, BaseExceptionGroup):
        leaf = leaf.exceptions[0]
        path += _step(leaf)
    reason = "is missing" if isinstance(leaf, KeyError) else "has a wrong type or value"
    return Fault(INVALID_PARAMS, f"{path} {reason}.", {"path": path})


def _step(error: BaseException) -> str:
    """The last note that cattrs left on ``error``: the attribute or index below its parent."""
    for note in reversed(getattr(error, "__notes__", [])):
        index, name = getattr(note, "index", None), getattr(note, "name", None)
        if isinstance(index, int | str) and not callable(index):
            return f"[{index}]"
        if isinstance(name, str):
            return "." + re.sub(r"_([a-z])", lambda match: match[1].upper(), name.rstrip("_"))
    return ""


def chosen_title(answer: object) -> str | None:
    """The title in an answer to ``window/showMessageRequest``; ``None`` for null and for every odd shape.

    lsp-mode answers ``{title: null}`` when the person gives up; ``{}`` and bare strings were seen too. None
    of them is a choice.
    """
    if isinstance(answer, dict):
        title = answer.get("title")
        return title if isinstance(title, str) else None
    return None
