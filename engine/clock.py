"""The machine's clock."""

from __future__ import annotations

import time


class SystemClock:
    """Real time."""

    def now(self) -> float:
        """POSIX seconds."""
        return time.time()
