"""The body of a request, joined from stored bytes, and what its answer's headers say. Pure.

Messages and tools are sent as the very bytes given: encoded once, they can never differ from what the server
has cached. What changes from call to call stands after them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from engine.core.messages import heal
from engine.llm.textcalls import Tools
from engine.llm.thoughts import Habit, with_thoughts
from engine.llm.worker_config import ModelWorker
from engine.ports import ModelRequest

_PLAIN = Habit()


def request_body(
    worker: ModelWorker,
    request: ModelRequest,
    without: Collection[str] = (),
    habit: Habit = _PLAIN,
    slot: int | None = None,
) -> bytes:
    """The body of a streamed chat completion; ``without`` names the parameters that this server refused
    before, ``habit`` what it is known to want of the reasoning, ``slot`` the slot of a llama-server.
    """
    head: dict[str, Any] = {"stream": True}
    model = request.model or worker.model
    if model:
        head = {"model": model, **head}
    if "stream_options" not in without:
        head["stream_options"] = {"include_usage": True}
    if worker.temperature is not None:
        head["temperature"] = worker.temperature
    if worker.max_tokens is not None:
        head["max_tokens"] = worker.max_tokens
    head |= worker.extra_body
    parts = [_dump(head)[:-1]]
    if request.tools.strip() not in (b"", b"[]"):
        parts += [b',"tools":', request.tools]
    messages = with_thoughts(request.messages, request.thoughts, habit)
    parts += [b',"messages":[', b",".join(messages), b"]"]
    if request.tool_choice and "tool_choice" not in without:
        parts += [b',"tool_choice":', _dump(request.tool_choice)]
    if slot is not None and "id_slot" not in without and "id_slot" not in worker.extra_body:
        parts += [b',"id_slot":', _dump(slot)]
    return b"".join([*parts, b"}"])


def offered(tools: bytes) -> Tools:
    """The tools in a ``tools`` array: the schema of the arguments by name."""
    entries = json.loads(tools) if tools.strip() else []
    functions = [entry["function"] for entry in entries]
    return {str(function["name"]): function.get("parameters") or {} for function in functions}


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the server asks to wait: ``retry-after-ms``, ``Retry-After`` as seconds or a date."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        given = headers.get(name, "").strip()
        try:
            seconds = float(given) * scale
        except ValueError:
            continue
        if 0 <= seconds < 1e9:
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None


def _dump(value: object) -> bytes:
    return heal(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()
