"""Any text from anybody, through the whole engine: nothing raises, the strictest server takes every request,
and what is stored, told or logged is text that UTF-8 can hold.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from engine import to_wire
from engine.core.jobs import JobStatus
from engine.llm.scripted import ScriptReply, ScriptRequest
from tests.engine.rig import Rig, rig
from tests.engine.test_approvals import ONE

PIECE = ONE.replace("[Read, Write, Edit]", "[Read, Glob, Grep, Bash]")
ODD = [
    *[
        "\ud800",
        "\udfff",
        "\ud83d",
        "\udc80",
        "\ud83d\ude00",
        "\x00",
        "\x1b[2J",
        "\x7f",
        "\x85",
        "\r",
        "\r\n",
        "\n",
    ],
    *[
        "\u2028",
        "\u2029",
        "\ufeff",
        "\ufffe",
        "\uffff",
        "\u202e",
        "\u2066",
        "\u200f",
        "\u200b",
        "\u00ad",
        "\u3000",
    ],
    *[
        "日本語",
        "か\u3099",
        "が",
        "ﾊﾟ",
        "葛\U000e0100",
        "👨‍👩‍👧",
        "🇯🇵",
        "e\u0301",
        "a",
        "A.txt",
        "/",
        "..",
        "~",
        "$(x)",
        "`",
        "%s",
    ],
    *[
        "{0}",
        "{name}",
        '"',
        "\\",
        "\\ud800",
        "<tool_call>",
        "</think>",
        "data: [DONE]",
        "## Movement: x",
        "#" * 300,
    ],
]
TEXT = st.lists(st.sampled_from(ODD) | st.text(max_size=2), min_size=1, max_size=5).map("".join)


@dataclass(frozen=True)
class Words:
    """What is said by whom."""

    instruction: str
    thought: str
    path: str
    content: str
    command: str
    tool: str
    question: str
    option: str
    note: str
    answer: str
    comment: str
    result: str


EXAMPLES = 6
strategy = st.builds(Words, *[TEXT] * 12)


def calls(said: Words) -> list[tuple[str, dict[str, Any]]]:
    """Every tool that takes a text, with such a text."""
    return [
        ("Write", {"file_path": said.path, "content": said.content}),
        ("Write", {"file_path": "plain.txt", "content": said.content}),
        ("Read", {"file_path": said.path}),
        ("Read", {"file_path": "plain.txt"}),
        ("Edit", {"file_path": "plain.txt", "old_string": said.path, "new_string": said.content}),
        ("Glob", {"pattern": said.path}),
        ("Grep", {"pattern": said.path, "path": said.path}),
        ("Bash", {"command": f"printf '%s' '{said.command}'", "description": said.option}),
        ("BashOutput", {"id": said.path}),
        ("MissionUpdate", {"goal": said.content}),
        (said.tool, {said.path: said.content}),
        ("transition", {"next_step": said.path, "summary": said.content}),
    ]


def of_schema(tool: Mapping[str, Any], text: str) -> tuple[str, dict[str, Any]]:
    """A call of a tool as it is offered, with this text for every text."""
    function = tool["function"]
    given: dict[str, Any] = {}
    for name, schema in function["parameters"].get("properties", {}).items():
        match schema.get("type"):
            case "string":
                given[name] = schema.get("enum", [text])[0]
            case "array":
                given[name] = [text]
    return function["name"], given


def spoken(text: str, *made: tuple[str, dict[str, Any]]) -> ScriptReply:
    """A whole reply with everything escaped, so that halves of characters get through."""
    tool_calls = [
        {"id": "same", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for name, arguments in made
    ]
    message = {"role": "assistant", "content": text, "reasoning_content": text, "tool_calls": tool_calls}
    body = {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
    return ScriptReply(raw_chunks=(json.dumps(body).encode(),), content_type="application/json")


class Speaker:
    """Calls everything, asks, and ends, with such texts; stateless but for the job's beginning."""

    def __init__(self, said: Words) -> None:
        self.said = said

    def reply(self, request: ScriptRequest) -> ScriptReply:
        said, turn = self.said, request.turn
        end = ("complete", {"status": "success", "result": f"Done. {said.result}"})
        if turn == 0:
            offered = [of_schema(tool, said.path) for tool in request.tools]
            offered = [one for one in offered if one[0] not in ("complete", "transition")]
            return spoken(said.thought, *calls(said), *offered)
        if turn == 1 and not request.contains("The person answered"):
            ask = {
                "status": "needs_user_input",
                "result": f"Which? {said.question}",
                "options": [said.option, "b"],
            }
            return spoken(said.thought, ("complete", ask))
        return spoken(said.thought, end)


async def settle(it: Rig, job: str, said: Words) -> None:
    """Answers what is asked until the job ends, which must be well."""
    while True:
        detail = await it.until_rest(job)
        if not detail.open_requests:
            assert detail.status == JobStatus.SUCCEEDED, (detail.reason, detail.result)
            return
        request = await it.client.request(detail.open_requests[0])
        text(request)
        if request.reason == "question":
            await it.client.answer(job, f"It is {said.answer}", request.request_id)
        else:
            await it.client.decide(request.request_id, "deny", note=said.note)
        open_now = set(detail.open_requests)
        await it.until(job, lambda now, open_now=open_now: not open_now & set(now.open_requests))  # type: ignore[misc]


def text(value: Any) -> None:
    """Fails unless the value can be told to a client."""
    json.dumps(to_wire(value) if not isinstance(value, list | dict) else value, ensure_ascii=False).encode()


def stored(database: Path) -> Iterator[tuple[str, bytes]]:
    """Every text and blob of the store, as its bytes."""
    db = sqlite3.connect(database)
    db.text_factory = bytes
    try:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            name = table.decode()
            for row in db.execute(f'SELECT * FROM "{name}"'):
                yield from ((name, value) for value in row if isinstance(value, bytes))
    finally:
        db.close()


class Listener(logging.Handler):
    """Keeps what is logged, as it would be written."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[bytes] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record).encode())


async def live_through(folder: Path, said: Words) -> None:
    async with rig(folder, Speaker(said), pieces={"one": PIECE}, sandbox="off") as it:
        (it.workspace / "plain.txt").write_text("plain\n", "utf-8")
        job = await it.start(f"Do {said.instruction}", piece="one")
        await settle(it, job, said)
        detail = await it.client.show(job)
        follow_up = await it.client.comment(detail.task_id, f"And {said.comment}")
        assert follow_up is not None
        await settle(it, follow_up, said)
        text(await it.client.show(job))
        text(await it.client.events(job))
        text(it.live)
        assert len(it.server.requests) >= 5, "a request was left out"
    for table, value in stored(folder / "state" / "store.db"):
        if table != "snapshots":
            value.decode()
    for name in (os.fsencode(path) for path in folder.rglob("*")):
        name.decode()


def check(said: Words) -> None:
    """A job in which all this is said."""
    listener, log = Listener(), logging.getLogger("engine")
    log.addHandler(listener)
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(live_through(Path(folder), said))
    finally:
        log.removeHandler(listener)
