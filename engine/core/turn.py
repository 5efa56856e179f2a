"""One turn of a movement as a pure decision: from a reply to a plan.

``advance`` is total: every reply gives a plan. The guards of ``engine.md`` section 4 that look at replies
live here; those that look at
movements live in ``hops``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from engine.core.jobs import TurnState
from engine.core.limits import Safety
from engine.core.outcome import ABORT, MovementResult
from engine.core.records import canonical
from engine.core.reply import Finish, Reply, ToolCall


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Run these calls in order."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class RefuseCalls:
    """Answer every call with ``prompt`` (a key of the prompts) instead of running it: the reply was cut."""

    calls: tuple[ToolCall, ...]
    prompt: str


@dataclass(frozen=True, slots=True)
class Nudge:
    """Keep the reply and append a reminder (a key of the prompts)."""

    prompt: str


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Drop the reply and make the same call again, quietly."""


@dataclass(frozen=True, slots=True)
class End:
    """The movement ends without a control call: a guard or a fault."""

    outcome: MovementResult


Plan = RunCalls | RefuseCalls | Nudge | AskAgain | End

REMINDERS = ("remind.first", "remind.second")


def advance(state: TurnState, reply: Reply, limits: Safety) -> tuple[TurnState, Plan]:
    """What to do with a reply, and what to remember for the next one."""
    if reply.empty:
        return _empty(state, limits)
    state = replace(state, iteration=state.iteration + 1, empty=0)
    if reply.finish is Finish.CUT and reply.calls:
        return _cut(state, reply, limits)
    if not reply.calls:
        return _text_only(state, reply, limits)
    state = replace(state, text_only=0, truncated=0)
    batch = batch_digest(reply.calls)
    repeats = state.repeats + 1 if batch == state.batch else 1
    state = replace(state, batch=batch, repeats=repeats)
    if repeats >= limits.repeated_calls:
        return state, _abort("repeated_calls", reply.text)
    if state.iteration > limits.max_iterations:
        return state, _abort("max_iterations", reply.text)
    return state, RunCalls(reply.calls)


def _empty(state: TurnState, limits: Safety) -> tuple[TurnState, Plan]:
    if state.empty < limits.empty_retries:
        return replace(state, empty=state.empty + 1), AskAgain()
    return state, End(MovementResult(next=None, reason="empty_response", retryable=True))


def _cut(state: TurnState, reply: Reply, limits: Safety) -> tuple[TurnState, Plan]:
    state = replace(state, truncated=state.truncated + 1, text_only=0)
    if state.truncated >= limits.truncated_limit:
        return state, _abort("truncated_reply", reply.text)
    return state, RefuseCalls(reply.calls, "result.truncated")


def _text_only(state: TurnState, reply: Reply, limits: Safety) -> tuple[TurnState, Plan]:
    state = replace(state, text_only=state.text_only + 1, batch="", repeats=0)
    if state.text_only >= limits.text_only_limit:
        return state, _abort("text_only_limit", reply.text)
    if state.iteration > limits.max_iterations:
        return state, _abort("max_iterations", reply.text)
    return state, Nudge(REMINDERS[min(state.text_only, len(REMINDERS)) - 1])


def _abort(reason: str, text: str) -> End:
    return End(MovementResult(next=ABORT, reason=reason, result=text.strip()))


def count_unknown(
    state: TurnState, all_unknown: bool, limits: Safety
) -> tuple[TurnState, MovementResult | None]:
    """Count replies in a row whose calls all name unknown tools; the limit ends the movement."""
    state = replace(state, unknown_tool=state.unknown_tool + 1 if all_unknown else 0)
    if state.unknown_tool >= limits.unknown_tool_limit:
        return state, MovementResult(next=ABORT, reason="unknown_tool")
    return state, None


def heard(state: TurnState) -> TurnState:
    """The counters once the person said something: the same calls as before may be right now."""
    return replace(state, batch="", repeats=0)


def batch_digest(calls: tuple[ToolCall, ...]) -> str:
    """What makes two batches the same: names and arguments in order, not ids. Where the arguments of no call
    can be read, it is the same failure whichever tools are named.
    """
    if all(call.arguments is None for call in calls):
        return digest([])
    return digest(
        [[call.name, call.raw if call.arguments is None else dict(call.arguments)] for call in calls]
    )


def digest(value: object) -> str:
    """SHA-256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()
