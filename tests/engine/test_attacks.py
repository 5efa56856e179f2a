"""What a job must stand: odd moments, odd texts, odd files, odd tools, other engines."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.client import StartOrder
from engine.core.errors import BadArgument, EngineError, StoreFault
from engine.core.limits import Leases
from engine.core.tooling import Effect, Outcome, Prepared, ToolResult, ToolSpec, argument_schema
from engine.llm.scripted import ScriptReply, call, say
from engine.ports import ToolContext
from engine.service import Extras
from engine.store.sqlite import Database
from tests.engine.killed import CHILD
from tests.engine.rig import DEADLINE_S, Rig, rig
from tests.engine.test_approvals import ONE

BASH = ONE.replace("[Read, Write, Edit]", "[Read, Bash, BashOutput]")
DONE = call("complete", status="success", result="done")
SLOW = ScriptReply(text="slow", delay=60.0)


def tool_messages(it: Rig) -> list[str]:
    return [m["content"] for m in it.bodies()[-1]["messages"] if m["role"] == "tool"]


# -- approvals ---------------------------------------------------------------------------------------


async def test_an_approved_write_of_a_file_that_was_read_is_carried_out(tmp_path: Path) -> None:
    """What the model has read is known after the park, as if the run had never stopped."""

    def script(request: Any) -> ScriptReply:
        if request.results("Write"):
            return call("complete", status="success", result=request.last_result("Write"))
        if request.results("Read"):
            return call("Write", file_path="a.txt", content="new\n")
        return call("Read", file_path="a.txt")

    async with rig(tmp_path, script, pieces={"one": ONE}, mode="ask") as it:
        (it.workspace / "a.txt").write_text("old\n")
        job = await it.start(piece="one")
        await it.client.decide((await it.open_request(job)).request_id, "allow")
        end = await it.until_rest(job)
        assert (it.workspace / "a.txt").read_text() == "new\n", end.result


async def test_a_decorated_tool_name_is_the_same_tool_after_the_approval(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        results = request.results()
        if results:
            return call("complete", status="success", result=results[-1].text)
        return call("functions.Write", file_path="b.txt", content="b\n")

    async with rig(tmp_path, script, pieces={"one": ONE}, mode="ask") as it:
        job = await it.start(piece="one")
        await it.client.decide((await it.open_request(job)).request_id, "allow")
        end = await it.until_rest(job)
        assert (it.workspace / "b.txt").read_text() == "b\n", end.result


async def test_several_approvals_of_one_reply_are_asked_one_after_the_other_across_restarts(
    tmp_path: Path,
) -> None:
    names = ["a", "b", "c"]
    batch = ScriptReply(calls=tuple(("Write", {"file_path": n, "content": n}) for n in names))

    def script(request: Any) -> ScriptReply:
        return DONE if request.results("Write") else batch

    async with rig(tmp_path, script, pieces={"one": ONE}, mode="ask") as it:
        job = await it.start(piece="one")
        for at, name in enumerate(names):
            request = await it.open_request(job)
            assert request.title.startswith(f"Write {name}")
            await it.stop()
            assert sorted(p.name for p in it.workspace.glob("?")) == [n for n in names[:at] if n != "b"]
            await it.client.decide(request.request_id, "deny" if name == "b" else "allow")
            await it.engine()
            await it.until(job, lambda d, r=request.request_id: r not in d.open_requests)
        assert (await it.until_rest(job)).status == "succeeded"
        assert sorted(p.name for p in it.workspace.glob("?")) == ["a", "c"]
        assert len(tool_messages(it)) == 3 and len(it.bodies()) == 2


async def test_a_repeat_of_a_declined_call_is_not_said_to_have_run(tmp_path: Path) -> None:
    twice = ScriptReply(calls=(("Write", {"file_path": "a", "content": "x"}),) * 2)
    async with rig(tmp_path, [twice, DONE], pieces={"one": ONE}, mode="ask") as it:
        job = await it.start(piece="one")
        await it.client.decide((await it.open_request(job)).request_id, "deny")
        await it.until_rest(job)
        assert "already run" not in tool_messages(it)[1]
        assert len((await it.client.show(job)).requests) == 1


# -- answers and comments ----------------------------------------------------------------------------


ASK = call("complete", status="needs_user_input", result="Which colour?")


async def test_an_engine_stopped_before_it_used_an_answer_does_not_ask_again(tmp_path: Path) -> None:
    gate = threading.Event()

    def script(request: Any) -> ScriptReply:
        return DONE if request.contains("blue") else ASK

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        request = await it.open_request(job)
        await it.stop()
        await it.client.answer(job, "blue", request.request_id)
        from engine.core.records import Lease
        from engine.processes import this_process

        store = it.client.store
        claimed = await it.client.db(store.claim, this_process("w-x"), it.client.now(), 30.0)
        assert claimed is not None
        lease = Lease(claimed.job_id, claimed.task_id, claimed.fence, claimed.run)
        await it.client.db(store.requeue, lease, it.client.now())
        await it.engine()
        end = await it.until_rest(job)
        assert end.status == "succeeded"
        assert len(end.requests) == 1
        gate.set()


async def test_a_comment_during_the_last_model_call_is_heard(tmp_path: Path) -> None:
    asked, gate = threading.Event(), threading.Event()

    def script(request: Any) -> ScriptReply:
        if request.contains("also the tests"):
            return call("complete", status="success", result="with tests")
        asked.set()
        gate.wait(5)
        return DONE

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await asyncio.to_thread(asked.wait, 5)
        task = (await it.client.show(job)).task_id
        assert await it.client.comment(task, "also the tests") is None
        gate.set()
        assert (await it.until_rest(job)).result == "with tests"


async def test_comments_that_do_not_fit_the_prompt_are_delivered_whole(tmp_path: Path) -> None:
    long = "x" * 700 + " THE END"

    def script(request: Any) -> ScriptReply:
        return DONE if request.results("Read") else call("Read", file_path="a")

    async with rig(tmp_path, script, pieces={"one": ONE}, start_engine=False) as it:
        job = await it.start(piece="one")
        task = (await it.client.show(job)).task_id
        for n in range(7):
            await it.client.comment(task, f"number {n}")
        await it.client.comment(task, long)
        await it.engine()
        await it.until_rest(job)
        everything = json.dumps(it.bodies()[-1]["messages"], ensure_ascii=False)
        assert "THE END" in everything
        assert all(f"number {n}" in everything for n in range(7))


async def test_racing_comments_are_each_heard_once_or_start_a_follow_up(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return DONE

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        task = (await it.client.show(job)).task_id
        follow_ups = await asyncio.gather(*(it.client.comment(task, f"say {n}") for n in range(12)))
        for follow_up in {f for f in follow_ups if f} | {job}:
            await it.until_rest(follow_up)
        sent = [json.dumps(b["messages"], ensure_ascii=False) for b in it.bodies()]
        for n in range(12):
            assert any(f"say {n}" in body for body in sent), n
        assert not await it.client.db(it.client.store.undelivered, task)


async def test_two_answers_at_once_have_one_winner(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return DONE if request.contains("The person answered") else ASK

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        request = await it.open_request(job)
        task = (await it.client.show(job)).task_id
        results = await asyncio.gather(
            it.client.answer(job, "red", request.request_id),
            it.client.answer(job, "green", request.request_id),
            it.client.comment(task, "or blue"),
            return_exceptions=True,
        )
        assert sum(isinstance(r, EngineError) for r in results) == 1, results
        assert (await it.until_rest(job)).status == "succeeded"


# -- cancel ------------------------------------------------------------------------------------------


async def test_a_cancel_that_the_engine_did_not_see_before_it_stopped_still_holds(tmp_path: Path) -> None:
    async with rig(tmp_path, [SLOW], pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await it.until(job, lambda d: len(it.server.requests) == 1)
        assert it.service is not None and it.service.worker is not None
        store = it.client.store
        stopping = asyncio.create_task(it.stop())
        await it.client.db(store.cancel, job, "me", it.client.now())
        await stopping
        assert (await it.client.show(job)).status == "cancelled"


async def test_cancelling_a_parked_job_ends_its_background_commands(tmp_path: Path) -> None:
    beat = "while true; do date >> beats.txt; sleep 0.05; done"

    def script(request: Any) -> ScriptReply:
        return ASK if request.results("Bash") else call("Bash", command=beat, background=True)

    async with rig(tmp_path, script, pieces={"one": BASH}, mode="edits", sandbox="off") as it:
        job = await it.start(piece="one")
        detail = await it.until_rest(job)
        while detail.wait_reason == "approval":
            await it.client.decide(detail.open_requests[0], "allow")
            await it.until(job, lambda d, r=detail.open_requests[0]: r not in d.open_requests)
            detail = await it.until_rest(job)
        assert detail.wait_reason == "question"
        beats = it.workspace / "beats.txt"
        await it.until(job, lambda _: beats.exists())
        await it.client.cancel(job)
        end = asyncio.get_running_loop().time() + 2.0
        while True:
            size = beats.stat().st_size
            await asyncio.sleep(0.3)
            if beats.stat().st_size == size:
                break
            assert asyncio.get_running_loop().time() < end, "the command lives on"


@pytest.mark.parametrize("how", ["cancel", "answer"])
async def test_cancel_and_answer_at_once_leave_one_outcome(tmp_path: Path, how: str) -> None:
    def script(request: Any) -> ScriptReply:
        return DONE if request.contains("The person answered") else ASK

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        for _ in range(5):
            job = await it.start(piece="one")
            await it.open_request(job)
            both = [it.client.cancel(job), it.client.answer(job, "yes")]
            await asyncio.gather(*(both if how == "cancel" else both[::-1]), return_exceptions=True)
            end = await it.until_rest(job)
            assert end.status in ("cancelled", "succeeded")
            assert not end.open_requests
            events = await it.client.events(job)
            last = [e for e in events if e["kind"] == "status"][-1]
            assert last["to"] == end.status
            assert events[-1]["kind"] == "status"


async def test_a_movement_of_a_cancelled_job_is_over(tmp_path: Path) -> None:
    async with rig(tmp_path, [SLOW], pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await it.until(job, lambda d: len(it.server.requests) == 1)
        await it.client.cancel(job)
        end = await it.until_rest(job)
        assert all(m.ended_at for m in end.movements)


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


class NoArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""

    n: int = 0


def odd_tool(effect: Effect, run: Any, *, in_prepare: bool = False) -> ToolSpec:
    async def look(ctx: ToolContext, args: NoArgs) -> Prepared:
        if in_prepare:
            await run(ctx, args, Prepared("Odd"))
        return Prepared("Odd")

    async def plain(ctx: ToolContext, args: NoArgs, prepared: Prepared) -> Outcome:
        return ToolResult("fine")

    return ToolSpec(
        "Odd",
        "An odd tool.",
        NoArgs,
        effect,
        plain if in_prepare else run,
        look,
        schema=argument_schema(NoArgs),
    )


ODD_PIECE = ONE.replace("[Read, Write, Edit]", "[Read, Odd]")


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


# -- the store ---------------------------------------------------------------------------------------


async def test_a_store_that_is_locked_for_long_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is held for four times the busy time-out while a call is under way."""
    asked, gate = threading.Event(), threading.Event()

    def script(request: Any) -> ScriptReply:
        if request.results("Write"):
            return DONE
        asked.set()
        gate.wait(5)
        return call("Write", file_path="b.txt", content="b")

    monkeypatch.setattr("engine.store.sqlite._BUSY_MS", 150)
    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await asyncio.to_thread(asked.wait, 5)
        locker = sqlite3.connect(it.client.store_file, isolation_level=None)
        locker.execute("BEGIN IMMEDIATE")
        gate.set()
        await asyncio.sleep(0.6)
        locker.execute("ROLLBACK")
        locker.close()
        end = await it.until_rest(job)
        assert end.status == "succeeded", (end.reason, end.result)
        assert not await _counted_crashes(it, job)


async def _counted_crashes(it: Rig, job: str) -> int:
    return (await it.client.db(it.client.store.job, job)).counters.crashes


async def test_a_state_folder_that_cannot_be_made_is_a_store_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreFault):
        Database(tmp_path / "file" / "store.db")


# -- two engines -------------------------------------------------------------------------------------


async def spawn(it: Rig) -> asyncio.subprocess.Process:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, stdin=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert child.stdin is not None
    order = {
        "workspace": str(it.workspace),
        "store": str(it.client.store_file),
        "config": msgspec.to_builtins(it.config),
        "crashAt": None,
    }
    child.stdin.write(msgspec.json.encode(order) + b"\n")
    return child


async def test_an_engine_that_slept_past_its_lease_writes_nothing_when_it_wakes(tmp_path: Path) -> None:
    asked, gate = threading.Event(), threading.Event()

    def script(request: Any) -> ScriptReply:
        if request.results("Write"):
            return DONE
        if request.number == 1:
            asked.set()
            gate.wait(8)
            return call("Write", file_path="from_the_sleeper.txt", content="x")
        return call("Write", file_path="b.txt", content="b")

    leases = replace(Leases(), poll_s=0.02, recover_s=0.05, lease_s=0.5, heartbeat_s=0.1)
    async with rig(tmp_path, script, pieces={"one": ONE}, start_engine=False, leases=leases) as it:
        job = await it.start(piece="one")
        sleeper = await spawn(it)
        try:
            assert await asyncio.to_thread(asked.wait, DEADLINE_S)
            os.kill(sleeper.pid, signal.SIGSTOP)
            await it.engine()
            assert (await it.until_rest(job)).status == "succeeded"
            before = await it.client.events(job)
            gate.set()
            os.kill(sleeper.pid, signal.SIGCONT)
            other = await it.start(piece="one", instruction="another")
            await it.until_rest(other)
            await asyncio.sleep(0.3)
            assert await it.client.events(job) == before
            assert not (it.workspace / "from_the_sleeper.txt").exists()
        finally:
            sleeper.kill()
            await sleeper.wait()


async def test_two_engines_share_a_queue_without_doubling(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return DONE if request.results("Bash") else call("Bash", command="echo x >> n.txt")

    rules = BASH.replace("[Read, Bash, BashOutput]", "[Bash]") + ""
    async with rig(
        tmp_path, script, pieces={"one": rules}, start_engine=False, mode="edits", sandbox="off"
    ) as it:
        jobs = [await it.start(piece="one", instruction=f"n {n}") for n in range(12)]
        other = await spawn(it)
        try:
            await it.engine()
            for job in jobs:
                await it.until(job, lambda d: d.status in ("succeeded", "waiting_human"))
            asked = await it.client.open_requests()
            for request in asked:
                await it.client.decide(request.request_id, "allow")
            for job in jobs:
                assert (await it.until(job, lambda d: d.status == "succeeded")).status == "succeeded"
                events = await it.client.events(job)
                assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
            assert (it.workspace / "n.txt").read_text() == "x\n" * 12
        finally:
            other.kill()
            await other.wait()


# -- nothing starts by itself the next morning -------------------------------------------------------


async def test_a_job_given_back_in_the_evening_asks_the_next_morning(tmp_path: Path) -> None:
    gate = threading.Event()

    def script(request: Any) -> ScriptReply:
        return DONE if gate.is_set() else SLOW

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await it.until(job, lambda d: len(it.server.requests) == 1)
        await it.stop()
        gate.set()
        fresh = await it.start(piece="one", instruction="never begun")
        db = Database(it.client.store_file)
        with db.tx():
            db._db.execute("UPDATE jobs SET updated_at = updated_at - 40000, queued_at = queued_at - 40000")
        db.close()
        await it.engine()
        request = await it.open_request(job)
        assert request.reason == "interrupted"
        assert (await it.until_rest(fresh)).status == "succeeded", "what never began was submitted to begin"
        await it.client.decide(request.request_id, "allow")
        assert (await it.until_rest(job)).status == "succeeded"


# -- secrets -----------------------------------------------------------------------------------------


async def test_a_configured_key_reaches_neither_store_nor_prompt_nor_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "hunter2-correct-horse-battery"

    async def leaks(ctx: ToolContext, args: NoArgs, prepared: Prepared) -> Outcome:
        raise ValueError(f"the header was {key}")

    def script(request: Any) -> ScriptReply:
        if not request.contains("The person answered"):
            return ScriptReply(
                text=f"I know {key}",
                calls=(
                    ("Odd", {}),
                    ("Read", {"file_path": "config.txt"}),
                    ("Edit", {"file_path": "config.txt", "old_string": "port = 1", "new_string": "port = 2"}),
                    ("MissionUpdate", {"goal": f"use {key}"}),
                    ("complete", {"status": "needs_user_input", "result": f"{key}?", "options": [key]}),
                ),
            )
        return call("complete", status="success", result=f"used {key}")

    piece = ONE.replace("[Read, Write, Edit]", "[Read, Edit, Odd]")
    extras = Extras(tools=(odd_tool(Effect.READ, leaks),))
    async with rig(
        tmp_path, script, pieces={"one": piece}, extras=extras, start_engine=False, mode="ask"
    ) as it:
        settings = replace(it.config.llm, api_key=key)
        it.config = it.client.config = replace(it.config, llm=settings)
        (it.workspace / "config.txt").write_text(f"key = {key}\nport = 1\n")
        await it.engine()
        job = await it.start(f"Use the key {key}", piece="one")
        request = await it.open_request(job)
        await it.client.decide(request.request_id, "allow", note=f"with {key}")
        await it.until(job, lambda d: d.wait_reason == "question")
        await it.client.answer(job, f"yes, {key}")
        end = await it.until(job, lambda d: d.status == "succeeded")
        await it.client.comment(end.task_id, f"and {key}")
        await it.stop()
        db = Database(it.client.store_file)
        dump = []
        for (table,) in db._db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            for row in db._db.execute(f"SELECT * FROM {table}").fetchall():
                for column in row.keys():
                    value = row[column]
                    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
                    own_words = table == "messages" and row["role"] == "assistant"
                    if key in text and not own_words and (table, column) != ("snapshots", "before"):
                        dump.append(f"{table}.{column}")
        db.close()
        assert not dump, sorted(set(dump))
        for body in it.bodies():
            assert key not in json.dumps([m for m in body["messages"] if m["role"] != "assistant"])
        assert key not in caplog.text


# -- races -------------------------------------------------------------------------------------------


async def test_a_cancel_at_any_moment_leaves_one_outcome_and_a_working_engine(tmp_path: Path) -> None:
    """Cancelled while queued, claimed, asking the model, running a command, parking, resumed or ending."""

    def script(request: Any) -> ScriptReply:
        if request.contains("The person answered"):
            return DONE
        return ASK if request.results("Read") else call("Read", file_path="a")

    async with rig(tmp_path, script, pieces={"one": ONE}, max_concurrency=3) as it:
        jobs = [await it.start(piece="one", instruction=f"job {n}") for n in range(24)]

        async def meddle(n: int, job: str) -> None:
            await asyncio.sleep(n * 0.007)
            with suppress(EngineError):
                await it.client.answer(job, "yes")
            with suppress(EngineError):
                await it.client.cancel(job)

        await asyncio.gather(*(meddle(n, job) for n, job in enumerate(jobs)))
        for job in jobs:
            end = await it.until(job, lambda d: d.status in ("cancelled", "succeeded"))
            events = await it.client.events(job)
            assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
            assert (events[-1]["kind"], events[-1]["to"]) == ("status", end.status)
            assert not end.open_requests and all(m.ended_at for m in end.movements)
        assert it.service is not None and it.service.worker is not None
        last = await it.start(piece="one", instruction="still alive?")
        assert (await it.until_rest(last)).wait_reason == "question"


async def test_a_job_that_is_queued_again_at_once_is_kept_track_of(tmp_path: Path) -> None:
    """A success that a comment crossed queues its job again while its first run is still being cleared away;
    the new run can be cancelled like any other.
    """
    asked, gate, again = threading.Event(), threading.Event(), threading.Event()

    def script(request: Any) -> ScriptReply:
        if request.contains("also"):
            again.set()
            return SLOW
        asked.set()
        gate.wait(5)
        return DONE

    async with rig(tmp_path, script, pieces={"one": ONE}, max_concurrency=4) as it:
        job = await it.start(piece="one")
        assert await asyncio.to_thread(asked.wait, 5)
        await it.client.comment((await it.client.show(job)).task_id, "also this")
        gate.set()
        assert await asyncio.to_thread(again.wait, 5)
        assert await it.client.cancel(job) is False
        end = await it.until(job, lambda d: d.status == "cancelled", within=2.0)
        assert (await it.client.db(it.client.store.job, job)).counters.crashes == 0
        assert end.result is None


# -- what a re-entered movement knows ----------------------------------------------------------------


async def test_all_that_was_done_since_the_movement_was_entered_is_told_after_two_questions(
    tmp_path: Path,
) -> None:
    """Also the command that failed, and in the language of the task; "go on?" is not a decision to be told."""

    def script(request: Any) -> ScriptReply:
        if request.contains("二つ目"):
            return DONE
        if request.contains("人の回答: 一つ目"):
            return call("complete", status="needs_user_input", result="もう一つ?")
        if request.results("Bash"):
            return ASK
        return ScriptReply(
            calls=(("Write", {"file_path": "b.txt", "content": "b"}), ("Bash", {"command": "exit 3"}))
        )

    piece = ONE.replace("[Read, Write, Edit]", "[Write, Bash]")
    async with rig(tmp_path, script, pieces={"one": piece}, mode="ask") as it:
        job = await it.start("税額を切り捨てて", piece="one")
        for _ in range(2):
            request = await it.open_request(job)
            await it.client.decide(request.request_id, "allow")
            await it.until(job, lambda d, r=request.request_id: r not in d.open_requests)
        for answer in ("一つ目", "二つ目"):
            request = await it.open_request(job)
            await it.client.answer(job, answer, request.request_id)
            await it.until(job, lambda d, r=request.request_id: r not in d.open_requests)
        assert (await it.until_rest(job)).status == "succeeded"
        guidance = it.bodies()[-1]["messages"][1]["content"]
        done = guidance.split("## このムーブメントですでに行ったこと")[1].split("##")[0]
        assert "b.txt" in done and "exit 3" in done
        decided = guidance.split("## 人がすでに決めたこと")[1].split("##")[0]
        assert "許可" in decided and "allow" not in decided and "一つ目" in decided
