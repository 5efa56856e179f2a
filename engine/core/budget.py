"""A job's budget (engine.md §7): what it has used, what that costs, what is reached. Pure.

The allowance counts from the last time a person said "go on": then the job may use as much again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Budget:
    """What a job may use before a person is asked; None: as much as it likes. ``tokens`` are prompt (cached
    or not) and completion together, ``calls`` model calls, ``minutes`` the time a worker was busy with it
    (not what it waited), ``cost`` in the unit of the price table.
    """

    tokens: int | None = None
    calls: int | None = None
    minutes: float | None = None
    cost: float | None = None

    @property
    def is_set(self) -> bool:
        """Whether anything is limited."""
        return any(limit is not None for limit in (self.tokens, self.calls, self.minutes, self.cost))


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs per million tokens; ``cached`` None: as ``input``."""

    input: float = 0.0
    cached: float | None = None
    output: float = 0.0

    def of(self, prompt: int, cached: int, completion: int) -> float:
        """The cost of a call; ``cached`` tokens are part of ``prompt``."""
        cached = min(cached, prompt)
        at = self.input if self.cached is None else self.cached
        return ((prompt - cached) * self.input + cached * at + completion * self.output) / 1_000_000


@dataclass(frozen=True, slots=True)
class Spent:
    """What a job has used so far."""

    tokens: int = 0
    calls: int = 0
    minutes: float = 0.0
    cost: float = 0.0

    def with_call(self, prompt: int, cached: int, completion: int, price: Price | None) -> Spent:
        """What it has used after one more model call."""
        cost = price.of(prompt, cached, completion) if price is not None else 0.0
        return replace(
            self, tokens=self.tokens + prompt + completion, calls=self.calls + 1, cost=self.cost + cost
        )


@dataclass(frozen=True, slots=True)
class Reached:
    """An allowance that is used up: which, how much was used of it, how much it is."""

    what: str
    used: float
    limit: float


def reached(budget: Budget, spent: Spent, since: Spent) -> Reached | None:
    """The first allowance that is used up, counted from ``since``; None if the job may go on."""
    for what in ("tokens", "calls", "minutes", "cost"):
        limit = getattr(budget, what)
        used = getattr(spent, what) - getattr(since, what)
        if limit is not None and used >= limit:
            return Reached(what, used, limit)
    return None


def amount(what: str, value: float) -> str:
    """An amount as people read it: ``12,345`` tokens or calls, ``3.5`` minutes, ``0.0214`` of money."""
    match what:
        case "tokens" | "calls":
            return f"{round(value):,}"
        case "minutes":
            return f"{value:.1f}"
        case _:
            return f"{value:.4f}".rstrip("0").rstrip(".") or "0"
