"""The piece ``parallel`` in stories: the work is split, each part is a subtask of its own, and what became of
every one of them is brought together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.core.family import Child
from engine.core.views import JobDetail, Request
from engine.llm.scripted import ByMovement, ScriptReply, ScriptRequest, call
from tests.engine.rig import Rig, rig
from tests.engine.telling import (
    assert_one_language,
    calls,
    files_of,
    heading,
    hop,
    in_both_languages,
    openings,
    play,
    put,
    section,
    several,
    stays,
    success,
    told,
)

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Words:
    """Texts that are to be translated, and what is said about them, in one language."""

    task: str
    small: str
    texts: dict[str, str]
    table: str
    part: str
    made: str
    more: str
    missing: str
    which: str
    options: tuple[str, str]
    note: str
    declined: str
    summary: str


WORDS = {
    "en": Words(
        task="Write a heading for each of the texts in texts/, and a table of them in contents.md",
        small="Write a heading for texts/tea.txt",
        texts={"texts/rain.txt": "It rains.", "texts/snow.txt": "It snows.", "texts/tea.txt": "Tea is hot."},
        table="contents.md",
        part="heading for {name}",
        made="{name} has its heading: {title}",
        more="texts/wind.txt",
        missing="missing: {name}",
        which="Which form does the heading have?",
        options=("a question", "a noun"),
        note="this one keeps its title",
        declined="declined: {note}",
        summary="one part for each text",
    ),
    "ja": Words(
        task="文章/ の文章それぞれに見出しを付け、目次.md に一覧を作ってください",
        small="文章/お茶.txt に見出しを付けてください",
        texts={"文章/雨.txt": "雨が降る。", "文章/雪.txt": "雪が降る。", "文章/お茶.txt": "お茶は熱い。"},
        table="目次.md",
        part="{name} の見出し",
        made="{name} に見出しを付けました: {title}",
        more="文章/風.txt",
        missing="残り: {name}",
        which="見出しはどんな形にしますか？",
        options=("問いかけ", "名詞"),
        note="これは今の題のままで",
        declined="却下されました: {note}",
        summary="文章ごとに一つ",
    ),
}


AGAIN = " (2)"


class Team:
    """The model of the whole family: it splits by the files it finds, writes as a subtask, and merges by the
    results it is given.
    """

    def __init__(
        self, language: str, *, asks: str = "", fails: str = "", forgets: str = "", small: bool = False
    ) -> None:
        self.language, self.words = language, WORDS[language]
        self.asks, self.fails, self.forgets, self.small = asks, fails, forgets, small

    def script(self) -> ByMovement:
        return ByMovement({"split": self.split, "merge": self.merge, "work": self.work})

    def split(self, request: ScriptRequest) -> ScriptReply:
        words = self.words
        if request.turn == 0:
            return call("Glob", pattern="**/*.txt")
        found = [name for name in sorted({*words.texts, words.more}) if name in request.last_result("Glob")]
        if self.small:
            return hop("merge", words.small)
        feedback = told(request, self.language, "feedback", movement="merge")
        wanted = [name for name in found if (name in feedback if feedback else name != self.forgets)]
        if request.turn == 1:
            return several(*(("SpawnSubTask", self.order(name)) for name in wanted))
        if self.fails and feedback and request.turn == 2:
            return call("SpawnSubTask", **self.order(self.fails, AGAIN))
        return hop("WAIT_SUBTASKS", words.summary)

    def order(self, name: str, again: str = "") -> dict[str, str]:
        title = self.words.part.format(name=name) + again
        return {"title": title, "piece": "general", "instruction": f"{title} → {name}"}

    def work(self, request: ScriptRequest) -> ScriptReply:
        """A subtask: one text, one heading."""
        words = self.words
        (name,) = re.findall(r"→ (\S+)", str(request.messages[1]["content"]))
        if name == self.fails and not request.contains(AGAIN):
            return ScriptReply(status=400)
        if name == self.asks and not request.contains(words.which):
            return call(
                "complete", status="needs_user_input", result=words.which, options=list(words.options)
            )
        if request.turn == 0:
            return call("Read", file_path=name)
        (text,) = re.findall(r"^ *1\t(.*)$", request.results("Read")[0].text, re.MULTILINE)
        answer = re.search(rf"{re.escape(words.which)}\n[^:]*: (.*)", str(request.messages[1]["content"]))
        title = f"{text[:-1]} ({answer[1]})" if answer else text[:-1]
        if request.turn == 1:
            return call("Write", file_path=name, content=f"# {title}\n\n{text}\n")
        if words.note in request.last_result("Write"):
            return call("complete", status="aborted", result=words.declined.format(note=words.note))
        return success(words.made.format(name=name, title=title))

    def merge(self, request: ScriptRequest) -> ScriptReply:
        words = self.words
        results = told(request, self.language, "children")
        if request.turn == 0:
            return call("Grep", pattern="^# ", output_mode="content", path=".", glob="*.txt")
        headings = re.findall(r"^(\S+\.txt):1:# (.*)$", request.results("Grep")[0].text, re.MULTILINE)
        if self.forgets and self.forgets not in results:
            return hop("split", words.missing.format(name=self.forgets))
        if self.fails and AGAIN not in results:
            return hop("split", words.missing.format(name=self.fails))
        if request.turn == 1:
            table = "".join(f"- {title}: {name}\n" for name, title in sorted(headings))
            return call("Write", file_path=words.table, content=table)
        return success(f"{words.table}\n{results}")


async def children_of(it: Rig, detail: JobDetail) -> dict[str, Child]:
    """The job's children by title."""
    return {child.title: child for child in await it.client.db(it.client.store.children, detail.job_id)}


async def wakes(it: Rig, detail: JobDetail) -> int:
    """How often the job went on after waiting for its children."""
    events = await it.client.events(detail.job_id)
    return sum(e["kind"] == "status" and e["from"] == "waiting_subtasks" for e in events)


def title_of(text: str) -> str:
    return text[:-1]


@in_both_languages
async def test_every_part_is_done_by_a_subtask_and_the_parts_become_one_result(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    async with rig(tmp_path, Team(language).script()) as it:
        put(it.workspace, words.texts)
        detail = await play(it, words.task, "parallel")
        assert detail.status == "succeeded", detail.result
        assert stays(detail) == ["split", "merge"] and await wakes(it, detail) == 1
        children = await children_of(it, detail)
        assert {title: child.status for title, child in children.items()} == {
            words.part.format(name=name): "succeeded" for name in words.texts
        }
        (prompt,) = openings(it, language, "merge")
        results = section(prompt, heading(language, "children"))
        for name, text in words.texts.items():
            assert words.made.format(name=name, title=title_of(text)) in results
            assert (it.workspace / name).read_text("utf-8") == f"# {title_of(text)}\n\n{text}\n"
        assert words.summary in section(prompt, heading(language, "lessons"))
        table = (it.workspace / words.table).read_text("utf-8").splitlines()
        assert table == [f"- {title_of(text)}: {name}" for name, text in sorted(words.texts.items())]
        assert_one_language(it, language)


@in_both_languages
async def test_a_subtask_asks_and_the_person_answers_on_the_parent(tmp_path: Path, language: str) -> None:
    words = WORDS[language]
    asks = sorted(words.texts)[1]
    seen: list[Request] = []
    async with rig(tmp_path, Team(language, asks=asks).script()) as it:
        put(it.workspace, words.texts)
        detail = await play(it, words.task, "parallel", words.options[0], seen=seen)
        assert detail.status == "succeeded", detail.result
        (question,) = seen
        assert (question.title, question.options) == (words.which, list(words.options))
        asking = (await children_of(it, detail))[words.part.format(name=asks)]
        assert question.job_id == asking.job_id != detail.job_id
        assert await wakes(it, detail) == 1
        title = f"{title_of(words.texts[asks])} ({words.options[0]})"
        assert (it.workspace / asks).read_text("utf-8").startswith(f"# {title}\n")
        assert f"- {title}: {asks}" in (it.workspace / words.table).read_text("utf-8")
        assert_one_language(it, language)


@in_both_languages
async def test_a_part_that_was_forgotten_is_sent_back_for_and_nothing_is_done_twice(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    async with rig(tmp_path, Team(language, forgets=words.more).script()) as it:
        put(it.workspace, {**words.texts, words.more: "…。"})
        detail = await play(it, words.task, "parallel")
        assert detail.status == "succeeded", detail.result
        assert stays(detail) == ["split", "merge", "split", "merge"] and await wakes(it, detail) == 2
        first, second = openings(it, language, "split")
        feedback = heading(language, "feedback", movement="merge")
        assert feedback not in first
        assert section(second, feedback) == words.missing.format(name=words.more)
        results = section(second, heading(language, "children"))
        assert all(words.part.format(name=name) in results for name in words.texts), "it knows what there is"
        spawned = [order["title"] for order in await calls(it, detail.job_id, "SpawnSubTask")]
        assert len(spawned) == len(set(spawned)) == 4 == len(await children_of(it, detail))
        assert len((it.workspace / words.table).read_text("utf-8").splitlines()) == 4
        assert_one_language(it, language)


@in_both_languages
async def test_a_part_that_failed_is_tried_again_by_another_title_and_what_was_declined_stays_declined(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    failing, declined, fine = sorted(words.texts)

    def judge(request: Request) -> str | None:
        return words.note if request.diff and Path(declined).name in request.title else None

    async with rig(tmp_path, Team(language, fails=failing).script(), mode="ask") as it:
        put(it.workspace, words.texts)
        detail = await play(it, words.task, "parallel", judge=judge)
        assert detail.status == "succeeded", detail.result
        assert stays(detail) == ["split", "merge", "split", "merge"] and await wakes(it, detail) == 2
        first, second = (section(p, heading(language, "children")) for p in openings(it, language, "merge"))
        became = {
            words.part.format(name=failing): "failed",
            words.part.format(name=declined): "aborted",
            words.part.format(name=fine): "succeeded",
        }
        for title, status in became.items():
            assert re.search(rf"{re.escape(title)}[”」]: {status}$", first, re.MULTILINE), first
        assert words.declined.format(note=words.note) in first and AGAIN not in first
        children = {title: child.status for title, child in (await children_of(it, detail)).items()}
        assert children == {**became, words.part.format(name=failing) + AGAIN: "succeeded"}
        assert words.made.format(name=failing, title=title_of(words.texts[failing])) in second
        assert second in (detail.result or "")
        spawned = await calls(it, detail.job_id, "SpawnSubTask")
        assert len(spawned) == 5 and len(children) == 4, "a title that exists starts nothing"
        after = files_of(it.workspace)
        assert after[declined] == words.texts[declined]
        assert after[words.table].splitlines() == [
            f"- {title_of(words.texts[name])}: {name}" for name in sorted((failing, fine))
        ]
        assert_one_language(it, language)


@in_both_languages
async def test_what_is_not_worth_splitting_is_done_without_subtasks(tmp_path: Path, language: str) -> None:
    words = WORDS[language]
    name = sorted(words.texts)[0]
    async with rig(tmp_path, Team(language, small=True).script()) as it:
        put(it.workspace, {name: f"# {title_of(words.texts[name])}\n"})
        detail = await play(it, words.small, "parallel")
        assert detail.status == "succeeded", detail.result
        assert stays(detail) == ["split", "merge"]
        assert await children_of(it, detail) == {} and await wakes(it, detail) == 0
        (prompt,) = openings(it, language, "merge")
        assert heading(language, "children") not in prompt
        assert (it.workspace / words.table).read_text("utf-8") == f"- {title_of(words.texts[name])}: {name}\n"
        assert_one_language(it, language)


@in_both_languages
async def test_waiting_for_subtasks_that_were_never_started_goes_on_at_once(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    script = ByMovement({"split": hop("WAIT_SUBTASKS", words.summary), "merge": success(words.small)})
    async with rig(tmp_path, script) as it:
        detail = await play(it, words.small, "parallel")
        assert (detail.status, detail.result) == ("succeeded", words.small)
        assert stays(detail) == ["split", "merge"] and await wakes(it, detail) == 0
        assert_one_language(it, language)
