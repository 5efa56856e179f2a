"""The piece ``piece-builder`` in stories: a piece is designed, built, read by fresh eyes, and then works. The
person allows each file; what has errors is never stored; pieces of the product stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.core.toolnames import BUILTIN_NAMES
from engine.core.views import Request
from engine.llm.scripted import ByMovement, ScriptReply, ScriptRequest, call
from engine.loader import check_text
from tests.engine.rig import Rig, rig
from tests.engine.telling import (
    LISTED_RUN_UNASKED,
    assert_one_language,
    calls,
    files_of,
    goes_on,
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

PIECE = """\
name: {name}
description: {description}
max_movements: 8
initial_movement: {draft}
movements:
  - name: {draft}
    edit: true
    persona: {persona}
    instruction: |
      {write}
    allowed_tools: [Read, Write, Edit, Grep]
    rules:
      - condition: {written}
        next: {check}
    default_next: {check}
    max_consecutive_revisits: 3
  - name: {check}
    edit: false
    persona: {reader}
    instruction: |
      {read}
    allowed_tools: {tools}
    rules:
      - condition: {faulty}
        next: {draft}
    default_next: ABORT
    max_consecutive_revisits: 3
"""
WITH_BASH = "[Read, Bash]\n    allowed_commands: [make check]"


@dataclass(frozen=True)
class Words:
    """A piece that is wanted, its texts, and what is said about it, in one language."""

    task: str
    like: str
    texts: dict[str, str]
    run: str
    question: str
    options: tuple[str, str]
    fault: str
    note: str
    noted: str
    built: str
    news: str


WORDS = {
    "en": Words(
        task="Build a piece that writes the release notes the way we do it here",
        like="I want a review piece of our own, called review",
        texts={
            "description": "Writes the release notes from HISTORY.txt.",
            "draft": "draft",
            "persona": "You write for users.",
            "write": "Write NEWS.md from HISTORY.txt, newest first.",
            "written": "NEWS.md is written.",
            "check": "text-review",
            "reader": "You read as a user.",
            "read": "Compare NEWS.md with HISTORY.txt, line by line.",
            "faulty": "Something is missing in NEWS.md.",
        },
        run="Then run `make check` and read what it says.",
        question="May the piece run commands?",
        options=("only read", "make check too"),
        fault="text-review is told to run make check and may use no Bash",
        note="call our users readers",
        noted="You write for readers.",
        built="The piece is ready: maestro-lsp run --piece {name}",
        news="Prices have their tax.",
    ),
    "ja": Words(
        task="うちのやり方でリリースノートを書くピースを作ってください",
        like="うち独自のレビュー用ピースを review という名前で作ってください",
        texts={
            "description": "履歴.txt からリリースノートを書く。",
            "draft": "下書き",
            "persona": "あなたは利用者のために書く。",
            "write": "履歴.txt から新しい順に お知らせ.md を書く。",
            "written": "お知らせ.md が書けた。",
            "check": "検証",
            "reader": "あなたは利用者として読む。",
            "read": "お知らせ.md と 履歴.txt を一行ずつ比べる。",
            "faulty": "お知らせ.md に足りないものがある。",
        },
        run="それから `make check` を実行し、出力を読む。",
        question="ピースはコマンドを実行してもよいですか？",
        options=("読むだけ", "make check も実行"),
        fault="検証 は make check を実行するよう言われているのに Bash を使えない",
        note="利用者ではなく読者と書いて",
        noted="あなたは読者のために書く。",
        built="ピースができました: maestro-lsp run --piece {name}",
        news="価格に税が付きました。",
    ),
}


def piece(words: Words, *, name: str = "release-notes", tools: str = "[Read]", **texts: str) -> str:
    return PIECE.format(**{**words.texts, **texts}, name=name, tools=tools)


class Builder:
    """A model that builds pieces by what it is told: findings, a note, feedback."""

    def __init__(self, language: str, *, first: str = "", name: str = "release-notes") -> None:
        self.language, self.words = language, WORDS[language]
        self.first, self.name = first or piece(self.words), name

    def script(self) -> ByMovement:
        return ByMovement({"design": self.design, "build": self.build, "verify": self.verify})

    def design(self, request: ScriptRequest) -> ScriptReply:
        if request.turn == 0:
            return several(("ListPieces", {}), ("GetPiece", {"name": "code"}))
        return hop("build", self.words.texts["description"])

    def build(self, request: ScriptRequest) -> ScriptReply:
        words = self.words
        if told(request, self.language, "feedback", movement="verify"):
            if request.turn == 0:
                stored = shown(request)
                text = stored.replace("allowed_tools: [Read]", f"allowed_tools: {WITH_BASH}")
                return call("UpdatePiece", name=self.name, yaml_content=text)
            return hop("verify", self.name)
        made = request.results("CreatePiece")
        if not made:
            return self.create(self.name, self.first)
        last = made[-1]
        if "Nothing was written" in last.text:
            return self.create(self.name, mended(str(last.arguments["yaml_content"]), last.text))
        if words.note in last.text:
            text = str(last.arguments["yaml_content"])
            return self.create(self.name, text.replace(words.texts["persona"], words.noted))
        if "another name" in last.text:
            self.name = "team-review"
            return self.create(self.name, self.first.replace("name: review", "name: team-review"))
        return hop("verify", self.name)

    @staticmethod
    def create(name: str, text: str) -> ScriptReply:
        return call("CreatePiece", name=name, yaml_content=text)

    def verify(self, request: ScriptRequest) -> ScriptReply:
        words = self.words
        if request.turn == 0:
            return call("GetPiece", name=self.name)
        text = shown(request)
        if "make check" in text and "Bash" not in text:
            return hop("build", words.fault)
        return success(words.built.format(name=self.name))


def mended(text: str, findings: str) -> str:
    """The text with each fix put where its finding says."""
    lines = text.splitlines(keepends=True)
    for line, column, fix in re.findall(
        r" line (\d+), column (\d+): .*Fix: `(\w+)`$", findings, re.MULTILINE
    ):
        before = lines[int(line) - 1]
        at = int(column) - 1
        lines[int(line) - 1] = before[:at] + re.sub(r"^\w+", fix, before[at:])
    return "".join(lines)


def shown(request: ScriptRequest) -> str:
    """The YAML that ``GetPiece`` showed last."""
    lines = request.results("GetPiece")[-1].text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("[", "- ")))


def stored(it: Rig, name: str = "release-notes") -> Path:
    return it.workspace / ".maestro" / "pieces" / f"{name}.yaml"


def answers(it: Rig, tool: str) -> list[str]:
    """Every result of a tool that the model was sent, in order, each once."""
    found = {
        r.call_id: r.text for b in it.bodies() for r in ScriptRequest(tuple(b["messages"])).results(tool)
    }
    return list(found.values())


class Worker:
    """The model when it works by the new piece; before that, the builder."""

    def __init__(self, language: str) -> None:
        self.words = WORDS[language]
        self.news, self.history = re.findall(r"\S+\.(?:md|txt)", self.words.texts["read"])

    def draft(self, request: ScriptRequest) -> ScriptReply:
        if request.turn == 0:
            return call("Read", file_path=self.history)
        if request.turn == 1:
            lines = re.findall(r"^ *\d+\t(.+)$", request.results("Read")[0].text, re.MULTILINE)
            return call("Write", file_path=self.news, content="\n".join(reversed(lines)) + "\n")
        return hop(self.words.texts["check"], self.news)

    def check(self, request: ScriptRequest) -> ScriptReply:
        if request.turn == 0:
            return call("Read", file_path=self.news)
        return success(request.last_result("Read").splitlines()[0].split("\t")[1])


@in_both_languages
async def test_a_piece_is_built_for_the_workspace_and_then_does_its_work(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    worker = Worker(language)
    own = {words.texts["draft"]: worker.draft, words.texts["check"]: worker.check}
    script = ByMovement({**Builder(language).script().movements, **own})
    seen: list[Request] = []
    async with rig(tmp_path, script, mode="all") as it:
        put(it.workspace, {worker.history: f"1\n2 {words.news}\n"})
        detail = await play(it, words.task, "piece-builder", seen=seen)
        assert (detail.status, detail.result) == ("succeeded", words.built.format(name="release-notes"))
        assert stays(detail) == ["design", "build", "verify"]
        assert goes_on(it, language, "build") and not goes_on(it, language, "verify")
        (asked,) = seen
        assert asked.reason == "approval" and asked.diff is not None, "a piece is asked for in every mode"
        assert (asked.diff[0].before, asked.diff[0].after) == (None, piece(words))
        text = stored(it).read_text("utf-8")
        assert text == piece(words)
        assert {p.severity for p in check_text(text, "release-notes.yaml", BUILTIN_NAMES).problems} <= {
            "info"
        }
        (listed,) = answers(it, "ListPieces")
        assert "- review (shipped)" in listed and "- parallel (shipped)" in listed

        done = await play(it, words.task, "release-notes")
        assert (done.status, done.result) == ("succeeded", f"2 {words.news}")
        assert stays(done) == [words.texts["draft"], words.texts["check"]]
        assert files_of(it.workspace)[worker.news] == f"2 {words.news}\n1\n"
        (prompt,) = openings(it, language, words.texts["check"])
        assert words.texts["read"] in prompt and words.texts["faulty"] in prompt
        assert_one_language(it, language)


@in_both_languages
@pytest.mark.parametrize("chosen", [0, 1])
async def test_two_designs_that_serve_different_wishes_are_put_to_the_person(
    tmp_path: Path, language: str, chosen: int
) -> None:
    words = WORDS[language]
    builder = Builder(language)

    def design(request: ScriptRequest) -> ScriptReply:
        if not request.contains(words.question):
            return call(
                "complete", status="needs_user_input", result=words.question, options=list(words.options)
            )
        return hop("build", request.last_user.rpartition(words.question)[2])

    def build(request: ScriptRequest) -> ScriptReply:
        if request.turn == 0:
            runs = words.options[1] in str(request.messages[2]["tool_calls"][0]["function"]["arguments"])
            read = {"read": f"{words.texts['read']}\n      {words.run}"} if runs else {}
            return builder.create(
                "release-notes", piece(words, tools=WITH_BASH if runs else "[Read]", **read)
            )
        return hop("verify", "release-notes")

    script = ByMovement({"design": design, "build": build, "verify": builder.verify})
    async with rig(tmp_path, script) as it:
        detail = await play(it, words.task, "piece-builder", words.options[chosen])
        assert detail.status == "succeeded", detail.result
        question = next(request for request in detail.requests if request.reason == "question")
        assert (question.title, question.options) == (words.question, list(words.options))
        text = stored(it).read_text("utf-8")
        assert ("allowed_commands: [make check]" in text, words.run in text) == (chosen == 1, chosen == 1)
        assert check_text(text, "release-notes.yaml", BUILTIN_NAMES).piece is not None
        assert_one_language(it, language)


@in_both_languages
async def test_a_permission_that_is_missing_is_found_by_the_reader_and_added(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    first = piece(words, read=f"{words.texts['read']}\n      {words.run}")
    seen: list[Request] = []
    async with rig(tmp_path, Builder(language, first=first).script()) as it:
        detail = await play(it, words.task, "piece-builder", seen=seen)
        assert detail.status == "succeeded", detail.result
        assert stays(detail) == ["design", "build", "verify", "build", "verify"]
        before, again = openings(it, language, "build")
        feedback = heading(language, "feedback", movement="verify")
        assert feedback not in before and section(again, feedback) == words.fault
        fixed = first.replace("allowed_tools: [Read]", f"allowed_tools: {WITH_BASH}")
        assert stored(it).read_text("utf-8") == fixed
        assert [request.diff[0].before for request in seen if request.diff] == [None, first]
        assert [request.diff[0].after for request in seen if request.diff] == [first, fixed]
        assert_one_language(it, language)


@in_both_languages
async def test_a_faulty_text_is_mended_by_its_findings_and_a_declined_one_by_the_note(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    faulty = piece(words).replace("max_movements", "max_movement").replace("Grep", "Grap")
    declined: list[str] = []

    def judge(request: Request) -> str | None:
        declined.append(request.title)
        return words.note if len(declined) == 1 else None

    async with rig(tmp_path, Builder(language, first=faulty).script()) as it:
        detail = await play(it, words.task, "piece-builder", judge=judge)
        assert detail.status == "succeeded", detail.result
        assert stays(detail) == ["design", "build", "verify"]
        findings, note, _ = answers(it, "CreatePiece")
        assert "Nothing was written" in findings and "max_movements" in findings and "Grep" in findings
        assert re.search(r"^- \S+ at line \d+, column \d+", findings, re.MULTILINE)
        assert words.note in note
        assert stored(it).read_text("utf-8") == piece(words, persona=words.noted)
        assert len(declined) == 2, "a text with errors is not shown to the person"
        assert_one_language(it, language)


@in_both_languages
async def test_the_name_of_a_shipped_piece_is_taken_and_the_variant_gets_its_own(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    builder = Builder(language, first=piece(words, name="review"), name="review")
    async with rig(tmp_path, builder.script(), **LISTED_RUN_UNASKED) as it:
        detail = await play(it, words.like, "piece-builder")
        assert (detail.status, detail.result) == ("succeeded", words.built.format(name="team-review"))
        taken, _ = answers(it, "CreatePiece")
        assert "`review` already (shipped)" in taken and "another name" in taken
        assert [order["name"] for order in await calls(it, detail.job_id, "CreatePiece")] == [
            "review",
            "team-review",
        ]
        assert not stored(it, "review").exists() and stored(it, "team-review").exists()
        assert (await it.client.load_piece("review")).source == "shipped"
        assert len(detail.requests) == 1, "the person is not asked about a name that is taken"
        assert_one_language(it, language)
