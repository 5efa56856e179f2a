"""The workspace: what it may be, what is in it, and programs that are never taken from it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from engine.core.errors import BadArgument
from engine.core.tooling import PathClass
from engine.workspace import (
    Refused,
    atomic_write,
    bytes_hash,
    file_hash,
    find_program,
    folder_of,
    git_branch,
    list_task_files,
    read_content,
    refuse_workspace,
    remove_temporaries,
    resolve,
)
from tests.tools.world import World

# --- paths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "relative", "kind"),
    [
        ("src/a.py", "src/a.py", PathClass.WORKSPACE),
        ("./src//a.py", "src/a.py", PathClass.WORKSPACE),
        ("src/../a.py", "a.py", PathClass.WORKSPACE),
        (".", ".", PathClass.WORKSPACE),
        ("日本/が.txt", "日本/が.txt", PathClass.WORKSPACE),
        (".git/config", ".git/config", PathClass.PROTECTED),
        (".maestro/tasks/task-1/input/x", ".maestro/tasks/task-1/input/x", PathClass.TASK),
        (".maestro/tasks/other/input/x", ".maestro/tasks/other/input/x", PathClass.PROTECTED),
    ],
)
def test_a_path_is_classified_by_where_it_lies(
    world: World, asked: str, relative: str, kind: PathClass
) -> None:
    world.write("src/keep", "")
    place = resolve(world.root, world.task, asked)
    assert (place.relative, place.kind) == (relative, kind)


def test_a_workspace_that_is_reached_by_a_link_is_the_same_workspace(world: World) -> None:
    alias = world.root.parent / "alias"
    alias.symlink_to(world.root)
    world.write("a", "x")
    place = resolve(alias, alias / ".maestro/tasks/task-1", str(alias / "a"))
    assert place.path == world.root / "a"
    assert resolve(alias, alias / ".maestro/tasks/task-1", str(world.root / "a")).path == place.path


def test_a_tasks_folder_that_is_a_link_leads_nowhere(world: World) -> None:
    outside = world.root.parent / "outside"
    (outside / "task-9" / "output").mkdir(parents=True)
    (world.root / ".maestro" / "tasks" / "link").symlink_to(outside)
    task = world.root / ".maestro" / "tasks" / "link" / "task-9"
    with pytest.raises(Refused, match="outside"):
        resolve(world.root, task, ".maestro/tasks/link/task-9/output/x")


def test_a_tasks_folder_outside_the_workspace_is_a_second_root(world: World, tmp_path: Path) -> None:
    task = (tmp_path / "elsewhere").resolve()
    (task / "output").mkdir(parents=True)
    place = resolve(world.root, task, str(task / "output" / "r.md"))
    assert place.kind is PathClass.TASK
    with pytest.raises(Refused):
        resolve(world.root, task, str(tmp_path / "elsewhere2"))


@pytest.mark.fault("C: leaving the workspace")
def test_a_folder_that_became_a_link_is_not_opened(world: World) -> None:
    world.write("sub/a", "inside")
    place = resolve(world.root, world.task, "sub/a")
    outside = world.root.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("outside")
    (world.root / "sub").rename(world.root / "was")
    (world.root / "sub").symlink_to(outside)
    with pytest.raises(Refused, match="not a folder"), folder_of(place):
        pass
    with pytest.raises(Refused):
        read_content(place, 100)


# --- writing ----------------------------------------------------------------------------------------


def test_a_write_is_whole_and_leaves_nothing_beside_it(world: World) -> None:
    place = resolve(world.root, world.task, "deep/er/a")
    atomic_write(place, b"one", expected=None, like=None, label="call-1")
    assert file_hash(place) == bytes_hash(b"one")
    atomic_write(place, b"two", expected=bytes_hash(b"one"), like=read_content(place, 10), label="call-1")
    assert place.path.read_bytes() == b"two"
    assert [path.name for path in place.path.parent.iterdir()] == ["a"]
    with pytest.raises(Refused, match="changed meanwhile"):
        atomic_write(place, b"three", expected=bytes_hash(b"one"), like=None, label="call-1")
    assert place.path.read_bytes() == b"two"


def test_what_a_killed_write_left_is_found_by_its_label(world: World) -> None:
    place = resolve(world.root, world.task, "src/a")
    for name in (".maestro-call-1-0a1b2c3d.tmp", ".maestro-call-2-0a1b2c3d.tmp", "a"):
        world.write(f"src/{name}", "x")
    assert remove_temporaries(place, "call-1") == 1
    assert sorted(path.name for path in (world.root / "src").iterdir()) == [
        ".maestro-call-2-0a1b2c3d.tmp",
        "a",
    ]
    assert remove_temporaries(resolve(world.root, world.task, "missing/a"), "call-1") == 0


def test_a_missing_file_has_no_hash(world: World) -> None:
    assert file_hash(resolve(world.root, world.task, "missing/a")) is None


# --- facts ------------------------------------------------------------------------------------------


def test_the_files_of_a_task_are_listed_up_to_two_hundred_and_then_counted(world: World) -> None:
    for number in range(250):
        (world.task / "input" / f"{number:03}.txt").write_text("")
    (world.task / "output" / "sub").mkdir()
    (world.task / "output" / "sub" / "r.md").write_text("")
    (world.task / "output" / "link").symlink_to("/etc/passwd")
    listed = list_task_files(world.task)
    assert len(listed.names) == 200 and listed.names[0] == "input/000.txt"
    assert listed.more == 51
    assert list_task_files(world.root / "no such task").names == ()


def git(folder: Path, *words: str) -> None:
    names = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *names, "-C", str(folder), *words], check=True, capture_output=True)


@pytest.mark.needs("git")
def test_the_branch_is_read_from_the_repository_a_worktree_and_a_detached_head(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    assert git_branch(root) is None
    git(root, "init", "-q")
    assert git_branch(root) == "main"
    git(root, "commit", "-q", "--allow-empty", "-m", "x")
    git(root, "checkout", "-q", "-b", "feature/日本")
    assert git_branch(root) == "feature/日本"
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    assert git_branch(tmp_path / "tree") == "other"
    git(root, "checkout", "-q", "--detach")
    commit = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    assert git_branch(root) == commit.stdout[:12]


def test_a_head_that_is_none_is_no_branch(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for head in (b"", b"ref: refs/heads/\x1b[31m", b"\xff" * 100, b"x" * 10_000_000):
        (tmp_path / ".git" / "HEAD").write_bytes(head)
        assert git_branch(tmp_path) is None


def test_the_home_folder_its_parents_and_the_state_are_no_workspace(tmp_path: Path) -> None:
    home, state = tmp_path / "home" / "me", tmp_path / "home" / "me" / "state"
    project = home / "project"
    for folder in (project, state):
        folder.mkdir(parents=True)
    refuse_workspace(project, state, home)
    for root, key in [
        (Path("/"), "too_wide"),
        (home, "too_wide"),
        (home.parent, "too_wide"),
        (state, "holds_state"),
        (project / "none", "not_a_folder"),
    ]:
        with pytest.raises(BadArgument, match=key):
            refuse_workspace(root, state, home)
    (tmp_path / "alias").symlink_to(home)
    with pytest.raises(BadArgument, match="too_wide"):
        refuse_workspace(tmp_path / "alias", state, home)


def test_a_program_is_never_taken_from_the_workspace_or_a_relative_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, tools = tmp_path / "w", tmp_path / "tools"
    for folder in (root / "bin", tools):
        folder.mkdir(parents=True)
        (folder / "tool").write_text("#!/bin/sh\n")
        (folder / "tool").chmod(0o755)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "tool").symlink_to(root / "bin" / "tool")
    monkeypatch.chdir(root)
    search = os.pathsep.join([str(root / "bin"), "bin", "", str(tmp_path / "links"), str(tools)])
    assert find_program("tool", root, search) == str(tools / "tool")
    assert find_program("tool", root, str(root / "bin")) is None
