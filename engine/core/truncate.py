"""Cutting text to a budget of tokens: where it may be cut, and how much fits.

Every cut lies between two graphemes, and every function returns pieces that rejoin to the text it was given:
what was left out is never lost track of. Tokens are estimated in quarters: a whole is the sum of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex

_CJK = regex.compile(
    r"[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
    r"\U0001b000-\U0001b2ff\U00020000-\U0003fffd]"
)
_GRAPHEME = regex.compile(r"\X")
_LOOK_BACK = 512
_JOINERS = "\u200c\u200d"


def quarter_tokens(text: str) -> int:
    """The estimate of ``text`` in quarters of a token: one per byte of UTF-8, four per CJK character.

    It is additive: the estimate of two pieces is that of both together.
    """
    if text.isascii():
        return len(text)
    cjk = _CJK.findall(text)
    total = len(text.encode("utf-8", "surrogatepass"))
    return total - sum(3 if character < "\U00010000" else 4 for character in cjk) + 4 * len(cjk)


def estimate_tokens(text: str) -> int:
    """About how many tokens ``text`` is: a quarter of its bytes, one for each CJK character; rounded up."""
    return -(-quarter_tokens(text) // 4)


def grapheme_floor(text: str, index: int) -> int:
    """The last border between graphemes at or before ``index``.

    Inside a grapheme of more than 512 characters it is ``index`` itself.
    """
    if index <= 0 or index >= len(text):
        return max(0, min(index, len(text)))
    start = index
    while start > max(0, index - _LOOK_BACK) and not _plain_border(text, start):
        start -= 1
    border = start
    for match in _GRAPHEME.finditer(text, start):
        if match.end() > index:
            break
        border = match.end()
    return border if border > start or _plain_border(text, start) or start == 0 else index


def grapheme_ceil(text: str, index: int) -> int:
    """The first border between graphemes at or after ``index``."""
    if index <= 0 or index >= len(text):
        return max(0, min(index, len(text)))
    floor = grapheme_floor(text, index)
    if floor == index:
        return index
    match = _GRAPHEME.match(text, floor)
    return match.end() if match else index


def _plain_border(text: str, index: int) -> bool:
    """Whether two plain ASCII characters meet at ``index``: always a border, without looking further."""
    if index == 0:
        return True
    before, after = text[index - 1], text[index]
    return before < "\x7f" and after < "\x7f" and (before != "\r" or after != "\n")


def fit_head(text: str, budget_tokens: int, *, lines: bool = False) -> tuple[str, str]:
    """Split ``text`` into a head of at most ``budget_tokens`` and the rest; ``head + rest == text``.

    With ``lines`` the head ends at the end of a line, if that keeps at least half of what fits. A grapheme
    larger than the budget is cut inside: whoever pages through a text must always get on.
    """
    longest = _longest_head(text, 4 * budget_tokens)
    cut = grapheme_floor(text, longest) or longest
    if lines and cut < len(text):
        border = text.rfind("\n", 0, cut) + 1
        cut = border if border >= cut // 2 and border else cut
    return text[:cut], text[cut:]


def fit_tail(text: str, budget_tokens: int, *, lines: bool = False) -> tuple[str, str]:
    """Split ``text`` into the rest and a tail of at most ``budget_tokens``; ``rest + tail == text``."""
    longest = len(text) - _longest_tail(text, 4 * budget_tokens)
    cut = grapheme_ceil(text, longest)
    cut = longest if cut == len(text) else cut
    if lines and cut:
        border = text.find("\n", cut) + 1
        cut = border if border and border - cut <= (len(text) - cut) // 2 else cut
    return text[:cut], text[cut:]


def fit_head_tail(text: str, budget_tokens: int, *, lines: bool = False) -> tuple[str, str, str]:
    """Split ``text`` into head, dropped middle and tail; head and tail together fit ``budget_tokens``.

    What fits as a whole is all head. Otherwise the tail gets half: the end of an output says how it ended.
    """
    if quarter_tokens(text) <= 4 * budget_tokens:
        return text, "", ""
    head, rest = fit_head(text, budget_tokens // 2, lines=lines)
    middle, tail = fit_tail(rest, budget_tokens - budget_tokens // 2, lines=lines)
    return head, middle, tail


def escaped(text: str) -> str:
    """``text`` on one line: what cannot be seen as escapes (but for the joiners that some names need), halves
    of characters as U+FFFD.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char.isprintable() or char in _JOINERS:
        return char
    return "\ufffd" if "\ud800" <= char <= "\udfff" else char.encode("unicode_escape").decode()


def graphemes(text: str) -> Iterator[str]:
    """The text in the smallest pieces that people take for one character."""
    return (match[0] for match in _GRAPHEME.finditer(text))


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters, with an ellipsis where something was left out."""
    return text if len(text) <= limit else first_characters(text, limit - 1)[0] + "…"


def first_characters(text: str, limit: int) -> tuple[str, str]:
    """Split ``text`` after at most ``limit`` characters, on a grapheme border; ``head + rest == text``."""
    cut = grapheme_floor(text, limit)
    return text[:cut], text[cut:]


def _longest_head(text: str, quarters: int) -> int:
    """The length of the longest prefix of at most ``quarters``; every character counts for at least one."""
    low, high = 0, min(len(text), max(quarters, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if quarter_tokens(text[:middle]) <= quarters:
            low = middle
        else:
            high = middle - 1
    return low


def _longest_tail(text: str, quarters: int) -> int:
    low, high = 0, min(len(text), max(quarters, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if quarter_tokens(text[len(text) - middle :]) <= quarters:
            low = middle
        else:
            high = middle - 1
    return low
