"""Token counts of a reply, wherever and however a server reports them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.reply import CallUsage

_PROMPT = ("prompt_tokens", "input_tokens", "prompt_eval_count")
_COMPLETION = ("completion_tokens", "output_tokens", "eval_count")
_CACHED = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
_DETAILS = ("prompt_tokens_details", "input_tokens_details")


@dataclass(slots=True)
class UsageGatherer:
    """Keeps the largest of each count: servers repeat usage while it grows, so a sum would count tokens
    twice.
    """

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Takes whatever counts a chunk or body holds."""
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        for holder in (chunk, chunk.get("x_groq"), first):
            if isinstance(holder, Mapping) and isinstance(holder.get("usage"), Mapping):
                self._usage(holder["usage"])
        timings = chunk.get("timings")
        if isinstance(timings, Mapping):
            self._timings(timings)

    def result(self) -> CallUsage:
        """The counts. A prompt of zero is no count, and nothing is known of a cache without a prompt."""
        if not self.prompt:
            return CallUsage(None, self.completion or None, None)
        cached = None if self.cached is None else min(self.cached, self.prompt)
        return CallUsage(self.prompt, self.completion, cached)

    def _usage(self, usage: Mapping[str, Any]) -> None:
        self.prompt = _larger(self.prompt, *(usage.get(name) for name in _PROMPT))
        self.completion = _larger(self.completion, *(usage.get(name) for name in _COMPLETION))
        details = [usage.get(name) for name in _DETAILS]
        inner = [detail.get("cached_tokens") for detail in details if isinstance(detail, Mapping)]
        self.cached = _larger(self.cached, *inner, *(usage.get(name) for name in _CACHED))

    def _timings(self, timings: Mapping[str, Any]) -> None:
        """llama-server: ``prompt_n`` tokens evaluated, ``cache_n`` taken from the cache."""
        cached, evaluated = _count(timings.get("cache_n")), _count(timings.get("prompt_n"))
        self.cached = _larger(self.cached, cached)
        if cached is not None and evaluated is not None:
            self.prompt = _larger(self.prompt, cached + evaluated)
        self.completion = _larger(self.completion, timings.get("predicted_n"))


def _larger(known: int | None, *given: object) -> int | None:
    counts = [count for count in (known, *map(_count, given)) if count is not None]
    return max(counts, default=None)


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return None
    return int(value)
