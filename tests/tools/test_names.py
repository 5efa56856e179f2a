"""Names of files: any that a file system holds, in any Unicode form; links, second names, and what belongs
to a file besides its bytes.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from engine.core.tooling import PathClass, Prepared, ToolResult, ToolSpec
from engine.tools.files import READ
from engine.tools.writing import EDIT, WRITE
from engine.workspace import Refused, resolve
from tests.tools.world import World

NFC, NFD = "がぎ é.txt", unicodedata.normalize("NFD", "がぎ é.txt")


@pytest.mark.parametrize(
    "name",
    [
        "with space.txt",
        " leading and trailing ",
        "-rf",
        "--",
        "new\nline.txt",
        "tab\there",
        "日本語のファイル.txt",
        "👨‍👩‍👧‍👦.md",
        "'quoted' \"twice\" `thrice`",
        "$HOME",
        "*?[x]",
        "C:\\dir\\file.txt",
        "あ" * 85,
        "x" * 255,
        "\u202eexe.txt",
    ],
)
async def test_a_file_of_any_name_is_made_read_and_edited(world: World, name: str) -> None:
    made = await world.call(WRITE, file_path=f"sub/{name}", content="one\n")
    assert not made.is_error, made.text
    assert [entry.name for entry in (world.root / "sub").iterdir()] == [name]
    assert (await world.call(READ, file_path=f"sub/{name}")).text == "    1\tone\n"
    prepared = await world.prepare(EDIT, file_path=f"sub/{name}", old_string="one", new_string="two")
    assert isinstance(prepared, Prepared) and "\n" not in prepared.title
    result = await world.call(EDIT, file_path=f"sub/{name}", old_string="one", new_string="two")
    assert not result.is_error and (world.root / "sub" / name).read_text() == "two\n"


@pytest.mark.parametrize("tool", ["Read", "Write"])
async def test_a_name_that_is_too_long_is_an_error_with_its_reason(world: World, tool: str) -> None:
    arguments = {"content": "x"} if tool == "Write" else {}
    for name in ("x" * 256, "あ" * 86, "d/" * 2100 + "x"):
        result = await world.call(READ if tool == "Read" else WRITE, file_path=name, **arguments)
        assert result.is_error and ("too long" in result.text or "4096" in result.text)


@pytest.mark.parametrize(("stored", "asked"), [(NFC, NFD), (NFD, NFC)])
async def test_a_name_is_found_in_its_other_unicode_form_and_no_second_file_is_made(
    world: World, stored: str, asked: str
) -> None:
    path = world.write(f"{stored}.d/{stored}", "one\n")
    assert (await world.call(READ, file_path=f"{asked}.d/{asked}")).text == "    1\tone\n"
    assert list(world.marks) == [str(path)]
    result = await world.call(WRITE, file_path=f"{asked}.d/{asked}", content="two\n")
    assert not result.is_error and path.read_text() == "two\n"
    assert [entry.name for entry in path.parent.iterdir()] == [stored]
    assert [change.path for change in result.changes] == [f"{stored}.d/{stored}"]
    new = await world.call(WRITE, file_path=f"{asked}.d/new が", content="")
    assert not new.is_error and (path.parent / "new が").exists()


async def test_of_two_names_that_look_the_same_each_is_itself_and_a_third_is_no_guess(world: World) -> None:
    world.write(NFC, "composed\n")
    world.write(NFD, "decomposed\n")
    assert "\tcomposed" in (await world.call(READ, file_path=NFC)).text
    assert "\tdecomposed" in (await world.call(READ, file_path=NFD)).text
    mixed = unicodedata.normalize("NFD", "がぎ") + " é.txt"
    result = await world.call(READ, file_path=mixed)
    assert result.is_error and "2 files whose names look the same" in result.text


async def test_a_name_of_bytes_that_are_no_text_is_read_as_it_is_shown_and_never_written(
    world: World,
) -> None:
    path = Path(os.fsdecode(os.fsencode(world.root) + b"/data\xff.txt"))
    path.write_text("one\n")
    prepared = await world.prepare(READ, file_path="data\ufffd.txt")
    assert isinstance(prepared, Prepared) and prepared.paths[0][0] == "data\ufffd.txt"
    assert (await world.call(READ, file_path="data\ufffd.txt")).text == "    1\tone\n"
    near = await world.call(READ, file_path="data.txt")
    near.text.encode()
    assert "`data\ufffd.txt`" in near.text
    refused = await world.call(EDIT, file_path="data\ufffd.txt", old_string="one", new_string="two")
    assert refused.is_error and "rename it with Bash" in refused.text
    refused.text.encode()


@pytest.mark.parametrize("name", ["a\ud83d.txt", "\udfff", "sub\ud800/a"])
@pytest.mark.parametrize(
    ("tool", "given"),
    [(READ, {}), (EDIT, {"old_string": "", "new_string": "x"}), (WRITE, {"content": "x"})],
    ids=["Read", "Edit", "Write"],
)
async def test_half_a_character_in_a_path_is_refused_and_nothing_is_made(
    world: World, name: str, tool: ToolSpec, given: dict[str, str]
) -> None:
    result = await world.call(tool, file_path=name, **given)
    assert result.is_error and "half a character" in result.text
    assert [entry.name for entry in world.root.iterdir()] == [".maestro"]


# --- where a path lies ------------------------------------------------------------------------------


@pytest.mark.fault("C: leaving the workspace")
@pytest.mark.parametrize(
    "asked",
    [
        ".GIT/hooks/pre-commit",
        ".Git/config",
        ".VSCode/tasks.json",
        "sub/.vsCode/tasks.json",
        ".ＧＩＴ/config",
    ],
)
def test_a_name_that_differs_from_a_protected_one_by_case_is_protected(world: World, asked: str) -> None:
    assert resolve(world.root, world.task, asked).kind is PathClass.PROTECTED


@pytest.mark.fault("C: leaving the workspace", neighbour=True)
async def test_what_is_reached_by_a_protected_name_or_through_a_protected_link_is_protected(
    world: World,
) -> None:
    world.write("config/vscode/tasks.json", "{}\n")
    world.write("plain.json", "{}\n")
    (world.root / ".vscode").symlink_to("config/vscode")
    (world.root / ".mcp.json").symlink_to("plain.json")
    for asked in (
        ".vscode/tasks.json",
        "config/vscode/tasks.json",
        "config/vscode/new",
        ".mcp.json",
        "plain.json",
    ):
        prepared = await world.prepare(EDIT, file_path=asked, old_string="{}", new_string="[]")
        if isinstance(prepared, ToolResult):
            prepared = await world.prepare(WRITE, file_path=asked, content="[]")
        assert isinstance(prepared, Prepared) and prepared.paths[0][1] is PathClass.PROTECTED, asked
    world.write("config/other.json", "{}\n")
    prepared = await world.prepare(EDIT, file_path="config/other.json", old_string="{}", new_string="[]")
    assert isinstance(prepared, Prepared) and prepared.paths[0][1] is PathClass.WORKSPACE


def test_a_link_with_the_name_of_a_secret_is_a_secret_wherever_it_leads(world: World) -> None:
    world.write("harmless.txt", "x")
    (world.root / ".env").symlink_to("harmless.txt")
    with pytest.raises(Refused, match="secrets"):
        resolve(world.root, world.task, ".env")


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ("output/result.md", PathClass.TASK),
        ("output/.vscode/tasks.json", PathClass.PROTECTED),
        ("output/.git/hooks/pre-commit", PathClass.PROTECTED),
        ("output/sub/.envrc", None),
        ("logs/.vscode/x", PathClass.PROTECTED),
    ],
)
async def test_in_the_tasks_output_too_a_protected_name_is_asked_about(
    world: World, asked: str, kind: PathClass | None
) -> None:
    path = f".maestro/tasks/task-1/{asked}"
    prepared = await world.prepare(WRITE, file_path=path, content="x")
    if kind is None or asked.startswith("logs/"):
        assert isinstance(prepared, ToolResult) and prepared.is_error
    else:
        assert isinstance(prepared, Prepared) and prepared.paths[0][1] is kind


@pytest.mark.fault("C: leaving the workspace", neighbour=True)
async def test_a_file_with_a_second_name_is_asked_about_and_that_name_keeps_what_it_shows(
    world: World,
) -> None:
    outside = world.root.parent / "orig.txt"
    outside.write_text("a\n")
    os.link(outside, world.root / "hl.txt")
    assert (await world.call(READ, file_path="hl.txt")).text == "    1\ta\n"
    prepared = await world.prepare(EDIT, file_path="hl.txt", old_string="a", new_string="b")
    assert isinstance(prepared, Prepared) and prepared.paths == (("hl.txt", PathClass.PROTECTED),)
    result = await world.call(EDIT, file_path="hl.txt", old_string="a", new_string="b")
    assert "hard link" in result.text
    assert (outside.read_text(), (world.root / "hl.txt").read_text()) == ("a\n", "b\n")


async def test_a_link_that_is_turned_round_between_question_and_write_changes_nothing(world: World) -> None:
    world.write("one", "x\n")
    world.write("two", "x\n")
    (world.root / "link").symlink_to("one")
    context = world.context()
    args = msgspec.convert({"file_path": "link", "old_string": "x", "new_string": "y"}, EDIT.arguments)
    prepared = await EDIT.prepare(context, args)
    assert isinstance(prepared, Prepared)
    (world.root / "link").unlink()
    (world.root / "link").symlink_to("two")
    result = await EDIT.run(context, args, prepared)
    assert isinstance(result, ToolResult) and result.is_error and "changed meanwhile" in result.text
    assert (world.root / "one").read_text() == (world.root / "two").read_text() == "x\n"


# --- what belongs to a file besides its bytes ---------------------------------------------------------


async def test_extended_attributes_are_kept(world: World) -> None:
    path = world.write("a", "one\n")
    try:
        os.setxattr(path, "user.origin", b"here")
    except (OSError, AttributeError):
        return  # a system without them has none to lose
    await world.call(EDIT, file_path="a", old_string="one", new_string="two")
    assert path.read_text() == "two\n" and os.getxattr(path, "user.origin") == b"here"


async def test_a_read_only_file_is_refused_before_anybody_is_asked(world: World) -> None:
    path = world.write("a", "one\n")
    path.chmod(0o444)
    await world.call(READ, file_path="a")
    for spec, given in ((EDIT, {"old_string": "one", "new_string": "two"}), (WRITE, {"content": "two\n"})):
        result = await world.prepare(spec, file_path="a", **given)
        assert isinstance(result, ToolResult) and result.is_error
        assert "read-only (mode 0444)" in result.text and "make it writable" in result.text
    assert path.read_text() == "one\n" and stat.S_IMODE(path.stat().st_mode) == 0o444


async def test_a_folder_that_takes_no_new_files_is_refused_before_anybody_is_asked(world: World) -> None:
    path = world.write("closed/a", "one\n")
    path.parent.chmod(0o555)
    try:
        result = await world.prepare(EDIT, file_path="closed/a", old_string="one", new_string="two")
    finally:
        path.parent.chmod(0o755)
    if os.geteuid() != 0:  # whom no mode stops
        assert isinstance(result, ToolResult) and result.is_error and "may not be written" in result.text
    assert path.read_text() == "one\n"


async def test_a_device_in_the_workspace_is_not_read(world: World) -> None:
    with suppress(PermissionError):  # only root may make one
        os.mknod(world.root / "zero", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        for spec, given in ((READ, {}), (WRITE, {"content": "x"})):
            result = await world.prepare(spec, file_path="zero", **given)
            assert isinstance(result, ToolResult) and result.is_error and "a device" in result.text
