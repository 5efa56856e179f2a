"""What a job's commands changed is noted: whatever it was, however it ended, and if the engine died."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.limits import Snapshots
from engine.llm.scripted import ScriptReply
from engine.ports import Buffer
from tests.engine.killed import spawn
from tests.engine.odd import DONE
from tests.engine.rig import Rig, rig
from tests.engine.trees import PIECE, acting, allow_all, bash, edit, play, tree_of, write

OFF: dict[str, Any] = {"pieces": {"one": PIECE}, "sandbox": "off"}


async def listed(it: Rig, job: str) -> dict[str, str]:
    """Status by path."""
    return {file.path: file.status for file in await it.client.changes(job)}


async def test_changes_tell_status_text_mode_link_and_the_old_name(tmp_path: Path) -> None:
    command = (
        "echo 2 > mod; rm gone; echo n > new; mv old moved; chmod 755 sh; ln -s mod l; printf '\\0' > bin;"
        " mkdir folder; : > e1; rm empty"
    )
    async with rig(tmp_path, acting([bash(command)]), **OFF) as it:
        for name in ("mod", "gone", "old", "sh"):
            (it.workspace / name).write_text(f"{name}\n")
        (it.workspace / "sh").chmod(0o644)
        (it.workspace / "empty").touch()
        job = await play(it)
        found = {file.path: file for file in await it.client.changes(job)}
        assert {path: (file.status, file.before, file.after) for path, file in found.items()} == {
            "mod": ("modified", "mod\n", "2\n"),
            "gone": ("deleted", "gone\n", None),
            "new": ("added", None, "n\n"),
            "moved": ("renamed", "old\n", "old\n"),
            "sh": ("modified", "sh\n", "sh\n"),
            "l": ("added", None, "mod"),
            "bin": ("added", None, None),
            "e1": ("added", None, ""),
            "empty": ("deleted", "", None),
        }
        assert found["moved"].renamed_from == "old" and found["l"].link and found["bin"].binary
        assert (found["sh"].before_mode, found["sh"].after_mode) == ("0644", "0755")
        assert all(file.current_matches for file in found.values())
        (it.workspace / "new").write_text("person\n")
        (it.workspace / "sh").chmod(0o600)
        found = {file.path: file for file in await it.client.changes(job)}
        assert [path for path, file in found.items() if not file.current_matches] == ["new", "sh"]


async def test_the_first_state_before_stays_whoever_changes_a_file_next(tmp_path: Path) -> None:
    actions = [
        ("Read", {"file_path": "f"}),
        edit("f", "0", "1"),
        bash("echo 2 > f"),
        write("g", "g\n"),
        bash("rm g"),
    ]
    async with rig(tmp_path, acting(actions), **OFF) as it:
        (it.workspace / "f").write_text("0\n")
        job = await play(it)
        [file] = await it.client.changes(job)
        assert (file.path, file.before, file.after, file.current_matches) == ("f", "0\n", "2\n", True)


async def test_ignored_trees_git_and_the_tasks_folder_are_left_alone(tmp_path: Path) -> None:
    command = (
        "echo x > built/x; mkdir .git __pycache__; echo x > __pycache__/a.pyc; echo x > .git/x;"
        " echo x > $MAESTRO_OUTPUT/x; echo x > seen"
    )
    async with rig(tmp_path, acting([bash(command)]), **OFF) as it:
        (it.workspace / ".gitignore").write_text("built/\n")
        (it.workspace / "built").mkdir()
        job = await play(it)
        assert await listed(it, job) == {"seen": "added"}
        done = await it.client.revert(job)
        assert done.reverted == ["__pycache__/", "__pycache__/a.pyc", "seen"], "caches go without a word"


async def test_a_person_who_edits_between_two_edits_of_the_job_is_never_put_back(tmp_path: Path) -> None:
    path = tmp_path / "work" / "f"

    def script(request: Any) -> Any:
        done = len(request.results("Bash"))
        if done == 1:
            path.write_text("person\n")
        return acting([bash("echo 1 > f"), bash("echo 2 >> f")])[done]

    async with rig(tmp_path, script, **OFF) as it:
        path.write_text("0\n")
        job = await play(it)
        assert path.read_text() == "person\n2\n"
        done = await it.client.revert(job)
        assert done.reverted == [] and [one.reason for one in done.kept] == ["unsure"]


class Editor:
    """Open documents, as a front would tell of them."""

    def __init__(self, unsaved: list[Path], opened: list[Path]) -> None:
        self.unsaved, self.opened = unsaved, opened

    async def read(self, path: Path) -> Buffer | None:
        return Buffer("", 1, path in self.unsaved) if path in self.opened else None

    async def dirty(self) -> list[Path]:
        return self.unsaved


async def test_a_document_with_unsaved_changes_is_the_persons(tmp_path: Path, monkeypatch: Any) -> None:
    """Saved while the command runs, or changed by it: nobody can tell."""
    path = tmp_path / "work" / "f"
    monkeypatch.setattr("engine.service.NoDocuments", lambda: Editor([path], [path]))
    async with rig(tmp_path, acting([bash("echo 1 > f; echo 1 > g")]), **OFF) as it:
        path.write_text("0\n")
        job = await play(it)
        done = await it.client.revert(job)
        assert done.reverted == ["g"] and {one.path: one.reason for one in done.kept} == {"f": "unsure"}


async def test_what_a_background_command_changes_is_noted_until_it_is_stopped(
    tmp_path: Path, monkeypatch: Any
) -> None:
    work = tmp_path / "work"
    monkeypatch.setattr("engine.service.NoDocuments", lambda: Editor([], [work / "opened"]))
    command = "echo 1 > early; until [ -e go ]; do sleep 0.01; done; echo 1 > late; echo 1 > opened; sleep 60"

    def script(request: Any) -> ScriptReply:
        results = request.results()
        if not results:
            return acting([bash(command, background=True)])[0]
        if len(results) == 1:
            (work / "go").touch()
            end = time.monotonic() + 10
            while not (work / "opened").exists() and time.monotonic() < end:
                time.sleep(0.01)
        return DONE

    async with rig(tmp_path, script, **OFF) as it:
        job = await play(it)
        assert (await it.until_rest(job)).status == "succeeded"
        found = await listed(it, job)
        assert {"early", "late", "opened"} <= found.keys()
        done = await it.client.revert(job)
        assert {"early", "late"} <= set(done.reverted)
        assert {one.path: one.reason for one in done.kept} == {"opened": "unsure"}
        assert list((tmp_path / "state" / "checkpoints").glob("*.before")) == []


async def test_a_command_that_is_cancelled_is_noted_too(tmp_path: Path) -> None:
    async with rig(tmp_path, acting([bash("echo 1 > f; rm g; sleep 60")]), **OFF) as it:
        (it.workspace / "g").write_text("g\n")
        job = await it.start(piece="one")
        await it.client.decide((await it.open_request(job)).request_id, "allow")
        await appears(it.workspace / "g", there=False)
        await it.client.cancel(job)
        await it.until(job, lambda detail: detail.status == "cancelled")
        assert await listed(it, job) == {"f": "added", "g": "deleted"}
        assert (await it.client.revert(job)).reverted == ["f", "g"]
        assert (it.workspace / "g").read_text() == "g\n" and not (it.workspace / "f").exists()


async def killed_while_it_ran(it: Rig, command: str, seen: str) -> tuple[str, Path]:
    """A job whose engine was killed after its command had made ``seen``, and the baseline that was left."""
    job = await it.start(piece="one")
    engine = await spawn(it)
    await it.client.decide((await it.open_request(job)).request_id, "allow")
    await appears(it.workspace / seen)
    engine.kill()
    await engine.wait()
    [left] = (it.client.store_file.parent / "checkpoints").glob("*.before")
    return job, left


async def appears(path: Path, there: bool = True) -> None:
    """Wait until a file is there, or is not."""
    async with asyncio.timeout(20):
        while path.exists() is not there:  # noqa: ASYNC110 - there is no event for a file
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("then", ["goes on", "is cancelled"])
async def test_an_engine_that_is_killed_during_a_command_leaves_nothing_unnoted(
    tmp_path: Path, then: str
) -> None:
    command = "echo 1 > f; rm g; mkdir d; echo 1 > d/x; sleep 60"
    async with rig(tmp_path, acting([bash(command)]), start_engine=False, **OFF) as it:
        (it.workspace / "g").write_text("g\n")
        before = tree_of(it.workspace)
        job, left = await killed_while_it_ran(it, command, "d/x")
        if then == "is cancelled":
            await it.client.cancel(job)
        await it.engine()
        await it.until(job, lambda detail: detail.status in ("succeeded", "cancelled"), within=20)
        await appears(left, there=False)
        assert await listed(it, job) == {"f": "added", "g": "deleted", "d/x": "added"}
        await it.client.revert(job)
        assert tree_of(it.workspace) == before


async def test_after_a_crash_what_changed_long_after_the_last_sign_is_the_persons(tmp_path: Path) -> None:
    command = "echo 1 > f; sleep 60"
    async with rig(tmp_path, acting([bash(command)]), start_engine=False, **OFF) as it:
        (it.workspace / "mine").write_text("mine\n")
        job, left = await killed_while_it_ran(it, command, "f")
        an_hour_ago = time.time() - 3600
        os.utime(left, (an_hour_ago, an_hour_ago))
        (it.workspace / "mine").write_text("person\n")
        await it.engine()
        await it.until(job, lambda detail: detail.status == "succeeded", within=20)
        done = await it.client.revert(job)
        assert {one.path: one.reason for one in done.kept} == {"f": "unsure", "mine": "unsure"}
        assert (it.workspace / "mine").read_text() == "person\n"


async def test_what_another_job_wrote_meanwhile_is_its_own(tmp_path: Path) -> None:
    work = tmp_path / "work"

    def script(request: Any) -> ScriptReply:
        if request.results():
            return DONE
        if request.contains("writes"):
            return acting([write("theirs", "t\n")])[0]
        return acting(
            [bash("touch started; until [ -e theirs ]; do sleep 0.01; done; sleep 0.2; echo 1 > mine")]
        )[0]

    async with rig(tmp_path, script, max_concurrency=2, **OFF) as it:
        slow = await it.start("waits", piece="one")
        await it.client.decide((await it.open_request(slow)).request_id, "allow")
        await appears(work / "started")
        quick = await play(it, "writes")
        await allow_all(it, slow)
        assert await listed(it, quick) == {"theirs": "added"}
        assert await listed(it, slow) == {"started": "added", "mine": "added"}


async def test_a_workspace_with_too_many_files_runs_commands_and_notes_nothing(tmp_path: Path) -> None:
    limits = replace(Snapshots(), most_files=3)
    async with rig(tmp_path, acting([bash("echo 1 > f")]), snapshots=limits, **OFF) as it:
        job = await play(it)
        assert (await it.client.show(job)).status == "succeeded"
        assert await listed(it, job) == {}


async def test_a_state_folder_that_cannot_be_written_does_not_keep_commands_from_running(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path, acting([bash("echo 1 > f")]), start_engine=False, **OFF) as it:
        (tmp_path / "state" / "contents.db").mkdir()
        (tmp_path / "state" / "checkpoints").write_text("in the way")
        await it.engine()
        job = await play(it)
        assert (await it.client.show(job)).status == "succeeded" and (it.workspace / "f").exists()


async def test_bytes_are_private_and_kept_once(tmp_path: Path) -> None:
    async with rig(tmp_path, acting([bash("echo 1 > a"), bash("echo 2 > a")]), **OFF) as it:
        for name in ("a", "b", "c"):
            (it.workspace / name).write_text("the same\n")
        await play(it)
        state = tmp_path / "state"
        assert {path.stat().st_mode & 0o077 for path in state.glob("contents.db*")} == {0}
        assert {path.stat().st_mode & 0o077 for path in (state / "checkpoints").rglob("*")} == {0}
