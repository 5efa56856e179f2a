"""One movement: call the model, decide, run the calls, until something ends it.

The loop has one entry for three situations: a fresh movement, a conversation restored after a crash, and one
that goes on after an approval.
It looks at the journalled messages: calls without a result are run, else the model is asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from engine.batch import Batch, Ended
from engine.core.context import ContextManager
from engine.core.errors import ModelFault
from engine.core.messages import encode_assistant, encode_message, encode_tool_result
from engine.core.outcome import MovementResult
from engine.core.records import Event, Message, NewRequest
from engine.core.reply import Delta, Reply, ToolCall
from engine.core.turn import AskAgain, End, Nudge, RefuseCalls, RunCalls, advance, count_unknown
from engine.kit import JobRun, log
from engine.ports import ModelRequest
from engine.toolbox import resolve_name


@dataclass(frozen=True, slots=True)
class MovementEnd:
    """How a movement ended, what the person is asked, and the messages a conversation that goes on needs
    first.
    """

    outcome: MovementResult
    request: NewRequest | None = None
    tail: tuple[Message, ...] = ()


async def run_movement(run: JobRun) -> MovementEnd:
    """Work on the current movement until it ends. Raises ``LeaseLost``, ``StoreFault`` and cancellation."""
    while True:
        calls, answered = unanswered(run.messages, run.fresh)
        if calls:
            if (end := await _run_calls(run, calls, answered)) is not None:
                return end
            continue
        await _deliver_news(run)
        try:
            reply = await _ask_model(run)
        except ModelFault as fault:
            return _faulted(run, fault)
        if (end := await _take(run, reply)) is not None:
            return end


async def _run_calls(run: JobRun, calls: Sequence[ToolCall], answered: frozenset[str]) -> MovementEnd | None:
    batch = Batch(run, calls, answered)
    run.turn, too_many = count_unknown(run.turn, batch.all_unknown, run.kit.config.safety)
    if too_many is not None:
        return MovementEnd(too_many)
    ended = await batch.execute()
    return None if ended is None else finish_movement(ended)


def finish_movement(ended: Ended) -> MovementEnd:
    """Fold a movement: from the signal of the call that ended it to the movement's result."""
    signal = ended.signal
    outcome = MovementResult(
        next=signal.next,
        via=signal.via,
        summary=signal.summary,
        lessons=signal.lessons,
        result=signal.result,
        reason=signal.reason,
        wait_reason=signal.wait_reason,
    )
    return MovementEnd(outcome, ended.request, ended.tail)


async def _take(run: JobRun, reply: Reply) -> MovementEnd | None:
    """Journal a reply and follow the plan it leads to. None: the movement goes on.

    Names are repaired before that, so that a restored conversation calls the same tools.
    """
    known = [spec.name for spec in run.tools]
    calls = tuple(replace(call, name=resolve_name(call.name, known) or call.name) for call in reply.calls)
    reply = replace(reply, calls=calls)
    run.turn, plan = advance(run.turn, reply, run.kit.config.safety)
    texts = run.texts
    match plan:
        case AskAgain():
            await run.append((), events=_usage_events(run, reply))
        case RunCalls(calls):
            run.fresh = {call.call_id: call for call in calls}
            await _keep(run, reply, ())
        case RefuseCalls(calls, prompt):
            refusal = [
                Message("tool", encode_tool_result(c.call_id, texts(prompt)), c.call_id) for c in calls
            ]
            await _keep(run, reply, refusal)
        case Nudge(prompt):
            await _keep(run, reply, [Message("user", encode_message("user", texts(prompt)))])
        case End(outcome):
            await run.append((), events=_usage_events(run, reply))
            return MovementEnd(outcome)
        case _:
            assert_never(plan)
    return None


async def _keep(run: JobRun, reply: Reply, after: Sequence[Message]) -> None:
    message = Message("assistant", encode_assistant(reply))
    events = _usage_events(run, reply)
    if reply.text.strip():
        events.insert(0, Event("text", {"full": run.kit.redact(reply.text)}))
    await run.append([message, *after], events=events)


async def _deliver_news(run: JobRun) -> None:
    """What the person said while the job runs, and the time after a long break, appended after the current
    tool results.

    Strict chat templates refuse two user messages in a row: behind one of ours, news wait for the next
    results.
    """
    if run.messages[-1].role == "user":
        return
    comments = await run.kit.db(run.kit.store.undelivered, run.job.task_id)
    parts = [run.time_note] if run.time_note else []
    parts += [run.texts("comment_now", text=run.kit.redact(comment.text)) for comment in comments]
    if parts:
        run.time_note = ""
        ids = [comment.comment_id for comment in comments]
        await run.append([Message("user", encode_message("user", "\n".join(parts)))], delivered=ids)


async def _ask_model(run: JobRun) -> Reply:
    def on_delta(delta: Delta) -> None:
        # An empty delta: the reply begins anew after a fault, and what was streamed is void.
        if delta.text:
            run.live("text", delta=run.kit.redact(delta.text))
        if delta.reasoning:
            run.live("reasoning", delta=run.kit.redact(delta.reasoning))
        if not delta.text and not delta.reasoning:
            run.live("text", full="")

    request = ModelRequest(
        messages=[message.body for message in run.messages],
        tools=run.job.tools,
        model=run.job.model,
        tool_choice="required" if run.turn.text_only else None,
        first_of_run=run.first_request,
    )
    reply = await run.kit.model(run.job).reply(request, on_delta)
    run.first_request = False
    _count(run, reply)
    return reply


def _count(run: JobRun, reply: Reply) -> None:
    used = reply.usage
    prompt, completion, cached = used.prompt_tokens or 0, used.completion_tokens or 0, used.cached_tokens or 0
    run.context = ContextManager(run.context.limit, used=prompt + completion)
    total = run.usage.prompt_tokens + prompt
    cached_total = run.usage.cached_tokens + cached
    run.usage = replace(
        run.usage,
        prompt_tokens=total,
        completion_tokens=run.usage.completion_tokens + completion,
        cached_tokens=cached_total,
        reused_pct=round(100 * cached_total / total, 1)
        if used.cached_tokens is not None and total
        else run.usage.reused_pct,
        context_ratio=round(ContextManager(run.context.limit, used=prompt).ratio(), 4),
        calls=run.usage.calls + 1,
    )


def _usage_events(run: JobRun, reply: Reply) -> list[Event]:
    """What one model call cost, and, for the first call of a movement, how much of the prompt the server
    reused.
    """
    used = reply.usage
    events = [
        Event(
            "usage",
            {
                "promptTokens": used.prompt_tokens or 0,
                "completionTokens": used.completion_tokens or 0,
                "cachedTokens": used.cached_tokens or 0,
                "seconds": round(reply.seconds, 3),
            },
        )
    ]
    if used.cached_tokens is not None and used.prompt_tokens:
        pct = round(100 * used.cached_tokens / used.prompt_tokens, 1)
        log.info("[llm-stream] job=%s prompt_cache reused=%d pct=%s", run.job.job_id, used.cached_tokens, pct)
        if run.first_call:
            events.append(
                Event("cache", {"reused": used.cached_tokens, "total": used.prompt_tokens, "pct": pct})
            )
            run.first_reuse = pct
    run.first_call = False
    return events


def _faulted(run: JobRun, fault: ModelFault) -> MovementEnd:
    text = run.kit.explain(fault, run.texts.language)
    reason = "context_exhausted" if fault.key == "model.context_overflow" else "provider_error"
    outcome = MovementResult(next=None, reason=reason, result=run.kit.redact(text), retryable=True)
    return MovementEnd(outcome)


def unanswered(
    messages: Sequence[Message], fresh: Mapping[str, ToolCall]
) -> tuple[list[ToolCall], frozenset[str]]:
    """The calls of the last assistant message if some have no result yet (all of them, with the ids already
    answered); else nothing.

    ``fresh`` are calls of a reply just received: they still know what was wrong with their arguments, which
    the journal does not keep.
    """
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role == "tool" and message.call_id is not None:
            answered.add(message.call_id)
        elif message.role == "assistant":
            calls = [fresh.get(call.call_id, call) for call in calls_of(message.body)]
            open_calls = [call for call in calls if call.call_id not in answered]
            return (calls, frozenset(answered)) if open_calls else ([], frozenset())
        else:
            return [], frozenset()
    return [], frozenset()


def calls_of(body: bytes) -> list[ToolCall]:
    """The calls of a journalled assistant message, as they were sent."""
    calls: list[ToolCall] = []
    for entry in json.loads(body).get("tool_calls") or ():
        raw = entry["function"]["arguments"]
        arguments = json.loads(raw)
        problem = None if isinstance(arguments, dict) else "not a JSON object"
        calls.append(
            ToolCall(
                entry["id"], entry["function"]["name"], arguments if problem is None else None, raw, problem
            )
        )
    return calls
