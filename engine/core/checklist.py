"""Checklists of a task: named lists of items that are checked off. Shared by the tool and the guidance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import regex

from engine.core.truncate import estimate_tokens, first_characters

MOST_LISTS = 20
MOST_ITEMS = 100
LONGEST_ITEM = 300
LONGEST_NAME = 60
SHOWN = 60
"""How many items of a list the guidance shows [ours]: open ones first to be kept."""
SHOWN_TOKENS = 3_000
"""What all lists take there together [ours]: where they would take more, each shows fewer items."""
_FEWER = (30, 15, 7, 3, 0)

_NAME = regex.compile(r"[\p{L}\p{N}][\p{L}\p{M}\p{N} _-]*")


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a checklist."""

    text: str
    done: bool = False


Checklist = tuple[Item, ...]


def name_problem(name: str) -> str | None:
    """What is wrong with a checklist's name (it becomes a file's), or None."""
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        return f"up to {LONGEST_NAME} letters, digits, spaces, - and _, with a letter or digit first"
    return None


def created(items: Sequence[str], before: Checklist = ()) -> Checklist:
    """A checklist with these items: empty ones dropped, equal ones once; what was checked before stays so."""
    texts = dict.fromkeys(first_characters(" ".join(item.split()), LONGEST_ITEM)[0] for item in items)
    checked = {item.text for item in before if item.done}
    return tuple(Item(text, text in checked) for text in texts if text)


def find(items: Checklist, asked: str) -> int | list[str]:
    """The place of an item: by its text, by its number from 1, else by the only item that holds the text.
    A list of the nearest items where none or several can be meant.
    """
    wanted = " ".join(asked.split())
    texts = [item.text for item in items]
    if wanted in texts:
        return texts.index(wanted)
    if wanted.isdecimal() and 1 <= int(wanted) <= len(items):
        return int(wanted) - 1
    folded = wanted.casefold()
    holding = [at for at, text in enumerate(texts) if folded and folded in text.casefold()]
    if len(holding) == 1:
        return holding[0]
    if holding:
        return [texts[at] for at in holding[:5]]
    return get_close_matches(wanted, texts, n=3, cutoff=0.4) or texts[:5]


def checked(items: Checklist, at: int) -> Checklist:
    """The list with the item at ``at`` checked off."""
    return (*items[:at], Item(items[at].text, True), *items[at + 1 :])


def shown(name: str, items: Checklist, limit: int | None = None) -> str:
    """A list as Markdown. With a ``limit``, checked items are left out first; what is left out is counted."""
    kept = list(range(len(items)))
    if limit is not None and len(kept) > limit:
        ranked = sorted(kept, key=lambda at: items[at].done)  # stable: open ones first, in order
        kept = sorted(ranked[:limit])
    lines = [f"{name} ({sum(item.done for item in items)}/{len(items)})"]
    lines += [f"{at + 1}. [{'x' if items[at].done else ' '}] {items[at].text}" for at in kept]
    if len(kept) < len(items):
        lines.append(f"… {len(items) - len(kept)}")
    return "\n".join(lines)


def shown_all(lists: Mapping[str, Checklist]) -> str:
    """All lists, as the guidance carries them; empty without any."""
    text = ""
    for limit in (SHOWN, *_FEWER):
        text = "\n\n".join(shown(name, items, limit) for name, items in lists.items())
        if estimate_tokens(text) <= SHOWN_TOKENS:
            break
    return text


def to_json(items: Checklist) -> list[dict[str, object]]:
    """A list as it is stored and copied to ``logs/checklists/<name>.json``."""
    return [{"item": item.text, "done": item.done} for item in items]


def from_json(text: str) -> dict[str, Checklist]:
    """All lists of a task from their column."""
    return {
        name: tuple(Item(str(entry["item"]), bool(entry["done"])) for entry in entries)
        for name, entries in json.loads(text).items()
    }
