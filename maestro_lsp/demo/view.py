"""What the demo shows of a job: events to rows of styled text. Pure; a `Screen` prints the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine import graphemes
from maestro_lsp.cli.diffs import diff_lines
from maestro_lsp.cli.terminal import clean, width
from maestro_lsp.display import exact

Span = tuple[str, str]
"""A text and its styles, separated by spaces."""

Row = tuple[Span, ...]
Say = Callable[..., str]
Event = Mapping[str, Any]

INDENT = "  "
_GUTTER = "│ "
_RULE = "─"
_DIFF_STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
_SILENT_CALLS = frozenset({"transition", "complete"})


def row(*spans: Span | str) -> Row:
    """A row; a bare text has no style."""
    return tuple((span, "") if isinstance(span, str) else span for span in spans)


def heading(text: str, columns: int, style: str = "bold") -> Row:
    """A text in a line across the screen."""
    shown = cut(text, columns - 8)
    rest = max(0, columns - width(shown) - 4)
    return row((f"{_RULE * 2} ", "dim"), (shown, style), (f" {_RULE * rest}", "dim"))


def cut(text: str, columns: int) -> str:
    """A line as it is, cut with ``…`` where it is wider than ``columns``."""
    text = clean(text).expandtabs(4).replace("\n", " ").rstrip()
    if width(text) <= columns:
        return text
    used, kept = 0, ""
    for character in graphemes(text):
        used += width(character)
        if used > columns - 1:
            break
        kept += character
    return f"{kept}…"


def wrapped(text: str, columns: int, style: str = "", indent: str = INDENT) -> list[Row]:
    """Prose as rows, broken between words, and anywhere between East Asian characters."""
    rows = []
    for paragraph in clean(text).splitlines() or [""]:
        room = max(10, columns - width(indent))
        rows += [row(indent, (line, style)) if line else () for line in _broken(paragraph, room)]
    return rows


STICKS = frozenset("、。，．）」』】！？：；・ー”’…,.)]}!?:;ぁぃぅぇぉっゃゅょァィゥェォッャュョ")
"""What no line begins with."""


def _broken(text: str, room: int) -> list[str]:
    lines, line = [], ""
    for piece in _pieces(text):
        if line and width((line + piece).rstrip()) > room:
            lines.append(line.rstrip())
            line = piece.lstrip()
        else:
            line += piece
        while width(line.rstrip()) > room:
            kept = cut(line, room + 1).removesuffix("…") or next(graphemes(line))
            lines.append(kept)
            line = line[len(kept) :]
    return [*lines, line.rstrip()]


def _pieces(text: str) -> Iterable[str]:
    """The text in pieces that stay whole: words with the space after them, single wide characters."""
    piece = last = ""
    for character in graphemes(text):
        wide = width(character) >= 2
        if (
            piece
            and character not in STICKS
            and character != " "
            and (last == " " or wide or width(last) >= 2)
        ):
            yield piece
            piece = ""
        piece += character
        last = character
    if piece:
        yield piece


def diff_rows(path: str, before: str | None, after: str | None, columns: int) -> list[Row]:
    """A unified diff in colours, nothing of it hidden: long lines go on in the next row."""
    rows: list[Row] = []
    for line in diff_lines(path, before, after):
        style = next((style for mark, style in _DIFF_STYLES if line.startswith(mark)), "")
        room = max(20, columns - len(INDENT))
        first, *rest = _cut(line, room)
        rows.append(row(INDENT, (first, style)))
        rows += [row(INDENT, (f" {part}", style)) for part in rest]
    return rows


def _cut(line: str, room: int) -> list[str]:
    parts, part, used = [], "", 0
    for character in graphemes(line.expandtabs(4)):
        if used + width(character) > room - 1 and used:
            parts.append(part)
            part, used = "", 0
        part += character
        used += width(character)
    return [*parts, part]


@dataclass(slots=True)
class View:
    """The rows of one job's events. It remembers the titles of calls, and output whose line is not ended."""

    say: Say
    columns: int
    titles: dict[str, tuple[str, str]] = field(default_factory=dict)
    unfinished: str = ""
    transitions: list[tuple[str, float]] = field(default_factory=list)
    left: str | None = None

    def rows(self, event: Event) -> list[Row]:
        """The rows that an event adds; streamed text is not among them."""
        kind = str(event["kind"])
        if kind == "tool_output":
            return self._output(str(event["delta"]))
        show: dict[str, Callable[[Event], list[Row]]] = {
            "movement": self._movement,
            "tool_call": self._call,
            "tool_result": self._result,
            "transition": self._transition,
            "status": self._status,
            "decision": self._decision,
            "cache": self._cache,
            "error": self._error,
        }
        return show[kind](event) if kind in show else []

    def _movement(self, event: Event) -> list[Row]:
        name = str(event["name"])
        self.left = f"{self.left} → {name}" if self.left else None
        visit = event.get("visit", 1)
        again = f" · {self.say('demo.again', visit=visit)}" if visit > 1 else ""
        return [(), heading(name + again, self.columns)]

    def _call(self, event: Event) -> list[Row]:
        tool, title = str(event["tool"]), _one_line(event["title"])
        self.titles[str(event["callId"])] = (tool, title)
        self.unfinished = ""
        if tool != "Bash":
            return []
        command = _one_line(event.get("arguments", {}).get("command", title))
        return [row(INDENT, ("$ ", "cyan"), (cut(command, self.columns - 4), "cyan bold"))]

    def _output(self, delta: str) -> list[Row]:
        *lines, self.unfinished = (self.unfinished + clean(delta)).split("\n")
        return [self._output_row(line) for line in lines]

    def interrupted(self) -> list[Row]:
        """The output whose line was never ended, as it stood."""
        rows = [self._output_row(self.unfinished)] if self.unfinished else []
        self.unfinished = ""
        return rows

    def _output_row(self, line: str) -> Row:
        room = self.columns - len(INDENT) - len(_GUTTER)
        return row(INDENT, (f"{_GUTTER}{cut(line, room)}".rstrip(), "dim"))

    def _result(self, event: Event) -> list[Row]:
        tool, title = self.titles.get(str(event["callId"]), ("", ""))
        if tool in _SILENT_CALLS:
            return []
        rows = self.interrupted()
        mark: Span = ("✓ ", "green") if event["ok"] else ("✗ ", "red")
        seconds = float(event.get("seconds") or 0)
        took = f"  {seconds:.1f} s" if tool == "Bash" and seconds else ""
        brief = _one_line(event["brief"])
        if tool == "Bash":
            return [*rows, row(INDENT, mark, (brief, ""), (took, "dim"))]
        return [*rows, row(INDENT, mark, *_told(title, brief, self.columns - 4))]

    def _transition(self, event: Event) -> list[Row]:
        self.left = str(event["from"])
        rows = [row(INDENT, (f"→ {event['to']}", "cyan bold"))]
        for line in wrapped(str(event.get("summary", "")), self.columns, "dim", INDENT * 2):
            rows.append(line)
        if lessons := event.get("lessons"):
            rows += wrapped(f"{self.say('demo.lesson')}: {lessons}", self.columns, "dim", INDENT * 2)
        return rows

    def _status(self, event: Event) -> list[Row]:
        if event["to"] == "queued" and event.get("reason") == "recovered":
            first, *rest = wrapped(self.say("demo.recovered"), self.columns - 2, indent="")
            return [row(INDENT, ("↻ ", "cyan bold"), *first), *(row(INDENT * 2, *line) for line in rest)]
        if event["to"] == "waiting_human" and event.get("waitReason") == "question":
            return wrapped(self.say("demo.parked"), self.columns, "dim")
        return []

    def _decision(self, event: Event) -> list[Row]:
        note = f": {_one_line(event['note'])}" if event.get("note") else ""
        said = self.say(
            f"demo.decision.{event['decision']}", scope=self.say(f"demo.scope.{event.get('scope') or 'once'}")
        )
        return wrapped(f"{said}{note}", self.columns, "dim")

    def _cache(self, event: Event) -> list[Row]:
        pct = float(event["pct"])
        self.transitions.append((self.left or self.say("demo.after_answer"), pct))
        self.left = None
        told = self.say(
            "demo.cache", pct=f"{pct:g}", reused=f"{event['reused']:,}", total=f"{event['total']:,}"
        )
        return wrapped(told, self.columns, "dim")

    def _error(self, event: Event) -> list[Row]:
        return wrapped(f"! {event['message']}", self.columns, "red")


def _told(title: str, brief: str, room: int) -> Sequence[Span]:
    """A call and what it came to, which often begins alike: said once."""
    subject = title.partition(" ")[2].partition(" (")[0]
    rest = brief.removeprefix(subject).lstrip(" ,:")
    shown = cut(title, room)
    left = room - width(shown) - 2
    if not rest or left < 8 or rest in title:
        return ((shown, ""),)
    return ((shown, ""), (f"  {cut(rest, left)}", "dim"))


def _one_line(value: object) -> str:
    return exact(str(value)) if str(value).isprintable() else " ".join(clean(str(value)).split())


def costs(usage: Mapping[str, Any], seconds: float, asked: int, say: Say) -> str:
    """What a job cost, in one sentence."""
    reused = usage.get("reusedPct")
    return say(
        "demo.cost",
        calls=usage["calls"],
        prompt=f"{usage['promptTokens']:,}",
        completion=f"{usage['completionTokens']:,}",
        pct=f"{reused:g}" if reused is not None else "–",
        asked=asked,
        seconds=f"{seconds:.0f}",
    )


def share_rows(transitions: Sequence[tuple[str, float]], say: Say) -> list[Row]:
    """The cached share right after each transition, as a small table."""
    widest = max((width(where) for where, _ in transitions), default=0)
    rows = [row(INDENT, say("demo.shares"))] if transitions else []
    for where, pct in transitions:
        space = " " * (widest - width(where) + 2)
        rows.append(row(INDENT * 2, where, space, (f"{pct:5.1f} %", "bold")))
    return rows


def fact_rows(facts: Sequence[tuple[str, str]], columns: int) -> list[Row]:
    """Names with what they stand for, as a table; what is too long for its row goes on below."""
    widest = max(width(name) for name, _ in facts) + 2
    rows: list[Row] = []
    for name, text in facts:
        first, *rest = wrapped(text, columns - len(INDENT) - widest, indent="")
        rows.append(row(INDENT, (f"{name}{' ' * (widest - width(name))}", "dim"), *first))
        rows += [row(INDENT, " " * widest, *line) for line in rest]
    return rows
