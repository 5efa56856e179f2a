"""`prune` (interface.md): tasks that ended long ago are forgotten whole, and nothing else is."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import BadArgument, NotFound
from engine.core.prune import Known, old_families, seconds_of
from engine.llm.scripted import ScriptReply, ScriptRequest, call
from engine.paths import TASKS, task_dir
from engine.prune import age_of, prune_tasks
from tests.engine.rig import Rig, rig

FAR = -3_600.0
"""An age that everything has: it ends an hour from now."""

SPAWNER = """
name: spawner
description: x
max_movements: 5
initial_movement: work
movements:
  - name: work
    edit: true
    persona: p
    instruction: i
    allowed_tools: [Write, SpawnSubTask, WaitSubTask]
    rules: []
"""


def script(request: ScriptRequest) -> ScriptReply:
    """``part`` asks the person once; ``split`` makes a part and waits for it; anything else writes a file."""
    if request.contains("please split"):
        if request.contains("part done"):
            return call("complete", status="success", result="all done")
        if request.results("SpawnSubTask"):
            return call("WaitSubTask")
        return call("SpawnSubTask", instruction="please part", piece="spawner")
    if request.contains("please part"):
        if request.contains("green"):
            return call("complete", status="success", result="part done")
        return call("complete", status="needs_user_input", result="Which colour?")
    if not request.results("Write"):
        return call("Write", file_path="a.txt", content="hello\n")
    return call("complete", status="success", result="Fine.")


def rows(it: Rig) -> dict[str, int]:
    """How many rows each table about tasks and jobs holds."""
    with closing(sqlite3.connect(it.client.store_file)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {n: db.execute(f"SELECT count(*) FROM {n}").fetchone()[0] for n in names if n != "meta"}


async def test_an_ended_task_goes_from_every_table_and_from_the_workspace(tmp_path: Path) -> None:
    async with rig(tmp_path, script, pieces={"spawner": SPAWNER}) as it:
        job = await it.start("write it", piece="spawner")
        detail = await it.until_rest(job)
        folder = task_dir(it.workspace, detail.task_id)
        (folder / "output" / "report.md").write_text("x" * 1000)
        assert sum(rows(it).values()) > 10
        young = await prune_tasks(it.client, 3600)
        assert (young.tasks, young.bytes) == (0, 0) and folder.is_dir()
        told = await prune_tasks(it.client, FAR, dry_run=True)
        assert (told.tasks, told.jobs, told.dry_run) == (1, 1, True) and told.bytes > 1000
        assert folder.is_dir() and (await it.client.show(job)).status == "succeeded"
        done = await prune_tasks(it.client, FAR)
        assert (done.tasks, done.jobs, done.bytes, done.left) == (1, 1, told.bytes, [])
        assert {name: count for name, count in rows(it).items() if count} == {}
        assert [path.name for path in (it.workspace / TASKS).iterdir()] == [".gitignore"]
        assert (it.workspace / "a.txt").read_text() == "hello\n", "what the job made is not the task's"
        with pytest.raises(NotFound):
            await it.client.comment(detail.task_id, "go on")
        with pytest.raises(NotFound):
            await it.client.show(job)
        assert (await prune_tasks(it.client, FAR)).tasks == 0


async def test_who_follows_misses_nothing_after_the_newest_events_were_pruned(tmp_path: Path) -> None:
    async with rig(tmp_path, script, pieces={"spawner": SPAWNER}) as it:
        await it.until_rest(await it.start("write it", piece="spawner"))
        heard: list[dict[str, Any]] = []

        async def hear(events: list[dict[str, Any]]) -> None:
            heard.extend(events)

        following = asyncio.create_task(it.client.follow(hear, after=await it.client.mark()))
        await prune_tasks(it.client, FAR)
        job = await it.start("write it", piece="spawner")
        detail = await it.until_rest(job)
        stored = await it.client.events(detail.job_id)
        async with asyncio.timeout(5):
            while len(heard) < len(stored):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert heard == stored
        following.cancel()


async def test_a_parked_job_keeps_its_task_and_its_whole_family(tmp_path: Path) -> None:
    async with rig(tmp_path, script, pieces={"spawner": SPAWNER}) as it:
        parent = await it.start("please split", piece="spawner")
        detail = await it.until(parent, lambda d: d.status == "waiting_subtasks" and bool(d.open_requests))
        [child] = detail.children
        assert (child.title, child.status) == ("please part", "waiting_human")
        before = rows(it)
        assert (await prune_tasks(it.client, FAR)).tasks == 0
        assert rows(it) == before
        await it.client.answer(child.job_id, "green")
        await it.until(parent, lambda d: d.status == "succeeded")
        done = await prune_tasks(it.client, FAR)
        assert (done.tasks, done.jobs) == (2, 2)


async def test_a_task_that_was_taken_up_meanwhile_stays(tmp_path: Path) -> None:
    """The look and the removal are two transactions: what happens between them counts."""
    async with rig(tmp_path, script, pieces={"spawner": SPAWNER}) as it:
        detail = await it.until_rest(await it.start("write it", piece="spawner"))
        await it.stop()
        assert await it.client.comment(detail.task_id, "and now?") is not None
        moved: list[str] = []
        gone = await it.client.db(
            it.client.store.forget, (detail.task_id,), it.client.now() + 3600, lambda: moved.append("x")
        )
        assert (gone, moved) == (False, [])
        assert len(await it.client.list_jobs()) == 2


async def test_folders_that_a_dead_prune_left_aside_go_with_the_next(tmp_path: Path) -> None:
    async with rig(tmp_path, script, start_engine=False) as it:
        tasks = it.workspace / TASKS
        (tasks / ".pruned-t-1" / "logs").mkdir(parents=True)
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "keep").write_text("x")
        (tasks / ".pruned-t-2").symlink_to(outside)
        assert (await prune_tasks(it.client, FAR)).left == []
        assert not (tasks / ".pruned-t-1").exists() and (outside / "keep").exists()


async def test_a_task_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    async with rig(tmp_path, script, pieces={"spawner": SPAWNER}) as it:
        detail = await it.until_rest(await it.start("write it", piece="spawner"))
        folder, outside = task_dir(it.workspace, detail.task_id), tmp_path / "outside"
        folder.rename(outside)
        folder.symlink_to(outside)
        assert (await prune_tasks(it.client, FAR)).tasks == 1
        assert (outside / "logs").is_dir() and folder.is_symlink()


def known(job: str, task: str, *, at: float = 0, ended: bool = True, **kin: str) -> Known:
    return Known(job, task, kin.get("parent"), kin.get("by"), ended, at)


@pytest.mark.parametrize(
    ("jobs", "old"),
    [
        ([], []),
        ([known("j1", "t1")], [("t1",)]),
        ([known("j1", "t1", at=10)], []),
        ([known("j1", "t1"), known("j2", "t1", ended=False)], []),
        ([known("j1", "t1"), known("j2", "t1", at=11)], []),
        ([known("j1", "t1", at=5), known("j2", "t2", at=3)], [("t2",), ("t1",)]),
        ([known("j1", "t1"), known("j2", "t2", parent="j1", ended=False)], []),
        ([known("j1", "t1", ended=False), known("j2", "t2", parent="j1")], []),
        ([known("j1", "t1", ended=False), known("j2", "t2", by="j1")], []),
        (
            [known("j1", "t1"), known("j2", "t2", parent="j1"), known("j3", "t3", parent="j2")],
            [("t1", "t2", "t3")],
        ),
        ([known("j2", "t2", by="r-in-another-store")], [("t2",)]),
    ],
)
def test_only_families_that_are_old_and_at_rest_are_forgotten(
    jobs: list[Known], old: list[tuple[str, ...]]
) -> None:
    assert old_families(jobs, before=10.0) == old


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30d", 2_592_000), ("12h", 43_200), ("4w", 2_419_200), ("90min", 5_400), (" 1 D ", 86_400), ("0d", 0)],
)
def test_ages_are_read_as_people_write_them(text: str, seconds: int) -> None:
    assert age_of(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "30", "d", "-3d", "1.5d", "3m", "3 months", "٣d", "999999d", "1d2h", "\n"]
)
def test_nonsense_is_no_age(text: str) -> None:
    assert seconds_of(text) is None
    with pytest.raises(BadArgument):
        age_of(text)
