"""The policy: every row of ``policy.yaml``, the attacks and controls it answers, what may never loosen it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from engine.core.policy import (
    MESSAGE_KEYS,
    Choice,
    Level,
    Mode,
    Permissions,
    Question,
    RuleDraft,
    RuleKind,
    Scope,
    Stance,
    StoredRule,
    Verdict,
    allowed_names,
    decide,
    draft_rule,
    matches,
    permitted,
    rule_from_json,
    rule_text,
    rule_to_json,
    shorten,
)
from engine.core.secrets import path_class
from engine.core.tooling import Effect, PathClass

DATA = Path(__file__).parents[1] / "data"
POLICY: dict[str, Any] = yaml.safe_load((DATA / "policy.yaml").read_text(encoding="utf-8"))
ATTACKS: dict[str, Any] = yaml.safe_load((DATA / "attacks.yaml").read_text(encoding="utf-8"))

EVERYTHING = Permissions(allowed_tools=("Read", "Bash", "WebFetch", "GitCommit", "mcp__*"), edit=True)
STRICT = {Choice.ALLOW: 0, Choice.ASK: 1, Choice.DENY: 2}


def bash(command: str, **more: Any) -> Question:
    return Question("Bash", Effect.EXECUTE, command=command, **more)


def on_file(tool: str, path: str) -> Question:
    effect = Effect.READ if tool in ("Read", "Glob", "Grep") else Effect.WRITE
    return Question(tool, effect, paths=((path, path_class(tuple(path.split("/")))),), task_id="t-1")


def stance(mode: str = "edits", level: str = "A", trusted: bool = True, **more: Any) -> Stance:
    more.setdefault("permissions", EVERYTHING)
    return Stance(mode=Mode(mode), level=Level(level), trusted=trusted, **more)


def rule(draft: RuleDraft | None, scope: Scope = Scope.ALWAYS) -> StoredRule:
    assert draft is not None
    return StoredRule(draft, scope, "rule-1")


RULED_BASH = rule(draft_rule(bash("pytest -q")))

# A row's `what` -> calls it is about, and what the stance needs besides mode, level and trust.
CASES: dict[str, tuple[list[Question], dict[str, Any]]] = {
    "read in workspace": (
        [on_file("Read", "src/a.py"), on_file("Grep", "日本語"), on_file("Read", ".git/config")],
        {},
    ),
    "read secret-looking file": ([on_file("Read", ".env"), on_file("Grep", "keys/id_rsa")], {}),
    "any path outside workspace": (
        [on_file("Read", "../x"), on_file("Write", "../x"), bash("ls", paths=(("/out", PathClass.OUTSIDE),))],
        {},
    ),
    "write or edit, edit false": (
        [on_file("Write", "a.py"), on_file("Edit", ".vscode/settings.json")],
        {"permissions": Permissions(("Write", "Edit"), edit=False)},
    ),
    "write or edit protected": (
        [
            on_file("Write", ".vscode/settings.json"),
            on_file("Edit", ".idea/x.xml"),
            on_file("Write", ".maestro/pieces/a.yaml"),
            on_file("Edit", ".maestro/config.yaml"),
        ],
        {},
    ),
    "write or edit in workspace": (
        [
            on_file("Write", "a.py"),
            on_file("Edit", "src/a.py"),
            on_file("Write", ".maestro/tasks/t-1/output/a.md"),
        ],
        {},
    ),
    "bash listed": ([bash("ls -la"), bash("git status && cat a.py | wc -l")], {}),
    "bash not listed": ([bash("make"), bash("ls > x"), bash("ls && make")], {}),
    "bash": ([bash("ls"), bash("make"), bash("ls > x")], {}),
    "bash ruled": ([bash("pytest -q")], {"rules": (RULED_BASH,)}),
    "bash with network": ([bash("ls", network=True), bash("make", network=True)], {}),
    "network tool": ([Question("WebFetch", Effect.NETWORK, origin="https://example.org:443")], {}),
    "GitCommit": ([Question("GitCommit", Effect.WRITE, paths=(("a.py", PathClass.WORKSPACE),))], {}),
    "mcp tool read-only by annotation": (
        [Question("mcp__db__query", Effect.READ, mcp=True, read_only=True)],
        {},
    ),
}
PLAN = "plan"


def name_of(row: dict[str, Any]) -> str:
    """A row's ``what``; the comma in one of them makes YAML read its second half as a key."""
    return f"{row['what']}, edit false" if "edit false" in row else str(row["what"])


def overruled(what: str, mode: str, level: str, call: Question) -> bool:
    """Whether an earlier or stricter row of the file decides instead, or the row speaks of all the rest."""
    listed = call.command in ("ls", "ls -la", "git status && cat a.py | wc -l")
    return (
        (what in ("write or edit protected", "bash with network") and mode == PLAN)
        or (what == "bash" and mode == "edits" and listed)
        or (what == "bash" and mode == PLAN and listed and level == "A")
    )


def combinations(row: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    modes = ["plan", "ask", "edits", "all"] if row["mode"] == "any" else str(row["mode"]).split()
    levels = ["A", "B", "C"] if row["level"] == "any" else str(row["level"]).split()
    trusts = [True, False] if row["trusted"] == "any" else [row["trusted"]]
    yield from itertools.product(modes, levels, trusts)


ROWS = [
    pytest.param(
        row, mode, level, trusted, id=f"{name_of(row)}-{mode}-{level}-{'trusted' if trusted else 'untrusted'}"
    )
    for row in POLICY["rows"]
    if row["decision"] in ("allow", "ask", "deny")
    for mode, level, trusted in combinations(row)
]


@pytest.mark.parametrize(("row", "mode", "level", "trusted"), ROWS)
def test_every_row_of_the_policy_holds(row: dict[str, Any], mode: str, level: str, trusted: bool) -> None:
    calls, more = CASES[name_of(row)]
    for call in calls:
        if not overruled(name_of(row), mode, level, call):
            assert decide(call, stance(mode, level, trusted, **more)).decision.value == row["decision"], call


def test_every_row_has_a_case_and_the_rest_are_comparisons() -> None:
    comparisons = {name_of(row) for row in POLICY["rows"] if str(row["decision"]).startswith("as mode")}
    assert {name_of(row) for row in POLICY["rows"]} == set(CASES) | comparisons
    assert comparisons == {"any mode but plan", "bash"}


ALL_CALLS = [call for calls, _ in CASES.values() for call in calls]


@pytest.mark.parametrize("call", ALL_CALLS, ids=[f"{c.tool} {c.command or c.paths}" for c in ALL_CALLS])
@pytest.mark.parametrize("level", list(Level))
def test_without_trust_every_mode_but_plan_is_mode_ask(call: Question, level: Level) -> None:
    choices = {decide(call, stance(mode, level, trusted=False)).decision for mode in ("ask", "edits", "all")}
    assert choices == {decide(call, stance("ask", level)).decision}


@pytest.mark.parametrize("call", [c for c in ALL_CALLS if c.tool == "Bash"], ids=lambda c: str(c.command))
@pytest.mark.parametrize("level", [Level.B, Level.C])
def test_bash_in_mode_all_without_bubblewrap_is_as_in_mode_edits(call: Question, level: Level) -> None:
    assert decide(call, stance("all", level)).decision is decide(call, stance("edits", level)).decision


def test_deny_of_a_later_stage_wins_over_the_question_about_protected_files() -> None:
    assert decide(on_file("Write", ".vscode/settings.json"), stance("plan")).decision is Choice.DENY


def test_git_s_own_files_are_read_but_never_written_by_the_file_tools() -> None:
    assert decide(on_file("Write", ".git/hooks/pre-commit"), stance("all")).decision is Choice.DENY
    assert decide(on_file("Read", ".git/HEAD"), stance("plan")).decision is Choice.ALLOW


@pytest.mark.parametrize(
    ("path", "choice"),
    [
        (".maestro/tasks/t-1/output/a.md", Choice.ALLOW),
        (".maestro/tasks/t-1/logs/a.jsonl", Choice.DENY),
        (".maestro/tasks/t-1/ASK.md", Choice.DENY),
        (".maestro/tasks/t-2/output/a.md", Choice.DENY),
    ],
)
def test_a_task_writes_its_own_output_and_no_records(path: str, choice: Choice) -> None:
    assert decide(on_file("Write", path), stance("edits")).decision is choice
    assert decide(on_file("Read", path), stance("edits")).decision is Choice.ALLOW


def test_at_level_b_only_the_default_list_runs_unasked() -> None:
    mine = replace(EVERYTHING, allowed_commands=("pytest", "ls"))
    assert decide(bash("pytest"), stance("edits", "A", permissions=mine)).decision is Choice.ALLOW
    assert decide(bash("pytest"), stance("edits", "B", permissions=mine)).decision is Choice.ASK
    assert decide(bash("ls"), stance("edits", "B", permissions=mine)).decision is Choice.ALLOW
    assert decide(bash("cat a"), stance("edits", "B", permissions=mine)).decision is Choice.ASK


def test_sandbox_off_lets_listed_commands_run_and_only_those() -> None:
    off = stance("all", "A", sandbox_off=True, permissions=replace(EVERYTHING, allowed_commands=("pytest",)))
    assert decide(bash("pytest"), off).decision is Choice.ALLOW
    assert decide(bash("make"), off).decision is Choice.ASK
    assert decide(bash("pytest"), replace(off, mode=Mode.PLAN)).decision is Choice.DENY
    assert decide(bash("pytest"), replace(off, trusted=False)).decision is Choice.ASK
    assert decide(bash("pytest"), replace(off, sandbox_off=False, level=Level.C)).decision is Choice.ASK


def test_a_required_sandbox_refuses_bash_below_level_a() -> None:
    for level, choice in (("A", Choice.ALLOW), ("B", Choice.DENY), ("C", Choice.DENY)):
        assert (
            decide(
                bash("pytest -q"), stance("edits", level, sandbox_required=True, rules=(RULED_BASH,))
            ).decision
            is choice
        )


def test_without_a_sandbox_a_movement_that_may_not_edit_asks_unless_the_rule_was_granted_in_one() -> None:
    no_edit = replace(EVERYTHING, edit=False)
    asked = decide(bash("pytest -q"), stance("edits", "C", permissions=no_edit, rules=(RULED_BASH,)))
    assert asked.decision is Choice.ASK
    assert asked.rule == RuleDraft(RuleKind.BASH, (("pytest", "-q"),), no_edit=True)
    granted = stance("edits", "C", permissions=no_edit, rules=(rule(asked.rule),))
    assert decide(bash("pytest -q"), granted).decision is Choice.ALLOW
    assert decide(bash("pytest -q"), replace(granted, permissions=EVERYTHING)).decision is Choice.ALLOW
    off = stance("edits", "C", permissions=no_edit, rules=(RULED_BASH,), sandbox_off=True)
    assert decide(bash("pytest -q"), off).decision is Choice.ALLOW


def test_the_allowed_commands_of_a_piece_count_only_in_a_trusted_workspace() -> None:
    mine = replace(EVERYTHING, allowed_commands=("make",))
    assert decide(bash("make"), stance("edits", "A", True, permissions=mine)).decision is Choice.ALLOW
    assert decide(bash("make"), stance("plan", "A", False, permissions=mine)).decision is Choice.DENY
    assert decide(bash("ls"), stance("plan", "A", False, permissions=mine)).decision is Choice.DENY


@pytest.mark.fault("C: ignore rules differ per tool")
def test_a_command_that_names_a_secret_is_asked_about_even_in_mode_all() -> None:
    assert decide(bash("cat .env | sort > x"), stance("all", "A")).decision is Choice.ASK
    assert decide(bash("cat .env"), stance("plan", "A")).decision is Choice.DENY


@pytest.mark.parametrize("command", ["ls\0; id", "ls \ud800"])
@pytest.mark.parametrize("mode", list(Mode))
def test_a_command_that_cannot_reach_bash_as_written_is_denied(command: str, mode: Mode) -> None:
    assert decide(bash(command), stance(mode)).why.key == "policy.malformed"
    assert decide(bash(command), stance(mode)).decision is Choice.DENY


def test_an_mcp_tool_that_may_write_is_denied_in_plan_and_ruled_by_name() -> None:
    call = Question("mcp__db__insert", Effect.EXECUTE, mcp=True)
    assert decide(call, stance("plan")).decision is Choice.DENY
    asked = decide(call, stance("all"))
    assert (asked.decision, asked.rule) == (Choice.ASK, RuleDraft(RuleKind.TOOL, name="mcp__db__insert"))
    assert decide(call, stance("all", rules=(rule(asked.rule),))).decision is Choice.ALLOW
    assert (
        decide(replace(call, tool="mcp__db__drop"), stance("all", rules=(rule(asked.rule),))).decision
        is Choice.ASK
    )


def test_a_rule_for_an_origin_is_for_exactly_that_origin() -> None:
    call = Question("WebFetch", Effect.NETWORK, origin="https://example.org:443")
    rules = (rule(draft_rule(call)),)
    for mode in Mode:
        assert decide(call, stance(mode, rules=rules)).decision is Choice.ALLOW
        for origin in (
            "https://example.org.evil.test:443",
            "http://example.org:80",
            "https://example.org:8443",
            None,
        ):
            assert decide(replace(call, origin=origin), stance(mode, rules=rules)).decision is Choice.ASK


def test_a_rule_for_files_covers_write_and_edit_but_nothing_protected_and_not_plan() -> None:
    rules = (rule(draft_rule(on_file("Write", "a.py"))),)
    assert decide(on_file("Edit", "b/c.py"), stance("ask", rules=rules)).decision is Choice.ALLOW
    assert (
        decide(on_file("Edit", "b/c.py"), stance("ask", trusted=False, rules=rules)).decision is Choice.ALLOW
    )
    assert decide(on_file("Edit", "b/c.py"), stance("plan", rules=rules)).decision is Choice.DENY
    assert decide(on_file("Edit", ".vscode/x"), stance("ask", rules=rules)).decision is Choice.ASK
    assert decide(on_file("Edit", ".env"), stance("ask", rules=rules)).decision is Choice.DENY


@pytest.mark.parametrize(
    "call",
    [
        Question("GitCommit", Effect.WRITE),
        on_file("Write", ".vscode/x"),
        bash("ls", network=True),
        bash("ls > x"),
        bash("cat .env"),
        bash("echo x | sh"),
        bash("ls && python x.py"),
    ],
    ids=lambda c: f"{c.tool} {c.command}",
)
def test_some_questions_can_only_be_answered_once(call: Question) -> None:
    verdict = decide(call, stance("ask", "C"))
    assert verdict.decision is Choice.ASK
    assert verdict.rule is None


def test_a_rule_for_a_tool_never_covers_bash_files_or_commits() -> None:
    for call in (bash("ls"), on_file("Write", "a"), Question("GitCommit", Effect.WRITE)):
        assert not matches(RuleDraft(RuleKind.TOOL, name=call.tool), call)


def test_the_parts_of_a_command_may_be_covered_by_different_rules() -> None:
    rules = (rule(draft_rule(bash("make"))), rule(draft_rule(bash("pytest -q")), Scope.TASK))
    assert decide(bash("make && pytest -q"), stance("ask", "C", rules=rules)).decision is Choice.ALLOW
    assert decide(bash("make && pytest"), stance("ask", "C", rules=rules)).decision is Choice.ASK
    assert not matches(rules[0].draft, bash("make && pytest -q"))


def test_a_rule_is_shortened_only_where_that_says_enough() -> None:
    draft = draft_rule(bash("pytest -q tests"))
    assert draft is not None
    short = shorten(draft, 1)
    assert short == RuleDraft(RuleKind.BASH_PREFIX, (("pytest",),))
    assert matches(short, bash("pytest -x other"))
    for command, words in (("git status", 1), ("python x.py", 1), ("env a", 1), ("pytest", 0), ("pytest", 2)):
        other = draft_rule(bash(command))
        assert other is not None
        assert shorten(other, words) is None


def test_a_rule_survives_its_storage_and_a_broken_one_allows_nothing() -> None:
    for call in (bash("grep '日本 語' a | wc -l"), on_file("Write", "a"), ALL_CALLS[-1]):
        draft = draft_rule(call, edit=False)
        assert draft is not None
        assert rule_from_json(json.dumps(rule_to_json(draft), ensure_ascii=False)) == draft
        assert matches(draft, call)
    for broken in (
        "",
        "[]",
        "{}",
        "null",
        '{"kind":"all","commands":[],"name":"","noEdit":false}',
        '{"kind":"bash"}',
    ):
        assert rule_from_json(broken) is None


def test_a_rule_is_shown_as_the_shell_would_read_it() -> None:
    draft = draft_rule(bash("grep 'a b' x | wc -l"))
    assert draft is not None
    assert rule_text(draft).values["commands"] == "grep 'a b' x; wc -l"


DENY = [
    ("Bash", bash("ls"), True),
    ("Bash(git push)", bash("git push origin main"), True),
    ("Bash(git push)", bash("ls && 'git' pu\\sh"), True),
    ("Bash(git push)", bash("git pull"), False),
    ("Bash(rm -rf *)", bash("x=$(rm -rf build)"), True),
    ("Bash(git push", bash("ls"), True),
    ("Write(docs/*)", on_file("Write", "docs/a/b.md"), True),
    ("Write(DOCS/*)", on_file("Write", "docs/a.md"), True),
    ("Write(docs/*)", on_file("Edit", "docs/a.md"), False),
    ("*(*.lock)", on_file("Edit", "a/poetry.lock"), True),
    ("mcp__db__*", Question("mcp__db__query", Effect.READ, mcp=True), True),
    (
        "WebFetch(https://example.org*)",
        Question("WebFetch", Effect.NETWORK, origin="https://example.org:443"),
        True,
    ),
    ("bash", bash("ls"), False),
    ("", bash("ls"), False),
]


@pytest.mark.parametrize(
    ("entry", "call", "denied"), DENY, ids=[f"{e} {c.command or c.paths}" for e, c, _ in DENY]
)
def test_the_deny_setting_beats_every_rule_and_mode(entry: str, call: Question, denied: bool) -> None:
    verdict = decide(call, stance("all", "A", deny=(entry,)))
    assert (verdict.why.key == "policy.deny_setting") is denied
    assert verdict.decision is Choice.DENY or not denied


PERMITTED = [
    ("Read", Permissions(("Read",)), True),
    ("Read", Permissions(()), False),
    ("read", Permissions(("Read",)), False),
    ("Bash ", Permissions(("Bash",)), False),
    ("Bash\u200b", Permissions(("Bash",)), False),
    ("Write", Permissions((), edit=True), True),
    ("Edit", Permissions((), edit=True), True),
    ("Write", Permissions(("Write",), edit=False), False),
    ("Edit", Permissions(("*",), edit=False, granted=frozenset({"Edit"})), False),
    ("Read", Permissions(("*",)), False),
    ("complete", Permissions(()), True),
    ("transition", Permissions(()), True),
    ("RequestTool", Permissions(()), True),
    ("mcp__db__query", Permissions(("mcp__*",)), True),
    ("mcp__db__query", Permissions(("mcp__db__*",)), True),
    ("mcp__db2__query", Permissions(("mcp__db__*",)), False),
    ("mcp__db__query", Permissions(("mcp__db__query",)), True),
    ("BashOutput", Permissions(("Bash",)), True),
    ("Bash", Permissions(("BashOutput",)), False),
    ("WebFetch", Permissions((), granted=frozenset({"WebFetch"})), True),
]


@pytest.mark.parametrize(
    ("tool", "permissions", "expected"), PERMITTED, ids=[f"{t!r} {p}" for t, p, _ in PERMITTED]
)
def test_a_movement_permits_what_it_lists_and_control_tools(
    tool: str, permissions: Permissions, expected: bool
) -> None:
    assert permitted(tool, permissions) is expected
    assert (allowed_names([tool], permissions) == (tool,)) is expected


# The attacks and controls of cases/attacks.yaml that this layer answers.


def attack_stances(entry: dict[str, Any], mode: Mode, level: Level, **more: Any) -> Stance:
    policy = entry.get("policy", {})
    permissions = Permissions(
        tuple(policy.get("allowed_tools", ("Read", "Write", "Edit", "Glob", "Grep", "Bash"))),
        edit=policy.get("edit", True),
        allowed_commands=tuple(policy.get("allowed_commands", ())),
    )
    return Stance(permissions, mode, level, trusted=True, **more)


def attack_question(entry: dict[str, Any]) -> Question:
    text = json.dumps(entry["input"])
    for name, place in (
        ("${WS}_evil", "../w_evil"),
        ("${WS}", ""),
        ("${OUT}", "/out"),
        ("${HOME}", "/home/u"),
    ):
        text = text.replace(name, place)
    given = json.loads(text)
    if entry["tool"] == "Bash":
        cwd = ((given["cwd"], PathClass.OUTSIDE),) if "cwd" in given else ()
        return bash(given["command"], paths=cwd)
    return on_file(entry["tool"], str(given.get("path", given.get("pattern"))).removeprefix("/") or ".")


def attacks(*classes: str) -> list[Any]:
    return [
        pytest.param(entry, id=entry["id"])
        for entry in ATTACKS["attacks"]
        if entry["class"] in classes
        and not (entry["tool"] == "Bash" and not isinstance(entry["input"]["command"], str))
    ]


GRAMMAR = attacks("shell-grammar", "env-builtin", "wrapper", "arg-injection")


@pytest.mark.parametrize("entry", GRAMMAR)
def test_no_attack_on_the_grammar_runs_unasked(entry: dict[str, Any]) -> None:
    """Mode ``all`` under bubblewrap allows any command by its row: there the sandbox answers."""
    wanted = Choice.DENY if entry["expected"] == "denied" else Choice.ASK
    for mode, level, off in itertools.product(Mode, Level, (False, True)):
        if (mode, level, off) == (Mode.ALL, Level.A, False):
            continue
        verdict = decide(attack_question(entry), attack_stances(entry, mode, level, sandbox_off=off))
        assert STRICT[verdict.decision] >= STRICT[wanted], (mode, level, off)


def test_the_grammar_attacks_are_all_there() -> None:
    assert len(GRAMMAR) == 35


@pytest.mark.parametrize("entry", attacks("code-as-data", "exfil", "process", "escape", "sandbox-config"))
def test_attacks_for_the_sandbox_never_run_unasked_without_bubblewrap(entry: dict[str, Any]) -> None:
    if entry["tool"] != "Bash":
        return
    for mode, level in itertools.product(Mode, (Level.B, Level.C)):
        if entry["id"] == "A070" and level is Level.B:
            continue  # `cat` without a file: harmless, of the default list
        assert (
            decide(attack_question(entry), attack_stances(entry, mode, level)).decision is not Choice.ALLOW
        ), (mode, level)


BY_NAME = {
    "A037": Choice.DENY,
    "A038": Choice.DENY,
    "A045": Choice.DENY,
    "A047": Choice.ASK,
    "A048": Choice.ASK,
    "A049": Choice.DENY,
    "A050": Choice.DENY,
    "A051": Choice.ASK,
    "A052": Choice.ASK,
    "A053": Choice.ASK,
    "A057": Choice.DENY,
}


@pytest.mark.parametrize("name", BY_NAME)
def test_attacks_by_file_name_are_asked_about_or_denied_in_every_mode(name: str) -> None:
    entry = next(entry for entry in ATTACKS["attacks"] if entry["id"] == name)
    assert {"denied": Choice.DENY, "asked": Choice.ASK}[entry["expected"]] is BY_NAME[name]
    for mode, level in itertools.product(Mode, Level):
        verdict = decide(attack_question(entry), attack_stances(entry, mode, level))
        assert STRICT[verdict.decision] >= STRICT[BY_NAME[name]], (mode, level)


@pytest.mark.parametrize("name", ["A080", "A081", "A082"])
def test_attacks_on_the_piece_s_permissions_never_reach_the_policy(name: str) -> None:
    entry = next(entry for entry in ATTACKS["attacks"] if entry["id"] == name)
    assert not permitted(entry["tool"], attack_stances(entry, Mode.ALL, Level.A).permissions)


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry["id"]) for entry in ATTACKS["controls"]])
def test_the_controls_run_without_a_question(entry: dict[str, Any]) -> None:
    choice = decide(attack_question(entry), attack_stances(entry, Mode.EDITS, Level.A)).decision
    assert choice is Choice.ALLOW or (choice is Choice.ASK and "asked" in entry.get("also_ok", ()))
    # And with the person's own word for it, without any sandbox.
    if choice is Choice.ALLOW:
        off = attack_stances(entry, Mode.EDITS, Level.C, sandbox_off=True)
        assert decide(attack_question(entry), off).decision is Choice.ALLOW


# Properties.

COMMANDS = st.sampled_from(
    [
        "ls",
        "make",
        "pytest -q",
        "git status",
        "ls > x",
        "cat .env",
        "python x.py",
        "ls && make",
        "ls\0",
        "cat 報告.md",
        "rm -rf a",
    ]
)
CALLS = st.one_of(
    st.builds(bash, COMMANDS, network=st.booleans()),
    st.sampled_from(ALL_CALLS),
    st.builds(
        on_file,
        st.sampled_from(["Read", "Write", "Edit"]),
        st.sampled_from([".env", "a.py", ".git/x", ".vscode/x", "../x"]),
    ),
)
RULES = st.lists(CALLS.map(draft_rule).filter(bool).map(rule), max_size=3).map(tuple)
STANCES = st.builds(
    Stance,
    st.builds(
        Permissions,
        st.just(("Bash", "Read")),
        st.booleans(),
        st.sampled_from([None, (), ("make",), ("pytest", "ls"), ("python x.py",)]),
    ),
    st.sampled_from(Mode),
    st.sampled_from(Level),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    RULES,
    st.just(()),
)
DENIES = st.lists(
    st.sampled_from(
        ["Bash", "Bash(ls)", "Write(*.py)", "*", "Read(", "mcp__*", "WebFetch(https://*)", "nothing"]
    ),
    max_size=3,
).map(tuple)


@given(CALLS, STANCES, DENIES, DENIES)
def test_adding_a_deny_never_loosens(
    call: Question, held: Stance, some: tuple[str, ...], more: tuple[str, ...]
) -> None:
    before = decide(call, replace(held, deny=some)).decision
    assert STRICT[decide(call, replace(held, deny=some + more)).decision] >= STRICT[before]


@given(CALLS, STANCES)
def test_taking_away_trust_or_rules_or_the_sandbox_never_loosens(call: Question, held: Stance) -> None:
    before = STRICT[decide(call, held).decision]
    assert STRICT[decide(call, replace(held, trusted=False)).decision] >= before
    assert STRICT[decide(call, replace(held, rules=())).decision] >= before
    assert STRICT[decide(call, replace(held, sandbox_required=True)).decision] >= before
    if not held.sandbox_off:
        assert STRICT[decide(call, replace(held, level=Level.C)).decision] >= before


@given(CALLS, STANCES)
def test_no_rule_turns_a_denial_into_anything_else(call: Question, held: Stance) -> None:
    if decide(call, replace(held, rules=())).decision is Choice.DENY:
        assert decide(call, held).decision is Choice.DENY


@given(CALLS, STANCES)
def test_storing_the_offered_rule_answers_the_same_question_next_time(call: Question, held: Stance) -> None:
    verdict = decide(call, held)
    if verdict.rule is not None:
        assert verdict.decision is Choice.ASK
        assert decide(call, replace(held, rules=(*held.rules, rule(verdict.rule)))).decision is Choice.ALLOW


@given(CALLS, STANCES)
def test_every_verdict_has_a_reason_of_the_catalogue(call: Question, held: Stance) -> None:
    verdict = decide(call, held)
    assert verdict.why.key in MESSAGE_KEYS
    assert all(isinstance(value, str) for value in verdict.why.values.values())
    if verdict.rule is not None:
        assert rule_text(verdict.rule).key in MESSAGE_KEYS


@given(CALLS, STANCES)
def test_the_network_is_offered_only_where_a_sandbox_could_withhold_it(call: Question, held: Stance) -> None:
    verdict: Verdict = decide(call, held)
    if verdict.network_offered:
        assert call.tool == "Bash"
        assert verdict.decision is Choice.ASK
        assert held.level is not Level.C
        assert not held.sandbox_off
