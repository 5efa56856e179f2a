"""Questions and approvals at the prompt of `run`, and how to answer them later from anywhere."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from engine import Request
from maestro_lsp.cli.diffs import show_diff
from maestro_lsp.cli.terminal import Terminal, clean
from maestro_lsp.display import action, clip, exact, lines

RULE_LIMIT = 120
"""Characters of a rule in a choice; a longer one is told once, above the choices."""

ReadLine = Callable[[], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The person's words to a question."""

    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The person's decision on a request."""

    decision: str
    scope: str = "once"
    note: str = ""


def title_of(request: Request, terminal: Terminal) -> str:
    """What the request is about, in the person's language."""
    if request.title_key:
        return exact(terminal.text(request.title_key, **request.title_values))
    return clean(request.title) if request.reason == "question" else exact(request.title)


def why_of(request: Request, terminal: Terminal) -> str:
    """Why it is asked, in the person's language."""
    if request.why_key:
        return terminal.text(request.why_key, **request.why_values)
    return clean(request.why)


def rule_of(request: Request, terminal: Terminal) -> str | None:
    """What "always" would store, in the person's language; None if it would store nothing."""
    if request.rule_key:
        return clean(terminal.text(request.rule_key, **request.rule_values))
    return clean(request.rule) if request.rule else None


def show_request(request: Request, terminal: Terminal, workspace: Path) -> None:
    """Print everything a person must know to decide: what, why, the exact change."""
    where = " · ".join(filter(None, (request.piece, request.movement)))
    terminal.line()
    terminal.line(terminal.styled(f"? {title_of(request, terminal)}", "bold", "yellow"))
    if why := why_of(request, terminal):
        terminal.line(terminal.styled(f"  {why}{f'  ({where})' if where else ''}", "dim"))
    show_action(request, terminal, workspace)


def show_action(request: Request, terminal: Terminal, workspace: Path) -> None:
    """Print what the title has no room for: a long command to its end, the model's words, the diffs."""
    if (whole := action(request)) != request.title:
        terminal.line(f"  {lines(whole)}")
    if request.detail.strip():
        terminal.line(lines(request.detail))
    for diff in request.diff or ():
        show_diff(terminal, path_of(diff.uri, workspace), diff.before, diff.after)


def path_of(uri: str, workspace: Path) -> str:
    """A file URI as a path in the workspace."""
    path = url2pathname(unquote(urlsplit(uri).path)) if uri.startswith("file:") else uri
    return path.removeprefix(f"{workspace}{os.sep}")


async def ask(
    request: Request, terminal: Terminal, workspace: Path, read: ReadLine
) -> Answer | Decision | None:
    """Ask until there is an answer. None: the input ended, nothing is decided. Enter alone decides
    nothing.
    """
    show_request(request, terminal, workspace)
    if request.reason == "question":
        return await _question(request, terminal, read)
    choices = _choices(request, terminal)
    if len(rule := rule_of(request, terminal) or "") > RULE_LIMIT:
        terminal.say("cli.ask.rule", rule=rule)
    while True:
        for number, (label, _) in enumerate(choices, 1):
            terminal.line(f"  {number}  {label}")
        terminal.part(terminal.text("cli.ask.choose"))
        line = await read()
        if line is None:
            return None
        chosen = _chosen(line, choices)
        if chosen is None:
            terminal.say("cli.ask.not_understood" if line.strip() else "cli.ask.nothing_decided")
        elif chosen.decision == "deny" and not chosen.note and _takes_note(request):
            terminal.part(terminal.text("cli.ask.note"))
            note = await read()
            return None if note is None else Decision("deny", note=note.strip())
        else:
            return chosen


async def _question(request: Request, terminal: Terminal, read: ReadLine) -> Answer | None:
    options = request.options or []
    for number, option in enumerate(options, 1):
        terminal.line(f"  {number}  {clean(option)}")
    while True:
        terminal.part(terminal.text("cli.ask.answer_or_number" if options else "cli.ask.answer"))
        line = await read()
        if line is None:
            return None
        text = line.strip()
        if text.isascii() and text.isdigit() and 1 <= int(text) <= len(options):
            return Answer(options[int(text) - 1])
        if text:
            return Answer(text)
        terminal.say("cli.ask.nothing_decided")


def _choices(request: Request, terminal: Terminal) -> list[tuple[str, Decision]]:
    if request.reason != "approval" and request.rule is None:
        pair = request.reason if request.reason in ("browser_login", "captcha") else "go_on"
        pair = pair if not request.reason.endswith("_request") else "request"
        return [
            (terminal.text(f"cli.ask.{pair}_allow"), Decision("allow")),
            (terminal.text(f"cli.ask.{pair}_deny"), Decision("deny")),
        ]
    here = request.reason == "tool_request"
    choices = [(terminal.text("cli.ask.once_here" if here else "cli.ask.once"), Decision("allow"))]
    if (rule := rule_of(request, terminal)) is not None:
        rule = clip(rule, RULE_LIMIT)
        choices += [
            (terminal.text("cli.ask.task", rule=rule), Decision("allow", "task")),
            (terminal.text("cli.ask.always", rule=rule), Decision("allow", "always")),
        ]
    return [*choices, (terminal.text("cli.ask.deny"), Decision("deny"))]


def _takes_note(request: Request) -> bool:
    """Whether a denial goes back to the model, with a note."""
    return request.reason == "approval" or request.reason.endswith("_request")


def _chosen(line: str, choices: list[tuple[str, Decision]]) -> Decision | None:
    """A number of the list, ``allow``, or ``deny`` with or without a note behind it."""
    word, _, note = line.strip().partition(" ")
    if word.isascii() and word.isdigit() and 1 <= int(word) <= len(choices):
        chosen = choices[int(word) - 1][1]
        return Decision("deny", note=note.strip()) if chosen.decision == "deny" else None if note else chosen
    match word.lower().rstrip(":"):
        case "allow" | "a" if not note:
            return choices[0][1]
        case "deny" | "d":
            return Decision("deny", note=note.strip())
        case _:
            return None


def command_to_settle(request: Request, terminal: Terminal) -> str:
    """The exact command that settles a request from another terminal."""
    if request.reason == "question":
        option = shlex.quote((request.options or [terminal.text("cli.your_answer")])[0])
        return f"maestro-lsp answer {request.job_id} {option}"
    return f"maestro-lsp decide {request.request_id} allow|deny"
