"""One movement: call the model, decide, run the calls, until something ends it.

The loop has one entry for three situations: a fresh movement, a conversation restored after a crash, and one
that goes on after an approval.
It looks at the journalled messages: calls without a result are run, else the model is asked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from engine.allowance import charge, over_budget, put_off
from engine.batch import Batch, Ended
from engine.core.accounts import counted, usage_event
from engine.core.conversation import in_full
from engine.core.errors import ContextOverflow, ModelFault
from engine.core.messages import encode_assistant, encode_message, encode_thought, encode_tool_result
from engine.core.outcome import WAITING_HUMAN_INTERRUPTED, MovementResult
from engine.core.records import Comment, Event, Message, NewRequest
from engine.core.reply import Delta, Reply, ToolCall
from engine.core.turn import AskAgain, End, Nudge, RefuseCalls, RunCalls, advance, count_unknown, heard
from engine.kit import JobRun, log
from engine.ports import ModelRequest
from engine.pressure import forced_end, is_full, refused, result_budget, weigh, wrap_up, wrapped_up
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
    """Work on the current movement until it ends. Raises ``LeaseLost``, ``StoreFault``, ``PutOff`` and
    cancellation.
    """
    while True:
        calls, answered = unanswered(run.messages)
        if calls:
            if (end := await _run_calls(run, calls, answered)) is not None:
                return end
            continue
        if is_full(run):
            return MovementEnd(await forced_end(run))
        if (request := over_budget(run)) is not None:
            return MovementEnd(MovementResult(next=WAITING_HUMAN_INTERRUPTED), request)
        await _deliver_news(run)
        try:
            reply = await _ask_model(run)
        except ContextOverflow as fault:
            if (outcome := await refused(run, fault)) is not None:
                return MovementEnd(outcome)
            continue
        except ModelFault as fault:
            put_off(fault, run.kit.seat(run.job).llm, run.counters)
            return _faulted(run, fault)
        events = [*_usage_events(run, reply), *await weigh(run, reply)]
        charge(run, reply)
        if (end := await _take(run, reply, events)) is not None:
            return end


async def _run_calls(run: JobRun, calls: Sequence[ToolCall], answered: frozenset[str]) -> MovementEnd | None:
    if run.grants.anywhere():  # a rule that the person removed meanwhile permits nothing any more
        run.grants = await run.kit.db(run.kit.store.grants, run.job.job_id, run.job.task_id)
    batch = Batch(run, calls, answered, context_full=is_full(run))
    run.turn, too_many = count_unknown(run.turn, batch.all_unknown, run.kit.config.safety)
    if too_many is not None:
        return MovementEnd(too_many)
    ended = await batch.execute()
    if ended is None:
        return None
    run.counters = replace(run.counters, overflows=0)
    return finish_movement(ended)


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


async def _take(run: JobRun, reply: Reply, events: list[Event]) -> MovementEnd | None:
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
            await run.append((), events=events)
            if not is_full(run):
                await asyncio.sleep(_wait_s(run))
        case RunCalls():
            await _keep(run, reply, (), events)
        case RefuseCalls(calls, prompt):
            refusal = [
                Message("tool", encode_tool_result(c.call_id, texts(prompt)), c.call_id) for c in calls
            ]
            await _keep(run, reply, refusal, events)
        case Nudge(prompt):
            parts, ids = await _news(run)
            text = "\n".join([texts(prompt), *parts])
            await _keep(run, reply, [Message("user", encode_message("user", text))], events, ids)
        case End(outcome):
            await run.append((), events=events)
            return MovementEnd(outcome)
        case _:
            assert_never(plan)
    return None


def _wait_s(run: JobRun) -> float:
    """Seconds before a server that gave nothing is asked again: those between attempts after a fault."""
    waits = run.kit.seat(run.job).llm.backoff_ms or (0,)
    return waits[min(run.turn.empty, len(waits)) - 1] / 1000


async def _keep(
    run: JobRun,
    reply: Reply,
    after: Sequence[Message],
    events: list[Event],
    delivered: Sequence[str] = (),
) -> None:
    problems = {call.call_id: run.kit.redact(call.problem) for call in reply.calls if call.problem}
    message = Message("assistant", encode_assistant(reply), thought=encode_thought(reply), problems=problems)
    run.call_ids.update(call.call_id for call in reply.calls)
    if reply.text.strip():
        events.insert(0, Event("text", {"full": run.kit.redact(reply.text)}))
    await run.append([message, *after], events=events, delivered=delivered)


async def _deliver_news(run: JobRun) -> None:
    """What the person said while the job runs, the time after a long break, and the call to wrap up, appended
    after the current tool results.

    Strict chat templates refuse two user messages in a row: behind one of ours, news wait for the next
    results.
    """
    if run.messages[-1].role == "user":
        return
    parts, ids = await _news(run)
    if parts:
        await run.append([Message("user", encode_message("user", "\n".join(parts)))], delivered=ids)


async def _news(run: JobRun) -> tuple[list[str], list[str]]:
    """What the next message of ours must say, and the comments that it then carries."""
    comments = await run.kit.db(run.kit.store.undelivered, run.job.task_id)
    parts = [run.time_note] if run.time_note else []
    if comments:
        parts += await asyncio.to_thread(_heard, run, comments, result_budget(run, len(comments)))
    if last := wrap_up(run):
        parts.append(last)
    run.time_note = ""
    wrapped_up(run)
    run.turn = heard(run.turn) if comments else run.turn
    return parts, [comment.comment_id for comment in comments]


def _heard(run: JobRun, comments: Sequence[Comment], budget: int) -> list[str]:
    """Comments as the model is told of them, each whole within ``budget`` tokens. Not for an event loop: they
    may be long.
    """
    texts, redact = run.texts, run.kit.redact
    return [texts("comment_now", text=in_full(redact(one.text), budget, texts)) for one in comments]


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
        model=run.kit.seat(run.job).model,
        tool_choice="required" if run.turn.text_only else None,
        first_of_run=run.first_request,
        thoughts={place: message.thought for place, message in enumerate(run.messages) if message.thought},
        taken=run.call_ids,
        holder=run.job.job_id,
    )
    reply = await run.kit.model(run.job).reply(request, on_delta)
    run.first_request = False
    run.answered(request.messages)
    run.usage = counted(run.usage, reply.usage)
    return reply


def _usage_events(run: JobRun, reply: Reply) -> list[Event]:
    """What one model call cost, for the first call of a movement how much of the prompt the server reused,
    and a break of the cache law (engine.md §3).
    """
    used = reply.usage
    events = [usage_event(reply)]
    if used.cached_tokens is not None and used.prompt_tokens:
        pct = round(100 * used.cached_tokens / used.prompt_tokens, 1)
        log.info("[llm-stream] job=%s prompt_cache reused=%d pct=%s", run.job.job_id, used.cached_tokens, pct)
        if run.first_call or run.cache_break is not None:
            body = {"reused": used.cached_tokens, "total": used.prompt_tokens, "pct": pct}
            if run.cache_break is not None:
                body["firstDifference"] = run.cache_break
            events.append(Event("cache", body))
        if run.first_call:
            run.first_reuse = pct
    if run.cache_break is not None:
        log.warning("[llm-stream] job=%s cache_break first difference at %d", run.job.job_id, run.cache_break)
        events.append(Event("cache_break", {"firstDifference": run.cache_break}))
    run.first_call, run.cache_break = False, None
    return events


def _faulted(run: JobRun, fault: ModelFault) -> MovementEnd:
    text = run.kit.explain(fault, run.texts.language)
    outcome = MovementResult(next=None, reason="provider_error", result=run.kit.redact(text), retryable=True)
    return MovementEnd(outcome)


def unanswered(messages: Sequence[Message]) -> tuple[list[ToolCall], frozenset[str]]:
    """The calls of the last assistant message if some have no result yet (all of them, with the ids already
    answered); else nothing.
    """
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role == "tool" and message.call_id is not None:
            answered.add(message.call_id)
        elif message.role == "assistant":
            calls = calls_of(message)
            open_calls = [call for call in calls if call.call_id not in answered]
            return (calls, frozenset(answered)) if open_calls else ([], frozenset())
        else:
            return [], frozenset()
    return [], frozenset()


def calls_of(message: Message) -> list[ToolCall]:
    """The calls of a journalled assistant message. One with a problem has no arguments, whatever was sent
    for it.
    """
    calls: list[ToolCall] = []
    for entry in json.loads(message.body).get("tool_calls") or ():
        name, raw = entry["function"]["name"], entry["function"]["arguments"]
        problem = message.problems.get(entry["id"])
        arguments = None if problem else json.loads(raw)
        if not problem and not isinstance(arguments, dict):
            arguments, problem = None, "not a JSON object"
        calls.append(ToolCall(entry["id"], name, arguments, raw, problem))
    return calls
