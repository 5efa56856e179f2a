"""Small things that would take minutes or gigabytes if nobody looked: from models, and from repositories."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from engine.core.tooling import Prepared, ToolResult
from engine.tools.edits import Found, Missed, find_edit
from engine.tools.files import READ
from engine.tools.matching import LONGEST_PATTERN, matcher
from engine.tools.patterns import IgnoreRules
from engine.tools.search import GLOB
from engine.tools.writing import EDIT, WRITE
from tests.tools.world import World


@pytest.mark.parametrize(
    "pattern",
    [
        "a{1000000000}",
        "a{20001,}",
        "(?:a{1000}){1000}",
        "((((a{100}){100}){100}){100})",
        "[]ab]{30000}",
        "(?:ab?){10001}",
        "a{99999999999999999999}",
    ],
)
def test_repetitions_that_would_fill_the_memory_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="numbers of repetitions"):
        matcher(pattern)


@pytest.mark.parametrize("pattern", ["a{1000}", "[a{9}]{100}", r"x\{999999\}", "a{1,1000000000}", "a{,9}"])
def test_other_repetitions_are_fine(pattern: str) -> None:
    assert matcher(pattern).compiled.search("b" * 100, timeout=1.0) is None or pattern == "a{,9}"


@pytest.mark.parametrize("unit", ["-", "ab", " ", "あ"])
def test_a_long_plain_text_to_search_for_holds_nobody_up(unit: str) -> None:
    assert matcher(unit * (LONGEST_PATTERN // len(unit))).compiled.search("xz" * 5000, timeout=1.0) is None


@pytest.mark.parametrize("rule", ["?{}", "{}*", "[a]{}", "/{}?", r"\{}*"])
def test_a_rule_of_a_repository_for_ignored_files_holds_nobody_up(rule: str) -> None:
    rules = IgnoreRules(rule.replace("{}", "-" * 20_000).encode())
    assert rules.verdict("zx" * 2000, folder=False) is None
    near = rule.replace("{}", "-" * 200)
    path = near.replace(r"\-", "-").lstrip("/").replace("?", "q").replace("*", "q").replace("[a]", "a")
    assert IgnoreRules(near.encode()).verdict(path, folder=False) is True
    assert IgnoreRules(near.encode()).verdict(path[:-70] + path[-69:], folder=False) is None


@pytest.mark.fault("C: ambiguous match", neighbour=True)
@pytest.mark.parametrize(
    ("text", "old", "replace_all", "said"),
    [
        ("a" * 2_000_000, "a", False, "at least 1000 times"),
        ("a" * 2_000_000, "a", True, "more than 100,000 times"),
        ("い\n" * 200_000, "い\n" * 100_000, False, "at least 1000 times"),
    ],
)
def test_an_edit_with_millions_of_places_is_answered_soon(
    text: str, old: str, replace_all: bool, said: str
) -> None:
    found = find_edit(text, old, "x", replace_all=replace_all)
    assert isinstance(found, Missed) and said in found.text


def test_replacing_all_takes_places_that_overlap_from_the_left() -> None:
    found = find_edit("aaaaa", "aa", "b", replace_all=True)
    assert isinstance(found, Found) and [(one.start, one.end) for one in found.splices] == [(0, 2), (2, 4)]


@pytest.mark.fault("C: very long lines, binary", neighbour=True)
@pytest.mark.parametrize("byte_offset", [2**31, 2**63, 2**70])
async def test_a_place_beyond_every_file_is_told_to_be_so(world: World, byte_offset: int) -> None:
    world.write("a", "x\n")
    result = await world.call(READ, file_path="a", byte_offset=byte_offset)
    assert result.is_error and "has only 2 bytes" in result.text


@pytest.mark.parametrize("asked", ["~", "~/notes.md", "file:///etc/hosts"])
async def test_a_path_that_only_a_shell_or_a_browser_knows_makes_no_odd_folder(
    world: World, asked: str
) -> None:
    result = await world.call(WRITE, file_path=asked, content="x")
    assert result.is_error and "relative to the workspace" in result.text
    assert [path.name for path in world.root.iterdir()] == [".maestro"]


async def test_a_folder_that_vanishes_before_the_write_is_told_by_the_files_name(world: World) -> None:
    world.write("gone/a", "x\n")
    context = world.context()
    args = msgspec.convert({"file_path": "gone/a", "old_string": "x", "new_string": "y"}, EDIT.arguments)
    prepared = await EDIT.prepare(context, args)
    assert isinstance(prepared, Prepared)
    shutil.rmtree(world.root / "gone")
    result = await EDIT.run(context, args, prepared)
    assert isinstance(result, ToolResult) and result.is_error
    assert "gone/a" in result.text and ".tmp" not in result.text
    assert not (world.root / "gone").exists()


async def test_a_pattern_for_folders_is_told_how_to_see_them(world: World) -> None:
    world.write("src/a.py", "x\n")
    result = await world.call(GLOB, pattern="*/")
    assert "*/**" in result.text
    assert "src/a.py" in (await world.call(GLOB, pattern="*/**")).text
