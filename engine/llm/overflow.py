"""Recognising that a prompt was refused as too long, and the limit that the refusal names. Pure.

Every server words it differently; the table holds the wordings, the tests one whole body of each server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

_N = r"(?P<limit>\d[\d,_]*)"
_WORDINGS = tuple(
    re.compile(wording, re.IGNORECASE)
    for wording in (
        rf"exceeds the available context size(?: \({_N} tokens\))?",  # llama-server
        rf"maximum context length (?:is|of) {_N}",  # OpenAI, vLLM, OpenRouter
        rf"longer than the maximum model length of {_N}",  # vLLM
        rf"{_N} maximum context length",  # Mistral
        rf"context length of only {_N}",  # LM Studio
        rf"n_keep: \d+ >= n_ctx: {_N}",  # LM Studio
        rf"longer than the model's context length \({_N}",  # SGLang
        rf"exceed context window of {_N}",  # llama-cpp-python
        rf"prompt is too long(?:: \d+ tokens > {_N})?",  # Anthropic
        rf"input token count.{{0,40}}exceeds the maximum number of tokens allowed(?: \({_N}\))?",  # Gemini
        rf"`?inputs`? tokens .{{0,40}}must be <= {_N}",  # TGI
        rf"maximum prompt length is {_N}",  # xAI
        r"tokens to keep from the initial prompt is greater than the context length",  # LM Studio
        r"input (?:length )?exceeds (?:the |maximum )?context (?:length|window)",  # Ollama, OpenAI
        r"exceed_context_size|context_length_exceeded|context length exceeded|context_window_exceeded",
        r"input is too (?:large|long)|request too large|payload too large",
        r"reduce the length of (?:the |your )?(?:messages|prompt|input)",  # Groq
    )
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """The prompt was too long; ``limit`` in tokens where it was named."""

    limit: int | None


def overflow_in(body: bytes, texts: str) -> Overflow | None:
    """Whether an error says that the prompt is too long. ``texts`` are the server's own words in ``body``."""
    found = [match for wording in _WORDINGS if (match := wording.search(texts)) is not None]
    if not found:
        return None
    named = [match["limit"] for match in found if match.groupdict().get("limit")]
    limits = [int(text.replace(",", "").replace("_", "")) for text in named]
    return Overflow(_limit_field(body) or (limits[0] if limits and limits[0] > 0 else None))


def _limit_field(body: bytes) -> int | None:
    """llama-server names its limit in a field of its own."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = value.get("error", value) if isinstance(value, Mapping) else None
    limit = error.get("n_ctx") if isinstance(error, Mapping) else None
    return limit if isinstance(limit, int) and limit > 0 else None
