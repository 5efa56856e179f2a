"""The scripted model's prompt memory: which part of a prompt a real server would not have to evaluate again.

Counts are honest: a prompt is rendered in the order system text, tools, conversation (the order of Qwen's
template, see the cache law in the specification), cut into tokens, and compared with what earlier requests
left in the slots. Tokens are a rough cut of the text, one per word piece or CJK character; they stand in for
a tokenizer of a real model.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from engine.llm.scripted.script import text_of

_TOKEN = re.compile(
    r"<\|[a-z_]+\|>|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]| ?[A-Za-z]{1,6}|\d{1,3}|\s+|.",
    re.DOTALL,
)
_SIMILARITY = 0.10
"""llama-server's ``slot_prompt_similarity``: below this share of common prefix a slot is not preferred over
the oldest one.
"""


def render_prompt(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
    """The prompt as one text: system, tools, conversation."""
    system = [text_of(message) for message in messages if message.get("role") in ("system", "developer")]
    parts = ["<|im_start|>system\n", "\n".join(system)]
    if tools:
        parts += ["\n# Tools\n", *(json.dumps(tool, ensure_ascii=False) + "\n" for tool in tools)]
    parts.append("<|im_end|>\n")
    for message in messages:
        if message.get("role") not in ("system", "developer"):
            parts += [f"<|im_start|>{message.get('role')}\n", text_of(message)]
            for call in message.get("tool_calls") or ():
                function = call.get("function") or {}
                parts.append(
                    f"\n<tool_call>\n{function.get('name')} {function.get('arguments')}\n</tool_call>"
                )
            parts.append("<|im_end|>\n")
    return "".join(parts)


def tokens_of(text: str) -> list[str]:
    """The text cut into tokens; joined they give the text again."""
    return _TOKEN.findall(text)


def common_prefix(a: Sequence[str], b: Sequence[str]) -> int:
    """How many tokens both begin with."""
    for index, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return index
    return min(len(a), len(b))


class PromptSlots:
    """What each slot of the server holds. Safe to use from several threads."""

    def __init__(self, count: int) -> None:
        self._slots: list[list[str]] = [[] for _ in range(max(1, count))]
        self._used = [0] * len(self._slots)
        self._clock = 0
        self._lock = threading.Lock()

    def take(self, prompt: list[str], wanted: int | None = None) -> int:
        """Puts ``prompt`` into the ``wanted`` or the best slot and returns how many of its tokens that slot
        already held.

        As llama-server does it: the slot with the longest common prefix if that is a tenth of the prompt,
        else the slot that was not used for the longest time. At least one token is always evaluated.
        """
        with self._lock:
            held = [common_prefix(slot, prompt) for slot in self._slots]
            best = max(range(len(held)), key=lambda index: held[index])
            if wanted is not None and 0 <= wanted < len(held):
                best = wanted
            elif held[best] < _SIMILARITY * len(prompt):
                best = min(range(len(held)), key=lambda index: self._used[index])
            self._clock += 1
            self._used[best] = self._clock
            self._slots[best] = prompt
            return max(0, min(held[best], len(prompt) - 1))
