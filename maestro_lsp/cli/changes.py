"""`changes` and `revert`: what a job did to files, and undoing it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from engine import BadArgument, FileChanged, Reverted, to_wire
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
    old = f"{clean(file.renamed_from)} → " if file.renamed_from else ""
    terminal.line(terminal.styled(f"{status}  {old}{clean(file.path)}{other}", "bold"))
    if file.before_mode is not None:
        terminal.say("cli.changes.mode", before=file.before_mode, after=file.after_mode)
    if file.binary:
        terminal.say("cli.changes.binary")
    elif file.before != file.after:
        show_diff(terminal, file.path, file.before, file.after)


def _add_revert(parser: Parser) -> None:
    parser.option("id", metavar="ID", help="job_id")
    parser.option("files", metavar="FILE", nargs="*", help="revert_files")
    parser.json()


def _revert(args: Namespace, terminal: Terminal) -> int:
    """Exit status 1 if something is not as before the job because of this call's findings."""

    async def act() -> Reverted:
        async with holding("job", args.id) as (client, job_id):
            files = [_in_workspace(file, client.workspace) for file in args.files]
            return await client.revert(job_id, files or None)

    done = asyncio.run(act())
    why = {one.path: terminal.text(f"revert.kept.{one.reason}") for one in done.kept}
    if args.json:
        kept = [{"path": one.path, "reason": one.reason, "text": why[one.path]} for one in done.kept]
        terminal.json({"reverted": done.reverted, "kept": kept})
    else:
        for path in done.reverted:
            terminal.say("cli.revert.done", path=clean(path))
        for path, text in why.items():
            terminal.say("cli.revert.kept", path=clean(path), why=text)
        if not done.reverted and not why:
            terminal.say("cli.revert.nothing")
    return int(any(one.reason != "already_reverted" for one in done.kept))


def _in_workspace(file: str, workspace: Path) -> str:
    """A path as it was typed (from the current folder if that is in the workspace), relative to the
    workspace. Raises ``BadArgument``.
    """
    here, root = Path.cwd(), Path(os.path.realpath(workspace))
    start = here if here == root or root in here.parents else root
    path = Path(os.path.normpath(start / file))
    if path != root and root not in path.parents:
        raise BadArgument("revert.outside", path=file, workspace=str(workspace))
    return str(path.relative_to(root))


VERBS = {"changes": Verb(_changes, _add), "revert": Verb(_revert, _add_revert)}
