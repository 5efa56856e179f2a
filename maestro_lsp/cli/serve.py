"""`maestro-lsp [--stdio]`: the language server."""

from __future__ import annotations

from pathlib import Path

from engine import BadArgument
from maestro_lsp.cli.arguments import Namespace, Parser, Verb
from maestro_lsp.cli.terminal import Terminal

LEVELS = ("debug", "info", "warning", "error")


def _add(parser: Parser) -> None:
    parser.option("--stdio", action="store_true", help="stdio")
    parser.option("--log-file", metavar="FILE", type=Path, default=None, help="log_file")
    parser.option("--log-level", choices=LEVELS, type=str.lower, default="info", help="log_level")
    # vscode-languageclient adds it to every command line; the server gets the number by `initialize`.
    parser.option("--clientProcessId", metavar="PID", default=None, help="client_process_id")


def _serve(args: Namespace, terminal: Terminal) -> int:
    from maestro_lsp.server import ServeOptions, serve

    if args.log_file is not None:
        try:
            args.log_file.open("ab").close()
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise BadArgument("cli.log_file", path=str(args.log_file), why=why) from None
    return serve(ServeOptions(log_file=args.log_file, log_level=args.log_level))


VERB = Verb(_serve, _add)
