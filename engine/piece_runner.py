"""A run of a piece: movement after movement until something parks or ends the job.

A run starts in one of three ways: a job's first movement; a movement re-entered from its head with the prompt
rebuilt; a conversation restored from the journal, message for message (after an approval or a crash, and with
``resume: continue`` after a question or a wait for subtasks too). Only the first counts as entering a
movement.

A hop restarts the conversation, or joins it (``conversation: continue``, engine.md §3): then the guidance is
appended to the same messages, and nothing before it changes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from engine.agent_loop import MovementEnd, run_movement, unanswered
from engine.carrying import keep_lessons, lessons, with_last_verdict, with_verdict
from engine.core.checklist import shown_all
from engine.core.context import ContextManager
from engine.core.conversation import goes_on, in_full, kept_over, turn_of_next
from engine.core.family import child_lines
from engine.core.hops import enter
from engine.core.jobs import ENDED, TurnState
from engine.core.lessons import lesson_of
from engine.core.messages import encode_message, encode_tool_result
from engine.core.outcome import (
    ABORT,
    UNSETTLED,
    MovementResult,
    PieceRunResult,
    Resume,
    map_movement_result,
)
from engine.core.prompting import (
    COMMENT_LIMIT,
    Carried,
    Texts,
    build_time_context_block,
    enriched_instruction,
    movement_guidance,
    newest,
)
from engine.core.records import Event, Leaving, Message, NewRequest, SettledRequest, Step
from engine.core.tooling import LASTING
from engine.core.truncate import cut
from engine.kit import JobRun
from engine.pressure import is_full, opening_budget, result_budget
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
            known = run.turn.pressure
            run.context = ContextManager(run.context.limit, known.prompt, known.completion)
            await _note_the_time(run)
            await _go_on_at_default_next(run)
            return None
    run.turn = TurnState()
    await _enrich(run)
    if run.job.movement_seq == 0:
        return await _enter(run, run.movement, Carried(lessons=await lessons(run)))
    carried = await _carried_over_a_park(run)
    await _begin(run, run.movement, run.counters.visits.get(run.movement, 1), carried)
    return None


async def _go_on_at_default_next(run: JobRun) -> None:
    """Enter the movement that a rule's WAIT_SUBTASKS resumes at, where ``resume: continue`` kept the
    conversation: the call that waited gets the children's results. After any other park there is nothing to
    do.
    """
    kit, job = run.kit, run.job
    left = await kit.db(kit.store.stay_left, job.job_id, run.movement_seq)
    if left is None or left[1] not in kit.table.allowed_in_rules():
        return
    name, sentinel = left
    visit = run.counters.visits.get(run.movement, 1)
    waited = MovementResult(next=run.movement)
    if not goes_on(run.piece, waited, run.context.ratio(), kit.config.context):
        await _begin(run, run.movement, visit, await _carried_over_a_park(run))
        return
    calls, answered = unanswered(run.messages)
    tail: list[Message] = []
    for call in calls:
        if call.call_id not in answered:
            text = run.texts("result.not_run", tool=sentinel) if tail else await _children_told(run)
            tail.append(Message("tool", encode_tool_result(call.call_id, text), call.call_id))
    carried = await with_last_verdict(run, Carried())
    await _begin(run, run.movement, visit, carried, joins=_Joining(name, tuple(tail)))


async def _children(run: JobRun, budget: int) -> list[str]:
    """What became of the job's children, whole within ``budget`` tokens."""
    return child_lines(await run.kit.db(run.kit.store.children, run.job.job_id), budget, run.texts)


async def _children_told(run: JobRun) -> str:
    lines = await _children(run, result_budget(run))
    if not lines:
        return run.texts("result.no_children")
    return run.kit.redact("\n".join([run.texts("children.heading"), *(f"- {line}" for line in lines)]))


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


async def _carried_over_a_park(run: JobRun) -> Carried:
    """What a re-entered movement must know: the answer, what is settled, its children, and what it had
    already done.
    """
    kit, job = run.kit, run.job
    requests = await kit.db(kit.store.requests_of_job, job.job_id)
    answered = next(
        (r for r in requests if r.request_id == job.resumed_by and r.decision == "answered"), None
    )
    budget = opening_budget(run, 1 if answered is None else 2)
    children = await _children(run, budget)
    visit = run.counters.visits.get(run.movement, 1)
    steps = await kit.db(kit.store.steps_of_visit, job.job_id, run.movement, visit)
    done = [_done(step, run.texts) for step in steps if step.intent.effect in LASTING]
    settled = [_decided(r, run.texts) for r in requests if r.title and r.decision and r is not answered]
    carried = Carried(
        lessons=await lessons(run),
        decisions=newest(settled, run.texts),
        children=children,
        already_done=newest(done, run.texts),
        answer=None if answered is None else (answered.title, await _answer(run, answered.text, budget)),
    )
    return await with_last_verdict(run, carried)


async def _answer(run: JobRun, text: str, budget: int) -> str:
    return await asyncio.to_thread(in_full, text, budget, run.texts)


def _decided(request: SettledRequest, texts: Texts) -> str:
    said = cut(" ".join(text for text in (request.note, request.text) if text), COMMENT_LIMIT)
    line = f"{cut(request.title, COMMENT_LIMIT)}: {texts(f'decision.{request.decision}')}"
    return f"{line} ({said})" if said else line


def _done(step: Step, texts: Texts) -> str:
    """What a call did, e.g. ``Edit src/a.py: src/a.py +2 −1`` or ``Bash {"command":"pytest"}: exit 1``."""
    what = step.intent.path or cut(step.intent.arguments, 200)
    return f"{step.intent.tool} {what}: {step.brief if step.done else texts('done.unknown')}"


@dataclass(frozen=True, slots=True)
class _Joining:
    """How a movement joins the conversation: the movement it follows, and the results that the last calls of
    the conversation still lack.
    """

    left: str
    tail: tuple[Message, ...]


async def _enter(
    run: JobRun, name: str, carried: Carried, forced: bool = False, joins: _Joining | None = None
) -> PieceEnd | None:
    hop = enter(run.piece, name, run.counters, run.kit.config.safety)
    run.counters = hop.counters
    if hop.abort is not None:
        return await _close(run, MovementEnd(MovementResult(next=ABORT, reason=hop.abort)))
    await _begin(run, name, hop.visit, carried, forced, joins)
    return None


async def _begin(
    run: JobRun,
    name: str,
    visit: int,
    carried: Carried,
    forced: bool = False,
    joins: _Joining | None = None,
) -> None:
    """Open a movement, in a new conversation or at the end of the one it joins."""
    run.movement = name
    run.movement_seq += 1
    run.first_call = run.movement_seq > 1
    movement = run.here
    tools = permitted_names(run.tools, movement, run.granted)
    brief = await run.kit.db(run.kit.store.brief_fields, run.job.task_id)
    lists = await run.kit.db(run.kit.store.checklists, run.job.task_id)
    carried = replace(carried, brief=brief, checklists=shown_all(lists))
    guidance = run.kit.redact(movement_guidance(run.piece, movement, tools, carried, run.texts))
    opening = _restart(run, guidance) if joins is None else _join(run, guidance, joins)
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
        turn=run.turn,
        messages=opening,
    )
    run.messages += opening


def _restart(run: JobRun, guidance: str) -> list[Message]:
    """The opening of a new conversation: system text, then enriched instruction and guidance in one user
    message.
    """
    run.conversation += 1
    run.messages = []
    run.turn = TurnState()
    run.read_marks, run.kept_marks = {}, {}
    run.context = ContextManager(run.context.limit)
    return [
        Message("system", encode_message("system", run.job.system)),
        Message("user", encode_message("user", f"{run.enriched}\n\n{guidance}")),
    ]


def _join(run: JobRun, guidance: str, joins: _Joining) -> list[Message]:
    """What is appended to a conversation that goes on: the results it lacks, then the guidance."""
    run.turn = turn_of_next(run.turn)
    over = run.texts("movement.joined", left=joins.left)
    return [*joins.tail, Message("user", encode_message("user", f"{over}\n\n{guidance}"))]


async def _hop(run: JobRun, end: MovementEnd) -> PieceEnd | None:
    """Leave a movement for another one: keep its lesson, carry what is due, enter. A conversation that goes
    on holds the lessons itself, in the calls and the opening before.
    """
    outcome = end.outcome
    assert outcome.next is not None
    left = run.here
    await run.kit.db(run.kit.store.end_movement, run.lease, run.now(), _leaving(run, outcome), run.counters)
    await keep_lessons(run)
    on = goes_on(run.piece, outcome, run.context.ratio(), run.kit.config.context)
    kept, children = ([], []) if on else (await lessons(run), await _children(run, opening_budget(run)))
    carried = await with_verdict(run, Carried(lessons=kept, children=children), left, outcome)
    joins = _Joining(left.name, end.tail) if on else None
    return await _enter(run, outcome.next, carried, outcome.forced, joins)


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
    if row.resume is Resume.DEFAULT_NEXT and result.resume_movement is not None:
        # It waits first, but it is a hop: going round by way of a wait must come to an end too.
        hop = enter(run.piece, result.resume_movement, run.counters, run.kit.config.safety)
        run.counters = hop.counters
        if hop.abort is not None:
            return await _close(run, MovementEnd(MovementResult(next=ABORT, reason=hop.abort)))
    keeps = row.keeps_conversation or (kept_over(row, run.piece) and not is_full(run))
    leaves = run.movement_seq and (not keeps or row.resume is Resume.DEFAULT_NEXT)
    result = replace(result, result=run.kit.redact(result.result if result.status in ENDED else ""))
    leaving = _leaving(run, outcome) if leaves else None
    return PieceEnd(result, end.request, keeps, leaving)
