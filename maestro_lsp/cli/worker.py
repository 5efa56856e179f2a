"""`worker`: the queue of a workspace without an editor, and the engine process of a language server."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from engine import Client, Service, check_settings, refuse_workspace, short_id, state_dir
from maestro_lsp.cli.arguments import Namespace, Parser, Verb
from maestro_lsp.cli.find import configure, folder, opened
from maestro_lsp.cli.jobs import reason_of
from maestro_lsp.cli.terminal import Terminal
from maestro_lsp.cli.work import engine_on
from maestro_lsp.settings import LOG_LEVEL


def _add(parser: Parser) -> None:
    parser.workspace()
    parser.option("--until-idle", action="store_true", help="until_idle")
    parser.add_argument("--link", action="store_true", help=argparse.SUPPRESS)


def _worker(args: Namespace, terminal: Terminal) -> int:
    if args.link:
        import logging

        from engine import serve_link

        logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells every request
        level = logging.getLevelNamesMapping().get(os.environ.get(LOG_LEVEL, "").upper(), logging.INFO)
        logging.basicConfig(level=level, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells every request
        return asyncio.run(serve_link())
    return asyncio.run(_work(args, terminal))


async def _work(args: Namespace, terminal: Terminal) -> int:
    workspace = folder(args.workspace)
    refuse_workspace(workspace, state_dir())
    async with opened(workspace) as client:
        terminal.warn(await configure(client))
        client.check_configured()
        for worker in client.config.model_workers:
            check_settings(worker.llm)
        service = engine_on(client)
        _end_in_order(service)
        if not args.until_idle:
            terminal.say("cli.worker.waiting", folder=str(workspace))
        told = await _shown(client, service.run(until_idle=args.until_idle), terminal)
        if args.until_idle and not told:
            terminal.say("cli.worker.nothing", folder=str(workspace))
    return 0


def _end_in_order(service: Service) -> None:
    """Ctrl-C and the signals to end give running jobs back to the queue."""
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(service.stop))


async def _shown(client: Client, work: Coroutine[Any, Any, None], terminal: Terminal) -> bool:
    """Do the work and print what becomes of jobs meanwhile, each step once; whether there was any."""
    shown: dict[str, int] = {}

    async def show(events: list[dict[str, Any]]) -> None:
        for event in events:
            if event["kind"] == "status" and event["seq"] > shown.get(event["jobId"], 0):
                shown[event["jobId"]] = event["seq"]
                terminal.line(_line(event, terminal))

    since = await client.db(client.store.last_event_id)
    following = asyncio.create_task(client.follow(show, after=since))
    try:
        await work
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        while rows := await client.db(client.store.events_after, since):
            await show([event for _, event in rows])
            since = rows[-1][0]
    return bool(shown)


def _line(event: dict[str, Any], terminal: Terminal) -> str:
    words = [short_id(event["jobId"]), terminal.text(f"cli.status.{event['to']}")]
    if event.get("waitReason"):
        words.append(terminal.text(f"cli.wait.{event['waitReason']}"))
    if event.get("reason") and event["to"] in ("failed", "aborted"):
        words.append(reason_of(event["reason"], terminal))
    return "  ".join(words)


VERBS = {"worker": Verb(_worker, _add)}
