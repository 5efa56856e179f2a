"""Children of a job as its model is told of them, and what a new task is made of. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.jobs import ENDED, JobStatus
from engine.core.prompting import Texts
from engine.core.truncate import estimate_tokens, fit_head_tail
from engine.core.turn import digest


@dataclass(frozen=True, slots=True)
class Child:
    """A subtask as its parent sees it. A retried one stands for what it retries."""

    job_id: str
    task_id: str
    title: str
    status: JobStatus
    result: str = ""
    reason: str = ""

    @property
    def is_open(self) -> bool:
        """True as long as it has not ended."""
        return self.status not in ENDED


@dataclass(frozen=True, slots=True)
class SpawnOrder:
    """A task that the model asks for; ``piece`` None is the default one, ``title`` None the first line."""

    instruction: str
    piece: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Spawned:
    """The task that a call made, or (``new`` False) the one that an earlier call with the same key made."""

    task_id: str
    job_id: str
    title: str
    piece: str
    status: JobStatus
    new: bool


def child_key(order: SpawnOrder) -> str:
    """What makes a subtask the same one when it is asked for again: its title, else its instruction."""
    return f"child:{_short(order.title or order.instruction)}"


def spin_off_key(instruction: str) -> str:
    """What makes a task of its own the same one when it is asked for again."""
    return f"task:{_short(instruction)}"


def _short(text: str) -> str:
    return digest(" ".join(text.split()).casefold())


def child_lines(children: Sequence[Child], budget: int, texts: Texts) -> list[str]:
    """One entry per child: id, title, status, and its whole result, or its reason. Together they keep to
    ``budget`` tokens: what short results leave over goes to the long ones, which keep head and tail.
    """
    said = [child.result or texts(f"child.{_outcome(child)}", reason=child.reason) for child in children]
    shares = _shares([estimate_tokens(text) for text in said], budget)
    lines = []
    for child, text, share in zip(children, said, shares, strict=True):
        head, left_out, tail = fit_head_tail(text, share)
        whole = head if not left_out else head + texts("child.left_out", count=len(left_out)) + tail
        body = whole.strip().replace("\n", "\n  ")
        lines.append(
            texts(
                "child.line", id=child.job_id, title=child.title, status=child.status.value, text=body
            ).rstrip()
        )
    return lines


def _outcome(child: Child) -> str:
    if child.is_open:
        return "open"
    return "reason" if child.reason else "silent"


def _shares(sizes: Sequence[int], budget: int) -> list[int]:
    """A fair share of ``budget`` for each size: nobody gets more than it needs, the rest is divided."""
    shares = [0] * len(sizes)
    left = max(0, budget)
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    for place, index in enumerate(order):
        shares[index] = min(sizes[index], left // (len(order) - place))
        left -= shares[index]
    return shares
