"""The engine process dies in each state of a job, and the front neither blocks nor dies; the front dies, and
the engine process ends.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from tests.lsp.driver import WITHIN, Editor, Place, alive, editor
from tests.lsp.pieces import put_pieces
from tests.lsp.tiny import until

pytestmark = pytest.mark.slow


class Gate:
    """A model that is stuck in its first calls until it is let go; then it completes."""

    def __init__(self, stuck: int = 1) -> None:
        self.go = threading.Event()
        self._stuck = stuck

    def reply(self, request: ScriptRequest) -> ScriptReply:
        if request.number <= self._stuck:
            self.go.wait(30)
        return call("complete", status="success", result="The whole work.")


@pytest.fixture
def shop(place: Place) -> Place:
    put_pieces(place)
    return place


async def answers_at_once(it: Editor) -> None:
    """The front serves commands in no time, whatever the engine does."""
    began = time.monotonic()
    await it.command("status")
    assert time.monotonic() - began < 5.0


async def another_engine(it: Editor, old: int) -> int:
    """The engine process that follows a dead one."""
    async with asyncio.timeout(WITHIN):
        while True:
            await answers_at_once(it)
            if (pid := await it.engine_pid()) != old:
                return pid
            await asyncio.sleep(0.02)


async def requests_reached(wait: Callable[[int, float], None], count: int) -> None:
    await asyncio.to_thread(wait, count, WITHIN)


async def test_killed_in_a_model_call_the_job_goes_on_by_itself(shop: Place) -> None:
    gate = Gate()
    with serve_in_thread(gate.reply) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            await requests_reached(model.wait_requests, 1)
            old = await it.kill_engine()
            gate.go.set()
            await another_engine(it, old)
            ended = await it.changed(job, "succeeded")
            assert ended["usage"]["calls"] == 1, "the call that was lost counts for nothing"
            tokens = [p["token"] for p in it.client.received("window/workDoneProgress/create")]
            assert tokens == [f"{job}:1", f"{job}:2"], "each run has its own progress"
            ends = [p for p in it.client.received("$/progress") if p["value"]["kind"] == "end"]
            assert [end["token"] for end in ends] == tokens


async def test_killed_while_one_job_runs_and_one_is_queued_both_are_done(shop: Place) -> None:
    shop.env["MAESTRO_MAX_CONCURRENCY"] = "1"
    gate = Gate()
    with serve_in_thread(gate.reply) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            first = (await it.start("first", piece="one"))["jobId"]
            await requests_reached(model.wait_requests, 1)
            second = (await it.start("second", piece="one"))["jobId"]
            assert (await it.command("task.show", jobId=second))["status"] == "queued"
            old = await it.kill_engine()
            gate.go.set()
            await another_engine(it, old)
            await it.until(first, "succeeded")
            await it.until(second, "succeeded")


async def test_killed_in_a_tool_the_model_is_told_that_the_outcome_is_unknown(shop: Place) -> None:
    def script(request: ScriptRequest) -> ScriptReply:
        if not request.results("Bash"):
            return call("Bash", command="echo ran >> ran.txt; sleep 60", description="work long")
        return call("complete", status="success", result=request.last_result("Bash"))

    with serve_in_thread(script) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            it.choose(await it.question(), "Allow once")
            trace = shop.workspace / "ran.txt"
            await until(trace.exists, within=WITHIN)
            old = await it.kill_engine()
            await another_engine(it, old)
            await it.until(job, "succeeded")
            detail = await it.command("task.show", jobId=job)
            assert "its outcome is not known" in detail["result"]
            assert trace.read_text() == "ran\n", "it did not run again by itself"


async def test_killed_while_a_job_is_parked_the_answer_starts_the_next_engine(shop: Place) -> None:
    def script(request: ScriptRequest) -> ScriptReply:
        if "My answer" in request.last_user:
            return call("complete", status="success", result="ok")
        return call("complete", status="needs_user_input", result="Which one?")

    with serve_in_thread(script) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            await it.question()
            await it.kill_engine()
            await it.status_says(lambda status: status["engine"]["pid"] is None)
            await answers_at_once(it)
            await it.command("task.answer", jobId=job, text="My answer")
            await it.changed(job, "succeeded")


async def test_a_job_that_lost_its_engine_three_times_asks_before_it_goes_on(shop: Place) -> None:
    gate = Gate(stuck=3)
    with serve_in_thread(gate.reply) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            for number in (1, 2, 3):
                await requests_reached(model.wait_requests, number)
                await it.kill_engine()
            parked = await it.changed(job, "waiting_human")
            assert parked["waitReason"] == "crashed"
            gate.go.set()
            asked = await it.question()
            assert [a["title"] for a in asked["params"]["actions"]] == ["Go on", "Cancel the task", "Later"]
            it.choose(asked, "Go on")
            await it.changed(job, "succeeded")


async def test_the_front_is_killed_and_its_engine_ends_and_the_next_one_goes_on(shop: Place) -> None:
    gate = Gate()
    with serve_in_thread(gate.reply) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            await requests_reached(model.wait_requests, 1)
            engine = await it.engine_pid()
            it.client.kill()
            await until(lambda: not alive(engine), within=5.0)
        gate.go.set()
        async with editor(shop) as it:
            await it.until(job, "succeeded")
            told = (await it.seen("window/showMessage"))["params"]["message"]
            assert told.endswith("Done: The whole work."), "whoever opens the workspace then is told"


@pytest.mark.parametrize("way", ["shutdown", "eof"])
async def test_an_orderly_end_takes_no_time_and_loses_nothing(shop: Place, way: str) -> None:
    gate = Gate()
    with serve_in_thread(gate.reply) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            await requests_reached(model.wait_requests, 1)
            engine = await it.engine_pid()
            if way == "shutdown":
                assert await it.client.shut_down(within=3.0) == 0
            else:
                it.client.close_stdin()
                assert await it.client.wait_closed(within=3.0) == 1
            await until(lambda: not alive(engine), within=3.0)
        gate.go.set()
        async with editor(shop) as it:
            await it.until(job, "succeeded")
            events = (await it.command("task.events", jobId=job))["events"]
            moves = [event["to"] for event in events if event["kind"] == "status"]
            assert moves == ["queued", "running", "queued", "running", "succeeded"]


async def test_no_engine_runs_before_there_is_work(shop: Place) -> None:
    async with editor(shop) as it:
        await answers_at_once(it)
        assert (await it.command("status"))["engine"] == {"pid": None}


async def test_a_running_job_is_cancelled_by_its_progress(shop: Place) -> None:
    gate = Gate()
    with serve_in_thread(gate.reply) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            await requests_reached(model.wait_requests, 1)
            began = time.monotonic()
            for token in ("nonsense", f"{job}:7", 5, f"{job}:1"):
                it.client.notify("window/workDoneProgress/cancel", {"token": token})
            await it.changed(job, "cancelled")
            assert time.monotonic() - began < 5.0
            await requests_reached(model.wait_aborted, 1)
            last = it.client.received("$/progress")[-1]["value"]
            assert last == {"kind": "end", "message": "cancelled"}
            assert it.client.received("window/showMessage") == [], "who cancels knows it"
            gate.go.set()


async def test_a_comment_reaches_the_model_while_it_works(shop: Place) -> None:
    gate = threading.Event()

    def script(request: ScriptRequest) -> ScriptReply:
        if request.turn == 0:
            gate.wait(30)
            return call("Read", file_path="notes.txt")
        return call("complete", status="success", result=request.last_user)

    (shop.workspace / "notes.txt").write_text("a note\n")
    with serve_in_thread(script) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            ids = await it.start(piece="one")
            await requests_reached(model.wait_requests, 1)
            said = await it.command("task.comment", taskId=ids["taskId"], text="Mind the tests.")
            assert said == {}
            gate.set()
            await it.changed(ids["jobId"], "succeeded")
            assert "Mind the tests." in (await it.command("task.show", jobId=ids["jobId"]))["result"]
            later = await it.command("task.comment", taskId=ids["taskId"], text="And the docs.")
            assert later["jobId"] != ids["jobId"], "a comment on a task at rest is a follow-up"
            await it.changed(later["jobId"], "succeeded")


async def test_a_workspace_that_brings_its_own_engine_gets_ours(shop: Place) -> None:
    for name in ("engine", "maestro_lsp", "msgspec", "yaml"):
        folder = shop.workspace / name
        folder.mkdir()
        (folder / "__init__.py").write_text(
            "import pathlib; pathlib.Path('pwned').touch(); raise SystemExit(7)"
        )
    with serve_in_thread(Gate(stuck=0).reply) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            await it.changed(job, "succeeded")
    assert not (shop.workspace / "pwned").exists()


async def test_trust_that_is_taken_back_holds_at_once_and_the_job_goes_on_without_it(shop: Place) -> None:
    gate = Gate()
    with serve_in_thread(gate.reply) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            await requests_reached(model.wait_requests, 1)
            old = await it.engine_pid()
            await it.command("workspace.trust", trusted=False)
            await until(lambda: not alive(old), within=WITHIN)
            gate.go.set()
            await it.until(job, "succeeded")
            assert await it.engine_pid() != old


async def test_a_new_mode_needs_no_new_engine(shop: Place) -> None:
    with serve_in_thread(Gate(stuck=0).reply) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            await it.until((await it.start(piece="one"))["jobId"], "succeeded")
            old = await it.engine_pid()
            await it.command("mode.set", mode="edits")
            await it.until((await it.start(piece="one"))["jobId"], "succeeded")
            assert await it.engine_pid() == old
