"""How a story of a shipped piece is told: played with a person who answers, and read afterwards.

Each story is told twice, in English and in Japanese: instruction, files, comments, answers and what the model
says are of one language, and so must be every word of the engine's own in its prompts.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.catalog import prompts
from engine.core.jobs import ENDED, JobStatus
from engine.core.views import JobDetail, Request
from engine.llm.scripted import ScriptReply, ScriptRequest, call
from tests.engine.rig import Rig

LANGUAGES = ("en", "ja")
in_both_languages = pytest.mark.parametrize("language", LANGUAGES)
WITHIN_S = 30.0
LISTED_RUN_UNASKED = {"sandbox": "off"}
"""Commands that the piece lists run without a question, as in a sandbox."""

Call = tuple[str, dict[str, Any]]
"""A call of a tool: its name and arguments."""

Judge = Callable[[Request], str | None]
"""What the person says to an approval: None allows, a text declines with that note."""


def allow(_: Request) -> None:
    """A person who allows everything."""


async def play(
    it: Rig,
    instruction: str,
    piece: str,
    *answers: str,
    judge: Judge = allow,
    seen: list[Request] | None = None,
) -> JobDetail:
    """Start a task, answer its questions in order (its subtasks' too), judge what it asks for; how it ended.

    ``seen`` gets each request as the person saw it.
    """
    waiting = list(answers)
    job_id = await it.start(instruction, piece=piece)
    while True:
        detail = await it.until(
            job_id, lambda d: bool(d.open_requests) or JobStatus(d.status) in ENDED, WITHIN_S
        )
        if not detail.open_requests:
            assert waiting == [], "the person was not asked as often as expected"
            return detail
        request = await it.client.request(detail.open_requests[0])
        if seen is not None:
            seen.append(request)
        if request.reason == "question":
            await it.client.answer(request.job_id, waiting.pop(0))
        else:
            note = judge(request)
            await it.client.decide(request.request_id, "allow" if note is None else "deny", note=note or "")
        asked = request.request_id
        await it.until(job_id, lambda d, asked=asked: asked not in d.open_requests, WITHIN_S)


def heading(language: str, key: str, **values: object) -> str:
    """A heading of the guidance in a language, as the model is sent it."""
    return prompts(language)(f"{key}.heading", **values)


def openings(it: Rig, language: str, movement: str) -> list[str]:
    """The user message that opens each stay in a movement, in order."""
    line = f"{heading(language, 'movement', name=movement)}\n"
    last = [body["messages"][-1] for body in it.bodies()]
    return [m["content"] for m in last if m["role"] == "user" and line in m["content"]]


def section(prompt: str, title: str) -> str:
    """The text below a heading, up to the next one; empty without it."""
    return re.split(r"\n## ", prompt.partition(f"{title}\n")[2])[0].strip()


def told(request: ScriptRequest, language: str, key: str, **values: object) -> str:
    """A section of the guidance that a scripted model works by."""
    return section(request.last_user, heading(language, key, **values))


def items(checklist: str, name: str) -> list[str]:
    """The items of a checklist, as the guidance shows them."""
    block = re.search(rf"^{re.escape(name)} \(\d+/\d+\)\n((?:\d+\. .*\n?)+)", checklist, re.MULTILINE)
    return re.findall(r"^\d+\. \[[ x]\] (.*)$", block[1], re.MULTILINE) if block else []


def checked(checklist: str, name: str) -> str:
    """How much of a checklist is checked off, e.g. ``2/3``; empty if there is none of the name."""
    found = re.search(rf"^{re.escape(name)} \((\d+/\d+)\)$", checklist, re.MULTILINE)
    return found[1] if found else ""


def hop(next_step: str, summary: str, lessons: str = "") -> ScriptReply:
    """A reply that moves on."""
    more = {"lessons": lessons} if lessons else {}
    return call("transition", next_step=next_step, summary=summary, **more)


def success(result: str) -> ScriptReply:
    """A reply that ends the job well."""
    return call("complete", status="success", result=result)


def several(*calls: Call) -> ScriptReply:
    """A reply of several calls."""
    return ScriptReply(calls=calls)


def listing(name: str, entries: list[str]) -> Call:
    """The call that makes a checklist."""
    return "Checklist", {"action": "create", "name": name, "items": entries}


def tick(name: str, item: str) -> Call:
    """The call that checks an item off."""
    return "Checklist", {"action": "check", "name": name, "item": item}


def assert_one_language(it: Rig, language: str) -> None:
    """The system text is of the language, and no heading of another one stands in anything that was sent."""
    others = [prompts(name).table for name in LANGUAGES if name != language]
    foreign = [text for table in others for key, text in table.items() if key.endswith(".heading")]
    patterns = re.compile("|".join(re.sub(r"\\{\w+\\}", ".+", re.escape(text)) for text in foreign))
    for body in it.bodies():
        said = [str(m.get("content")) for m in body["messages"] if m["role"] != "tool"]
        assert prompts(language).table["system"] in said[0]
        assert [line for text in said for line in text.splitlines() if patterns.fullmatch(line)] == []


async def calls(it: Rig, job_id: str, tool: str) -> list[dict[str, Any]]:
    """The arguments of a tool's calls, in order."""
    events = await it.client.events(job_id)
    return [event["arguments"] for event in events if event["kind"] == "tool_call" and event["tool"] == tool]


def stays(detail: JobDetail) -> list[str]:
    """The movements of the job, in order."""
    return [movement.name for movement in detail.movements]


def goes_on(it: Rig, language: str, movement: str) -> bool:
    """Whether the first stay in a movement goes on in the conversation of the one before."""
    line = f"{heading(language, 'movement', name=movement)}\n"
    for body in it.bodies():
        message = body["messages"][-1]
        if message["role"] == "user" and line in message["content"]:
            return len(body["messages"]) > 2
    raise AssertionError(f"{movement} was never entered")


def put(workspace: Path, files: dict[str, str]) -> None:
    """Write files into the workspace."""
    for name, text in files.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def git(workspace: Path, *arguments: str) -> str:
    """Run git in the workspace; its output."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.quotePath=false")
    argv = ["git", *identity, *arguments]
    return subprocess.run(
        argv, cwd=workspace, capture_output=True, timeout=30, check=True, encoding="utf-8"
    ).stdout


def commit(workspace: Path, files: dict[str, str], message: str) -> None:
    """Make the workspace a git repository with one commit of these files."""
    put(workspace, files)
    (workspace / ".gitignore").write_text(".maestro/\n__pycache__/\n", "utf-8")
    git(workspace, "init", "-q", "-b", "main")
    git(workspace, "add", *files, ".gitignore")
    git(workspace, "commit", "-q", "-m", message)


def files_of(workspace: Path) -> dict[str, str]:
    """Every file of the workspace but for what the engine and git keep in it."""
    return {
        str(path.relative_to(workspace)): path.read_text("utf-8")
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and not {".maestro", ".git", "__pycache__"} & set(path.relative_to(workspace).parts)
    }
