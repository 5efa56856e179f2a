"""A run of a piece: movement after movement until something parks or ends the job.

A run starts in one of three ways: a job's first movement; a movement re-entered from its head with the prompt
rebuilt; a conversation restored from the journal, message for message (after an approval, or after a crash).
Only the first counts as entering a movement.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from engine.agent_loop import MovementEnd, run_movement
from engine.core.context import ContextManager
from engine.core.hops import enter
from engine.core.jobs import ENDED, TurnState
from engine.core.lessons import carry, lesson_of
from engine.core.messages import encode_message
from engine.core.outcome import ABORT, UNSETTLED, MovementResult, PieceRunResult, map_movement_result
from engine.core.piece import is_verify
from engine.core.prompting import (
    COMMENT_LIMIT,
    Carried,
    Texts,
    build_time_context_block,
    cut,
    enriched_instruction,
    movement_guidance,
)
from engine.core.records import Event, Leaving, Message, NewRequest, SettledRequest, Step
from engine.core.tooling import LASTING
from engine.core.truncate import fit_head_tail
from engine.kit import JobRun
from engine.toolbox import permitted_names

RESTORE_NOTE_S = 3600.0
"""A conversation restored after more than this gets one line with the time (``engine.md`` section 3)."""


@dataclass(frozen=True, slots=True)
class PieceEnd:
    """What a run came to, ready to be stored."""

    result: PieceRunResult
    request: NewRequest | None = None
    restores: bool = False
    leaving: Leaving | None = None


async def run_piece(run: JobRun) -> PieceEnd:
    """Run a claimed job until it parks or ends. Raises ``LeaseLost``, ``StoreFault`` and cancellation."""
    opening = await _open(run)
    while opening is None:
        end = await run_movement(run)
        if end.outcome.next is None or run.kit.table.is_sentinel(end.outcome.next):
            return await _close(run, end)
        opening = await _hop(run, end)
    return opening


async def _open(run: JobRun) -> PieceEnd | None:
    """Begin the run; a ``PieceEnd`` if a guard forbids the very first movement."""
    if run.job.restores and run.job.movement_seq:
        run.messages = await run.kit.db(run.kit.store.messages, run.job.job_id, run.conversation)
        if run.messages:
            run.enriched = await run.kit.db(run.kit.store.enriched, run.job.job_id)
            run.read_marks = await run.kit.db(run.kit.store.read_marks, run.job.job_id, run.conversation)
            run.kept_marks = dict(run.read_marks)
            used = round(run.job.usage.context_ratio * run.context.limit)
            run.context = ContextManager(run.context.limit, used=used)
            await _note_the_time(run)
            return None
    run.turn = TurnState()
    await _enrich(run)
    if run.job.movement_seq == 0:
        return await _enter(run, run.movement, Carried(lessons=await _lessons(run)))
    carried = await _carried_over_a_park(run)
    await _begin(run, run.movement, run.counters.visits.get(run.movement, 1), carried)
    return None


async def _note_the_time(run: JobRun) -> None:
    """The enriched instruction's clock stands; after a long break one line with the time is appended."""
    last = await run.kit.db(run.kit.store.last_activity, run.job.job_id, run.lease.run)
    if last is not None and run.now() - last > RESTORE_NOTE_S:
        local = run.kit.local_time(run.now())
        run.time_note = run.texts("resumed", time=build_time_context_block(local, run.texts))


async def _enrich(run: JobRun) -> None:
    """The enriched instruction, made once per run so that its clock does not tick."""
    kit, job = run.kit, run.job
    news = await kit.db(kit.store.undelivered, job.task_id)
    comments = await kit.db(kit.store.last_comments, job.task_id)
    facts = await asyncio.to_thread(kit.facts, job)
    dirty = await kit.documents.dirty()
    unsaved = [str(path.relative_to(kit.workspace)) for path in dirty if path.is_relative_to(kit.workspace)]
    facts = replace(facts, unsaved=tuple(unsaved))
    local = kit.local_time(run.now())
    run.enriched = kit.redact(enriched_instruction(job.instruction, comments, facts, local, run.texts))
    shown = {comment.comment_id for comment in comments if len(comment.text) <= COMMENT_LIMIT}
    delivered = [
        c.comment_id for c in news if c.comment_id in shown or c.text.strip() == job.instruction.strip()
    ]
    await kit.db(kit.store.set_enriched, run.lease, run.enriched, delivered, run.now())


async def _lessons(run: JobRun) -> list[tuple[str, str]]:
    return carry(await run.kit.db(run.kit.store.lessons, run.job.task_id))


async def _brief(run: JobRun) -> dict[str, str]:
    return await run.kit.db(run.kit.store.brief_fields, run.job.task_id)


async def _carried_over_a_park(run: JobRun) -> Carried:
    """What a re-entered movement must know: the answer, what is settled, its children, and what it had
    already done.
    """
    kit, job = run.kit, run.job
    requests = await kit.db(kit.store.requests_of_job, job.job_id)
    answered = next(
        (r for r in requests if r.request_id == job.resumed_by and r.decision == "answered"), None
    )
    children = await kit.db(kit.store.children_lines, job.job_id)
    visit = run.counters.visits.get(run.movement, 1)
    steps = await kit.db(kit.store.steps_of_visit, job.job_id, run.movement, visit)
    done = [_done(step, run.texts) for step in steps if step.intent.effect in LASTING]
    return Carried(
        brief=await _brief(run),
        lessons=await _lessons(run),
        decisions=[_decided(r, run.texts) for r in requests if r.title and r.decision and r is not answered],
        children=children,
        already_done=done,
        answer=None if answered is None else (answered.title, _whole(run, answered.text)),
    )


def _decided(request: SettledRequest, texts: Texts) -> str:
    said = " ".join(text for text in (request.note, request.text) if text)
    line = f"{request.title}: {texts(f'decision.{request.decision}')}"
    return f"{line} ({said})" if said else line


def _done(step: Step, texts: Texts) -> str:
    """What a call did, e.g. ``Edit src/a.py: src/a.py +2 −1`` or ``Bash {"command":"pytest"}: exit 1``."""
    what = step.intent.path or cut(step.intent.arguments, 200)
    return f"{step.intent.tool} {what}: {step.brief if step.done else texts('done.unknown')}"


def _whole(run: JobRun, text: str) -> str:
    """An answer within the tool-result budget: beyond it head and tail."""
    head, left_out, tail = fit_head_tail(text, run.context.tool_result_budget(run.kit.config.context))
    return head if not left_out else head + run.texts("answer.left_out", count=len(left_out)) + tail


async def _enter(run: JobRun, name: str, carried: Carried, forced: bool = False) -> PieceEnd | None:
    hop = enter(run.piece, name, run.counters, run.kit.config.safety)
    run.counters = hop.counters
    if hop.abort is not None:
        return await _close(run, MovementEnd(MovementResult(next=ABORT, reason=hop.abort)))
    await _begin(run, name, hop.visit, carried, forced)
    return None


async def _begin(run: JobRun, name: str, visit: int, carried: Carried, forced: bool = False) -> None:
    """Open a movement in a new conversation: system text, then enriched instruction and guidance in one user
    message.
    """
    run.movement = name
    run.movement_seq += 1
    run.conversation += 1
    run.turn = TurnState()
    run.read_marks, run.kept_marks = {}, {}
    run.context = ContextManager(run.context.limit)
    run.first_call = run.movement_seq > 1
    movement = run.here
    tools = permitted_names(run.tools, movement)
    carried = replace(carried, brief=carried.brief or await _brief(run))
    guidance = run.kit.redact(movement_guidance(run.piece, movement, tools, carried, run.texts))
    opening = [
        Message("system", encode_message("system", run.job.system)),
        Message("user", encode_message("user", f"{run.enriched}\n\n{guidance}")),
    ]
    await run.kit.db(
        run.kit.store.begin_movement,
        run.lease,
        run.now(),
        name=name,
        visit=visit,
        movement_seq=run.movement_seq,
        conversation=run.conversation,
        forced=forced,
        counters=run.counters,
        messages=opening,
    )
    run.messages = opening


async def _hop(run: JobRun, end: MovementEnd) -> PieceEnd | None:
    """Leave a movement for another one: keep its lesson, carry what is due, enter."""
    outcome = end.outcome
    assert outcome.next is not None
    left = run.here
    await run.kit.db(run.kit.store.end_movement, run.lease, run.now(), _leaving(run, outcome), run.counters)
    feedback = (left.name, lesson_of(outcome)) if is_verify(left) and lesson_of(outcome) else None
    carried = Carried(lessons=await _lessons(run), feedback=feedback)
    return await _enter(run, outcome.next, carried, outcome.forced)


def _leaving(run: JobRun, outcome: MovementResult) -> Leaving:
    events: tuple[Event, ...] = ()
    if outcome.next is not None and not run.kit.table.is_sentinel(outcome.next):
        body = {"from": run.movement, "to": outcome.next, "summary": run.kit.redact(outcome.summary)}
        if outcome.lessons:
            body["lessons"] = run.kit.redact(outcome.lessons)
        events = (Event("transition", body),)
    return Leaving(
        movement_seq=run.movement_seq,
        movement=run.movement,
        next_step=outcome.next or UNSETTLED,
        summary=run.kit.redact(outcome.summary),
        lessons=run.kit.redact(outcome.lessons),
        iterations=run.turn.iteration,
        lesson=run.kit.redact(lesson_of(outcome)),
        events=events,
    )


async def _close(run: JobRun, end: MovementEnd) -> PieceEnd:
    """Settle the run by the table; its movement is left in the transaction that settles it. A park that keeps
    its conversation does not leave its movement.
    """
    outcome = end.outcome
    if end.request is not None:
        outcome = replace(outcome, wait_reason=end.request.reason)
    default_next = run.here.default_next
    result = map_movement_result(outcome, run.movement, default_next, run.kit.table)
    row = run.kit.table.find(outcome.next, outcome.via)
    leaves = not row.keeps_conversation and run.movement_seq
    result = replace(result, result=run.kit.redact(result.result if result.status in ENDED else ""))
    leaving = _leaving(run, outcome) if leaves else None
    return PieceEnd(result, end.request, row.keeps_conversation, leaving)
