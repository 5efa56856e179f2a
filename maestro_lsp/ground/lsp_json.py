"""Values of lsprotocol to and from JSON, more tolerant than pygls."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.protocol import default_converter

from maestro_lsp.ground.rpc import chosen_title, params_fault

if TYPE_CHECKING:
    from cattrs import Converter


def tolerant_converter() -> Converter:
    """pygls's converter, but a value that an enum does not know passes through as it is.

    A hook per class: one for all enums does not override those of lsprotocol.
    """
    converter: Converter = default_converter()  # type: ignore[no-untyped-call]

    def read(value: Any, kind: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            if isinstance(value, str | int):
                return value
            raise

    for kind in vars(types).values():
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            converter.register_structure_hook(kind, read)
    return converter


def read_params(converter: Converter, method: str, params: Any) -> Any:
    """Params as lsprotocol's class; plain JSON for commands and for methods it does not know.

    Raises JsonRpcInvalidParams, with ``data.path``.
    """
    if method == types.WORKSPACE_EXECUTE_COMMAND or method not in types.METHOD_TO_TYPES:
        return params
    kind: Any = types.METHOD_TO_TYPES[method][2]
    if kind is None:
        return None
    try:
        return converter.structure({} if params is None else params, kind)
    except Exception as error:
        fault = params_fault(error)
        raise JsonRpcInvalidParams(fault.message, data=fault.data) from error


def read_result(converter: Converter, method: str, result: object) -> Any:
    """The client's result as lsprotocol's class. Raises what cattrs raises."""
    if method == types.WINDOW_SHOW_MESSAGE_REQUEST:
        title = chosen_title(result)
        return None if title is None else types.MessageActionItem(title)
    kind: Any = types.METHOD_TO_TYPES.get(method, (None, None))[1]
    if kind is None:
        return result
    return converter.structure({"jsonrpc": "2.0", "id": 0, "result": result}, kind).result


def encode(converter: Converter, message: object) -> bytes:
    """``message`` as JSON. Raises TypeError or ValueError (also for NaN) if it is none.

    Only ASCII: text of an editor may hold half a surrogate pair, which UTF-8 cannot.
    """

    def unstructure(value: Any) -> Any:
        if hasattr(value, "__attrs_attrs__"):
            return converter.unstructure(value)
        if isinstance(value, enum.Enum):
            return value.value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        raise TypeError(f"a {type(value).__name__} cannot be written as JSON")

    return json.dumps(message, default=unstructure, allow_nan=False, separators=(",", ":")).encode()
