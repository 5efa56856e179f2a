"""`argparse` in the person's language, with mistakes as one sentence."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from engine import BadArgument
from maestro_lsp.cli.terminal import Terminal

Namespace = argparse.Namespace

_SENTENCES = {
    "usage: ": "usage",
    "options": "options",
    "positional arguments": "positionals",
    "unrecognized arguments: %s": "unrecognized",
    "the following arguments are required: %s": "required",
    "argument %(argument_name)s: %(message)s": "argument",
    "invalid choice: %(value)r (choose from %(choices)s)": "choice",
    "invalid %(type)s value: %(value)r": "value",
    "not allowed with argument %s": "conflict",
    "expected one argument": "one",
    "expected at most one argument": "at_most_one",
    "expected at least one argument": "at_least_one",
    "expected %s argument": "some",
    "expected %s arguments": "some",
    "ignored explicit argument %r": "ignored",
}
"""What argparse says, and the catalogue's key for it (``cli.argparse.…``)."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One call of the command line: ``add`` declares its arguments, ``act`` does it and returns the exit
    status. ``mistaken`` is told of arguments that cannot be read, before the person is.
    """

    act: Callable[[Namespace, Terminal], int]
    add: Callable[[Parser], None] = lambda parser: None
    mistaken: Callable[[BadArgument, list[str], Terminal], None] | None = None


class Parser(argparse.ArgumentParser):
    """The arguments of one verb. A mistake raises ``BadArgument``."""

    def __init__(self, terminal: Terminal, verb: str = "") -> None:
        self.terminal = terminal
        self.verb = verb
        super().__init__(
            prog=f"maestro-lsp {verb}".strip(),
            description=terminal.text(f"cli.verb.{verb or 'server'}"),
            add_help=False,
            allow_abbrev=False,
        )

    def option(self, *names: str, help: str, **more: Any) -> None:
        """Add an argument whose help is the catalogue's ``cli.arg.<help>``."""
        self.add_argument(*names, help=self.terminal.text(f"cli.arg.{help}").replace("%", "%%"), **more)

    def workspace(self) -> None:
        """Add ``-w DIR``."""
        self.option("-w", "--workspace", metavar="DIR", type=Path, default=None, help="workspace")

    def json(self) -> None:
        """Add ``--json``."""
        self.option("--json", action="store_true", help="json")

    def read(self, arguments: list[str]) -> Namespace:
        """Parse. Raises ``BadArgument``, and ``SystemExit`` after ``--help``."""
        self.option("-h", "--help", action="help", help="help")
        return self.parse_args(arguments)

    def error(self, message: str) -> NoReturn:
        """Raise ``BadArgument`` with what is wrong and where the usage is."""
        raise BadArgument("cli.usage_error", problem=message, command=self.prog)


def translate(terminal: Terminal) -> None:
    """Let argparse speak the person's language. It takes its sentences from a module-wide gettext and has no
    other way to give it ours.
    """
    told = {english: terminal.text(f"cli.argparse.{key}") for english, key in _SENTENCES.items()}

    def one(text: str) -> str:
        return told.get(text, text)

    def several(singular: str, plural: str, count: int) -> str:
        return one(singular if count == 1 else plural)

    argparse._ = one  # type: ignore[attr-defined]
    argparse.ngettext = several  # type: ignore[attr-defined]
