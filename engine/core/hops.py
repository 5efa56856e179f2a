"""Decisions between movements: validating a transition, counting visits, guards, the ASK limit. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from engine.core.jobs import Counters
from engine.core.limits import Safety
from engine.core.outcome import SettlementTable, Via
from engine.core.piece import Movement, Piece
from engine.core.prompting import Texts
from engine.core.tooling import Signal, ToolResult


def validate_transition(
    movement: Movement, next_step: str, table: SettlementTable, texts: Texts
) -> str | None:
    """None if the movement's rules allow ``next_step``; else what is wrong and the valid choices."""
    choices = [rule.next for rule in movement.rules]
    if next_step in choices:
        return None
    if table.is_sentinel(next_step) and next_step not in table.allowed_in_rules():
        return texts("transition.sentinel", step=next_step)
    if not choices:
        return texts("transition.none")
    return texts("transition.invalid", step=next_step, choices=", ".join(dict.fromkeys(choices)))


def process_transition_calls(
    movement: Movement, next_step: str, summary: str, lessons: str, table: SettlementTable, texts: Texts
) -> Signal | ToolResult:
    """A transition call as an outcome: the hop (or WAIT_SUBTASKS through a rule), or an error result;
    the loop goes on after that.
    """
    if (problem := validate_transition(movement, next_step, table, texts)) is not None:
        return ToolResult(problem, is_error=True, brief=f"transition to {next_step} refused")
    wait = "subtasks" if table.is_sentinel(next_step) else None
    return Signal(next_step, via=Via.RULE, wait_reason=wait, summary=summary, lessons=lessons)


@dataclass(frozen=True, slots=True)
class Hop:
    """Entering ``movement``: the counters after it and which visit it is; or the guard that forbids it."""

    movement: str
    counters: Counters
    visit: int
    abort: str | None = None


def enter(piece: Piece, name: str, counters: Counters, limits: Safety) -> Hop:
    """Count an entry into a movement (never a resume). Guards: ``max_movements``, ``revisit_limit``,
    ``cycle``.
    """
    visit = counters.visits.get(name, 0) + 1
    in_row = counters.revisits_in_row + 1 if visit > 1 else 0
    after = replace(
        counters,
        movements=counters.movements + 1,
        revisits_in_row=in_row,
        visits={**counters.visits, name: visit},
        history=(*counters.history, name),
    )
    own = next((m.max_consecutive_revisits for m in piece.movements if m.name == name), None)
    abort = None
    if after.movements > piece.max_movements:
        abort = "max_movements"
    elif in_row > (limits.revisit_limit if own is None else own):
        abort = "revisit_limit"
    elif repeats_without_work(after.history, limits.cycle_limit):
        abort = "cycle"
    return Hop(name, after, visit, abort)


WORK = "*"
"""Marks, in ``Counters.history``, a successful write or execute between two entries."""


def worked(counters: Counters) -> Counters:
    """Note that something was really done, so that going round is not a cycle."""
    if counters.history and counters.history[-1] != WORK:
        return replace(counters, history=(*counters.history, WORK))
    return counters


def repeats_without_work(history: tuple[str, ...], limit: int) -> bool:
    """True if the newest entries are one sequence of two or more movements, ``limit`` times, with no work
    between.
    """
    tail: list[str] = []
    for entry in reversed(history):
        if entry == WORK:
            break
        tail.append(entry)
    for size in range(2, len(tail) // limit + 1):
        first = tail[:size]
        if all(tail[k * size : (k + 1) * size] == first for k in range(limit)):
            return True
    return False


class AskVerdict(Enum):
    """What becomes of a question to the person."""

    PARK = auto()
    DEFLECT = auto()
    ABORT = auto()


def ask_policy(counters: Counters, limits: Safety) -> tuple[AskVerdict, Counters]:
    """Asks 1 to ``ask_limit`` of a job park; further ones are deflected; the last deflection allowed ends the
    job.
    """
    if counters.asks < limits.ask_limit:
        return AskVerdict.PARK, replace(counters, asks=counters.asks + 1)
    counters = replace(counters, deflections=counters.deflections + 1)
    if counters.deflections >= limits.max_ask_limit_deflections:
        return AskVerdict.ABORT, counters
    return AskVerdict.DEFLECT, counters
