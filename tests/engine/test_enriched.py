"""The enriched instruction (engine.md §3): what is in it, in which order, what never is; the project's own
instructions in the system text; the Mission Brief.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.catalog import prompts
from engine.core.prompting import (
    COMMENT_LIMIT,
    COMMENTS,
    PROJECT_LIMIT,
    WorkspaceFacts,
    build_time_context_block,
    enriched_instruction,
)
from engine.core.records import Comment
from engine.core.truncate import grapheme_floor
from engine.llm.scripted import ByMovement, ScriptRequest, call
from engine.ports import Buffer
from engine.surroundings import WorkspaceSurroundings
from tests.engine.rig import Rig, rig
from tests.engine.test_checklist import PIECE

NOW = datetime(2026, 11, 30, 9, 5, tzinfo=timezone(timedelta(hours=9)))
AT = NOW.timestamp() - 3600
FACTS = WorkspaceFacts("/w", "main", "in", "out")
DONE = call("complete", status="success", result="It is done.")
KEY = "sk-" + "a1" * 20
languages = pytest.mark.parametrize("language", ["en", "ja"])


def enriched(
    instruction: str, *comments: Comment, language: str = "en", facts: WorkspaceFacts = FACTS
) -> str:
    return enriched_instruction(instruction, comments, facts, NOW, prompts(language))


@pytest.mark.parametrize(
    ("language", "says"),
    [
        ("en", "Now: 2026-11-30 (Monday) 09:05, UTC+09:00"),
        ("ja", "現在: 2026-11-30（月曜日）09:05、UTC+09:00"),
    ],
)
def test_build_time_context_block_has_date_weekday_time_and_offset(language: str, says: str) -> None:
    assert build_time_context_block(NOW, prompts(language)) == says


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        (
            "en",
            [
                "Now: 2026-11-30 (Monday) 09:05, UTC+09:00",
                "## Conversation so far\n- person (2026-11-30 08:05): hello",
                "## Workspace\nRoot: /w\nGit branch: main",
                "Files in the task folder:\n- in/a.txt\n… and 7 more",
                "Attached by the person (read them with Read):\n- src/b.py",
                "- src/c.py",
                "## Task\nDo it",
            ],
        ),
        (
            "ja",
            [
                "現在: 2026-11-30（月曜日）09:05、UTC+09:00",
                "## これまでのやり取り\n- ユーザー（2026-11-30 08:05）: hello",
                "## ワークスペース\nルート: /w\nGit ブランチ: main",
                "タスクフォルダのファイル:\n- in/a.txt\n… ほか 7 件",
                "人が添付したファイル（Read で読んでください）:\n- src/b.py",
                "- src/c.py",
                "## タスク\nDo it",
            ],
        ),
    ],
)
def test_every_part_is_there_in_its_order(language: str, parts: list[str]) -> None:
    facts = WorkspaceFacts("/w", "main", "in", "out", ("in/a.txt",), 7, ("src/b.py",), ("src/c.py",))
    text = enriched("Do it", Comment("user", "hello", AT), language=language, facts=facts)
    places = [text.find(part) for part in parts]
    assert -1 not in places, [part for part, place in zip(parts, places, strict=True) if place < 0]
    assert places == sorted(places)


def test_the_last_five_comments_come_oldest_first_with_author_and_time() -> None:
    said = [Comment("user" if n % 2 else "maestro", f"comment {n}", AT + 60 * n) for n in range(8)]
    text = enriched("Do it", *said)
    shown = [line for line in text.splitlines() if "comment" in line]
    assert len(shown) == COMMENTS
    assert shown[0] == "- person (2026-11-30 08:08): comment 3"
    assert shown[-1] == "- person (2026-11-30 08:12): comment 7"


@pytest.mark.parametrize("grapheme", ["が", "か\u3099", "👩\u200d👩\u200d👧", "x"])
def test_a_comment_is_cut_at_500_characters_on_a_grapheme_border(grapheme: str) -> None:
    said = grapheme * 600
    line = next(x for x in enriched("Do it", Comment("user", said, AT)).splitlines() if x.startswith("- p"))
    kept = line.partition("): ")[2]
    assert len(kept) <= COMMENT_LIMIT and kept.endswith("…")
    assert COMMENT_LIMIT - len(kept) <= len(grapheme)
    assert grapheme_floor(said, len(kept) - 1) == len(kept) - 1


def test_a_follow_up_s_comment_is_the_instruction_and_not_repeated() -> None:
    text = enriched("And the other", Comment("maestro", "Done.", AT), Comment("user", "And the other", AT))
    assert text.count("And the other") == 1
    assert "Done." in text


@settings(max_examples=50, deadline=None)
@given(
    st.text(max_size=200),
    st.lists(st.text(min_size=1, max_size=900), max_size=9),
    st.sampled_from(["en", "ja"]),
)
def test_it_is_never_larger_than_its_parts(instruction: str, said: list[str], language: str) -> None:
    comments = [Comment("user", text, AT) for text in said]
    text = enriched(instruction, *comments, language=language)
    assert text.endswith(instruction)
    assert len(text) <= len(instruction) + 600 + COMMENTS * (COMMENT_LIMIT + 60)


# --- in a job ---------------------------------------------------------------------------------------


def opening(it: Rig, at: int = -1) -> str:
    return str(it.bodies()[at]["messages"][1]["content"])


def system(it: Rig, at: int = -1) -> str:
    return str(it.bodies()[at]["messages"][0]["content"])


@pytest.mark.parametrize(
    ("instruction", "heading"), [("Go on", "## Conversation so far"), ("続けて", "## これまでのやり取り")]
)
async def test_questions_answers_and_results_are_comments_and_progress_is_not(
    tmp_path: Path, instruction: str, heading: str
) -> None:
    def work(request: ScriptRequest) -> Any:
        if request.contains("follow-up"):
            return DONE
        if not request.contains("to the left"):
            return call("complete", status="needs_user_input", result="Which way?")
        return call("transition", next_step="work", summary="MY PROGRESS") if request.turn == 0 else DONE

    script = ByMovement({"plan": work, "work": [call("Checklist", action="list", name="LOOKED"), DONE]})
    async with rig(tmp_path, script, pieces={"two": PIECE}) as it:
        job_id = await it.start(instruction, piece="two")
        await it.open_request(job_id)
        await it.client.answer(job_id, "to the left")
        end = await it.until_rest(job_id)
        assert end.status == "succeeded"
        follow_up = await it.client.comment(end.task_id, "a follow-up")
        assert follow_up is not None
        await it.until_rest(follow_up)
        told = opening(it).partition(heading)[2].partition("\n\n## ")[0]
        lines = [line.partition(": ")[2] for line in told.strip().splitlines()]
        lines = [line.rpartition("）: ")[2].rpartition("): ")[2] or line for line in lines]
        assert [line.rpartition(" ")[2] for line in lines] == ["way?", "left", "done."]
        assert "LOOKED" not in told and "MY PROGRESS" not in told


async def test_file_bodies_and_logs_are_not_included(tmp_path: Path) -> None:
    async with rig(tmp_path, ByMovement({"plan": [DONE]}), pieces={"two": PIECE}, start_engine=False) as it:
        attached = it.workspace / "attached.txt"
        attached.write_text("BODY OF THE ATTACHED")
        job_id = await it.start(piece="two", files=(attached,), selection=("part", "BODY OF THE SELECTION"))
        folder = it.workspace / ".maestro" / "tasks" / (await it.client.show(job_id)).task_id
        (folder / "input" / "読む.txt").write_text("BODY OF THE INPUT")
        (folder / "output" / "out.txt").write_text("BODY OF THE OUTPUT")
        (folder / "logs" / "log.txt").write_text("BODY OF THE LOG")
        await it.engine()
        await it.until_rest(job_id)
        text = opening(it) + system(it)
        assert "attached.txt" in text and "input/読む.txt" in text and "output/out.txt" in text
        assert "BODY OF" not in text and "log.txt" not in text


# --- the project's own instructions -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("instruction", "heading"),
    [
        ("Do it", "# Instructions of this project (from AGENTS.md)\n\nタブを使う"),
        ("やってください", "# このプロジェクトの指示（AGENTS.md より）\n\nタブを使う"),
    ],
)
async def test_agents_md_is_part_of_the_system_text_with_its_hash_stored(
    tmp_path: Path, instruction: str, heading: str
) -> None:
    async with rig(tmp_path, ByMovement({"plan": [DONE]}), pieces={"two": PIECE}) as it:
        data = "タブを使う\n".encode("cp932")
        (it.workspace / "AGENTS.md").write_bytes(data)
        (it.workspace / "CLAUDE.md").write_text("not this one")
        job_id = await it.start(instruction, piece="two")
        await it.until_rest(job_id)
        assert heading in system(it) and "not this one" not in system(it)
        await it.stop()
        with sqlite3.connect(it.client.store_file) as db:
            stored = db.execute("SELECT project_hash FROM jobs WHERE job_id = ?", (job_id,)).fetchone()[0]
        db.close()
        assert stored == sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"CLAUDE.md": "from claude"}, "from claude"),
        ({"AGENTS.md": "  \n", "CLAUDE.md": "from claude"}, "from claude"),
        ({"AGENTS.md": f"the key is {KEY}"}, "the key is [redacted]"),
        ({"AGENTS.md": "が" * 9_000}, "が" * (PROJECT_LIMIT - 1) + "…\n[AGENTS.md is longer"),
    ],
)
async def test_what_is_used_of_the_project_files(tmp_path: Path, files: dict[str, str], says: str) -> None:
    async with rig(tmp_path, ByMovement({"plan": [DONE]}), pieces={"two": PIECE}) as it:
        for name, text in files.items():
            (it.workspace / name).write_text(text, "utf-8")
        await it.until_rest(await it.start(piece="two"))
        assert says in system(it)


@pytest.mark.parametrize("why", ["not trusted", "a link out", "a folder", "binary"])
async def test_a_project_file_that_may_not_be_used_is_not(tmp_path: Path, why: str) -> None:
    async with rig(tmp_path, ByMovement({"plan": [DONE]}), pieces={"two": PIECE}, start_engine=False) as it:
        file = it.workspace / "AGENTS.md"
        job_id = await it.start(piece="two")
        match why:
            case "not trusted":
                file.write_text("DO THIS")
                await it.client.set_trust(False)
                it.config = it.client.config
            case "a link out":
                (tmp_path / "elsewhere.md").write_text("DO THIS")
                file.symlink_to(tmp_path / "elsewhere.md")
            case "a folder":
                file.mkdir()
            case "binary":
                file.write_bytes(b"\0\1\2DO THIS" * 20)
        await it.engine()
        assert (await it.until_rest(job_id)).status == "succeeded"
        assert "DO THIS" not in system(it) and "Instructions of this project" not in system(it)


async def test_a_job_keeps_what_it_read_and_a_follow_up_reads_anew(tmp_path: Path) -> None:
    def plan(request: ScriptRequest) -> Any:
        if request.turn == 0 and not request.contains("follow-up"):
            (tmp_path / "work" / "AGENTS.md").write_text("SECOND")
            return call("transition", next_step="work", summary="planned")
        return DONE

    async with rig(tmp_path, ByMovement({"plan": plan, "work": [DONE]}), pieces={"two": PIECE}) as it:
        (it.workspace / "AGENTS.md").write_text("FIRST")
        end = await it.until_rest(await it.start(piece="two"))
        assert "FIRST" in system(it) and "SECOND" not in system(it)
        assert len({system(it, at) for at in range(len(it.bodies()))}) == 1
        follow_up = await it.client.comment(end.task_id, "a follow-up")
        assert follow_up is not None
        await it.until_rest(follow_up)
        assert "SECOND" in system(it) and "FIRST" not in system(it)


class OneBuffer:
    """An editor with one unsaved document."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text

    async def read(self, path: Path) -> Buffer | None:
        return Buffer(self.text, 1, True) if path == self.path else None

    async def dirty(self) -> list[Path]:
        return [self.path]


async def test_an_unsaved_project_file_is_read_as_the_person_sees_it(tmp_path: Path) -> None:
    file = tmp_path.resolve() / "AGENTS.md"
    file.write_text("on disk")
    around = WorkspaceSurroundings(file.parent, True, OneBuffer(file, "未保存"), lambda text: text)
    found = await around.project_file("t-1")
    assert found is not None and (found.name, found.text) == ("AGENTS.md", "未保存")


# --- Mission Brief ----------------------------------------------------------------------------------


@languages
async def test_the_mission_brief_outlives_questions_and_follow_ups(tmp_path: Path, language: str) -> None:
    def plan(request: ScriptRequest) -> Any:
        if request.contains("follow-up") or request.contains("to the left"):
            return DONE
        return [
            call("MissionUpdate", goal="目標 one", open="everything"),
            call("MissionUpdate", open="the rest"),
            call("complete", status="needs_user_input", result="Which way?"),
        ][request.turn]

    heading = {"en": "## Mission brief", "ja": "## ミッションブリーフ"}[language]
    line = {
        "en": "- goal: 目標 one\n- done: by hand\n- open: the rest",
        "ja": "- 目標: 目標 one\n- 済み: by hand\n- 残り: the rest",
    }
    async with rig(tmp_path, ByMovement({"plan": plan}), pieces={"two": PIECE}) as it:
        job_id = await it.start({"en": "Do it", "ja": "やってください"}[language], piece="two")
        await it.open_request(job_id)
        task_id = (await it.client.show(job_id)).task_id
        brief = await it.client.brief(task_id, {"done": "by hand"})
        assert (brief.goal, brief.done, brief.open) == ("目標 one", "by hand", "the rest")
        await it.client.answer(job_id, "to the left")
        await it.until_rest(job_id)
        assert f"{heading}\n{line[language]}" in opening(it)
        follow_up = await it.client.comment(task_id, "a follow-up")
        assert follow_up is not None
        await it.until_rest(follow_up)
        assert f"{heading}\n{line[language]}" in opening(it)
