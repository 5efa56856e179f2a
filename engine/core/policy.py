"""May this call be made? Pure: the caller brings every fact, the table (``engine.core.policy_table``)
decides.

Two questions, in this order (``engine.md`` §6). *Is the tool permitted in this movement?* (``permitted``): if
not, the model gets an error result and nobody is asked. *What does the person's policy say?* (``decide``):
allow, ask or deny, with the reason, and with the rule that "for this task" and "always" would store.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.core.command import (
    Commands,
    Odd,
    Unplain,
    in_default_list,
    listed,
    loose_words,
    parse,
    secret_word,
)
from engine.core.command_options import Words
from engine.core.policy_rules import (
    EDIT_TOOLS,
    Question,
    RuleDraft,
    RuleKind,
    Scope,
    StoredRule,
    Why,
    covering,
    draft_rule,
    is_mcp,
    matches,
    rule_from_json,
    rule_text,
    rule_to_json,
    shorten,
)
from engine.core.policy_table import MESSAGE_KEYS as _TABLE_KEYS
from engine.core.policy_table import ROWS, Choice, Fact, Level, Mode, Row
from engine.core.secrets import fold, is_git_path, is_task_record
from engine.core.tooling import Effect, PathClass

__all__ = [
    "ALWAYS_PERMITTED",
    "COMES_WITH",
    "MESSAGE_KEYS",
    "Choice",
    "Level",
    "Mode",
    "Permissions",
    "Question",
    "RuleDraft",
    "RuleKind",
    "Scope",
    "Stance",
    "StoredRule",
    "Verdict",
    "Why",
    "allowed_names",
    "decide",
    "draft_rule",
    "matches",
    "permitted",
    "rule_from_json",
    "rule_text",
    "rule_to_json",
    "shorten",
]

ALWAYS_PERMITTED: frozenset[str] = frozenset(
    {"transition", "complete", "MissionUpdate", "Checklist", "ReadToolDoc", "RequestTool"}
)
COMES_WITH = {"BashOutput": "Bash", "BashStop": "Bash"}
"""Tools that are of no use alone, and the one they come with."""


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the piece says of the movement. ``allowed_commands`` None is the default list; ``granted`` are
    tools got by RequestTool.
    """

    allowed_tools: tuple[str, ...] = ()
    edit: bool = False
    allowed_commands: tuple[str, ...] | None = None
    granted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Stance:
    """Where the person stands. ``sandbox_off`` and ``sandbox_required`` come from machine or user scope only.

    ``deny`` are entries of the setting: a tool name (``*`` for any text) with an optional subject, ``Bash(git
    push)``, ``Write(docs/*)``, ``WebFetch(https://example.org)``, ``mcp__*``. A Bash subject matches those
    words anywhere in the command, other subjects the path, origin whole. An entry that cannot be read denies
    its whole tool.
    """

    permissions: Permissions
    mode: Mode = Mode.EDITS
    level: Level = Level.C
    trusted: bool = False
    sandbox_off: bool = False
    sandbox_required: bool = False
    rules: tuple[StoredRule, ...] = ()
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision. ``rule`` None: only "once" may be offered. ``network_offered``: the approval may add the
    network for this call.

    ``read_only``: if it runs in a sandbox, the workspace is read-only there (mode plan, or ``edit: false``).
    """

    decision: Choice
    why: Why
    rule: RuleDraft | None = None
    network_offered: bool = False
    read_only: bool = False


def permitted(tool: str, permissions: Permissions) -> bool:
    """Whether the movement may use the tool at all: exact names, ``mcp__*`` and ``mcp__<server>__*``; control
    tools always.

    ``edit`` decides alone on Write and Edit. BashOutput and BashStop come with Bash.
    """
    if tool in EDIT_TOOLS:
        return permissions.edit
    if tool in ALWAYS_PERMITTED:
        return True
    names = {tool, COMES_WITH.get(tool, tool)}
    if names & permissions.granted:
        return True
    return any(
        entry in names or (entry.startswith("mcp__") and _globs(entry, tool))
        for entry in permissions.allowed_tools
    )


def allowed_names(tools: Collection[str], permissions: Permissions) -> tuple[str, ...]:
    """The tools of ``tools`` that the movement permits, in their order: what an error result names."""
    return tuple(tool for tool in tools if permitted(tool, permissions))


def decide(question: Question, stance: Stance) -> Verdict:
    """What policy says to the call: the first fitting row of the table. deny > ask > allow."""
    level = Level.C if stance.sandbox_off else stance.level
    mode = _mode(question, stance, level)
    commands = parse(question.command) if question.command is not None else None
    facts = _facts(question, stance, commands)
    row = next(row for row in ROWS if row.fits(facts, mode, level, stance.trusted))
    asks = row.choice is Choice.ASK
    return Verdict(
        decision=row.choice,
        why=_why(row, question, stance, mode, commands),
        rule=draft_rule(question, edit=stance.permissions.edit) if asks and row.storable else None,
        network_offered=asks and question.tool == "Bash" and level is not Level.C,
        read_only=mode is Mode.PLAN or not stance.permissions.edit,
    )


def _mode(question: Question, stance: Stance, level: Level) -> Mode:
    """The mode that counts: ``ask`` where the workspace is not trusted, ``edits`` for Bash in mode ``all``
    without bubblewrap.
    """
    if stance.mode is Mode.PLAN:
        return Mode.PLAN
    if not stance.trusted:
        return Mode.ASK
    return (
        Mode.EDITS
        if stance.mode is Mode.ALL and question.tool == "Bash" and level is not Level.A
        else stance.mode
    )


def _facts(question: Question, stance: Stance, commands: Commands | Unplain | None) -> frozenset[Fact]:
    kinds = {kind for _, kind in question.paths}
    places = [tuple(text.split("/")) for text, _ in question.paths]
    found = {
        Fact.DENY_SETTING: _denied_by(question, stance.deny) is not None,
        Fact.OUTSIDE: PathClass.OUTSIDE in kinds,
        Fact.SECRET: PathClass.SECRET in kinds,
        Fact.PROTECTED: PathClass.PROTECTED in kinds,
        Fact.GIT_FILES: any(is_git_path(place) for place in places),
        Fact.TASK_RECORD: any(is_task_record(place, question.task_id) for place in places),
        Fact.EDIT_TOOL: question.tool in EDIT_TOOLS,
        Fact.NO_EDIT: not stance.permissions.edit,
        Fact.WRITES: question.effect is Effect.WRITE
        and question.tool != "GitCommit"
        and not is_mcp(question),
        Fact.GIT_COMMIT: question.tool == "GitCommit",
        Fact.NETWORK_TOOL: question.effect is Effect.NETWORK and not is_mcp(question),
        Fact.MCP: is_mcp(question),
        Fact.MCP_READ_ONLY: question.read_only,
        Fact.CONTROL: question.effect is Effect.CONTROL,
        Fact.READS: question.effect is Effect.READ,
        Fact.SANDBOX_OFF: stance.sandbox_off,
        Fact.SANDBOX_REQUIRED: stance.sandbox_required,
        Fact.RULED: bool(covering(question, stance.rules, commands)),
        **(_bash_facts(question, stance, commands) if question.tool == "Bash" else {}),
    }
    return frozenset(fact for fact, holds in found.items() if holds)


def _bash_facts(question: Question, stance: Stance, commands: Commands | Unplain | None) -> dict[Fact, bool]:
    text = question.command or ""
    plain = commands if isinstance(commands, tuple) else ()
    # The piece's own commands count in a trusted workspace only.
    allowed = stance.permissions.allowed_commands if stance.trusted else None
    return {
        Fact.BASH: True,
        Fact.MALFORMED: any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text),
        Fact.SECRET_WORD: secret_word(text) is not None,
        Fact.WITH_NETWORK: question.network,
        Fact.LISTED: listed(plain, allowed),
        Fact.DEFAULT_LISTED: in_default_list(plain),
        Fact.RULED_NO_EDIT: bool(
            covering(question, [rule for rule in stance.rules if rule.draft.no_edit], commands)
        ),
    }


def _why(
    row: Row, question: Question, stance: Stance, mode: Mode, commands: Commands | Unplain | None
) -> Why:
    values = {"tool": question.tool, "mode": stance.mode.value}
    if row.why == "policy.deny_setting":
        return Why(row.why, {**values, "entry": _denied_by(question, stance.deny) or ""})
    if row.why == "policy.rule":
        rule = covering(question, stance.rules, commands)[0]
        return Why(row.why, {**values, "scope": rule.scope.value, "id": rule.rule_id})
    if row.why in ("policy.unlisted", "policy.plan_unlisted") and isinstance(commands, Unplain):
        return Why(f"policy.unplain_{commands.reason.value}", {**values, "detail": commands.detail})
    if row.why in ("policy.ask_bash", "policy.ask_write") and mode is not stance.mode:
        return Why("policy.untrusted", values)
    if row.why == "policy.secret_word":
        return Why(row.why, {**values, "word": secret_word(question.command or "") or ""})
    if row.why == "policy.network":
        return Why(row.why, {**values, "origin": question.origin or question.tool})
    return Why(row.why, {**values, "path": _path_of(row, question)})


_PATH_KINDS = {
    "policy.outside": PathClass.OUTSIDE,
    "policy.secret": PathClass.SECRET,
    "policy.protected": PathClass.PROTECTED,
}


def _path_of(row: Row, question: Question) -> str:
    kind = _PATH_KINDS.get(row.why)
    fitting = [text for text, path_kind in question.paths if kind is None or path_kind is kind]
    if row.why == "policy.git_files":
        fitting = [text for text in fitting if is_git_path(text.split("/"))]
    return fitting[0] if fitting else ""


def _denied_by(question: Question, deny: Sequence[str]) -> str | None:
    return next((entry for entry in deny if _entry_denies(entry.strip(), question)), None)


def _entry_denies(entry: str, question: Question) -> bool:
    name, opened, rest = entry.partition("(")
    if not entry or not _globs(name.strip() or "*", question.tool):
        return False
    if not opened or not rest.endswith(")"):
        return True
    subject = rest[:-1].strip()
    if question.tool == "Bash":
        return _words_within(tuple(subject.split()), loose_words(question.command or ""))
    subjects = [*(text for text, _ in question.paths), *([question.origin] if question.origin else [])]
    return any(_globs(fold_path(subject), fold_path(text)) for text in subjects)


def fold_path(path: str) -> str:
    """A path or origin, each part folded as file systems may fold it."""
    if "://" in path:
        return path.casefold()
    return "/".join(fold(part) for part in path.split("/"))


def _words_within(needle: Words, words: Words) -> bool:
    width = len(needle)
    return any(
        all(_globs(pattern, word) for pattern, word in zip(needle, words[at : at + width], strict=True))
        for at in range(len(words) - width + 1)
    )


def _globs(pattern: str, text: str) -> bool:
    """Whether the text is the pattern, in which ``*`` stands for any text. Linear in the text for each
    part of the pattern.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    if not text.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - at >= len(rest[-1]) and text.endswith(rest[-1])


MESSAGE_KEYS: frozenset[str] = (
    _TABLE_KEYS
    | {f"policy.unplain_{odd.value}" for odd in Odd}
    | {f"rule.{kind.value}" for kind in RuleKind}
    | {f"rule.{kind.value}_no_edit" for kind in (RuleKind.BASH, RuleKind.BASH_PREFIX)}
)
"""Every catalogue key that this module and its table use."""
