"""Tool calls that a server left in the text of the reply. Pure, and conservative: what a person may read
stays text.

Calls are taken only of tools that were offered, and only where nothing but calls can be meant: a message that
is nothing but JSON calls (bare or in fences), or blocks in a model's own form that begin a line outside of
code fences and have nothing after them. ``textforms`` reads the forms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from engine.llm import textforms
from engine.llm.textforms import FORMS, TextCall, Tools, json_calls

__all__ = ["MARKS", "Found", "TextCall", "Tools", "calls_in_text"]

MARKS = (*FORMS, textforms.CHANNEL, textforms.START)
"""What begins a call in the text: nothing from there on is shown while it streams."""
_OPENING = re.compile(r"(?:\A|(?<=\n))[ \t]*(" + "|".join(map(re.escape, MARKS)) + ")")
_FENCED = re.compile(r"```(?:json|tool_call|tool_code)?[ \t]*\n(.*?)\n[ \t]*```\s*", re.DOTALL)
_STRAY = re.compile(
    r"</?tool_calls?>|</function>|</parameter>|<\|(?:im_end|eot_id|eom_id|end|call|return)\|>|</s>"
    r"|<\|tool_calls_section_end\|>|<｜tool▁calls▁end｜>|<｜end▁of▁sentence｜>|\s"
)
_MOST_OPENINGS = 200


@dataclass(slots=True)
class Found:
    """A text told apart: what is text, the calls that were in it, and reasoning in channels of its own."""

    text: str
    calls: list[TextCall] = field(default_factory=list)
    reasoning: str = ""


def calls_in_text(text: str, tools: Tools) -> Found:
    """The text without its calls, and the calls; the text as it is where there are none. ``tools`` are those
    offered.
    """
    if not tools:
        return Found(text)
    if whole := _whole_message(text.strip(), tools):
        return Found("", whole)
    return _blocks(text, tools) or Found(text)


def _whole_message(text: str, tools: Tools) -> list[TextCall]:
    """The calls of a message that is nothing but JSON calls, bare or each in a fence."""
    if text.startswith("```"):
        bodies = [match[1] for match in _FENCED.finditer(text)]
        if not bodies or _FENCED.sub("", text + "\n"):
            return []
    elif text.startswith(("{", "[")):
        bodies = [text]
    else:
        return []
    calls: list[TextCall] = []
    for body in bodies:
        found = json_calls(body, 0, tools)
        if found is None or body[found.end :].strip():
            return []
        calls += found.calls
    return calls


def _blocks(text: str, tools: Tools) -> Found | None:
    found = Found("")
    kept: list[str] = []
    taken = looked = fences = 0
    for number, opening in enumerate(_OPENING.finditer(text)):
        start = opening.start()
        if start < taken:
            continue
        if number >= _MOST_OPENINGS:
            return None
        fences += text.count("```", looked, start)
        looked = start
        if fences % 2:
            continue
        if opening[1] in (textforms.CHANNEL, textforms.START):
            return _in_channels(text, start, tools)
        block = FORMS[opening[1]](text, opening.end(), tools)
        if block is None:
            continue
        kept.append(text[taken:start])
        found.calls += block.calls
        taken = looked = block.end
    if not found.calls or _STRAY.sub("", text[taken:]):
        return None
    found.text = "".join(kept).strip()
    return found


def _in_channels(text: str, start: int, tools: Tools) -> Found | None:
    """A message in gpt-oss' channels; further on than its beginning they count only if a call is in them."""
    said = textforms.channels(text, start, tools)
    if said is None or not (said.calls or not text[:start].strip()):
        return None
    return Found((text[:start] + said.text).strip(), said.calls, said.reasoning)
