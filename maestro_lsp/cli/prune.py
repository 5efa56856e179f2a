"""`prune`: forgets tasks that ended long ago."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from engine import (
    NotTrusted,
    Pruned,
    StoreFault,
    age_of,
    all_stores,
    prune_tasks,
    store_path,
    to_wire,
    workspace_of,
)
from maestro_lsp.cli.arguments import Namespace, Parser, Verb
from maestro_lsp.cli.find import folder, has_store, opened
from maestro_lsp.cli.terminal import Terminal, clean

DEFAULT_AGE = "30d"


def _add(parser: Parser) -> None:
    parser.option("--older-than", metavar="AGE", default=DEFAULT_AGE, help="older_than")
    parser.option("--dry-run", action="store_true", help="dry_run")
    parser.workspace()
    parser.option("--all", action="store_true", help="prune_all")
    parser.json()


def _prune(args: Namespace, terminal: Terminal) -> int:
    seconds = age_of(args.older_than)
    workspace = folder(args.workspace)
    files = list(all_stores()) if args.all else [store_path(workspace)] if has_store(workspace) else []
    done = asyncio.run(_each(files, seconds, args.dry_run))
    if args.json:
        terminal.json(to_wire(done))
    elif done.tasks == 0:
        terminal.say("cli.prune.none", age=args.older_than.strip())
    else:
        key = "cli.prune.would" if done.dry_run else "cli.prune.done"
        terminal.say(key, tasks=done.tasks, jobs=done.jobs, size=size_of(done.bytes))
    for path in done.left:
        terminal.mistake(terminal.text("cli.prune.left", path=clean(path)))
    return 0


async def _each(files: list[Path], seconds: int, dry_run: bool) -> Pruned:
    found = []
    for file in files:
        with suppress(
            NotTrusted, *([StoreFault] if len(files) > 1 else [])
        ):  # one broken store stops no other
            async with opened(await workspace_of(file), store_file=file) as client:
                found.append(await prune_tasks(client, seconds, dry_run=dry_run))
    return Pruned(
        tasks=sum(one.tasks for one in found),
        jobs=sum(one.jobs for one in found),
        bytes=sum(one.bytes for one in found),
        dry_run=dry_run,
        left=[path for one in found for path in one.left],
    )


def size_of(count: int) -> str:
    """Bytes as people read them, e.g. ``1.4 MB``."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


VERBS = {"prune": Verb(_prune, _add)}
