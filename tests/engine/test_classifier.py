"""The classifier: a task that names no piece gets one at its first claim, and the person is told which."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.catalog import messages
from engine.core.classify import By, Failure
from engine.core.errors import FaultyPiece
from engine.core.limits import Classifier
from engine.core.piece import piece_hash
from engine.llm.scripted import ScriptReply, ScriptRequest, ServerOptions
from engine.llm.scripted.story import Story
from engine.loader import shipped_folder
from tests.engine.killed import run_and_kill
from tests.engine.rig import Rig, rig

MINE = """
name: {name}
description: Sorts the shelf. 棚を整理する。
max_movements: 3
initial_movement: only
triggers: {{keywords: [shelf, 棚]}}
movements:
  - name: only
    edit: false
    persona: p
    instruction: sort
    allowed_tools: [Read]
    rules: []
"""
DONE = ScriptReply(calls=(("complete", {"status": "success", "result": "done"}),))
SHIPPED = sorted(path.stem for path in shipped_folder().glob("*.yaml"))


def mine(name: str = "shelf") -> dict[str, str]:
    return {name: MINE.format(name=name)}


def answering(choice: str | ScriptReply) -> Any:
    """A model that answers the classifier with ``choice``, and then does the task."""
    reply = ScriptReply(text=choice) if isinstance(choice, str) else choice
    return lambda request: DONE if request.tool_names else reply


async def events(it: Rig, job: str, kind: str) -> list[dict[str, Any]]:
    return [event for event in await it.client.events(job) if event["kind"] == kind]


async def told(it: Rig, job: str) -> dict[str, Any]:
    """What the event of the choice says."""
    (event,) = await events(it, job, "piece")
    return {name: event[name] for name in ("piece", "by", "failure") if name in event}


async def test_the_start_returns_at_once_and_the_first_claim_chooses(tmp_path: Path) -> None:
    async with rig(tmp_path, answering("shelf"), pieces=mine(), piece=None, start_engine=False) as it:
        job = await it.start("Put the books in order")
        before = await it.client.summary(job)
        assert (before.piece, before.movement, it.server.requests) == (None, None, [])
        await it.engine()
        detail = await it.until_rest(job)
        assert (detail.status, detail.piece) == ("succeeded", "shelf")
        assert await told(it, job) == {"piece": "shelf", "by": "classifier"}
        stored = await it.client.db(it.client.store.job, job)
        assert stored.piece_hash == piece_hash((await it.client.load_piece("shelf")).piece)
        usage = await events(it, job, "usage")
        assert detail.usage.calls == len(usage) == 2
        assert detail.usage.prompt_tokens == sum(event["promptTokens"] for event in usage)
        assert "sort" in it.bodies()[1]["messages"][1]["content"]


@pytest.mark.parametrize(
    ("task", "hint", "other"),
    [
        ("Sort the shelf", "(in this task: shelf)", "判断"),
        ("棚を整理して", "(このタスクに含まれる語: 棚)", "judge"),
    ],
)
async def test_one_short_call_without_tools_shows_every_piece_that_may_be_used(
    tmp_path: Path, task: str, hint: str, other: str
) -> None:
    pieces = {**mine(), "broken": "name: ["}
    async with rig(tmp_path, answering("chat"), pieces=pieces, piece=None) as it:
        job = await it.start(task)
        assert (await it.until_rest(job)).piece == "chat", "a keyword decides nothing"
        body = it.bodies()[0]
        assert "tools" not in body and [m["role"] for m in body["messages"]] == ["system", "user"]
        message = body["messages"][1]["content"]
        listed = [line.split(":")[0][2:] for line in message.splitlines() if line.startswith("- ")]
        assert listed == sorted([*SHIPPED, "shelf"])
        (line,) = [line for line in message.splitlines() if line.startswith("- shelf")]
        assert "棚を整理する。" in line and line.endswith(hint)
        assert task in message and other not in message


async def test_pieces_of_a_workspace_that_is_not_trusted_are_not_offered(tmp_path: Path) -> None:
    async with rig(tmp_path, answering("shelf"), pieces=mine(), piece=None, trusted=False) as it:
        job = await it.start("Sort the shelf")
        assert (await it.until_rest(job)).piece == "general"
        assert "- shelf" not in it.bodies()[0]["messages"][1]["content"]
        assert await told(it, job) == {"piece": "general", "by": "fallback", "failure": "unclear"}


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (ScriptReply(text="dance"), "unclear"),
        (ScriptReply(text="code or chat"), "unclear"),
        (ScriptReply(text="code", finish="length"), "unclear"),
        (ScriptReply(text="", reasoning="hm"), "empty"),
        (ScriptReply(status=500, body=b"{}"), "fault"),
        (ScriptReply(status=400, body=b'{"error": {"message": "tools are required"}}'), "fault"),
        (ScriptReply(raw_chunks=(b"data: garbage\n\n",)), "empty"),
        (ScriptReply(drop_after=10, text="code"), "fault"),
    ],
)
async def test_any_failure_takes_general_and_says_so(
    tmp_path: Path, answer: ScriptReply, failure: str
) -> None:
    async with rig(tmp_path, answering(answer), piece=None) as it:
        job = await it.start("Do it")
        detail = await it.until_rest(job)
        assert (detail.status, detail.piece) == ("succeeded", "general")
        assert await told(it, job) == {"piece": "general", "by": "fallback", "failure": failure}


async def test_a_server_with_too_many_requests_puts_the_job_off_and_it_is_asked_again(tmp_path: Path) -> None:
    busy = [ScriptReply(status=429, body=b"{}")]

    def script(request: ScriptRequest) -> ScriptReply:
        if busy:
            return busy.pop()
        return DONE if request.tool_names else ScriptReply(text="chat")

    async with rig(tmp_path, script, piece=None, llm={"max_attempts": 0, "requeue_s": 0.05}) as it:
        job = await it.start("Do it")
        assert (await it.until_rest(job)).piece == "chat"
        assert [e["reason"] for e in await events(it, job, "status") if e.get("reason")] == ["rate_limited"]
        assert await told(it, job) == {"piece": "chat", "by": "classifier"}


async def test_a_model_that_does_not_answer_in_time_is_not_waited_for(tmp_path: Path) -> None:
    held = threading.Event()

    def script(request: ScriptRequest) -> ScriptReply:
        if request.tool_names:
            return DONE
        held.wait(10)
        return ScriptReply(text="code")

    async with rig(tmp_path, script, piece=None, classifier=Classifier(timeout_s=0.2)) as it:
        job = await it.start("Do it")
        try:
            assert (await it.until_rest(job)).piece == "general"
            assert (await told(it, job))["failure"] == "timeout"
        finally:
            held.set()


@pytest.mark.parametrize(
    ("status", "says"),
    [(401, "key"), (403, "403"), (404, "404"), (402, "credit")],
)
async def test_a_server_that_cannot_be_used_at_all_fails_the_job_at_once_and_a_retry_asks_again(
    tmp_path: Path, status: int, says: str
) -> None:
    wrong = [ScriptReply(status=status, body=b"{}")]

    def script(request: ScriptRequest) -> ScriptReply:
        if wrong:
            return wrong.pop()
        return DONE if request.tool_names else ScriptReply(text="chat")

    async with rig(tmp_path, script, piece=None) as it:
        job = await it.start("Do it")
        detail = await it.until_rest(job)
        assert (detail.status, detail.reason, detail.piece) == ("failed", "provider_error", None)
        assert detail.result and len(detail.result.splitlines()) == 1 and says in detail.result
        assert len(it.server.requests) == 1 and await events(it, job, "piece") == []
        again = await it.client.retry(job)
        assert (await it.until_rest(again)).piece == "chat"


async def test_a_refused_connection_fails_the_job_at_once(tmp_path: Path) -> None:
    async with rig(tmp_path, answering("chat"), piece=None, start_engine=False) as it:
        job = await it.start("Do it")
        await it.server.__aexit__(None, None, None)
        await it.engine()
        detail = await it.until_rest(job)
        assert (detail.status, detail.reason, detail.piece) == ("failed", "provider_error", None)
        assert detail.result and "127.0.0.1" in detail.result


async def test_with_one_usable_piece_nobody_is_asked(tmp_path: Path) -> None:
    broken = {name: "name: [" for name in SHIPPED if name != "chat"}
    async with rig(tmp_path, answering("dance"), pieces=broken, piece=None) as it:
        job = await it.start("Do it")
        assert (await it.until_rest(job)).piece == "chat"
        assert await told(it, job) == {"piece": "chat", "by": "only"}
        assert len(it.server.requests) == 1


async def test_where_general_itself_is_faulty_the_job_ends_with_the_place_of_the_fault(
    tmp_path: Path,
) -> None:
    pieces = {"general": "name: [", **mine()}
    async with rig(tmp_path, answering("dance"), pieces=pieces, piece=None) as it:
        job = await it.start("Do it")
        detail = await it.until_rest(job)
        assert (detail.status, detail.piece) == ("failed", None)
        assert detail.result and "general.yaml" in detail.result and "line 1" in detail.result


async def test_a_piece_that_breaks_between_the_list_and_its_use_is_not_used(tmp_path: Path) -> None:
    place = tmp_path / "work" / ".maestro" / "pieces" / "shelf.yaml"

    def script(request: ScriptRequest) -> ScriptReply:
        if not request.tool_names:
            place.write_text("name: [", "utf-8")
            return ScriptReply(text="shelf")
        return DONE

    async with rig(tmp_path, script, pieces=mine(), piece=None) as it:
        job = await it.start("Do it")
        assert (await it.until_rest(job)).piece == "general"
        assert (await told(it, job))["failure"] == "unusable"


@pytest.mark.parametrize("named", ["order", "config"])
async def test_a_named_piece_is_not_chosen_again(tmp_path: Path, named: str) -> None:
    configured = "chat" if named == "config" else None
    async with rig(tmp_path, answering("code"), piece=configured) as it:
        job = await it.start("Do it", **({"piece": "chat"} if named == "order" else {}))
        assert (await it.until_rest(job)).piece == "chat"
        assert await events(it, job, "piece") == [] and len(it.server.requests) == 1


async def test_a_piece_that_is_not_there_is_still_refused_at_the_start(tmp_path: Path) -> None:
    async with rig(tmp_path, [], pieces={"broken": "name: ["}, piece="broken") as it:
        with pytest.raises(FaultyPiece):
            await it.start("Do it")


async def test_a_follow_up_stays_with_the_chosen_piece_and_the_language_of_its_task(tmp_path: Path) -> None:
    async with rig(tmp_path, answering("chat"), piece=None) as it:
        job = await it.start("説明してください")
        detail = await it.until_rest(job)
        follow_up = await it.client.comment(detail.task_id, "And this?")
        assert follow_up is not None
        later = await it.until_rest(follow_up)
        assert (later.piece, later.language, detail.language) == ("chat", "ja", "ja")
        assert await events(it, follow_up, "piece") == [] and len(it.server.requests) == 3


async def test_a_cancel_ends_the_choice_at_once(tmp_path: Path) -> None:
    held = threading.Event()

    def script(request: ScriptRequest) -> ScriptReply:
        held.wait(10)
        return ScriptReply(text="code")

    async with rig(tmp_path, script, piece=None) as it:
        job = await it.start("Do it")
        try:
            await asyncio.to_thread(it.server.wait_requests, 1)
            await it.client.cancel(job)
            detail = await it.until(job, lambda d: d.status == "cancelled", within=2.0)
            assert detail.piece is None
        finally:
            held.set()


@pytest.mark.parametrize("end", ["stopped", "killed"])
async def test_an_engine_that_ends_during_the_choice_loses_nothing(tmp_path: Path, end: str) -> None:
    held, first = threading.Event(), threading.Event()

    def script(request: ScriptRequest) -> ScriptReply:
        if request.tool_names:
            return DONE
        if not first.is_set():
            first.set()
            held.wait(10)
        return ScriptReply(text="chat")

    async with rig(tmp_path, script, piece=None, start_engine=False) as it:
        job = await it.start("Do it")
        try:
            if end == "killed":
                await run_and_kill(it, first.is_set)
            else:
                await it.engine()
                await asyncio.to_thread(it.server.wait_requests, 1)
                await it.stop()
            assert (await it.client.summary(job)).piece is None
        finally:
            held.set()
        await it.engine()
        detail = await it.until_rest(job)
        assert (detail.status, detail.piece) == ("succeeded", "chat")
        assert await told(it, job) == {"piece": "chat", "by": "classifier"}


async def test_the_model_of_the_chosen_piece_is_the_jobs_unless_the_person_named_one(tmp_path: Path) -> None:
    pieces = {"shelf": MINE.format(name="shelf") + "model: large\n"}
    options = ServerOptions(models=("scripted", "large", "own"))
    async with rig(tmp_path, answering("shelf"), pieces=pieces, piece=None, server=options) as it:
        for named, used in ((None, "large"), ("own", "own")):
            job = await it.start("Do it", model=named)
            assert (await it.until_rest(job)).status == "succeeded"
            assert it.bodies()[-1]["model"] == used


async def test_no_secret_of_the_instruction_reaches_the_classifier(tmp_path: Path) -> None:
    async with rig(tmp_path, answering("chat"), piece=None) as it:
        await it.until_rest(await it.start("Use ghp_0123456789abcdefghijABCDEFGHIJ012345 for it"))
        assert b"ghp_0123456789" not in it.server.requests[0]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_outcome_of_a_choice_has_its_sentence(language: str) -> None:
    outcomes = {By.CLASSIFIER.value, By.ONLY.value, *(failure.value for failure in Failure)}
    for outcome in outcomes:
        assert "shelf" in messages(language)(f"chosen.{outcome}", piece="shelf")


@pytest.mark.parametrize(
    ("task", "piece"),
    [
        ("Fix the failing test", "code"),
        ("失敗しているテストを修正して", "code"),
        ("Explain why this is slow", "chat"),
        ("この関数を説明して", "chat"),
        ("Tidy up", "general"),
    ],
)
async def test_the_scripted_model_of_the_demo_chooses_by_the_keywords(
    tmp_path: Path, task: str, piece: str
) -> None:
    async with rig(tmp_path, Story(), piece=None) as it:
        job = await it.start(task)
        detail = await it.until(job, lambda d: d.piece is not None)
        assert detail.piece == piece
        await it.until_rest(job)
