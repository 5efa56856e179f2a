"""The shipped pieces in stories: real files, real tests, real HTTP to the scripted model."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from engine.core.limits import ContextLimits
from engine.core.views import JobDetail
from engine.llm.scripted import ByMovement, ScriptReply, ScriptRequest
from engine.llm.scripted.story import Story
from tests.engine.rig import Rig, rig

ENGLISH = "Make the failing test pass"
JAPANESE = "失敗しているテストを通してください"
LISTED_RUN_UNASKED = {"sandbox": "off"}
SMALL_RESULTS = ContextLimits(result_max=12_000)


def put_sample(workspace: Path) -> None:
    """The sample of the demo, without the test that is there to take its time."""
    for entry in files("maestro_lsp.demo").joinpath("sample").iterdir():
        text = entry.read_text("utf-8").replace("1_000_001", "1_001")
        (workspace / entry.name.removesuffix(".txt")).write_text(text, "utf-8")


def read(it: Rig, name: str) -> str:
    return (it.workspace / name).read_text("utf-8")


def mended(workspace: Path) -> bool:
    argv = [sys.executable, "-m", "unittest"]
    return subprocess.run(argv, cwd=workspace, capture_output=True, timeout=30).returncode == 0


async def play(it: Rig, instruction: str, piece: str, *answers: str) -> JobDetail:
    """Start a task, answer its questions in order, allow what it asks for; how it ended."""
    waiting = list(answers)
    job_id = await it.start(instruction, piece=piece)
    while True:
        detail = await it.until_rest(job_id, 30)
        if not detail.open_requests:
            return detail
        request = await it.client.request(detail.open_requests[0])
        if request.reason == "question":
            await it.client.answer(job_id, waiting.pop(0))
        elif waiting and waiting[0].startswith("deny") and request.tool != "Bash":
            await it.client.decide(request.request_id, "deny", note=waiting.pop(0).partition(": ")[2])
        else:
            await it.client.decide(request.request_id, "allow")
        asked = set(detail.open_requests)
        await it.until(job_id, lambda now, asked=asked: not asked & set(now.open_requests), 30)  # type: ignore[misc]


def prompts(it: Rig, heading: str) -> list[str]:
    """The first prompt of each stay in a movement: the user messages that end with its guidance."""
    found = []
    for body in it.bodies():
        message = body["messages"][-1]
        if message["role"] == "user" and heading in message["content"]:
            found.append(message["content"])
    return found


def last_of(it: Rig, movement: str) -> dict[str, Any]:
    """The last request of a movement, with its whole conversation."""
    return [body for body in it.bodies() if ScriptRequest(tuple(body["messages"])).movement == movement][-1]


def section(prompt: str, heading: str) -> str:
    """The text below a heading, up to the next one; empty without it."""
    return prompt.partition(f"{heading}\n")[2].partition("\n## ")[0]


async def calls(it: Rig, detail: JobDetail, tool: str) -> list[dict[str, Any]]:
    """The arguments of a tool's calls, in order."""
    events = await it.client.events(detail.job_id)
    return [event["arguments"] for event in events if event["kind"] == "tool_call" and event["tool"] == tool]


# --- code: the story of the demo ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "line", "amount"),
    [
        ("up", "    return (price * (100 + rate) + 99) // 100", 139),
        ("down, to whole yen", "    return price * (100 + rate) // 100", 138),
        ("half, as a bank does", "    return (price * (100 + rate) + 50) // 100", 138),
        ("四捨五入で", "    return (price * (100 + rate) + 50) // 100", 138),
    ],
)
async def test_the_answer_to_the_question_decides_what_is_written(
    tmp_path: Path, answer: str, line: str, amount: int
) -> None:
    async with rig(tmp_path, Story(), mode="ask") as it:
        put_sample(it.workspace)
        detail = await play(it, ENGLISH, "code", answer)
        assert detail.status == "succeeded", detail.result
        assert line in read(it, "price.py").splitlines()
        assert f"self.assertEqual(with_tax(128, 8), {amount})" in read(it, "test_price.py")
        assert mended(it.workspace)
        question = next(request for request in detail.requests if request.reason == "question")
        assert "AssertionError: 138.24 != 138 : with_tax(128, 8) is 138.24 yen" in question.title
        assert re.search(r"Ran 5 tests in [\d.]+s, OK", detail.result or "")
        assert {change.path for change in await it.client.changes(detail.job_id)} == {
            "price.py",
            "test_price.py",
        }


async def test_the_answer_travels_to_the_next_movement_as_a_lesson_only(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), **LISTED_RUN_UNASKED) as it:
        put_sample(it.workspace)
        await play(it, ENGLISH, "code", "down, to whole yen")
        again = prompts(it, "## Movement: plan")[-1]
        assert again.endswith("The person answered: down, to whole yen")
        (implement,) = prompts(it, "## Movement: implement")
        assert "The person answered:" not in implement
        assert "Lessons" not in implement, "the conversation goes on and holds them"
        (verify,) = prompts(it, "## Movement: verify")
        lessons = section(verify, "## Lessons from earlier steps")
        assert "down, to whole yen" in lessons
        assert lessons.index("[plan]") < lessons.index("[implement]")


async def test_a_declined_edit_with_a_note_becomes_the_edit_that_the_note_asks_for(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), mode="ask") as it:
        put_sample(it.workspace)
        detail = await play(it, ENGLISH, "code", "down", "deny: no, half up please")
        assert detail.status == "succeeded", detail.result
        assert "(price * (100 + rate) + 50) // 100" in read(it, "price.py")


async def test_a_declined_edit_without_a_note_is_asked_about_and_may_be_left(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), mode="ask") as it:
        put_sample(it.workspace)
        before = read(it, "price.py")
        detail = await play(it, ENGLISH, "code", "down", "deny", "leave it as it is")
        assert (detail.status, detail.reason) == ("aborted", "aborted_by_model")
        assert read(it, "price.py") == before


async def test_a_follow_up_may_decide_otherwise(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), **LISTED_RUN_UNASKED) as it:
        put_sample(it.workspace)
        first = await play(it, ENGLISH, "code", "down")
        job_id = await it.client.comment(first.task_id, "Please round up instead")
        assert job_id is not None
        detail = await it.until_rest(job_id, 30)
        assert detail.status == "succeeded", detail.result
        assert "(price * (100 + rate) + 99) // 100" in read(it, "price.py")
        assert "self.assertEqual(with_tax(128, 8), 139)" in read(it, "test_price.py")
        assert mended(it.workspace)


# --- code in five stories -----------------------------------------------------------------------------------

CALC = "def total(numbers):\n    return sum(numbers) - 1\n"
TEST_CALC = """import unittest

from calc import total


class Totals(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(total([1, 2, 3]), 6)

    def test_of_nothing(self):
        self.assertEqual(total([]), 0)
"""
UNITTEST = ("Bash", {"command": "python3 -m unittest"})


def hasty_implement(request: ScriptRequest) -> ScriptReply:
    """A model that reads its feedback too quickly: it mends what was quoted, and breaks something else."""
    if request.turn == 0:
        return ScriptReply(calls=(("Read", {"file_path": "calc.py"}),))
    if request.turn == 2:
        return ScriptReply(calls=(("transition", {"next_step": "verify", "summary": "total() is mended."}),))
    feedback = request.last_user.partition("## Feedback from verify")[2]
    line = "sum(numbers) + 1"
    if "7 != 6" in feedback:
        line = "sum(numbers) if numbers else 1"
    elif "1 != 0" in feedback:
        line = "sum(numbers)"
    (shown,) = re.findall(r"return (.*)", request.last_result("Read"))
    edit = {"file_path": "calc.py", "old_string": f"return {shown}", "new_string": f"return {line}"}
    return ScriptReply(calls=(("Edit", edit),))


def sceptical_verify(request: ScriptRequest) -> ScriptReply:
    if request.turn == 0:
        return ScriptReply(calls=(UNITTEST,))
    output = request.last_result("Bash")
    failures = re.findall(r"^AssertionError: .*", output, re.MULTILINE)
    if failures:
        hop = {
            "next_step": "implement",
            "summary": "; ".join(failures),
            "lessons": f"mind {failures[-1][16:]}",
        }
        return ScriptReply(calls=(("transition", hop),))
    (ran,) = re.findall(r"^Ran .*", output, re.MULTILINE)
    return ScriptReply(calls=(("complete", {"status": "success", "result": ran}),))


async def test_tests_that_fail_twice_send_the_work_back_with_what_was_seen(tmp_path: Path) -> None:
    plan = [
        ScriptReply(calls=(("transition", {"next_step": "implement", "summary": "total() is off by one."}),))
    ]
    script = ByMovement({"plan": plan, "implement": hasty_implement, "verify": sceptical_verify})
    async with rig(tmp_path, script, **LISTED_RUN_UNASKED) as it:
        (it.workspace / "calc.py").write_text(CALC, "utf-8")
        (it.workspace / "test_calc.py").write_text(TEST_CALC, "utf-8")
        detail = await play(it, "total([1, 2, 3]) is wrong", "code")
        assert detail.status == "succeeded", detail.result
        assert [movement.name for movement in detail.movements].count("implement") == 3
        first, second, third = prompts(it, "## Movement: implement")
        assert "## Feedback from verify" not in first
        assert "AssertionError: 7 != 6" in section(second, "## Feedback from verify")
        assert "mind 7 != 6" in section(second, "## Feedback from verify")
        assert "AssertionError: 1 != 0" in section(third, "## Feedback from verify")
        assert "7 != 6" not in section(third, "## Feedback from verify")
        lessons = section(prompts(it, "## Movement: verify")[-1], "## Lessons from earlier steps")
        assert lessons.index("off by one") < lessons.index("mind 7 != 6") < lessons.index("mind 1 != 0")
        assert read(it, "calc.py").endswith("    return sum(numbers)\n")
        assert mended(it.workspace)


async def test_a_file_that_the_task_names_wrongly_is_searched_for_and_found(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), **LISTED_RUN_UNASKED) as it:
        put_sample(it.workspace)
        detail = await play(it, "with_tax in lib/prices.py fails its test: round down there", "code")
        assert detail.status == "succeeded", detail.result
        reads = [arguments["file_path"] for arguments in await calls(it, detail, "Read")]
        assert reads[0] == "lib/prices.py"
        assert "price.py" in reads
        globs = await calls(it, detail, "Glob")
        assert globs[0]["pattern"] == "**/*.py"
        assert not (it.workspace / "lib").exists()
        assert "return price * (100 + rate) // 100" in read(it, "price.py")
        assert [request.reason for request in detail.requests] == []
        assert mended(it.workspace)


async def test_a_model_that_will_not_do_it_says_why_and_changes_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), **LISTED_RUN_UNASKED) as it:
        (it.workspace / "calc.py").write_text(CALC, "utf-8")
        (it.workspace / "test_calc.py").write_text(TEST_CALC, "utf-8")
        detail = await play(it, ENGLISH, "code")
        assert (detail.status, detail.reason) == ("aborted", "aborted_by_model")
        assert "AssertionError: -1 != 0" in (detail.result or "")
        assert read(it, "calc.py") == CALC
        assert await it.client.changes(detail.job_id) == []
        assert [movement.name for movement in detail.movements] == ["plan"]


LONG = "".join(f"PRICE_{n} = {n * 7}  # an entry of a long table, as people have them\n" for n in range(1500))


async def test_a_long_file_is_read_to_its_end_by_following_the_hints(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), **LISTED_RUN_UNASKED, context=SMALL_RESULTS) as it:
        put_sample(it.workspace)
        short = read(it, "price.py")
        (it.workspace / "price.py").write_text(short.replace("\n\n\n", f"\n\n{LONG}\n\n", 1), "utf-8")
        detail = await play(it, "The test fails: round down", "code")
        assert detail.status == "succeeded", detail.result
        events = await it.client.events(detail.job_id)
        cut = [event for event in events if event["kind"] == "tool_result" and event.get("truncated")]
        assert len(cut) >= 2
        shown = "\n".join(
            message["content"]
            for message in last_of(it, "plan")["messages"]
            if message["role"] == "tool" and "PRICE_" in message["content"]
        )
        numbers = [int(number) for number in re.findall(r"^ *\d+\tPRICE_(\d+)", shown, re.MULTILINE)]
        assert numbers == list(range(1500))
        assert read(it, "price.py").endswith("    return price * (100 + rate) // 100\n")
        assert mended(it.workspace)


async def test_in_japanese_the_prompts_the_question_and_the_result_are_japanese(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), **LISTED_RUN_UNASKED) as it:
        put_sample(it.workspace)
        detail = await play(it, JAPANESE, "code", "切り捨て、円単位で")
        assert detail.status == "succeeded", detail.result
        question = next(request for request in detail.requests if request.reason == "question")
        assert question.options == ["切り上げ", "切り捨て"]
        assert "with_tax(128, 8) is 138.24 yen" in question.title
        (implement,) = prompts(it, "## 現在のステップ: implement")
        assert implement.startswith("ムーブメント plan は終わりました。")
        (verify,) = prompts(it, "## 現在のステップ: verify")
        assert "切り捨て、円単位で" in section(verify, "## 前のステップで得た教訓")
        assert "## Lessons" not in verify
        assert "端数切り捨て。" in read(it, "price.py")
        assert "return price * (100 + rate) // 100" in read(it, "price.py")
        assert "端数切り捨て" in (detail.result or "")
        assert mended(it.workspace)


# --- general and chat ---------------------------------------------------------------------------------------


async def test_general_writes_the_file_that_was_asked_for_after_looking(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), mode="ask") as it:
        put_sample(it.workspace)
        detail = await play(it, "Write an overview of this project to docs/SUMMARY.md", "general")
        assert detail.status == "succeeded", detail.result
        assert "`price.py`: Prices with tax." in read(it, "docs/SUMMARY.md")
        assert [request.tool for request in detail.requests] == ["Write"]
        assert "docs/SUMMARY.md" in (detail.result or "")


async def test_general_answers_a_question_without_changing_anything(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), mode="ask") as it:
        put_sample(it.workspace)
        before = sorted(path.name for path in it.workspace.iterdir())
        detail = await play(it, "このプロジェクトには何がありますか？", "general")
        assert detail.status == "succeeded", detail.result
        assert "`receipt.py`" in (detail.result or "")
        assert sorted(path.name for path in it.workspace.iterdir()) == before
        assert detail.requests == []


async def test_chat_answers_with_the_place_it_found(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), mode="ask") as it:
        put_sample(it.workspace)
        detail = await play(it, "Where is with_tax defined?", "chat")
        assert detail.status == "succeeded", detail.result
        assert "`price.py:4`" in (detail.result or "")
        assert "def with_tax(price: int, rate: int) -> int:" in (detail.result or "")


async def test_chat_says_what_it_did_not_find_and_cannot_write(tmp_path: Path) -> None:
    async with rig(tmp_path, Story(), mode="all") as it:
        put_sample(it.workspace)
        detail = await play(it, "Is there a database?", "chat")
        assert detail.status == "succeeded", detail.result
        assert "`price.py`" in (detail.result or "")
        (prompt,) = prompts(it, "## Movement: answer")
        permitted = re.findall(r"^Permitted here: (.*)$", prompt, re.MULTILINE)
        names = permitted[0].split(", ")
        assert names[:4] == ["Read", "Glob", "Grep", "complete"]
        assert {"Write", "Edit", "Bash"}.isdisjoint(names)
