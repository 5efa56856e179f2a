"""Read: numbered lines, within the budget, with hints that get through any file; nothing but regular text
files.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.tooling import PathClass, Prepared, ToolResult
from engine.core.truncate import estimate_tokens
from engine.tools.files import FILE_TOOLS, READ
from tests.tools.world import World


async def test_lines_come_with_their_numbers(world: World) -> None:
    world.write("a.py", "one\n\nthree\n")
    result = await world.call(READ, file_path="a.py")
    assert result.text == "    1\tone\n    2\t\n    3\tthree\n"
    assert not result.is_error


async def test_the_title_and_the_class_of_the_path_are_known_before_anything_is_read(world: World) -> None:
    world.write("src/a.py", "x\n")
    prepared = await world.prepare(READ, file_path="src/a.py")
    assert isinstance(prepared, Prepared)
    assert prepared.title == "Read src/a.py"
    assert prepared.paths == (("src/a.py", PathClass.WORKSPACE),)


async def test_a_range_of_lines_names_the_next_one(world: World) -> None:
    world.write("a.txt", "".join(f"line {n}\n" for n in range(1, 11)))
    result = await world.call(READ, file_path="a.txt", offset=3, limit=2)
    assert result.text.startswith(
        "    3\tline 3\n    4\tline 4\n[Lines 3-4 of 10. Read with offset=5 goes on"
    )
    assert not result.truncated


async def test_what_was_read_is_remembered_by_its_hash(world: World) -> None:
    path = world.write("a.txt", "x\n")
    await world.call(READ, file_path="a.txt")
    assert world.marks == {str(path): hashlib.sha256(b"x\n").hexdigest()}


async def test_an_unsaved_buffer_is_what_is_read_and_the_result_says_so(world: World) -> None:
    world.write("a.py", "on disk\n")
    world.open("a.py", "in the editor\n")
    result = await world.call(READ, file_path="a.py")
    assert "    1\tin the editor\n" in result.text
    assert "unsaved changes" in result.text


async def test_a_new_buffer_that_was_never_saved_can_be_read(world: World) -> None:
    world.open("new.py", "fresh\r\ntext")
    result = await world.call(READ, file_path="new.py")
    assert "    1\tfresh\n    2\ttext\n" in result.text


async def test_a_saved_buffer_leaves_the_disk_to_speak(world: World) -> None:
    world.write("a.py", "on disk\n")
    world.open("a.py", "on disk\n", dirty=False)
    assert (await world.call(READ, file_path="a.py")).text == "    1\ton disk\n"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("../outside.txt", "outside the workspace"),
        ("/etc/passwd", "outside the workspace"),
        ("", "must not be empty"),
        ("a\0b", "NUL"),
        (".env", "secrets"),
        ("deep/id_rsa", "secrets"),
        ("folder", "is a folder"),
        (".", "is a folder"),
        ("a.txt/b", "not a folder"),
    ],
)
async def test_what_is_no_file_of_the_workspace_is_refused(world: World, asked: str, said: str) -> None:
    (world.root.parent / "outside.txt").write_text("secret")
    world.write(".env", "KEY=1")
    world.write("folder/x", "")
    world.write("a.txt", "x")
    result = await world.prepare(READ, file_path=asked)
    assert isinstance(result, ToolResult) and result.is_error
    assert said in result.text


@pytest.mark.fault("C: leaving the workspace")
async def test_a_neighbour_whose_name_begins_like_the_workspace_is_outside(world: World) -> None:
    other = world.root.parent / (world.root.name + "2")
    other.mkdir()
    (other / "x").write_text("secret")
    result = await world.call(READ, file_path=str(other / "x"))
    assert result.is_error and "outside the workspace" in result.text


async def test_an_absolute_path_inside_is_the_same_file(world: World) -> None:
    path = world.write("a.txt", "x\n")
    assert (await world.call(READ, file_path=str(path))).text == "    1\tx\n"


@pytest.mark.fault("C: leaving the workspace", neighbour=True)
async def test_a_link_that_leads_out_is_refused_and_one_that_stays_inside_is_read(world: World) -> None:
    (world.root.parent / "secret.txt").write_text("secret")
    (world.root / "out").symlink_to(world.root.parent / "secret.txt")
    (world.root / "up").symlink_to("..")
    world.write("a.txt", "inside\n")
    (world.root / "in").symlink_to("a.txt")
    assert "leads out" in (await world.call(READ, file_path="out")).text
    assert "outside the workspace" in (await world.call(READ, file_path="up/secret.txt")).text
    assert (await world.call(READ, file_path="in")).text == "    1\tinside\n"


async def test_a_link_to_a_secret_is_a_secret(world: World) -> None:
    world.write(".env", "KEY=1")
    (world.root / "harmless.txt").symlink_to(".env")
    result = await world.call(READ, file_path="harmless.txt")
    assert result.is_error and "KEY" not in result.text


async def test_a_link_to_itself_ends_in_an_error(world: World) -> None:
    (world.root / "loop").symlink_to("loop")
    assert (await world.call(READ, file_path="loop")).is_error


@pytest.mark.fault("C: very long lines, binary")
async def test_special_files_are_refused_without_waiting(world: World) -> None:
    os.mkfifo(world.root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(world.root)  # the path of a socket must be short
        server.bind("sock")
        os.chdir(here)
    (world.root / "zero").symlink_to("/dev/zero")
    assert "a pipe" in (await world.call(READ, file_path="pipe")).text
    assert "a socket" in (await world.call(READ, file_path="sock")).text
    assert "leads out" in (await world.call(READ, file_path="zero")).text


async def test_an_unknown_file_is_answered_with_the_nearest_names(world: World) -> None:
    world.write("src/price.py", "")
    world.write("src/.env", "")
    result = await world.call(READ, file_path="src/prise.py")
    assert result.is_error
    assert "`src/prise.py` does not exist" in result.text and "`src/price.py`" in result.text
    assert ".env" not in result.text


async def test_another_ending_of_the_same_name_is_near(world: World) -> None:
    world.write("config.yaml", "")
    assert "`config.yaml`" in (await world.call(READ, file_path="config.json")).text


async def test_the_files_of_the_task_can_be_read(world: World) -> None:
    (world.task / "input" / "note.txt").write_text("hello\n")
    prepared = await world.prepare(READ, file_path=".maestro/tasks/task-1/input/note.txt")
    assert isinstance(prepared, Prepared)
    assert prepared.paths[0][1] is PathClass.TASK


@pytest.mark.fault("C: very long lines, binary")
@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("image.txt", b"\x89PNG\r\n\x1a\n\0\0", "PNG image"),
        ("late.bin", b"x" * 9000 + b"\0" + b"y" * 100, "unknown type, 9101 bytes"),
        ("doc", b"%PDF-1.7\0", "PDF document"),
    ],
)
async def test_of_a_binary_file_only_type_and_size_are_said(
    world: World, name: str, data: bytes, said: str
) -> None:
    world.write(name, data)
    result = await world.call(READ, file_path=name)
    assert "binary file" in result.text and said in result.text
    assert "\0" not in result.text
    assert world.marks == {}


@pytest.mark.fault("C: very long lines, binary")
async def test_an_empty_file_is_said_to_be_empty(world: World) -> None:
    world.write("empty", "")
    result = await world.call(READ, file_path="empty")
    assert result.text == "[`empty` is empty.]" and not result.is_error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"offset": 4}, "only 3 lines"),
        ({"byte_offset": 99}, "only 6 bytes"),
        ({"offset": 1, "byte_offset": 0}, "not both"),
    ],
)
async def test_a_place_behind_the_end_says_where_the_end_is(
    world: World, arguments: dict[str, object], said: str
) -> None:
    world.write("a", "a\nb\nc\n")
    result = await world.call(READ, file_path="a", **arguments)
    assert result.is_error and said in result.text


# --- encodings --------------------------------------------------------------------------------------

JAPANESE = "[設定]\n名前=日本語テスト\n"


@pytest.mark.parametrize(
    ("data", "text", "said"),
    [
        (b"\xef\xbb\xbfname: x\n", "name: x", ""),
        (JAPANESE.encode("cp932"), "名前=日本語テスト", "Shift_JIS"),
        (JAPANESE.encode("euc_jp"), "名前=日本語テスト", "EUC-JP"),
        (JAPANESE.encode("iso2022_jp"), "名前=日本語テスト", "ISO-2022-JP"),
        (b"\xff\xfe" + JAPANESE.encode("utf-16-le"), "名前=日本語テスト", "UTF-16-LE"),
        (b"\xfe\xff" + JAPANESE.encode("utf-16-be"), "名前=日本語テスト", "UTF-16-BE"),
        ("déjà vu, garçon\n".encode("cp1252"), "déjà vu, garçon", "Windows-1252"),
        ("100円".encode("cp932"), "100", "not recognised for certain"),
        ("日本語".encode() + b"\xff\n", "日本語\ufffd", "not valid UTF-8"),
    ],
)
async def test_text_is_decoded_and_the_encoding_is_said(
    world: World, data: bytes, text: str, said: str
) -> None:
    world.write("a.ini", data)
    result = await world.call(READ, file_path="a.ini")
    assert text in result.text and said in result.text
    assert "\ufeff" not in result.text
    result.text.encode()


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
async def test_every_kind_of_line_end_makes_lines(world: World, line_end: str) -> None:
    world.write("a", line_end.join(["one", "two", "three"]))
    assert (await world.call(READ, file_path="a")).text == "    1\tone\n    2\ttwo\n    3\tthree\n"


# --- budgets and hints ------------------------------------------------------------------------------


async def test_a_result_stays_within_the_budget_and_ends_at_a_line(world: World) -> None:
    world.write("big.txt", "".join(f"line number {n}\n" for n in range(100_000)))
    world.budget = 1000
    result = await world.call(READ, file_path="big.txt")
    assert estimate_tokens(result.text) <= 1000
    assert result.truncated
    assert "of 100000. Read with offset=" in result.text and "Grep" in result.text


async def follow(world: World, name: str) -> bytes:
    """The bytes that a model sees that follows every hint (of a UTF-8 file whose lines end with a line
    feed).
    """
    seen = b""
    arguments: dict[str, int] = {}
    for _ in range(10_000):
        result = await world.call(READ, file_path=name, **arguments)
        assert not result.is_error, result.text
        assert estimate_tokens(result.text) <= world.budget
        body, _, note = result.text.rpartition("\n[")
        if not note.endswith("]"):
            body, note = result.text, ""
        by_bytes = "byte_offset" in arguments
        if by_bytes:
            ends = note.startswith("Bytes") and re.search(r"Bytes (\d+)-(\d+) of", note)
            assert ends
            piece = body.encode()
            if len(piece) < int(ends[2]) - int(ends[1]):
                piece += b"\n"
            assert len(piece) == int(ends[2]) - int(ends[1])
            seen += piece
        else:
            lines = [line.split("\t", 1)[1] for line in body.removesuffix("\n").split("\n")]
            cut = "too long" in note
            seen += "\n".join(lines).encode() + (b"" if cut else b"\n")
        if found := re.search(r"Read with (offset|byte_offset)=(\d+)", note):
            previous = arguments.get(found[1], 0)
            assert int(found[2]) > previous
            arguments = {found[1]: int(found[2])}
        else:
            return seen
    raise AssertionError("the hints never end")


FILES = {
    "lines": "".join(f"line {n} 日本語\n" for n in range(3000)),
    "one line": "x" * 50_000,
    "one line of graphemes": "👨‍👩‍👧‍👦が" * 3000,
    "json": '{"k": [' + ", ".join(f'"値{n}"' for n in range(8000)) + "]}",
    "long line in the middle": "short\n" * 10 + "日" * 20_000 + "\n" + "tail\n" * 2000,
    "exactly the budget": "y" * 1200 + "\n" + "z" * 1200 + "\n",
}


@pytest.mark.parametrize("kind", FILES)
async def test_following_the_hints_shows_each_byte_once_and_ends(world: World, kind: str) -> None:
    world.budget = 600
    world.write("file", FILES[kind])
    seen = await follow(world, "file")
    assert seen.removesuffix(b"\n") == FILES[kind].encode().removesuffix(b"\n")


LINES = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=300), min_size=1, max_size=20
)


@pytest.mark.fault("I3")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES, budget=st.integers(150, 400))
async def test_the_hints_get_through_any_text(world: World, lines: list[str], budget: int) -> None:
    world.budget = budget
    text = "\n".join(lines) + "\n"
    world.write("file", text)
    if text.strip("\n"):
        assert (await follow(world, "file")).rstrip(b"\n") == text.encode().rstrip(b"\n")


async def test_a_line_is_never_cut_inside_a_grapheme(world: World) -> None:
    world.budget = 250
    world.write("a", "👨‍👩‍👧‍👦" * 2000)
    result = await world.call(READ, file_path="a")
    shown = result.text.split("\t", 1)[1].split("\n", 1)[0]
    assert shown and len(shown) % len("👨‍👩‍👧‍👦") == 0


async def test_a_byte_offset_inside_a_character_starts_at_the_next_one(world: World) -> None:
    world.write("a", "日本語")
    assert (await world.call(READ, file_path="a", byte_offset=1)).text.startswith("本語")


async def test_pages_of_a_utf16_file_stay_on_its_characters(world: World) -> None:
    world.budget = 300
    text = "日本語のとても長い行。" * 500
    world.write("a", b"\xff\xfe" + text.encode("utf-16-le"))
    first = await world.call(READ, file_path="a")
    found = re.search(r"byte_offset=(\d+)", first.text)
    assert found
    shown = first.text.split("\t", 1)[1].split("\n", 1)[0]
    assert int(found[1]) == 2 + 2 * len(shown)
    second = await world.call(READ, file_path="a", byte_offset=int(found[1]))
    assert (shown + second.text.split("\n", 1)[0]) == text[: len(shown) + len(second.text.split("\n", 1)[0])]


@pytest.mark.fault("C: very long lines, binary")
async def test_a_sparse_file_of_four_gigabytes_is_binary_at_once(world: World) -> None:
    with (world.root / "sparse").open("wb") as file:
        file.truncate(4 << 30)
    result = await world.call(READ, file_path="sparse")
    assert "binary file" in result.text and str(4 << 30) in result.text


async def test_a_huge_text_takes_little_memory(world: World) -> None:
    block = ("some text of a log file, with a number 12345\n" * 1000).encode()
    with (world.root / "huge.log").open("wb") as file:
        for _ in range(1500):
            file.write(block)
    tracemalloc.start()
    result = await world.call(READ, file_path="huge.log", offset=200_000, limit=3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "200000\tsome text" in result.text
    assert peak < 20 << 20


@pytest.mark.fault("C: very long lines, binary", neighbour=True)
async def test_lines_of_megabytes_are_skipped_in_little_memory(world: World) -> None:
    with (world.root / "wide").open("wb") as file:
        for _ in range(4):
            file.write(b"x" * (5 << 20) + b"\n")
        file.write(b"last\n")
    tracemalloc.start()
    result = await world.call(READ, file_path="wide", offset=5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "    5\tlast\n" in result.text
    assert peak < 20 << 20


async def test_a_name_with_a_newline_stays_on_one_line_of_the_title(world: World) -> None:
    world.write("a\nb.txt", "x\n")
    prepared = await world.prepare(READ, file_path="a\nb.txt")
    assert isinstance(prepared, Prepared)
    assert prepared.title == "Read a\\nb.txt"


def test_the_file_tools_declare_strict_arguments() -> None:
    assert [tool.name for tool in FILE_TOOLS] == ["Read", "Write", "Edit"]
    for tool in FILE_TOOLS:
        assert tool.schema["additionalProperties"] is False
        assert tool.schema["required"]
        assert tool.description
