"""Odd texts, files, tools and servers: a job stands them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine.client import StartOrder
from engine.core.errors import BadArgument, EngineError, StoreFault
from engine.core.tooling import Effect, Outcome, Prepared, ToolResult
from engine.llm.scripted import ScriptReply, call, say
from engine.ports import ToolContext
from engine.service import Extras
from engine.store.sqlite import Database
from tests.engine.odd import ASK, DONE, ODD_PIECE, NoArgs, odd_tool, tool_messages
from tests.engine.rig import rig
from tests.engine.test_approvals import ONE

# -- odd texts ---------------------------------------------------------------------------------------

ODD = "\ud800 nul:\x00 bidi:\u202etxt.exe\u202c 😀 日本語"


async def test_odd_characters_pass_through_instruction_answer_and_comment(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return DONE if request.contains("The person answered") else ASK

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(f"Do {ODD}", piece="one")
        request = await it.open_request(job)
        await it.client.answer(job, f"answer {ODD}", request.request_id)
        end = await it.until_rest(job)
        assert end.status == "succeeded", end.result
        assert "日本語" in end.instruction and "😀" in end.comments[-2].text
        follow_up = await it.client.comment(end.task_id, f"more {ODD}")
        assert follow_up is not None
        assert (await it.until_rest(follow_up)).status == "waiting_human"


@pytest.mark.parametrize(
    "arguments",
    [
        ("Read", {"file_path": "\ud800"}),
        ("Write", {"file_path": "x", "content": "half \ud800"}),
        ("MissionUpdate", {"goal": "\ud800\x00"}),
        ("complete", {"status": "success", "result": "half \ud83d"}),
        (
            "complete",
            {"status": "needs_user_input", "result": "half \ud83d?", "options": ["\ud83d", "", "a", "a"]},
        ),
        ("Read\ud800", {"file_path": "x"}),
    ],
)
async def test_half_characters_from_the_model_do_not_end_a_job(tmp_path: Path, arguments: Any) -> None:
    name, values = arguments
    reply = {
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "half \ud83d",
                    "tool_calls": [
                        {
                            "id": "abcdefgh1",
                            "type": "function",
                            "function": {"name": name, "arguments": json.dumps(values)},
                        }
                    ],
                },
            }
        ]
    }
    raw = ScriptReply(raw_chunks=(json.dumps(reply).encode(),), content_type="application/json")

    def script(request: Any) -> ScriptReply:
        return DONE if request.turn else raw

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        end = await it.until_rest(job)
        assert end.status in ("succeeded", "waiting_human"), (end.reason, end.result)
        if end.status == "waiting_human":
            assert (await it.client.request(end.open_requests[0])).options == ["\ufffd", "a"]


async def test_a_huge_result_and_a_huge_answer_are_cut_to_the_budget(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return DONE if request.contains("The person answered") else ASK

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        request = await it.open_request(job)
        await it.client.answer(job, "START" + "word " * 400_000 + "END", request.request_id)
        end = await it.until_rest(job)
        assert end.status == "succeeded", (end.reason, end.result)
        assert len(it.server.requests[-1]) < 1_000_000


# -- odd files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [".maestro/tasks", ".maestro"])
async def test_a_file_in_the_place_of_the_task_folder_is_one_clear_mistake(tmp_path: Path, part: str) -> None:
    async with rig(tmp_path, [DONE], pieces={"one": ONE}, start_engine=False) as it:
        import shutil

        source = (it.workspace / ".maestro" / "pieces" / "one.yaml").read_text()
        one = tmp_path / "one.yaml"
        one.write_text(source)
        shutil.rmtree(it.workspace / ".maestro")
        if part == ".maestro/tasks":
            (it.workspace / ".maestro").mkdir()
        (it.workspace / part).write_text("in the way")
        with pytest.raises(BadArgument) as mistake:
            await it.start(piece=str(one))
        assert mistake.value.values["path"]


async def test_a_workspace_that_is_gone_is_one_clear_mistake(tmp_path: Path) -> None:
    async with rig(tmp_path, [DONE], pieces={"one": ONE}, start_engine=False) as it:
        it.client.workspace = tmp_path / "gone"
        with pytest.raises(EngineError):
            await it.client.start(StartOrder("x", piece="general"))


async def test_a_workspace_deleted_under_a_job_ends_or_goes_on_without_a_traceback(tmp_path: Path) -> None:
    import shutil

    def script(request: Any) -> ScriptReply:
        if not request.results():
            shutil.rmtree(tmp_path / "work")
            return ScriptReply(
                calls=(
                    ("Read", {"file_path": "a"}),
                    ("Write", {"file_path": "b", "content": "b"}),
                    ("Bash", {"command": "ls"}),
                )
            )
        return DONE

    piece = ONE.replace("[Read, Write, Edit]", "[Read, Write, Bash]")
    async with rig(tmp_path, script, pieces={"one": piece}) as it:
        job = await it.start(piece="one")
        end = await it.until_rest(job)
        if end.wait_reason == "approval":
            await it.client.decide(end.open_requests[0], "allow")
            end = await it.until(job, lambda d: d.status in ("succeeded", "failed"))
        assert end.status == "succeeded", (end.reason, end.result)
        assert not any("Traceback" in text or "Errno" in text for text in tool_messages(it)), tool_messages(
            it
        )


@pytest.mark.parametrize("instead", ["link", "file", "nothing"])
async def test_a_task_folder_that_was_replaced_does_not_end_the_job(tmp_path: Path, instead: str) -> None:
    import shutil

    def script(request: Any) -> ScriptReply:
        if request.contains("The person answered"):
            return DONE
        if not request.results():
            (folder,) = (tmp_path / "work" / ".maestro" / "tasks").glob("t-*")
            shutil.rmtree(folder)
            if instead == "link":
                (tmp_path / "outside").mkdir()
                folder.symlink_to(tmp_path / "outside")
            elif instead == "file":
                folder.write_text("x")
            return call("Write", file_path=f".maestro/tasks/{folder.name}/output/x.txt", content="x")
        return ASK

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        end = await it.until_rest(job)
        assert end.wait_reason == "question", (end.status, end.wait_reason, end.reason, end.result)
        await it.client.answer(job, "yes")
        end = await it.until(job, lambda d: d.status in ("succeeded", "failed"))
        assert end.status == "succeeded", (end.reason, end.result)
        assert not (tmp_path / "outside").exists() or not any((tmp_path / "outside").rglob("*"))


@pytest.mark.parametrize(
    ("said", "files"),
    [
        ("@a.py", ["a.py"]),
        ("Look at @a.py, please.", ["a.py"]),
        ("@a.pyを直して", ["a.py"]),
        ("まず@資料/仕様.mdを読んで", ["資料/仕様.md"]),
        ("「@a.py」を直して", ["a.py"]),
        ("me@a.py", []),
        ("@" + "x" * 5000, []),
        ("@a.py\x00b", ["a.py"]),
        ("@../outside.txt", []),
    ],
)
async def test_a_mention_counts_as_a_file(tmp_path: Path, said: str, files: list[str]) -> None:
    (tmp_path / "outside.txt").write_text("x")
    async with rig(tmp_path, [DONE], pieces={"one": ONE}, start_engine=False) as it:
        (it.workspace / "a.py").write_text("x")
        (it.workspace / "資料").mkdir()
        (it.workspace / "資料" / "仕様.md").write_text("x")
        job = await it.start(said, piece="one")
        assert list((await it.client.db(it.client.store.job, job)).files) == files


async def test_a_job_whose_stored_piece_is_unreadable_fails_with_a_sentence(tmp_path: Path) -> None:
    async with rig(tmp_path, [DONE], pieces={"one": ONE}, start_engine=False) as it:
        job = await it.start(piece="one")
        db = Database(it.client.store_file)
        with db.tx():
            db._db.execute("UPDATE jobs SET piece = x'ff00'")
        db.close()
        await it.engine()
        end = await it.until_rest(job)
        assert (end.status, end.reason) == ("failed", "job.piece_unreadable"), (end.reason, end.result)
        assert end.result and "Error" not in end.result


# -- odd tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        ValueError("odd"),
        RecursionError("deep"),
        asyncio.CancelledError(),
        TimeoutError(),
        OSError(28, "No space"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("where", ["prepare", "run"])
@pytest.mark.parametrize("together", [1, 3])
async def test_whatever_a_tool_raises_is_an_error_result(
    tmp_path: Path, error: BaseException, where: str, together: int
) -> None:
    async def raises(ctx: ToolContext, args: NoArgs, prepared: Prepared) -> Outcome:
        raise error

    tool = odd_tool(Effect.READ, raises, in_prepare=where == "prepare")
    calls = ScriptReply(calls=tuple(("Odd", {"n": n}) for n in range(together)))

    def script(request: Any) -> ScriptReply:
        return DONE if request.results("Odd") else calls

    async with rig(tmp_path, script, pieces={"one": ODD_PIECE}, extras=Extras(tools=(tool,))) as it:
        job = await it.start(piece="one")
        end = await it.until_rest(job)
        assert end.status == "succeeded", (end.reason, end.result)
        assert len(tool_messages(it)) == together and all("failed" in text for text in tool_messages(it))


@pytest.mark.parametrize("together", [1, 3])
async def test_a_store_fault_inside_concurrent_reads_leaves_the_job_to_recovery(
    tmp_path: Path, together: int
) -> None:
    left = [1]

    async def raises(ctx: ToolContext, args: NoArgs, prepared: Prepared) -> Outcome:
        if left[0]:
            left[0] -= 1
            raise StoreFault("store.unusable", path="x", detail="test")
        return ToolResult("fine")

    calls = ScriptReply(calls=tuple(("Odd", {"n": n}) for n in range(together)))

    def script(request: Any) -> ScriptReply:
        return DONE if request.results("Odd") else calls

    extras = Extras(tools=(odd_tool(Effect.READ, raises),))
    async with rig(tmp_path, script, pieces={"one": ODD_PIECE}, extras=extras) as it:
        job = await it.start(piece="one")
        end = await it.until_rest(job)
        assert end.status == "succeeded", (end.reason, end.result)


# -- the model server --------------------------------------------------------------------------------


async def test_a_model_server_that_dies_in_the_stream_is_asked_again_and_nothing_of_the_half_runs(
    tmp_path: Path,
) -> None:
    half = ScriptReply(
        calls=(("Write", {"file_path": "a", "content": "x" * 500}),), drop_after=400, reset=True
    )
    whole = call("Write", file_path="b", content="x")

    def script(request: Any) -> ScriptReply:
        if request.results("Write"):
            return DONE
        return half if request.number == 1 else whole

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        assert (await it.until_rest(job)).status == "succeeded"
        assert not (it.workspace / "a").exists() and (it.workspace / "b").exists()


async def test_a_model_server_that_is_gone_for_good_fails_the_job_retryably(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return say("x", drop_after=1, reset=True) if request.turn else call("Read", file_path="a")

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        end = await it.until_rest(job)
        assert (end.status, end.reason) == ("failed", "provider_error")
        assert end.result and it.server.base_url.removesuffix("/v1") in end.result
        assert await it.client.retry(job)
