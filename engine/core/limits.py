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

    @property
    def in_order(self) -> bool:
        """Whether the four thresholds rise from ``warn`` to ``exhausted``."""
        return self.warn <= self.prompt <= self.force <= self.exhausted


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


@dataclass(frozen=True, slots=True)
class Classifier:
    """The one call that chooses a piece: how long it may take, in seconds, and how much of the task it is
    shown, in tokens [ours: numbers].
    """

    timeout_s: float = 30.0
    task_tokens: int = 2_000


@dataclass(frozen=True, slots=True)
class Snapshots:
    """How much of a workspace is kept, so that what commands change can be put back [ours: numbers]. A larger
    file, and what is beyond the room for all, is known by size and times only; with more entries than
    ``most_files`` nothing is noted of commands.
    """

    largest_bytes: int = 4 << 20
    most_bytes: int = 512 << 20
    most_files: int = 100_000
