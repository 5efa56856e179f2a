"""What RequestTool granted: which tools a movement may use beyond those its piece lists. Pure.

A grant is for this movement (the request's own decision), for the task and its children, or always (both
stored rules), as ``engine.md`` section 6 has it. It permits; policy still decides about every call, and
``edit: false`` refuses Write and Edit whatever is granted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.policy_rules import RuleDraft, RuleKind, rule_text, rule_to_json
from engine.core.tooling import RuleOffer

_KEY = "tool:"


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A settled ``RequestTool``: its key, what the person said, and the movement it was made in."""

    key: str
    decision: str
    scope: str
    movement: str


@dataclass(frozen=True, slots=True)
class Grants:
    """What a job was granted: its own settled requests, and the stored rules that apply to it."""

    requests: tuple[ToolRequest, ...] = ()
    rules: tuple[RuleDraft, ...] = ()

    def within(self, movement: str) -> frozenset[str]:
        """The tools granted in a movement."""
        return granted_tools(movement, self.requests, self.rules)

    def anywhere(self) -> frozenset[str]:
        """The tools granted in some movement: what the job's tools array must hold."""
        return granted_tools(None, self.requests, self.rules)


NO_GRANTS = Grants()


def tool_key(tool: str) -> str:
    """The key a tool is decided under: no free text, so that the same request in other words finds the
    decision.
    """
    return f"{_KEY}{tool}"


def granted_tools(
    movement: str | None, requests: Sequence[ToolRequest], rules: Sequence[RuleDraft]
) -> frozenset[str]:
    """The tools that are granted in ``movement`` (None: in any). "Once" holds in the movement that asked;
    "for this task" and "always" hold as long as their rule is stored.
    """
    once = {
        request.key.removeprefix(_KEY)
        for request in requests
        if request.decision == "allow" and request.scope == "once" and movement in (None, request.movement)
    }
    return frozenset(once | {rule.name for rule in rules if rule.kind is RuleKind.GRANT})


def grant_offer(tool: str) -> RuleOffer:
    """What "for this task" and "always" store for a granted tool."""
    draft = RuleDraft(RuleKind.GRANT, name=tool)
    text = rule_text(draft)
    return RuleOffer(rule_to_json(draft), text.key, text.values)
