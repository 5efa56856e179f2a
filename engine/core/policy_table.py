"""The policy as rows: ``spec/policy.yaml`` in code. ``engine.core.policy`` works out the facts; here is what
follows from them.

The first row that fits decides. Rows that deny come first, then those that ask whatever a rule says, then
stored rules, then the modes: so deny beats ask and ask beats allow by the order alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """The person's mode."""

    PLAN = "plan"
    ASK = "ask"
    EDITS = "edits"
    ALL = "all"


class Level(StrEnum):
    """What holds a command: bubblewrap (A), Landlock with seccomp (B), nothing (C)."""

    A = "A"
    B = "B"
    C = "C"


class Choice(StrEnum):
    """What policy says to a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Fact(StrEnum):
    """What is true of a call, as far as policy cares."""

    DENY_SETTING = "matches an entry of the setting deny"
    MALFORMED = "command with a NUL or half a character"
    OUTSIDE = "a path outside the workspace"
    SECRET = "a secret-looking path"
    EDIT_TOOL = "Write or Edit"
    NO_EDIT = "movement with edit: false"
    WRITES = "changes files in the workspace"
    GIT_FILES = "a path in git's own folder"
    TASK_RECORD = "a task's records (logs, ASK.md, other tasks)"
    PROTECTED = "a protected path"
    SANDBOX_REQUIRED = "sandbox: require"
    SANDBOX_OFF = "sandbox: off at machine scope"
    BASH = "Bash"
    LISTED = "every part is listed"
    DEFAULT_LISTED = "every part is of the default list"
    SECRET_WORD = "the command names a secret-looking file"
    WITH_NETWORK = "Bash with network"
    RULED = "the person stored a rule for it"
    RULED_NO_EDIT = "the person stored a rule for it in a movement with edit: false"
    GIT_COMMIT = "GitCommit"
    NETWORK_TOOL = "a tool that uses the network"
    MCP = "a tool of an MCP server"
    MCP_READ_ONLY = "read-only by its server's annotation"
    CONTROL = "a control tool"
    READS = "only reads"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: it fits if all of ``facts`` hold, none of ``lacks`` does, and mode, level and trust are among
    those named.

    ``why`` is a catalogue key. ``storable`` says that the question may offer to store a rule.
    """

    facts: frozenset[Fact]
    choice: Choice
    why: str
    modes: frozenset[Mode] = frozenset(Mode)
    levels: frozenset[Level] = frozenset(Level)
    trusted: frozenset[bool] = frozenset({True, False})
    lacks: frozenset[Fact] = frozenset()
    storable: bool = False

    def fits(self, facts: Collection[Fact], mode: Mode, level: Level, trusted: bool) -> bool:
        """Whether this row is about such a call."""
        return (
            self.facts <= set(facts)
            and self.lacks.isdisjoint(facts)
            and mode in self.modes
            and level in self.levels
            and trusted in self.trusted
        )


_F = Fact
_PLAN = frozenset({Mode.PLAN})
_ASK = frozenset({Mode.ASK})
_EDITS = frozenset({Mode.EDITS})
_ALL = frozenset({Mode.ALL})
_NOT_PLAN = _ASK | _EDITS | _ALL
_A = frozenset({Level.A})
_B = frozenset({Level.B})
_C = frozenset({Level.C})
_TRUSTED = frozenset({True})
_ALLOW, _DENY, _QUESTION = Choice.ALLOW, Choice.DENY, Choice.ASK


def _if(*facts: Fact) -> frozenset[Fact]:
    return frozenset(facts)


ROWS: tuple[Row, ...] = (
    # Deny, whatever else holds.
    Row(_if(_F.DENY_SETTING), _DENY, "policy.deny_setting"),
    Row(_if(_F.MALFORMED), _DENY, "policy.malformed"),
    Row(_if(_F.OUTSIDE), _DENY, "policy.outside"),
    Row(_if(_F.SECRET), _DENY, "policy.secret"),
    Row(_if(_F.EDIT_TOOL, _F.NO_EDIT), _DENY, "policy.no_edit"),
    Row(_if(_F.WRITES, _F.GIT_FILES), _DENY, "policy.git_files"),
    Row(_if(_F.WRITES, _F.TASK_RECORD), _DENY, "policy.task_record"),
    Row(_if(_F.WRITES), _DENY, "policy.plan_write", modes=_PLAN),
    Row(_if(_F.BASH, _F.SANDBOX_REQUIRED), _DENY, "policy.sandbox_required", levels=_B | _C),
    Row(_if(_F.BASH), _DENY, "policy.plan_bash", modes=_PLAN, levels=_B | _C),
    Row(_if(_F.BASH), _DENY, "policy.plan_unlisted", modes=_PLAN, lacks=_if(_F.LISTED)),
    Row(_if(_F.BASH), _DENY, "policy.plan_untrusted", modes=_PLAN, trusted=frozenset({False})),
    Row(_if(_F.MCP), _DENY, "policy.plan_mcp", modes=_PLAN, lacks=_if(_F.MCP_READ_ONLY)),
    # Ask, whatever rules and modes say.
    Row(_if(_F.GIT_COMMIT), _QUESTION, "policy.git_commit"),
    Row(_if(_F.WRITES, _F.PROTECTED), _QUESTION, "policy.protected"),
    Row(_if(_F.BASH, _F.WITH_NETWORK), _QUESTION, "policy.with_network"),
    Row(_if(_F.BASH, _F.SECRET_WORD), _QUESTION, "policy.secret_word"),
    Row(
        _if(_F.BASH, _F.NO_EDIT),
        _QUESTION,
        "policy.no_edit_unsandboxed",
        levels=_C,
        lacks=_if(_F.RULED_NO_EDIT, _F.SANDBOX_OFF),
        storable=True,
    ),
    # The person's stored rules.
    Row(_if(_F.BASH, _F.RULED), _ALLOW, "policy.rule", modes=_NOT_PLAN),
    Row(_if(_F.WRITES, _F.RULED), _ALLOW, "policy.rule", modes=_NOT_PLAN),
    Row(_if(_F.NETWORK_TOOL, _F.RULED), _ALLOW, "policy.rule"),
    Row(_if(_F.MCP, _F.RULED), _ALLOW, "policy.rule"),
    # Bash, by mode and sandbox. Mode `all` without bubblewrap is mode `edits` (`engine.core.policy`).
    Row(_if(_F.BASH, _F.LISTED), _ALLOW, "policy.plan_listed", modes=_PLAN, levels=_A, trusted=_TRUSTED),
    Row(_if(_F.BASH), _QUESTION, "policy.ask_bash", modes=_ASK, storable=True),
    Row(_if(_F.BASH, _F.LISTED), _ALLOW, "policy.listed", modes=_EDITS, levels=_A, trusted=_TRUSTED),
    Row(
        _if(_F.BASH, _F.LISTED, _F.DEFAULT_LISTED),
        _ALLOW,
        "policy.listed",
        modes=_EDITS,
        levels=_B,
        trusted=_TRUSTED,
    ),
    Row(_if(_F.BASH, _F.LISTED), _QUESTION, "policy.listed_weak", modes=_EDITS, levels=_B, storable=True),
    Row(
        _if(_F.BASH, _F.LISTED, _F.SANDBOX_OFF),
        _ALLOW,
        "policy.listed_off",
        modes=_EDITS,
        levels=_C,
        trusted=_TRUSTED,
    ),
    Row(
        _if(_F.BASH, _F.LISTED),
        _QUESTION,
        "policy.listed_unsandboxed",
        modes=_EDITS,
        levels=_C,
        storable=True,
    ),
    Row(_if(_F.BASH), _QUESTION, "policy.unlisted", modes=_EDITS, storable=True),
    Row(_if(_F.BASH), _ALLOW, "policy.all_bash", modes=_ALL, levels=_A, trusted=_TRUSTED),
    # Everything else.
    Row(_if(_F.WRITES), _QUESTION, "policy.ask_write", modes=_ASK, storable=True),
    Row(_if(_F.WRITES), _ALLOW, "policy.write", modes=_EDITS | _ALL, trusted=_TRUSTED),
    Row(_if(_F.NETWORK_TOOL), _QUESTION, "policy.network", storable=True),
    Row(_if(_F.MCP), _QUESTION, "policy.mcp", storable=True),
    Row(_if(_F.CONTROL), _ALLOW, "policy.control"),
    Row(_if(_F.READS), _ALLOW, "policy.read"),
    Row(_if(), _QUESTION, "policy.other", storable=True),
)

MESSAGE_KEYS: frozenset[str] = frozenset(row.why for row in ROWS) | {"policy.untrusted"}
"""Catalogue keys of this table; ``engine.core.policy.MESSAGE_KEYS`` adds its own."""
