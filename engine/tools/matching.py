"""The regular expression of a search, made ready. Pure.

There is one dialect, whatever program helps with the search: that of the module ``regex``, whose matching can
be stopped, but for two things that nobody means who searches.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

import regex

from engine.tools.needle import Needle, needle

LONGEST_PATTERN = 1000
"""``regex`` makes a table of the characters looked for: half a minute for 4,000 alike, unstoppable."""
_BRACES = re.compile(r"\\[pPN]\{[^{}]*\}|\\.|\{(?:\d+,?\d*|,\d+)\}|\{", re.DOTALL)
_MOST_REPEATED = 20_000
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,\d*)?\}|.", re.DOTALL)
_RECURSION = re.compile(r"(?<!\\)(?:\\\\)*\(\?(?:R|\d|[+-]\d|&|P>)")


@dataclass(frozen=True, slots=True)
class Matcher:
    """A pattern made ready: ``needle`` is None if the pattern says of no text that it must be there."""

    compiled: regex.Pattern[str]
    needle: Needle | None
    likely: regex.Pattern[str] | None


def matcher(pattern: str) -> Matcher:
    """The regular expression of a search by lines. Raises ``ValueError`` with the reason if it is none.

    A brace that is no number of repetitions is a brace, as in ``${name}``; patterns that call themselves
    are refused, for they take memory without end.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"it has more than {LONGEST_PATTERN} characters")
    if _RECURSION.search(pattern):
        raise ValueError("a pattern cannot call itself or a group, as (?R) and (?1) do")
    if _unrolled(pattern) > _MOST_REPEATED:
        raise ValueError(f"its numbers of repetitions come to more than {_MOST_REPEATED:,} characters")
    compiled = _compiled(_BRACES.sub(lambda piece: "\\{" if piece[0] == "{" else piece[0], pattern))
    found = needle(pattern)
    if found is None:
        return Matcher(compiled, None, None)
    texts = "|".join(regex.escape(text) for text in found.texts)
    return Matcher(compiled, found, regex.compile(texts, regex.IGNORECASE if found.folded else 0))


def _unrolled(pattern: str) -> int:
    """About how many single characters the pattern is with every ``{n}`` written out, as the compiler does
    it: ``(a{1000}){1000}`` is a million, and takes its memory before any time limit counts.
    """
    groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token[1] is not None:
            more = last * (max(1, int(token[1])) - 1) if len(token[1]) < 10 else _MOST_REPEATED
            groups[-1] += more
            last += more
        elif token[0] == "(":
            groups.append(0)
        elif token[0] == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        else:
            groups[-1] += 1
            last = 1
    return sum(groups)


def _compiled(source: str) -> regex.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return regex.compile(source, regex.MULTILINE)
    except RecursionError:
        raise ValueError("its groups are nested too deeply") from None
    except (regex.error, OverflowError, KeyError, IndexError) as fault:
        raise ValueError(str(fault)) from None
