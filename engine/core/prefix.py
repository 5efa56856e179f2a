"""What two requests of a run must share, so that a server's prefix cache holds (the cache law, engine.md §3).
Pure.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.messages import encode_message


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as far as the law is about it: the ``tools`` array, the encoded messages, the number of their
    conversation, and the enriched instruction that opens it.
    """

    conversation: int
    tools: bytes
    messages: Sequence[bytes]
    enriched: str


def broken_at(before: Sent, now: Sent) -> int | None:
    """The first byte in which ``now`` differs from ``before`` although it should not; None if all is well.

    Within a conversation all messages before stay as they are; a conversation that restarts keeps the tools,
    the system text and the enriched instruction. The byte is counted from the start of the ``tools`` array,
    on through the messages with one byte between them, which is their order in the request.
    """
    if before.tools != now.tools:
        return first_difference(before.tools, now.tools)
    place = len(before.tools) + 1
    kept = _kept(before, now)
    if len(now.messages) >= len(kept) and all(map(operator.is_, kept, now.messages)):
        return None
    for number, old in enumerate(kept):
        new = now.messages[number] if number < len(now.messages) else b""
        at = first_difference(old, new)
        if at < len(old):
            return place + at
        place += len(old) + 1
    return None


def _kept(before: Sent, now: Sent) -> Sequence[bytes]:
    """The messages, the last one perhaps in part, that must come again."""
    if before.conversation == now.conversation:
        return before.messages
    opening = encode_message("user", before.enriched)[: -len(b'"}')] if before.enriched.strip() else b""
    return [*before.messages[:1], opening]


def first_difference(one: bytes, other: bytes) -> int:
    """The offset of the first byte in which two texts differ; their common length if one begins the other."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    return next(at for at in range(length) if one[at] != other[at])
