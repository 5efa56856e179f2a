"""Odd moments and sizes of the whole engine: where conversations that go on, parks, children, comments and a
full context meet.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.catalog import prompts
from engine.core.checklist import MOST_ITEMS, MOST_LISTS, SHOWN_TOKENS, Item, shown_all
from engine.core.prompting import newest
from engine.core.truncate import estimate_tokens
from engine.core.views import JobDetail, Request
from engine.llm.scripted import ByMovement, ScriptReply, ServerOptions, call
from tests.engine.families import PIECES, done, prompt_of, section, spawn, task_of
from tests.engine.filling import at, nothing_twice, piece, read, server
from tests.engine.odd import ASK, DONE
from tests.engine.rig import Rig, rig
from tests.engine.test_approvals import ONE

HUGE = "START " + "word " * 200_000 + "END"
SMALL = ServerOptions(context=32_768)
ENDED = ("succeeded", "failed", "aborted")


def settled(request: Request) -> Callable[[JobDetail], bool]:
    return lambda detail: request.request_id not in detail.open_requests


async def said_meanwhile(it: Rig, job: str, asked: threading.Event, gate: threading.Event, text: str) -> None:
    """A comment that arrives while the model works on its reply."""
    await asyncio.to_thread(asked.wait, 5)
    await it.client.comment((await it.client.show(job)).task_id, text)
    gate.set()


async def test_a_comment_that_crosses_a_forced_end_does_not_keep_the_job_from_ending(tmp_path: Path) -> None:
    asked, gate = threading.Event(), threading.Event()

    def work(request: Any) -> ScriptReply:
        asked.set()
        gate.wait(5)
        return at(0.96, read("a.txt"))

    pieces = {"full": piece("COMPLETE")}
    async with rig(tmp_path, ByMovement({"work": work}), pieces=pieces, server=server()) as it:
        job = await it.start(piece="full")
        await said_meanwhile(it, job, asked, gate, "also this")
        end = await it.until_rest(job)
        assert end.status == "succeeded" and end.forced
        assert sum(kind == "status" for kind in await it.kinds(job)) == 3
        follow_up = await it.client.comment(end.task_id, "go on")
        assert follow_up is not None
        await it.until(follow_up, lambda d: d.status in ENDED)
        assert "also this" in prompt_of(it.bodies()[-1])


async def test_a_huge_comment_while_a_job_runs_leaves_room_to_go_on(tmp_path: Path) -> None:
    asked, gate = threading.Event(), threading.Event()

    def script(request: Any) -> ScriptReply:
        if request.results("Read"):
            return DONE
        asked.set()
        gate.wait(5)
        return read("a.txt")

    async with rig(tmp_path, script, pieces={"one": ONE}, server=SMALL) as it:
        (it.workspace / "a.txt").write_text("x")
        job = await it.start(piece="one")
        await said_meanwhile(it, job, asked, gate, HUGE)
        assert (await it.until_rest(job)).status == "succeeded"
        heard = it.bodies()[-1]["messages"][-1]["content"]
        assert "START" in heard and "END" in heard and "left out" in heard
        nothing_twice(it.bodies())


async def test_what_the_person_says_to_a_reply_of_text_goes_with_the_reminder(tmp_path: Path) -> None:
    """Else a model that asks in plain text would be ended by its guard with the answer unheard."""
    asked, gate = threading.Event(), threading.Event()

    def script(request: Any) -> ScriptReply:
        if "The person says: yes, go on" in request.last_user:
            return DONE
        asked.set()
        gate.wait(5)
        return ScriptReply(text="Shall I go on?")

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await said_meanwhile(it, job, asked, gate, "yes, go on")
        assert (await it.until_rest(job)).status == "succeeded"
        assert "no tool call" in it.bodies()[-1]["messages"][-1]["content"]
        nothing_twice(it.bodies())


@pytest.mark.parametrize("status", ["success", "aborted"])
async def test_what_the_person_said_meanwhile_is_heard_before_a_task_ends(
    tmp_path: Path, status: str
) -> None:
    asked, gate = threading.Event(), threading.Event()

    def script(request: Any) -> ScriptReply:
        if "try the other door" in request.last_user:
            return done("by the other door")
        asked.set()
        gate.wait(5)
        return call("complete", status=status, result="That is that.")

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        job = await it.start(piece="one")
        await said_meanwhile(it, job, asked, gate, "try the other door")
        assert (await it.until_rest(job)).result == "by the other door"


async def test_a_huge_answer_does_not_fill_the_prompts_of_later_questions(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        prompt = request.messages[1]["content"]
        if "The person answered: second" in prompt:
            return DONE
        first = "The person answered: START" in prompt
        return call("complete", status="needs_user_input", result="Which size?" if first else "Which log?")

    async with rig(tmp_path, script, pieces={"one": ONE}, server=SMALL) as it:
        job = await it.start(piece="one")
        for answer in (HUGE, "second"):
            request = await it.open_request(job)
            await it.client.answer(job, answer, request.request_id)
            await it.until(job, settled(request))
        end = await it.until(job, lambda d: d.status in ENDED)
        assert end.status == "succeeded", (end.reason, end.result)
        assert "Which log?: answered (START" in section(
            prompt_of(it.bodies()[-1]), "Already decided by the person"
        )


async def test_an_answer_and_results_of_subtasks_share_the_room_of_a_prompt(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request).startswith("child:"):
            return done("FIRST " + "child " * 2_500 + "LAST")
        prompt = request.messages[1]["content"]
        if "The person answered" in prompt:
            return done("fits")
        if "Results of subtasks" in prompt:
            return ASK
        return call("WaitSubTask") if request.results("SpawnSubTask") else spawn("one", "two")

    async with rig(tmp_path, script, pieces=PIECES, server=ServerOptions(context=12_000)) as it:
        job = await it.start("lead", piece="parent")
        request = await it.open_request(job)
        await it.client.answer(job, HUGE, request.request_id)
        end = await it.until(job, lambda d: d.status in ENDED)
        assert (end.status, end.result) == ("succeeded", "fits"), end.reason
        prompt = prompt_of(it.bodies()[-1])
        assert section(prompt, "Results of subtasks").count("LAST") == 2
        assert prompt.rstrip().endswith("END")


async def test_a_forced_hop_tells_the_results_of_subtasks_whole(tmp_path: Path) -> None:
    result = "a line of the result\n" * 800

    def script(request: Any) -> ScriptReply:
        if task_of(request).startswith("child:"):
            return done(result)
        if request.movement == "gather":
            return at(0.3, done("gathered"))
        if "Results of subtasks" in request.messages[1]["content"]:
            return at(0.96, read("a.txt"))
        return call("WaitSubTask") if request.results("SpawnSubTask") else spawn("one")

    async with rig(tmp_path, script, pieces=PIECES, server=server()) as it:
        job = await it.start("lead", piece="parent")
        assert (await it.until(job, lambda d: d.status in ENDED)).result == "gathered"
        assert prompt_of(it.bodies()[-1]).count("a line of the result") == 800


@pytest.mark.parametrize("resume", ["rebuild", "continue"])
async def test_the_same_question_again_meets_the_ask_limit_and_no_other_guard(
    tmp_path: Path, resume: str
) -> None:
    """Answers are news: a question that comes again word for word is no loop, for it is limited by itself."""
    text = ONE.replace("initial_movement", f"resume: {resume}\ninitial_movement")
    async with rig(tmp_path, lambda request: ASK, pieces={"one": text}) as it:
        job = await it.start(piece="one")
        for number in range(3):
            request = await it.open_request(job)
            await it.client.answer(job, f"answer {number}", request.request_id)
            await it.until(job, settled(request))
        end = await it.until(job, lambda d: d.status in ENDED)
        assert (end.status, end.reason) == ("aborted", "ask_limit_reached")
        assert end.result == "Which colour?"
        assert len(end.requests) == 3


async def test_what_is_told_as_already_done_is_bounded_and_says_so(tmp_path: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if "The person answered" in request.messages[1]["content"]:
            return DONE
        at = len(request.results("Write"))
        if at >= 150:
            return ASK
        names = [f"a/rather/long/folder/file{number}.txt" for number in range(at, at + 50)]
        return ScriptReply(calls=tuple(("Write", {"file_path": name, "content": "x"}) for name in names))

    async with rig(tmp_path, script, pieces={"one": ONE}, server=ServerOptions(context=120_000)) as it:
        job = await it.start(piece="one")
        request = await it.open_request(job)
        await it.client.answer(job, "red", request.request_id)
        assert (await it.until_rest(job)).status == "succeeded"
        told = section(prompt_of(it.bodies()[-1]), "Already done in this movement")
        assert "earlier ones" in told and "file149.txt" in told and "file0.txt" not in told
        assert len(told) < 10_000


@given(
    st.lists(st.text(min_size=1, max_size=40), max_size=12),
    st.integers(0, 60),
    st.sampled_from(["en", "ja"]),
)
@settings(max_examples=40, deadline=None)
def test_the_newest_lines_are_kept_in_order_and_the_rest_is_counted(
    lines: list[str], tokens: int, language: str
) -> None:
    texts = prompts(language)
    kept = newest(lines, texts, tokens)
    left_out = len(lines) - len(kept[1:]) if kept and kept != lines else 0
    if sum(map(estimate_tokens, lines)) <= tokens:
        assert kept == lines
    else:
        assert kept[0] == texts("carried.earlier", count=left_out)
        assert kept[1:] == lines[left_out:]
        assert sum(map(estimate_tokens, kept[1:])) <= tokens


async def test_a_huge_mission_brief_is_kept_whole_and_told_in_part(tmp_path: Path) -> None:
    async with rig(tmp_path, [DONE], pieces={"one": ONE}, server=SMALL, start_engine=False) as it:
        job = await it.start(piece="one")
        task = (await it.client.show(job)).task_id
        kept = await it.client.brief(task, {"goal": HUGE})
        await it.engine()
        end = await it.until_rest(job)
        assert end.status == "succeeded", end.result
        assert kept.goal == HUGE
        assert len(section(prompt_of(it.bodies()[-1]), "Mission brief")) < 5_000


def test_many_long_checklists_stay_small_in_the_guidance() -> None:
    items = tuple(Item(f"{number} " + "long " * 50, done=number % 2 == 0) for number in range(MOST_ITEMS))
    shown = shown_all({f"list {number}": items for number in range(MOST_LISTS)})
    assert estimate_tokens(shown) <= SHOWN_TOKENS
    assert all(f"list {number} (50/100)" in shown for number in range(MOST_LISTS))
    assert shown_all({"one": items[:3]}).count("long long") == 3 * 25


async def test_a_checklist_holds_no_secret_in_its_copy_either(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    steps = [call("Checklist", action="create", name="steps", items=[f"use {token}", "rest"]), DONE]
    async with rig(tmp_path, steps, pieces={"one": ONE}) as it:
        await it.until_rest(await it.start(piece="one"))
        (copy,) = (it.workspace / ".maestro/tasks").glob("*/logs/checklists/steps.json")
        assert "use [redacted]" in copy.read_text()


async def test_a_checklist_is_kept_though_its_copy_cannot_be_written(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()

    def script(request: Any) -> ScriptReply:
        if not request.results():
            (logs,) = (tmp_path / "work/.maestro/tasks").glob("*/logs")
            shutil.rmtree(logs)
            logs.symlink_to(outside)
            return call("Checklist", action="create", name="steps", items=["one"])
        if len(request.results()) == 1:
            return call("Checklist", action="check", name="steps", item="one")
        return DONE

    async with rig(tmp_path, script, pieces={"one": ONE}) as it:
        await it.until_rest(await it.start(piece="one"))
        assert it.bodies()[-1]["messages"][-1]["content"] == "steps (1/1)\n1. [x] one"
        assert list(outside.iterdir()) == []


@pytest.mark.parametrize("workspace", ["a\0b", "~nobody-of-this-name/x"])
async def test_a_workspace_that_is_no_path_is_said_without_a_card(tmp_path: Path, workspace: str) -> None:
    steps = [call("SpinOffTask", instruction="do", workspace=workspace), DONE]
    async with rig(tmp_path, steps, pieces=PIECES) as it:
        end = await it.until_rest(await it.start(piece="parent"))
        assert end.status == "succeeded", end.open_requests
        said = it.bodies()[-1]["messages"][-1]["content"]
        assert "folder" in said and "Error:" not in said
