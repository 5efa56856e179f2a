"""The engine's own git: bounded in time and output, with the person's configuration and programs alone."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from engine.workspace.git import Repository, git_env, open_repository
from tests.engine.repositories import begin, git, person

__all__ = ["person"]


def program(folder: Path, text: str) -> Repository:
    file = folder / "git.sh"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return Repository(folder, folder / ".git", str(file))


def wait_for(file: Path) -> None:
    """Until the file has a line."""
    end = time.monotonic() + 10
    while not file.exists() or not file.read_text().endswith("\n"):
        assert time.monotonic() < end
        time.sleep(0.01)


async def test_a_git_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    repository = program(tmp_path, "sleep 60 &\necho $! > pid\ntrap '' TERM\nwait\nsleep 60")
    begun = time.monotonic()
    ran = await repository.git("status", seconds=0.5)
    assert (ran.ok, ran.err) == (False, "git took longer than 0.5 seconds")
    assert time.monotonic() - begun < 5
    left = Path("/proc") / (tmp_path / "pid").read_text().strip()
    if left.parent.exists():
        state = (left / "stat").read_text().split()[2] if left.exists() else "gone"
        assert state in ("gone", "Z")


async def test_a_cancelled_call_ends_its_git(tmp_path: Path) -> None:
    repository = program(tmp_path, "echo $$ > pid\nexec sleep 60")
    task = asyncio.create_task(repository.git("status", seconds=30))
    await asyncio.to_thread(wait_for, tmp_path / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_output_without_end_is_cut(tmp_path: Path) -> None:
    ran = await program(tmp_path, "exec yes").git("diff", most=10_000)
    assert ran.ok and ran.cut and len(ran.out) == 10_000


async def test_a_large_input_is_fed_while_the_output_is_read(tmp_path: Path) -> None:
    ran = await program(tmp_path, "exec cat").git("check-attr", stdin=b"x" * 900_000)
    assert ran.ok and len(ran.out) == 900_000


def test_programs_of_the_workspace_and_foreign_settings_do_not_reach_git(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(root / "bin")
    path = os.pathsep.join([str(root / "bin"), "bin", str(tmp_path / "link"), "/usr/bin"])
    env = git_env(
        root, {"PATH": path, "HOME": "/h", "GIT_DIR": "/evil", "GIT_EXTERNAL_DIFF": "x", "LD_PRELOAD": "y"}
    )
    assert env["PATH"] == "/usr/bin"
    assert env["HOME"] == "/h"
    assert not {"GIT_DIR", "GIT_EXTERNAL_DIFF", "LD_PRELOAD"} & set(env)


@pytest.mark.needs("git")
@pytest.mark.parametrize("name", ["a=b", "a\nb"])
async def test_a_filter_that_cannot_be_switched_off_makes_the_repository_unused(
    tmp_path: Path, person: Path, name: str
) -> None:
    begin(tmp_path, {"a.txt": "a\n"})
    assert await open_repository(tmp_path) is not None
    if name == "a=b":
        git(tmp_path, "config", f"filter.{name}.clean", "touch mark")
    else:
        with (tmp_path / ".git" / "config").open("a") as file:
            file.write('[filter "a\x01b"]\n\tclean = touch mark\n')
    assert await open_repository(tmp_path) is None


@pytest.mark.needs("git")
async def test_a_work_tree_elsewhere_is_not_looked_at(tmp_path: Path, person: Path) -> None:
    root, other = tmp_path / "work", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    begin(root, {"a.txt": "a\n"})
    git(root, "config", "core.worktree", str(other))
    assert await open_repository(root) is None
