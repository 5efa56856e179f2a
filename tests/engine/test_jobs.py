"""Jobs as a person lives them: cancel, retry, comment, follow-up, guards, faults. Real engine, real HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.config import ModelSettings
from engine.core.errors import BadArgument, IllegalMove, NotConfigured, NotFound
from engine.llm.scripted import ScriptReply, call, say
from tests.engine.rig import rig
from tests.engine.test_approvals import ONE

BASH = ONE.replace("[Read, Write, Edit]", "[Read, Bash]")
DONE = call("complete", status="success", result="done")
SLOW = ScriptReply(text="slow", delay=60.0)


async def test_cancel_ends_a_model_call_at_once(tmp_path: Path) -> None:
    async with rig(tmp_path, [SLOW], pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await it.until(job, lambda d: d.status == "running" and len(it.server.requests) == 1)
        assert await it.client.cancel(job) is False
        end = await it.until_rest(job, within=2.0)
        assert (end.status, end.reason) == ("cancelled", "cancelled")


async def test_cancel_ends_every_process_of_the_job_within_two_seconds(tmp_path: Path) -> None:
    beat = "while true; do date >> beats.txt; sleep 0.05; done"
    async with rig(tmp_path, [call("Bash", command=beat), DONE], pieces={"one": BASH}, mode="ask") as it:
        job = await it.start(piece="one")
        await it.client.decide((await it.open_request(job)).request_id, "allow")
        beats = it.workspace / "beats.txt"
        await it.until(job, lambda _: beats.exists())
        await it.client.cancel(job)
        await it.until(job, lambda d: d.status == "cancelled", within=2.0)
        size = beats.stat().st_size
        await asyncio.sleep(0.3)
        assert beats.stat().st_size == size


async def test_a_queued_job_is_cancelled_without_an_engine(tmp_path: Path) -> None:
    async with rig(tmp_path, [DONE], pieces={"one": ONE}, start_engine=False) as it:
        job = await it.start(piece="one")
        assert await it.client.cancel(job) is True
        assert await it.kinds(job) == ["status", "status"]


async def test_retry_is_a_new_job_of_the_same_task_at_the_last_movement(tmp_path: Path) -> None:
    async with rig(
        tmp_path, [call("complete", status="aborted", result="cannot")], pieces={"one": ONE}
    ) as it:
        job = await it.start(piece="one")
        end = await it.until_rest(job)
        assert (end.status, end.reason, end.result) == ("aborted", "aborted_by_model", "cannot")
        again = await it.client.retry(job)
        detail = await it.until_rest(again)
        assert (detail.retry_of, detail.task_id, detail.movements[0].name) == (job, end.task_id, "work")


async def test_only_what_failed_or_was_stopped_can_be_retried(tmp_path: Path) -> None:
    async with rig(tmp_path, [DONE], pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await it.until_rest(job)
        with pytest.raises(IllegalMove):
            await it.client.retry(job)


async def test_a_comment_on_a_running_job_is_read_after_its_current_calls(tmp_path: Path) -> None:
    heard = asyncio.Event()

    def script(request):  # type: ignore[no-untyped-def]
        if request.contains("use tabs"):
            return call("complete", status="success", result="with tabs")
        heard.set()
        return ScriptReply(calls=(("Read", {"file_path": f"f{request.turn}.txt"}),), delay=0.02)

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        task = (await it.client.show(job)).task_id
        await asyncio.wait_for(heard.wait(), 5)
        assert await it.client.comment(task, "use tabs") is None
        end = await it.until_rest(job)
        assert end.result == "with tabs"
        carrying = [
            m for m in it.bodies()[-1]["messages"] if m["role"] == "user" and "use tabs" in m["content"]
        ]
        assert len(carrying) == 1


async def test_a_comment_on_a_parked_question_answers_it(tmp_path: Path) -> None:
    def script(request):  # type: ignore[no-untyped-def]
        return (
            DONE
            if request.contains("blue")
            else call("complete", status="needs_user_input", result="Which colour?")
        )

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await it.open_request(job)
        await it.client.comment((await it.client.show(job)).task_id, "blue")
        assert (await it.until_rest(job)).status == "succeeded"


async def test_a_comment_on_a_task_at_rest_is_a_follow_up_that_knows_the_thread(tmp_path: Path) -> None:
    async with rig(tmp_path, [DONE], pieces={"one": ONE}) as it:
        job = await it.start("First thing", piece="one")
        task = (await it.until_rest(job)).task_id
        follow_up = await it.client.comment(task, "Now the second thing")
        assert follow_up is not None
        end = await it.until_rest(follow_up)
        assert (end.status, end.task_id) == ("succeeded", task)
        prompt = it.bodies()[-1]["messages"][1]["content"]
        assert prompt.count("Now the second thing") == 1, (
            "a follow-up's comment is its instruction and is not repeated"
        )
        assert "done" in prompt.split("## Conversation so far")[1]


async def test_the_answer_is_given_whole(tmp_path: Path) -> None:
    log = "\n".join(f"line {n}" for n in range(300)) + "\nTHE END"

    def script(request):  # type: ignore[no-untyped-def]
        return (
            DONE
            if request.contains("THE END")
            else call("complete", status="needs_user_input", result="Paste the log")
        )

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await it.open_request(job)
        await it.client.answer(job, log)
        assert (await it.until_rest(job)).status == "succeeded"
        prompt = it.bodies()[-1]["messages"][1]["content"]
        assert "The person's answer" in prompt and log in prompt


async def test_the_fourth_question_is_deflected_and_the_fifth_ends_the_job(tmp_path: Path) -> None:
    async with rig(
        tmp_path,
        lambda request: call("complete", status="needs_user_input", result="And now?"),
        pieces={"one": ONE},
    ) as it:
        job = await it.start(piece="one")
        for _ in range(3):
            request = await it.open_request(job)
            await it.client.answer(job, "yes", request.request_id)
            await it.until(job, lambda d, r=request.request_id: r not in d.open_requests)
        end = await it.until(job, lambda d: d.status == "aborted")
        assert (end.reason, end.result) == ("ask_limit_reached", "And now?")
        deflected = [m for m in it.bodies()[-1]["messages"] if m["role"] == "tool"]
        assert len(deflected) == 1 and "Decide yourself" in deflected[0]["content"]


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        (lambda request: say("I am thinking."), "aborted", "text_only_limit"),
        (lambda request: call("Read", file_path="a"), "aborted", "repeated_calls"),
        (lambda request: call("Fly", to=request.turn), "aborted", "unknown_tool"),
        (lambda request: ScriptReply(), "failed", "empty_response"),
        (lambda request: ScriptReply(status=400), "failed", "provider_error"),
    ],
    ids=["text only", "the same call", "invented tools", "nothing", "a refusal"],
)
async def test_guards_and_faults_end_a_job_with_their_reason(
    tmp_path: Path, script, status: str, reason: str
) -> None:  # type: ignore[no-untyped-def]
    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        end = await it.until_rest(job)
        assert (end.status, end.reason) == (status, reason)
        faults = [event for event in await it.client.events(job) if event["kind"] == "error"]
        assert [(fault["code"], fault["retryable"]) for fault in faults] == (
            [(reason, True)] if status == "failed" else []
        )


async def test_text_alone_is_reminded_and_from_then_on_a_tool_is_required(tmp_path: Path) -> None:
    async with rig(
        tmp_path,
        [say("Forty-two."), call("complete", status="success", result="Forty-two.")],
        pieces={"one": ONE},
    ) as it:
        job = await it.start(piece="one")
        assert (await it.until_rest(job)).result == "Forty-two."
        first, second = it.bodies()
        assert "tool_choice" not in first and second["tool_choice"] == "required"
        assert "complete" in second["messages"][-1]["content"]


async def test_a_tool_that_is_not_permitted_here_is_answered_with_those_that_are(tmp_path: Path) -> None:
    piece = ONE.replace("edit: true", "edit: false").replace("[Read, Write, Edit]", "[Read]") + (
        "  - name: other\n    edit: true\n    persona: x\n    instruction: x\n"
        "    allowed_tools: [Write]\n    rules: []\n"
    )
    async with rig(tmp_path, [call("Write", file_path="a", content="x"), DONE], pieces={"one": piece}) as it:
        job = await it.start(piece="one")
        await it.until_rest(job)
        result = next(m for m in it.bodies()[-1]["messages"] if m["role"] == "tool")
        assert "not permitted" in result["content"] and "Read" in result["content"]
        assert not (it.workspace / "a").exists()


async def test_calls_after_the_one_that_ends_the_movement_are_not_run(tmp_path: Path) -> None:
    ending = ScriptReply(
        calls=(
            ("complete", {"status": "success", "result": "done"}),
            ("Write", {"file_path": "late.txt", "content": "x"}),
        )
    )
    async with rig(tmp_path, [ending], pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        assert (await it.until_rest(job)).status == "succeeded"
        assert not (it.workspace / "late.txt").exists()


async def test_the_same_call_nine_times_runs_once(tmp_path: Path) -> None:
    nine = ScriptReply(calls=(("Bash", {"command": "echo x >> n.txt"}),) * 9)
    async with rig(tmp_path, [nine, DONE], pieces={"one": BASH}, mode="ask") as it:
        job = await it.start(piece="one")
        await it.client.decide((await it.open_request(job)).request_id, "allow")
        assert (await it.until_rest(job)).status == "succeeded"
        assert (it.workspace / "n.txt").read_text() == "x\n"
        results = [m for m in it.bodies()[-1]["messages"] if m["role"] == "tool"]
        assert len(results) == 9 and sum("repeats call" in m["content"] for m in results) == 8


async def test_an_engine_that_stops_gives_its_job_back_and_the_next_goes_on(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with rig(tmp_path, lambda request: DONE if gate.exists() else SLOW, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await it.until(job, lambda d: len(it.server.requests) == 1)
        await it.stop()
        assert (await it.client.show(job)).status == "queued"
        gate.touch()
        await it.engine()
        end = await it.until_rest(job)
        assert end.status == "succeeded"
        assert it.bodies()[0]["messages"] == it.bodies()[1]["messages"]


async def test_files_are_attached_by_path_and_outside_ones_are_copied(tmp_path: Path) -> None:
    outside = tmp_path / "note.txt"
    outside.write_text("outside")
    async with rig(tmp_path, [DONE], pieces={"one": ONE}) as it:
        (it.workspace / "in.txt").write_text("inside")
        (it.workspace / "said.txt").write_text("said")
        job = await it.start(
            "Look at @said.txt",
            piece="one",
            files=(it.workspace / "in.txt", outside),
            selection=("in.txt", "picked"),
        )
        end = await it.until_rest(job)
        prompt = it.bodies()[0]["messages"][1]["content"]
        listed = prompt.split("Attached by the person")[1]
        folder = f".maestro/tasks/{end.task_id}/input"
        for path in ("in.txt", "said.txt", f"{folder}/note.txt", f"{folder}/selection-1.txt"):
            assert f"- {path}\n" in listed
        assert (it.workspace / ".maestro/tasks/.gitignore").read_text() == "*\n"


async def test_a_job_resumes_on_the_piece_it_started_with(tmp_path: Path) -> None:
    def script(request):  # type: ignore[no-untyped-def]
        return (
            DONE
            if request.contains("yes, proceed")
            else call("complete", status="needs_user_input", result="Go?")
        )

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await it.open_request(job)
        (it.workspace / ".maestro/pieces/one.yaml").unlink()
        await it.client.answer(job, "yes, proceed")
        assert (await it.until_rest(job)).status == "succeeded"


async def test_mistakes_are_named(tmp_path: Path) -> None:
    async with rig(tmp_path, [DONE], pieces={"one": ONE}, start_engine=False) as it:
        with pytest.raises(NotFound) as unknown:
            await it.start(piece="oen")
        assert "one" in unknown.value.data["known"]  # type: ignore[operator]
        with pytest.raises(BadArgument):
            await it.start("  ")
        with pytest.raises(BadArgument):
            await it.start(mode="yolo")
        with pytest.raises(NotFound):
            await it.client.show("j-none")
        it.client.config = it.client.config.__class__(llm=ModelSettings())
        with pytest.raises(NotConfigured):
            await it.start()


async def test_a_japanese_instruction_gets_japanese_prompts(tmp_path: Path) -> None:
    async with rig(tmp_path, [DONE], pieces={"one": ONE}) as it:
        job = await it.start("税額を切り捨てにしてください", piece="one")
        end = await it.until_rest(job)
        assert end.language == "ja"
        system, user = it.bodies()[0]["messages"][:2]
        assert "あなたは maestro です" in system["content"]
        assert "## 現在のステップ: work" in user["content"] and "## タスク" in user["content"]
