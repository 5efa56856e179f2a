"""Between the wire and the engine: params, errors, URIs.

Params are read as sent: pygls would coerce them (``"false"`` became ``True``) and ignore unknown keys, and a
person who mistyped a key would never know.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect
from pygls import uris

from engine import BadArgument, EngineError, catalogue, explain
from maestro_lsp.display import MESSAGE_LIMIT, clip, described
from maestro_lsp.faults import os_fault
from maestro_lsp.protocol import Params
from maestro_lsp.shapes import PieceInfo, ProblemInfo

logger = logging.getLogger(__name__)

P = TypeVar("P", bound=Params)

_AT = re.compile(r" - at `\$\.?(.*)`$")
_FIELD = re.compile(r"^Object (missing required|contains unknown) field `(.*?)`")
_STEP = re.compile(r"[^.\[\]]+")


def read_params(kind: type[P], arguments: list[object]) -> P:
    """The one params object of a command; absent arguments are an empty object.

    Raises ``BadArgument`` with ``data.path`` (such as ``selection.range``) and ``data.expected``.
    """
    sent = arguments[0] if arguments else None
    if len(arguments) > 1:
        data = {"path": "arguments[1]", "expected": "one params object"}
        raise BadArgument("lsp.params.too_many", data=data)
    try:
        return msgspec.convert({} if sent is None else _sound(sent), kind)
    except msgspec.ValidationError as error:
        raise _bad_params(kind, str(error)) from None


def _sound(sent: object) -> object:
    """JSON with no half of a surrogate pair, which an editor may cut out of a text and no store can keep."""
    try:
        json.dumps(sent, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        text = json.dumps(sent, ensure_ascii=False)
        return json.loads(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    return sent


def _bad_params(kind: type[Params], told: str) -> BadArgument:
    """The error for what msgspec found; its texts are the only place where it says the path."""
    at = _AT.search(told)
    base = at[1] if at else ""
    field = _FIELD.match(told)
    if field is None:
        path, expected = base or "arguments[0]", _expected(kind, base)
        data = {"path": path, "expected": expected}
        return BadArgument("lsp.params.wrong", data=data, path=path, expected=expected)
    path = f"{base}.{field[2]}" if base else field[2]
    if field[1] == "missing required":
        expected = _expected(kind, path)
        data = {"path": path, "expected": expected}
        return BadArgument("lsp.params.missing", data=data, path=path, expected=expected)
    known = [known.encode_name for known in _struct_at(kind, base).fields]
    expected, near = ", ".join(known), difflib.get_close_matches(field[2], known, n=1)
    data = {"path": path, "expected": expected}
    if near:
        return BadArgument("lsp.params.unknown_near", data={**data, "near": near[0]}, path=path, near=near[0])
    if not known:
        return BadArgument("lsp.params.unknown_none", data=data, path=path)
    return BadArgument("lsp.params.unknown", data=data, path=path, known=expected)


def _struct_at(kind: type[Params], path: str) -> inspect.StructType:
    return cast(inspect.StructType, _type_at(kind, path))


def _type_at(kind: type[Params], path: str) -> inspect.Type:
    found = inspect.type_info(kind)
    for step in _STEP.findall(path):
        match _bare(found):
            case inspect.StructType(fields=fields):
                found = next(field.type for field in fields if field.encode_name == step)
            case inspect.ListType(item_type=item):
                found = item
    return _bare(found)


def _bare(found: inspect.Type) -> inspect.Type:
    """A type without its "or null"."""
    if isinstance(found, inspect.UnionType):
        return next(kind for kind in found.types if not isinstance(kind, inspect.NoneType))
    return found


def _expected(kind: type[Params], path: str) -> str:
    return _words(_type_at(kind, path))


def _words(found: inspect.Type) -> str:
    """A type as clients read it."""
    match found:
        case inspect.LiteralType(values=values):
            return " | ".join(str(value) for value in values)
        case inspect.IntType(ge=least, le=most):
            return f"integer from {least} to {most}"
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "string"
        case inspect.ListType(item_type=item):
            return f"array of {_words(item)}"
        case _:
            return "object"


def rpc_error(error: Exception, language: str) -> tuple[int, str, object]:
    """Code, one sentence and data of the response for an exception. What is not ours is logged, not shown."""
    if not isinstance(error, EngineError):
        fault = os_fault(error)
        logger.error("a request failed inside the server: %s", error, exc_info=None if fault else error)
        if fault is not None:
            return fault.code, explain(fault, language), None
        return EngineError.code, catalogue(language)("lsp.internal"), None
    data = dict(error.data)
    problems = data.get("problems")
    if isinstance(problems, list):
        data["problems"] = [problem_info(problem, language) for problem in problems]
    return error.code, clip(explain(error, language), MESSAGE_LIMIT), data or None


def problem_info(problem: Mapping[str, Any], language: str) -> dict[str, Any]:
    """A piece's problem with its sentence in place of the catalogue key."""
    rest = {name: value for name, value in problem.items() if name not in ("key", "values")}
    return {"message": catalogue(language)(problem["key"], **problem["values"]), **rest}


def piece_info(entry: Any, language: str) -> PieceInfo:
    """A piece of the list (an entry of ``Client.pieces``) as clients see it; columns count code points."""
    return PieceInfo(
        name=entry.name,
        source=entry.source,
        path=str(entry.path),
        description=described(entry, catalogue(language)),
        shadows=list(entry.shadows),
        problems=[_problem(problem, language) for problem in entry.problems],
    )


def _problem(problem: Any, language: str) -> ProblemInfo:
    span = problem.span
    return ProblemInfo(
        severity=problem.severity,
        message=catalogue(language)(problem.key, **problem.values),
        range={
            "start": {"line": span.line, "character": span.column},
            "end": {"line": span.end_line, "character": span.end_column},
        },
        code=problem.code,
        fix=problem.fix,
    )


def path_of(uri: str) -> Path | None:
    """The file of a ``file:`` URI, of this machine also as ``localhost`` (RFC 8089); None for any other
    (``untitled:`` and its kin have none), and for one that no file system can hold.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or scheme.lower() != "file":
        return None
    if rest.lower().startswith("//localhost/"):
        rest = f"//{rest[len('//localhost') :]}"
    path = uris.to_fs_path(f"file:{rest}")
    return Path(path) if path and "\0" not in path else None


def uri_of(path: Path) -> str:
    """The ``file:`` URI of an absolute path."""
    return path.as_uri()
