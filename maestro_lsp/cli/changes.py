"""`changes`: what a job did to files."""

from __future__ import annotations

import asyncio

from engine import FileChanged, to_wire
from maestro_lsp.cli.arguments import Namespace, Parser, Verb
from maestro_lsp.cli.diffs import show_diff
from maestro_lsp.cli.find import holding
from maestro_lsp.cli.terminal import Terminal, clean


def _add(parser: Parser) -> None:
    parser.option("id", metavar="ID", help="job_id")
    parser.json()


def _changes(args: Namespace, terminal: Terminal) -> int:
    async def act() -> list[FileChanged]:
        async with holding("job", args.id) as (client, job_id):
            return await client.changes(job_id)

    files = asyncio.run(act())
    if args.json:
        terminal.json({"files": to_wire(files)})
    elif not files:
        terminal.say("cli.changes.none")
    else:
        for file in files:
            _show(file, terminal)
    return 0


def _show(file: FileChanged, terminal: Terminal) -> None:
    status = terminal.text(f"cli.changes.{file.status}")
    other = "" if file.current_matches else f"  ({terminal.text('cli.changes.changed_since')})"
    terminal.line(terminal.styled(f"{status}  {clean(file.path)}{other}", "bold"))
    if file.binary:
        terminal.say("cli.changes.binary")
    else:
        show_diff(terminal, file.path, file.before, file.after)


VERBS = {"changes": Verb(_changes, _add)}
