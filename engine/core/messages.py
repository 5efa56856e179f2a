"""Messages as the bytes that are journalled and sent: encoded once, valid for the strictest server.

The cache law of the specification rests on it: what was sent once is sent again byte for byte.
"""

from __future__ import annotations

import json
import re

from engine.core.reply import Reply, ToolCall

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_THOUGHT_TEXTS = {"reasoning_content", "reasoning"}


def heal(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced by U+FFFD: UTF-8 can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def encode_message(role: str, content: str) -> bytes:
    """A ``system``, ``user`` or text-only ``assistant`` message. Raises ``ValueError`` for an empty one."""
    if not content.strip():
        raise ValueError(f"an empty {role} message must not be sent: strict servers refuse it")
    return _dump({"role": role, "content": content})


def encode_tool_result(call_id: str, text: str) -> bytes:
    """The result of one tool call; one without a text says so: some servers refuse an empty one."""
    content = text if text.strip() else "(nothing)"
    return _dump({"role": "tool", "tool_call_id": call_id, "content": content})


def encode_assistant(reply: Reply) -> bytes:
    """What the model said, for its own history: text (null if there are only calls) and calls, no reasoning.

    What a server keeps on a call of its own (``extra_content``: the signature of its thoughts) goes back with
    the call: it refuses the next request without.

    A name that OpenAI would refuse is made harmless. Raises ``ValueError`` for an empty reply.
    """
    if reply.empty:
        raise ValueError("an empty reply has no place in the history: strict servers refuse it")
    message: dict[str, object] = {"role": "assistant", "content": reply.text if reply.text.strip() else None}
    if reply.calls:
        message["tool_calls"] = [_call(call) for call in reply.calls]
    return _dump(message)


def encode_thought(reply: Reply) -> bytes:
    """The reasoning of a reply as a JSON object, kept beside the message for a server that wants it back;
    empty if there is none.
    """
    thought = dict(reply.thought)
    if reply.reasoning and not _THOUGHT_TEXTS & thought.keys():
        thought["reasoning"] = reply.reasoning
    return _dump(thought) if thought else b""


def _call(call: ToolCall) -> dict[str, object]:
    name = _NOT_IN_NAME.sub("_", call.name)[:_LONGEST_NAME] or "unnamed"
    function = {"name": name, "arguments": call.raw}
    encoded: dict[str, object] = {"id": call.call_id, "type": "function", "function": function}
    return {**encoded, "extra_content": call.extra} if call.extra else encoded


def _dump(message: dict[str, object]) -> bytes:
    return heal(json.dumps(message, ensure_ascii=False, separators=(",", ":"))).encode()
