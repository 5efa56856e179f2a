"""What a person says to a job from any terminal, also while a server runs: a committed row is the answer."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from engine import (
    BadArgument,
    Brief,
    JobStatus,
    JobSummary,
    NotTrusted,
    StoreFault,
    all_stores,
    to_wire,
    workspace_of,
)
from maestro_lsp.cli.arguments import Namespace, Parser, Verb
from maestro_lsp.cli.find import configure, holding, opened
from maestro_lsp.cli.terminal import Terminal, clean

BRIEF_FIELDS = ("goal", "done", "open", "clarifications")


def _add_answer(parser: Parser) -> None:
    parser.option("id", metavar="ID", help="job_id")
    parser.option("text", metavar="TEXT", help="answer")


def _answer(args: Namespace, terminal: Terminal) -> int:
    async def act() -> str:
        async with holding("job", args.id) as (client, job_id):
            await client.answer(job_id, args.text)
            return job_id

    terminal.say("cli.done.answered", job=asyncio.run(act()))
    return 0


def _add_decide(parser: Parser) -> None:
    parser.option("request", metavar="REQUEST", help="request")
    parser.option("decision", choices=("allow", "deny"), help="decision")
    parser.option("--scope", choices=("once", "task", "always"), default="once", help="scope")
    parser.option("--network", action="store_true", help="network")
    parser.option("--note", default="", help="note")


def _decide(args: Namespace, terminal: Terminal) -> int:
    async def act() -> tuple[str, JobSummary]:
        async with holding("request", args.request) as (client, request_id):
            await client.decide(
                request_id, args.decision, scope=args.scope, network=args.network, note=args.note
            )
            return request_id, await client.summary((await client.request(request_id)).job_id)

    request_id, job = asyncio.run(act())
    ended = args.decision == "deny" and job.status == JobStatus.CANCELLED  # what was denied was “go on?”
    terminal.say(f"cli.done.{args.decision}{'_ended' if ended else ''}", request=request_id, job=job.job_id)
    return 0


def _add_comment(parser: Parser) -> None:
    parser.option("task", metavar="TASK", help="task_id")
    parser.option("text", metavar="TEXT", help="comment")
    parser.option("--piece", metavar="NAME|FILE", default=None, help="comment_piece")


def _comment(args: Namespace, terminal: Terminal) -> int:
    async def act() -> str | None:
        async with holding("task", args.task) as (client, task_id):
            await configure(client)
            return await client.comment(task_id, args.text, args.piece)

    follow_up = asyncio.run(act())
    if follow_up is None:
        terminal.say("cli.done.commented")
    else:
        terminal.say("cli.done.follow_up", job=follow_up)
    return 0


def _add_brief(parser: Parser) -> None:
    parser.option("task", metavar="TASK", help="task_id")
    parser.option("--set", metavar="FILE", dest="file", default=None, help="brief_file")
    parser.json()


def _brief(args: Namespace, terminal: Terminal) -> int:
    fields = _brief_fields(args.file) if args.file is not None else None

    async def act() -> Brief:
        async with holding("task", args.task) as (client, task_id):
            return await client.brief(task_id, fields)

    brief = to_wire(asyncio.run(act()))
    if args.json:
        terminal.json(brief)
    else:
        terminal.part(clean(_as_yaml(brief)))
    return 0


def _brief_fields(file: str) -> dict[str, str]:
    """The fields of a YAML or JSON file (``-``: stdin). Raises ``BadArgument``."""
    import yaml

    name = "stdin" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
        tree = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        raise BadArgument("cli.brief_unreadable", path=name) from None
    if not isinstance(tree, dict) or not tree or not set(tree) <= set(BRIEF_FIELDS):
        raise BadArgument("cli.brief_fields", path=name, fields=", ".join(BRIEF_FIELDS))
    return {name: "" if value is None else str(value) for name, value in tree.items()}


def _as_yaml(brief: dict[str, str]) -> str:
    """The brief in the form that ``--set`` reads, long texts as blocks."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return str(yaml.dump(brief, Dumper=Dumper, allow_unicode=True, sort_keys=False, width=10_000))


def _add_id(parser: Parser) -> None:
    parser.option("id", metavar="ID", help="job_id")


def _cancel(args: Namespace, terminal: Terminal) -> int:
    async def act() -> tuple[str, bool]:
        async with holding("job", args.id) as (client, job_id):
            return job_id, await client.cancel(job_id)

    job_id, done = asyncio.run(act())
    terminal.say("cli.done.cancelled" if done else "cli.done.cancelling", job=job_id)
    return 0


def _retry(args: Namespace, terminal: Terminal) -> int:
    async def act() -> str:
        async with holding("job", args.id) as (client, job_id):
            await configure(client)
            return await client.retry(job_id)

    terminal.say("cli.done.retried", job=asyncio.run(act()))
    return 0


def _add_resolve(parser: Parser) -> None:
    parser.option("key", metavar="KEY", help="screen_key")


def _resolve(args: Namespace, terminal: Terminal) -> int:
    resumed = asyncio.run(_resolve_everywhere(args.key))
    if not resumed:
        raise BadArgument("cli.no_screen", key=args.key)
    for job_id in resumed:
        terminal.say("cli.done.resolved", job=job_id)
    return 0


async def _resolve_everywhere(key: str) -> list[str]:
    """Resolve a screen in every store: the key is all a person has."""
    resumed: list[str] = []
    for file in all_stores():
        with suppress(StoreFault, NotTrusted):  # one broken store must not hide the others
            async with opened(await workspace_of(file), store_file=file) as client:
                resumed += await client.resolve_screen(key)
    return resumed


VERBS = {
    "answer": Verb(_answer, _add_answer),
    "decide": Verb(_decide, _add_decide),
    "comment": Verb(_comment, _add_comment),
    "brief": Verb(_brief, _add_brief),
    "cancel": Verb(_cancel, _add_id),
    "retry": Verb(_retry, _add_id),
    "resolve": Verb(_resolve, _add_resolve),
}
