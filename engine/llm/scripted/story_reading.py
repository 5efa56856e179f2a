"""What the story reads in a request: the guidance, pages of files, test output, a person's word on rounding.

Pure functions of the request's text. Nothing is remembered between requests, so a conversation that was
restored, or that another server began, reads the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from engine.llm.scripted.script import ScriptRequest, ScriptResult, text_of

Language = Literal["en", "ja"]

_TASK = re.compile(r"^## (?:Task|タスク)\n", re.MULTILINE)
_GUIDANCE = re.compile(r"\n\n## (?:Movement|現在のステップ): ")
_ROOT = re.compile(r"^(?:Root|ルート): (.*)$", re.MULTILINE)
_ANSWER = re.compile(
    r"^(?:You asked|あなたの質問): (?P<question>[\s\S]*?)\n"
    r"(?:The person answered|人の回答): (?P<answer>[\s\S]*)",
    re.MULTILINE,
)
_DECLINED = re.compile(
    r"^(?:The person declined this call(?:\.| and says: )|人がこの呼び出しを却下しました。(?:メモ: )?)"
    r"(?P<note>[\s\S]*)"
)
_GOES_ON = re.compile(r"Read with (?P<how>offset|byte_offset)=(?P<at>\d+) goes on")
_NUMBERED = re.compile(r"^ *(\d+)\t(.*)$", re.MULTILINE)
_PATH = re.compile(r"^(?:- )?(?P<path>[^\s\[\]:][^\[\]:\n]*\.\w{1,5})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Scene:
    """A movement as its guidance tells it, and what happened in it so far. In a conversation that went on
    from another movement, ``guidance`` begins with what that one was told and handed on.
    """

    movement: str
    language: Language
    instruction: str
    guidance: str
    results: tuple[ScriptResult, ...]
    root: str = ""
    question: str = ""
    answer: str = ""

    def of(self, *names: str) -> list[ScriptResult]:
        """The results of these tools, in order."""
        return [result for result in self.results if result.name in names]


def scene_of(request: ScriptRequest) -> Scene | None:
    """The scene of a request; None if no message of it tells a movement."""
    found = request.find_movement()
    if found is None:
        return None
    index, movement = found
    text = text_of(request.messages[index])
    language: Language = "ja" if f"## 現在のステップ: {movement}" in text else "en"
    head = "## 現在のステップ: " if language == "ja" else "## Movement: "
    before, _, guidance = text.rpartition(head)
    if not _TASK.search(before):
        before = _earlier(request)
    answered = _ANSWER.search(guidance)
    ids = {call.get("id") for m in request.messages[index:] for call in m.get("tool_calls") or ()}
    return Scene(
        movement=movement,
        language=language,
        instruction=_TASK.split(before)[-1].strip(),
        guidance=_handed_on(request, index) + guidance,
        results=tuple(result for result in request.results() if result.call_id in ids),
        root=root[1] if (root := _ROOT.search(before)) else "",
        question=answered["question"].strip() if answered else "",
        answer=answered["answer"].strip() if answered else "",
    )


def _handed_on(request: ScriptRequest, index: int) -> str:
    """What the movements before in the same conversation were told and said; empty at its opening."""
    before = request.messages[:index]
    told = [_GUIDANCE.split(text_of(message))[-1] for message in before if message.get("role") == "user"]
    ids = {call.get("id") for message in before for call in message.get("tool_calls") or ()}
    hops = [result.arguments for result in request.results("transition") if result.call_id in ids]
    said = [str(hop[key]) for hop in hops for key in ("summary", "lessons") if hop.get(key)]
    return "".join(f"{text}\n" for text in (*told, *said))


def _earlier(request: ScriptRequest) -> str:
    """The user message that holds the task, where the guidance came later in the same conversation."""
    texts = [text_of(message) for message in request.messages if message.get("role") == "user"]
    return next(
        (_GUIDANCE.split(text)[0] for text in texts if _TASK.search(text)),
        "",
    )


def note_of(result: ScriptResult) -> str | None:
    """The note with which the person declined the call ("" without one); None if it was not declined."""
    found = _DECLINED.match(result.text)
    return found["note"].strip() if found else None


# --- files ----------------------------------------------------------------------------------------------


def paths_in(text: str) -> list[str]:
    """The file names of a listing, one a line."""
    return [found["path"].strip().removeprefix("./") for found in _PATH.finditer(text)]


@dataclass(slots=True)
class View:
    """A file as the conversation shows it: its lines by number, where reading goes on, what edits came to.

    ``lines`` is None before it was read, and after an edit whose outcome the conversation does not tell.
    """

    lines: dict[int, str] | None = None
    onward: tuple[str, int] | None = None
    missing: bool = False
    changed: bool = False
    tries: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text as far as it is known."""
        return "".join(f"{line}\n" for _, line in sorted((self.lines or {}).items()))


def view_of(path: str, results: Sequence[ScriptResult]) -> View:
    """What the results tell of a file, in order: pages read, edits carried out, edits declined."""
    view = View()
    for result in results:
        if result.arguments.get("file_path") != path:
            continue
        match result.name:
            case "Read":
                _read(view, result)
            case "Edit":
                _edited(view, result)
    return view


def _read(view: View, result: ScriptResult) -> None:
    lines = {int(number): text for number, text in _NUMBERED.findall(result.text)}
    view.missing = not lines
    fresh = view.lines is None or not result.arguments.get("offset")
    view.lines = lines if fresh else {**(view.lines or {}), **lines}
    found = _GOES_ON.search(result.text)
    view.onward = (found["how"], int(found["at"])) if found else None


def _edited(view: View, result: ScriptResult) -> None:
    view.tries += 1
    note = note_of(result)
    if note is not None:
        view.notes.append(note)
    elif result.text.startswith("Changed ") and view.lines is not None:
        old, new = str(result.arguments.get("old_string")), str(result.arguments.get("new_string"))
        changed = view.text.replace(old, new, 1).splitlines()
        view.lines = dict(enumerate(changed, 1))
        view.changed = True
    else:
        view.lines = None


# --- tests ----------------------------------------------------------------------------------------------

_RAN = re.compile(r"^Ran (\d+) tests? in .*$", re.MULTILINE)
_PYTEST = re.compile(r"^=*\s*((?:\d+ (?:passed|failed|errors?)(?:, )?)+.*?)=*$", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAIL|ERROR|FAILED):? (?P<name>\S+)", re.MULTILINE)
_RAISED = re.compile(r"^(?:E\s+)?(?P<line>\w*(?:Error|Exception)\b.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TestRun:
    """The outcome of a test command, in the output's own words."""

    __test__ = False

    passed: bool
    outcome: str
    failing: str = ""
    raised: str = ""


def test_run(output: str) -> TestRun | None:
    """What a test command came to; None where its output tells no end (cut off, refused, or no test)."""
    ran, pytest = _RAN.search(output), _PYTEST.search(output)
    if ran:
        last = [line.strip() for line in output[ran.end() :].splitlines() if re.match(r"(OK|FAILED)\b", line)]
        if not last:
            return None
        outcome, passed = f"{ran[0]}, {last[0]}", last[0].startswith("OK") and ran[1] != "0"
    elif pytest:
        outcome, passed = pytest[1].strip(), "failed" not in pytest[1] and "error" not in pytest[1]
    else:
        return None
    failing, raised = _FAILED.search(output), _RAISED.search(output)
    if passed:
        return TestRun(True, outcome)
    return TestRun(
        False, outcome, failing["name"] if failing else "", raised["line"].strip() if raised else ""
    )


# --- rounding -------------------------------------------------------------------------------------------


class Rounding(StrEnum):
    """What becomes of a fraction."""

    UP = "up"
    DOWN = "down"
    HALF = "half"


_WORDS = (
    (Rounding.HALF, re.compile(r"half|nearest|四捨五入|round off", re.IGNORECASE)),
    (Rounding.DOWN, re.compile(r"\bdown\b|floor|切り?捨て|切捨", re.IGNORECASE)),
    (Rounding.UP, re.compile(r"\bup\b|ceil|切り?上げ|切上", re.IGNORECASE)),
)


def rounding_in(text: str) -> Rounding | None:
    """How a person wants a fraction rounded; None where the words do not say."""
    return next((kind for kind, words in _WORDS if words.search(text)), None)


_RETURN = re.compile(r"^(?P<indent> +)return (?P<expr>.+?) (?P<divide>//?) (?P<by>\d+)$")
_ADDED = re.compile(r"^\((?P<base>.+) \+ (?P<added>\d+)\)$")


@dataclass(frozen=True, slots=True)
class Division:
    """A line that returns something divided by a whole number, and how it rounds (None: not at all)."""

    number: int
    line: str
    indent: str
    base: str
    by: int
    rounding: Rounding | None

    def rounded(self, rounding: Rounding) -> str:
        """The line with this rounding, in whole numbers, so that it is exact."""
        added = {Rounding.DOWN: 0, Rounding.HALF: self.by // 2, Rounding.UP: self.by - 1}[rounding]
        expr = f"({self.base} + {added})" if added else self.base
        return f"{self.indent}return {expr} // {self.by}"


def divisions(lines: dict[int, str]) -> Iterator[Division]:
    """Every such line of a file, in order."""
    for number, line in sorted(lines.items()):
        if found := _RETURN.match(line):
            by, whole = int(found["by"]), found["divide"] == "//"
            added = _ADDED.match(found["expr"]) if whole else None
            kinds = {by // 2: Rounding.HALF, by - 1: Rounding.UP}
            kind = kinds.get(int(added["added"]), Rounding.DOWN) if added else Rounding.DOWN
            base = added["base"] if added else found["expr"]
            yield Division(number, line, found["indent"], base, by, kind if whole else None)


_MEASURED = re.compile(r"(?P<call>(?P<name>\w+)\([\d, ]+\)) is (?P<amount>\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Measured:
    """A call that the tests saw return a fraction, as their output words it."""

    call: str
    amount: float

    def rounded(self, rounding: Rounding) -> int:
        """The amount as a whole number."""
        whole = int(self.amount)
        up = {
            Rounding.DOWN: False,
            Rounding.UP: self.amount > whole,
            Rounding.HALF: self.amount - whole >= 0.5,
        }
        return whole + up[rounding]


def measured_in(text: str) -> Measured | None:
    """The last such call that a text tells of."""
    found = list(_MEASURED.finditer(text))
    return Measured(found[-1]["call"], float(found[-1]["amount"])) if found else None
