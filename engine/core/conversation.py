"""Whether a conversation goes on: into the next movement, and over a park (engine.md §3 and §4). Pure."""

from __future__ import annotations

from dataclasses import replace

from engine.core.jobs import TurnState
from engine.core.limits import ContextLimits
from engine.core.outcome import ASK, WAIT_SUBTASKS, MovementResult, Settlement
from engine.core.piece import Piece, conversation_into
from engine.core.prompting import Texts
from engine.core.truncate import fit_head_tail


def goes_on(piece: Piece, outcome: MovementResult, ratio: float, limits: ContextLimits) -> bool:
    """Whether the movement that ``outcome`` hops to joins the messages of the one it leaves
    (``conversation: continue``).

    At the share of the context that is worth a warning it restarts instead, and so does a hop that nobody
    decided.
    """
    if outcome.next is None or outcome.forced or ratio >= limits.warn:
        return False
    return conversation_into(piece, piece.movement(outcome.next)) == "continue"


def kept_over(row: Settlement, piece: Piece) -> bool:
    """Whether a park keeps the conversation, so that the resume goes on message for message: what its row
    says, and with ``resume: continue`` a question and a wait for subtasks too.
    """
    asked = piece.resume == "continue" and row.sentinel in (ASK, WAIT_SUBTASKS)
    return row.parks and (row.keeps_conversation or asked)


def turn_of_next(turn: TurnState) -> TurnState:
    """The counters of a movement that joins a conversation: fresh, but for what is known of the messages."""
    return TurnState(pressure=replace(turn.pressure, fired=(), wrap_up=False, shrunk=False))


def in_full(text: str, budget: int, texts: Texts) -> str:
    """An answer of the person whole, within ``budget`` tokens: a pasted log must not lose its end. Beyond the
    budget head and tail.
    """
    head, left_out, tail = fit_head_tail(text, budget)
    return head if not left_out else head + texts("answer.left_out", count=len(left_out)) + tail
