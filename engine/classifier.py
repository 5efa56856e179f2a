"""The classifier (engine.md §2): at the first claim of a job that names no piece, one short call chooses it.

Nothing is stored before the piece is: an engine that dies meanwhile leaves a job without a piece, and the
next one asks again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from engine.allowance import put_off
from engine.core.accounts import counted, usage_event
from engine.core.classify import (
    FALLBACK,
    SETTINGS_WRONG,
    By,
    Choice,
    Failure,
    chosen,
    fallback,
    question,
    usable,
)
from engine.core.errors import EngineError, ModelFault
from engine.core.jobs import Counters, Job
from engine.core.messages import encode_message
from engine.core.piece import Piece, piece_hash, piece_to_json
from engine.core.piece_card import PieceCard
from engine.core.records import Event, Lease
from engine.core.reply import Delta, Finish, Reply
from engine.kit import Kit, log
from engine.ports import ModelRequest


async def choose_piece(kit: Kit, job: Job, lease: Lease) -> Job:
    """The job with the piece that it will keep, stored with what the choice cost and an event that tells it.

    Raises ``ModelFault`` where the model server cannot be used at all (a wrong address, key or model), what
    is wrong with ``general`` if that is faulty, ``PutOff`` where the server has too many requests, and
    ``LeaseLost``.
    """
    cards = usable(await asyncio.to_thread(kit.pieces.cards))
    reply: Reply | None = None
    if len(cards) == 1:
        choice = Choice(cards[0].name, By.ONLY)
    else:
        choice, reply = await _asked(kit, job, cards)
    choice, piece = await _loaded(kit, choice)
    said = {"piece": choice.name, "by": choice.by.value}
    if choice.failure is not None:
        said["failure"] = choice.failure.value
    log.info("job %s: piece %s (%s)", job.job_id, choice.name, choice.failure or choice.by)
    made = replace(
        job,
        piece_name=piece.name,
        piece=piece_to_json(piece),
        piece_hash=piece_hash(piece),
        movement=piece.initial_movement,
        resume_movement=piece.initial_movement,
        model=job.model or piece.model,
        usage=job.usage if reply is None else counted(job.usage, reply.usage),
        counters=job.counters if reply is None else _charged(kit, job, reply),
    )
    events = [*([] if reply is None else [usage_event(reply)]), Event("piece", said)]
    await kit.db(kit.store.choose_piece, lease, kit.clock.now(), made, events)
    return made


async def _asked(kit: Kit, job: Job, cards: tuple[PieceCard, ...]) -> tuple[Choice, Reply | None]:
    limits = kit.config.classifier
    system, message = question(cards, job.instruction, limits.task_tokens, kit.prompts(job.language))
    bodies = [encode_message("system", system), encode_message("user", kit.redact(message))]
    model, named = kit.classifier(job)
    holder = job.job_id if model is kit.model(job) else ""
    request = ModelRequest(bodies, b"", named, first_of_run=True, holder=holder)
    try:
        async with asyncio.timeout(limits.timeout_s):
            reply = await model.reply(request, _unheard)
    except TimeoutError:
        return fallback(Failure.TIMEOUT), None
    except ModelFault as fault:
        if fault.key in SETTINGS_WRONG:
            raise
        put_off(fault, kit.seat(job).llm, job.counters)
        log.warning("job %s: no piece could be chosen: %s", job.job_id, kit.redact(kit.explain(fault, "en")))
        return fallback(Failure.FAULT), None
    return _meant(reply, [card.name for card in cards]), reply


def _charged(kit: Kit, job: Job, reply: Reply) -> Counters:
    """The job's counters after the call: it counts towards the budget as any other."""
    used = (
        reply.usage.prompt_tokens or 0,
        reply.usage.cached_tokens or 0,
        reply.usage.completion_tokens or 0,
    )
    spent = job.counters.spent.with_call(*used, kit.seat(job).llm.price)
    return replace(job.counters, spent=spent, put_off=0)


def _unheard(delta: Delta) -> None:
    """What the classifier says is not the task's text: nobody is shown it."""


def _meant(reply: Reply, names: list[str]) -> Choice:
    if not reply.text.strip():
        return fallback(Failure.EMPTY)
    name = chosen(reply.text, names) if reply.finish is Finish.STOP else None
    return fallback(Failure.UNCLEAR) if name is None else Choice(name, By.CLASSIFIER)


async def _loaded(kit: Kit, choice: Choice) -> tuple[Choice, Piece]:
    """The piece that was chosen; ``general`` if its file went or broke since the list was made."""
    try:
        return choice, await asyncio.to_thread(kit.pieces.load, choice.name)
    except EngineError:
        if choice.name == FALLBACK:
            raise
        return fallback(Failure.UNUSABLE), await asyncio.to_thread(kit.pieces.load, FALLBACK)
