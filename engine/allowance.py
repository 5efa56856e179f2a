"""What a job may use of its models: its budget, and what becomes of it when a server has too many requests
(engine.md §7).
"""

from __future__ import annotations

from dataclasses import replace

from engine.config import ModelSettings
from engine.core.budget import Spent, amount, reached
from engine.core.errors import ModelFault
from engine.core.jobs import Counters
from engine.core.records import NewRequest
from engine.core.reply import Reply
from engine.kit import JobRun

BUSY_S = 60.0
"""A 503 that asks for a longer wait than this is a server that is busy, not one that is broken [ours]."""


class PutOff(Exception):
    """The model server takes no more requests for now: the job goes back to the queue for ``wait_s``, with
    its ``counters``.
    """

    def __init__(self, wait_s: float, counters: Counters) -> None:
        super().__init__(f"{wait_s:.0f} s")
        self.wait_s = wait_s
        self.counters = counters


def charge(run: JobRun, reply: Reply) -> None:
    """Count a model call; the step that keeps the reply journals it. A prompt whose size was not reported
    counts as it was estimated.
    """
    used = reply.usage
    prompt = used.prompt_tokens or run.context.prompt
    price = run.kit.seat(run.job).llm.price
    spent = run.counters.spent.with_call(prompt, used.cached_tokens or 0, used.completion_tokens or 0, price)
    run.counters = replace(run.counters, spent=spent, put_off=0)


def over_budget(run: JobRun) -> NewRequest | None:
    """The request to make before the next model call, if an allowance is used up. The next one counts from
    here: the settlement that parks the job stores that too.
    """
    budget = run.kit.config.budget
    if not budget.is_set:
        return None
    spent = _spent(run)
    found = reached(budget, spent, run.counters.spent_since)
    if found is None:
        return None
    run.counters = replace(run.counters, spent_since=spent)
    request_id = run.kit.new_id("r")
    shown = {
        "title": "",
        "titleKey": f"request.budget_{found.what}",
        "titleValues": {"used": amount(found.what, found.used), "limit": amount(found.what, found.limit)},
        "whyKey": "budget.used" if spent.cost == 0 else "budget.used_cost",
        "whyValues": {
            what: amount(what, getattr(spent, what)) for what in ("tokens", "calls", "minutes", "cost")
        },
    }
    return NewRequest(request_id=request_id, reason="budget", key=f"budget:{request_id}", shown=shown)


def _spent(run: JobRun) -> Spent:
    return replace(run.counters.spent, minutes=(run.worked_s + run.now() - run.began) / 60)


def put_off(fault: ModelFault, settings: ModelSettings, counters: Counters) -> None:
    """Raise ``PutOff`` if the fault says that the server has too many requests, and waiting was not tried too
    often: no worker is held by that.
    """
    wait = wait_after(fault, settings, counters.put_off)
    if wait is not None:
        raise PutOff(wait, replace(counters, put_off=counters.put_off + 1)) from fault


def wait_after(fault: ModelFault, settings: ModelSettings, times: int) -> float | None:
    """Seconds to stay away from a server after ``times`` earlier waits in a row; None if the fault is
    another one, or the job has waited often enough.
    """
    asked = fault.data.get("retryAfter")
    asked_s = float(asked) if isinstance(asked, int | float) else 0.0
    match fault.data.get("status"):
        case 429:
            busy = fault.retryable
        case 503:
            busy = fault.retryable and asked_s > BUSY_S
        case _:
            busy = False
    if not busy or times >= settings.max_requeues:
        return None
    return min(max(asked_s, settings.requeue_s * 2.0**times), settings.requeue_cap_s)
