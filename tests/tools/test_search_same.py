"""With ripgrep and without, the same answer to the letter; and no answer that asks for the same again."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.tooling import ToolResult
from engine.tools.search import GLOB, GREP
from engine.tools.search_notes import MOST_LINES
from tests.tools.trees import ARGUMENTS, TREES, write_tree
from tests.tools.world import World

ONE_AFTER_THE_OTHER = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.fixture(scope="module", autouse=True)
def no_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        patch.delenv("GIT_CONFIG_GLOBAL", raising=False)


async def answer(world: World, search: str, arguments: dict[str, object]) -> ToolResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", search)
        return await world.call(
            GREP, **{name: value for name, value in arguments.items() if value is not None}
        )


@pytest.mark.fault("C: ignore rules differ per tool", neighbour=True)
@pytest.mark.needs("rg")
@settings(max_examples=40, deadline=None, suppress_health_check=ONE_AFTER_THE_OTHER)
@given(
    tree=TREES, questions=st.lists(ARGUMENTS, min_size=1, max_size=3), budget=st.sampled_from([10_000, 600])
)
async def test_ripgrep_and_our_own_search_answer_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    tree: tuple[dict[str, bytes], dict[str, str]],
    questions: list[dict[str, object]],
    budget: int,
) -> None:
    world = World((tmp_path_factory.mktemp("same") / "w").resolve(), budget=budget)
    write_tree(world.root, tree)
    for arguments in questions:
        with_rg = await answer(world, os.environ["PATH"], arguments)
        assert with_rg == await answer(world, "/nowhere", arguments)
        for line in with_rg.text.splitlines():
            assert line.split(":", 1)[0].rpartition("/")[2] not in (".env", "id_rsa")
            assert not re.search(r"[\ud800-\udfff]", line)


@pytest.mark.parametrize("mode", ["content", "files_with_matches", "count"])
@pytest.mark.needs("rg")
async def test_the_same_over_many_files(world: World, mode: str) -> None:
    for number in range(700):
        world.write(
            f"d{number % 7}/f{number:03}.txt", "日本語 KEY\n".encode("cp932") if number % 90 == 5 else "no\n"
        )
    found = [
        await answer(world, search, {"pattern": "KEY", "output_mode": mode})
        for search in (os.environ["PATH"], "")
    ]
    assert found[0] == found[1] and found[0].text.count("\n") == 7
    assert found[0].text.split(":")[0].split("\n")[0] == "d0/f455.txt"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("exit 2", id="fails"),
        pytest.param("printf './a.txt\\0'; exit 2", id="fails after some"),
        pytest.param("printf './other\\0junk'; kill -9 $$", id="is killed"),
        pytest.param("exec /nowhere/rg", id="cannot start"),
    ],
)
async def test_where_ripgrep_fails_we_look_ourselves(world: World, script: str) -> None:
    tools = world.root.parent / "tools"
    tools.mkdir()
    (tools / "rg").write_text(f"#!/bin/sh\n{script}\n")
    (tools / "rg").chmod(stat.S_IRWXU)
    world.write("a.txt", "KEY\n")
    world.write("b.txt", "KEY\n")
    assert (await answer(world, str(tools), {"pattern": "KEY"})).text == "a.txt:1:KEY\nb.txt:1:KEY"


async def test_a_ripgrep_that_hangs_is_ended_with_all_it_started_and_the_answer_says_so(world: World) -> None:
    tools = world.root.parent / "tools"
    tools.mkdir()
    (tools / "rg").write_text(f"#!/bin/sh\n/bin/sleep 600 & echo $! > {tools}/child; wait\n")
    (tools / "rg").chmod(stat.S_IRWXU)
    world.write("a.txt", "KEY\n")
    world.timeout_s = 0.5
    result = await answer(world, str(tools), {"pattern": "KEY"})
    assert "[Stopped after 0.5 s" in result.text and result.truncated
    await _is_gone(int((tools / "child").read_text()))


async def _is_gone(pid: int) -> None:
    for _ in range(500):
        state = Path(f"/proc/{pid}/stat")
        try:
            os.kill(pid, 0)
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (ProcessLookupError, FileNotFoundError):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{pid} still runs")


# --- hints ------------------------------------------------------------------------------------------


def follow(arguments: dict[str, object], text: str) -> dict[str, object] | None:
    """What a model makes of the notes of a result: the same search with what a note names, None if none
    names anything.
    """
    note = "\n".join(line for line in text.split("\n") if line.startswith("["))
    if larger := re.search(r"head_limit (\d+)", note):
        return {**arguments, "head_limit": int(larger[1])}
    if "output_mode count" in note:
        return {**arguments, "output_mode": "count"}
    if "narrower path" in note:
        return {**arguments, "path": "d1"} if "path" not in arguments else {**arguments, "path": "d1/f1.txt"}
    if "narrower pattern" in note:
        return {**arguments, "pattern": f"{arguments['pattern']} 1"}
    return None


@pytest.mark.fault("I3")
@pytest.mark.parametrize("mode", ["content", "files_with_matches", "count"])
@settings(max_examples=8, deadline=None, suppress_health_check=ONE_AFTER_THE_OTHER)
@given(
    files=st.integers(1, 60),
    lines=st.integers(1, 400),
    budget=st.sampled_from([1000, 3000]),
    limit=st.sampled_from([None, 1, 40, MOST_LINES]),
)
async def test_whoever_follows_the_hints_gets_another_answer_each_time_and_comes_to_an_end(
    tmp_path_factory: pytest.TempPathFactory,
    mode: str,
    files: int,
    lines: int,
    budget: int,
    limit: int | None,
) -> None:
    world = World((tmp_path_factory.mktemp("hints") / "w").resolve(), budget=budget)
    for number in range(files):
        world.write(f"d{number % 2}/f{number}.txt", "".join(f"KEY {at}\n" for at in range(lines)))
    asked: dict[str, object] | None = {"pattern": "KEY", "output_mode": mode}
    if limit is not None:
        asked = {**asked, "head_limit": limit}
    seen: set[str] = set()
    while asked is not None:
        assert len(seen) < 15
        result = await world.call(GREP, **asked)
        assert result.text not in seen
        seen.add(result.text)
        following = follow(asked, result.text)
        assert (following is None) == (not result.truncated)
        asked = following


async def test_a_list_of_files_that_is_cut_names_what_to_narrow(world: World) -> None:
    for number in range(600):
        world.write(f"d{number % 3}/{number:03}.txt", "")
    result = await world.call(GLOB, pattern="*.txt")
    assert "500 of 600 files" in result.text and "narrow the pattern or path" in result.text
    assert not (await world.call(GLOB, pattern="*.txt", path="d1")).truncated
