"""The plain part of the shell: which Bash strings mean exactly the words they show, and which of those may
run unasked.

A string is *plain* if it is simple commands joined by ``&&``, ``||``, ``;`` and ``|``, whose words are bare
or quoted text that bash takes as it stands (``sandbox-and-faults.md`` §3.2). Everything else is not wrong, it
only has to be asked about. The sandbox is the boundary; this is a filter for questions.

Non-ASCII text is plain, because file names and search texts are Japanese: UTF-8 shares no byte with the
shell's own characters, so a letter can hide none. It is limited to visible characters (letters, marks,
numbers, punctuation, symbols): no other spaces, no invisible, bidirectional, private or unassigned code
points. The command word itself is ASCII, so no look-alike passes for a known program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import regex

from engine.core.command_options import Words, options_fit, runs_code
from engine.core.command_table import BUILTINS, DEFAULT_LIST, SUBCOMMANDED
from engine.core.secrets import is_secret_path

Commands = tuple[Words, ...]

MAX_BYTES = 4096


class Odd(StrEnum):
    """Why a string is not plain."""

    EMPTY = "empty"
    TOO_LONG = "too_long"
    CONTROL = "control"
    CHARACTER = "character"
    EMPTY_PART = "empty_part"
    OPERATOR = "operator"
    QUOTE = "quote"
    EXPANSION = "expansion"
    REDIRECT = "redirect"
    GLOB = "glob"
    HOME = "home"
    COMMENT = "comment"
    ASSIGNMENT = "assignment"
    BUILTIN = "builtin"
    COMMAND_WORD = "command_word"
    OUTSIDE = "outside"
    SECRET = "secret"


@dataclass(frozen=True, slots=True)
class Unplain:
    """A Bash string that is not plain: why, and the character or word that makes it so (code points as
    ``U+202E``).
    """

    reason: Odd
    detail: str = ""


@dataclass(frozen=True, slots=True)
class WordRule:
    """A stored rule for one simple command: its exact words, or with ``prefix`` its first words."""

    words: Words
    prefix: bool = False


_VISIBLE = regex.compile(
    r"[[ -~][\p{L}\p{M}\p{N}\p{P}\p{S}]--[\p{Default_Ignorable_Code_Point}\u2800]]*+", regex.V1
)
# ASCII that bash takes literally outside quotes, and everything beyond ASCII (already known to be visible).
_TOKEN = re.compile(
    r"(?P<space> +)|(?P<join>&&|\|\||;|\|)"
    r"|'(?P<single>[^']*)'|\"(?P<double>[^\"$`\\!]*)\""
    r"|(?P<bare>[A-Za-z0-9_\-./:=,+@%^\u0080-\U0010ffff]+)"
)
_ODD_CHARACTERS: dict[str, Odd] = {
    **dict.fromkeys("$`\\!", Odd.EXPANSION),
    **dict.fromkeys("<>", Odd.REDIRECT),
    **dict.fromkeys("*?[]{}", Odd.GLOB),
    **dict.fromkeys("&()", Odd.OPERATOR),
    "~": Odd.HOME,
    "#": Odd.COMMENT,
    "'": Odd.QUOTE,
}
_COMMAND_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_OPTION_NAME = re.compile(r"-{1,2}[A-Za-z0-9-]*")


def parse(command: str) -> Commands | Unplain:
    """The simple commands of a Bash string, each as its words, or why the string is not plain.

    What it accepts, bash splits into the same words (tested against bash itself).
    """
    if len(command.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return Unplain(Odd.TOO_LONG, str(MAX_BYTES))
    seen = _VISIBLE.match(command)
    if (end := seen.end() if seen else 0) < len(command):
        odd = command[end]
        return Unplain(
            Odd.CONTROL if ord(odd) < 32 or ord(odd) == 127 else Odd.CHARACTER, f"U+{ord(odd):04X}"
        )
    commands = _split(command)
    if isinstance(commands, Unplain):
        return commands
    return next((fault for words in commands for fault in _word_faults(words)), commands)


def _split(command: str) -> Commands | Unplain:
    parts: list[list[str]] = [[]]
    glued = False
    at = 0
    while at < len(command):
        token = _TOKEN.match(command, at)
        if token is None:
            return _odd_at(command, at)
        match token.lastgroup:
            case "space":
                glued = False
            case "join":
                parts.append([])
                glued = False
            case kind:
                text = token[kind or 0]
                if glued:
                    parts[-1][-1] += text
                else:
                    parts[-1].append(text)
                glued = True
        at = token.end()
    if not all(parts):
        return Unplain(Odd.EMPTY) if len(parts) == 1 else Unplain(Odd.EMPTY_PART)
    return tuple(tuple(words) for words in parts)


def _odd_at(command: str, at: int) -> Unplain:
    char = command[at]
    if char == '"':
        active = re.match(r'"[^"$`\\!]*([$`\\!])', command[at:])
        return Unplain(Odd.EXPANSION, active[1]) if active else Unplain(Odd.QUOTE, char)
    return Unplain(_ODD_CHARACTERS[char], char)


def _word_faults(words: Words) -> Iterable[Unplain]:
    first = words[0]
    if "=" in first:
        yield Unplain(Odd.ASSIGNMENT, first)
    elif first in BUILTINS:
        yield Unplain(Odd.BUILTIN, first)
    elif not _COMMAND_WORD.fullmatch(first):
        yield Unplain(Odd.COMMAND_WORD, first)
    for word in words:
        pieces = _path_pieces(word)
        if any(_leads_outside(piece) for piece in pieces):
            yield Unplain(Odd.OUTSIDE, word)
        if any(is_secret_path(re.split(r"[/\\]", piece)) for piece in pieces):
            yield Unplain(Odd.SECRET, word)


def _path_pieces(word: str) -> list[str]:
    """The parts of a word that a program may take for a path: itself, after ``=``, ``:``, ``,``, ``@``,
    and a value glued to an option.
    """
    pieces = [word, *re.split(r"[=:,@\s]", word)]
    if word.startswith("-"):
        pieces.append(_OPTION_NAME.sub("", word, count=1))
    return pieces


def _leads_outside(piece: str) -> bool:
    return piece.startswith(("/", "~")) or ".." in re.split(r"[/\\]", piece)


def loose_words(command: str) -> Words:
    """The words of any Bash string, plain or not, roughly: quotes and backslashes dropped, split at spaces
    and the shell's characters.

    For refusals only: it may see too much, and a determined writer can hide a word from it.
    """
    return tuple(word for word in re.split(r"[\s$(){}<>|&;`=,:]+", re.sub(r"['\"\\]", "", command)) if word)


def secret_word(command: str) -> str | None:
    """The first word of a Bash string that names a secret-looking file, by ``loose_words``."""
    return next((word for word in loose_words(command) if is_secret_path(word.split("/"))), None)


def listed(commands: Commands, allowed: Sequence[str] | None) -> bool:
    """Whether each part matches an entry of ``allowed_commands``, or of the default list where that is None.

    An entry is the first words of a command. Programs with a row in the option table also need every further
    option in it; an interpreter or wrapper needs an entry of three words or more that ends in the program it
    runs, or the exact words.
    """
    entries = DEFAULT_LIST if allowed is None else _entries(allowed)
    return bool(commands) and all(any(_covers(entry, words) for entry in entries) for words in commands)


def in_default_list(commands: Commands) -> bool:
    """Whether each part is of the default list: all that runs unasked under the weaker sandbox (level B)."""
    return listed(commands, None)


def _entries(allowed: Sequence[str]) -> Iterable[Words]:
    parsed = (parse(entry) for entry in allowed)
    return tuple(
        commands[0] for commands in parsed if not isinstance(commands, Unplain) and len(commands) == 1
    )


def _covers(entry: Words, words: Words) -> bool:
    if words == entry or words[: len(entry)] != entry:
        return words == entry
    if runs_code(words):
        return len(entry) >= 3 and _names_a_program(entry[-1])
    return options_fit(words, named=len(entry))


def _names_a_program(word: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][\w./-]*", word) is not None and not runs_code((word,))


def shortest_prefix(words: Words) -> int | None:
    """How many first words a rule for this command must keep if the person shortens it; None if it must keep
    all of them.

    Interpreters and wrappers are never shortened, and ``git`` or ``npm`` alone says nothing. An option table
    still holds for the rest.
    """
    if runs_code(words) or not options_fit(words, named=0):
        return None
    least = 2 if words[0] in SUBCOMMANDED else 1
    return least if len(words) >= least and not words[least - 1].startswith("-") else None


def ruled(commands: Commands, rules: Sequence[WordRule]) -> bool:
    """Whether each part matches a stored rule.

    An interpreter or wrapper matches only as the first part, where nothing can be piped into it.
    """
    return bool(commands) and all(
        (index == 0 or not runs_code(words)) and any(_rule_covers(rule, words) for rule in rules)
        for index, words in enumerate(commands)
    )


def _rule_covers(rule: WordRule, words: Words) -> bool:
    if words == rule.words:
        return True
    least = shortest_prefix(words)
    return (
        rule.prefix
        and least is not None
        and len(rule.words) >= least
        and words[: len(rule.words)] == rule.words
    )
