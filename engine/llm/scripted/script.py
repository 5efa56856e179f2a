"""What the scripted model answers: a script maps a request to a reply, where possible from the request alone.

A stateless script gives the same answer to the same request, so a job that is killed and taken up again goes
on as if nothing had happened: exactly what a real model server would do.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

MOVEMENT_HEADING = re.compile(r"^## (?:Movement: |現在のステップ: )(\S.*?)\s*$", re.MULTILINE)


class ScriptExhausted(Exception):
    """The script has no reply for this request. The server answers 400, which no client retries."""


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """One tool call of the conversation with its result."""

    call_id: str
    name: str
    arguments: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    """A parsed chat completion request.

    ``start`` is the index of the message from which turns are counted (``ByMovement`` sets it to the
    movement's guidance); ``number`` counts the requests of this server from 1.
    """

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    model: str = ""
    tool_choice: object = None
    stream: bool = False
    number: int = 0
    start: int = 0

    @property
    def turn(self) -> int:
        """How many assistant messages the conversation already holds, from ``start`` on: the index of the
        next reply.
        """
        return sum(1 for message in self.messages[self.start :] if message.get("role") == "assistant")

    @property
    def system(self) -> str:
        """The system text, empty if there is none."""
        return next((text_of(m) for m in self.messages if m.get("role") == "system"), "")

    @property
    def last_user(self) -> str:
        """The text of the last user message, empty if there is none."""
        return next((text_of(m) for m in reversed(self.messages) if m.get("role") == "user"), "")

    @property
    def movement(self) -> str | None:
        """The current movement: the last guidance heading of the last user message that holds one."""
        found = self.find_movement()
        return found[1] if found else None

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the tools offered, in order."""
        return tuple(str((tool.get("function") or {}).get("name", "")) for tool in self.tools)

    def find_movement(self) -> tuple[int, str] | None:
        """Index of the message that holds the current movement's heading, and the movement's name."""
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index].get("role") == "user":
                names = MOVEMENT_HEADING.findall(text_of(self.messages[index]))
                if names:
                    return index, str(names[-1])
        return None

    def results(self, name: str | None = None) -> list[ScriptResult]:
        """Tool results of the whole conversation in order, those of one tool if ``name`` is given."""
        calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
        found: list[ScriptResult] = []
        for message in self.messages:
            for tool_call in message.get("tool_calls") or ():
                function = tool_call.get("function") or {}
                calls[str(tool_call.get("id"))] = (
                    str(function.get("name")),
                    _arguments(function.get("arguments")),
                )
            if message.get("role") == "tool":
                call_id = str(message.get("tool_call_id"))
                tool, arguments = calls.get(call_id, ("", {}))
                found.append(ScriptResult(call_id, tool, arguments, text_of(message)))
        return [result for result in found if name is None or result.name == name]

    def last_result(self, name: str | None = None) -> str:
        """Text of the last result (of one tool), empty if there is none."""
        results = self.results(name)
        return results[-1].text if results else ""

    def contains(self, text: str) -> bool:
        """True if ``text`` occurs in any message."""
        return any(text in text_of(message) for message in self.messages)


@dataclass(frozen=True, slots=True)
class ScriptReply:
    """One reply, or one fault.

    ``calls`` are (name, arguments). ``finish`` None means the natural one. ``delay`` is seconds per token,
    None the server's own. Faults: ``status`` with ``headers`` and ``body`` is an HTTP error; ``raw_chunks``
    is the response body piece by piece, with ``content_type`` None for no such header; ``drop_after`` closes
    the connection after so many bytes of the body, ``reset`` makes that a TCP reset; ``close_delimited``
    sends the body without length or chunks, so that its end is the connection's. ``prompt_tokens`` is what is
    reported instead of the true count.
    """

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    finish: str | None = None
    reasoning: str = ""
    delay: float | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    raw_chunks: tuple[bytes, ...] | None = None
    content_type: str | None = "text/event-stream"
    drop_after: int | None = None
    reset: bool = False
    close_delimited: bool = False
    prompt_tokens: int | None = None


class Script(Protocol):
    """Anything that answers requests. ``reply`` runs in a thread of its own, so it may block on an event of a
    test.
    """

    def reply(self, request: ScriptRequest) -> ScriptReply:
        """The reply to ``request``. Raises ``ScriptExhausted`` if the script has none."""
        ...


Step = ScriptReply | Callable[[ScriptRequest], ScriptReply]
"""A fixed reply, or one computed from the request."""


def say(text: str, **fields: Any) -> ScriptReply:
    """A reply that is text only."""
    return ScriptReply(text=text, **fields)


def call(name: str, /, **arguments: Any) -> ScriptReply:
    """A reply that is one tool call."""
    return ScriptReply(calls=((name, arguments),))


@dataclass(frozen=True, slots=True)
class Function:
    """A script that is one function."""

    function: Callable[[ScriptRequest], ScriptReply]

    def reply(self, request: ScriptRequest) -> ScriptReply:
        """The function's reply."""
        return self.function(request)


class Sequence:
    """The n-th reply for the n-th assistant turn, counted from the request: stateless."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.steps = tuple(steps)

    def reply(self, request: ScriptRequest) -> ScriptReply:
        """The step of this turn. Raises ``ScriptExhausted`` after the last."""
        if request.turn >= len(self.steps):
            raise ScriptExhausted(
                f"the script has {len(self.steps)} replies, turn {request.turn + 1} was asked for"
            )
        return _resolve(self.steps[request.turn], request)


class Queue:
    """The next reply for each request, whatever it holds: stateful, for faults and retries."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = list(steps)
        self._lock = threading.Lock()

    def reply(self, request: ScriptRequest) -> ScriptReply:
        """The next step. Raises ``ScriptExhausted`` after the last."""
        with self._lock:
            if not self._steps:
                raise ScriptExhausted(f"the queue of replies is empty at request {request.number}")
            step = self._steps.pop(0)
        return _resolve(step, request)


class ByMovement:
    """A script for each movement, found by the guidance heading; turns are counted from the guidance on.

    A value is a script, a list of steps (a ``Sequence``), or one step. ``otherwise`` answers where no heading
    is found or the movement is not listed.
    """

    def __init__(
        self, movements: Mapping[str, Script | Iterable[Step] | Step], otherwise: Script | None = None
    ) -> None:
        self.movements = {name: as_script(value) for name, value in movements.items()}
        self.otherwise = otherwise

    def reply(self, request: ScriptRequest) -> ScriptReply:
        """The movement's reply. Raises ``ScriptExhausted`` for a movement that the script does not know."""
        found = request.find_movement()
        if found is not None and found[1] in self.movements:
            return self.movements[found[1]].reply(replace(request, start=found[0]))
        if self.otherwise is not None:
            return self.otherwise.reply(request)
        where = f"movement {found[1]!r}" if found else "a request without a movement heading"
        raise ScriptExhausted(f"the script has no replies for {where}; it knows {', '.join(self.movements)}")


def as_script(value: Script | Iterable[Step] | Step) -> Script:
    """A script from whatever a test finds handy: a script, a list of steps, one reply or a function."""
    if isinstance(value, ScriptReply):
        return Function(lambda _request: value)
    reply = getattr(value, "reply", None)
    if reply is not None:
        return Function(reply)
    if callable(value):
        return Function(value)
    if isinstance(value, Iterable):
        return Sequence(value)
    raise TypeError(f"not a script: {value!r}")


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def _resolve(step: Step, request: ScriptRequest) -> ScriptReply:
    return step if isinstance(step, ScriptReply) else step(request)


def _arguments(value: object) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}
