"""What model calls cost: a job's usage, and the event that tells one call."""

from __future__ import annotations

from dataclasses import replace

from engine.core.jobs import Usage
from engine.core.records import Event
from engine.core.reply import CallUsage, Reply


def counted(usage: Usage, used: CallUsage) -> Usage:
    """The usage of a job after one more call."""
    total = usage.prompt_tokens + (used.prompt_tokens or 0)
    cached = usage.cached_tokens + (used.cached_tokens or 0)
    known = used.cached_tokens is not None and total > 0
    return replace(
        usage,
        prompt_tokens=total,
        completion_tokens=usage.completion_tokens + (used.completion_tokens or 0),
        cached_tokens=cached,
        reused_pct=round(100 * cached / total, 1) if known else usage.reused_pct,
        calls=usage.calls + 1,
    )


def usage_event(reply: Reply) -> Event:
    """What one call cost."""
    used = reply.usage
    return Event(
        "usage",
        {
            "promptTokens": used.prompt_tokens or 0,
            "completionTokens": used.completion_tokens or 0,
            "cachedTokens": used.cached_tokens or 0,
            "seconds": round(reply.seconds, 3),
        },
    )
