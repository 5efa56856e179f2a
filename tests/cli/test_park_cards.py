"""Requests for a tool, a package and a task elsewhere, at the prompt of `run` and from another terminal."""

from __future__ import annotations

import json

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from tests.cli.harness import Cli
from tests.cli.test_run import served


def asks_for_a_task(request: ScriptRequest) -> ScriptReply:
    """Asks for a tool that its piece has not, and ends with what it was told."""
    if results := request.results("SpinOffTask"):
        return call("complete", status="success", result=results[-1].text)
    if "SpinOffTask" in request.tool_names:
        return call("SpinOffTask", instruction="mend the docs", workspace="../other")
    return call("RequestTool", tool="SpinOffTask", reason="the docs\x1b[2J live elsewhere")


@pytest.mark.parametrize(
    ("locale", "choose", "title", "once", "why"),
    [
        (
            "C.UTF-8",
            "Choose a number",
            "Use SpinOffTask in the movement “answer”",
            "Allow in this movement",
            "a tool",
        ),
        (
            "ja_JP.UTF-8",
            "番号か",
            "ムーブメント「answer」で SpinOffTask を使う",
            "このムーブメントでは許可",
            "ツール",
        ),
    ],
)
def test_a_tool_and_a_task_elsewhere_are_asked_about_in_the_persons_language(
    cli: Cli, locale: str, choose: str, title: str, once: str, why: str
) -> None:
    other = cli.workspace.parent / "other"
    other.mkdir()
    cli.env |= {"LANG": locale, "LC_ALL": locale}
    with serve_in_thread(asks_for_a_task) as server:
        screen = served(cli, server).terminal("run", "--piece", "chat", "--trust", "mend the docs elsewhere")
        shown = screen.until(choose)
        assert f"? {title}" in shown and f"  1  {once}\n" in shown and why in shown
        assert "live elsewhere" in shown and "\x1b[2J live" not in shown
        screen.type("1")
        shown = screen.until(str(other.resolve()))
        shown += screen.until(choose)
        assert "mend the docs" in shown and "  3  " not in shown.rpartition(str(other.resolve()))[2]
        screen.type("1")
        screen.end()
    [job] = [
        job for job in json.loads(cli("jobs", "--all", "--json").stdout)["jobs"] if job["piece"] == "general"
    ]
    assert job["status"] == "queued" and job["title"] == "mend the docs"


def test_without_a_terminal_a_tool_is_granted_by_decide_with_a_scope(cli: Cli) -> None:
    def script(request: ScriptRequest) -> ScriptReply:
        if "Bash" in request.tool_names:
            return call("complete", status="success", result="I may.")
        return call("RequestTool", tool="Bash", reason="to count")

    with serve_in_thread(script) as server:
        done = served(cli, server)("run", "--piece", "chat", "--trust", "count")
        [request] = cli.job()["openRequests"]
        assert done.returncode == 3 and f"maestro-lsp decide {request} allow|deny" in done.stdout
        assert cli("decide", request, "allow", "--scope", "always").returncode == 0
        assert cli("worker", "--until-idle").returncode == 0
        assert cli.job()["status"] == "succeeded"
    assert "Bash may be used in every movement" in cli("rules").stdout
