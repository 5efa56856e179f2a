"""Reasoning that goes back to a server, and what a server has made known of its wishes. Pure.

Servers differ, and say so only by refusing: some want the reasoning of every assistant message back, some
refuse a message that has it. What was learnt from a refusal holds for the model from then on. It is learnt
at the first request in which it makes a difference, so what a server has accepted stays a prefix of what is
sent after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

_CONTENT, _DETAILS = "reasoning_content", "reasoning_details"
_NOTHING = b'" "'
"""For a message without reasoning where the field is a must: servers exist that refuse an empty text."""
_JOINED = ("text", "summary")


@dataclass(frozen=True, slots=True)
class Habit:
    """Which fields of reasoning a model gets back. ``reasoning_details`` go back unasked: opaque blocks,
    partly encrypted, which whoever makes them wants to see again.
    """

    content: bool = False
    details: bool = True


def learn(habit: Habit, complaint: str, messages: Sequence[bytes], thoughts: Mapping[int, bytes]) -> Habit:
    """What a refusal teaches; the same habit if it names no such field, if that was learnt before, or if the
    next request would be no other.
    """
    if _names(complaint, _DETAILS) and habit.details and any(map(_has_details, thoughts.values())):
        return replace(habit, details=False)
    if _names(complaint, _CONTENT) and not habit.content and any(map(_is_assistant, messages)):
        return replace(habit, content=True)
    return habit


def with_thoughts(messages: Sequence[bytes], thoughts: Mapping[int, bytes], habit: Habit) -> Sequence[bytes]:
    """The messages as this model wants them: their own bytes, with what it wants at the end of each."""
    if not habit.content and not (habit.details and any(map(_has_details, thoughts.values()))):
        return messages
    return [
        _with_thought(message, thoughts.get(place, b""), habit) if _is_assistant(message) else message
        for place, message in enumerate(messages)
    ]


def _with_thought(message: bytes, thought: bytes, habit: Habit) -> bytes:
    given = msgspec.json.decode(thought, type=dict[str, msgspec.Raw]) if thought else {}
    added = b""
    if habit.content:
        text = given.get(_CONTENT) or given.get("reasoning") or _NOTHING
        added += b',"reasoning_content":' + bytes(text)
    if habit.details and _DETAILS in given:
        added += b',"reasoning_details":' + bytes(given[_DETAILS])
    return message[:-1] + added + b"}"


def _names(complaint: str, field: str) -> bool:
    return re.search(rf"(?<!\w){field}(?!\w)", complaint) is not None


def _has_details(thought: bytes) -> bool:
    return b'"reasoning_details":' in thought


def _is_assistant(message: bytes) -> bool:
    return message.startswith(b'{"role":"assistant"')


def merge_details(known: list[dict[str, Any]], new: object) -> None:
    """Puts the blocks of a chunk's ``reasoning_details`` to those gathered: texts of one block are joined,
    its other fields are set once they come.
    """
    for block in new if isinstance(new, list) else ():
        if not isinstance(block, Mapping):
            continue
        owner = _owner(known, block)
        if owner is None:
            known.append(dict(block))
            continue
        for name, value in block.items():
            if name in _JOINED and isinstance(value, str) and isinstance(owner.get(name), str):
                owner[name] += value
            elif value is not None:
                owner[name] = value


def _owner(known: list[dict[str, Any]], block: Mapping[str, Any]) -> dict[str, Any] | None:
    """The block that a fragment goes on with: same type and index (without an index, the last one), and no
    other id; encrypted ones come whole.
    """
    if block.get("type") == "reasoning.encrypted":
        return None
    same = [
        one for one in known if (one.get("type"), one.get("index")) == (block.get("type"), block.get("index"))
    ]
    if not same or (block.get("index") is None and same[-1] is not known[-1]):
        return None
    ids = [one for one in (same[-1].get("id"), block.get("id")) if one]
    return same[-1] if ids[:1] == ids[1:] or len(ids) < 2 else None


def text_of_details(new: object) -> str:
    """What of a chunk's ``reasoning_details`` can be read."""
    blocks = [block for block in (new if isinstance(new, list) else ()) if isinstance(block, Mapping)]
    return "".join(text for block in blocks for name in _JOINED if isinstance(text := block.get(name), str))
