"""The forms in which models write calls when nobody parses them for them. Pure.

A reader gets the text, the place right after the form's opening, and the tools offered; it gives the calls
and the place after them, or None if that is no call of a tool that was offered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Tools = Mapping[str, Mapping[str, Any]]
"""The tools offered: the JSON Schema of the arguments by name."""

CHANNEL, START = "<|channel|>", "<|start|>"
_DECODER = json.JSONDecoder(strict=False)
_ARGUMENTS = ("arguments", "parameters")
_PREFIX = "functions."
_SPACE = re.compile(r"\s*")
_BETWEEN = re.compile(r"\s*[;,]?\s*")
_JSON_NAME = re.compile(r'\s*\{\s*"name"\s*:\s*"([^"\\]{1,80})"')
_JSON_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:\s*')
_HERMES_END = re.compile(r"[\s}\]]*</tool_call>")
_HERMES_NEXT = re.compile(r"</tool_call>|\n[ \t]*<tool_call>|\Z")
_FUNCTION = re.compile(r"\s*(?:<function=)?\"?([\w.:-]{1,80})\"?\s*>")
_FUNCTION_END = re.compile(r"\s*</function>(?:\s*</tool_call>)?|\s*</tool_call>|\s*\Z")
_PARAMETER = re.compile(r"\s*<parameter=\"?([\w.-]{1,80})\"?\s*>\n?")
_PARAMETER_END = re.compile(r"(?:\n[ \t]*)?</parameter>(?=\s*(?:<parameter=|</function>|</tool_call>|\Z))")
_KEYED = re.compile(r"\s*([\w.:-]{1,80})\s*(?=<arg_key>|</tool_call>)")
_KEY = re.compile(r"\s*<arg_key>([^<]{1,80})</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_KEYED_END = re.compile(r"\s*</tool_call>")
_NAMED = re.compile(r"\s*([\w.-]{1,80})(?:\[CALL_ID\]\w{0,80})?(?:\[ARGS\])?\s*(?=\{)")
_MISTRAL_NEXT = re.compile(r"\s*\[TOOL_CALLS\]")
_TOKENS = re.compile(
    r"\s*(?:<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?|<\|tool_call_begin\|>)\s*([\w.-]{1,80})(?::\d+)?"
    r"\s*(?:<｜tool▁sep｜>|<\|tool_call_argument_begin\|>)?\s*(?:```json\s*)?(?=\{)"
)
_TOKENS_END = re.compile(r"\s*(?:```)?\s*(?:<｜tool▁call▁end｜>|<\|tool_call_end\|>)")
_SEGMENT = re.compile(
    r"(?:<\|start\|>([^<]{0,200}))?(?:<\|channel\|>([^<]{0,200}))?(?:<\|constrain\|>[^<]{0,80})?<\|message\|>(.*?)"
    r"(?:<\|end\|>|<\|call\|>|<\|return\|>|(?=<\|start\|>)|(?=<\|channel\|>)|\Z)\s*",
    re.DOTALL,
)
_RECIPIENT = re.compile(r"\bto=([\w.-]{1,80})")


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call found in the text; ``arguments`` as the model gave them."""

    name: str
    arguments: object


@dataclass(slots=True)
class Block:
    """The calls of a block, and the place after it."""

    calls: list[TextCall]
    end: int


@dataclass(slots=True)
class Said:
    """What a message in channels says."""

    text: str = ""
    reasoning: str = ""
    calls: list[TextCall] = field(default_factory=list)


Reader = Callable[[str, int, Tools], "Block | None"]


def json_calls(text: str, at: int, tools: Tools) -> Block | None:
    """One or more JSON calls, one after the other or in an array."""
    calls: list[TextCall] = []
    while True:
        start = _after(_BETWEEN if calls else _SPACE, text, at)
        if text[start : start + 1] not in ("{", "["):
            return Block(calls, at) if calls else None
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            return None
        found = [_as_call(entry, tools) for entry in (value if isinstance(value, list) else [value])]
        if not found or None in found:
            return None
        calls += [call for call in found if call is not None]
        at = end


def _hermes(text: str, at: int, tools: Tools) -> Block | None:
    """What stands between ``<tool_call>`` and its end: JSON, or one of the forms with tags."""
    if text.startswith("<function=", _after(_SPACE, text, at)):
        return _function(text, at, tools)
    if _KEYED.match(text, at):
        return _keyed(text, at, tools)
    block = json_calls(text, at, tools)
    if block is not None:
        closed = _HERMES_END.match(text, block.end)
        return Block(block.calls, closed.end() if closed else block.end)
    return _broken(text, at, tools)


def _broken(text: str, at: int, tools: Tools) -> Block | None:
    """A call whose JSON is broken but whose name can be read: the broken text stays, for the model to be told
    of.
    """
    named = _JSON_NAME.match(text, at)
    name = _known(named[1], tools) if named else None
    stop = _HERMES_NEXT.search(text, at)
    if named is None or name is None or stop is None:
        return None
    body = text[at : stop.start()].strip()
    try:
        json.loads(body, strict=False)
        return None  # JSON, but no call
    except (ValueError, RecursionError):
        given = _JSON_ARGUMENTS.search(text, named.end(), stop.start())
    end = stop.end() if stop[0].startswith("</") else stop.start()
    return Block([TextCall(name, text[given.end() : stop.start()].strip() if given else body)], end)


def _function(text: str, at: int, tools: Tools) -> Block | None:
    """``Name>`` after ``<function=``: parameters in tags (Qwen), or a JSON object (Llama)."""
    named = _FUNCTION.match(text, at)
    name = _known(named[1], tools) if named else None
    if named is None or name is None:
        return None
    at = named.end()
    start = _after(_SPACE, text, at)
    arguments: object
    if text[start : start + 1] == "{":
        decoded = _object(text, start)
        if decoded is None:
            return None
        arguments, at = decoded
    else:
        values: dict[str, object] = {}
        while (parameter := _PARAMETER.match(text, at)) is not None:
            end = _PARAMETER_END.search(text, parameter.end())
            if end is None:
                return None
            values[parameter[1]] = _typed(text[parameter.end() : end.start()], name, parameter[1], tools)
            at = end.end()
        arguments = values
    closed = _FUNCTION_END.match(text, at)
    return Block([TextCall(name, arguments)], closed.end()) if closed else None


def _keyed(text: str, at: int, tools: Tools) -> Block | None:
    """GLM: the name, then keys and values in tags."""
    named = _KEYED.match(text, at)
    name = _known(named[1], tools) if named else None
    if named is None or name is None:
        return None
    at = named.end()
    values: dict[str, object] = {}
    while (pair := _KEY.match(text, at)) is not None:
        values[pair[1].strip()] = _typed(pair[2], name, pair[1].strip(), tools)
        at = pair.end()
    closed = _KEYED_END.match(text, at)
    return Block([TextCall(name, values)], closed.end()) if closed else None


def _mistral(text: str, at: int, tools: Tools) -> Block | None:
    """An array of JSON calls, or ``Name[ARGS]{…}``, each with a ``[TOOL_CALLS]`` of its own."""
    calls: list[TextCall] = []
    while True:
        block = json_calls(text, at, tools) or _named(_NAMED, None, text, at, tools)
        if block is None:
            return None
        calls += block.calls
        again = _MISTRAL_NEXT.match(text, block.end)
        if again is None:
            return Block(calls, block.end)
        at = again.end()


def _tokens(text: str, at: int, tools: Tools) -> Block | None:
    """DeepSeek and Kimi: each call between special tokens, all of them in a section."""
    calls: list[TextCall] = []
    while (block := _named(_TOKENS, _TOKENS_END, text, at, tools)) is not None:
        calls += block.calls
        at = block.end
    return Block(calls, at) if calls else None


def _named(
    head: re.Pattern[str], close: re.Pattern[str] | None, text: str, at: int, tools: Tools
) -> Block | None:
    """A name by ``head``, a JSON object, and ``close``."""
    named = head.match(text, at)
    name = _known(named[1], tools) if named else None
    decoded = _object(text, named.end()) if named and name else None
    if name is None or decoded is None:
        return None
    closed = close.match(text, decoded[1]) if close else None
    if close and closed is None:
        return None
    return Block([TextCall(name, decoded[0])], closed.end() if closed else decoded[1])


FORMS: dict[str, Reader] = {
    "<tool_call>": _hermes,
    "<function=": _function,
    "[TOOL_CALLS]": _mistral,
    "<|python_tag|>": json_calls,
    "<|tool_calls_section_begin|>": _tokens,
    "<｜tool▁calls▁begin｜>": _tokens,
}
"""The reader of each form by its opening."""


def channels(text: str, start: int, tools: Tools) -> Said | None:
    """gpt-oss' channels from ``start`` to the end: analysis, calls to functions, and what is for the person.
    None if something else is among them.
    """
    said = Said()
    at = start
    while at < len(text):
        segment = _SEGMENT.match(text, at)
        if segment is None:
            return None
        at = segment.end()
        head, body = f"{segment[1] or ''} {segment[2] or ''}", segment[3]
        recipient = _RECIPIENT.search(head)
        if recipient is not None:
            name = _known(recipient[1], tools)
            if name is None:
                return None
            said.calls.append(TextCall(name, body))
        elif (segment[2] or "").strip().startswith("analysis"):
            said.reasoning += body
        else:
            said.text += body
    return said


def _as_call(value: Any, tools: Tools) -> TextCall | None:
    """A call if the object is one and nothing else: a name, arguments, at most an id and a type."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("function"), Mapping) and set(value) <= {"type", "id", "function"}:
        value = value["function"]
    given = [key for key in _ARGUMENTS if key in value]
    name = _known(value.get("name"), tools)
    if name is None or len(given) != 1 or not set(value) <= {"name", "id", "type", *given}:
        return None
    arguments = value[given[0]]
    return TextCall(name, arguments) if isinstance(arguments, str | dict) or arguments is None else None


def _known(name: object, tools: Tools) -> str | None:
    """The name if it means a tool that was offered: as it is, in other letter case, or with the one prefix
    that models know.
    """
    if not isinstance(name, str):
        return None
    plain = name.removeprefix(_PREFIX)
    return plain if plain in tools or plain.casefold() in {tool.casefold() for tool in tools} else None


def _typed(value: str, tool: str, key: str, tools: Tools) -> object:
    """A value that was written as text: by the tool's schema JSON, unless a text is wanted."""
    properties = tools.get(tool, {}).get("properties")
    schema = properties.get(key) if isinstance(properties, Mapping) else None
    wanted = schema.get("type", "string") if isinstance(schema, Mapping) else "string"
    if wanted == "string" or (isinstance(wanted, list) and "string" in wanted):
        return value
    try:
        return json.loads(value.strip().lower() if wanted == "boolean" else value)
    except (ValueError, RecursionError):
        return value


def _object(text: str, at: int) -> tuple[object, int] | None:
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, dict) else None


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
