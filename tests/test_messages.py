"""The catalogue: whatever a person can be told, they can be told in English and in Japanese."""

from __future__ import annotations

import ast
import re
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.core.outcome import SETTLEMENTS
from engine.core.policy import MESSAGE_KEYS
from maestro_lsp.cli.arguments import _SENTENCES
from maestro_lsp.cli.dispatch import MODULES

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "engine" / "messages"
SOURCES = [*sorted((ROOT / "engine").rglob("*.py")), *sorted((ROOT / "maestro_lsp").rglob("*.py"))]

# Keys that are made from data, and the test that holds them to it.
FAMILIES = {
    "piece.": "tests/core/test_piece_messages.py",
    "policy.": "engine.core.policy.MESSAGE_KEYS, below",
    "rule.": "engine.core.policy.MESSAGE_KEYS, below",
    "demo.": "tests/demo",
    "why.": "one for each wait reason of the settlement table, below",
    "chosen.": "one for each choice of a piece, tests/engine/test_classifier.py",
    "reason.": "one for each end of a job, below",
    "request.interrupted": "the request of a recovery, below",
    "request.crashed": "the request of a recovery, below",
    "request.budget_": "one for each allowance of a budget, tests/engine/test_budget.py",
    "revert.kept.": "one for each reason, tests/engine/test_revert.py",
    "settings.wrong_": "one for each type of setting, tests/test_settings.py",
}
# The same in both languages: names, symbols and what is typed.
SAME = re.compile(
    r"cli\.(usages\..*|faulty_one|run\.(movement|comment)|wait\.captcha|head\.id|argparse\.argument)|cli\.doctor\.(program|setting|version)"
)
SAME_ELSEWHERE = re.compile(r"(demo|lsp)\..*")

ERRORS = {
    *(
        "BadArgument",
        "NotFound",
        "IllegalMove",
        "AlreadySettled",
        "FaultyPiece",
        "NotConfigured",
        "NotTrusted",
    ),
    *("ModelFault", "StoreFault", "LeaseLost", "EngineError"),
}
SPEAKERS = {"say", "_say", "text", "_words"}


def flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def catalogue(folder: Path, language: str) -> dict[str, str]:
    lines: dict[str, str] = {}
    for file in sorted([*folder.glob(f"*.{language}.toml"), *folder.glob(f"{language}.toml")]):
        for key, text in flat(tomllib.loads(file.read_text("utf-8"))):
            assert key not in lines, f"{key} is in two files"
            lines[key] = text
    return lines


EN, JA = catalogue(FOLDER, "en"), catalogue(FOLDER, "ja")
PROMPTS_EN, PROMPTS_JA = (catalogue(ROOT / "engine" / "prompts", language) for language in ("en", "ja"))


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize(
    ("english", "japanese"), [(EN, JA), (PROMPTS_EN, PROMPTS_JA)], ids=["messages", "prompts"]
)
def test_both_languages_have_the_same_keys_and_placeholders(
    english: dict[str, str], japanese: dict[str, str]
) -> None:
    assert english and {key: placeholders(text) for key, text in english.items()} == {
        key: placeholders(text) for key, text in japanese.items()
    }


def test_every_file_has_its_twin() -> None:
    names = {file.name for file in FOLDER.glob("*.toml")}
    assert {name.replace(".en.", ".ja.") for name in names if ".en." in name} == {
        n for n in names if ".ja." in n
    }


def test_japanese_is_japanese_and_english_is_english() -> None:
    def is_japanese(text: str) -> bool:
        return any("\u3040" <= char <= "\u30ff" or "\u4e00" <= char <= "\u9fff" for char in text)

    assert [key for key, text in EN.items() if is_japanese(text)] == []
    same = [key for key, text in JA.items() if not is_japanese(text)]
    assert [key for key in same if not SAME.fullmatch(key) and not SAME_ELSEWHERE.fullmatch(key)] == []


class Uses(ast.NodeVisitor):
    """The keys a module speaks of: ``said`` in calls that look one up, ``all`` among all its texts.

    An f-string counts as the pattern of the keys it can make.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.all: set[str] = set()

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.all.add(re.escape(node.value))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.all.add(pattern(node))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        looked_up = isinstance(node.func, ast.Call) and getattr(node.func.func, "id", "") == "catalogue"
        if node.args and (name in ERRORS | SPEAKERS or looked_up):
            self.said += [pattern(part) for part in branches(node.args[0]) if pattern(part)]
        self.generic_visit(node)


def branches(node: ast.expr) -> Iterator[ast.expr]:
    """A conditional key is two keys."""
    if isinstance(node, ast.IfExp):
        yield from branches(node.body)
        yield from branches(node.orelse)
    else:
        yield node


def pattern(node: ast.expr) -> str:
    """A regular expression for the keys of a node; empty for what only the running program knows."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(pattern(part) if isinstance(part, ast.Constant) else ".+" for part in node.values)
    return ""


def uses(path: Path) -> Uses:
    found = Uses()
    found.visit(ast.parse(path.read_text("utf-8")))
    return found


FOUND = {path.relative_to(ROOT).as_posix(): uses(path) for path in SOURCES}


@pytest.mark.parametrize("name", [name for name, found in FOUND.items() if found.said])
def test_every_key_that_is_looked_up_is_in_the_catalogue(name: str) -> None:
    missing = [
        said
        for said in FOUND[name].said
        if re.search(r"\w\\\.|\\\.\w", said)
        and "\\ " not in said
        and not any(re.fullmatch(said, key) for key in EN)
    ]
    assert missing == []


def test_the_collection_sees_what_it_should() -> None:
    """The test above would pass if nothing were found."""
    said = {key for found in FOUND.values() for key in found.said}
    wanted = {"config.no_endpoint", "job.unknown", "cli.run.no_piece", "store.newer", "lsp.internal"}
    assert {re.escape(key) for key in wanted} <= said
    assert {r"cli\.status\..+", r"reason\..+", r".+\.unknown"} <= said


def test_no_key_lies_unused() -> None:
    patterns = [
        re.compile(text) for text in set().union(*(found.all for found in FOUND.values())) if r"\." in text
    ]
    patterns = [found for found in patterns if found.pattern.replace(".+", "").strip("\\.")]
    notices = {f"settings.{word}" for word in FOUND["maestro_lsp/settings/merge.py"].all}
    findings = {f"cli.doctor.{word}" for word in FOUND["maestro_lsp/cli/doctor.py"].all}
    helps = {f"cli.arg.{word}" for path, found in FOUND.items() if "/cli/" in path for word in found.all}
    words = {f"cli.argparse.{word}" for word in _SENTENCES.values()}
    words |= {f"cli.{kind}.{verb}" for verb in MODULES for kind in ("verb", "usages")} | {"cli.verb.server"}
    unused = [
        key
        for key in EN
        if not key.startswith(tuple(FAMILIES))
        and key not in notices | findings | helps | words
        and not any(found.fullmatch(key) for found in patterns)
    ]
    assert unused == []


def test_every_verb_has_its_line_in_the_help() -> None:
    assert {f"cli.{kind}.{verb}" for verb in MODULES for kind in ("verb", "usages")} <= EN.keys()


def test_every_help_of_an_argument_is_there() -> None:
    used: set[str] = set()
    for path in (ROOT / "maestro_lsp" / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "option":
                [word] = [word.value for word in node.keywords if word.arg == "help"]
                assert isinstance(word, ast.Constant)
                used.add(f"cli.arg.{word.value}")
    assert used == {key for key in EN if key.startswith("cli.arg.")} - {"cli.arg.help"} | (
        used & {"cli.arg.help"}
    )


def test_every_reason_of_the_policy_can_be_told() -> None:
    families = {key for key in EN if key.startswith(("policy.", "rule."))} - {"rule.unknown"}
    assert families == MESSAGE_KEYS


def test_every_wait_says_why_and_has_a_word() -> None:
    reasons = {reason for row in SETTLEMENTS for reason in row.wait_reasons}
    assert {key.removeprefix("why.") for key in EN if key.startswith("why.")} == reasons
    assert {key.removeprefix("cli.wait.") for key in EN if key.startswith("cli.wait.")} == reasons
    assert {f"request.{reason}" for reason in ("interrupted", "crashed")} <= EN.keys()


def test_every_end_of_a_job_has_its_sentence() -> None:
    """What guards, faults and the cancel path write into ``reason``; why a job is queued is none of these."""
    made: set[str] = set()
    runners = [path for folder in (".", "core", "tools") for path in (ROOT / "engine" / folder).glob("*.py")]
    for path in runners:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            made |= set(reasons_in(node))
    sentences = {key.removeprefix("reason.") for key in EN if key.startswith("reason.")}
    assert made - sentences == set()
    assert sentences - made == set()
    assert {"max_iterations", "text_only_limit", "max_movements", "cancelled", "internal_error"} <= made


def reasons_in(node: ast.AST) -> Iterator[str]:
    candidates: list[ast.expr] = []
    match node:
        case ast.Call(func=ast.Name(id="_abort" | "_failed"), args=[first, *_]):
            candidates.append(first)
        case ast.Call(func=ast.Name(id="MovementResult" | "PieceRunResult" | "Signal"), keywords=keywords):
            candidates += [word.value for word in keywords if word.arg == "reason"]
        case ast.Assign(targets=[ast.Name(id="abort")], value=value):
            candidates.append(value)
        case ast.FunctionDef(name="_faulted"):
            candidates += [part for part in ast.walk(node) if isinstance(part, ast.IfExp)]
        case ast.Return(value=ast.Constant(value=str(word))) if re.fullmatch(
            r"[a-z]+_(limit|next)|cycle", word
        ):
            yield word
    yield from (word for candidate in candidates for word in words_of(candidate))


def words_of(node: ast.expr) -> Iterator[str]:
    for part in branches(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value:
            yield part.value


@pytest.mark.parametrize("language", [EN, JA], ids=["en", "ja"])
def test_a_sentence_of_an_error_is_one_line_that_ends(language: dict[str, str]) -> None:
    sections = (
        "error.",
        "config.",
        "job.",
        "task.",
        "request.",
        "store.",
        "start.",
        "workspace.",
        "model.",
        "reason.",
    )
    for key, text in language.items():
        if key.startswith((*sections, "settings.")):
            assert "\n" not in text
            assert re.search(r"[.。?？/」）`v1]$", text), (key, text)
