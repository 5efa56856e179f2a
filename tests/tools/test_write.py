"""Write and Edit: the change that was asked for and not a byte more, or a refusal that says why and what
would be right.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat

import msgspec
import pytest

from engine.core.tooling import FileChange, FileDiff, PathClass, Prepared, ToolResult
from engine.tools.files import READ
from engine.tools.writing import EDIT, WRITE
from tests.tools.world import World


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- Write ------------------------------------------------------------------------------------------


async def test_a_new_file_is_announced_and_made_with_its_folders(world: World) -> None:
    prepared = await world.prepare(WRITE, file_path="docs/notes.md", content="a\nb\n")
    assert isinstance(prepared, Prepared)
    assert prepared.title == "Write docs/notes.md (new, 2 lines)"
    assert prepared.paths == (("docs/notes.md", PathClass.WORKSPACE),)
    assert prepared.diffs == (FileDiff("docs/notes.md", None, "a\nb\n"),)
    assert (prepared.pre_hash, prepared.post_hash) == (None, sha(b"a\nb\n"))
    assert not (world.root / "docs").exists()
    result = await world.call(WRITE, file_path="docs/notes.md", content="a\nb\n")
    assert (world.root / "docs/notes.md").read_text() == "a\nb\n"
    assert result.brief == "docs/notes.md (new, 2 lines)"
    assert result.changes == (FileChange("docs/notes.md", None, sha(b"a\nb\n"), None),)


async def test_a_new_file_has_the_mode_that_the_umask_leaves(world: World) -> None:
    await world.call(WRITE, file_path="a", content="x")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((world.root / "a").stat().st_mode) == 0o666 & ~mask


async def test_a_file_that_was_read_is_replaced_with_a_short_diff(world: World) -> None:
    world.write("src/price.py", "a = 1\nb = 2\n")
    await world.call(READ, file_path="src/price.py")
    result = await world.call(WRITE, file_path="src/price.py", content="a = 1\nb = 3\nc = 4\n")
    assert result.brief == "src/price.py +2 −1"
    assert "-b = 2" in result.text and "+b = 3" in result.text
    assert result.changes[0].before == b"a = 1\nb = 2\n"


async def test_after_a_write_the_next_one_needs_no_reading(world: World) -> None:
    await world.call(WRITE, file_path="a", content="1")
    assert not (await world.call(WRITE, file_path="a", content="2")).is_error


async def test_an_existing_file_that_was_never_read_is_not_overwritten(world: World) -> None:
    world.write("a", "precious")
    result = await world.call(WRITE, file_path="a", content="new")
    assert result.is_error and "Read it first" in result.text
    assert (world.root / "a").read_text() == "precious"


async def test_writing_what_is_there_already_is_no_change_and_no_error(world: World) -> None:
    world.write("a", "same")
    result = await world.prepare(WRITE, file_path="a", content="same")
    assert isinstance(result, ToolResult) and not result.is_error
    assert result.changes == ()


@pytest.mark.fault("C: file changed since it was read")
async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(world: World) -> None:
    world.write("a", "one")
    await world.call(READ, file_path="a")
    world.write("a", "two")
    result = await world.call(WRITE, file_path="a", content="three")
    assert result.is_error and "changed since it was read" in result.text
    assert (world.root / "a").read_text() == "two"


@pytest.mark.fault("C: file changed since it was read", neighbour=True)
@pytest.mark.parametrize("tool", ["Write", "Edit"])
async def test_a_change_between_the_question_and_the_write_is_never_lost(world: World, tool: str) -> None:
    world.write("a", "one\n")
    await world.call(READ, file_path="a")
    spec = WRITE if tool == "Write" else EDIT
    arguments = {"content": "two\n"} if tool == "Write" else {"old_string": "one", "new_string": "two"}
    context, args = world.context(), msgspec.convert({"file_path": "a", **arguments}, spec.arguments)
    prepared = await spec.prepare(context, args)
    assert isinstance(prepared, Prepared)
    world.write("a", "by somebody else: one\n")
    result = await spec.run(context, args, prepared)
    assert isinstance(result, ToolResult) and result.is_error
    assert "changed meanwhile" in result.text
    assert (world.root / "a").read_text() == "by somebody else: one\n"


async def test_a_file_that_appears_between_the_question_and_the_write_is_kept(world: World) -> None:
    context = world.context()
    args = msgspec.convert({"file_path": "a", "content": "mine"}, WRITE.arguments)
    prepared = await WRITE.prepare(context, args)
    assert isinstance(prepared, Prepared)
    world.write("a", "theirs")
    result = await WRITE.run(context, args, prepared)
    assert isinstance(result, ToolResult) and result.is_error and "exists by now" in result.text
    assert (world.root / "a").read_text() == "theirs"


@pytest.mark.fault("C: leaving the workspace")
async def test_a_folder_that_becomes_a_link_between_the_question_and_the_write_leads_nowhere(
    world: World,
) -> None:
    outside = world.root.parent / "outside"
    outside.mkdir()
    world.write("sub/keep", "")
    context = world.context()
    args = msgspec.convert({"file_path": "sub/a", "content": "x"}, WRITE.arguments)
    prepared = await WRITE.prepare(context, args)
    assert isinstance(prepared, Prepared)
    (world.root / "sub").rename(world.root / "was")
    (world.root / "sub").symlink_to(outside)
    result = await WRITE.run(context, args, prepared)
    assert isinstance(result, ToolResult) and result.is_error
    assert list(outside.iterdir()) == []


@pytest.mark.fault("C: unsaved buffer lost", neighbour=True)
@pytest.mark.parametrize("tool", ["Write", "Edit"])
async def test_a_dirty_buffer_is_refused_with_the_reason_and_the_mend(world: World, tool: str) -> None:
    world.write("a", "one\n")
    await world.call(READ, file_path="a")
    world.open("a", "one more\n")
    if tool == "Write":
        result = await world.call(WRITE, file_path="a", content="two\n")
    else:
        result = await world.call(EDIT, file_path="a", old_string="one", new_string="two")
    assert result.is_error and "unsaved changes" in result.text and "save" in result.text
    assert (world.root / "a").read_text() == "one\n"


async def test_a_buffer_that_becomes_dirty_while_the_person_is_asked_is_refused_too(world: World) -> None:
    world.write("a", "one\n")
    context = world.context()
    args = msgspec.convert({"file_path": "a", "old_string": "one", "new_string": "two"}, EDIT.arguments)
    prepared = await EDIT.prepare(context, args)
    assert isinstance(prepared, Prepared)
    world.open("a", "typing…\n")
    result = await EDIT.run(context, args, prepared)
    assert isinstance(result, ToolResult) and result.is_error and "unsaved" in result.text


async def test_mode_and_owner_are_kept(world: World) -> None:
    path = world.write("run.sh", "#!/bin/sh\n")
    path.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
    before = path.stat()
    await world.call(EDIT, file_path="run.sh", old_string="sh\n", new_string="sh\nexit\n")
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


@pytest.mark.fault("C: leaving the workspace", neighbour=True)
@pytest.mark.parametrize("tool", ["Write", "Edit"])
async def test_a_link_is_written_through_to_the_file_that_is_named_and_stays_a_link(
    world: World, tool: str
) -> None:
    world.write("real/file", "x\n")
    (world.root / "link").symlink_to("real/file")
    await world.call(READ, file_path="link")
    if tool == "Write":
        result = await world.call(WRITE, file_path="link", content="y\n")
    else:
        result = await world.call(EDIT, file_path="link", old_string="x", new_string="y")
    assert not result.is_error and result.text.startswith("Changed real/file (+1 −1). `link` is a link to it")
    assert (world.root / "link").is_symlink() and (world.root / "real/file").read_text() == "y\n"
    assert [change.path for change in result.changes] == ["real/file"]


@pytest.mark.fault("C: leaving the workspace")
async def test_a_link_to_something_new_outside_is_not_written_through(world: World) -> None:
    (world.root / "dangling").symlink_to(world.root.parent / "new")
    result = await world.prepare(WRITE, file_path="dangling", content="y")
    assert isinstance(result, ToolResult) and result.is_error and "leads out" in result.text
    assert not (world.root.parent / "new").exists()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("/etc/new", "outside the workspace"),
        ("../new", "outside the workspace"),
        (".env.local", "secrets"),
        ("folder", "folder"),
        (".", "folder"),
        ("file/below", "not a folder"),
        ("pipe", "a pipe"),
        (".maestro/tasks/task-1/logs/x.txt", "output"),
        (".maestro/tasks/task-1/ASK.md", "output"),
        (".maestro/tasks/task-1/input/x", "output"),
    ],
)
async def test_where_nothing_may_be_written_nothing_is(world: World, asked: str, said: str) -> None:
    world.write("folder/x", "")
    world.write("file", "")
    os.mkfifo(world.root / "pipe")
    result = await world.prepare(WRITE, file_path=asked, content="x")
    assert isinstance(result, ToolResult) and result.is_error
    assert said in result.text


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (".maestro/tasks/task-1/output/result.md", PathClass.TASK),
        (".git/hooks/pre-commit", PathClass.PROTECTED),
        (".vscode/tasks.json", PathClass.PROTECTED),
        (".maestro/tasks/task-2/output/x", PathClass.PROTECTED),
        ("src/a.py", PathClass.WORKSPACE),
    ],
)
async def test_the_class_of_a_path_is_what_policy_sees(world: World, asked: str, kind: PathClass) -> None:
    prepared = await world.prepare(WRITE, file_path=asked, content="x")
    assert isinstance(prepared, Prepared)
    assert prepared.paths == ((asked, kind),)


async def test_the_file_that_completes_a_bare_repository_is_protected(world: World) -> None:
    for part in ("objects/x", "refs/x", "config"):
        world.write(f"sub/{part}", "")
    prepared = await world.prepare(WRITE, file_path="sub/HEAD", content="ref: refs/heads/x")
    assert isinstance(prepared, Prepared)
    assert prepared.paths[0][1] is PathClass.PROTECTED


async def test_a_write_that_fails_half_way_leaves_the_old_file_and_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("a", "old\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = await world.call(EDIT, file_path="a", old_string="old", new_string="new")
    assert result.is_error and "No space left" in result.text
    assert (world.root / "a").read_text() == "old\n"
    assert [path.name for path in world.root.iterdir() if path.name != ".maestro"] == ["a"]


async def test_a_binary_file_is_not_replaced_by_text(world: World) -> None:
    world.write("a.png", b"\x89PNG\0\0")
    await world.call(READ, file_path="a.png")
    result = await world.call(WRITE, file_path="a.png", content="x")
    assert result.is_error and "binary" in result.text


async def test_half_a_character_is_refused(world: World) -> None:
    result = await world.call(WRITE, file_path="a", content="x\ud83d")
    assert result.is_error and "U+D83D" in result.text and not (world.root / "a").exists()


# --- Edit -------------------------------------------------------------------------------------------


async def test_an_edit_is_announced_with_its_counts_and_hashes(world: World) -> None:
    world.write("src/price.py", "a\nb\nc\n")
    prepared = await world.prepare(EDIT, file_path="src/price.py", old_string="b\n", new_string="B\nB2\n")
    assert isinstance(prepared, Prepared)
    assert prepared.title == "Edit src/price.py (+2 −1)"
    assert prepared.diffs == (FileDiff("src/price.py", "a\nb\nc\n", "a\nB\nB2\nc\n"),)
    assert (prepared.pre_hash, prepared.post_hash) == (sha(b"a\nb\nc\n"), sha(b"a\nB\nB2\nc\n"))


async def test_an_edit_shows_the_model_what_changed(world: World) -> None:
    world.write("a", "".join(f"line {n}\n" for n in range(1, 21)))
    result = await world.call(EDIT, file_path="a", old_string="line 10\n", new_string="line ten\n")
    assert result.text.startswith("Changed a (+1 −1).\n@@ -7,7 +7,7 @@\n line 7\n")
    assert "-line 10\n+line ten\n" in result.text
    assert result.brief == "a +1 −1"


@pytest.mark.fault("C: ambiguous match")
@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("}\n" * 5, "}", "5 times, at lines 1, 2, 3, 4, 5"),
        ("aaa\n", "aa", "2 times, at lines 1, 1"),
        ("x\n" * 30, "x", "30 times, at lines 1, 2, 3"),
        ("a\nb\r\na\r\nb\n", "a\nb", "2 times"),
    ],
)
async def test_an_ambiguous_match_is_counted_and_never_guessed(
    world: World, text: str, old: str, said: str
) -> None:
    world.write("a", text)
    result = await world.prepare(EDIT, file_path="a", old_string=old, new_string="y")
    assert isinstance(result, ToolResult) and result.is_error
    assert said in result.text and "replace_all" in result.text
    assert (world.root / "a").read_bytes() == text.encode()


@pytest.mark.fault("C: ambiguous match")
async def test_replace_all_changes_every_one_and_only_when_asked(world: World) -> None:
    world.write("a", "x y x\nx\n")
    await world.call(EDIT, file_path="a", old_string="x", new_string="xx", replace_all=True)
    assert (world.root / "a").read_text() == "xx y xx\nxx\n"


@pytest.mark.fault("C: no match, no message")
async def test_a_miss_shows_the_nearest_lines(world: World) -> None:
    world.write("a.py", "def price(x):\n    return x * 1.08\n\ndef other():\n    pass\n")
    result = await world.prepare(EDIT, file_path="a.py", old_string="    return x * 1.10", new_string="y")
    assert isinstance(result, ToolResult) and result.is_error
    assert "not in the file" in result.text
    assert "    2\t    return x * 1.08" in result.text


@pytest.mark.fault("C: no match, no message", neighbour=True)
async def test_a_miss_by_indentation_says_so(world: World) -> None:
    world.write("a.py", "if x:\n        go()\n")
    result = await world.prepare(EDIT, file_path="a.py", old_string="    go()\n    stop()", new_string="y")
    assert isinstance(result, ToolResult)
    assert "    2\t        go()" in result.text
    result = await world.prepare(EDIT, file_path="a.py", old_string="if x:\n    go()", new_string="y")
    assert isinstance(result, ToolResult) and "white space only" in result.text


@pytest.mark.fault("C: no match, no message")
async def test_line_numbers_in_old_string_are_recognised(world: World) -> None:
    world.write("a", "one\ntwo\n")
    result = await world.prepare(
        EDIT, file_path="a", old_string="    1\tone\n    2\ttwo", new_string="    1\tthree"
    )
    assert isinstance(result, ToolResult) and "line numbers" in result.text


@pytest.mark.fault("C: no match, no message")
async def test_an_edit_that_is_applied_already_is_recognised(world: World) -> None:
    world.write("a", "first\nnew text\n")
    result = await world.prepare(EDIT, file_path="a", old_string="old text", new_string="new text")
    assert isinstance(result, ToolResult) and "line 2" in result.text and "applied already" in result.text


async def test_nothing_to_change_is_said(world: World) -> None:
    world.write("a", "x")
    assert "the same" in (await world.call(EDIT, file_path="a", old_string="x", new_string="x")).text


@pytest.mark.fault("C: ambiguous match")
async def test_an_empty_old_string_is_for_new_and_empty_files_only(world: World) -> None:
    world.write("full", "x")
    world.write("empty", "")
    assert "not empty" in (await world.call(EDIT, file_path="full", old_string="", new_string="y")).text
    await world.call(EDIT, file_path="empty", old_string="", new_string="y\n")
    await world.call(EDIT, file_path="new", old_string="", new_string="z\n")
    assert (world.root / "empty").read_text() == "y\n"
    assert (world.root / "new").read_text() == "z\n"


async def test_an_unknown_file_is_answered_with_near_names(world: World) -> None:
    world.write("price.py", "")
    result = await world.call(EDIT, file_path="prices.py", old_string="a", new_string="b")
    assert result.is_error and "`price.py`" in result.text


@pytest.mark.fault("C: file changed since it was read")
async def test_a_changed_file_is_edited_where_the_match_still_holds_and_a_note_says_so(world: World) -> None:
    world.write("a", "one\ntwo\n")
    await world.call(READ, file_path="a")
    world.write("a", "zero\none\ntwo\n")
    result = await world.call(EDIT, file_path="a", old_string="two", new_string="2")
    assert not result.is_error and "had changed since" in result.text
    assert (world.root / "a").read_text() == "zero\none\n2\n"
    assert "changed since" in (await world.call(WRITE, file_path="a", content="all")).text


@pytest.mark.fault("C: file changed since it was read")
async def test_a_changed_file_without_a_match_is_said_to_have_changed(world: World) -> None:
    world.write("a", "one\ntwo\n")
    await world.call(READ, file_path="a")
    world.write("a", "one\nthree\n")
    result = await world.call(EDIT, file_path="a", old_string="two", new_string="2")
    assert result.is_error and "changed since it was read" in result.text


# --- bytes are kept ---------------------------------------------------------------------------------


@pytest.mark.fault("C: Shift_JIS file gets UTF-8 inserted")
@pytest.mark.fault("C: CRLF")
@pytest.mark.fault("C: BOM")
@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        pytest.param(b"a\r\nb\r\nc\r\n", "b", "B1\nB2", b"a\r\nB1\r\nB2\r\nc\r\n", id="crlf"),
        pytest.param(b"a\r\nb\r\nc\r\n", "a\nb\nc", "a\nx\nc", b"a\r\nx\r\nc\r\n", id="crlf across lines"),
        pytest.param(b"a\r\nb\r\n", "a\r\nb", "a\r\nc", b"a\r\nc\r\n", id="crlf given"),
        pytest.param(b"a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nb\nX\nd", b"a\r\nb\nX\r\nd\n", id="mixed"),
        pytest.param(b"a\rb\rc", "b", "x\ny", b"a\rx\ry\rc", id="lone cr"),
        pytest.param(b"a\nb", "b", "c", b"a\nc", id="no final newline"),
        pytest.param(b"a\nb\n", "b\n", "c", b"a\nc", id="final newline taken away"),
        pytest.param(b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n", id="bom"),
        pytest.param(
            "名前=日本\nx=1\n".encode("cp932"),
            "x=1",
            "追加=1",
            "名前=日本\n追加=1\n".encode("cp932"),
            id="sjis",
        ),
        pytest.param(
            "名前=日本\nx\n".encode("euc_jp"), "x", "追加", "名前=日本\n追加\n".encode("euc_jp"), id="euc"
        ),
        pytest.param(
            b"\xff\xfe" + "日本\r\nx".encode("utf-16-le"),
            "x",
            "追加",
            b"\xff\xfe" + "日本\r\n追加".encode("utf-16-le"),
            id="utf-16",
        ),
        pytest.param(
            "日本\nx\n".encode() + b"\xff\xfe\n",
            "x",
            "y",
            "日本\ny\n".encode() + b"\xff\xfe\n",
            id="bad bytes",
        ),
        pytest.param("é café\n".encode("cp1252"), "é c", "è c", "è café\n".encode("cp1252"), id="cp1252"),
    ],
)
async def test_everything_outside_the_edit_keeps_its_bytes(
    world: World, before: bytes, old: str, new: str, after: bytes
) -> None:
    path = world.write("a", before)
    result = await world.call(EDIT, file_path="a", old_string=old, new_string=new)
    assert not result.is_error, result.text
    assert path.read_bytes() == after


@pytest.mark.fault("C: Shift_JIS file gets UTF-8 inserted")
@pytest.mark.parametrize(
    ("data", "old", "new", "said"),
    [
        (b"a\rb\nc\nd\n", "b", "", "join two of them"),
        ("名前=日本\n".encode("cp932"), "名前", "😀", "Shift_JIS, which has no “😀” (U+1F600)"),
        ("100円\n".encode("cp932"), "100", "200", "not recognised for certain"),
    ],
)
async def test_what_cannot_be_done_without_harm_is_refused(
    world: World, data: bytes, old: str, new: str, said: str
) -> None:
    path = world.write("a.ini", data)
    result = await world.prepare(EDIT, file_path="a.ini", old_string=old, new_string=new)
    assert isinstance(result, ToolResult) and result.is_error and said in result.text
    assert path.read_bytes() == data


@pytest.mark.fault("C: CRLF", neighbour=True)
@pytest.mark.fault("C: BOM", neighbour=True)
@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\r\ny\r\n", b"x\r\ny\r\n"),
        (b"a\nb\n", "x\ny", b"x\ny"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        ("日本語\n".encode("cp932"), "追加\n", "追加\n".encode("cp932")),
    ],
)
async def test_a_whole_write_keeps_encoding_bom_and_line_ends(
    world: World, before: bytes, content: str, after: bytes
) -> None:
    path = world.write("a", before)
    await world.call(READ, file_path="a")
    result = await world.call(WRITE, file_path="a", content=content)
    assert not result.is_error, result.text
    assert path.read_bytes() == after


async def test_two_writers_of_one_file_never_mix_and_never_lose_a_change_unnoticed(world: World) -> None:
    world.write("a", "0\n")
    one, two = world.context(), world.context()
    args = [
        msgspec.convert({"file_path": "a", "old_string": "0", "new_string": letter * 1000}, EDIT.arguments)
        for letter in "xy"
    ]
    prepared = [await EDIT.prepare(ctx, arg) for ctx, arg in zip((one, two), args, strict=True)]
    first, second = prepared
    assert isinstance(first, Prepared) and isinstance(second, Prepared)
    results = await asyncio.gather(EDIT.run(one, args[0], first), EDIT.run(two, args[1], second))
    text = (world.root / "a").read_text()
    assert text in ("x" * 1000 + "\n", "y" * 1000 + "\n")
    failed = [result.is_error for result in results if isinstance(result, ToolResult)]
    assert sorted(failed) == [False, True]
