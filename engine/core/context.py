"""How much of the context is used, and how large a tool result may be."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.limits import ContextLimits


@dataclass(frozen=True, slots=True)
class ContextManager:
    """The context of one movement. ``limit`` in tokens; ``used`` is the last prompt plus completion,
    ``appended`` an estimate since.
    """

    limit: int
    used: int = 0
    appended: int = 0

    def get_available_tokens(self) -> int:
        """Tokens left in the context, never negative."""
        return max(0, self.limit - self.used - self.appended)

    def tool_result_budget(self, limits: ContextLimits) -> int:
        """The largest tool result in tokens: a share of what is left, capped and floored."""
        share = int(self.get_available_tokens() * limits.result_share)
        return max(limits.result_min, min(limits.result_max, share))

    def ratio(self) -> float:
        """Used share of the limit."""
        return self.used / self.limit if self.limit > 0 else 0.0
