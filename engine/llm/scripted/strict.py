"""What the strictest servers refuse in a conversation, as one check: so that no request of ours ever needs a
tolerant one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.llm.scripted.script import text_of

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"[!-~]+")


def fault_of(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The first fault of a conversation in one sentence, None if there is none.

    Checked: roles; exactly one tool message per call id, directly after the assistant message; unique ids of
    visible ASCII; names that OpenAI accepts; arguments that are a string holding a JSON object; no empty
    message; no halves of characters; no two user messages in a row; the end.
    """
    if not messages:
        return "messages: at least one message is needed"
    open_ids: list[str] = []
    seen: set[str] = set()
    previous = ""
    for index, message in enumerate(messages):
        role = str(message.get("role"))
        where = f"messages[{index}] ({role})"
        if _has_halves(message):
            return f"{where}: half a surrogate pair is no text"
        if open_ids and role != "tool":
            return f"{where}: tool calls without a result before it: {', '.join(open_ids)}"
        fault = _message_fault(message, role, index, previous, open_ids)
        if fault is not None:
            return f"{where}: {fault}"
        if role == "tool":
            open_ids.remove(str(message.get("tool_call_id")))
        for call in message.get("tool_calls") or ():
            if call["id"] in seen:
                return f"{where}: the tool call id {call['id']!r} was used before"
            seen.add(call["id"])
            open_ids.append(call["id"])
        previous = role
    if open_ids:
        return f"tool calls without a result at the end: {', '.join(open_ids)}"
    return "the last message is the assistant's own" if previous == "assistant" else None


def _message_fault(
    message: Mapping[str, Any], role: str, index: int, previous: str, open_ids: Sequence[str]
) -> str | None:
    match role:
        case "system" | "developer":
            return None if index == 0 else "the system message must be the first"
        case "user":
            if previous == "user":
                return "conversation roles must alternate, two user messages in a row"
            return None if text_of(message).strip() else "the message is empty"
        case "assistant":
            if not message.get("tool_calls") and not text_of(message).strip():
                return "neither content nor tool calls"
            return next(filter(None, map(_call_fault, message.get("tool_calls") or ())), None)
        case "tool":
            if message.get("tool_call_id") not in open_ids:
                return f"no open tool call has the id {message.get('tool_call_id')!r}"
            if not isinstance(message.get("content"), str):
                return "the content of a tool message must be a string"
            return None if message["content"].strip() else "the message is empty"
        case _:
            return f"unknown role {role!r}"


def _call_fault(call: Mapping[str, Any]) -> str | None:
    function = call.get("function") or {}
    if not isinstance(call.get("id"), str) or not _ID.fullmatch(call["id"]) or call.get("type") != "function":
        return "a tool call needs an id of visible characters and the type `function`"
    if not _NAME.fullmatch(str(function.get("name", ""))):
        return f"the function name {function.get('name')!r} is not allowed"
    try:
        arguments = json.loads(function["arguments"], parse_constant=_refuse)
    except (KeyError, TypeError, ValueError) as error:
        return f"the arguments of {call['id']} cannot be parsed: {error}"
    return None if isinstance(arguments, dict) else f"the arguments of {call['id']} are not an object"


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _has_halves(message: Mapping[str, Any]) -> bool:
    try:
        json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
