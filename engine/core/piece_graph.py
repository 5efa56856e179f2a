"""How the movements of a piece hang together: pure questions about its graph, which the validator turns
into warnings.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.core.piece import WAIT_SUBTASKS, Movement, Piece

Edges = Mapping[str, frozenset[str]]


def rule_edges(piece: Piece) -> Edges:
    """Where the model can send the job from each movement; ``WAIT_SUBTASKS`` leads on to ``default_next``."""
    names = {movement.name for movement in piece.movements}
    return {movement.name: frozenset(_targets(movement)) & names for movement in piece.movements}


def all_edges(piece: Piece) -> Edges:
    """As ``rule_edges``, with the forced hops to ``default_next``."""
    names = {movement.name for movement in piece.movements}
    return {m.name: frozenset({*_targets(m), m.default_next or ""}) & names for m in piece.movements}


def _targets(movement: Movement) -> set[str]:
    return {
        (movement.default_next or "") if rule.next == WAIT_SUBTASKS else rule.next for rule in movement.rules
    }


def reach(edges: Edges, start: str) -> frozenset[str]:
    """Everything that can be reached from ``start`` by at least one hop (``start`` itself only round a
    cycle).
    """
    seen: set[str] = set()
    open_ = [start]
    while open_:
        fresh = edges[open_.pop()] - seen
        seen |= fresh
        open_.extend(fresh)
    return frozenset(seen)


def unreachable(piece: Piece) -> tuple[str, ...]:
    """The movements no job can come to, in the order of the file."""
    come = reach(all_edges(piece), piece.initial_movement) | {piece.initial_movement}
    return tuple(m.name for m in piece.movements if m.name not in come)


def _rings(edges: Edges) -> tuple[tuple[str, ...], ...]:
    """The strongly connected groups that hold a cycle, each in the order of the file, the groups by their
    first member.
    """
    reached = {name: reach(edges, name) for name in edges}
    rings = (
        tuple(other for other in edges if other in reached[name] and name in reached[other]) for name in edges
    )
    return tuple(dict.fromkeys(ring for ring in rings if ring))


def uncapped_cycles(piece: Piece) -> tuple[tuple[str, ...], ...]:
    """The groups of two or more movements that rules lead round and round, none of them with a cap of its
    own.

    A movement whose rule names itself is an error elsewhere, so single ones are left out.
    """
    capped = {movement.name for movement in piece.movements if movement.max_consecutive_revisits is not None}
    return tuple(ring for ring in _rings(rule_edges(piece)) if len(ring) > 1 and capped.isdisjoint(ring))


def no_way_out(piece: Piece) -> tuple[tuple[str, ...], ...]:
    """The groups of movements that every hop, chosen or forced, keeps inside, and of which none says how
    the job ends.

    ``complete`` always ends a job; but where each member has rules (so is no last step) and none has
    ``default_next: ABORT`` or ``COMPLETE``, nothing in the file says how this part is left when the model
    does not.
    """
    edges = all_edges(piece)
    ends = {
        m.name
        for m in piece.movements
        if not m.rules or (m.default_next is not None and m.default_next not in edges)
    }
    rings = (ring for ring in _rings(edges) if all(edges[name] <= set(ring) for name in ring))
    return tuple(ring for ring in rings if ends.isdisjoint(ring))
