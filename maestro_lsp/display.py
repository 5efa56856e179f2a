"""How outside text is shown: on one line, nothing hidden, nothing that a client takes for markup.

What a model or a file says can pose as something else: line breaks that push the true command out of sight,
bidirectional marks that turn it around, look-alike letters, Markdown links. An approval is read before it is
believed, so it is escaped without loss (a backslash stands for itself only when doubled).
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any

import msgspec

from engine import Request, grapheme_ceil, grapheme_floor, short_id

MESSAGE_LIMIT = 600
"""Characters of a message; VS Code cuts at about 1000, others sooner."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
_JOINING = "\u200d\ufe0f"
"""Hidden, but parts of emoji that people use in prose."""

_CUT = " …({})… "
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPACES = re.compile(r" {4,}")
_WORD = re.compile(r"\w+")
_LOOK_ALIKE = re.compile(r"[\u0370-\u03ff\u0400-\u052f\uff21-\uff3a\uff41-\uff5a]")


def exact(text: str) -> str:
    """A title of an approval on one line, without loss: every hidden, bidirectional or look-alike character
    by its code point, long runs of spaces as a count, no Markdown link.
    """
    named = _WORD.sub(lambda word: _mixed(word[0]), text.replace("\\", "\\\\"))
    escaped = "".join(_escaped(character) for character in named)
    return _SPACES.sub(lambda run: f" \\u{{20}}×{len(run[0])} ", escaped).replace("](", "]\\(")


def plain(text: str) -> str:
    """Prose on one line: white space as one space, hidden characters gone, no Markdown link.

    For words that only inform; what a person approves is shown by `exact`.
    """
    shown = (" " if c.isspace() else c for c in text if c.isspace() or c in _JOINING or not _is_hidden(c))
    return " ".join("".join(shown).split()).replace("](", "] (")


def lines(text: str) -> str:
    """Text of several lines with its hidden characters shown, for a document."""
    return "".join(c if c in "\n\t" else _escaped(c) if _is_hidden(c) else c for c in text)


def clip(text: str, limit: int) -> str:
    """At most ``limit`` characters: head, tail, and how many characters were left out between them."""
    if len(text) <= limit:
        return text
    room = limit - len(_CUT.format(len(text)))
    first = grapheme_floor(text, room * 2 // 3)
    last = grapheme_ceil(text, len(text) - (room - room * 2 // 3))
    return text[:first] + _CUT.format(last - first) + text[last:]


def head(text: str, limit: int) -> str:
    """The beginning of a text, with an ellipsis if it is cut."""
    return text if len(text) <= limit else text[: grapheme_floor(text, limit - 1)].rstrip() + "…"


def sentence(text: str, stop: str) -> str:
    """A text with ``stop`` at its end, unless it ends with a mark of its own."""
    return text if not text or text[-1] in ".!?…。！？:：" else text + stop


def _is_hidden(character: str) -> bool:
    return (
        unicodedata.category(character) in _HIDDEN
        or character in _INVISIBLE
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0000" <= character <= "\U000e0fff"
    )


def _escaped(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    odd_space = unicodedata.category(character) == "Zs" and character != " "
    return f"\\u{{{ord(character):x}}}" if odd_space or _is_hidden(character) else character


def _mixed(word: str) -> str:
    """Look-alike letters by code point, in a word that also has letters of ASCII."""
    if word.isascii() or not any(c.isascii() and c.isalpha() for c in word):
        return word
    return _LOOK_ALIKE.sub(lambda c: f"\\u{{{ord(c[0]):x}}}", word)


def subject(task_id: str, detail: str | None = None) -> str:
    """The beginning of every message about a task: ``[maestro t-…9XYZ · code]``."""
    return f"[maestro {short_id(task_id)}{f' · {plain(detail)}' if detail else ''}]"


Say = Callable[..., str]


def told(request: Request, say: Say) -> Request:
    """The request with everything that is ours to say in the reader's language. ``say`` is the catalogue."""
    return msgspec.structs.replace(
        request,
        title=worded(say, request.title_key, request.title, request.title_values),
        why=worded(say, request.why_key, request.why, request.why_values),
        rule=request.rule and worded(say, request.rule_key, request.rule, request.rule_values),
    )


def told_event(event: dict[str, Any], say: Say) -> dict[str, Any]:
    """An event for the reader of a language: the request in it is as `told`, titles of calls and briefs of
    results that are ours are in the language too; what else it holds stays.
    """
    match event:
        case {"kind": "tool_call", "titleKey": key}:
            return {**event, "title": worded(say, key, event["title"], event.get("titleValues", {}))}
        case {"kind": "tool_result", "briefKey": key}:
            return {**event, "brief": worded(say, key, event["brief"], event.get("briefValues", {}))}
        case {"kind": "request"}:
            return _told_request(event, say)
        case _:
            return event


def _told_request(event: dict[str, Any], say: Say) -> dict[str, Any]:
    request = told(msgspec.convert(event["request"], Request), say)
    words = {"title": request.title, "detail": request.detail, "why": request.why}
    rule = {} if request.rule is None else {"rule": request.rule}
    return {**event, "request": {**event["request"], **words, **rule}}


def worded(say: Say, key: str | None, otherwise: str, values: dict[str, str]) -> str:
    """The text of a key that an addition to the engine may have made up."""
    try:
        return say(key, **values) if key else otherwise
    except (KeyError, ValueError, IndexError):
        return otherwise


def described(entry: Any, say: Say) -> str:
    """What a piece (an entry of ``Client.pieces``) is for: a shipped one says it in the reader's language."""
    key = f"shipped.{entry.name}" if entry.source == "shipped" else None
    return worded(say, key, entry.description, {})


def action(request: Request) -> str:
    """What an approval is about, whole: in a title the engine cuts the end of a long command off."""
    command = (request.arguments or {}).get("command")
    if request.tool != "Bash" or not isinstance(command, str):
        return request.title
    return f"{request.title.partition(':')[0]}: {command}"


def public_url(url: str) -> str:
    """A URL without what may be a secret in the wrong place: a name with a password, a query."""
    scheme, _, rest = url.partition("://")
    bare = rest.rpartition("@")[2].partition("?")[0]
    return url if bare == rest else f"{scheme}://…{bare}"


def details(request: Request, title: str, why: str, rule: str, say: Say) -> str:
    """The page "Show details" opens: what exactly would happen, and why it is asked. Markdown."""
    parts = [
        f"# {_heading(title)}",
        f"{say('lsp.details.task')}: `{request.task_id}`  \n`{request.request_id}`",
    ]
    if why:
        parts.append(f"{say('lsp.details.why')}: {lines(why)}")
    if rule:
        parts.append(f"{say('lsp.details.rule')}: {lines(rule)}")
    for diff in request.diff or ():
        parts += [
            f"## {_heading(diff.uri.rpartition('/')[2])}",
            fenced(diff.uri, ""),
            _diff(diff.before, diff.after),
        ]
    if request.detail:
        parts += [f"## {say('lsp.details.detail')}", fenced(request.detail, "")]
    if request.arguments:
        told = json.dumps(request.arguments, ensure_ascii=False, indent=2)
        parts += [f"## {say('lsp.details.arguments')}", fenced(told, "json")]
    return "\n\n".join(parts) + "\n"


def _heading(text: str) -> str:
    return exact(text).replace("`", "\\`")


def _diff(before: str | None, after: str) -> str:
    old, new = (before or "").splitlines(), after.splitlines()
    return fenced("\n".join(difflib.unified_diff(old, new, lineterm="", n=3)), "diff")


def fenced(text: str, kind: str) -> str:
    """A code block that its content cannot end."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{kind}\n{lines(text)}\n{fence}"
