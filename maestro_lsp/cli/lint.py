"""`lint` and `schema`: pieces checked without running them, and the shapes that others check against."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import BUILTIN_NAMES, BadArgument, NotFound, check_text, default_dirs, list_pieces, piece_schema
from maestro_lsp.cli.arguments import Namespace, Parser, Verb
from maestro_lsp.cli.errors import FAILED, SUCCEEDED
from maestro_lsp.cli.terminal import Terminal, clean

SUFFIXES = (".yaml", ".yml")
_MAX_BYTES = 1024 * 1024
_STYLES = {"error": "red", "warning": "yellow", "info": "cyan"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: place counted from 1 (``column`` in code points), ``data`` as in ``data.problems[]``."""

    severity: str
    line: int
    column: int
    message: str
    data: dict[str, Any]


def _add(parser: Parser) -> None:
    parser.option("files", metavar="FILE", nargs="*", type=Path, help="lint_files")
    parser.json()


def _lint(args: Namespace, terminal: Terminal) -> int:
    paths = list(_named(args.files)) if args.files else _all_pieces()
    checked = [(path, findings_of(path, terminal)) for path in paths]
    errors = sum(finding.severity == "error" for _, findings in checked for finding in findings)
    warnings = sum(finding.severity == "warning" for _, findings in checked for finding in findings)
    if args.json:
        files = [{"path": str(path), "problems": [f.data for f in findings]} for path, findings in checked]
        terminal.json({"files": files, "errors": errors, "warnings": warnings})
    else:
        for path, findings in checked:
            for finding in findings:
                terminal.line(_line(path, finding, terminal))
        terminal.say("cli.lint.summary", files=len(checked), errors=errors, warnings=warnings)
    return FAILED if errors else SUCCEEDED


def _named(paths: Iterable[Path]) -> Iterable[Path]:
    """The files that were named; a folder stands for the pieces in it. Raises ``NotFound``."""
    for path in paths:
        if path.is_dir():
            yield from sorted(entry for entry in path.iterdir() if entry.suffix in SUFFIXES)
        elif path.exists():
            yield path
        else:
            raise NotFound("piece.no_such_file", path=str(path), data={"id": str(path)})


def _all_pieces() -> list[Path]:
    """Every piece that could be named here: looking at a file needs no trust."""
    return [entry.path for entry in list_pieces(default_dirs(Path.cwd(), True), BUILTIN_NAMES)]


def findings_of(path: Path, terminal: Terminal) -> list[Finding]:
    """What is wrong with a piece file, in the order of the file. Raises ``BadArgument`` if it cannot."""
    try:
        if not path.is_file():
            raise BadArgument("piece.not_regular", path=str(path))
        with path.open("rb") as file:
            checked = check_text(file.read(_MAX_BYTES), path.name, BUILTIN_NAMES)
    except OSError as error:
        raise BadArgument("piece.unreadable", path=str(path), why=error.strerror or str(error)) from None
    findings = []
    for problem in sorted(checked.problems, key=lambda p: (p.span.line, p.span.column)):
        message = terminal.text(problem.key, **problem.values)
        data: dict[str, Any] = {
            "severity": problem.severity,
            "message": message,
            "range": checked.lines.range(problem.span),
            "code": problem.code,
        }
        if problem.fix is not None:
            data["fix"] = problem.fix
        place = (problem.span.line + 1, problem.span.column + 1)
        findings.append(Finding(problem.severity, *place, message, data))
    return findings


def _line(path: Path, finding: Finding, terminal: Terminal) -> str:
    severity = terminal.styled(terminal.text(f"cli.severity.{finding.severity}"), _STYLES[finding.severity])
    place = f"{clean(str(path))}:{finding.line}:{finding.column}"
    return f"{place}: {severity}: {' '.join(clean(finding.message).split())}"


def _add_schema(parser: Parser) -> None:
    parser.option("--protocol", action="store_true", help="protocol")


def _schema(args: Namespace, terminal: Terminal) -> int:
    if args.protocol:
        from maestro_lsp.protocol import protocol_schemas

        schema = protocol_schemas()
    else:
        schema = piece_schema(terminal.text)
    terminal.line(json.dumps(schema, ensure_ascii=False, indent=2))
    return SUCCEEDED


VERBS = {"lint": Verb(_lint, _add), "schema": Verb(_schema, _add_schema)}
