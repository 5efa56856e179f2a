"""Rules that the person stores: what "Allow for this task" and "Always allow" would store, and what a
stored rule covers.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from engine.core.command import Commands, Unplain, WordRule, parse, ruled, shortest_prefix
from engine.core.command_options import runs_code
from engine.core.tooling import Effect, PathClass

EDIT_TOOLS: frozenset[str] = frozenset({"Write", "Edit"})
_OWN_FILES = frozenset({PathClass.WORKSPACE, PathClass.TASK})


class Scope(StrEnum):
    """What an answer covers: this request, all jobs of the task and its children, or this workspace until
    removed.
    """

    ONCE = "once"
    TASK = "task"
    ALWAYS = "always"


class RuleKind(StrEnum):
    """What a stored rule is about."""

    BASH = "bash"
    BASH_PREFIX = "bash_prefix"
    FILES = "files"
    ORIGIN = "origin"
    TOOL = "tool"
    GRANT = "grant"


@dataclass(frozen=True, slots=True)
class Why:
    """A sentence of the catalogue with its values. Values may hold the model's text: escape them where
    they are shown.
    """

    key: str
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """What "Allow for this task" and "Always allow" would store.

    ``commands`` for Bash: the exact words of each part, which is then allowed by itself too, or
    (``BASH_PREFIX``) the first words of one. ``name``: an origin or a tool. ``no_edit``: granted in a
    movement with ``edit: false``, so it holds there even without a sandbox; a rule granted elsewhere does not
    let a command loose in a movement whose piece says that it changes nothing. A ``GRANT`` covers no call: it
    permits the tool called ``name`` in movements that do not list it.
    """

    kind: RuleKind
    commands: Commands = ()
    name: str = ""
    no_edit: bool = False


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A rule the person stored, as it applies to this task."""

    draft: RuleDraft
    scope: Scope = Scope.ALWAYS
    rule_id: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A call, as policy sees it.

    ``paths`` are workspace-relative texts with where they really lie (links resolved; a file with several
    hard links counts as protected); a Bash call's ``cwd`` is one of them. ``network``: this Bash call is to
    have the network. ``origin``: scheme, host and port a network tool goes to, canonical. ``read_only``: an
    MCP tool whose server says so. ``task_id`` tells the task's own folder from others'.
    """

    tool: str
    effect: Effect
    paths: tuple[tuple[str, PathClass], ...] = ()
    command: str | None = None
    network: bool = False
    origin: str | None = None
    mcp: bool = False
    read_only: bool = False
    task_id: str | None = None


def is_mcp(question: Question) -> bool:
    """Whether the tool is a server's, whatever it calls itself."""
    return question.mcp or question.tool.startswith("mcp__")


def draft_rule(question: Question, *, edit: bool = True) -> RuleDraft | None:
    """The rule that an answer to this question may store; None if there is none (not plain, protected,
    GitCommit, network for Bash).

    ``edit``: the movement's.
    """
    if question.tool == "GitCommit" or question.network:
        return None
    if question.tool == "Bash":
        commands = parse(question.command or "")
        if isinstance(commands, Unplain) or any(runs_code(words) for words in commands[1:]):
            return None
        return RuleDraft(RuleKind.BASH, tuple(dict.fromkeys(commands)), no_edit=not edit)
    if question.effect is Effect.WRITE and not is_mcp(question):
        plain = question.tool in EDIT_TOOLS and all(kind in _OWN_FILES for _, kind in question.paths)
        return RuleDraft(RuleKind.FILES) if plain else None
    if question.effect is Effect.NETWORK and question.origin and not is_mcp(question):
        return RuleDraft(RuleKind.ORIGIN, name=question.origin)
    return RuleDraft(RuleKind.TOOL, name=question.tool)


def shorten(draft: RuleDraft, words: int) -> RuleDraft | None:
    """The rule for one Bash command cut to its first ``words`` words; None where that would say too much
    (``shortest_prefix``).
    """
    if draft.kind is not RuleKind.BASH or len(draft.commands) != 1:
        return None
    least = shortest_prefix(draft.commands[0])
    if least is None or not least <= words <= len(draft.commands[0]):
        return None
    return RuleDraft(RuleKind.BASH_PREFIX, (draft.commands[0][:words],), no_edit=draft.no_edit)


def matches(rule: RuleDraft, question: Question) -> bool:
    """Whether the rule alone covers the call. (Parts of one command may also be covered by different
    rules: ``decide`` sees to it.)
    """
    commands = parse(question.command) if question.command is not None else None
    return bool(covering(question, [StoredRule(rule)], commands))


def covering(
    question: Question, rules: Sequence[StoredRule], commands: Commands | Unplain | None
) -> tuple[StoredRule, ...]:
    """The stored rules that cover the call together, or none."""
    if question.tool == "Bash":
        mine = [rule for rule in rules if rule.draft.kind in (RuleKind.BASH, RuleKind.BASH_PREFIX)]
        if not isinstance(commands, tuple) or question.network or not ruled(commands, _word_rules(mine)):
            return ()
        return tuple(rule for rule in mine if any(ruled((words,), _word_rules([rule])) for words in commands))
    draft = draft_rule(question)
    return tuple(rule for rule in rules if rule.draft == draft) if draft is not None else ()


def _word_rules(rules: Sequence[StoredRule]) -> list[WordRule]:
    return [
        WordRule(words, prefix=rule.draft.kind is RuleKind.BASH_PREFIX)
        for rule in rules
        for words in rule.draft.commands
    ]


def rule_text(draft: RuleDraft) -> Why:
    """The rule as a sentence of the catalogue: shown before it is stored, and in the list of rules."""
    commands = "; ".join(shlex.join(words) for words in draft.commands)
    key = f"rule.{draft.kind.value}" + ("_no_edit" if draft.no_edit else "")
    return Why(key, {"commands": commands, "name": draft.name})


def rule_to_json(draft: RuleDraft) -> dict[str, object]:
    """The rule as JSON values, to be stored."""
    return {
        "kind": draft.kind.value,
        "commands": [list(words) for words in draft.commands],
        "name": draft.name,
        "noEdit": draft.no_edit,
    }


def rule_from_json(text: str) -> RuleDraft | None:
    """The rule from its stored JSON; None if it cannot be read (then it allows nothing)."""
    try:
        value = json.loads(text)
        commands = tuple(tuple(str(word) for word in words) for words in value["commands"])
        return RuleDraft(RuleKind(value["kind"]), commands, str(value["name"]), value["noEdit"] is True)
    except (ValueError, KeyError, TypeError):
        return None
