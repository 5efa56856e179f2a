"""The bytes of the scripted model's answers: stream chunks, whole bodies, errors. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.llm.scripted.script import ScriptReply
from engine.llm.scripted.slots import tokens_of

CREATED = 1_760_000_000
_PIECE = re.compile(r"\s*\S{1,6}|\s+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request; ``cached`` is the part of ``prompt`` that a slot already held."""

    prompt: int
    cached: int
    completion: int

    def body(self) -> dict[str, Any]:
        """The ``usage`` object of OpenAI."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }

    def timings(self) -> dict[str, Any]:
        """The ``timings`` object of llama-server."""
        return {"cache_n": self.cached, "prompt_n": self.prompt - self.cached, "predicted_n": self.completion}


def completion_tokens(reply: ScriptReply) -> int:
    """Tokens that the model would have written for this reply."""
    calls = "".join(name + dump(arguments) for name, arguments in reply.calls)
    return len(tokens_of(reply.reasoning + reply.text + calls))


def finish_of(reply: ScriptReply) -> str:
    """The finish reason: the script's own, else the natural one."""
    return reply.finish or ("tool_calls" if reply.calls else "stop")


def call_ids(messages: Sequence[Mapping[str, Any]], count: int) -> list[str]:
    """Ids for the next calls, unique in this conversation and the same whenever the same request is sent
    again.
    """
    before = sum(len(message.get("tool_calls") or ()) for message in messages)
    return [f"call_{before + offset:04d}" for offset in range(count)]


def stream_events(reply: ScriptReply, ids: Sequence[str], model: str, usage: Usage | None) -> Iterator[bytes]:
    """The reply as server-sent events, a few characters each; the last is ``[DONE]``."""

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data({**_envelope(model, "chat.completion.chunk"), "choices": [choice]})

    yield event({"role": "assistant", "content": None if reply.calls and not reply.text else ""})
    for piece in _PIECE.findall(reply.reasoning):
        yield event({"reasoning_content": piece})
    for piece in _PIECE.findall(reply.text):
        yield event({"content": piece})
    for index, ((name, arguments), call_id) in enumerate(zip(reply.calls, ids, strict=True)):
        head = {
            "index": index,
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        yield event({"tool_calls": [head]})
        for piece in _PIECE.findall(dump(arguments)):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield event({}, finish_of(reply))
    if usage is not None:
        tail = {"choices": [], "usage": usage.body(), "timings": usage.timings()}
        yield _data({**_envelope(model, "chat.completion.chunk"), **tail})
    yield b"data: [DONE]\n\n"


def whole_body(reply: ScriptReply, ids: Sequence[str], model: str, usage: Usage) -> bytes:
    """The reply as one JSON body, for requests that do not stream."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": dump(arguments)}}
            for (name, arguments), call_id in zip(reply.calls, ids, strict=True)
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish_of(reply)}
    body = {
        **_envelope(model, "chat.completion"),
        "choices": [choice],
        "usage": usage.body(),
        "timings": usage.timings(),
    }
    return dump(body).encode()


def error_body(status: int, message: str, kind: str, **fields: Any) -> bytes:
    """An error as OpenAI and llama-server word it."""
    return dump({"error": {"code": status, "message": message, "type": kind, **fields}}).encode()


def dump(value: object) -> str:
    """Compact JSON, characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _data(value: object) -> bytes:
    return f"data: {dump(value)}\n\n".encode()


def _envelope(model: str, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": CREATED, "model": model}
