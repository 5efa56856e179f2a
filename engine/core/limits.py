"""The numbers of the engine [ours], typed and overridable: guards, context thresholds, leases."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Safety:
    """The guards of a movement and of a job [ours: numbers]."""

    max_iterations: int = 200
    text_only_limit: int = 3
    repeated_calls: int = 4
    revisit_limit: int = 5
    cycle_limit: int = 3
    ask_limit: int = 3
    max_ask_limit_deflections: int = 2
    unknown_tool_limit: int = 3
    truncated_limit: int = 2
    empty_retries: int = 2
    bash_timeout_s: float = 120.0


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """Shares of the context limit at which something happens, and the budget of one tool result in tokens."""

    warn: float = 0.70
    prompt: float = 0.85
    force: float = 0.95
    exhausted: float = 0.99
    result_share: float = 0.5
    result_max: int = 60_000
    result_min: int = 1_000
    default_limit: int = 32_768


@dataclass(frozen=True, slots=True)
class Leases:
    """How long a job stays its owner's without a sign of life, and what counts as an old interruption.
    Seconds [ours].
    """

    lease_s: float = 30.0
    heartbeat_s: float = 5.0
    poll_s: float = 0.2
    recover_s: float = 2.0
    stale_s: float = 600.0
    max_crashes: int = 3
