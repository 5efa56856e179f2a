"""The validator: each finding of ``engine.md`` section 2 with its severity, place and mend.

A case is a small edit of a sound piece. ⟦…⟧ marks where the finding must be shown; the marks are
taken out before checking.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.jobs import RunResult
from engine.core.lint import check
from engine.core.outcome import Resume, Settlement, SettlementTable, Via
from engine.core.piece import Movement, Piece, Rule
from engine.core.piece_tree import Lines, Problem, Span, has_errors
from engine.loader import CheckedPiece, check_text
from engine.yaml_tree import MAX_BYTES, read_tree
from tests.core.test_piece_messages import catalogue

DATA = Path(__file__).parents[1] / "data" / "pieces"
TOOLS = frozenset({"Read", "Write", "Edit", "Glob", "Grep", "Bash"})
SOUND = """\
name: demo
description: A piece.
max_movements: 5
initial_movement: start
movements:
  - name: start
    edit: true
    persona: somebody
    instruction: do it
    allowed_tools: [Read]
    rules: [{condition: ready, next: end}]
  - name: end
    edit: false
    persona: somebody
    instruction: finish it
    allowed_tools: []
    rules: []
"""
END = SOUND[SOUND.index("  - name: end") :]
MOVEMENTS = SOUND[SOUND.index("  - name: start") :]
RULES = "rules: [{condition: ready, next: end}]"


def looped(extra: str) -> str:
    """The movements with a rule from the last back to the first."""
    back = MOVEMENTS.replace("rules: []", f"{extra}\n    rules: [{{condition: back, next: start}}]")
    return back.replace("start", "⟦start⟧", 1)


def marked(text: str) -> tuple[str, Span | None]:
    """The text without its marks, and what they enclose."""
    if "⟦" not in text:
        return text, None
    start = text.index("⟦")
    end = text.index("⟧") - 1
    text = text.replace("⟦", "").replace("⟧", "")
    return text, Lines(text).span(start, end)


def edited(old: str, new: str) -> str:
    assert SOUND.count(old) >= 1, f"{old!r} is not in the sound piece"
    return SOUND.replace(old, new, 1)


def lint(text: str | bytes) -> CheckedPiece:
    return check_text(text, "demo.yaml", TOOLS)


def mended(text: str, problem: Problem) -> str:
    """The text with the problem's fix put in."""
    assert problem.fix is not None
    rows = text.split("\n")
    first, last = rows[problem.span.line], rows[problem.span.end_line]
    row = first[: problem.span.column] + problem.fix + last[problem.span.end_column :]
    return "\n".join([*rows[: problem.span.line], row, *rows[problem.span.end_line + 1 :]])


def test_a_sound_piece_has_no_problems_and_becomes_a_value() -> None:
    checked = lint(SOUND)
    assert checked.problems == ()
    assert checked.piece == Piece(
        "demo",
        "A piece.",
        5,
        "start",
        (
            Movement("start", True, "somebody", "do it", ("Read",), (Rule("ready", "end"),)),
            Movement("end", False, "somebody", "finish it", (), ()),
        ),
    )


def test_every_key_of_the_specification_is_read() -> None:
    checked = check_text((DATA / "every-key.yaml").read_bytes(), "every-key.yaml", TOOLS)
    assert [(p.severity, p.code) for p in checked.problems] == [("info", "unsupported_key")]
    piece = checked.piece
    assert piece is not None
    assert piece.triggers == ("on", "no", "直して")
    assert (piece.required_mcp, piece.model) == (("git-hub", "db_1"), "qwen3:30b")
    assert (piece.conversation, piece.resume) == ("continue", "continue")
    plan, review = piece.movements
    assert plan.rules == (
        Rule("yes", "検査"),
        Rule("children are at work", "WAIT_SUBTASKS"),
        Rule("again", "plan"),
    )
    assert (plan.default_next, plan.max_consecutive_revisits, plan.edit) == ("検査", 3, True)
    assert plan.instruction == "First line.\n\nThird line."
    assert plan.allowed_tools == ("Read", "mcp__*", "mcp__git-hub__*", "mcp__db_1__query")
    assert plan.allowed_commands is None
    assert (review.verify, review.conversation, review.default_next) == (True, "restart", "ABORT")
    assert review.allowed_commands == ()
    assert review.persona == "null"


# (what is replaced, by what, with the place marked; severity; code; the fix)
CASES: dict[str, tuple[str, str, str, str, str | None]] = {
    # missing keys
    "no max_movements": ("name: demo\n", "⟦name⟧: demo\n", "error", "missing_key", None),
    "no rules": ("  - name: end", "  - ⟦name⟧: end", "error", "missing_key", None),
    "no condition": (RULES, "rules: [{⟦next⟧: end}]", "error", "missing_key", None),
    # keys
    "key written twice": (
        "description: A piece.\n",
        "description: x\n⟦description⟧: y\n",
        "error",
        "duplicate_key",
        None,
    ),
    "key written twice in a movement": (
        "edit: true",
        "edit: true\n    ⟦edit⟧: false",
        "error",
        "duplicate_key",
        None,
    ),
    "key written twice in a rule": (
        RULES,
        "rules: [{condition: a, next: end, ⟦next⟧: end}]",
        "error",
        "duplicate_key",
        None,
    ),
    "unknown key": ("edit: true", "edit: true\n    ⟦zebra⟧: 1", "warning", "unknown_key", None),
    "mistyped key": (
        "edit: true",
        "edit: true\n    ⟦alowed_commands⟧: []",
        "warning",
        "unknown_key",
        "allowed_commands",
    ),
    "key in another case": (
        "edit: true",
        "edit: true\n    ⟦Default_Next⟧: end",
        "warning",
        "unknown_key",
        "default_next",
    ),
    "merge key": ("edit: true", "edit: true\n    ⟦<<⟧: {}", "error", "merge_key", None),
    "list as key": ("edit: true", "edit: true\n    ? [⟦a⟧]\n    : b", "error", "key_not_text", None),
    # types
    "description is empty": ("description: A piece.", "description:⟦⟧", "error", "not_text", None),
    "description is a list": ("description: A piece.", "⟦description⟧: [a]", "error", "not_text", None),
    "persona is blank": ("persona: somebody", "persona: ⟦' '⟧", "error", "empty_text", None),
    "edit in YAML 1.1": ("edit: true", "edit: ⟦yes⟧", "error", "not_boolean", "true"),
    "edit in quotes": ("edit: true", 'edit: ⟦"False"⟧', "error", "not_boolean", "false"),
    "edit is a number": ("edit: true", "edit: ⟦1⟧", "error", "not_boolean", None),
    "max_movements is 0": ("max_movements: 5", "max_movements: ⟦0⟧", "error", "not_count", None),
    "max_movements is negative": ("max_movements: 5", "max_movements: ⟦-3⟧", "error", "not_count", None),
    "max_movements in quotes": ("max_movements: 5", "max_movements: ⟦'5'⟧", "error", "not_count", "5"),
    "max_movements is huge": (
        "max_movements: 5",
        f"max_movements: ⟦{'9' * 5000}⟧",
        "error",
        "not_count",
        None,
    ),
    "movements is a mapping": ("movements:\n", "⟦movements⟧: {a: b}\nx:\n", "error", "not_list", None),
    "no movements": ("movements:\n", "⟦movements⟧: []\nx:\n", "error", "no_movements", None),
    "a movement is a text": ("  - name: end", "  - ⟦text⟧\n  - name: end", "error", "not_mapping", None),
    "a rule is a text": (RULES, "rules: [⟦end⟧]", "error", "not_mapping", None),
    "rules left empty": ("    rules: []\n", "    rules:⟦⟧\n", "error", "not_list", " []"),
    "tools without brackets": (
        "allowed_tools: [Read]",
        "allowed_tools: ⟦Read, Bash⟧",
        "error",
        "not_list",
        "[Read, Bash]",
    ),
    "a tool is a list": ("[Read]", "[Read, [⟦Bash⟧]]", "error", "not_text", None),
    "triggers is a list": (
        "max_movements: 5",
        "max_movements: 5\ntriggers: [⟦a⟧]",
        "error",
        "not_mapping",
        None,
    ),
    "conversation is unknown": (
        "max_movements: 5",
        "max_movements: 5\nconversation: ⟦continu⟧",
        "error",
        "not_choice",
        "continue",
    ),
    "resume is unknown": ("max_movements: 5", "max_movements: 5\nresume: ⟦zz⟧", "error", "not_choice", None),
    "server name is no slug": (
        "max_movements: 5",
        "max_movements: 5\nrequired_mcp: [ok, ⟦Git Hub⟧]",
        "error",
        "slug",
        None,
    ),
    "python tag": ("name: demo", "name: ⟦!!python/name:os.system demo⟧", "error", "tag", None),
    "own tag on a list": ("[Read]", "!mine [⟦Read⟧]", "error", "tag", None),
    # names
    "piece name with a space": ("name: demo", "name: ⟦My Demo⟧", "error", "piece_name", "my-demo"),
    "piece name in Japanese": ("name: demo", "name: ⟦検証⟧", "error", "piece_name", None),
    "piece name is not the file's": ("name: demo", "name: ⟦other⟧", "warning", "name_differs", "demo"),
    "movement name on two lines": ("- name: end", '- name: ⟦"e\\nd"⟧', "error", "movement_name", None),
    "movement name is too long": ("- name: end", f"- name: ⟦{'e' * 65}⟧", "error", "movement_name", None),
    "two movements of one name": ("- name: end", "- name: ⟦start⟧", "error", "duplicate_movement", None),
    "movement called ASK": ("- name: end", "- name: ⟦ASK⟧", "error", "reserved_name", None),
    "movement called WAITING_…": ("- name: end", "- name: ⟦WAITING_FOR_IT⟧", "error", "reserved_name", None),
    # targets
    "initial movement mistyped": (
        "initial_movement: start",
        "initial_movement: ⟦strat⟧",
        "error",
        "unknown_movement",
        "start",
    ),
    "next mistyped": ("next: end", "next: ⟦ende⟧", "error", "unknown_movement", "end"),
    "next nearly WAIT_SUBTASKS": (
        "next: end",
        "next: ⟦WAIT_SUBTASK⟧",
        "error",
        "unknown_movement",
        "WAIT_SUBTASKS",
    ),
    "next unknown": ("next: end", "next: ⟦zzzzzz⟧", "error", "unknown_movement", None),
    "next COMPLETE": ("next: end", "next: ⟦COMPLETE⟧", "error", "sentinel_in_rule", None),
    "next complete": ("next: end", "next: ⟦complete⟧", "error", "sentinel_in_rule", None),
    "next ABORT": ("next: end", "next: ⟦ABORT⟧", "error", "sentinel_in_rule", None),
    "next ASK": ("next: end", "next: ⟦ASK⟧", "error", "sentinel_in_rule", None),
    "next WAITING_HUMAN_BROWSER": (
        "next: end",
        "next: ⟦WAITING_HUMAN_BROWSER⟧",
        "error",
        "sentinel_in_rule",
        None,
    ),
    "next WAITING_ANYTHING": ("next: end", "next: ⟦WAITING_ANYTHING⟧", "error", "sentinel_in_rule", None),
    "next WAIT_SUBTASKS, no default_next": (
        "next: end",
        "next: ⟦WAIT_SUBTASKS⟧",
        "error",
        "wait_without_default_next",
        None,
    ),
    "next WAIT_SUBTASKS, default_next ABORT": (
        RULES,
        "default_next: ABORT\n    rules: [{condition: a, next: ⟦WAIT_SUBTASKS⟧}]",
        "error",
        "wait_without_default_next",
        None,
    ),
    "rule names its own movement": ("next: end", "next: ⟦start⟧", "error", "self_rule_without_cap", None),
    "default_next unknown": (
        "edit: true",
        "edit: true\n    default_next: ⟦edn⟧",
        "error",
        "unknown_movement",
        "end",
    ),
    "default_next ABROT": (
        "edit: true",
        "edit: true\n    default_next: ⟦ABROT⟧",
        "error",
        "unknown_movement",
        "ABORT",
    ),
    "default_next ASK": (
        "edit: true",
        "edit: true\n    default_next: ⟦ASK⟧",
        "error",
        "sentinel_in_default_next",
        None,
    ),
    "default_next WAIT_SUBTASKS": (
        "edit: true",
        "edit: true\n    default_next: ⟦WAIT_SUBTASKS⟧",
        "error",
        "sentinel_in_default_next",
        None,
    ),
    "default_next COMPLETE": (
        "edit: true",
        "edit: true\n    default_next: ⟦COMPLETE⟧",
        "warning",
        "default_next_complete",
        "ABORT",
    ),
    "default_next is itself": (
        "edit: true",
        "edit: true\n    default_next: ⟦start⟧",
        "warning",
        "default_next_self",
        None,
    ),
    # the graph
    "unreachable movement": (END, END + END.replace("end", "⟦extra⟧", 1), "warning", "unreachable", None),
    "cycle without a cap": (MOVEMENTS, looped("default_next: ABORT"), "warning", "cycle_without_cap", None),
    "no way out": (MOVEMENTS, looped("max_consecutive_revisits: 3"), "warning", "no_way_out", None),
    # permissions
    "unknown tool": ("[Read]", "[Read, ⟦Frobnicate⟧]", "warning", "unknown_tool", None),
    "mistyped tool": ("[Read]", "[⟦Raed⟧]", "warning", "unknown_tool", "Read"),
    "tool in another case": ("[Read]", "[⟦bash⟧]", "warning", "unknown_tool", "Bash"),
    "MCP pattern inside a name": ("[Read]", "[⟦'mcp__git*'⟧]", "warning", "mcp_pattern", None),
    "edit false with Write": (
        "allowed_tools: []",
        "allowed_tools: [⟦Write⟧]",
        "warning",
        "edit_false_lists_writer",
        None,
    ),
    "commands without Bash": (
        "edit: true",
        "edit: true\n    ⟦allowed_commands⟧: [ls]",
        "warning",
        "commands_without_bash",
        None,
    ),
    "verify-type by its name": ("- name: end", "- name: ⟦end⟧", "info", "verify_by_name", None),
    "ssh connections": (
        "edit: true",
        "edit: true\n    ⟦allowed_ssh_connections⟧: [x]",
        "info",
        "unsupported_key",
        None,
    ),
}
REMOVED = {"no max_movements": "max_movements: 5\n", "no rules": "    rules: []\n"}
RENAMED = {"verify-type by its name": ("end", "code-review")}


YAML_CASES: dict[str, tuple[str, str]] = {
    "colon in a value": ("a: b⟦:⟧ c\n", "yaml_colon"),
    "tab": ("a:\n⟦\t⟧- b\n", "yaml_tab"),
    "a value that begins with @": ("a: ⟦@⟧b\n", "yaml_character"),
    "open quote": ("a: ⟦'⟧b\nc: d\n", "yaml_unclosed"),
    "open bracket": ("a: ⟦[⟧1, 2\nb: [3]\n", "yaml_unclosed"),
    "bad indentation": ("a:\n  - b\n ⟦c⟧: d\n", "yaml_indent"),
    "unknown escape": ('a: "⟦\\⟧q"\n', "yaml_syntax"),
    "two documents": ("a: 1\n⟦-⟧--\nb: 1\n", "several_documents"),
    "unknown alias": ("a: ⟦*x⟧\n", "unknown_alias"),
    "recursive alias": ("a: &x [⟦*x⟧]\n", "recursive_alias"),
    "control character": ("a: b⟦\x01⟧\n", "bad_character"),
    "half a character": ("a: b⟦\ud83d⟧\n", "bad_character"),
    "empty": ("⟦⟧", "empty_file"),
    "comments only": ("⟦#⟧ nothing\n", "empty_file"),
    "null": ("⟦~⟧\n", "empty_file"),
    "a line separator is no line end": ('a: "x\u2028y"\nb: c⟦:⟧ d\n', "yaml_colon"),
    "carriage returns end lines": ("a: b\rb: c⟦:⟧ d\r", "yaml_colon"),
    "Japanese before the fault": ("説明: 直す⟦:⟧ もう\n", "yaml_colon"),
}


HOSTILE: dict[str, tuple[str, str]] = {
    "alias bomb": (
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "alias_bomb",
    ),
    "deep flow lists": ("[" * 60 + "]" * 60, "too_deep"),
    "very deep flow lists": ("[" * 100_000, "too_deep"),
    "deep flow mappings": ("{a: " * 60_000, "too_deep"),
    "deep block lists": ("- " * 100_000, "too_deep"),
    "deep block keys": ("? " * 100_000, "too_deep"),
    "deep by aliases": (
        "a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 20 + "*a" + "]" * 20 + "\n",
        "too_deep",
    ),
    "many values": ("[" + "a," * 60_000 + "]", "too_many_nodes"),
    "too large": ("#" * (MAX_BYTES + 1), "too_large"),
    "too large in bytes": ("あ" * (MAX_BYTES // 3 + 1), "too_large"),
    "many movements": ("movements: [" + "{}," * 4_000 + "]", "too_many_movements"),
    "python object": ('!!python/object/apply:os.system ["touch x"]', "tag"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_finding_is_shown_at_its_place_with_its_mend(case: str) -> None:
    old, new, severity, code, fix = CASES[case]
    raw = edited(old, new).replace(REMOVED.get(case, "\0"), "")
    if case in RENAMED:
        raw = raw.replace(*RENAMED[case])
    text, place = marked(raw)
    found = [p for p in lint(text).problems if p.code == code]
    assert [(p.severity, p.span, p.fix) for p in found] == [(severity, place, fix)]


@pytest.mark.parametrize("case", CASES)
def test_no_finding_brings_others_with_it(case: str) -> None:
    old, new, severity, code, _ = CASES[case]
    raw = edited(old, new).replace(REMOVED.get(case, "\0"), "")
    text, _ = marked(raw.replace(*RENAMED[case]) if case in RENAMED else raw)
    checked = lint(text)
    followers = {p.code for p in checked.problems} - {code}
    allowed = {"movements is a mapping": {"unknown_key"}, "no movements": {"unknown_key"}}
    renames = (
        {"unknown_movement"} if code in ("movement_name", "duplicate_movement", "reserved_name") else set()
    )
    assert followers <= allowed.get(case, renames)
    assert (checked.piece is None) is has_errors(checked.problems)
    assert has_errors(checked.problems) is (severity == "error")


ALL_TEXTS = [
    *(
        marked(edited(old, new).replace(REMOVED.get(case, "\0"), ""))[0]
        for case, (old, new, *_) in CASES.items()
    ),
    marked(edited(*CASES["verify-type by its name"][:2]))[0].replace("end", "code-review"),
    *(marked(text)[0] for text, _ in YAML_CASES.values()),
    *(text for text, _ in HOSTILE.values()),
]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_finding_can_be_said(language: str) -> None:
    lines = catalogue(language)
    said = {p.key: lines[p.key].format(**p.values) for text in ALL_TEXTS for p in lint(text).problems}
    assert len(said) > 50
    assert not [text for text in said.values() if "{" in text.replace("{}", "") or not text.strip()]


FIXABLE = [case for case, row in CASES.items() if row[4] is not None]


@pytest.mark.parametrize("case", FIXABLE)
def test_putting_the_fix_in_removes_the_finding(case: str) -> None:
    old, new, _, code, _ = CASES[case]
    text, _ = marked(edited(old, new))
    problem = next(p for p in lint(text).problems if p.code == code)
    assert code not in [p.code for p in lint(mended(text, problem)).problems]


@pytest.mark.parametrize("case", YAML_CASES)
def test_bad_yaml_is_one_error_with_its_place(case: str) -> None:
    raw, code = YAML_CASES[case]
    text, place = marked(raw)
    checked = lint(text)
    assert [(p.severity, p.code) for p in checked.problems] == [("error", code)]
    assert place is not None
    found = checked.problems[0].span
    assert (found.line, found.column) == (place.line, place.column)
    assert checked.piece is None and checked.tree is None


@pytest.mark.parametrize("case", [case for case in YAML_CASES if case != "half a character"])
def test_the_pure_yaml_parser_refuses_the_same(case: str) -> None:
    text, _ = marked(YAML_CASES[case][0])
    assert read_tree(text, yaml.SafeLoader).root is None


def test_the_pure_yaml_parser_reads_the_same_tree() -> None:
    for path in sorted(DATA.glob("*.yaml")):
        assert read_tree(path.read_bytes(), yaml.SafeLoader).root == read_tree(path.read_bytes()).root


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_yaml_is_refused_in_no_time(case: str) -> None:
    text, code = HOSTILE[case]
    began = time.process_time()
    checked = lint(text)
    assert time.process_time() - began < 4
    assert checked.piece is None
    assert code in [p.code for p in checked.problems if p.severity == "error"]


def test_many_faults_are_counted_but_not_all_listed() -> None:
    faults = "".join(f"keyy{n}: 1\n" for n in range(9_000))
    began = time.process_time()
    checked = lint(faults)
    assert time.process_time() - began < 4
    assert checked.piece is None
    assert len(checked.problems) == 100


def test_an_ordinary_alias_is_followed() -> None:
    text = SOUND.replace("[Read]", "&tools [Read]").replace("allowed_tools: []", "allowed_tools: *tools")
    checked = lint(text)
    assert checked.problems == ()
    assert checked.piece is not None and checked.piece.movement("end").allowed_tools == ("Read",)


def test_a_fault_behind_an_alias_is_shown_once() -> None:
    text = SOUND.replace("[Read]", "&tools [Raed]").replace("allowed_tools: []", "allowed_tools: *tools")
    assert [p.code for p in lint(text).problems] == ["unknown_tool"]


def test_bytes_that_are_not_utf8_are_refused_at_their_place() -> None:
    checked = lint("name: 直す\nx: ".encode() + "直す".encode("shift_jis"))
    assert [(p.code, p.span.line, p.span.column) for p in checked.problems] == [("not_utf8", 1, 3)]


def test_a_byte_order_mark_is_fine_and_moves_the_first_line_by_one() -> None:
    assert lint(SOUND.encode("utf-8-sig")).problems == ()
    checked = lint("\ufeffname: My Demo\n" + SOUND.split("\n", 1)[1])
    assert [(p.code, p.span.line, p.span.column) for p in checked.problems] == [("piece_name", 0, 7)]


def test_lines_may_end_with_carriage_return_and_line_feed() -> None:
    checked = lint(SOUND.replace("next: end", "next: ende").replace("\n", "\r\n"))
    assert [(p.code, p.span.line) for p in checked.problems] == [("unknown_movement", 10)]


def test_on_and_no_stay_text() -> None:
    checked = lint(SOUND.replace("persona: somebody", "persona: no").replace("ready", "on"))
    assert checked.piece is not None
    assert checked.piece.movements[0].persona == "no"
    assert checked.piece.movements[0].rules[0].condition == "on"


def test_a_rule_may_name_its_own_movement_under_a_cap() -> None:
    text = SOUND.replace(
        RULES,
        "max_consecutive_revisits: 2\n    rules: [{condition: a, next: start}, {condition: b, next: end}]",
    )
    assert lint(text).problems == ()


def test_wait_subtasks_is_fine_where_default_next_is_a_movement() -> None:
    text = SOUND.replace(RULES, "default_next: end\n    rules: [{condition: a, next: WAIT_SUBTASKS}]")
    assert lint(text).problems == ()


def test_tool_names_are_not_judged_when_the_tools_are_not_known() -> None:
    assert check_text(SOUND.replace("[Read]", "[Frobnicate]"), "demo.yaml").problems == ()


def test_the_settlement_table_decides_what_a_rule_may_name() -> None:
    row = Settlement(
        "WAIT_MOON", RunResult.WAITING_HUMAN, via=Via.RULE, resume=Resume.CURRENT, wait_reasons=("moon",)
    )
    tree = read_tree(SOUND.replace("next: end", "next: WAIT_MOON").replace("default_next", "x")).root
    assert tree is not None
    assert [p.code for p in check(tree)[1]] == ["unknown_movement"]
    assert [p.code for p in check(tree, table=SettlementTable().with_rows(row))[1]] == ["unreachable"]


def test_problems_come_in_the_order_of_the_file() -> None:
    text = (
        SOUND.replace("next: end", "next: x")
        .replace("initial_movement: start", "initial_movement: y")
        .replace("5", "0")
    )
    places = [(p.span.line, p.span.column) for p in lint(text).problems]
    assert len(places) == 3 and places == sorted(places)


def never_worse_than_problems(source: str | bytes) -> None:
    began = time.process_time()
    checked = lint(source)
    assert time.process_time() - began < 4
    assert (checked.piece is None) is has_errors(checked.problems)
    for problem in checked.problems:
        assert problem.span.line >= 0 and problem.span.column >= 0
        assert (problem.span.line, problem.span.column) <= (problem.span.end_line, problem.span.end_column)
        checked.lines.range(problem.span)


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_only_ever_problems(source: bytes) -> None:
    never_worse_than_problems(source)


@settings(deadline=None)
@given(st.text(alphabet="ab&*:-[]{},#!|>?'\"%@`<~ \n\t\r\u2028\ufeff日\ud800", max_size=200))
def test_any_yaml_like_text_is_only_ever_problems(source: str) -> None:
    never_worse_than_problems(source)


LINES = SOUND.splitlines()


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(LINES), st.sampled_from(["", "  ", "- ", "*x ", "&x ", "!!int ", "<<: "])),
        max_size=25,
    )
)
def test_any_shuffle_of_a_piece_is_only_ever_problems(rows: list[tuple[str, str]]) -> None:
    never_worse_than_problems("\n".join(prefix + row for row, prefix in rows))


@settings(deadline=None)
@given(st.integers(0, len(SOUND) - 1), st.text(max_size=3))
def test_any_small_edit_of_a_piece_is_only_ever_problems(at: int, put: str) -> None:
    never_worse_than_problems(SOUND[:at] + put + SOUND[at + 1 :])


def test_what_a_sentence_quotes_is_short_and_on_one_line() -> None:
    checked = lint(SOUND.replace("next: end", f'next: "{"x" * 5000}\\n\\x1by"'))
    (problem,) = checked.problems
    assert len(problem.values["name"]) == 300
    assert problem.values["name"].isprintable()
