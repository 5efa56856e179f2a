"""Which slot of a llama-server a job uses (engine.md §7: a job keeps its slot). Pure.

Left to itself the server gives a request to the slot whose prompt begins most like it, and two jobs of one
piece begin alike: they would take one slot from each other, turn by turn, and lose their prefix each time.
"""

from __future__ import annotations


class SlotBook:
    """The slots of one server. Holders are job ids; ``first`` is the slot that is given first, so that
    several engines on one server do not begin with the same one.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._held: dict[str, int] = {}
        self._working: set[str] = set()
        self._used: dict[int, int] = {}
        self._clock = 0

    def take(self, holder: str, total: int) -> int | None:
        """The slot of a holder that works now: the one it had, unless another working one has it; else the
        one that was not used for the longest time. None if all ``total`` slots belong to others at work.
        """
        taken = {self._held[other] for other in self._working if other != holder}
        slot = self._held.get(holder)
        if slot is None or slot >= total or slot in taken:
            order = sorted(range(total), key=lambda n: (self._used.get(n, 0), (n - self._first) % total))
            slot = next((number for number in order if number not in taken), None)
        if slot is None:
            return None
        self._clock += 1
        self._used[slot] = self._clock
        self._held = {other: held for other, held in self._held.items() if held != slot}
        self._held[holder] = slot
        self._working.add(holder)
        return slot

    def rest(self, holder: str) -> None:
        """The holder works no more for now; it gets its slot back if nobody else took it meanwhile."""
        self._working.discard(holder)
