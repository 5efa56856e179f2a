"""A job that the context limit ended, as the command line tells it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from tests.cli.harness import Cli

PIECE = """
name: full
description: a movement that fills its context
max_movements: 3
initial_movement: work
movements:
  - name: work
    edit: true
    persona: You work.
    instruction: Work.
    allowed_tools: [Read, Write]
    rules: []
    default_next: COMPLETE
"""


def fills(request: ScriptRequest) -> ScriptReply:
    """Writes a file at 72 % of the context, then wants to read it at 97 %."""
    if not request.results("Write"):
        return replace(call("Write", file_path="out.txt", content="x\n"), prompt_tokens=14_400)
    return replace(call("Read", file_path="out.txt"), text="I was not done.", prompt_tokens=19_400)


@pytest.mark.parametrize(
    ("locale", "title", "marked", "warned"),
    [
        (
            "C.UTF-8",
            "Stopped at the context limit (97 % full)",
            "(stopped at the context limit)",
            "! context 72 % full\n",
        ),
        (
            "ja_JP.UTF-8",
            "Stopped at the context limit (97 % full)",
            "(コンテキストの限界で止めました)",
            "! コンテキストの 72 % を使用\n",
        ),
    ],
)
def test_it_is_a_success_that_says_what_it_is(
    cli: Cli, locale: str, title: str, marked: str, warned: str
) -> None:
    pieces = cli.workspace / ".maestro" / "pieces"
    pieces.mkdir(parents=True)
    (pieces / "full.yaml").write_text(PIECE, "utf-8")
    with serve_in_thread(fills) as server:
        cli.env |= {
            "MAESTRO_ENDPOINT": server.base_url,
            "MAESTRO_MODEL": "scripted",
            "MAESTRO_CONTEXT_TOKENS": "20000",
            "LC_ALL": locale,
        }
        done = cli("run", "--trust", "--piece", "full", "write it")
        [listed] = json.loads(cli("jobs", "--json", "--all").stdout)["jobs"]
        page = cli("show", listed["jobId"]).stdout
    assert done.returncode == 0, done.stderr
    assert warned in done.stdout and title in done.stdout and marked in done.stdout
    assert "I was not done." in done.stdout and "out.txt" in done.stdout
    assert listed["status"] == "succeeded" and listed["forced"] is True
    assert marked in page and title in page
