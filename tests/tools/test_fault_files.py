"""What agents have done to people's files, and what ours does instead (the situations of files and paths)."""

from __future__ import annotations

import json
import re
import time
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from engine.core.tooling import Prepared, ToolResult
from engine.core.truncate import estimate_tokens
from engine.llm.scripted import ScriptReply, ScriptRequest, call
from engine.loader import PieceDirs, check_text, load_piece
from engine.tools.edits import Found, Missed, find_edit
from engine.tools.files import READ
from engine.tools.textio import spliced
from engine.tools.writing import EDIT, WRITE
from tests.engine.rig import rig
from tests.tools.world import World

PIECE = """
name: one
description: one movement
max_movements: 3
initial_movement: work
movements:
  - name: work
    edit: true
    persona: You work.
    instruction: Work.
    allowed_tools: [Read, Write, Edit]
    rules: []
"""

# --- encodings, line ends, marks --------------------------------------------------------------------


@pytest.mark.fault("C: CRLF")
@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\ny\nb", b"a\r\nx\r\ny\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "b\r\n", "x\r\ny\r\n", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", "b\nc", "b\nx\nc", b"a\r\nb\nx\r\nc\r\n"),
        (b"a\nb\r\nc\n", "b\nc", "b\nx\nc", b"a\nb\r\nx\nc\n"),
        (b"a\rb\rc", "b\nc", "b\nx\nc", b"a\rb\rx\rc"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"a\r\nb", "b", "b\nc\n", b"a\r\nb\r\nc\r\n"),
    ],
)
async def test_new_lines_get_the_line_end_of_the_file_and_old_ones_keep_theirs(
    world: World, before: bytes, old: str, new: str, after: bytes
) -> None:
    path = world.write("a", before)
    result = await world.call(EDIT, file_path="a", old_string=old, new_string=new)
    assert not result.is_error, result.text
    assert path.read_bytes() == after
    assert b"\r\r\n" not in path.read_bytes()


@pytest.mark.fault("C: CRLF", neighbour=True)
async def test_an_edit_that_would_only_change_line_ends_says_that_it_changes_nothing(world: World) -> None:
    path = world.write("a", b"a\r\nb\r\n")
    result = await world.call(EDIT, file_path="a", old_string="a\r\nb", new_string="a\nb")
    assert result.is_error and "changes nothing" in result.text and "line ends" in result.text
    assert path.read_bytes() == b"a\r\nb\r\n"


@pytest.mark.fault("C: CRLF", neighbour=True)
def test_of_two_places_the_one_with_the_line_ends_that_were_given_is_meant() -> None:
    text = "a\nb\r\na\r\nb\n"
    found = find_edit(text, "a\r\nb", "x", replace_all=False)
    assert isinstance(found, Found) and spliced(text, list(found.splices)) == "a\nb\r\nx\n"
    assert isinstance(find_edit(text, "a\nb", "x", replace_all=False), Missed)


def editor(decision: str):  # type: ignore[no-untyped-def]
    def script(request: ScriptRequest) -> ScriptReply:
        if not request.results("Edit"):
            return call("Edit", file_path="a.py", old_string="import os", new_string="import re")
        return call("complete", status="success", result=request.results("Edit")[0].text)

    return script


@pytest.mark.fault("C: BOM")
@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_mark_is_kept_when_line_one_is_edited_and_when_that_is_denied(
    tmp_path: Path, decision: str
) -> None:
    before = b"\xef\xbb\xbfimport os\nx\n"
    async with rig(tmp_path, editor(decision), pieces={"one": PIECE}, mode="ask") as it:
        (it.workspace / "a.py").write_bytes(before)
        job = await it.start(piece="one")
        request = await it.open_request(job)
        assert request.diff is not None and request.diff[0].before == "import os\nx\n"
        assert request.diff[0].after == "import re\nx\n"
        await it.client.decide(request.request_id, decision)
        assert (await it.until_rest(job)).status == "succeeded"
        after = before.replace(b"os", b"re") if decision == "allow" else before
        assert (it.workspace / "a.py").read_bytes() == after
        assert b"\xef\xbb\xbf" not in b"".join(it.server.requests)


@pytest.mark.fault("C: BOM")
async def test_a_mark_is_never_shown_and_a_piece_with_one_loads(world: World, tmp_path: Path) -> None:
    world.write("a", b"\xef\xbb\xbfname: x\n")
    assert (await world.call(READ, file_path="a")).text == "    1\tname: x\n"
    assert (await world.call(READ, file_path="a", byte_offset=0)).text.startswith(
        "name: x\n[Bytes 3-11 of 11"
    )
    folder = tmp_path / "pieces"
    folder.mkdir()
    (folder / "one.yaml").write_bytes(b"\xef\xbb\xbf" + PIECE.encode())
    assert load_piece("one", PieceDirs(user=(folder,))).piece.name == "one"
    faulty = PIECE.lstrip().replace("name: one", "nome: one")
    plain, marked = (check_text(text).problems for text in (faulty, "\ufeff" + faulty))
    assert plain and [problem.code for problem in plain] == [problem.code for problem in marked]


# --- finding the place ------------------------------------------------------------------------------


@pytest.mark.fault("C: ambiguous match", neighbour=True)
@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("が1\nが2\n", "か\u3099", "2 times (in other Unicode forms"),
        ("“a”\n«b»\n“a”\n", '"a"', "2 times (in other Unicode forms, or with other quotes"),
        ("aaaa\n", "aa", "3 times"),
        ("a\r\nb\na\nb\r\n", "a\nb", "2 times, at lines 1, 3"),
    ],
)
def test_candidates_that_differ_in_form_only_are_never_guessed_between(
    text: str, old: str, said: str
) -> None:
    found = find_edit(text, old, "new", replace_all=False)
    assert isinstance(found, Missed) and said in found.text and "replace_all" in found.text


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        pytest.param("か\u3099き\n", "がき", "がく", "か\u3099く\n", id="decomposed file, composed old"),
        pytest.param("がき\n", "か\u3099き", "か\u3099く", "がく\n", id="the other way round"),
        pytest.param("say “hello” now\n", 'say "hello"', 'say "bye"', "say “bye” now\n", id="quotes"),
        pytest.param("a – b\n", "a - b", "a - c", "a – c\n", id="dash"),
        pytest.param("10\u00a0km\n", "10 km", "11 km", "11\u00a0km\n", id="space"),
        pytest.param("wait…\n", "wait...", "go...", "go…\n", id="ellipsis"),
        pytest.param("it’s a “b”\n", 'it\'s a "b"', "it's", "it’s\n", id="shared start is kept"),
        pytest.param('“x” "x"\n', '"x"', '"y"', '“x” "y"\n', id="letter for letter goes first"),
        pytest.param("한글\n", "\u1112\u1161\u11ab글", "글", "글\n", id="hangul"),
    ],
)
def test_a_place_that_differs_in_form_only_is_found_if_it_is_the_only_one(
    text: str, old: str, new: str, after: str
) -> None:
    found = find_edit(text, old, new, replace_all=False)
    assert isinstance(found, Found) and spliced(text, list(found.splices)) == after
    assert bool(found.note) == (old not in text)


@pytest.mark.parametrize(
    ("text", "old"),
    [("か\u3099\n", "か"), ("👩‍👧\n", "👩"), ("👍🏽\n", "👍"), ("e\u0301\n", "e"), ("‘a’\n", "a’’")],
)
def test_a_part_of_a_character_is_no_match(text: str, old: str) -> None:
    assert isinstance(find_edit(text, old, "x", replace_all=False), Missed)
    assert isinstance(find_edit(text, old, "x", replace_all=True), Missed)


@pytest.mark.fault("C: no match, no message", neighbour=True)
@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("import os\nimport re\nx\n", "import os\n", "import os\nimport re\n"),
        ("a\n  b(1, 2)\n", "b(1", "b(1, 2"),
        ("say “x” now\n", 'say "x"', "say “x”"),
        ("first\nnew text\n", "old text", "new text"),
    ],
)
def test_an_edit_that_is_there_already_is_not_made_a_second_time(text: str, old: str, new: str) -> None:
    found = find_edit(text, old, new, replace_all=False)
    assert (
        isinstance(found, Missed) and "applied already" in found.text and "Nothing was changed" in found.text
    )


@pytest.mark.fault("C: no match, no message", neighbour=True)
@pytest.mark.parametrize(
    "old",
    [
        "    2\tdef f():\n    3\t    return 1",
        "a.py:2:def f():\na.py:3:    return 1",
        "a.py-2-def f():\na.py:3:    return 1",
    ],
)
def test_what_read_and_grep_put_before_a_line_is_recognised_in_old_string(old: str) -> None:
    found = find_edit("import os\ndef f():\n    return 1\n", old, "x", replace_all=False)
    assert isinstance(found, Missed) and "line numbers" in found.text and "leave out" in found.text


@pytest.mark.fault("C: no match, no message")
async def test_of_several_edits_in_a_row_each_is_whole_or_not_at_all(world: World) -> None:
    path = world.write("a", "1\n2\n3\n4\n5\n")
    results = [
        await world.call(EDIT, file_path="a", old_string=f"{old}\n", new_string=f"{old} done\n")
        for old in ("1", "2", "missing", "4", "5")
    ]
    assert [result.is_error for result in results] == [False, False, True, False, False]
    assert "not in the file" in results[2].text
    assert path.read_text() == "1 done\n2 done\n3\n4 done\n5 done\n"
    every = await world.call(EDIT, file_path="a", old_string=" done", new_string=" 済", replace_all=True)
    assert not every.is_error and path.read_text().count(" 済") == 4


@pytest.mark.fault("C: no match, no message")
async def test_lines_that_a_person_changed_after_they_were_read_are_shown_as_they_are(world: World) -> None:
    world.write("a.py", "def price(x):\n    return x * 1.08\n")
    await world.call(READ, file_path="a.py")
    world.write("a.py", "def price(x, rate):\n    return x * rate\n")
    result = await world.prepare(
        EDIT, file_path="a.py", old_string="def price(x):", new_string="def cost(x):"
    )
    assert isinstance(result, ToolResult) and result.is_error
    assert "changed since it was read" in result.text and "    1\tdef price(x, rate):" in result.text


@pytest.mark.fault("C: no match, no message")
async def test_nobody_is_asked_about_an_edit_that_cannot_be_made(tmp_path: Path) -> None:
    tries = [("missing", "x"), ("a", "b"), ("    1\ta = 1", "y"), ("a = 2", "\0")]

    def script(request: ScriptRequest) -> ScriptReply:
        done = request.results("Edit")
        if len(done) < len(tries):
            old, new = tries[len(done)]
            return call("Edit", file_path="a.py", old_string=old, new_string=new)
        return call("complete", status="success", result="done")

    async with rig(tmp_path, script, pieces={"one": PIECE}, mode="ask") as it:
        (it.workspace / "a.py").write_text("a = 1\na = 2\n")
        job = await it.start(piece="one")
        assert (await it.until_rest(job)).status == "succeeded"
        assert "approval" not in " ".join(await it.kinds(job))
        assert (it.workspace / "a.py").read_text() == "a = 1\na = 2\n"


@pytest.mark.fault("C: file changed since it was read", neighbour=True)
async def test_a_match_that_became_ambiguous_by_a_change_says_both(world: World) -> None:
    world.write("a", "one\ntwo\n")
    await world.call(READ, file_path="a")
    world.write("a", "one\ntwo\ntwo\n")
    result = await world.prepare(EDIT, file_path="a", old_string="two", new_string="2")
    assert isinstance(result, ToolResult) and "changed since it was read" in result.text
    assert "2 times" in result.text


@pytest.mark.parametrize("lines", [5_000, 60_000])
def test_the_nearest_lines_of_a_large_file_are_found_in_time(lines: int) -> None:
    text = "".join(f"value_{n} = compute(alpha, beta, {n}) + " + "x" * 300 + "\n" for n in range(lines))
    started = time.monotonic()
    missed = find_edit(text, f"value_{lines - 9} = compute(alpha, gamma, 1)", "y", replace_all=False)
    assert time.monotonic() - started < 10
    assert isinstance(missed, Missed) and "The nearest lines are" in missed.text and len(missed.text) < 20_000


# --- large and strange files ------------------------------------------------------------------------


@pytest.mark.fault("C: very long lines, binary")
async def test_one_line_of_five_megabytes_is_read_on_and_edited(world: World) -> None:
    record = {"name": "値", "text": "x" * 40}
    data = json.dumps([record] * 77_000, ensure_ascii=False).encode()
    path = world.write("big.json", data[:-1] + b', "last"]')
    assert path.stat().st_size > 5_000_000
    offset, steps = 0, 0
    result = await world.call(READ, file_path="big.json")
    while steps < 3:
        assert estimate_tokens(result.text) <= world.budget
        found = re.search(r"byte_offset=(\d+)", result.text)
        assert found and int(found[1]) > offset
        offset, steps = int(found[1]), steps + 1
        result = await world.call(READ, file_path="big.json", byte_offset=offset)
    end = await world.call(READ, file_path="big.json", byte_offset=path.stat().st_size - 10)
    assert end.text.startswith(', "last"]') or '"last"]' in end.text
    done = await world.call(EDIT, file_path="big.json", old_string='"last"', new_string='"終"')
    assert not done.is_error and estimate_tokens(done.text) <= world.budget
    assert path.read_bytes() == data[:-1] + ', "終"]'.encode()
    missed = await world.call(EDIT, file_path="big.json", old_string="y" * 5000, new_string="z")
    assert missed.is_error and len(missed.text) < 5000


@pytest.mark.fault("C: very long lines, binary")
async def test_two_thousand_lines_of_a_hundred_kilobytes_take_little_memory(world: World) -> None:
    line = b"x" * 100_000 + b"\n"
    with (world.root / "wide").open("wb") as file:
        for _ in range(2000):
            file.write(line)
    tracemalloc.start()
    first = await world.call(READ, file_path="wide")
    later = await world.call(READ, file_path="wide", offset=300, limit=2)
    refused = await world.call(EDIT, file_path="wide", old_string="y", new_string="z")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "Line 1 is too long" in first.text and "Line 300 is too long" in later.text
    assert refused.is_error and "more than 64 MiB" in refused.text
    assert peak < 30 << 20


@pytest.mark.fault("C: very long lines, binary", neighbour=True)
@pytest.mark.parametrize("tool", ["Write", "Edit"])
async def test_a_sparse_file_is_refused_before_it_is_read(world: World, tool: str) -> None:
    with (world.root / "sparse").open("wb") as file:
        file.truncate(4 << 30)
    tracemalloc.start()
    if tool == "Write":
        result = await world.call(WRITE, file_path="sparse", content="x")
    else:
        result = await world.call(EDIT, file_path="sparse", old_string="x", new_string="y")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.is_error and "more than 64 MiB" in result.text
    assert peak < 5 << 20


# --- what is ignored, and what is never touched -----------------------------------------------------


@pytest.mark.fault("C: ignore rules differ per tool")
async def test_a_secret_is_refused_by_every_file_tool_with_the_rule_and_the_mend(world: World) -> None:
    world.write(".gitignore", ".env\nbuild/\n!build/keep.txt\n")
    path = world.write(".env", "KEY=hunter2\n")
    for spec, given in (
        (READ, {}),
        (EDIT, {"old_string": "KEY", "new_string": "X"}),
        (WRITE, {"content": "x"}),
    ):
        result = await world.prepare(spec, file_path=".env", **given)
        assert isinstance(result, ToolResult) and result.is_error
        assert "the name of a file that holds secrets" in result.text and "ask the person" in result.text
        assert "hunter2" not in result.text
    assert path.read_text() == "KEY=hunter2\n"


@pytest.mark.fault("C: ignore rules differ per tool")
async def test_a_mention_of_a_secret_names_it_and_opens_nothing(tmp_path: Path) -> None:
    def script(request: ScriptRequest) -> ScriptReply:
        if not request.results("Read"):
            return call("Read", file_path=".env")
        return call("complete", status="success", result=request.last_result("Read"))

    async with rig(tmp_path, script, pieces={"one": PIECE}) as it:
        (it.workspace / ".gitignore").write_text(".env\n")
        (it.workspace / ".env").write_text("KEY=hunter2\n")
        end = await it.until_rest(await it.start("Look into @.env", piece="one"))
        assert end.status == "succeeded" and "holds secrets" in (end.result or "")
        assert b"@.env" in it.server.requests[0] and b"hunter2" not in b"".join(it.server.requests)


@pytest.mark.fault("C: ignore rules differ per tool")
async def test_an_open_file_in_a_folder_that_git_ignores_is_read_as_it_stands_in_the_editor(
    world: World,
) -> None:
    world.write(".gitignore", "build/\n")
    world.write("build/out.txt", "on disk\n")
    world.open("build/out.txt", "typed\n")
    assert (await world.call(READ, file_path="build/out.txt")).text.startswith("    1\ttyped\n")
    edited = await world.prepare(EDIT, file_path="build/out.txt", old_string="typed", new_string="x")
    assert isinstance(edited, ToolResult) and "unsaved changes" in edited.text


@pytest.mark.fault("C: ignore rules differ per tool", neighbour=True)
async def test_what_git_ignores_is_left_out_of_searches_but_read_and_edited_by_its_name(world: World) -> None:
    world.write(".gitignore", "build/\n")
    path = world.write("build/out.txt", "one\n")
    assert (await world.call(READ, file_path="build/out.txt")).text == "    1\tone\n"
    prepared = await world.prepare(EDIT, file_path="build/out.txt", old_string="one", new_string="two")
    assert isinstance(prepared, Prepared)
    assert not (
        await world.call(EDIT, file_path="build/out.txt", old_string="one", new_string="two")
    ).is_error
    assert path.read_text() == "two\n"


@pytest.mark.fault("C: unsaved buffer lost", neighbour=True)
async def test_a_buffer_is_found_by_a_link_and_by_another_unicode_form_of_its_name(world: World) -> None:
    world.write("が.txt", "on disk\n")
    (world.root / "link").symlink_to("が.txt")
    world.open("が.txt", "typed\n")
    for asked in ("か\u3099.txt", "link"):
        assert "typed" in (await world.call(READ, file_path=asked)).text
        context = world.context()
        given = {"file_path": asked, "old_string": "on disk", "new_string": "lost"}
        result = await EDIT.prepare(context, msgspec.convert(given, EDIT.arguments))
        assert isinstance(result, ToolResult) and result.is_error and "unsaved changes" in result.text
