"""`rules`, `trust`, `pieces`: what holds for a workspace."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine import BadArgument, PieceEntry, RuleView, piece_mermaid, refuse_workspace, short_id, state_dir
from maestro_lsp.cli.arguments import Namespace, Parser, Verb
from maestro_lsp.cli.find import configure, folder, has_store, holding, opened
from maestro_lsp.cli.terminal import Terminal, clean
from maestro_lsp.display import described


def _add_rules(parser: Parser) -> None:
    parser.option("action", choices=("list", "remove"), nargs="?", default="list", help="rules_action")
    parser.option("id", metavar="ID", nargs="?", default=None, help="rule_id")
    parser.workspace()
    parser.json()


def _rules(args: Namespace, terminal: Terminal) -> int:
    if args.action == "remove":
        if args.id is None:
            raise BadArgument("cli.rule_which")
        asyncio.run(_remove_rule(args.id, folder(args.workspace)))
        terminal.say("cli.rules.removed")
        return 0
    if args.id is not None:
        raise BadArgument("cli.usage_error", problem=args.id, command="maestro-lsp rules")
    from engine import to_wire

    rules = asyncio.run(_list_rules(folder(args.workspace)))
    if args.json:
        terminal.json({"rules": to_wire(rules)})
    elif not rules:
        terminal.say("cli.rules.none")
    else:
        heads = [terminal.text(f"cli.head.{name}") for name in ("id", "scope", "rule")]
        terminal.table(heads, [[short_id(r.id), _scope(r, terminal), clean(r.text)] for r in rules])
    return 0


def _scope(rule: RuleView, terminal: Terminal) -> str:
    if rule.task_id is not None:
        return terminal.text("cli.rules.task", task=short_id(rule.task_id))
    return terminal.text("cli.rules.always")


async def _list_rules(workspace: Path) -> list[RuleView]:
    if not has_store(workspace):
        return []
    async with opened(workspace) as client:
        return await client.rules()


async def _remove_rule(wanted: str, here: Path) -> None:
    async with holding("rule", wanted, here) as (client, rule_id):
        await client.remove_rule(rule_id)


def _add_trust(parser: Parser) -> None:
    parser.option("dir", metavar="DIR", nargs="?", type=Path, default=None, help="trust_dir")
    parser.option("--revoke", action="store_true", help="revoke")


def _trust(args: Namespace, terminal: Terminal) -> int:
    workspace = folder(args.dir)
    refuse_workspace(workspace, state_dir())

    async def act() -> None:
        async with opened(workspace) as client:
            await client.set_trust(not args.revoke)

    asyncio.run(act())
    terminal.say("cli.trust.revoked" if args.revoke else "cli.trust.given", folder=str(workspace.resolve()))
    return 0


def _add_pieces(parser: Parser) -> None:
    parser.workspace()
    parser.option("--graph", metavar="NAME|FILE", default=None, help="graph")
    parser.json()


async def _graph(workspace: Path, wanted: str) -> str:
    async with opened(workspace) as client:
        await configure(client)
        return piece_mermaid((await client.load_piece(wanted)).piece)


def _pieces(args: Namespace, terminal: Terminal) -> int:
    workspace = folder(args.workspace)
    if args.graph is not None:
        terminal.part(asyncio.run(_graph(workspace, args.graph)))
        return 0

    async def act() -> list[PieceEntry]:
        async with opened(workspace) as client:
            await configure(client)
            return await client.pieces()

    entries = asyncio.run(act())
    if args.json:
        terminal.json({"pieces": [_piece_json(entry, terminal) for entry in entries]})
        return 0
    heads = [terminal.text(f"cli.head.{name}") for name in ("piece", "source", "description")]
    terminal.table(heads, [[e.name, _source(e, terminal), _description(e, terminal)] for e in entries])
    return 0


def _source(entry: PieceEntry, terminal: Terminal) -> str:
    source = terminal.text(f"cli.source.{entry.source}")
    if not entry.shadows:
        return source
    hidden = ", ".join(terminal.text(f"cli.source.{shadow}") for shadow in entry.shadows)
    return f"{source} ({terminal.text('cli.pieces.hides', hidden=hidden)})"


def _description(entry: PieceEntry, terminal: Terminal) -> str:
    errors = sum(problem.severity == "error" for problem in entry.problems)
    if errors:
        return terminal.text("cli.pieces.faulty", count=errors, path=str(entry.path))
    return described(entry, terminal.text)


def _piece_json(entry: PieceEntry, terminal: Terminal) -> dict[str, object]:
    return {
        "name": entry.name,
        "path": str(entry.path),
        "source": entry.source,
        "shadows": list(entry.shadows),
        "description": described(entry, terminal.text),
        "problems": [
            {
                "severity": problem.severity,
                "code": problem.code,
                "line": problem.span.line + 1,
                "message": terminal.text(problem.key, **problem.values),
            }
            for problem in entry.problems
        ],
    }


VERBS = {
    "rules": Verb(_rules, _add_rules),
    "trust": Verb(_trust, _add_trust),
    "pieces": Verb(_pieces, _add_pieces),
}
