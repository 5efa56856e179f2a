"""From the chunks of any OpenAI-compatible server, or from one body, to a ``Reply``. Pure.

The kinds of faults it stands are listed in the tests, with the server that shows each where it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.messages import heal
from engine.core.reply import Delta, Finish, Reply, ToolCall
from engine.llm.arguments import parse_arguments
from engine.llm.reasoning import ReasoningSplitter, partial_end, split_orphan
from engine.llm.textcalls import MARKS, Tools, calls_in_text
from engine.llm.thoughts import merge_details, text_of_details
from engine.llm.toolcalls import CallGatherer, CallParts
from engine.llm.usage import UsageGatherer

CUT_REASONS = frozenset({"length", "max_tokens", "model_length", "content_filter", "safety", "recitation"})
"""Finish reasons after which nothing of the reply may be executed."""
BROKEN_REASONS = frozenset(
    {"error", "abort", "aborted", "cancelled", "canceled", "insufficient_system_resource"}
)
"""Finish reasons of servers that gave up in the middle: the reply is none."""
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_text")
_CUT = "the reply was cut off by the server (finish reason {reason}), so this call was not run"


@dataclass(frozen=True, slots=True)
class CallIds:
    """Where ids of calls come from: ``make`` gives one that is unique in the job, ``keep`` says whether a
    server's own may stay.
    """

    make: Callable[[], str]
    keep: Callable[[str], bool] = bool


class ReplyBuilder:
    """Gathers one reply. Feed it parsed chunks (or one body), then ``build``.

    ``tools`` are those offered; without tools the text is never searched for calls.
    """

    def __init__(self, tools: Tools | None = None) -> None:
        self._tools = tools or {}
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._splitter = ReasoningSplitter()
        self._thought: dict[str, list[str]] = {}
        self._details: list[dict[str, Any]] = []
        self._calls = CallGatherer(self._tools)
        self._usage = UsageGatherer()
        self._model = ""
        self._reason: str | None = None
        self._answer: tuple[object] | None = None
        self._shown = _Shown()
        self.error: object = None
        """An error that came instead of a chunk, as the server sent it."""

    @property
    def finish_reason(self) -> str | None:
        """The finish reason in lower case, None while none was seen."""
        return self._reason

    def feed(self, chunk: Mapping[str, Any], *, whole: bool = False) -> list[Delta]:
        """Takes a chunk (``whole``: a body that does not stream) and returns what of it can be shown now."""
        if chunk.get("error") and self.error is None:
            self.error = chunk["error"]
        elif chunk.get("object") == "error" and self.error is None:
            self.error = dict(chunk)
        self._usage.add(chunk)
        if isinstance(chunk.get("model"), str) and chunk["model"]:
            self._model = chunk["model"]
        choices = chunk.get("choices")
        choice = self._own_choice(choices if isinstance(choices, list) else ())
        if choice is None:
            return []
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason and self._reason not in CUT_REASONS | BROKEN_REASONS:
            self._reason = reason.lower()  # what was cut stays cut, whatever is said after it
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            return self._delta(delta, whole=whole)
        message = choice.get("message")
        if isinstance(message, Mapping) and (whole or not self._begun):
            return self._delta(message, whole=True)
        return self._delta({"content": choice.get("text")}, whole=whole)

    def _own_choice(self, choices: Sequence[object]) -> Mapping[str, Any] | None:
        """The one answer that is read, of several that a server may give: the one that comes first."""
        found = [choice for choice in choices if isinstance(choice, Mapping)]
        if self._answer is None and found:
            self._answer = (found[0].get("index") or 0,)
        return next((choice for choice in found if (choice.get("index") or 0,) == self._answer), None)

    def build(self, ids: CallIds, *, seconds: float = 0.0, model: str = "") -> Reply:
        """The reply. ``seconds`` and ``model`` are what the caller knows; the server's own model wins."""
        text, reasoning = self._splitter.close()
        self._text.append(text)
        self._reasoning.append(reasoning)
        visible, thought = heal("".join(self._text)), heal("".join(self._reasoning))
        if not thought.strip():
            visible, thought = split_orphan(visible)
        cut = self._reason is not None and self._reason in CUT_REASONS
        gathered = [call for call in self._calls.calls if not call.blank]
        found = calls_in_text(visible, self._tools)
        written = [CallParts(None, name=one.name, given=one.arguments) for one in found.calls]
        if not gathered or _all_among(written, gathered):
            visible, thought = found.text, thought + found.reasoning
            gathered = gathered or written
        return Reply(
            text=visible,
            reasoning=thought.strip(),
            calls=self._tool_calls(gathered, ids, cut=cut),
            finish=Finish.CUT if cut else Finish.STOP,
            usage=self._usage.result(),
            seconds=seconds,
            model=self._model or model,
            thought=self._given_thought(),
        )

    def _given_thought(self) -> dict[str, object]:
        given: dict[str, object] = {name: heal("".join(pieces)) for name, pieces in self._thought.items()}
        return {**given, "reasoning_details": self._details} if self._details else given

    @property
    def _begun(self) -> bool:
        return bool(self._text or self._reasoning or self._calls.calls)

    def _delta(self, delta: Mapping[str, Any], *, whole: bool) -> list[Delta]:
        self._calls.add(delta.get("tool_calls"), whole=whole)
        if isinstance(delta.get("function_call"), Mapping):  # OpenAI's form before `tool_calls`
            self._calls.add([{"index": 0, "function": delta["function_call"]}], whole=whole)
        parts, thought = _parts(delta.get("content"))
        content = parts + _string(delta.get("refusal"))
        thought += self._thoughts(delta)
        text, inline = self._splitter.feed(content) if content else ("", "")
        if thought or inline:
            self._reasoning.append(thought + inline)
        if text:
            self._text.append(text)
        shown = self._shown.next(text, hide_calls=bool(self._tools))
        deltas = [Delta(reasoning=heal(thought + inline))] if thought or inline else []
        return [*deltas, Delta(text=shown)] if shown else deltas

    def _thoughts(self, delta: Mapping[str, Any]) -> str:
        """The reasoning of a chunk, said once though servers put it into several fields; each field is kept
        as it came.
        """
        found = ""
        for name in _REASONING_FIELDS:
            if isinstance(delta.get(name), str) and delta[name]:
                self._thought.setdefault(name, []).append(delta[name])
                found = found or delta[name]
        merge_details(self._details, delta.get("reasoning_details"))
        return found or text_of_details(delta.get("reasoning_details"))

    def _tool_calls(self, found: Sequence[CallParts], ids: CallIds, *, cut: bool) -> tuple[ToolCall, ...]:
        used: set[str] = set()
        calls: list[ToolCall] = []
        for call in found:
            given_id = call.call_id
            call_id = given_id if given_id and given_id not in used and ids.keep(given_id) else ids.make()
            used.add(call_id)
            arguments = parse_arguments(call.arguments)
            value, problem = arguments.value, arguments.problem
            if cut:
                value, problem = None, _CUT.format(reason=self._reason)
            calls.append(ToolCall(call_id, heal(call.name), value, arguments.raw, problem, call.extra))
        return tuple(calls)


class _Shown:
    """What of the text may be streamed to a person: no half characters, and nothing from a call in the text
    on.
    """

    def __init__(self) -> None:
        self._held = ""
        self._hidden = False

    def next(self, text: str, *, hide_calls: bool) -> str:
        if self._hidden or not text:
            return ""
        self._held += text
        marks = [place for mark in MARKS if (place := self._held.find(mark)) >= 0] if hide_calls else []
        if marks:
            self._hidden = True
            return heal(self._held[: min(marks)])
        keep = partial_end(self._held, *MARKS) if hide_calls else 0
        if not keep and "\ud800" <= self._held[-1] <= "\udbff":
            keep = 1
        end = len(self._held) - keep
        ready, self._held = self._held[:end], self._held[end:]
        return heal(ready)


def _all_among(written: Sequence[CallParts], gathered: Sequence[CallParts]) -> bool:
    """Whether the server parsed every call that it also left in the text."""
    known = [(call.name, parse_arguments(call.arguments).value) for call in gathered]
    return all((call.name, parse_arguments(call.arguments).value) in known for call in written)


def _parts(content: object) -> tuple[str, str]:
    """(text, reasoning) of a content that is a string or a list of parts (Mistral's reasoning models)."""
    if isinstance(content, str):
        return content, ""
    text, thought = "", ""
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, Mapping):
            text += part if isinstance(part, str) else ""
        elif part.get("type") == "thinking":
            inner = part.get("thinking")
            thought += inner if isinstance(inner, str) else _parts(inner)[0]
        elif isinstance(part.get("text"), str):
            text += part["text"]
    return text, thought


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
