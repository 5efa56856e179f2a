"""`export`: a job with its task as one document on stdout."""

from __future__ import annotations

import asyncio

from engine import EXPORT_FORMATS
from maestro_lsp.cli.arguments import Namespace, Parser, Verb
from maestro_lsp.cli.find import configure, holding
from maestro_lsp.cli.terminal import Terminal
from maestro_lsp.exporting import export_parts


def _add(parser: Parser) -> None:
    parser.option("id", metavar="ID", help="job_id")
    parser.option("--format", choices=EXPORT_FORMATS, default="md", help="export_format")


def _export(args: Namespace, terminal: Terminal) -> int:
    async def act() -> None:
        async with holding("job", args.id) as (client, job_id):
            await configure(client)  # the keys that must not be in it
            async for part in export_parts(client, job_id, args.format, terminal.text):
                terminal.part(part)

    asyncio.run(act())
    return 0


VERBS = {"export": Verb(_export, _add)}
