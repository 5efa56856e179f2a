"""The one validator of pieces: the loader, ``maestro-lsp lint`` and the editor all call ``check``
(``engine.md`` section 2).

Errors forbid the use of a piece, warnings name what will probably surprise, infos say how something is
read. Which sentinels a rule may name is read from the settlement table, so that the validator and the
runner cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from engine.core.outcome import ABORT, COMPLETE, WAIT_SUBTASKS, SettlementTable
from engine.core.piece import WAITING_PREFIX, Movement, Piece, Rule, is_verify_name
from engine.core.piece_graph import no_way_out, uncapped_cycles, unreachable
from engine.core.piece_keys import PIECE_NAME, Scope
from engine.core.piece_read import Field, Fields, Report, read_mapping
from engine.core.piece_tree import Node, Problem, Sequence, Span, has_errors

__all__ = ["check", "has_errors"]

_TABLE = SettlementTable()
_WRITERS = ("Write", "Edit")
_MCP = re.compile(r"mcp__(\*|[A-Za-z0-9_-]+(__(\*|[A-Za-z0-9_-]+))?)")
Names = dict[str, Span]


def check(
    tree: Node,
    *,
    file_stem: str | None = None,
    known_tools: Collection[str] | None = None,
    table: SettlementTable = _TABLE,
) -> tuple[Piece | None, tuple[Problem, ...]]:
    """Validate a tree and make the piece of it; None if there are errors. Problems come in the order of the
    file.

    ``file_stem`` is the file's name without its ending, which must be the piece's name. ``known_tools`` are
    the tools there are; None: tool names are not judged.
    """
    report = Report()
    piece = None
    if (fields := read_mapping(report, tree, Scope.PIECE)) is not None:
        movements: tuple[Fields, ...] = fields["movements"].value if _ok(fields, "movements") else ()
        names = _names(report, movements, table)
        _check_name(report, fields, file_stem)
        _check_initial(report, fields, names)
        for movement in movements:
            _check_targets(report, movement, names, table)
            _check_permissions(report, movement, known_tools)
        if not report.failed:
            piece = _piece(fields, movements)
            _check_graph(report, piece, names)
    return piece, tuple(sorted(report.problems, key=lambda p: (p.span.line, p.span.column)))


def _ok(fields: Fields, name: str) -> bool:
    return name in fields and fields[name].ok


def _value(fields: Fields, name: str, default: Any = None) -> Any:
    return fields[name].value if _ok(fields, name) else default


def _check_name(report: Report, fields: Fields, file_stem: str | None) -> None:
    if file_stem is None or not _ok(fields, "name") or fields["name"].value == file_stem:
        return
    fix = file_stem if re.fullmatch(PIECE_NAME, file_stem) else None
    report.add(
        "warning", "name_differs", fields["name"].place, fix, name=fields["name"].value, file=file_stem
    )


def _names(report: Report, movements: tuple[Fields, ...], table: SettlementTable) -> Names:
    """Where each movement is named. Doubles and names of sentinels are errors."""
    names: Names = {}
    for fields in movements:
        if not _ok(fields, "name"):
            continue
        name, place = fields["name"].value, fields["name"].place
        if name in names:
            report.error("duplicate_movement", place, name=name, line=str(names[name].line + 1))
            continue
        if _is_sentinel(name, table):
            report.error("reserved_name", place, name=name)
        elif is_verify_name(name) and not _value(fields, "verify", False):
            report.add("info", "verify_by_name", place, name=name)
        names[name] = place
    return names


def _is_sentinel(name: str, table: SettlementTable) -> bool:
    return table.is_sentinel(name) or name.startswith(WAITING_PREFIX)


def _check_initial(report: Report, fields: Fields, names: Names) -> None:
    if _ok(fields, "initial_movement") and names and fields["initial_movement"].value not in names:
        _unknown_movement(report, fields["initial_movement"], names)


def _unknown_movement(report: Report, field: Field, names: Names, also: str = "") -> None:
    """``also`` may stand there too, and be what was meant, though it is no movement."""
    choices = ", ".join(list(names)[:20])
    known = [*names, also] if also else [*names]
    report.unknown("error", "unknown_movement", field.place, field.value, known, choices=choices)


def _check_targets(report: Report, movement: Fields, names: Names, table: SettlementTable) -> None:
    own = _value(movement, "name")
    if _ok(movement, "default_next"):
        _check_default_next(report, movement["default_next"], own, names, table)
    for rule in _value(movement, "rules", ()):
        if _ok(rule, "next"):
            _check_rule(report, rule["next"], movement, names, table)


def _check_default_next(
    report: Report, field: Field, own: str | None, names: Names, table: SettlementTable
) -> None:
    target = field.value
    if target == COMPLETE:
        report.add("warning", "default_next_complete", field.place, ABORT)
    elif target != ABORT and target not in names:
        if _is_sentinel(target, table):
            report.error("sentinel_in_default_next", field.place, name=target)
        else:
            _unknown_movement(report, field, {**names, COMPLETE: field.place, ABORT: field.place})
    elif target == own:
        report.add("warning", "default_next_self", field.place, name=target)


def _check_rule(report: Report, field: Field, movement: Fields, names: Names, table: SettlementTable) -> None:
    target, own, place = field.value, _value(movement, "name"), field.place
    if target in names:
        if target == own and "max_consecutive_revisits" not in movement:
            report.error("self_rule_without_cap", place, name=target)
    elif target in table.allowed_in_rules():
        if target == WAIT_SUBTASKS and _default_is_no_movement(movement, table):
            report.error("wait_without_default_next", place, name=own or "")
    elif _is_sentinel(target.upper(), table):
        report.error("sentinel_in_rule", place, name=target)
    else:
        _unknown_movement(report, field, names, also=WAIT_SUBTASKS)


def _default_is_no_movement(movement: Fields, table: SettlementTable) -> bool:
    """Missing or a sentinel; a faulty value has its own finding."""
    if "default_next" not in movement:
        return True
    return _ok(movement, "default_next") and _is_sentinel(movement["default_next"].value, table)


def _check_permissions(report: Report, movement: Fields, known_tools: Collection[str] | None) -> None:
    if not _ok(movement, "allowed_tools"):
        return
    field = movement["allowed_tools"]
    items = field.node.items if isinstance(field.node, Sequence) else ()
    for tool, item in zip(field.value, items, strict=True):
        if tool in _WRITERS and _value(movement, "edit") is False:
            report.add("warning", "edit_false_lists_writer", item.span, tool=tool)
        if tool.startswith("mcp__"):
            if not _MCP.fullmatch(tool):
                report.add("warning", "mcp_pattern", item.span, name=tool)
        elif known_tools is not None and tool not in known_tools:
            known = sorted(known_tools)
            report.unknown("warning", "unknown_tool", item.span, tool, known, choices=", ".join(known))
    if "allowed_commands" in movement and "Bash" not in field.value:
        report.add("warning", "commands_without_bash", movement["allowed_commands"].key)


def _check_graph(report: Report, piece: Piece, names: Names) -> None:
    """What only the whole graph shows; asked of a piece without errors, so that one mistake does not bring
    ten findings.
    """
    for name in unreachable(piece):
        report.add("warning", "unreachable", names[name], name=name)
    for ring in no_way_out(piece):
        report.add("warning", "no_way_out", names[ring[0]], names=", ".join(ring))
    for ring in uncapped_cycles(piece):
        report.add("warning", "cycle_without_cap", names[ring[0]], names=", ".join(ring))


def _piece(fields: Fields, movements: tuple[Fields, ...]) -> Piece:
    values = {name: field.value for name, field in fields.items()}
    return Piece(**{**values, "movements": tuple(_movement(movement) for movement in movements)})


def _movement(fields: Fields) -> Movement:
    values = {name: field.value for name, field in fields.items() if name != "allowed_ssh_connections"}
    rules = tuple(Rule(**{name: field.value for name, field in rule.items()}) for rule in values["rules"])
    return Movement(**{**values, "rules": rules})
