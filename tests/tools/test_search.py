"""Glob and Grep: what git does not ignore, found the same way with ripgrep and without, in bounded time and
space.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from engine.core.policy import Choice, Level, Mode, Permissions, Question, Stance, decide
from engine.core.tooling import Effect, Prepared, ToolResult, ToolSpec
from engine.core.truncate import estimate_tokens
from engine.tools import ShellRegistry, builtin_tools, patterns
from engine.tools.finding import Query, Report
from engine.tools.search import GLOB, GREP, SEARCH_TOOLS
from engine.tools.search_notes import unseen
from tests.tools.world import World

T = TypeVar("T")


@pytest.fixture(params=[pytest.param("rg", marks=pytest.mark.needs("rg")), "own"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "own":
        monkeypatch.setenv("PATH", "/nowhere")
    return str(request.param)


IGNORED = (
    "[Left out because git ignores it: build/, noise.log, src/gen/made.py. Name one as path to search it.]"
)


def tree(world: World) -> None:
    world.write(".gitignore", "build/\n*.log\n!keep.log\n")
    world.write("src/a.py", "import os\n\ndef price(x):\n    return x * 1.08\n")
    world.write("src/b.ts", "const price = 1;\n")
    world.write("src/gen/.gitignore", "*.py\n")
    world.write("src/gen/made.py", "price = 0\n")
    world.write("build/out.py", "price = 2\n")
    world.write("noise.log", "price\n")
    world.write("keep.log", "price kept\n")
    world.write(".git/config", "price\n")
    world.write(".github/ci.yml", "price: 1\n")
    world.write("deep/er/c.py", "nothing\n")


# --- Glob -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"pattern": "*.py"}, {"src/a.py", "deep/er/c.py"}),
        ({"pattern": "**/*.py"}, {"src/a.py", "deep/er/c.py"}),
        ({"pattern": "src/*.py"}, {"src/a.py"}),
        ({"pattern": "*.py", "path": "deep"}, {"deep/er/c.py"}),
        ({"pattern": "er/*.py", "path": "deep"}, {"deep/er/c.py"}),
        ({"pattern": "*.{py,ts}", "path": "src"}, {"src/a.py", "src/b.ts"}),
        ({"pattern": "*.log"}, {"keep.log"}),
        ({"pattern": "build/*.py"}, {"build/out.py"}),
        ({"pattern": "*.py", "path": "build"}, {"build/out.py"}),
        ({"pattern": ".github/**"}, {".github/ci.yml"}),
        ({"pattern": "src/"}, {"src/a.py", "src/b.ts", "src/gen/.gitignore"}),
    ],
)
async def test_glob_finds_what_git_does_not_ignore_and_what_is_named(
    world: World, arguments: dict[str, str], names: set[str]
) -> None:
    tree(world)
    result = await world.call(GLOB, **arguments)
    assert set(result.text.split("\n")) == names


async def test_an_absolute_pattern_in_the_workspace_is_fine(world: World) -> None:
    tree(world)
    assert (await world.call(GLOB, pattern=f"{world.root}/src/*.ts")).text == "src/b.ts"


async def test_the_newest_files_come_first(world: World) -> None:
    for age, name in enumerate(["new.txt", "middle.txt", "old.txt"]):
        os.utime(world.write(name, ""), (1_000_000 - age, 1_000_000 - age))
    assert (await world.call(GLOB, pattern="*.txt")).text == "new.txt\nmiddle.txt\nold.txt"


async def test_of_many_files_five_hundred_are_named_and_all_are_counted(world: World) -> None:
    for number in range(620):
        os.utime(world.write(f"f/{number:03}.txt", ""), (number, number))
    result = await world.call(GLOB, pattern="*.txt")
    lines = result.text.split("\n")
    assert lines[0] == "f/619.txt" and len(lines) == 501
    assert lines[-1].startswith("[500 of 620 files")
    assert result.truncated and result.brief == "620 files"


async def test_a_long_list_fits_the_budget(world: World) -> None:
    for number in range(300):
        world.write(f"とても長い名前のフォルダ/{number}番目のファイル.txt", "")
    world.budget = 800
    result = await world.call(GLOB, pattern="*.txt")
    assert estimate_tokens(result.text) <= 800 and "of 300 files" in result.text


async def test_nothing_found_says_where_was_looked(world: World) -> None:
    result = await world.call(GLOB, pattern="*.zig")
    assert result.text == "No file matches `*.zig` in `.`." and not result.is_error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "*", "path": "/"}, "outside the workspace"),
        ({"pattern": "/etc/*"}, "outside the workspace"),
        ({"pattern": "../*"}, "outside the workspace"),
        ({"pattern": "*", "path": "missing"}, "does not exist"),
        ({"pattern": "*", "path": "file"}, "is no folder"),
        ({"pattern": " "}, "empty"),
        ({"pattern": "*", "path": ".ssh"}, "secrets"),
    ],
)
async def test_where_no_search_goes(world: World, arguments: dict[str, str], said: str) -> None:
    world.write("file", "")
    result = await world.prepare(GLOB, **arguments)
    assert isinstance(result, ToolResult) and result.is_error and said in result.text


async def test_a_file_name_with_a_line_feed_stays_on_one_line(world: World) -> None:
    world.write("a\nb.txt", "")
    assert (await world.call(GLOB, pattern="*.txt")).text == "a\\nb.txt"


async def test_a_link_to_a_file_is_named_and_one_to_a_folder_is_not_followed(world: World) -> None:
    world.write("real/a.txt", "")
    (world.root / "b.txt").symlink_to("real/a.txt")
    (world.root / "loop").symlink_to(".")
    assert set((await world.call(GLOB, pattern="*.txt")).text.split("\n")) == {"real/a.txt", "b.txt"}


# --- Grep -------------------------------------------------------------------------------------------


async def test_grep_shows_path_line_and_text(world: World, engine: str) -> None:
    tree(world)
    result = await world.call(GREP, pattern="price")
    assert result.text.split("\n") == [
        ".github/ci.yml:1:price: 1",
        "keep.log:1:price kept",
        "src/a.py:3:def price(x):",
        "src/b.ts:1:const price = 1;",
    ]
    assert result.brief == "4 lines in 4 files"


async def test_the_title_says_what_and_where(world: World) -> None:
    tree(world)
    prepared = await world.prepare(GREP, pattern="def ", path="src")
    assert isinstance(prepared, Prepared)
    assert prepared.title == "Grep def  in src"


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"pattern": "price", "path": "src"}, ["src/a.py:3:def price(x):", "src/b.ts:1:const price = 1;"]),
        ({"pattern": "price", "path": "src/a.py"}, ["src/a.py:3:def price(x):"]),
        ({"pattern": "price", "path": "noise.log"}, ["noise.log:1:price"]),
        ({"pattern": "price", "path": "build"}, ["build/out.py:1:price = 2"]),
        ({"pattern": "price", "glob": "*.py"}, ["src/a.py:3:def price(x):"]),
        ({"pattern": "price", "glob": "*.{ts,tsx}"}, ["src/b.ts:1:const price = 1;"]),
        ({"pattern": "price", "glob": "src/*.py"}, ["src/a.py:3:def price(x):"]),
        ({"pattern": "price", "path": "src", "glob": "*.ts"}, ["src/b.ts:1:const price = 1;"]),
        ({"pattern": "price", "output_mode": "files_with_matches", "path": "src"}, ["src/a.py", "src/b.ts"]),
        ({"pattern": "x", "output_mode": "count", "path": "src"}, ["src/a.py:2"]),
        (
            {"pattern": "def", "context": 1, "path": "src"},
            ["src/a.py-2-", "src/a.py:3:def price(x):", "src/a.py-4-    return x * 1.08"],
        ),
        ({"pattern": "PRICE"}, ["No match for `PRICE` in `.`.", IGNORED]),
        ({"pattern": "(?i)DEF"}, ["src/a.py:3:def price(x):"]),
        ({"pattern": "^import os$"}, ["src/a.py:1:import os"]),
        ({"pattern": r"x\)"}, ["src/a.py:3:def price(x):"]),
        ({"pattern": r"price(?=\()"}, ["src/a.py:3:def price(x):"]),
        ({"pattern": "--price"}, ["No match for `--price` in `.`.", IGNORED]),
    ],
)
async def test_what_grep_finds(
    world: World, engine: str, arguments: dict[str, object], lines: list[str]
) -> None:
    tree(world)
    assert (await world.call(GREP, **arguments)).text.split("\n") == lines


async def test_matches_apart_are_set_apart_and_lines_between_near_ones_come_once(
    world: World, engine: str
) -> None:
    world.write("a", "".join(f"{'hit' if n in (2, 4, 9) else 'line'} {n}\n" for n in range(1, 12)))
    result = await world.call(GREP, pattern="hit", context=1)
    assert result.text.split("\n") == [
        "a-1-line 1",
        "a:2:hit 2",
        "a-3-line 3",
        "a:4:hit 4",
        "a-5-line 5",
        "--",
        "a-8-line 8",
        "a:9:hit 9",
        "a-10-line 10",
    ]


@pytest.mark.parametrize(
    ("data", "pattern", "line"),
    [
        ("日本語の設定\n".encode(), "本語", "a.txt:1:日本語の設定"),
        ("日本語の設定\n".encode("cp932"), "本語", "a.txt:1:日本語の設定"),
        ("日本語の設定\n".encode("euc_jp"), "本語", "a.txt:1:日本語の設定"),
        ("日本語の設定 KEY\n".encode("cp932"), "KEY", "a.txt:1:日本語の設定 KEY"),
        (b"\xff\xfe" + "日本語 KEY\r\n".encode("utf-16-le"), "KEY", "a.txt:1:日本語 KEY"),
        (b"\xef\xbb\xbfKEY\n", "^KEY", "a.txt:1:KEY"),
        (b"one\r\nKEY\r\n", "KEY$", "a.txt:2:KEY"),
        ("日本".encode() + b" \xff KEY\n", "KEY", "a.txt:1:日本 \ufffd KEY"),
        ("日本語の設定\n".encode("iso2022_jp"), "本語", "a.txt:1:日本語の設定"),
        ("日本語の設定\n".encode("utf-16"), "本語", "a.txt:1:日本語の設定"),
        ("key = 日本語の設定\n".encode("utf-16-be"), "本語", "a.txt:1:key = 日本語の設定"),
        ("key = 日本語の設定\n".encode("utf-32"), "本語", "a.txt:1:key = 日本語の設定"),
        ("日本語の設定\n".encode("cp932"), "^.{6}$", "a.txt:1:日本語の設定"),
        ("以上です。上書き\n".encode("utf-16"), "上$|上書", "a.txt:1:以上です。上書き"),
        ("na\u00efve caf\u00e9\n".encode("cp1252"), "café", "a.txt:1:naïve café"),
        (b"one\rKEY\rthree\r", "^KEY$", "a.txt:2:KEY"),
        ("x\u2028KEY\x0bKEY\x85\n".encode(), "KEY", "a.txt:1:x\u2028KEY\x0bKEY\x85"),
        (b"# plain\n" * 200_000 + "設定 KEY\n".encode("cp932"), "設定", "a.txt:200001:設定 KEY"),
        (b"# plain\n" * 200_000 + "設定 KEY\n".encode("euc_jp"), "KEY", "a.txt:200001:設定 KEY"),
        (b"# plain\n" * 200_000 + b"\0 KEY\n", "KEY", "No match for `KEY` in `.`."),
    ],
)
async def test_text_is_found_in_any_encoding(
    world: World, engine: str, data: bytes, pattern: str, line: str
) -> None:
    world.write("a.txt", data)
    assert (await world.call(GREP, pattern=pattern)).text == line


async def test_binary_files_are_left_out(world: World, engine: str) -> None:
    world.write("a.bin", b"\0\1KEY\n")
    world.write("b.txt", "KEY\n")
    assert (await world.call(GREP, pattern="KEY")).text == "b.txt:1:KEY"


async def test_a_named_file_that_cannot_be_searched_is_told_why(world: World) -> None:
    world.write("a.bin", b"\x89PNG\0KEY\n")
    os.mkfifo(world.root / "pipe")
    assert (await world.call(GREP, pattern="KEY", path="a.bin")).text == (
        "No match for `KEY` in `a.bin`.\n[Not searched because it is binary: a.bin.]"
    )
    result = await world.call(GREP, pattern="KEY", path="pipe")
    assert result.is_error and "is a pipe" in result.text


@pytest.mark.fault("C: ignore rules differ per tool", neighbour=True)
async def test_secrets_are_never_shown_and_the_result_says_that_some_were_left_out(
    world: World, engine: str
) -> None:
    world.write(".env", "KEY=sk-1\n")
    world.write("deep/id_rsa", "KEY\n")
    world.write("a.txt", "KEY\n")
    result = await world.call(GREP, pattern="KEY")
    assert result.text == (
        "a.txt:1:KEY\n[2 files that have the name of a secret were left out. If you need a value from there,"
        " ask the person.]"
    )
    assert (await world.call(GREP, pattern="KEY", path=".env")).is_error
    listed = await world.call(GLOB, pattern="*")
    assert ".env" not in listed.text and "id_rsa" not in listed.text and "2 files" in listed.text


async def test_links_are_not_searched(world: World, engine: str) -> None:
    (world.root.parent / "outside").write_text("KEY\n")
    (world.root / "link").symlink_to(world.root.parent / "outside")
    (world.root / "up").symlink_to("..")
    os.mkfifo(world.root / "pipe")
    assert (await world.call(GREP, pattern="KEY")).text == "No match for `KEY` in `.`."


async def test_a_long_line_is_shown_in_part(world: World, engine: str) -> None:
    world.write("a.json", '{"k": "' + "x" * 100 + "NEEDLE" + "y" * 5_000_000 + '"}')
    result = await world.call(GREP, pattern="NEEDLE")
    assert "NEEDLE" in result.text and len(result.text) < 700


async def test_the_own_search_shows_the_part_around_the_match(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    world.write("a.json", "x" * 9000 + "NEEDLE" + "y" * 9000)
    text = (await world.call(GREP, pattern="NEEDLE")).text
    assert "NEEDLE" in text and text.startswith("a.json:1:…") and text.endswith("…") and len(text) < 500


async def test_too_many_lines_stop_at_the_limit_and_say_so(world: World, engine: str) -> None:
    world.write("a", "KEY\n" * 1000)
    result = await world.call(GREP, pattern="KEY")
    lines = result.text.split("\n")
    assert len(lines) == 251 and lines[-1].startswith("[Stopped at 250 lines: there is more.")
    assert result.truncated
    few = await world.call(GREP, pattern="KEY", head_limit=3)
    assert few.text.split("\n")[:3] == ["a:1:KEY", "a:2:KEY", "a:3:KEY"] and "Stopped at 3 lines" in few.text


async def test_exactly_as_many_lines_as_the_limit_are_all(world: World, engine: str) -> None:
    world.write("a", "KEY\n" * 5)
    result = await world.call(GREP, pattern="KEY", head_limit=5)
    assert len(result.text.split("\n")) == 5 and not result.truncated


async def test_a_result_fits_the_budget(world: World, engine: str) -> None:
    world.write("a", "KEY 日本語日本語日本語日本語\n" * 1000)
    world.budget = 600
    result = await world.call(GREP, pattern="KEY")
    assert estimate_tokens(result.text) <= 600 and "does not fit" in result.text


@pytest.mark.parametrize("pattern", ["(", "[a", "*x", "a{2,1}", "日("])
async def test_a_faulty_pattern_is_explained(world: World, engine: str, pattern: str) -> None:
    world.write("a", "x\n")
    result = await world.call(GREP, pattern=pattern)
    assert result.is_error and "no valid regular expression" in result.text and "backslash" in result.text


@pytest.mark.parametrize(
    ("pattern", "text", "hit"),
    [
        (r"\${name}", "a ${name} b", True),
        (r"\${i}", "anything", False),
        ("struct{", "struct{", True),
        ("foo{e}", "fox", False),
        ("a{2}", "aa", True),
        ("a{,2}b", "aab", True),
        (r"\p{Han}+", "日本", True),
        (r"[[:alpha:]]_", "x_", True),
        (r"\d", "３", True),
        (r"(?<=a)b", "ab", True),
        (r"(\w+) \1", "the the", True),
        (r"(?P<q>['\"]).*(?P=q)", "'x'", True),
        (r"a++b", "aab", True),
        (r"(?i)kelvin", "\u212aELVIN", True),
        (r"(?i)straße", "STRAßE", True),
        (r"\<div\>", "<div>", True),
        (r"foo\/bar", "foo/bar", True),
        ("-e", "x -e", True),
        ("--files", "--files", True),
        ("-", "a-b", True),
        (r"\x41", "A", True),
        (r"\u65e5", "日", True),
        (r"\bが", "が", True),
        ("😀", "😀", True),
        (r"^.$", "が", True),
        ("\ud800", "x", False),
        (r"\(?R\)?", "R", True),
        (r"x{0}", "y", True),
    ],
)
async def test_one_dialect_of_patterns(world: World, engine: str, pattern: str, text: str, hit: bool) -> None:
    world.write("a", text + "\n")
    assert (await world.call(GREP, pattern=pattern)).text.startswith("a:1:" if hit else "No match")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"foo\nbar", "line by line"),
        ("foo\nbar", "line by line"),
        (r"foo\r\n", "line by line"),
        ("(?R)", "cannot call itself"),
        ("(a)(?1)", "cannot call itself"),
        ("(" * 900, "no valid regular expression"),
        ("(" * 490 + ")" * 490, "nested too deeply"),
        ("x" * 1001, "more than 1000 characters"),
        (r"\L<words>", "no valid regular expression"),
        ("a{99999999999999999999}", "no valid regular expression"),
    ],
)
async def test_a_pattern_that_is_not_for_us_is_told_why(
    world: World, engine: str, pattern: str, said: str
) -> None:
    world.write("a", "x\n")
    result = await world.call(GREP, pattern=pattern)
    assert result.is_error and said in result.text and len(result.text) < 600


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"foo\|bar", "alternatives are written a|b"),
        (r"f\(o\)o", "groups are written ( )"),
        (r"foo[\s\S]*bar", "line by line"),
        (r"(?s)foo.*bar", "line by line"),
    ],
)
async def test_a_pattern_that_finds_nothing_is_told_what_is_often_meant(
    world: World, engine: str, pattern: str, said: str
) -> None:
    world.write("a", "foo\nbar\n")
    result = await world.call(GREP, pattern=pattern)
    assert result.text.startswith("No match") and said in result.text


@pytest.mark.parametrize(
    ("arguments", "said"), [({"pattern": ""}, "empty"), ({"pattern": "a", "path": "none"}, "does not exist")]
)
async def test_what_cannot_be_searched_is_said(world: World, arguments: dict[str, str], said: str) -> None:
    result = await world.prepare(GREP, **arguments)
    assert isinstance(result, ToolResult) and result.is_error and said in result.text


async def test_unsaved_buffers_are_named_because_the_disk_was_searched(world: World, engine: str) -> None:
    world.write("a.py", "KEY\n")
    world.open("a.py", "other\n")
    assert "a.py" in (await world.call(GREP, pattern="KEY")).text.split("[Not saved in the editor")[1]


async def test_a_search_in_the_tasks_folder_finds_what_is_there(world: World, engine: str) -> None:
    world.write(".maestro/tasks/.gitignore", "*\n")
    (world.task / "output" / "r.md").write_text("KEY\n")
    where = ".maestro/tasks/task-1/output"
    assert (await world.call(GREP, pattern="KEY", path=where)).text == f"{where}/r.md:1:KEY"
    assert "No match" in (await world.call(GREP, pattern="KEY")).text


async def test_names_with_odd_signs_come_through(world: World, engine: str) -> None:
    world.write("a\nb: c.txt", "KEY\n")
    world.write("-rf.txt", "KEY\n")
    assert set((await world.call(GREP, pattern="KEY")).text.split("\n")) == {
        "a\\nb: c.txt:1:KEY",
        "-rf.txt:1:KEY",
    }


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("会議　資料.txt", "会議　資料.txt"),
        ("👨‍👩‍👧.txt", "👨‍👩‍👧.txt"),
        ("か\u3099.txt", "か\u3099.txt"),
        ("a b.txt", "a b.txt"),
        ("a\tb\r.txt", "a\\tb\\r.txt"),
        ("evil\u202etxt.exe", "evil\\u202etxt.exe"),
        (os.fsdecode(b"caf\xe9.txt"), "caf\\xe9.txt"),
    ],
)
async def test_names_are_shown_so_that_they_can_be_used(
    world: World, engine: str, name: str, shown: str
) -> None:
    world.write(name, "KEY\n")
    assert (await world.call(GREP, pattern="KEY")).text == f"{shown}:1:KEY"
    assert (await world.call(GLOB, pattern="*")).text == shown


@pytest.mark.parametrize("pattern", ["が*.txt", "か\u3099*", "*が?txt", "ぱ/が.*"])
async def test_composed_and_decomposed_names_are_found_alike(world: World, pattern: str) -> None:
    world.write("ぱ/が.txt", "")
    world.write("ぱ/か\u3099.txt", "")
    assert set((await world.call(GLOB, pattern=pattern)).text.split("\n")) == {"ぱ/が.txt", "ぱ/か\u3099.txt"}


async def test_a_long_line_is_cut_between_graphemes(world: World, engine: str) -> None:
    family = "👨‍👩‍👧"
    world.write("a", family * 300 + "KEY" + "か\u3099" * 300 + "\n")
    shown = (await world.call(GREP, pattern="KEY")).text.removeprefix("a:1:…").removesuffix("…")
    before, _, after = shown.partition("KEY")
    assert before and before == family * (len(before) // len(family))
    assert after and after == "か\u3099" * (len(after) // 2)


async def test_the_first_line_is_shown_however_small_the_budget(world: World, engine: str) -> None:
    world.write("長い名前" * 20 + "/" + "長い名前" * 20, "KEY\nKEY\n")
    world.budget = 100
    result = await world.call(GREP, pattern="KEY")
    assert ":1:KEY\n[The rest does not fit" in result.text and result.truncated


async def test_an_empty_file_has_no_line(world: World, engine: str) -> None:
    world.write("a", "")
    world.write("b", "\n")
    assert (await world.call(GREP, pattern="^$")).text == "b:1:"


async def test_what_git_ignores_is_named_when_nothing_is_found_but_no_secret(
    world: World, engine: str
) -> None:
    world.write(".gitignore", ".env\nbuild/\n")
    world.write(".env", "KEY\n")
    world.write("build/a", "KEY\n")
    assert (await world.call(GREP, pattern="KEY")).text == (
        "No match for `KEY` in `.`.\n"
        "[Left out because git ignores it: build/. Name one as path to search it.]"
    )
    assert (await world.call(GLOB, pattern="a")).text.endswith("build/. Name one as path to search it.]")
    assert (await world.call(GREP, pattern="KEY", path="build")).text == "build/a:1:KEY"


@pytest.mark.fault("C: ignore rules differ per tool")
@pytest.mark.parametrize("ignored", [True, False], ids=["ignored", "not ignored"])
async def test_what_git_ignores_is_only_not_searched_and_a_secret_is_closed_to_every_tool(
    world: World, engine: str, ignored: bool
) -> None:
    world.write(".gitignore", ".env\nout/\n*.gen\n" if ignored else "out/\n*.gen\n")
    world.write("lib/.gitignore", "!keep.gen\n")
    for name in (".env", "out/opened.py", "lib/keep.gen", "lib/drop.gen"):
        world.write(name, "KEY = 1\n")
    tools = {spec.name: spec for spec in builtin_tools((), ShellRegistry())}
    # The search default: what git ignores, with what is taken back; a path that is named is searched.
    assert (await world.call(GREP, pattern="KEY", output_mode="files_with_matches")).text.split("\n")[
        0
    ] == "lib/keep.gen"
    assert ".env" not in (await world.call(GLOB, pattern="*")).text
    assert (await world.call(GREP, pattern="KEY", path="out")).text == "out/opened.py:1:KEY = 1"
    assert (await world.call(GLOB, pattern="out/*")).text == "out/opened.py"
    for name in ("out/opened.py", "lib/drop.gen"):
        assert "KEY" in (await world.call(tools["Read"], file_path=name)).text
        edited = await world.prepare(tools["Edit"], file_path=name, old_string="KEY", new_string="NEW")
        assert isinstance(edited, Prepared)
    # The deny list: the same refusal everywhere, with the rule and the way round.
    refused = [
        await world.prepare(tools["Read"], file_path=".env"),
        await world.prepare(tools["Edit"], file_path=".env", old_string="KEY", new_string="NEW"),
        await world.prepare(tools["Write"], file_path=".env", content=""),
        await world.prepare(GREP, pattern="KEY", path=".env"),
    ]
    for result in refused:
        assert isinstance(result, ToolResult) and result.is_error
        assert "name of a file that holds secrets" in result.text and "ask the person" in result.text
    may = Permissions(allowed_tools=("Bash",), edit=True)
    asked = decide(
        Question("Bash", Effect.EXECUTE, command="cat .env"), Stance(may, Mode.ALL, Level.A, trusted=True)
    )
    assert asked.decision is Choice.ASK


async def test_a_program_named_rg_in_the_workspace_is_not_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = world.write("bin/rg", f"#!/bin/sh\ntouch {world.root.parent}/hijacked\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{world.root / 'bin'}:bin:/nowhere")
    monkeypatch.chdir(world.root)
    world.write("a", "KEY\n")
    assert (await world.call(GREP, pattern="KEY")).text == "a:1:KEY"
    assert not (world.root.parent / "hijacked").exists()


async def test_settings_of_ripgrep_and_of_git_do_not_change_what_is_found(
    world: World, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("a", "KEY\n")
    world.write(".ignore", "a\n")
    (world.root.parent / ".gitignore").write_text("a\n")
    config = world.root.parent / "rc"
    config.write_text("--glob=!a\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    assert (await world.call(GREP, pattern="KEY")).text == "a:1:KEY"


# --- time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", [r"^(?:(?:a|aa)+)+\d$", r"^(\w+\s?)*$", r"(?=(a+)+b)x?"])
async def test_a_pattern_that_explodes_is_stopped_and_the_loop_stays_free(world: World, pattern: str) -> None:
    world.write("a", ("a" * 5000 + "?\n") * 3)
    world.timeout_s = 6.0
    started = time.monotonic()
    result, count = await ticks_during(world.call(GREP, pattern=pattern))
    assert time.monotonic() - started < 20
    assert result.is_error or result.text.startswith("No match")
    if result.is_error:
        assert "takes too long on `a`" in result.text and "nested repetitions" in result.text and count > 50


async def test_a_pattern_that_eats_memory_on_a_huge_line_is_stopped(world: World) -> None:
    world.write("a", b"a" * 20_000_000 + b"!\n")
    result = await world.call(GREP, pattern="(?:a|aa)+$")
    assert result.is_error and "takes too long on `a`" in result.text


async def test_many_slow_lines_end_at_the_deadline(world: World) -> None:
    world.write("a", ("a" * 24 + "!\n") * 5000)
    world.timeout_s = 0.3
    started = time.monotonic()
    result, _ = await ticks_during(world.call(GREP, pattern=r"^(?:(?:a|aa)+)+\d$"))
    assert time.monotonic() - started < 15
    assert "[Stopped after 0.3 s" in result.text or "takes too long" in result.text


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("huge") / "w"
    for folder in range(100):
        (root / f"d{folder:03}").mkdir(parents=True)
        for number in range(100):
            (root / f"d{folder:03}" / f"f{number:02}.txt").touch()
    (root / "d050" / "x-needle").write_text("NEEDLE\n")
    (root / "d051" / "up").symlink_to("..")
    (root / "d052" / "round").symlink_to(".")
    return root


@pytest.mark.fault("C: huge trees")
async def test_one_file_in_ten_thousand_is_found_in_time(huge: Path) -> None:
    started = time.monotonic()
    assert (await World(huge).call(GLOB, pattern="**/x*")).text == "d050/x-needle"
    assert time.monotonic() - started < 5


@pytest.mark.fault("C: huge trees")
async def test_a_search_ends_at_its_deadline_with_what_it_has(
    huge: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    world = World(huge, timeout_s=0.02)
    for spec, arguments in ((GLOB, {"pattern": "*.txt"}), (GREP, {"pattern": "NEEDLE"})):
        started = time.monotonic()
        result = await world.call(spec, **arguments)
        assert time.monotonic() - started < 5
        assert "[Stopped after 0.02 s" in result.text and result.truncated


async def ticks_during(work: Awaitable[T]) -> tuple[T, int]:
    """The result, and how often the event loop came round meanwhile."""
    task = asyncio.ensure_future(work)
    count = 0
    while not task.done():
        await asyncio.sleep(0.001)
        count += 1
    return await task, count


@pytest.mark.fault("C: huge trees")
@pytest.mark.parametrize("spec", SEARCH_TOOLS, ids=lambda spec: spec.name)
async def test_the_event_loop_goes_on_during_a_search(huge: Path, engine: str, spec: ToolSpec) -> None:
    searching = World(huge).call(spec, pattern="*nothing*" if spec is GLOB else "nothing")
    result, count = await ticks_during(searching)
    assert result.text.startswith("No ") and count >= 5


@pytest.mark.fault("C: huge trees")
@pytest.mark.parametrize("spec", SEARCH_TOOLS, ids=lambda spec: spec.name)
async def test_cancel_ends_a_search_at_once_and_its_thread_soon(
    huge: Path, engine: str, spec: ToolSpec
) -> None:
    world = World(huge)
    before = asyncio.all_tasks()
    task = asyncio.create_task(world.call(spec, pattern="*nothing*" if spec is GLOB else "nothing"))
    await until(lambda: task.done() or busy())
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 2
    assert asyncio.all_tasks() == before
    await until(lambda: not busy())


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "forest"
    for folder in range(100):
        (root / f"d{folder:02}").mkdir(parents=True)
        for number in range(1000):
            os.mknod(root / f"d{folder:02}" / f"f{number:03}.txt")
    os.mknod(root / "d50" / "x-needle")
    (root / "d51" / "b").symlink_to("..")
    yield root
    shutil.rmtree(root)


@pytest.mark.slow
@pytest.mark.fault("C: huge trees")
async def test_of_a_hundred_thousand_files_one_is_found_and_a_cancel_is_felt_at_once(forest: Path) -> None:
    world = World(forest)
    result, count = await ticks_during(world.call(GLOB, pattern="**/x*"))
    assert result.text == "d50/x-needle" and count > 20
    late = []
    for _ in range(3):
        task = asyncio.create_task(world.call(GLOB, pattern="**/nothing*"))
        await until(busy)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not busy())
        late.append(time.monotonic() - started)
    assert min(late) < 0.2, late


async def until(true: Callable[[], bool]) -> None:
    """Wait until it is so; fails after five seconds."""
    for _ in range(5000):
        if true():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came to that")


def busy() -> bool:
    """Whether a thread of this process is at work in our search."""
    own = str(Path(patterns.__file__).parent)
    frames = [frame for thread, frame in sys._current_frames().items() if thread != threading.get_ident()]
    return any(own in line.filename for frame in frames for line in traceback.extract_stack(frame))


async def test_cancel_ends_ripgrep_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = world.root.parent / "tools"
    tools.mkdir()
    (tools / "rg").write_text(
        f"#!/bin/sh\necho $$ > {tools}/pid.new; mv {tools}/pid.new {tools}/pid; exec sleep 600\n"
    )
    (tools / "rg").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    world.write("a", "KEY\n")
    task = asyncio.create_task(world.call(GREP, pattern="KEY"))
    await until((tools / "pid").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(int((tools / "pid").read_text()), 0)


@pytest.mark.fault("C: huge trees", neighbour=True)
async def test_a_loop_of_links_is_walked_once(world: World, engine: str) -> None:
    world.write("a/f.txt", "KEY\n")
    (world.root / "a" / "b").symlink_to("..")
    (world.root / "a" / "c").symlink_to(world.root)
    (world.root / "self").symlink_to("self")
    assert (await world.call(GREP, pattern="KEY")).text == "a/f.txt:1:KEY"
    assert (await world.call(GLOB, pattern="**/f*")).text == "a/f.txt"
    assert (await world.call(GLOB, pattern="s*")).text == "self"
    # Who names a link to a folder means the folder.
    assert (await world.call(GREP, pattern="KEY", path="a/b")).text == "a/f.txt:1:KEY"


@pytest.mark.fault("C: huge trees")
@pytest.mark.parametrize("spec", SEARCH_TOOLS, ids=lambda spec: spec.name)
async def test_the_root_of_the_disk_is_not_searched(world: World, spec: ToolSpec) -> None:
    result = await world.prepare(spec, pattern="x", path="/")
    assert isinstance(result, ToolResult) and result.is_error and "outside the workspace" in result.text


@pytest.mark.fault("C: huge trees", neighbour=True)
async def test_a_folder_that_git_ignores_is_not_even_opened(world: World, engine: str) -> None:
    world.write(".gitignore", "node_modules\n")
    world.write("node_modules/deep/a.js", "KEY\n")
    world.write("src/a.js", "KEY\n")
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "os.scandir" else None)
    assert (await world.call(GREP, pattern="KEY")).text == "src/a.js:1:KEY"
    opened_here = [path for path in opened if path.startswith(str(world.root))]
    assert opened_here and not any("node_modules" in path for path in opened_here)


@pytest.mark.fault("C: huge trees", neighbour=True)
async def test_a_file_of_gigabytes_is_not_read_and_named(world: World, engine: str) -> None:
    world.write("a.txt", "KEY\n")
    with world.write("b.bin", "").open("r+b") as file:
        file.truncate(4 << 30)
    assert (await world.call(GREP, pattern="KEY")).text == (
        "a.txt:1:KEY\n[Not searched because it has more than 64 MiB: b.bin.]"
    )


def test_what_could_not_be_read_is_named() -> None:
    query = Query(Path("/w"), "", False, "x", None, "content", 0, 10, None)
    report = Report(query, 1000)
    for name in ("a", "b\n", "c", "d", "e"):
        report.unread.add(name)
    report.left_out.closed.add("locked")
    assert unseen(report) == [
        "Not looked into because it could not be opened: locked.",
        "Not searched because it could not be read: a, b\\n, c and 2 more.",
    ]


def test_arguments_are_those_of_the_interface() -> None:
    assert [spec.name for spec in SEARCH_TOOLS] == ["Glob", "Grep"]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"pattern": "x", "output_mode": "json"}, GREP.arguments)
