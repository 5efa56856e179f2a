"""The piece ``review`` in stories: what is under review is found out, inspected, and each finding is put to
the proof by fresh eyes. Nothing is ever changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.core.views import Request
from engine.llm.scripted import ByMovement, ScriptReply, ScriptRequest, call
from tests.engine.rig import rig
from tests.engine.telling import (
    LISTED_RUN_UNASKED,
    assert_one_language,
    calls,
    checked,
    commit,
    files_of,
    git,
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

GUARD = "    if not prices:\n        return 0\n"


@dataclass(frozen=True)
class Words:
    """A repository and what is said about it, in one language."""

    task: str
    either: str
    question: str
    module: str
    other: str
    about: str
    about_other: str
    empty: str
    whole: str
    wrong: str
    missed: str
    note: str
    nothing: str
    verdict: str


WORDS = {
    "en": Words(
        task="Review my changes",
        either="Review the module",
        question="Which module is meant?",
        module="basket.py",
        other="receipt.py",
        about="The average price; 0 for an empty basket.",
        about_other="One line for the receipt.",
        empty="an empty basket divides by zero",
        whole="the amount is cut to whole yen",
        wrong="the prices are sorted in place",
        missed="was changed and not looked at",
        note="do not run scripts, read instead",
        nothing="There is nothing to review: the tree is clean.",
        verdict="Findings that hold",
    ),
    "ja": Words(
        task="変更をレビューしてください",
        either="モジュールをレビューしてください",
        question="どのモジュールのことですか？",
        module="買い物かご.py",
        other="レシート.py",
        about="価格の平均。かごが空なら 0。",
        about_other="レシートの一行。",
        empty="かごが空だとゼロで割る",
        whole="金額の端数が切り捨てられる",
        wrong="価格がその場で並べ替えられる",
        missed="は変更されているのに見られていない",
        note="スクリプトは動かさず、読んで確かめて",
        nothing="レビューするものはありません。変更はありません。",
        verdict="確かな指摘",
    ),
}


def code(words: Words, guard: str = "", cut: str = "amount") -> dict[str, str]:
    average = f'def average(prices):\n    """{words.about}"""\n{guard}    return sum(prices) / len(prices)\n'
    line = f'def line(name, amount):\n    """{words.about_other}"""\n    return f"{{name}}: {{{cut}}}"\n'
    return {words.module: average, words.other: line}


class Reviewer:
    """A model that reviews by what it is shown: the diff, the files, its checklists and its feedback."""

    def __init__(self, language: str, *, hasty: bool = False, invents: bool = False) -> None:
        self.language, self.words = language, WORDS[language]
        self.hasty, self.invents = hasty, invents

    def script(self) -> ByMovement:
        return ByMovement({"scope": self.scope, "inspect": self.inspect, "confirm": self.confirm})

    def scope(self, request: ScriptRequest) -> ScriptReply:
        if request.turn == 0:
            return several(
                ("Bash", {"command": "git status --short"}), ("Bash", {"command": "git diff HEAD"})
            )
        changed = re.findall(r"^\+\+\+ b/(.*)$", request.last_result("Bash"), re.MULTILINE)
        if not changed:
            return success(self.words.nothing)
        if request.turn == 1:
            first = sorted(changed, key=lambda name: name != self.words.module)
            return several(listing("review", first[:1] if self.hasty else first))
        return hop("inspect", f"git diff HEAD: {', '.join(changed)}")

    def inspect(self, request: ScriptRequest) -> ScriptReply:
        feedback = told(request, self.language, "feedback", movement="confirm")
        listed = items(told(request, self.language, "checklists"), "review")
        names = re.findall(r"\S+\.py", feedback) or listed
        if request.turn == 0:
            return several(*(("Read", {"file_path": name}) for name in names))
        if request.turn == 1:
            every = list(dict.fromkeys([*listed, *names]))
            return several(listing("review", every), *(tick("review", name) for name in names))
        if request.turn == 2:
            before = items(told(request, self.language, "checklists"), "findings")
            return several(listing("findings", before + self.findings(request, names)))
        return hop("confirm", "; ".join(names), "git diff HEAD")

    def findings(self, request: ScriptRequest, names: list[str]) -> list[str]:
        """What it finds in the files it has read: place, what happens, and the line it goes by."""
        found = []
        for name in names:
            text = next(r.text for r in reversed(request.results("Read")) if r.arguments["file_path"] == name)
            hit = re.search(r"^ *(\d+)\t *(return sum.*)$", text, re.MULTILINE)
            if hit and "if not prices" not in text:
                found.append(f"{name}:{hit[1]} {self.words.empty}: `{hit[2]}`")
            if hit := re.search(r"^ *(\d+)\t *(return f.*int.*)$", text, re.MULTILINE):
                found.append(f"{name}:{hit[1]} {self.words.whole}: `{hit[2]}`")
        return [*found, f"{names[0]}:2 {self.words.wrong}: `prices.sort()`"] if self.invents else found

    def confirm(self, request: ScriptRequest) -> ScriptReply:
        lists = told(request, self.language, "checklists")
        found = items(lists, "findings")
        names = sorted({finding.partition(":")[0] for finding in found})
        if request.turn == 0:
            probe = [("Bash", {"command": "python3 probe.py"})] if self.invents else []
            reads = [("Read", {"file_path": name}) for name in names]
            return several(*probe, ("Bash", {"command": "git diff --name-only HEAD"}), *reads)
        changed = [line for line in request.results("Bash")[-1].text.splitlines() if line.endswith(".py")]
        missed = [name for name in changed if name not in items(lists, "review")]
        if missed:
            return hop("inspect", f"{missed[0]} {self.words.missed}", "git diff --name-only HEAD")
        if request.turn == 1 and found:
            return several(*(tick("findings", finding) for finding in found))
        seen = "\n".join(result.text for result in request.results("Read"))
        holds = [finding for finding in found if finding.split("`")[1] in seen]
        return success("\n".join([f"{self.words.verdict}: {len(holds)}", *(f"- {f}" for f in holds)]))


@in_both_languages
async def test_a_change_is_reviewed_and_what_holds_is_reported_with_its_place(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    async with rig(tmp_path, Reviewer(language).script(), **LISTED_RUN_UNASKED) as it:
        commit(it.workspace, code(words, GUARD), "basket")
        put(it.workspace, code(words, cut="int(amount)"))
        before, status = files_of(it.workspace), git(it.workspace, "status", "--short")
        detail = await play(it, words.task, "review")
        assert detail.status == "succeeded", detail.result
        assert (detail.result or "").splitlines() == [
            f"{words.verdict}: 2",
            f"- {words.module}:3 {words.empty}: `return sum(prices) / len(prices)`",
            f'- {words.other}:3 {words.whole}: `return f"{{name}}: {{int(amount)}}"`',
        ]
        assert stays(detail) == ["scope", "inspect", "confirm"]
        assert goes_on(it, language, "inspect") and not goes_on(it, language, "confirm")
        (prompt,) = openings(it, language, "confirm")
        lists = section(prompt, heading(language, "checklists"))
        assert (checked(lists, "review"), checked(lists, "findings")) == ("2/2", "0/2")
        assert "[inspect]" in section(prompt, heading(language, "lessons"))
        assert detail.requests == [] and await it.client.changes(detail.job_id) == []
        assert (files_of(it.workspace), git(it.workspace, "status", "--short")) == (before, status)
        assert_one_language(it, language)


@in_both_languages
async def test_what_is_meant_is_asked_when_it_cannot_be_told(tmp_path: Path, language: str) -> None:
    words = WORDS[language]
    reviewer = Reviewer(language)

    def scope(request: ScriptRequest) -> ScriptReply:
        if not request.contains(words.question):
            options = [words.module, words.other]
            return call("complete", status="needs_user_input", result=words.question, options=options)
        if request.turn == 0:
            (meant,) = re.findall(r"\S+\.py\b", request.last_user.rpartition(words.question)[2])
            return several(listing("review", [meant]))
        return hop("inspect", words.either)

    script = ByMovement({"scope": scope, "inspect": reviewer.inspect, "confirm": reviewer.confirm})
    async with rig(tmp_path, script, **LISTED_RUN_UNASKED) as it:
        commit(it.workspace, code(words, cut="int(amount)"), "basket")
        detail = await play(it, words.either, "review", words.other)
        assert detail.status == "succeeded", detail.result
        (question,) = detail.requests
        assert (question.title, question.options) == (words.question, [words.module, words.other])
        assert f"- {words.other}:3 {words.whole}" in (detail.result or "")
        assert words.empty not in (detail.result or ""), "the other module was not asked for"
        assert {arguments["file_path"] for arguments in await calls(it, detail.job_id, "Read")} == {
            words.other
        }
        assert len(openings(it, language, "scope")) == 2
        assert_one_language(it, language)


@in_both_languages
async def test_an_area_that_was_missed_is_sent_back_for_and_then_reported(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    async with rig(tmp_path, Reviewer(language, hasty=True).script(), **LISTED_RUN_UNASKED) as it:
        commit(it.workspace, code(words, GUARD), "basket")
        put(it.workspace, code(words, cut="int(amount)"))
        detail = await play(it, words.task, "review")
        assert detail.status == "succeeded", detail.result
        assert stays(detail) == ["scope", "inspect", "confirm", "inspect", "confirm"]
        first, second = openings(it, language, "inspect")
        feedback = heading(language, "feedback", movement="confirm")
        assert feedback not in first
        assert section(second, feedback).splitlines() == [
            f"{words.other} {words.missed}",
            "git diff --name-only HEAD",
        ]
        first, second = [
            section(p, heading(language, "checklists")) for p in openings(it, language, "confirm")
        ]
        assert (checked(first, "review"), checked(second, "review")) == ("1/1", "2/2")
        assert len(items(first, "findings")) == 1 and len(items(second, "findings")) == 2
        assert f"{words.verdict}: 2" in (detail.result or "")
        assert words.empty in (detail.result or "") and words.whole in (detail.result or "")
        assert_one_language(it, language)


@in_both_languages
async def test_a_finding_without_ground_is_dropped_and_a_declined_command_is_done_without(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]

    def judge(request: Request) -> str | None:
        return words.note if request.tool == "Bash" else None

    async with rig(tmp_path, Reviewer(language, invents=True).script(), **LISTED_RUN_UNASKED) as it:
        commit(it.workspace, code(words, GUARD), "basket")
        put(it.workspace, code(words))
        detail = await play(it, words.task, "review", judge=judge)
        assert detail.status == "succeeded", detail.result
        (asked,) = detail.requests
        assert (asked.tool, asked.reason) == ("Bash", "approval") and "python3 probe.py" in str(
            asked.arguments
        )
        told_so = [str(m["content"]) for m in it.bodies()[-1]["messages"] if m["role"] == "tool"]
        assert words.note in told_so[0]
        (prompt,) = openings(it, language, "confirm")
        assert words.wrong in section(prompt, heading(language, "checklists"))
        assert words.wrong not in (detail.result or "")
        assert (detail.result or "").splitlines()[0] == f"{words.verdict}: 1"
        assert_one_language(it, language)


@in_both_languages
async def test_without_anything_to_review_it_says_so_at_once(tmp_path: Path, language: str) -> None:
    words = WORDS[language]
    async with rig(tmp_path, Reviewer(language).script(), **LISTED_RUN_UNASKED) as it:
        commit(it.workspace, code(words, GUARD), "basket")
        detail = await play(it, words.task, "review")
        assert (detail.status, detail.result) == ("succeeded", words.nothing)
        assert stays(detail) == ["scope"] and detail.requests == []
        assert_one_language(it, language)


@in_both_languages
async def test_more_findings_than_lessons_can_carry_all_reach_the_second_reviewer(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    many = [f"{words.module}:{number} {words.empty}: {'x' * 200}" for number in range(1, 31)]
    summary = "\n".join(many)

    def inspect(request: ScriptRequest) -> ScriptReply:
        if request.turn == 0:
            return several(listing("findings", many))
        return hop("confirm", summary)

    def confirm(request: ScriptRequest) -> ScriptReply:
        return success("\n".join(items(told(request, language, "checklists"), "findings")))

    script = ByMovement({"scope": hop("inspect", "."), "inspect": inspect, "confirm": confirm})
    async with rig(tmp_path, script) as it:
        detail = await play(it, words.task, "review")
        (prompt,) = openings(it, language, "confirm")
        assert many[0] not in section(prompt, heading(language, "lessons"))
        assert (detail.result or "").splitlines() == many
