"""`export` as JSON (interface.md): everything about a job, redacted, the same each time, page by page."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import engine.export
from engine.config import ModelSettings, WorkerSettings
from engine.core.errors import BadArgument, NotFound
from engine.core.export import MOST_DIFF, MOST_DIFFS, Export, exported_changes
from engine.core.views import FileChanged, to_wire
from engine.export import export_json, export_to_file
from engine.llm.scripted import ScriptReply, ScriptRequest, call
from engine.paths import task_dir
from maestro_lsp.shapes import AnyEvent
from tests.engine.rig import Rig, rig
from tests.engine.test_prune import SPAWNER
from tests.engine.test_prune import script as family

KEY = "hunter2-not-in-the-export"


def script(request: ScriptRequest) -> ScriptReply:
    """Writes a file with odd characters, asks, notes the brief, ends."""
    if not request.results("Write"):
        return call("Write", file_path="a.txt", content="one\ntwo \u202e three\n")
    if not request.contains("green"):
        return call("complete", status="needs_user_input", result="Which colour?", options=["red", "green"])
    if not request.results("MissionUpdate"):
        return call("MissionUpdate", goal="A \u200b goal", done="a.txt")
    return call("complete", status="success", result=f"Done. The key is {KEY}.")


async def exported(it: Rig, job: str) -> str:
    return "".join([part async for part in export_json(it.client, job)])


async def ended(it: Rig) -> str:
    job = await it.start("write it", piece="spawner")
    await it.open_request(job)
    await it.client.answer(job, "green")
    await it.until(job, lambda d: d.status == "succeeded")
    return job


async def test_a_json_export_holds_everything_and_round_trips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.export, "_PAGE", 3)
    async with rig(tmp_path, script, pieces={"spawner": SPAWNER}) as it:
        job = await ended(it)
        text = await exported(it, job)
        assert text == await exported(it, job), "the same each time"
        tree = json.loads(text)
        assert (tree["format"], tree["version"]) == ("maestro.export", 1)
        document = msgspec.convert(tree, Export)
        assert to_wire(document) == tree
        assert to_wire(await it.client.show(job)) == tree["job"]
        assert tree["events"] == await it.client.events(job)
        for event in tree["events"]:
            msgspec.convert(event, AnyEvent)
        [change] = document.changes
        assert (change.path, change.status, change.diff) == (
            "a.txt",
            "added",
            "@@ -0,0 +1,2 @@\n+one\n+two \u202e three",
        )
        [request] = document.job.requests
        assert request.settled is not None
        assert (request.settled.text, request.settled.by) == ("green", "test") and request.settled.at
        assert [(c.author, c.text) for c in document.job.comments][1] == ("user", "green")
        assert document.job.brief.goal == "A \u200b goal"


async def test_no_key_and_nothing_invisible_is_in_the_text(tmp_path: Path) -> None:
    async with rig(tmp_path, script, pieces={"spawner": SPAWNER}) as it:
        job = await ended(it)
        assert KEY in await exported(it, job), "nobody knows yet that it is one"
        it.client.config = replace(it.client.config, llm=replace(it.client.config.llm, api_key=KEY))
        text = await exported(it, job)
        assert KEY not in text and "[redacted]" in text
        assert "\u202e" not in text and "\\u202e" in text
        assert "\u200b" not in text and "\\u200b" in text


async def test_a_key_of_any_worker_is_masked_and_so_is_one_that_a_diff_would_cut_in_two(
    tmp_path: Path,
) -> None:
    def model(request: ScriptRequest) -> ScriptReply:
        if request.results("Write"):
            return call("complete", status="success", result=f"It is {KEY}.")
        return call("Write", file_path="a.txt", content=f"{'x' * (MOST_DIFF - 25)} {KEY}\n")

    async with rig(tmp_path, model, pieces={"spawner": SPAWNER}) as it:
        job = await it.start("write it", piece="spawner")
        await it.until(job, lambda d: d.status == "succeeded")
        other = WorkerSettings("other", ModelSettings(endpoint="http://127.0.0.1:1/v1", api_key=KEY))
        it.client.config = replace(it.client.config, workers=(other,))
        text = await exported(it, job)
        assert KEY[:6] not in text and "xxx [reda" in text


async def test_children_are_told_by_reference(tmp_path: Path) -> None:
    async with rig(tmp_path, family, pieces={"spawner": SPAWNER}) as it:
        parent = await it.start("please split", piece="spawner")
        detail = await it.until(parent, lambda d: bool(d.children) and bool(d.open_requests))
        [child] = json.loads(await exported(it, parent))["job"]["children"]
        assert child["jobId"] == detail.children[0].job_id and child["title"] == "please part"


async def test_an_unknown_job_is_named(tmp_path: Path) -> None:
    async with rig(tmp_path, script, start_engine=False) as it:
        with pytest.raises(NotFound):
            await exported(it, "j-none")


async def test_a_document_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    async with rig(tmp_path, script, start_engine=False) as it:

        async def parts(fails: bool) -> AsyncIterator[str]:
            yield "half "
            if fails:
                raise RuntimeError("broken off")
            yield "日本\ud800\n"

        output = task_dir(it.workspace, "t-1") / "output"
        path = await export_to_file(it.client, "t-1", "x.md", parts(False))
        assert path == output / "x.md" and path.read_text() == "half 日本?\n"
        with pytest.raises(RuntimeError):
            await export_to_file(it.client, "t-1", "x.md", parts(True))
        assert path.read_text() == "half 日本?\n"
        assert [found.name for found in output.iterdir()] == ["x.md"]


async def test_a_link_on_the_way_is_refused_and_one_in_its_place_is_replaced(tmp_path: Path) -> None:
    async with rig(tmp_path, script, start_engine=False) as it:

        async def parts() -> AsyncIterator[str]:
            yield "text"

        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "victim").write_text("mine")
        path = await export_to_file(it.client, "t-1", "x.md", parts())
        path.unlink()
        path.symlink_to(outside / "victim")
        await export_to_file(it.client, "t-1", "x.md", parts())
        assert not path.is_symlink() and (outside / "victim").read_text() == "mine"
        task_dir(it.workspace, "t-2").symlink_to(outside)
        with pytest.raises(BadArgument):
            await export_to_file(it.client, "t-2", "x.md", parts())
        assert [found.name for found in outside.iterdir()] == ["victim"]


def test_diffs_end_where_the_room_ends() -> None:
    lines = "\n".join(f"line {number}" for number in range(10_000))
    files = [FileChanged(path=f"f{n}", status="added", after=lines) for n in range(30)]
    found = exported_changes(files)
    assert len(found) == 30 and all(len(change.diff) <= MOST_DIFF and change.cut for change in found)
    assert sum(len(change.diff) for change in found) <= MOST_DIFFS
    assert found[0].diff.startswith("@@") and found[-1].diff == ""


@pytest.mark.parametrize("path", [".env", "deploy/id_rsa", ".ssh/config"])
def test_a_file_that_usually_holds_secrets_is_named_and_not_shown(path: str) -> None:
    [change] = exported_changes([FileChanged(path=path, status="added", after="TOKEN=abc\n")])
    assert (change.path, change.diff, change.cut) == (path, "", True)
