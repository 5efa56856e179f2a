"""The pressure on a movement's context (engine.md §5): how full it is after each reply, what that makes due,
what becomes of a prompt that is refused, and how large the next tool result may be.

The decisions are tables in ``core.context``; here the numbers are fetched and what was decided is journalled.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

from engine.core.context import (
    CREDIBLE,
    FIRST_ESTIMATE,
    LEARNT_SHARE,
    Action,
    ContextManager,
    Refusal,
    after_refusal,
    assess,
    estimated,
    message_size,
    shrunk_results,
    was_cut,
)
from engine.core.errors import ContextOverflow, ModelFault
from engine.core.jobs import Pressure
from engine.core.outcome import ABORT, COMPLETE, WAIT_SUBTASKS, MovementResult
from engine.core.records import Event
from engine.core.reply import Reply
from engine.core.tooling import Effect
from engine.core.truncate import cut, estimate_tokens
from engine.kit import JobRun

_LAST_WORDS = 600
_FILES_NAMED = 20


def is_full(run: JobRun) -> bool:
    """Whether the movement is to be left: ``force_transition`` has fired."""
    return Action.FORCE_TRANSITION in run.turn.pressure.fired


def wrap_up(run: JobRun) -> str:
    """The message that ``prompt`` still owes the model; empty if it owes none."""
    if not run.turn.pressure.wrap_up:
        return ""
    return run.texts("context.wrap_up" if run.here.rules else "context.wrap_up_complete")


def wrapped_up(run: JobRun) -> None:
    """Note that the message is in the conversation; the step that appends it journals that too."""
    run.turn = replace(run.turn, pressure=replace(run.turn.pressure, wrap_up=False))


def result_budget(run: JobRun, sharing: int = 1) -> int:
    """The largest result of the next call, in the tokens that tools measure with. ``sharing`` calls run at
    once.

    A model that needs more tokens for a text than our estimate says gets less text, so that the result has
    the size that was meant.
    """
    known, sizes = run.turn.pressure, _sizes(run)
    if run.context.prompt:
        first = known.accepted + 1 if known.completion else known.accepted
        appended = sum(sizes[first:])
    else:
        appended = sum(sizes) + _tools_size(run)
    scale, limits = _scale(run), run.kit.config.context
    context = replace(run.context, appended=round(appended * scale))
    return max(limits.result_min, int(context.tool_result_budget(limits, sharing) / max(1.0, scale)))


def opening_budget(run: JobRun, sharing: int = 1) -> int:
    """The largest part of a new conversation's opening besides what every opening holds, in the tokens that
    tools measure with. ``sharing`` parts stand in it.
    """
    fixed = estimate_tokens(run.job.system) + estimate_tokens(run.enriched) + _tools_size(run)
    scale, limits = run.scale, run.kit.config.context
    context = ContextManager(run.context.limit, round(fixed * scale))
    return max(limits.result_min, int(context.tool_result_budget(limits, sharing) / max(1.0, scale)))


async def weigh(run: JobRun, reply: Reply) -> list[Event]:
    """Take the measure of the prompt just answered and fire what is due; the events that tell it.

    Tokens are those the server reported; without a report, from the third iteration on, an estimate of the
    messages. The step that keeps the reply journals what fired.
    """
    sent = len(run.messages)
    known = replace(run.turn.pressure, accepted=sent, shrunk=False)
    sizes = _sizes(run)
    own = sum(sizes) + _tools_size(run)
    told = reply.usage.prompt_tokens or 0
    told = told if told * CREDIBLE >= own else 0
    since = round(_scale(run) * sum(sizes[known.real_at :]))
    counts = bool(told) or run.turn.iteration + 1 >= FIRST_ESTIMATE
    # Templates exist that drop old reasoning at a new user message: then less is no sign of a cut.
    asked = any(message.role == "user" for message in run.messages[known.real_at :])
    if not asked and was_cut(known, told, since):
        _learn(run, known.real)
        prompt = known.real + since
    elif told:
        prompt, run.sample = told, (run.messages, sent, told)
        if sent > known.real_at:
            known = replace(known, earlier=known.real, earlier_at=known.real_at)
        known = replace(known, real=told, real_at=sent)
    else:
        prompt = await _estimate(run, known) if counts else round(_scale(run) * own)
    run.context = ContextManager(run.context.limit, prompt, reply.usage.completion_tokens or 0)
    ratio = run.context.ratio()
    run.usage = replace(run.usage, context_ratio=round(ratio, 4))
    due = assess(ratio, known.fired, run.kit.config.context) if counts else ()
    run.turn = replace(run.turn, pressure=_fired(known, run.context, *due))
    return _told(run, due, ratio)


def _fired(known: Pressure, context: ContextManager, *due: Action) -> Pressure:
    return replace(
        known,
        fired=(*known.fired, *due),
        wrap_up=known.wrap_up or Action.PROMPT in due,
        prompt=context.prompt,
        completion=context.completion,
    )


def _told(run: JobRun, due: tuple[Action, ...], ratio: float) -> list[Event]:
    return [Event("context", {"action": action.value, "ratio": round(ratio, 4)}) for action in due]


def _sizes(run: JobRun) -> list[int]:
    untaken = run.sizes.untaken(run.messages)
    run.sizes.taken += [message_size(message.body) for message in untaken]
    return run.sizes.taken


def _tools_size(run: JobRun) -> int:
    return _size_of(run.job.tools)


@lru_cache(maxsize=64)
def _size_of(tools: bytes) -> int:
    """An array's size, which is asked for several times in every iteration and never changes."""
    return estimate_tokens(tools.decode("utf-8", "replace"))


def _scale(run: JobRun) -> float:
    """The model's tokens over our estimate of the same prompt: the last that was reported, in this
    conversation or in an earlier one.
    """
    known = run.turn.pressure
    if known.real:
        run.scale = known.real / (sum(_sizes(run)[: known.real_at]) + _tools_size(run))
    return run.scale


async def _estimate(run: JobRun, known: Pressure) -> int:
    """The tokens of a prompt whose size was not reported, counted by a tokenizer and scaled.

    Tokens are never more than bytes: where those decide that nothing can be due, nothing is counted.
    """
    bodies = [message.body for message in run.messages]
    most = known.real + sum(len(body) for body in bodies[known.real_at :])
    most += 0 if known.real else len(run.job.tools)
    if most < run.kit.config.context.warn * run.context.limit:
        unknown = _sizes(run)[known.real_at :] if known.real else [_tools_size(run), *_sizes(run)]
        return known.real + round(_scale(run) * sum(unknown))
    count = run.kit.count_tokens
    uncounted = await count([message.body for message in run.counts.untaken(run.messages)])
    run.counts.taken += uncounted
    counts, tools = run.counts.taken, (await count([run.job.tools]))[0]
    scale = 1.0
    if run.sample is not None and not known.real:
        messages, number, tokens = run.sample
        scale = tokens / (tools + sum(await count([message.body for message in messages[:number]])))
    return estimated(known, counts, tools, scale)


def _learn(run: JobRun, limit: int) -> None:
    """Hold to a limit that turned out to be smaller, for the rest of the job."""
    limit = max(1, min(limit, run.context.limit))
    run.counters = replace(run.counters, context_limit=limit)
    run.context = replace(run.context, limit=limit)


async def refused(run: JobRun, fault: ContextOverflow) -> MovementResult | None:
    """What becomes of a prompt that the server refused as too long; None: it was made smaller, ask again.

    The refused request adds nothing to the history, and its limit is remembered.
    """
    known = run.turn.pressure
    size = max(1, round(_scale(run) * (sum(_sizes(run)) + _tools_size(run))))
    _learn(run, fault.limit or max(known.prompt, int(LEARNT_SHARE * size)))
    ratio = max(1.0, size / run.context.limit)
    shrunk = _shrink(run, named=fault.limit is not None)
    opening = not any(message.role == "assistant" for message in run.messages)
    action = after_refusal(
        opening=opening,
        shrinkable=bool(shrunk),
        shrunk=known.shrunk,
        forced_before=run.counters.overflows,
    )
    limits = run.kit.config.context
    due = assess(ratio, known.fired, limits) if action is Refusal.FORCE else (Action.EXHAUSTED,)
    due = tuple(entry for entry in due if entry not in known.fired)
    match action:
        case Refusal.SHRINK:
            run.turn = replace(run.turn, pressure=replace(known, shrunk=True, fired=(*known.fired, *due)))
            await run.rewrite(shrunk, _told(run, due, ratio))
            return None
        case Refusal.FORCE:
            run.counters = replace(run.counters, overflows=run.counters.overflows + 1)
            run.usage = replace(run.usage, context_ratio=round(ratio, 4))
            run.turn = replace(run.turn, pressure=_fired(known, run.context, *due))
            await run.append((), events=_told(run, due, ratio))
            return await forced_end(run)
        case Refusal.END:
            await run.append((), events=_told(run, due, ratio))
            return _exhausted(run, fault, size, opening)


def _shrink(run: JobRun, *, named: bool) -> dict[int, bytes]:
    """The unaccepted results made smaller: to their share of what is left below a limit that was named, else
    to a quarter of what they are and to no more than what the server has accepted so far.
    """
    known, sizes, scale = run.turn.pressure, _sizes(run), _scale(run)
    fresh = zip(run.messages[known.accepted :], sizes[known.accepted :], strict=True)
    new = sum(size for message, size in fresh if message.role == "tool")
    left = run.context.limit / scale - (sum(sizes) + _tools_size(run) - new)
    room = left * run.kit.config.context.result_share if named else min(new / 4, known.prompt / scale)
    return shrunk_results(
        run.messages, known.accepted, int(room), lambda count: run.texts("result.shrunk", count=count)
    )


def _exhausted(run: JobRun, fault: ContextOverflow, size: int, opening: bool) -> MovementResult:
    told: ModelFault = fault
    if opening:
        limit = run.context.limit  # the estimate may lie below what the server counted
        told = ModelFault("job.opening_too_long", tokens=max(size, limit + 1), limit=limit)
    text = run.kit.redact(run.kit.explain(told, run.texts.language))
    return MovementResult(next=None, reason="context_exhausted", result=text, retryable=True)


async def forced_end(run: JobRun) -> MovementResult:
    """Leave the movement by ``default_next`` without claiming that its work is done; without one ABORT.

    What it leaves is mechanical: how full the context was, the last words, the files it changed.
    """
    texts, target = run.texts, run.here.default_next
    ratio = max(run.context.ratio(), run.usage.context_ratio)
    percent = round(100 * ratio)
    last = cut(_last_words(run), _LAST_WORDS)
    files = await _changed_here(run)
    lines = [texts("forced.text", text=last)] if last else []
    lines.append(texts("forced.files", files=_listed(run, files)) if files else texts("forced.no_files"))
    summary = texts("forced.summary", movement=run.movement, percent=percent)
    result = last
    if target == COMPLETE:
        if await run.kit.db(run.kit.store.count_open_children, run.job.job_id):
            # No success over open children, forced or not: their results come first, in a fresh prompt.
            return MovementResult(next=WAIT_SUBTASKS, summary=summary, wait_reason="subtasks", forced=True)
        result = await _result(run, percent, last)
    return MovementResult(
        next=target or ABORT,
        summary=summary,
        lessons="\n".join(lines),
        result=result if target in (None, ABORT, COMPLETE) else "",
        reason="no_default_next" if target in (None, ABORT) else "",
        forced=True,
    )


async def _result(run: JobRun, percent: int, last: str) -> str:
    """What the person reads of a job that ended by force: what it is, the last words, the changes, and how to
    go on.
    """
    say = run.kit.messages(run.texts.language)
    changed = await run.kit.db(run.kit.store.changed_files, run.job.job_id)
    parts = [say("forced.title", percent=percent), last]
    parts.append(say("forced.changes", files=_listed(run, changed)) if changed else say("forced.no_changes"))
    parts.append(say("forced.go_on"))
    return "\n\n".join(part for part in parts if part)


def _listed(run: JobRun, files: list[str]) -> str:
    more = len(files) - _FILES_NAMED
    named = ", ".join(files[:_FILES_NAMED])
    return f"{named} (+{more})" if more > 0 else named


async def _changed_here(run: JobRun) -> list[str]:
    """The files that this visit to the movement changed, by the journal."""
    visit = run.counters.visits.get(run.movement, 1)
    steps = await run.kit.db(run.kit.store.steps_of_visit, run.job.job_id, run.movement, visit)
    written = [
        step.intent.path
        for step in steps
        if step.done and step.ok and step.intent.effect == Effect.WRITE.value and step.intent.path
    ]
    return list(dict.fromkeys(written))


def _last_words(run: JobRun) -> str:
    for message in reversed(run.messages):
        if message.role == "assistant" and (text := json.loads(message.body).get("content")):
            return str(text).strip()
    return ""
