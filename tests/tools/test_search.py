"""Glob and Grep: what git does not ignore, found the same way with ripgrep and without, in bounded time and
space.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.tooling import Prepared, ToolResult
from engine.core.truncate import estimate_tokens
from engine.tools.search import GLOB, GREP, SEARCH_TOOLS
from tests.tools.world import World


@pytest.fixture(params=[pytest.param("rg", marks=pytest.mark.needs("rg")), "own"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "own":
        monkeypatch.setenv("PATH", "/nowhere")
    return str(request.param)


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
        ({"pattern": "PRICE"}, ["No match for `PRICE` in `.`."]),
        ({"pattern": "(?i)DEF"}, ["src/a.py:3:def price(x):"]),
        ({"pattern": "^import os$"}, ["src/a.py:1:import os"]),
        ({"pattern": r"x\)"}, ["src/a.py:3:def price(x):"]),
        ({"pattern": r"price(?=\()"}, ["src/a.py:3:def price(x):"]),
        ({"pattern": "--price"}, ["No match for `--price` in `.`."]),
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


async def test_secrets_are_never_shown_and_the_result_says_that_some_were_left_out(
    world: World, engine: str
) -> None:
    world.write(".env", "KEY=sk-1\n")
    world.write("deep/id_rsa", "KEY\n")
    world.write("a.txt", "KEY\n")
    result = await world.call(GREP, pattern="KEY")
    assert result.text == "a.txt:1:KEY\n[2 files that have the name of a secret were left out.]"
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


PATHS = st.lists(st.sampled_from(["a", "b.py", "c.log", "build", "日本.txt"]), min_size=1, max_size=3).map(
    "/".join
)
RULES = st.lists(
    st.sampled_from(["*.log", "build", "!c.log", "/a", "a/*", "!a/b.py", "日*"]), max_size=3
).map("\n".join)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.lists(PATHS, min_size=1, max_size=8), top=RULES, nested=RULES, context=st.integers(0, 2))
@pytest.mark.needs("rg")
async def test_ripgrep_and_our_own_search_find_the_same(
    tmp_path_factory: pytest.TempPathFactory, files: list[str], top: str, nested: str, context: int
) -> None:
    root = (tmp_path_factory.mktemp("same") / "w").resolve()
    root.mkdir()
    world = World(root)
    for name in files:
        path = root / name
        if not path.is_dir() and not any(parent.is_file() for parent in path.parents):
            world.write(name, f"one\n{name} KEY\r\nthree\nKEY\n")
    world.write(".gitignore", top)
    if (root / "a").is_dir():
        world.write("a/.gitignore", nested)
    found = []
    for search in (os.environ["PATH"], "/nowhere"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", search)
            for mode in ("content", "files_with_matches", "count"):
                found.append((await world.call(GREP, pattern="KEY", context=context, output_mode=mode)).text)
    assert found[:3] == found[3:]


# --- time -------------------------------------------------------------------------------------------


async def test_a_pattern_that_explodes_is_stopped_and_the_loop_stays_free(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    world.write("a", "a" * 5000 + "!\n")
    task = asyncio.create_task(world.call(GREP, pattern=r"^(?:(?:a|aa)+)+\d$"))
    started = last = time.monotonic()
    longest = 0.0
    while not task.done():
        await asyncio.sleep(0.001)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    result = await task
    assert time.monotonic() - started < 8
    assert result.is_error and "takes too long" in result.text
    assert longest < 0.5


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("huge") / "w"
    for folder in range(200):
        (root / f"d{folder:03}").mkdir(parents=True)
        for number in range(100):
            (root / f"d{folder:03}" / f"f{number:02}.txt").touch()
    (root / "d150" / "x-needle").write_text("NEEDLE\n")
    return root


async def test_one_file_in_twenty_thousand_is_found_in_time(huge: Path) -> None:
    started = time.monotonic()
    assert (await World(huge).call(GLOB, pattern="**/x*")).text == "d150/x-needle"
    assert time.monotonic() - started < 5


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


@pytest.mark.parametrize("spec", SEARCH_TOOLS, ids=lambda spec: spec.name)
async def test_cancel_ends_a_search_at_once_and_the_loop_stays_free(
    huge: Path, engine: str, spec: object
) -> None:
    world = World(huge)
    task = asyncio.create_task(world.call(spec, pattern="*nothing*" if spec is GLOB else "nothing"))  # type: ignore[arg-type]
    await asyncio.sleep(0.02)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 2


def test_arguments_are_those_of_the_interface() -> None:
    assert [spec.name for spec in SEARCH_TOOLS] == ["Glob", "Grep"]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"pattern": "x", "output_mode": "json"}, GREP.arguments)
