"""From arguments to a verb. Only the module of that verb is loaded."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from importlib import import_module

from engine import BadArgument
from maestro_lsp import __version__
from maestro_lsp.cli.arguments import Parser, Verb, translate
from maestro_lsp.cli.errors import guarded
from maestro_lsp.cli.terminal import Terminal, width

MODULES = {
    "run": "run",
    "jobs": "jobs",
    "show": "jobs",
    "answer": "answers",
    "decide": "answers",
    "comment": "answers",
    "brief": "answers",
    "cancel": "answers",
    "retry": "answers",
    "resolve": "answers",
    "changes": "changes",
    "revert": "changes",
    "export": "export",
    "prune": "prune",
    "rules": "workspace",
    "trust": "workspace",
    "pieces": "workspace",
    "worker": "worker",
    "lint": "lint",
    "schema": "lint",
    "doctor": "doctor",
    "demo": "",
}
"""Each verb, in the order of the help, and the module of ``maestro_lsp.cli`` that holds it."""

NOT_YET = ("mcp", "acp")
"""Verbs that a later version brings."""


def dispatch(arguments: list[str]) -> int:
    """Run a command line; its exit status."""
    terminal = Terminal()
    return guarded(terminal, lambda: _dispatch(arguments, terminal))


def _dispatch(arguments: list[str], terminal: Terminal) -> int:
    translate(terminal)
    first = arguments[0] if arguments else ""
    if first in ("-h", "--help", "help") or (not arguments and terminal.interactive):
        return _help(terminal)
    if first == "--version":
        terminal.line(f"maestro-lsp {__version__}")
        return 0
    if not arguments or first.startswith("-"):
        return _run("", import_module("maestro_lsp.cli.serve").VERB, arguments, terminal)
    if first == "demo":
        return int(import_module("maestro_lsp.demo").main(arguments[1:]))
    if first in NOT_YET:
        raise BadArgument("cli.not_yet", verb=first)
    if first not in MODULES:
        raise _unknown(first)
    module = import_module(f"maestro_lsp.cli.{MODULES[first]}")
    return _run(first, module.VERBS[first], arguments[1:], terminal)


def _run(name: str, verb: Verb, arguments: list[str], terminal: Terminal) -> int:
    parser = Parser(terminal, name)
    verb.add(parser)
    try:
        read = parser.read(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    except BadArgument as error:
        if verb.mistaken is not None:
            verb.mistaken(error, arguments, terminal)
        raise
    return verb.act(read, terminal)


def _unknown(name: str) -> BadArgument:
    near = get_close_matches(name, MODULES, n=1)
    if near:
        return BadArgument("cli.unknown_verb_near", verb=name, near=near[0])
    return BadArgument("cli.unknown_verb", verb=name)


def _help(terminal: Terminal) -> int:
    terminal.line(terminal.text("cli.help.head", version=__version__))
    terminal.line()
    for name in MODULES:
        usage = f"  maestro-lsp {name} {terminal.text(f'cli.usages.{name}')}".rstrip()
        if width(usage) <= 46:
            terminal.line(f"{usage}{' ' * (48 - width(usage))}{terminal.text(f'cli.verb.{name}')}")
        else:
            terminal.line(usage)
            terminal.line(f"{' ' * 48}{terminal.text(f'cli.verb.{name}')}")
    terminal.line()
    terminal.line(terminal.text("cli.help.foot"))
    sys.stdout.flush()
    return 0
