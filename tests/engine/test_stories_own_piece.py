"""A piece of one's own, wholly in English or wholly in Japanese: names of movements, instructions,
conditions, files, what the person says and what the model says. Both play the same scenes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.catalog import prompts
from engine.core.piece import is_verify
from engine.core.toolnames import BUILTIN_NAMES
from engine.llm.scripted import ByMovement, ScriptReply, ScriptRequest, call, say
from engine.loader import check_text
from tests.engine.rig import Rig, rig
from tests.engine.telling import (
    assert_one_language,
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

ENGLISH = """\
name: spelling
description: Mends the spelling of a text and has it read again.
max_movements: 9
initial_movement: look
triggers:
  keywords: [spelling, typo]
movements:
  - name: look
    edit: false
    persona: You are a patient reader.
    instruction: |
      Read the text and note every word that is spelt wrongly. Ask which spelling is wanted if it matters.
    allowed_tools: [Read, Glob, Grep]
    rules:
      - condition: The wrong words are known.
        next: mend
    default_next: mend

  - name: mend
    edit: true
    conversation: continue
    persona: You change nothing but what is wrong.
    instruction: |
      Mend what was noted. What comes from the review goes first.
    allowed_tools: [Read, Edit]
    rules:
      - condition: Everything noted is mended.
        next: second-review
    default_next: second-review
    max_consecutive_revisits: 4

  - name: second-review
    edit: false
    persona: You see the text for the first time.
    instruction: |
      Read the text. If a word is still wrong, send it back and quote it.
    allowed_tools: [Read]
    rules:
      - condition: A word is still wrong.
        next: mend
    default_next: ABORT
    max_consecutive_revisits: 4
"""

JAPANESE = """\
name: spelling
description: 文章の表記を直し、もう一度読んで確かめる。
max_movements: 9
initial_movement: 調べる
triggers:
  keywords: [表記, 誤字]
movements:
  - name: 調べる
    edit: false
    persona: あなたは辛抱強い読み手です。
    instruction: |
      文章を読み、表記の誤りをすべて書き出す。表記の決まりで結果が変わるなら、たずねる。
    allowed_tools: [Read, Glob, Grep]
    rules:
      - condition: 誤りがすべてわかった。
        next: 直す
    default_next: 直す

  - name: 直す
    edit: true
    conversation: continue
    persona: あなたは誤りのほかには何も変えません。
    instruction: |
      書き出したものを直す。検証からの指摘を先に片づける。
    allowed_tools: [Read, Edit]
    rules:
      - condition: 書き出したものをすべて直した。
        next: 検証
    default_next: 検証
    max_consecutive_revisits: 4

  - name: 検証
    edit: false
    persona: あなたはこの文章を初めて読みます。
    instruction: |
      文章を読む。まだ誤りがあれば、その語を引いて差し戻す。
    allowed_tools: [Read]
    rules:
      - condition: まだ誤りがある。
        next: 直す
    default_next: ABORT
    max_consecutive_revisits: 4
"""


@dataclass(frozen=True)
class Words:
    """A text, its mistakes, and what is said about them, in one language."""

    piece: str
    movements: tuple[str, str, str]
    task: str
    file: str
    text: str
    wrong: dict[str, str]
    question: str
    options: tuple[str, str]
    after: str
    thinking: str
    noted: str
    still: str
    done: str


WORDS = {
    "en": Words(
        piece=ENGLISH,
        movements=("look", "mend", "second-review"),
        task="Mend the spelling in letter.txt",
        file="letter.txt",
        text="# dear redaer\nThe coulor of the sky is wonderfull. 😀\n",
        wrong={"redaer": "reader", "coulor": "colour", "wonderfull": "wonderful"},
        question="British or American spelling?",
        options=("British", "American"),
        after="# dear reader\nThe color of the sky is wonderful. 😀\n",
        thinking="I think the letter is fine now.",
        noted="Wrong: {words}.",
        still="Still wrong: {word}.",
        done="The letter is mended ({answer}).",
    ),
    "ja": Words(
        piece=JAPANESE,
        movements=("調べる", "直す", "検証"),
        task="手紙.txt の表記を直してください",
        file="手紙.txt",
        text="# 親愛なる読みてへ\n空の色わとても綺麗でづ。😀\n",
        wrong={"読みて": "読み手", "色わ": "色は", "でづ": "です"},
        question="「綺麗」は漢字とかなのどちらにしますか？",
        options=("漢字", "かな"),
        after="# 親愛なる読み手へ\n空の色はとてもきれいです。😀\n",
        thinking="手紙はもうこれでよいと思います。",
        noted="誤り: {words}。",
        still="まだ誤りがあります: {word}。",
        done="手紙を直しました（{answer}）。",
    ),
}
BY_ANSWER = {"American": ("colour", "color"), "かな": ("綺麗", "きれい")}


class Speller:
    """A model that overlooks a mistake, talks instead of acting, and takes a wrong turn, each once."""

    def __init__(self, language: str) -> None:
        self.language, self.words = language, WORDS[language]

    def script(self) -> ByMovement:
        look, mend, check = self.words.movements
        return ByMovement({look: self.look, mend: self.mend, check: self.check})

    def answer(self, request: ScriptRequest) -> str:
        found = [
            name for name in BY_ANSWER if request.last_user.rpartition(self.words.question)[2].endswith(name)
        ]
        return found[0] if found else ""

    def look(self, request: ScriptRequest) -> ScriptReply:
        words = self.words
        if not request.contains(words.question):
            return call(
                "complete", status="needs_user_input", result=words.question, options=list(words.options)
            )
        if request.turn == 0:
            return call("Read", file_path=words.file)
        found = [wrong for wrong in words.wrong if wrong in request.last_result("Read")][:-1]
        if request.turn == 1:
            return hop(words.movements[2], words.noted.format(words=", ".join(found)))
        return hop(words.movements[1], words.noted.format(words=", ".join(found)), self.answer(request))

    def mend(self, request: ScriptRequest) -> ScriptReply:
        words = self.words
        feedback = told(request, self.language, "feedback", movement=words.movements[2])
        noted = feedback or str(request.results("transition")[-1].arguments["summary"])
        edits = [(wrong, right) for wrong, right in words.wrong.items() if wrong in noted]
        if not feedback:
            house = BY_ANSWER[str(request.results("transition")[-1].arguments["lessons"])]
            edits.append(house)
        if request.turn < len(edits):
            old, new = edits[request.turn]
            return call("Edit", file_path=words.file, old_string=old, new_string=new)
        if not feedback and request.turn == len(edits):
            return say(words.thinking)
        return hop(words.movements[2], words.file)

    def check(self, request: ScriptRequest) -> ScriptReply:
        words = self.words
        if request.turn == 0:
            return several(("Read", {"file_path": words.file}))
        left = [wrong for wrong in words.wrong if wrong in request.last_result("Read")]
        if left:
            return hop(words.movements[1], words.still.format(word=left[0]))
        lessons = told(request, self.language, "lessons")
        (answer,) = [name for name in BY_ANSWER if name in lessons]
        return success(words.done.format(answer=answer))


def results(it: Rig) -> list[str]:
    """Every tool result that the model was sent."""
    return [str(m["content"]) for body in it.bodies() for m in body["messages"] if m["role"] == "tool"]


@in_both_languages
def test_the_file_has_no_faults_and_its_last_movement_counts_as_a_check_by_its_name(language: str) -> None:
    words = WORDS[language]
    checked = check_text(words.piece, "spelling.yaml", BUILTIN_NAMES)
    assert [(p.severity, p.code) for p in checked.problems] == [("info", "verify_by_name")]
    assert checked.piece is not None
    assert [m.name for m in checked.piece.movements] == list(words.movements)
    assert [is_verify(m) for m in checked.piece.movements] == [False, False, True]


@in_both_languages
async def test_a_text_is_mended_by_a_piece_of_ones_own_from_the_question_to_the_result(
    tmp_path: Path, language: str
) -> None:
    words, texts = WORDS[language], prompts(language)
    look, mend, check = words.movements
    async with rig(tmp_path, Speller(language).script(), pieces={"spelling": words.piece}) as it:
        put(it.workspace, {words.file: words.text})
        detail = await play(it, words.task, "spelling", words.options[1])
        assert (detail.status, detail.result) == ("succeeded", words.done.format(answer=words.options[1]))
        assert (it.workspace / words.file).read_text("utf-8") == words.after
        assert stays(detail) == [look, look, mend, check, mend, check]
        assert detail.language == language

        (question,) = detail.requests
        assert (question.title, question.options) == (words.question, list(words.options))
        again = openings(it, language, look)[1]
        assert again.endswith(texts("answer", question=words.question, answer=words.options[1]))

        first, second = openings(it, language, mend)
        assert first.startswith(texts("movement.joined", left=look))
        feedback = heading(language, "feedback", movement=check)
        assert feedback not in first
        assert section(second, feedback) == words.still.format(word=list(words.wrong)[-1])
        lessons = section(openings(it, language, check)[1], heading(language, "lessons"))
        assert [f"[{name}]" in lessons for name in words.movements] == [True, True, True]

        users = [str(m["content"]) for m in it.bodies()[-1]["messages"] if m["role"] == "user"]
        reminders = [str(m["content"]) for b in it.bodies() for m in b["messages"] if m["role"] == "user"]
        assert texts("remind.first") in reminders and texts("remind.first") not in users
        assert texts("transition.invalid", step=check, choices=mend) in results(it)
        assert_one_language(it, language)


@in_both_languages
async def test_the_one_transition_tool_names_the_movements_as_the_file_does(
    tmp_path: Path, language: str
) -> None:
    words = WORDS[language]
    async with rig(tmp_path, Speller(language).script(), pieces={"spelling": words.piece}) as it:
        put(it.workspace, {words.file: words.text})
        await play(it, words.task, "spelling", words.options[1])
        bodies = it.bodies()
        arrays = {str(body["tools"]) for body in bodies}
        assert len(arrays) == 1
        (tool,) = [t["function"] for t in bodies[0]["tools"] if t["function"]["name"] == "transition"]
        steps = tool["parameters"]["properties"]["next_step"]["enum"]
        assert set(steps) == set(words.movements[1:])
        raw = it.server.requests[0].decode("utf-8")
        assert all(f'"{name}"' in raw for name in steps), "names are sent as they are, not as escapes"
        assert not re.search(r"\\u[0-9a-f]{4}", raw)
