"""The piece ``research`` in stories: questions, evidence, a report in the task's output folder, and a fact
checker who opens every source. Nothing else in the workspace changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.core.views import JobDetail, Request
from engine.llm.scripted import ByMovement, ScriptReply, ScriptRequest, call
from tests.engine.rig import Rig, rig
from tests.engine.telling import (
    LISTED_RUN_UNASKED,
    assert_one_language,
    calls,
    checked,
    files_of,
    goes_on,
    heading,
    hop,
    in_both_languages,
    items,
    listing,
    openings,
    play,
    put,
    section,
    several,
    stays,
    success,
    tick,
    told,
)

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Words:
    """What is looked into, where the answers stand, and what is said about it, in one language."""

    task: str
    data: str
    notes: str
    months: tuple[str, str, str]
    best: str
    sum: str
    why: str
    rain: str
    reader: str
    options: tuple[str, str]
    for_reader: str
    title: str
    unknown: str
    wrong: str
    no_source: str
    note: str
    short: str
    holds: str


WORDS = {
    "en": Words(
        task="Find out when the shop sold most, how much in all, and why",
        data="data/sales.csv",
        notes="data/diary.md",
        months=("January", "February", "March"),
        best="Which month sold most?",
        sum="How much was sold in all?",
        why="Why did it sell most?",
        rain="sold most: the station was closed and everybody walked past.",
        reader="Who is the report for?",
        options=("the owner", "the bank"),
        for_reader="For {reader}.",
        title="# Sales",
        unknown="not to be found in the sources",
        wrong="the report says {claimed}, the figures sum to {real}",
        no_source="no source for: {claim}",
        note="shorter please, one line",
        short="In short",
        holds="The report holds",
    ),
    "ja": Words(
        task="店の売上がいちばん多かったのはいつか、合計はいくらか、その理由は何かを調べてください",
        data="データ/売上.csv",
        notes="データ/日誌.md",
        months=("一月", "二月", "三月"),
        best="いちばん売れた月は？",
        sum="売上の合計は？",
        why="いちばん売れた理由は？",
        rain="がいちばん売れた。駅が閉まり、みんなが店の前を通ったから。",
        reader="誰のための報告書ですか？",
        options=("店主", "銀行"),
        for_reader="{reader}向け。",
        title="# 売上",
        unknown="資料からはわからない",
        wrong="報告書は {claimed} としているが、数字の合計は {real}",
        no_source="出典がない: {claim}",
        note="もっと短く、一行で",
        short="要するに",
        holds="報告書に誤りはない",
    ),
}

SALES = (120, 310, 95)


def material(words: Words, *, diary: bool = True) -> dict[str, str]:
    rows = "".join(f"{month},{amount}\n" for month, amount in zip(words.months, SALES, strict=True))
    files = {words.data: rows}
    return files | {words.notes: f"{words.months[1]}{words.rain}\n"} if diary else files


def rows_of(text: str) -> list[tuple[str, str, int]]:
    """Line number, month and amount, from the data as ``Read`` shows it."""
    found = re.findall(r"^ *(\d+)\t([^,\n]+),(\d+)$", text, re.MULTILINE)
    return [(line, month, int(amount)) for line, month, amount in found]


class Researcher:
    """A model that works by its checklists, what it has read and its feedback."""

    def __init__(self, language: str, *, miscounts: bool = False, guesses: bool = False) -> None:
        self.language, self.words = language, WORDS[language]
        self.miscounts, self.guesses = miscounts, guesses

    def script(self) -> ByMovement:
        return ByMovement(
            {"plan": self.plan, "gather": self.gather, "write": self.write, "verify": self.verify}
        )

    def plan(self, request: ScriptRequest) -> ScriptReply:
        words = self.words
        if request.turn == 0:
            return call("Glob", pattern="**/*")
        if request.turn == 1:
            return several(listing("questions", [words.best, words.sum, words.why]))
        return hop("gather", f"{words.best} {words.sum} {words.why} {words.data}")

    def gather(self, request: ScriptRequest) -> ScriptReply:
        words = self.words
        there = words.notes in request.last_result("Glob")
        if told(request, self.language, "feedback", movement="verify"):
            if request.turn == 0:
                return call("Grep", pattern=words.months[1], path=".")
            if request.turn == 1:
                return several(listing("findings", [f"{words.why} {words.unknown}"]))
            return hop("write", f"{words.why} {words.unknown}")
        if request.turn == 0:
            names = [words.data, words.notes] if there else [words.data]
            return several(*(("Read", {"file_path": name}) for name in names))
        if request.turn == 1:
            return several(
                listing("findings", self.findings(request)), *(tick("questions", str(n)) for n in (1, 2, 3))
            )
        return hop("write", self.words.data)

    def findings(self, request: ScriptRequest) -> list[str]:
        words = self.words
        rows = next(rows for result in request.results("Read") if (rows := rows_of(result.text)))
        line, month, amount = max(rows, key=lambda row: row[2])
        total = amount if self.miscounts else sum(row[2] for row in rows)
        found = [
            f"{words.best} {month}, {amount} ({words.data}:{line})",
            f"{words.sum} {total} ({words.data}:1-{len(rows)})",
        ]
        diary = [r.text for r in request.results("Read") if r.arguments["file_path"] == words.notes]
        if diary:
            (reason,) = re.findall(r"^ *1\t(.*)$", diary[0], re.MULTILINE)
            return [*found, f"{words.why} {reason} ({words.notes}:1)"]
        return [*found, f"{words.why} ???"] if self.guesses else found

    def write(self, request: ScriptRequest) -> ScriptReply:
        words = self.words
        path = f"{output_of(request)}/report.md"
        feedback = told(request, self.language, "feedback", movement="verify")
        if request.turn == 0 and (found := re.search(r"(\d+)\D*?(\d+)", feedback)):
            return call("Edit", file_path=path, old_string=found[1], new_string=found[2], replace_all=True)
        if request.turn == 0 and request.contains(f"{words.why} {words.unknown}"):
            return call(
                "Edit",
                file_path=path,
                old_string=f"{words.why} ???",
                new_string=f"{words.why} {words.unknown}",
            )
        if request.turn == 0:
            return call("Write", file_path=path, content=self.report(request))
        if request.turn == 1 and words.note in request.last_result("Write"):
            last = items(told(request, self.language, "checklists"), "findings")[0]
            return call("Write", file_path=path, content=f"{words.short}: {last}\n")
        return hop("verify", path)

    def report(self, request: ScriptRequest) -> str:
        found = items(told(request, self.language, "checklists"), "findings")
        answer = re.search(rf"{re.escape(self.words.reader)}\n[^:]*: (.*)", self.all_text(request))
        head = [self.words.title, *([self.words.for_reader.format(reader=answer[1])] if answer else [])]
        return "\n".join([*head, "", *(f"- {finding}" for finding in found)]) + "\n"

    @staticmethod
    def all_text(request: ScriptRequest) -> str:
        return "\n".join(str(message.get("content")) for message in request.messages)

    def verify(self, request: ScriptRequest) -> ScriptReply:
        words = self.words
        path = f"{output_of(request)}/report.md"
        if request.turn == 0:
            return several(("Read", {"file_path": path}), ("Read", {"file_path": words.data}))
        report, data = (result.text for result in request.results("Read"))
        real = sum(row[2] for row in rows_of(data))
        claimed = re.search(rf"{re.escape(words.sum)} (\d+)", report)
        if claimed and int(claimed[1]) != real:
            return hop("write", words.wrong.format(claimed=claimed[1], real=real), words.data)
        if "???" in report:
            return hop("gather", words.no_source.format(claim=words.why))
        return success(f"{words.holds}: {path}\n{report}")


def output_of(request: ScriptRequest) -> str:
    """The task's output folder, from the listing of the prompt."""
    prompt = str(request.messages[1]["content"])
    found = re.search(r"(?:for the person go to |人に渡すファイルは )(\S+)", prompt)
    assert found is not None, prompt
    return found[1].rstrip("/")


def report_of(it: Rig, detail: JobDetail) -> str:
    return (it.workspace / ".maestro/tasks" / detail.task_id / "output/report.md").read_text("utf-8")


@in_both_languages
async def test_a_question_becomes_a_report_whose_claims_have_their_sources(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    async with rig(tmp_path, Researcher(language).script(), **LISTED_RUN_UNASKED) as it:
        put(it.workspace, material(words))
        before = files_of(it.workspace)
        detail = await play(it, words.task, "research")
        assert detail.status == "succeeded", detail.result
        assert report_of(it, detail).splitlines() == [
            words.title,
            "",
            f"- {words.best} {words.months[1]}, 310 ({words.data}:2)",
            f"- {words.sum} 525 ({words.data}:1-3)",
            f"- {words.why} {words.months[1]}{words.rain} ({words.notes}:1)",
        ]
        assert stays(detail) == ["plan", "gather", "write", "verify"]
        assert [goes_on(it, language, name) for name in ("gather", "write", "verify")] == [True, True, False]
        (prompt,) = openings(it, language, "verify")
        lists = section(prompt, heading(language, "checklists"))
        assert (checked(lists, "questions"), checked(lists, "findings")) == ("3/3", "0/3")
        assert (detail.result or "").startswith(
            f"{words.holds}: .maestro/tasks/{detail.task_id}/output/report.md"
        )
        assert files_of(it.workspace) == before and detail.requests == []
        assert_one_language(it, language)


@in_both_languages
async def test_who_the_report_is_for_is_asked_and_stands_in_the_report(tmp_path: Path, language: str) -> None:
    words = WORDS[language]
    researcher = Researcher(language)

    def plan(request: ScriptRequest) -> ScriptReply:
        if not request.contains(words.reader):
            return call(
                "complete", status="needs_user_input", result=words.reader, options=list(words.options)
            )
        return researcher.plan(request)

    script = ByMovement({**researcher.script().movements, "plan": plan})
    async with rig(tmp_path, script, **LISTED_RUN_UNASKED) as it:
        put(it.workspace, material(words))
        detail = await play(it, words.task, "research", words.options[1])
        assert detail.status == "succeeded", detail.result
        (question,) = detail.requests
        assert (question.reason, question.options) == ("question", list(words.options))
        assert report_of(it, detail).splitlines()[1] == words.for_reader.format(reader=words.options[1])
        assert openings(it, language, "plan")[1].endswith(words.options[1])
        assert_one_language(it, language)


@in_both_languages
async def test_a_wrong_figure_is_found_by_the_checker_and_corrected(tmp_path: Path, language: str) -> None:
    words = WORDS[language]
    async with rig(tmp_path, Researcher(language, miscounts=True).script(), **LISTED_RUN_UNASKED) as it:
        put(it.workspace, material(words))
        detail = await play(it, words.task, "research")
        assert detail.status == "succeeded", detail.result
        assert stays(detail) == ["plan", "gather", "write", "verify", "write", "verify"]
        first, second = openings(it, language, "write")
        feedback = heading(language, "feedback", movement="verify")
        assert feedback not in first
        assert section(second, feedback) == f"{words.wrong.format(claimed=310, real=525)}\n{words.data}"
        (edit,) = await calls(it, detail.job_id, "Edit")
        assert (edit["old_string"], edit["new_string"]) == ("310", "525")
        assert f"- {words.sum} 525 " in report_of(it, detail)
        assert_one_language(it, language)


@in_both_languages
async def test_a_declined_report_a_missing_source_and_a_busy_server_do_not_end_the_work(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    researcher = Researcher(language)
    busy = [ScriptReply(status=503), ScriptReply(status=503)]

    def gather(request: ScriptRequest) -> ScriptReply:
        if busy:
            return busy.pop()
        if request.turn == 0:
            return several(
                ("Read", {"file_path": "none.csv"}), ("Write", {"file_path": "x.md", "content": "x"})
            )
        return researcher.gather(ScriptRequest(request.messages, start=request.start + 3))

    def judge(request: Request) -> str | None:
        new = request.diff[0].after if request.tool == "Write" and request.diff else ""
        return words.note if words.title in (new or "") else None

    script = ByMovement({**researcher.script().movements, "gather": gather})
    async with rig(tmp_path, script, mode="ask", **LISTED_RUN_UNASKED) as it:
        put(it.workspace, material(words))
        before = files_of(it.workspace)
        detail = await play(it, words.task, "research", judge=judge)
        assert detail.status == "succeeded", detail.result
        assert not busy, "the server was busy twice and was asked again"
        results = {r.name: r.text for r in ScriptRequest(tuple(gathered(it, language))).results()}
        assert "none.csv" in results["Read"] and "x.md" not in files_of(it.workspace)
        assert [request.tool for request in detail.requests] == ["Write", "Write"]
        assert report_of(it, detail).startswith(f"{words.short}: {words.best} {words.months[1]}")
        assert words.title not in report_of(it, detail)
        assert files_of(it.workspace) == before
        assert_one_language(it, language)


def gathered(it: Rig, language: str) -> list[dict[str, object]]:
    """The conversation of ``gather`` right after its first calls."""
    for body in it.bodies():
        request = ScriptRequest(tuple(body["messages"]))
        if request.movement == "gather" and request.results("Write"):
            return list(body["messages"])
    raise AssertionError("gather never called Write")


@in_both_languages
async def test_what_the_sources_do_not_say_is_looked_for_again_and_then_said_to_be_unknown(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    async with rig(tmp_path, Researcher(language, guesses=True).script(), **LISTED_RUN_UNASKED) as it:
        put(it.workspace, material(words, diary=False))
        detail = await play(it, words.task, "research")
        assert detail.status == "succeeded", detail.result
        assert stays(detail) == ["plan", "gather", "write", "verify", "gather", "write", "verify"]
        again = section(openings(it, language, "gather")[1], heading(language, "feedback", movement="verify"))
        assert again == words.no_source.format(claim=words.why)
        assert report_of(it, detail).splitlines()[-1] == f"- {words.why} {words.unknown}"
        assert words.unknown in (detail.result or "")
        assert_one_language(it, language)
