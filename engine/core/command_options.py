"""Whether the options of a command only let it read, and whether it runs code that its words do not show."""

from __future__ import annotations

import re

from engine.core.command_table import (
    GIT_REFUSED_LONG,
    GIT_REFUSED_SHORT,
    GIT_REFUSED_WORDS,
    INTERPRETERS,
    PROGRAMS,
    WRAPPERS,
    Options,
)

Words = tuple[str, ...]


def runs_code(words: Words) -> bool:
    """Whether a command starts with an interpreter or a wrapper: what it does is decided by its arguments or
    its input.

    So does an option before the subcommand of a program like ``npm``, behind which an ``exec`` may stand.
    """
    program = _program(words[0])
    if program in INTERPRETERS or (program,) in WRAPPERS:
        return True
    subcommands = [wrapper[1] for wrapper in WRAPPERS if len(wrapper) == 2 and wrapper[0] == program]
    return (
        bool(subcommands) and len(words) > 1 and (words[1] in subcommands or words[1].startswith(("-", "+")))
    )


def _program(word: str) -> str:
    name = word.casefold().removesuffix(".exe")
    return name if name in INTERPRETERS else re.sub(r"[\d.-]+$", "", name)


def options_fit(words: Words, named: int = 1) -> bool:
    """Whether a command's words fit the option table; the first ``named`` words were named by whoever allowed
    it and are taken as they are.

    True for programs without a row, save git's other subcommands, where options that run programs are refused
    with their abbreviations.
    """
    key = words[:2] if words[:2] in PROGRAMS else words[:1]
    if (options := PROGRAMS.get(key)) is not None:
        return _fits(words[len(key) :], options, max(named - len(key), 0))
    return words[0] != "git" or _git_fits(words[1:], max(named - 1, 0))


def _fits(words: Words, options: Options, named: int) -> bool:
    operands: list[tuple[int, str]] = []
    value = False
    for index, word in enumerate(words):
        if options.veto is not None and options.veto.search(word):
            return False
        if not word.startswith("-") or word == "-":
            if not value:
                operands.append((index, word))
            value = False
            continue
        # What follows `--` is checked too: it may be the value of an option, and then the words after it are
        # options.
        value = _takes_value(word, options)
        if index >= named and word != "--" and not _option_fits(word, options):
            return False
    if (
        options.script is not None
        and operands
        and operands[0][0] >= named
        and not options.script.fullmatch(operands[0][1])
    ):
        return False
    return options.operands is None or len(operands) <= options.operands


def _option_fits(word: str, options: Options) -> bool:
    if word in options.exact or (options.numbers and re.fullmatch(r"-\d+[A-Za-z]?", word)):
        return True
    if word.startswith("--"):
        return word[2:].split("=", 1)[0] in options.long
    for index, letter in enumerate(word[1:], 1):
        if letter in options.valued:
            return options.attached or index == len(word) - 1
        if letter not in options.short:
            return False
    return True


def _takes_value(word: str, options: Options) -> bool:
    """Whether the word after this one is its value: a group of short options that ends in one with a
    value.
    """
    if word.startswith("--"):
        return False
    letters = word[1:]
    first = next((index for index, letter in enumerate(letters) if letter in options.valued), None)
    return first is not None and first == len(letters) - 1


def _git_fits(words: Words, named: int) -> bool:
    if not words or (named == 0 and words[0].startswith("-")):
        return False
    for word in words[named:]:
        if word in GIT_REFUSED_WORDS:
            return False
        if word.startswith("--"):
            name = word[2:].split("=", 1)[0]
            if name and any(refused.startswith(name) for refused in GIT_REFUSED_LONG):
                return False
        elif word.startswith("-") and any(letter in word for letter in GIT_REFUSED_SHORT):
            return False
    return True
