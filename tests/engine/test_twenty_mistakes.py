"""A model makes each classic mistake once, in one job. Each is answered by what would be right, and the job
succeeds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, say
from tests.engine.rig import rig

PRICE = """def with_tax(price, rate):
    return price * (100 + rate) / 100


def without_tax(price, rate):
    return price / (100 + rate) * 100


def total(prices):
    return sum(prices)
"""
MENDED = "    return price * (100 + rate) // 100\n"
WRONG = "    return price * (100 + rate) / 100\n"
PIECE = """
name: two
description: look, then mend
max_movements: 5
initial_movement: look
movements:
  - name: look
    edit: false
    persona: You look.
    instruction: Find the fault.
    allowed_tools: [Read, Glob, Grep]
    rules:
      - condition: the fault is found
        next: mend
  - name: mend
    edit: true
    persona: You mend.
    instruction: Mend the fault.
    allowed_tools: [Read, Bash]
    allowed_commands: [sleep, cat]
    rules: []
"""


def raw(name: str, arguments: str, finish: str = "tool_calls") -> ScriptReply:
    """A call whose arguments are any text."""
    function = {"name": name, "arguments": arguments}
    message = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    body = {"choices": [{"index": 0, "finish_reason": finish, "message": message}]}
    return ScriptReply(raw_chunks=(json.dumps(body).encode(),), content_type="application/json")


def edit(old: str, new: str) -> ScriptReply:
    return call("Edit", file_path="price.py", old_string=old, new_string=new)


def both(*calls: tuple[str, Mapping[str, Any]]) -> ScriptReply:
    return ScriptReply(calls=calls)


@dataclass(frozen=True)
class Fine:
    """What the model does and may do; ``words`` are in what it hears next, ``ja`` in a task in Japanese.
    ``meanwhile`` happens in the workspace while it thinks.
    """

    what: str
    reply: ScriptReply
    words: tuple[str, ...]
    ja: tuple[str, ...] | None = None
    meanwhile: Callable[[Path], object] | None = None


@dataclass(frozen=True)
class Mistake(Fine):
    """What it should not have done: the words say what was wrong and what would be right."""


def somebody_edits(workspace: Path) -> None:
    (workspace / "price.py").write_text(PRICE.replace("/ 100\n", "/ 100.0\n"), "utf-8")


def somebody_takes_it_back(workspace: Path) -> None:
    (workspace / "price.py").write_text(PRICE, "utf-8")


MACHINE = re.compile(r"Traceback|Errno|\w+Error\b|\.\.(?: |$)|None")
READS = "{file_path: string, offset?: integer, limit?: integer, byte_offset?: integer}"
ALLOWED = "Read, Glob, Grep, transition, complete, MissionUpdate"
INSIDE = ("is outside the workspace", "Paths are relative to the workspace")
STEPS = [
    Mistake("a tool that does not exist", call("open_file", path="price.py"),
            ("There is no tool called open_file", f"Permitted here: {ALLOWED}"),
            ("open_file というツールはありません", f"ここで使えるツール: {ALLOWED}")),
    Fine("a decorated name", call("functions.Read<|channel|>commentary", file_path="docs/a.md"), ("1\ta",)),
    Mistake("arguments that are no JSON", raw("Read", '{"file_path": "price.py", "offset": }'),
            ("not valid JSON: expecting value at column 37", "Send one JSON object", READS)),
    Mistake("arguments that break off", raw("Read", '{"file_path": "price.p'),
            ("breaks off at column 23", "the string that begins at column 15 is not closed", READS)),
    Mistake("an answer that is cut", raw("Write", '{"file_path": "price.py", "content": "x"}', "length"),
            ("cut at the output limit", "nothing in it was executed", "several smaller edits"),
            ("出力上限で途中で切れた", "どれも実行していません", "小さな編集に分ける")),
    Mistake("an argument of the wrong type", call("Read", file_path="price.py", offset="first"),
            ("`$.offset`", "got `str`", READS)),
    Mistake("an argument that is missing", call("Read"), ("missing required field `file_path`", READS)),
    Mistake("an argument that is unknown", call("Read", path="price.py"), ("unknown field `path`", READS)),
    Mistake("a file that does not exist", call("Read", file_path="prices.py"),
            ("`prices.py` does not exist", "There is: `price.py`")),
    Mistake("a folder for a file", call("Read", file_path="docs"),
            ("`docs` is a folder, not a file", "Glob lists what is in it")),
    Mistake("a place after the end", call("Read", file_path="price.py", offset=500),
            ("has only 10 lines", "Give an offset up to 10")),
    Mistake("a path outside", call("Read", file_path="../outside.txt"), INSIDE),
    Mistake("files outside", call("Glob", pattern="/etc/*"), INSIDE),
    Mistake("a secret", call("Read", file_path=".env"),
            ("`.env` has the name of a file that holds secrets", "Go on without it, or ask the person")),
    Mistake("a broken pattern", call("Grep", pattern="with_tax("),
            ("`with_tax(`", "regular expression", "backslash")),
    Mistake("a pattern of several lines", call("Grep", pattern="def\nreturn"),
            ("line by line", "one of the lines")),
    Mistake("a tool this movement does not have", call("Write", file_path="price.py", content="x"),
            ("Write is not permitted in this movement", f"Permitted here: {ALLOWED}"),
            ("Write はこのムーブメントでは使えません", f"ここで使えるツール: {ALLOWED}")),
    Mistake("an announcement without a call", say("I will now mend the file."),
            ("had no tool call, so nothing happened", "call `complete`", "Otherwise go on with a tool call"),
            ("ツール呼び出しがなかったので", "`complete` を呼んで", "ツールを呼んで続けて")),
    Fine("nothing at all", ScriptReply(raw_chunks=(b"data: [DONE]\n\n",)), ()),
    Mistake("a step that does not exist", call("transition", next_step="deploy", summary="x"),
            ("deploy is not a valid next_step here", "Valid: mend"),
            ("deploy はここでは選べません", "選べる next_step: mend")),
    Mistake("a sentinel for a step", call("transition", next_step="COMPLETE", summary="x"),
            ("COMPLETE is not a step", "call `complete` with status success, aborted or needs_user_input"),
            ("COMPLETE はステップではありません", "`complete` を呼んでください")),
    Fine("several at once", both(("transition", {"next_step": "mend", "summary": "It divides."}),
                                 ("transition", {"next_step": "look", "summary": "Again."}),
                                 ("Read", {"file_path": "price.py"})),
         ("## Movement: mend", "It divides."), ("## 現在のステップ: mend", "It divides.")),
    Mistake("an ambiguous edit", edit("    return", "    return 1 +"),
            ("occurs 3 times, at lines 2, 6, 10", "until it is unique, or set replace_all")),
    Mistake("an edit of what is not there", edit("    return price * (100+rate) / 100\n", MENDED),
            ("is not in the file", "white space only", f"2\t{WRONG.rstrip()}")),
    Mistake("line numbers in an edit", edit("    2\t" + WRONG, "    2\t" + MENDED),
            ("old_string holds the line numbers", "leave out each number")),
    Mistake("an edit that changes nothing", edit(WRONG, WRONG),
            ("are the same", "Give in new_string")),
    Mistake("an edit without its other half", call("Edit", file_path="price.py", old_string=WRONG),
            ("missing required field `new_string`", "new_string: string")),
    Fine("a good read", call("Read", file_path="price.py"), (f"2\t{WRONG}",)),
    Mistake("an edit of a file that changed since", edit(WRONG, MENDED),
            ("changed since it was read", "read it again", "/ 100.0"), meanwhile=somebody_edits),
    Fine("the edit", edit(WRONG, MENDED), ("Changed price.py (+1 −1)",), meanwhile=somebody_takes_it_back),
    Mistake("the edit again", edit(WRONG, MENDED),
            ("old_string is not in the file, but new_string is, at line 2", "applied already")),
    Mistake("a whole file that was not read", call("Write", file_path="notes.md", content="New."),
            ("`notes.md` exists and was not read yet", "Read it first", "or Edit the part that changes")),
    Mistake("the same call twice", both(*[("Write", {"file_path": "new.txt", "content": "1\n"})] * 2),
            ("Made new.txt", "Not run: this repeats call 1 of the same reply"),
            ("Made new.txt", "同じ返答の 1 番目の呼び出しと同じ内容")),
    Mistake("a command without end", call("Bash", command="sleep 60", timeout=200),
            ("Stopped after 0.2 s", "give a longer timeout", "background: true")),
    Fine("a command that waits for input", call("Bash", command="cat"), ("(no output)", "exit status 0")),
    Mistake("a command that is empty", call("Bash", command="  "),
            ("command is empty", "Give the command line")),
    Mistake("a command elsewhere", call("Bash", command="cat x", cwd="../.."), INSIDE),
    Mistake("a background command that does not exist", call("BashOutput", id="bash-7"),
            ("no background command `bash-7`", "Bash starts one with background: true")),
    Mistake("a status that does not exist", call("complete", status="done", result="Mended."),
            ("'done'", 'status: "aborted" | "needs_user_input" | "success"')),
    Mistake("an empty result", call("complete", status="success", result=" "),
            ("`result` is empty", "what the person should read"), ("`result` が空です", "人が読む内容")),
    Fine("something after the end", both(("complete", {"status": "success", "result": "Mended."}),
                                         ("Write", {"file_path": "late.txt", "content": "x"})), ()),
]  # fmt: skip


def put_files(workspace: Path) -> None:
    for name, text in (
        ("price.py", PRICE),
        (".env", "KEY=1\n"),
        ("notes.md", "Old.\n"),
        ("docs/a.md", "a\n"),
    ):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text(text, "utf-8")
    (workspace.parent / "outside.txt").write_text("outside\n", "utf-8")


class Clumsy:
    """Takes the steps one after the other, and writes down what it hears after each."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.heard: list[str] = []

    def reply(self, request: ScriptRequest) -> ScriptReply:
        if request.number > 1:
            roles = [message["role"] for message in request.messages]
            last = len(roles) - roles[::-1].index("assistant") if "assistant" in roles else 0
            self.heard.append("\n".join(str(message["content"]) for message in request.messages[last:]))
        step = STEPS[request.number - 1]
        if step.meanwhile is not None:
            step.meanwhile(self.workspace)
        return step.reply


def missing_words(heard: list[str], japanese: bool) -> list[str]:
    """What was not said, with what was said instead."""
    return [
        f"{step.what}: no “{word}” in: {text}"
        for step, text in zip(STEPS, heard, strict=False)
        for word in (step.ja if japanese and step.ja is not None else step.words)
        if word not in text
    ]


@pytest.mark.parametrize("instruction", ["Mend the tax", "税の計算を直してください"])
async def test_each_mistake_is_answered_by_what_would_be_right_and_the_job_succeeds(
    tmp_path: Path, instruction: str
) -> None:
    model = Clumsy(tmp_path / "work")
    async with rig(tmp_path, model, pieces={"two": PIECE}, sandbox="off") as it:
        put_files(it.workspace)
        job = await it.start(instruction, piece="two")
        end = await it.until_rest(job, 30)
        assert (end.status, end.result) == ("succeeded", "Mended."), (end.reason, model.heard[-1:])
        assert len(model.heard) == len(STEPS) - 1
        assert not missing_words(model.heard, instruction != "Mend the tax")
        assert sum(isinstance(step, Mistake) for step in STEPS) >= 20
        assert (it.workspace / "price.py").read_text("utf-8") == PRICE.replace(WRONG, MENDED)
        assert (it.workspace / "new.txt").read_text("utf-8") == "1\n"
        assert (it.workspace / "notes.md").read_text("utf-8") == "Old.\n"
        assert not (it.workspace / "late.txt").exists()
        assert not [text for text in model.heard if MACHINE.search(text)]
