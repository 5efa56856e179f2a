"""Between movements (engine.md §3): lessons and summaries, feedback of a verify-type movement, changes in the
workspace, and what a movement knows again after a park.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.diffs import DIFF_LIMIT, excerpt
from engine.core.lessons import LESSONS_LIMIT, carry
from engine.core.piece import is_verify_name
from engine.core.truncate import grapheme_ceil
from engine.llm.scripted import ByMovement, ScriptRequest, call
from tests.engine.filling import LIMIT, at, server
from tests.engine.repositories import begin, git, make_hostile, person, write
from tests.engine.rig import Rig, rig

__all__ = ["person"]

PIECE = """
name: loop
description: Work and check.
max_movements: 12
initial_movement: implement
movements:
  - name: implement
    edit: true
    persona: p
    instruction: work
    allowed_tools: [Read, Write, Bash]
    rules: [{condition: written, next: verify}]
    default_next: verify
  - name: verify
    edit: false
    persona: p
    instruction: check
    allowed_tools: [Read]
    rules: [{condition: faults, next: implement}]
    default_next: implement
    max_consecutive_revisits: 5
"""
PIECES = {"loop": PIECE}
DONE = call("complete", status="success", result="It is done.")
HEADINGS = {
    "en": ("## Lessons from earlier steps", "## Feedback from verify", "(git)"),
    "ja": ("## 前のステップで得た教訓", "## verify からの", "（git）"),
}
ORDERS = {"en": "Do the work", "ja": "作業をしてください"}
languages = pytest.mark.parametrize("language", ["en", "ja"])


def hop(to: str, summary: str, lessons: str | None = None) -> Any:
    return call("transition", next_step=to, summary=summary, **({"lessons": lessons} if lessons else {}))


class Visits:
    """One reply for each visit to a movement: the n-th visit gets the n-th step, or its next turn."""

    def __init__(self, *visits: list[Any]) -> None:
        self.visits = visits
        self.seen = 0

    def __call__(self, request: ScriptRequest) -> Any:
        if request.turn == 0:
            self.seen += 1
        return self.visits[self.seen - 1][request.turn]


def openings(it: Rig) -> list[str]:
    """The user message that opens each conversation, in order."""
    found = [body["messages"][1]["content"] for body in it.bodies()]
    return [text for number, text in enumerate(found) if number == 0 or text != found[number - 1]]


def section(text: str, heading: str) -> str:
    """A section of a prompt, up to the next heading; empty if it has none."""
    _, found, rest = text.partition(heading)
    return (found + rest).split("\n\n## ")[0].split("\n## ")[0] if found else ""


def log_of(it: Rig, task_id: str) -> Path:
    return it.workspace / ".maestro" / "tasks" / task_id / "logs" / "lessons.jsonl"


# --- lessons ----------------------------------------------------------------------------------------


@languages
async def test_summary_and_lessons_reach_the_next_movement_under_their_heading(
    tmp_path: Path, language: str
) -> None:
    script = ByMovement({"implement": [hop("verify", "書いた a.py", "tabs, not spaces")], "verify": [DONE]})
    async with rig(tmp_path, script, pieces=PIECES) as it:
        await it.until_rest(await it.start(ORDERS[language], piece="loop"))
        first, second = openings(it)
        assert HEADINGS[language][0] not in first
        assert section(second, HEADINGS[language][0]) == (
            f"{HEADINGS[language][0]}\n- [implement] 書いた a.py\ntabs, not spaces"
        )


async def test_without_lessons_the_summary_is_the_lesson(tmp_path: Path) -> None:
    script = ByMovement({"implement": [hop("verify", "wrote a.py")], "verify": [DONE]})
    async with rig(tmp_path, script, pieces=PIECES) as it:
        await it.until_rest(await it.start(piece="loop"))
        assert section(openings(it)[1], HEADINGS["en"][0]).endswith("\n- [implement] wrote a.py")


async def test_on_complete_without_lessons_the_result_is_what_a_follow_up_starts_with(tmp_path: Path) -> None:
    async with rig(tmp_path, ByMovement({"implement": [DONE]}), pieces=PIECES) as it:
        end = await it.until_rest(await it.start(piece="loop"))
        follow_up = await it.client.comment(end.task_id, "And now the other one.")
        assert follow_up is not None
        await it.until_rest(follow_up)
        assert "- [implement] It is done." in section(openings(it)[1], HEADINGS["en"][0])


async def test_a_retry_starts_with_the_lessons_of_the_task(tmp_path: Path) -> None:
    verify = Visits([call("complete", status="aborted", result="No.")], [DONE])
    script = ByMovement({"implement": [hop("verify", "wrote a.py")], "verify": verify})
    async with rig(tmp_path, script, pieces=PIECES) as it:
        job_id = await it.start(piece="loop")
        assert (await it.until_rest(job_id)).status == "aborted"
        end = await it.until_rest(await it.client.retry(job_id))
        assert (end.status, end.movement) == ("succeeded", "verify")
        assert "- [implement] wrote a.py" in section(openings(it)[2], HEADINGS["en"][0])


async def test_a_forced_hop_leaves_a_mechanical_lesson(tmp_path: Path) -> None:
    work = [
        call("Write", file_path="a.txt", content="a\n"),
        at(0.96, call("Read", file_path="a.txt")),
    ]
    script = ByMovement({"implement": work, "verify": [at(0.1, DONE)]})
    async with rig(tmp_path, script, pieces=PIECES, server=server(context=LIMIT)) as it:
        end = await it.until_rest(await it.start(piece="loop"))
        told = section(openings(it)[1], HEADINGS["en"][0])
        assert end.status == "succeeded"
        assert "- [implement] Movement implement was cut at 96 % of the context" in told
        assert "a.txt" in told
        assert "was cut at 96 %" in log_of(it, end.task_id).read_text("utf-8")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.sampled_from("ab\nがか\u3099👩\u200d👩"), max_size=1500), max_size=5))
def test_about_2000_characters_are_carried_and_the_oldest_go_first(texts: list[str]) -> None:
    lessons = [(f"m{number}", text) for number, text in enumerate(texts)]
    kept = carry(lessons)
    assert sum(len(text) for _, text in kept) <= LESSONS_LIMIT
    names = [name for name, _ in kept]
    assert names == [name for name, _ in lessons][len(lessons) - len(kept) :]
    if len(kept) < len(lessons):
        dropped = lessons[-len(kept) - 1][1]
        assert sum(len(text) for _, text in kept) + len(dropped) > LESSONS_LIMIT


@pytest.mark.parametrize("grapheme", ["か\u3099", "👩\u200d👩\u200d👧", "e\u0301"])
def test_a_lesson_that_is_too_long_keeps_its_end_and_is_cut_between_characters(grapheme: str) -> None:
    for before in range(len(grapheme) + 1):
        text = "x" * before + grapheme * 2_000
        ((_, kept),) = carry([("m", text)])
        assert kept.startswith("… ") and len(kept) <= LESSONS_LIMIT
        start = len(text) - len(kept) + 2
        assert grapheme_ceil(text, start) == start


# --- logs/lessons.jsonl -----------------------------------------------------------------------------


async def test_all_lessons_are_appended_to_the_log_one_object_a_line(tmp_path: Path) -> None:
    implement = Visits([hop("verify", "一つ目")], [hop("verify", "second", "mind the gap")])
    verify = Visits([hop("implement", "not yet")], [DONE])
    async with rig(tmp_path, ByMovement({"implement": implement, "verify": verify}), pieces=PIECES) as it:
        end = await it.until_rest(await it.start(piece="loop"))
        await it.stop()
        lines = [json.loads(line) for line in log_of(it, end.task_id).read_text("utf-8").splitlines()]
        assert [(line["movement"], line["lesson"]) for line in lines] == [
            ("implement", "一つ目"),
            ("verify", "not yet"),
            ("implement", "second\nmind the gap"),
            ("verify", "It is done."),
        ]
        assert {line["jobId"] for line in lines} == {end.job_id}
        assert all(line["at"].endswith("Z") for line in lines)


async def test_a_line_that_a_crash_cut_off_is_written_again(tmp_path: Path) -> None:
    def broken(request: ScriptRequest) -> Any:
        log = next((tmp_path / "work" / ".maestro" / "tasks").glob("*/logs/lessons.jsonl"))
        log.write_bytes(log.read_bytes()[:-9])
        return DONE

    script = ByMovement({"implement": [hop("verify", "wrote a.py")], "verify": broken})
    async with rig(tmp_path, script, pieces=PIECES) as it:
        end = await it.until_rest(await it.start(piece="loop"))
        await it.stop()
        lines = [json.loads(line) for line in log_of(it, end.task_id).read_text("utf-8").splitlines()]
        assert [line["lesson"] for line in lines] == ["wrote a.py", "It is done."]


@pytest.mark.parametrize("what", ["lessons.jsonl", "."])
async def test_the_log_is_not_written_through_a_link(tmp_path: Path, what: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "lessons.jsonl").write_text("mine\n")
    async with rig(
        tmp_path,
        ByMovement({"implement": [hop("verify", "x")], "verify": [DONE]}),
        pieces=PIECES,
        start_engine=False,
    ) as it:
        job_id = await it.start(piece="loop")
        logs = log_of(it, (await it.client.show(job_id)).task_id).parent
        if what == ".":
            logs.rmdir()
            logs.symlink_to(outside)
        else:
            (logs / what).symlink_to(outside / what)
        await it.engine()
        assert (await it.until_rest(job_id)).status == "succeeded"
        await it.stop()
        assert (outside / "lessons.jsonl").read_text() == "mine\n"


# --- verify feedback --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "verifies"),
    [
        ("verify", True),
        ("code-review", True),
        ("Review_2", True),
        ("最終-検証", True),
        ("レビュー", True),
        ("preview", False),
        ("verifying", False),
        ("implement", False),
        ("検証する", False),
    ],
)
def test_a_movement_is_of_the_verify_type_by_a_part_of_its_name(name: str, verifies: bool) -> None:
    assert is_verify_name(name) is verifies


@languages
async def test_the_feedback_of_verify_is_whole_where_it_sends_the_job_to(
    tmp_path: Path, language: str
) -> None:
    faults = "行 12 が違う。" * 600
    implement = Visits([hop("verify", "wrote")], [hop("verify", "mended")])
    verify = Visits([hop("implement", "Two faults.", faults)], [DONE])
    async with rig(tmp_path, ByMovement({"implement": implement, "verify": verify}), pieces=PIECES) as it:
        await it.until_rest(await it.start(ORDERS[language], piece="loop"))
        _, _, again, last = openings(it)
        told = section(again, HEADINGS[language][1])
        assert "Two faults." in told and faults in told
        assert HEADINGS[language][1] not in last, "it is for the movement that verify sends the job to"


async def test_verify_true_makes_any_movement_one_of_the_verify_type(tmp_path: Path) -> None:
    piece = PIECE.replace("verify", "look").replace("    edit: false", "    edit: false\n    verify: true")
    implement = Visits([hop("look", "wrote")], [DONE])
    script = ByMovement({"implement": implement, "look": [hop("implement", "a fault")]})
    async with rig(tmp_path, script, pieces={"loop": piece}) as it:
        await it.until_rest(await it.start(piece="loop"))
        assert "## Feedback from look\na fault" in openings(it)[2]


async def test_after_a_question_the_feedback_stands_in_the_rebuilt_prompt(tmp_path: Path) -> None:
    ask = call("complete", status="needs_user_input", result="Which way?")
    implement = Visits([hop("verify", "wrote")], [ask], [DONE])
    verify = Visits([hop("implement", "one fault", "line 12")])
    async with rig(tmp_path, ByMovement({"implement": implement, "verify": verify}), pieces=PIECES) as it:
        job_id = await it.start(piece="loop")
        await it.open_request(job_id)
        await it.client.answer(job_id, "left")
        assert (await it.until_rest(job_id)).status == "succeeded"
        assert "## Feedback from verify\none fault\nline 12" in openings(it)[-1]


# --- workspace changes ------------------------------------------------------------------------------

GIT = pytest.mark.needs("git")


@GIT
@languages
async def test_after_verify_git_status_and_diff_are_told(tmp_path: Path, person: Path, language: str) -> None:
    implement = Visits(
        [call("Write", file_path="new file.txt", content="n\n"), hop("verify", "wrote")], [DONE]
    )
    script = ByMovement({"implement": implement, "verify": [hop("implement", "look again")]})
    async with rig(tmp_path, script, pieces=PIECES) as it:
        begin(it.workspace, {"読み.txt": "古い\n", ".env": "K=1\n", "a.txt": "a\n"})
        write(it.workspace, {"読み.txt": "新しい\n", ".env": "K=2\n"})
        await it.until_rest(await it.start(ORDERS[language], piece="loop"))
        first, verify, again = openings(it)
        assert HEADINGS[language][2] not in first + verify
        assert " M 読み.txt\n" in again and "?? new file.txt" in again
        assert "-古い\n+新しい" in again
        assert " M .env" in again and "K=2" not in again, "a file of secrets is named, not shown"


@GIT
async def test_a_clean_workspace_says_so(tmp_path: Path, person: Path) -> None:
    implement = Visits([hop("verify", "wrote")], [DONE])
    script = ByMovement({"implement": implement, "verify": [hop("implement", "nothing yet")]})
    async with rig(tmp_path, script, pieces=PIECES) as it:
        begin(it.workspace, {"a.txt": "a\n", ".gitignore": ".maestro\n"})
        await it.until_rest(await it.start(piece="loop"))
        assert "Nothing differs from the last commit." in openings(it)[2]


@GIT
@pytest.mark.parametrize("why", ["not trusted", "no repository", "below one", "no git"])
async def test_without_a_trusted_repository_and_git_nothing_is_said(
    tmp_path: Path, person: Path, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    implement = Visits([hop("verify", "wrote")], [DONE])
    script = ByMovement({"implement": implement, "verify": [hop("implement", "again")]})
    async with rig(tmp_path, script, pieces=PIECES, start_engine=False) as it:
        job_id = await it.start(piece="loop")
        if why == "below one":
            begin(tmp_path, {"work/a.txt": "a\n"})
        elif why != "no repository":
            begin(it.workspace, {"a.txt": "a\n"})
        if why == "not trusted":
            await it.client.set_trust(False)
            it.config = it.client.config
        elif why == "no git":
            monkeypatch.setenv("PATH", str(tmp_path))
        await it.engine()
        assert (await it.until_rest(job_id)).status == "succeeded"
        assert "(git)" not in "".join(openings(it))


@GIT
async def test_looking_at_the_changes_runs_no_program_of_the_repository(tmp_path: Path, person: Path) -> None:
    mark = tmp_path / "mark"
    implement = Visits([hop("verify", "wrote")], [DONE])
    script = ByMovement({"implement": implement, "verify": [hop("implement", "again")]})
    async with rig(tmp_path, script, pieces=PIECES) as it:
        begin(it.workspace, {"a.txt": "a\n", ".gitattributes": "* filter=evil diff=evil\n"})
        make_hostile(it.workspace, mark)
        write(it.workspace, {"a.txt": "b\n"})
        await it.until_rest(await it.start(piece="loop"))
        assert "-a\n+b" in openings(it)[2]
        assert not mark.exists()
        git(it.workspace, "add", "a.txt")
        assert mark.exists(), "the trap itself works"


def diff_of(hunks: list[list[int]]) -> str:
    """A diff of files with hunks of so many lines, of growing width."""
    text = ""
    for number, file in enumerate(hunks):
        text += f"diff --git a/f{number} b/f{number}\n--- a/f{number}\n+++ b/f{number}\n"
        for lines in file:
            text += "@@ -1 +1 @@\n" + "".join(f"+{'あ' * (line % 90)}{line}\n" for line in range(lines))
    return text


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(1, 90), min_size=1, max_size=4), max_size=6))
def test_a_diff_is_cut_at_hunks_and_says_how_many_are_left_out(hunks: list[list[int]]) -> None:
    diff = diff_of(hunks)
    part = excerpt(diff)
    assert len(part.text) <= DIFF_LIMIT
    known = set(diff.splitlines())
    assert all(line in known or line.startswith("[… ") for line in part.text.splitlines()), "whole lines"
    whole = sum(
        "@@ -1 +1 @@\n" + "".join(f"+{'あ' * (line % 90)}{line}\n" for line in range(lines)) in part.text
        for file in hunks
        for lines in file
    )
    assert (part.hunks == 0) == (part.text == diff)
    assert part.hunks >= sum(map(len, hunks)) - whole
    assert part.files <= len(hunks)
    if diff:
        assert part.text, "something is always shown"


def test_of_one_endless_line_the_start_is_shown() -> None:
    part = excerpt("diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+" + "が" * 9_000 + "\n")
    assert 3_000 < len(part.text) <= DIFF_LIMIT
    assert part.hunks == 1


# --- after a park -----------------------------------------------------------------------------------


@languages
async def test_after_a_question_the_answer_is_whole_and_what_was_done_is_told(
    tmp_path: Path, language: str
) -> None:
    log = "ログの行 12345 error\n" * 400 + "最後の行: THE END"
    ask = call("complete", status="needs_user_input", result="What does the log say?")
    implement = Visits(
        [
            call("Write", file_path="結果.txt", content="a\n"),
            call("Bash", command="exit 3"),
            ask,
        ],
        [DONE],
    )
    async with rig(
        tmp_path, ByMovement({"implement": implement}), pieces=PIECES, mode="all", sandbox="off"
    ) as it:
        job_id = await it.start(ORDERS[language], piece="loop")
        request = await it.open_request(job_id)
        if request.reason == "approval":
            await it.client.decide(request.request_id, "allow")
            request = (await it.until(job_id, lambda d: d.wait_reason == "question")) and (
                await it.open_request(job_id)
            )
        await it.client.answer(job_id, log)
        assert (await it.until_rest(job_id)).status == "succeeded"
        again = openings(it)[-1]
        assert log in again, "not cut at 500 characters"
        done = section(
            again, "## Already done in this movement" if language == "en" else "## このムーブメントで"
        )
        assert "Write 結果.txt" in done and "exit 3" in done
