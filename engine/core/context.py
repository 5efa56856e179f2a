"""How full the context is, what becomes due at which share, and how large a tool result may be
(engine.md §5).

Sizes are in tokens. *Estimates* are our own, by characters: cheap, additive, made once per message. What the
server reported over our estimate of the same prompt is the *scale* of the model's tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.core.jobs import Pressure
from engine.core.limits import ContextLimits
from engine.core.messages import encode_tool_result
from engine.core.records import Message
from engine.core.truncate import estimate_tokens, fit_head_tail

IMAGE_TOKENS = 1_200
"""What an image counts in an estimate, whatever its size [ours]."""
MESSAGE_TOKENS = 4
"""What the template of a model puts around each message, about [ours]."""
FIRST_ESTIMATE = 3
"""The iteration from which a prompt without reported usage is estimated."""
CREDIBLE = 8
"""A report this many times smaller than our own estimate is no report: tokenizers do not differ so much."""
GROWTH = 64
"""A prompt that did not grow although about this many tokens were appended was cut by the server."""
LEARNT_SHARE = 0.9
"""A prompt that was refused without naming the limit is held to be this many times too long [ours]."""
ENOUGH = 256
"""Tokens between two reports that tell how the model counts what is appended."""
SMALLEST_RESULT = 64
"""What is left of a shrunk tool result at least."""


class Action(StrEnum):
    """What happens at a share of the context limit, weakest first."""

    WARN = "warn"
    PROMPT = "prompt"
    FORCE_TRANSITION = "force_transition"
    EXHAUSTED = "exhausted"


def assess(ratio: float, fired: Collection[str], limits: ContextLimits) -> tuple[Action, ...]:
    """The actions that are due at ``ratio``, weakest first: each once per movement, several at once all of
    them; the strongest decides.
    """
    thresholds = (
        (Action.WARN, limits.warn),
        (Action.PROMPT, limits.prompt),
        (Action.FORCE_TRANSITION, limits.force),
        (Action.EXHAUSTED, limits.exhausted),
    )
    return tuple(action for action, share in thresholds if ratio >= share and action not in fired)


@dataclass(frozen=True, slots=True)
class ContextManager:
    """The context of a movement: its ``limit``, the last ``prompt`` and ``completion``, and an estimate of
    what was ``appended`` since.
    """

    limit: int
    prompt: int = 0
    completion: int = 0
    appended: int = 0

    def get_available_tokens(self) -> int:
        """Tokens left in the context, never negative."""
        return max(0, self.limit - self.prompt - self.completion - self.appended)

    def tool_result_budget(self, limits: ContextLimits, sharing: int = 1) -> int:
        """The largest tool result in tokens: a share of what is left, capped and floored.

        ``sharing`` results at once stay together below what is left, as long as the floor allows it.
        """
        share = limits.result_share
        each = int(self.get_available_tokens() * share / (1 + (sharing - 1) * share))
        return max(limits.result_min, min(limits.result_max, each))

    def ratio(self) -> float:
        """The last prompt's share of the limit."""
        return self.prompt / self.limit if self.limit > 0 else 0.0


def spoken(body: bytes) -> tuple[str, int]:
    """What of an encoded message costs tokens: its texts with the names and arguments of its calls, and its
    number of images.
    """
    message = json.loads(body)
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    texts = [part["text"] for part in parts if part.get("type") == "text"]
    for call in message.get("tool_calls") or ():
        texts += [call["function"]["name"], call["function"]["arguments"]]
    return "\n".join(texts), sum(1 for part in parts if part.get("type") != "text")


def message_size(body: bytes, count: Callable[[str], int] = estimate_tokens) -> int:
    """The size of an encoded message by a count of its text's tokens."""
    text, images = spoken(body)
    return MESSAGE_TOKENS + count(text) + IMAGE_TOKENS * images


class Sizes:
    """The size of each message of a conversation, taken once. It notices by itself that a run went on to
    another conversation.
    """

    def __init__(self) -> None:
        self._messages: list[Message] | None = None
        self.taken: list[int] = []

    def untaken(self, messages: list[Message]) -> list[Message]:
        """The messages that have no size yet: append theirs to ``taken``."""
        if self._messages is not messages or len(self.taken) > len(messages):
            self._messages, self.taken = messages, []
        return messages[len(self.taken) :]

    def forget(self, first: int) -> None:
        """Take the sizes from message ``first`` on anew."""
        del self.taken[first:]


def estimated(known: Pressure, counts: Sequence[int], tools: int, scale: float = 1.0) -> int:
    """The tokens of a prompt whose size was not reported, by our own ``counts`` of its messages and of its
    ``tools``.

    They are scaled by the last report over the same count: by what was appended between the last two if that
    was enough to tell, for tools are written in a language of their own; without any report by ``scale``.
    """
    if not known.real:
        return round(scale * (tools + sum(counts)))
    between = sum(counts[known.earlier_at : known.real_at]) if known.earlier else 0
    if between >= ENOUGH and known.real > known.earlier:
        scale = (known.real - known.earlier) / between
    else:
        scale = known.real / max(1, tools + sum(counts[: known.real_at]))
    return known.real + round(scale * sum(counts[known.real_at :]))


def was_cut(known: Pressure, told: int, appended: int) -> bool:
    """Whether the server silently left out a part of the prompt: messages were only appended, and what it
    reports has not grown. Then its limit is about what it reported.
    """
    return bool(told and known.real) and told <= known.real and appended >= GROWTH


def shrunk_results(
    messages: Sequence[Message], accepted: int, room: int, note: Callable[[int], str]
) -> dict[int, bytes]:
    """The results after the ``accepted`` messages, made to fit ``room`` tokens together: place → new body of
    each one that changes. The largest give way first; head and tail stay, between them
    ``note(characters left out)``.
    """
    texts = {
        place: str(json.loads(message.body)["content"])
        for place, message in enumerate(messages)
        if place >= accepted and message.role == "tool"
    }
    sizes = {place: estimate_tokens(text) for place, text in texts.items()}
    most = max(SMALLEST_RESULT, _level(sorted(sizes.values()), room))
    shrunk: dict[int, bytes] = {}
    for place, text in texts.items():
        if sizes[place] > 2 * SMALLEST_RESULT and sizes[place] > most:
            head, left_out, tail = fit_head_tail(text, most, lines=True)
            call_id = messages[place].call_id or ""
            shrunk[place] = encode_tool_result(call_id, head + note(len(left_out)) + tail)
    return shrunk


def _level(sizes: Sequence[int], room: int) -> int:
    """The height at which ``sizes`` (ascending) must be cut to fit ``room`` together."""
    left = room
    for at, size in enumerate(sizes):
        share = left // (len(sizes) - at)
        if size > share:
            return share
        left -= size
    return sizes[-1] if sizes else 0


class Refusal(StrEnum):
    """What becomes of a prompt that was refused as too long."""

    SHRINK = "shrink"
    FORCE = "force"
    END = "end"


def after_refusal(*, opening: bool, shrinkable: bool, shrunk: bool, forced_before: int) -> Refusal:
    """Results the server has not accepted are shrunk once; then as at 95 %; what is refused again behind
    that, or as an opening, ends as ``context_exhausted``.
    """
    if opening:
        return Refusal.END
    if shrinkable and not shrunk:
        return Refusal.SHRINK
    return Refusal.END if forced_before else Refusal.FORCE
