"""What a model answered, whatever server it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Finish(StrEnum):
    """Why the model stopped. ``CUT`` is a length limit or a filter: nothing in such a reply may be
    executed.
    """

    STOP = "stop"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asked for.

    ``call_id`` is unique within the job. ``arguments`` is the parsed object; if the model's text could not be
    understood it is None and
    ``problem`` says what is wrong and where, in English, for the model. ``raw`` is always a parseable JSON
    object text: what is sent back
    to the server in the history. ``extra`` is data of the server's own on the call (a signature of its
    thoughts), sent back with it unread.
    """

    call_id: str
    name: str
    arguments: Mapping[str, object] | None
    raw: str
    problem: str | None = None
    extra: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class CallUsage:
    """Tokens of one model call as the server reported them; None where it said nothing (a zero prompt counts
    as nothing).
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply. ``text`` is what the person may see; ``reasoning`` is kept apart and never shown as the
    answer.

    ``thought`` is the reasoning as the server gave it, by the names of its fields: some servers want it back.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = Finish.STOP
    usage: CallUsage = CallUsage()
    seconds: float = 0.0
    model: str = ""
    thought: Mapping[str, object] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """True if there is neither text nor a call: a fault of the server, never an answer."""
        return not self.calls and not self.text.strip()


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply while it streams: text or reasoning, never both."""

    text: str = ""
    reasoning: str = ""
