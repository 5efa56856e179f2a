"""What a person may do at any moment, and what a job then still knows."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import EngineError
from engine.llm.scripted import ScriptReply, call
from engine.store.sqlite import Database
from tests.engine.odd import ASK, BASH, DONE, SLOW, tool_messages
from tests.engine.rig import rig
from tests.engine.test_approvals import ONE

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
    """Also the command that failed, and in the language of the task."""

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


@pytest.mark.parametrize("slots", [1, 3])
async def test_an_engine_that_stops_right_after_a_claim_gives_the_job_back(
    tmp_path: Path, slots: int
) -> None:
    async with rig(tmp_path, lambda request: DONE, start_engine=False, max_concurrency=slots) as it:
        jobs = [await it.start(piece="general") for _ in range(10)]
        for _ in range(8):
            await it.engine()
            while not (counts := await it.client.counts()).get("running") and counts.get("queued"):
                pass
            await it.stop()
            assert not (await it.client.counts()).get("running"), "left running by an engine that is gone"
        await it.engine()
        for job in jobs:
            await it.until(job, lambda d: d.status == "succeeded")
