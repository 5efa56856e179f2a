"""Children: started once, waited for without holding anything, and every end of theirs is a result."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.catalog import prompts
from engine.core.errors import BadArgument, IllegalMove, NotFound
from engine.core.family import Child, child_lines
from engine.core.jobs import JobStatus
from engine.core.truncate import estimate_tokens
from engine.core.views import JobSummary
from engine.llm.scripted import ScriptReply, call
from tests.engine.families import PIECES, done, prompt_of, section, spawn, task_of
from tests.engine.rig import DEADLINE_S, Rig, rig

RESULTS = "Results of subtasks"


async def children_of(it: Rig, job: str) -> list[Child]:
    return await it.client.db(it.client.store.children, job)


async def until_child(it: Rig, parent: str, title: str, status: JobStatus) -> None:
    """Wait until the child with this title has a status."""
    await it.until(parent, lambda d: d.status != "queued")
    async with asyncio.timeout(DEADLINE_S):
        for _ in iter(int, 1):
            if any((c.title, c.status) == (title, status) for c in await children_of(it, parent)):
                return
            await asyncio.sleep(0.01)


def wakes(events: list[dict[str, Any]]) -> int:
    return sum(
        e["kind"] == "status" and e["from"] == "waiting_subtasks" and e["to"] == "queued" for e in events
    )


async def test_two_children_fail_one_succeeds_one_asks_and_the_parent_wakes_once_after_the_last(
    tmp_path: Path,
) -> None:
    def script(request: Any) -> ScriptReply:
        match task_of(request):
            case "lead":
                if request.contains(f"## {RESULTS}"):
                    return done("gathered")
                return (
                    call("WaitSubTask")
                    if request.results("SpawnSubTask")
                    else spawn("bad", "gone", "good", "asks")
                )
            case "child: bad":
                return call("complete", status="aborted", result="there is no such file")
            case "child: gone":
                return ScriptReply(status=400)
            case "child: good":
                return done("all\ngood")
            case _:
                if request.contains("The person answered: green"):
                    return done("painted it green")
                return call("complete", status="needs_user_input", result="Which colour?")

    async with rig(tmp_path, script, pieces=PIECES, max_concurrency=1) as it:
        parent = await it.start("lead", piece="parent")
        detail = await it.until(parent, lambda d: d.status == "waiting_subtasks")
        assert (detail.wait_reason, detail.resume_movement) == ("subtasks", "work")
        await it.until(parent, lambda d: len(d.open_requests) == 1)
        ended = [c for c in await children_of(it, parent) if not c.is_open]
        assert {(c.title, c.status) for c in ended} == {
            ("bad", "aborted"),
            ("gone", "failed"),
            ("good", "succeeded"),
        }
        assert (await it.client.show(parent)).status == "waiting_subtasks"

        await it.client.answer(parent, "green")
        end = await it.until(parent, lambda d: d.status == "succeeded")
        assert end.result == "gathered"
        assert wakes(await it.client.events(parent)) == 1
        told = section(prompt_of(it.bodies()[-1]), RESULTS)
        for child in await children_of(it, parent):
            assert f"- {child.job_id} “{child.title}”: {child.status}" in told
        assert "there is no such file" in told and "all\n  good" in told and "painted it green" in told
        assert told.count("\n- ") == 3
        assert sum(f"## {RESULTS}" in prompt_of(body) for body in it.bodies()) == 1


async def test_a_child_is_a_task_of_its_own_with_its_parents_mode_and_its_own_language(
    tmp_path: Path,
) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request) == "lead":
            if request.results("SpawnSubTask"):
                return call("WaitSubTask") if not request.contains(RESULTS) else done()
            return call("SpawnSubTask", instruction="日本語で要約する", piece="child")
        return done("要約しました")

    async with rig(tmp_path, script, pieces=PIECES) as it:
        parent = await it.start("lead", piece="parent", mode="ask", model="scripted")
        await it.until(parent, lambda d: d.status == "succeeded")
        (child,) = await children_of(it, parent)
        detail = await it.client.show(child.job_id)
        mother = await it.client.show(parent)
        assert detail.parent_id == parent and detail.task_id != mother.task_id
        assert (detail.mode, detail.piece, detail.language, mother.language) == ("ask", "child", "ja", "en")
        assert detail.title == "日本語で要約する"
        assert (it.workspace / ".maestro" / "tasks" / detail.task_id / "output").is_dir()
        assert detail.comments[-1].text == "要約しました"


async def test_in_japanese_the_family_the_grant_and_the_refusal_are_japanese(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request) != "手分けする":
            if results := request.results("RequestTool"):
                return done(results[-1].text)
            return call("RequestTool", tool="Glob", reason="探すため")
        if request.contains("## サブタスクの結果"):
            return done("集めた")
        if request.results("SpawnSubTask"):
            return call("WaitSubTask")
        orders = [
            {"instruction": f"{name}を調べる", "piece": "child", "title": name} for name in ("一つ", "二つ")
        ]
        return ScriptReply(calls=tuple(("SpawnSubTask", order) for order in orders))

    async with rig(tmp_path, script, pieces=PIECES) as it:
        parent = await it.start("手分けする", piece="parent")
        detail = await it.until(parent, lambda d: len(d.open_requests) == 2)
        for request_id, decision in zip(detail.open_requests, ("allow", "deny"), strict=True):
            request = await it.client.request(request_id)
            assert request.title == "ムーブメント「do」で Glob を使う"
            await it.client.decide(request_id, decision, note="あるもので。" if decision == "deny" else "")
        assert (await it.until(parent, lambda d: d.status == "succeeded")).result == "集めた"
        told = section(prompt_of(it.bodies()[-1]), "サブタスクの結果")
        assert "「一つ」: succeeded" in told and "「二つ」: succeeded" in told
        assert "Glob はここで使えます" in told and "却下しました。メモ: あるもので。" in told
        decided = [prompt_of(body) for body in it.bodies() if "## 人がすでに決めたこと" in prompt_of(body)]
        assert any("ムーブメント「do」で Glob を使う: 許可" in prompt for prompt in decided)


async def test_the_same_title_is_the_same_child_whatever_the_words(tmp_path: Path) -> None:
    asked = [("count the lines", "Lines"), ("please count all lines", " lines "), ("count", "LINES")]

    def script(request: Any) -> ScriptReply:
        if task_of(request) != "lead":
            return done("one")
        spawned = request.results("SpawnSubTask")
        if len(spawned) < len(asked):
            words, title = asked[len(spawned)]
            return call("SpawnSubTask", instruction=words, piece="child", title=title)
        return call("complete", status="aborted", result="\n".join(result.text for result in spawned))

    async with rig(tmp_path, script, pieces=PIECES, max_concurrency=1) as it:
        parent = await it.start("lead", piece="parent")
        first, *again = ((await it.until_rest(parent)).result or "").splitlines()
        (child,) = await children_of(it, parent)
        assert "Started subtask" in first and len(again) == 2
        assert all("exists already" in text and child.job_id in text for text in (again))


async def test_without_a_title_the_instruction_tells_children_apart(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request) != "lead":
            return done("one")
        if len(spawned := request.results("SpawnSubTask")) < 3:
            words = ("count the lines", "count the words", "count  the lines")[len(spawned)]
            return call("SpawnSubTask", instruction=words, piece="child")
        return call("complete", status="aborted", result="counted")

    async with rig(tmp_path, script, pieces=PIECES, max_concurrency=1) as it:
        parent = await it.start("lead", piece="parent")
        await it.until_rest(parent)
        assert [c.title for c in await children_of(it, parent)] == ["count the lines", "count the words"]


async def test_waiting_with_nothing_open_gives_the_results_at_once(tmp_path: Path) -> None:
    released = asyncio.Event()

    def script(request: Any) -> ScriptReply:
        if task_of(request) != "lead":
            return done("ready")
        if not request.results("SpawnSubTask"):
            return spawn("quick")
        if not released.is_set():
            return call("Read", file_path=f"a{request.turn}")  # works on until the child has ended
        return (
            done(request.last_result("WaitSubTask"))
            if request.results("WaitSubTask")
            else call("WaitSubTask")
        )

    async with rig(tmp_path, script, pieces=PIECES, max_concurrency=2) as it:
        parent = await it.start("lead", piece="parent")
        await it.until(parent, lambda d: bool(d.movements))
        await until_child(it, parent, "quick", JobStatus.SUCCEEDED)
        released.set()
        end = await it.until_rest(parent)
        assert end.status == "succeeded" and "“quick”: succeeded" in (end.result or "")
        assert "ready" in (end.result or "")
        assert wakes(await it.client.events(parent)) == 0


async def test_a_rule_waits_for_the_children_and_resumes_at_default_next(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request) != "lead":
            return done("ready")
        if request.movement == "gather":
            return done("gathered")
        if request.results("SpawnSubTask"):
            return call(
                "transition", next_step="WAIT_SUBTASKS", summary="handed out", lessons="one is enough"
            )
        return spawn("one")

    async with rig(tmp_path, script, pieces=PIECES, max_concurrency=1) as it:
        parent = await it.start("lead", piece="parent")
        detail = await it.until(parent, lambda d: d.status == "waiting_subtasks")
        assert detail.resume_movement == "gather"
        end = await it.until(parent, lambda d: d.status == "succeeded")
        assert [(m.name, m.next) for m in end.movements] == [
            ("work", "WAIT_SUBTASKS"),
            ("gather", "COMPLETE"),
        ]
        prompt = prompt_of(it.bodies()[-1])
        assert "“one”: succeeded" in section(prompt, RESULTS) and "one is enough" in prompt
        assert wakes(await it.client.events(parent)) == 1


async def test_success_is_refused_while_a_child_is_open(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request) != "lead":
            return (
                call("complete", status="needs_user_input", result="Which?")
                if not request.contains("The person answered")
                else done()
            )
        if request.contains(f"## {RESULTS}"):
            return done("with all")
        if not request.results("SpawnSubTask"):
            return spawn("slow")
        return call("WaitSubTask") if request.results("complete") else done("without waiting")

    async with rig(tmp_path, script, pieces=PIECES) as it:
        parent = await it.start("lead", piece="parent")
        await it.until(parent, lambda d: d.status == "waiting_subtasks" and bool(d.open_requests))
        refused = [m["content"] for b in it.bodies() for m in b["messages"] if m["role"] == "tool"]
        assert any("Subtasks are still open" in text for text in refused)
        await it.client.answer(parent, "this")
        assert (await it.until(parent, lambda d: d.status == "succeeded")).result == "with all"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"instruction": "x", "piece": "chidl"}, "child"),
        ({"instruction": "x", "piece": "broken"}, "broken"),
        ({"instruction": " "}, "empty"),
        ({}, "instruction"),
    ],
    ids=["an unknown piece", "a faulty piece", "nothing to do", "no instruction"],
)
async def test_a_child_that_cannot_be_started_is_an_error_result(
    tmp_path: Path, arguments: dict[str, str], said: str
) -> None:
    def script(request: Any) -> ScriptReply:
        if request.results("SpawnSubTask"):
            return done(request.last_result("SpawnSubTask"))
        return ScriptReply(calls=(("SpawnSubTask", arguments),))

    async with rig(tmp_path, script, pieces={**PIECES, "broken": "name: broken\n"}) as it:
        parent = await it.start("lead", piece="parent")
        end = await it.until_rest(parent)
        assert end.status == "succeeded" and said in (end.result or "")
        assert await children_of(it, parent) == []
        result = next(e for e in await it.client.events(parent) if e["kind"] == "tool_result")
        assert result["ok"] is False


async def test_a_person_may_deny_subtasks_in_the_settings(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        return done(request.last_result("SpawnSubTask")) if request.results("SpawnSubTask") else spawn("one")

    async with rig(tmp_path, script, pieces=PIECES, deny=("SpawnSubTask",)) as it:
        parent = await it.start("lead", piece="parent")
        end = await it.until_rest(parent)
        assert "Denied by policy" in (end.result or "") and await children_of(it, parent) == []


async def test_families_are_three_deep_and_twenty_wide_and_say_so(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        task = task_of(request)
        if task.startswith("child: level"):
            number = int(task[-1])
            if not request.results("SpawnSubTask"):
                return spawn(f"level {number + 1}")
            return call("complete", status="aborted", result=request.last_result("SpawnSubTask"))
        if not request.results("SpawnSubTask"):
            return spawn("level 1", *(f"n{n}" for n in range(20)))
        if task == "lead" and not request.contains(RESULTS):
            return call("complete", status="aborted", result=request.last_result("SpawnSubTask"))
        return done()

    async with rig(tmp_path, script, pieces=PIECES, max_concurrency=1) as it:
        parent = await it.start("lead", piece="parent")
        end = await it.until_rest(parent)
        assert len(await children_of(it, parent)) == 20 and "may start 20 tasks" in (end.result or "")

    deep = tmp_path / "deep"
    deep.mkdir()
    async with rig(deep, script, pieces=PIECES, max_concurrency=1) as it:
        top = await it.start("child: level 0", piece="child")
        await it.until_rest(top)
        names = Counter[str]()
        for job in await it.client.list_jobs():
            names[job.title] += 1
        assert names["level 4"] == 0


async def test_tasks_that_start_tasks_beside_them_come_to_an_end(tmp_path: Path) -> None:
    """Nobody is asked about them, so a piece that starts itself again and again must not fill the queue."""

    def script(request: Any) -> ScriptReply:
        if request.results("SpinOffTask"):
            return done(request.last_result("SpinOffTask"))
        again = [("SpinOffTask", {"instruction": f"again {n}", "piece": "parent"}) for n in range(2)]
        return ScriptReply(calls=tuple(again))

    async with rig(tmp_path, script, pieces=PIECES) as it:
        await it.start("begin", piece="parent")
        jobs: list[JobSummary] = []
        async with asyncio.timeout(8):
            while not jobs or any(job.status != "succeeded" for job in jobs):
                await asyncio.sleep(0.02)
                jobs = await it.client.list_jobs()
        assert len(jobs) == 1 + 2 + 4 + 8
        said = [(await it.client.show(job.job_id)).result or "" for job in jobs]
        assert sum("may be nested 3 deep" in text for text in said) == 8


async def test_cancelling_a_parent_cancels_children_that_run_and_those_that_wait(tmp_path: Path) -> None:
    slow = ScriptReply(text="…" * 400, delay=0.05)

    def script(request: Any) -> ScriptReply:
        match task_of(request):
            case "lead":
                return (
                    call("WaitSubTask")
                    if request.results("SpawnSubTask")
                    else spawn("runs", "asks", "queued")
                )
            case "child: asks":
                return call("complete", status="needs_user_input", result="Which?")
            case _:
                return slow

    async with rig(tmp_path, script, pieces=PIECES, max_concurrency=1) as it:
        parent = await it.start("lead", piece="parent")
        await it.until(parent, lambda d: d.status == "waiting_subtasks")
        await until_child(it, parent, "runs", JobStatus.RUNNING)
        assert await it.client.cancel(parent) is True
        for child in await children_of(it, parent):
            end = await it.until(child.job_id, lambda d: d.status == "cancelled", within=3.0)
            assert end.open_requests == []
        assert (await it.client.show(parent)).status == "cancelled"
        assert await it.client.open_requests() == []


@pytest.mark.parametrize("end", ["aborted", "failed"])
async def test_nobody_works_on_for_a_parent_that_ended(tmp_path: Path, end: str) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request) != "lead":
            return call("complete", status="needs_user_input", result="Which?")
        if not request.results("SpawnSubTask"):
            return spawn("left")
        return ScriptReply(status=400) if end == "failed" else call("complete", status="aborted", result="no")

    async with rig(tmp_path, script, pieces=PIECES, max_concurrency=1) as it:
        parent = await it.start("lead", piece="parent")
        assert (await it.until_rest(parent)).status == end
        (child,) = await children_of(it, parent)
        await it.until(child.job_id, lambda d: d.status == "cancelled")


async def test_a_childs_question_is_seen_and_answered_from_its_parents_view(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        task = task_of(request)
        if task in ("lead", "stranger"):
            if request.contains(f"## {RESULTS}"):
                return done(section(request.messages[1]["content"], RESULTS))
            return call("WaitSubTask") if request.results("SpawnSubTask") else spawn("a", "b")
        if request.contains("The person answered:"):
            return done("heard")
        return call("complete", status="needs_user_input", result=f"{task}?")

    async with rig(tmp_path, script, pieces=PIECES) as it:
        parent, stranger = await it.start("lead", piece="parent"), await it.start("stranger", piece="parent")
        detail = await it.until(
            parent, lambda d: d.status == "waiting_subtasks" and len(d.open_requests) == 2
        )
        await it.until(stranger, lambda d: d.status == "waiting_subtasks" and len(d.open_requests) == 2)
        first, second = detail.open_requests
        with pytest.raises(BadArgument) as many:
            await it.client.answer(parent, "which one is meant?")
        assert many.value.key == "job.several_questions"
        with pytest.raises(NotFound):
            await it.client.answer(stranger, "not yours", first)
        await it.client.answer(parent, "this", first)
        await it.until(parent, lambda d: d.open_requests == [second])
        await it.client.answer(parent, "that")
        assert (await it.until(parent, lambda d: d.status == "succeeded")).result
        with pytest.raises(IllegalMove):
            await it.client.answer(parent, "too late")


async def test_the_retry_of_a_child_is_a_child_and_stands_for_the_first(tmp_path: Path) -> None:
    attempts = Counter[str]()

    def script(request: Any) -> ScriptReply:
        task = task_of(request)
        if task == "lead":
            if request.contains(f"## {RESULTS}"):
                return done("ok")
            return call("WaitSubTask") if request.results("SpawnSubTask") else spawn("flaky", "asks")
        attempts[task] += 1
        if task == "child: flaky":
            return ScriptReply(status=400) if attempts[task] == 1 else done("at last")
        return (
            done()
            if request.contains("The person answered")
            else call("complete", status="needs_user_input", result="?")
        )

    async with rig(tmp_path, script, pieces=PIECES) as it:
        parent = await it.start("lead", piece="parent")
        await it.until(parent, lambda d: d.status == "waiting_subtasks" and bool(d.open_requests))
        flaky = next(c for c in await children_of(it, parent) if c.title == "flaky")
        await it.until(flaky.job_id, lambda d: d.status == "failed")
        retry = await it.client.retry(flaky.job_id)
        await it.until(retry, lambda d: d.status == "succeeded")
        assert (await it.client.show(parent)).status == "waiting_subtasks"
        assert {c.job_id: c.status for c in await children_of(it, parent)}[retry] == JobStatus.SUCCEEDED
        await it.client.answer(parent, "go")
        await it.until(parent, lambda d: d.status == "succeeded")
        told = section(prompt_of(it.bodies()[-1]), RESULTS)
        assert "at last" in told and flaky.job_id not in told and told.count("“flaky”") == 1


async def test_a_fault_between_the_child_and_its_result_makes_no_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request) != "lead":
            return done("ready")
        if request.contains(f"## {RESULTS}"):
            return done("ok")
        spawned = request.results("SpawnSubTask")
        return call("WaitSubTask") if spawned and "died" not in spawned[-1].text else spawn("one")

    from engine.store.store import Store

    spawn_once = Store.spawn
    died = asyncio.Event()

    def and_die(self: Store, *args: Any) -> Any:
        made = spawn_once(self, *args)
        if not died.is_set():
            died.set()
            raise RuntimeError("died")
        return made

    async with rig(tmp_path, script, pieces=PIECES, start_engine=False) as it:
        monkeypatch.setattr(Store, "spawn", and_die)
        parent = await it.start("lead", piece="parent")
        await it.engine()
        await it.until(parent, lambda d: d.status == "succeeded")
        assert died.is_set() and len(await children_of(it, parent)) == 1


async def test_a_lone_run_works_its_children_with_one_slot(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request) == "lead":
            if request.contains(f"## {RESULTS}"):
                return done("ok")
            return call("WaitSubTask") if request.results("SpawnSubTask") else spawn("one", "two")
        if task_of(request) in ("child: one", "child: two"):
            if request.contains(f"## {RESULTS}"):
                return done("deep")
            return call("WaitSubTask") if request.results("SpawnSubTask") else spawn("below")
        return done("bottom")

    from engine.service import Service

    async with rig(tmp_path, script, pieces=PIECES, max_concurrency=1, start_engine=False) as it:
        other = await it.start("somebody else's", piece="child")
        parent = await it.start("lead", piece="parent")
        service = Service(it.workspace, it.client.store_file, it.config, only=parent)
        task = asyncio.create_task(service.run())
        try:
            await it.until(parent, lambda d: d.status == "succeeded")
        finally:
            service.stop()
            await asyncio.wait_for(task, 10)
        assert (await it.client.show(other)).status == "queued"


@pytest.mark.parametrize("language", ["en", "ja"])
def test_results_are_whole_within_the_budget_and_share_it_fairly(language: str) -> None:
    long = "x" * 40_000
    children = [
        Child("j-1", "t-1", "short", JobStatus.SUCCEEDED, "all good"),
        Child("j-2", "t-2", "long", JobStatus.SUCCEEDED, f"BEGIN{long}END"),
        Child("j-3", "t-3", "longer", JobStatus.SUCCEEDED, f"BEGIN{long}{long}END"),
        Child("j-4", "t-4", "silent", JobStatus.FAILED, "", "provider_error"),
        Child("j-5", "t-5", "open", JobStatus.RUNNING),
    ]
    lines = child_lines(children, 2_000, prompts(language))
    assert "all good" in lines[0] and "provider_error" in lines[3] and "running" in lines[4]
    for line in lines[1:3]:
        assert "BEGIN" in line and line.endswith("END")
    assert sum(estimate_tokens(line) for line in lines) < 2_300
    assert all(abs(estimate_tokens(lines[1]) - estimate_tokens(lines[2])) < 20 for _ in lines)
    assert long in child_lines(children, 60_000, prompts(language))[1]
