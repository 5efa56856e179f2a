"""How requests for a tool, a package and a task elsewhere are shown: in the client's language, with the
buttons that fit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from engine import Request, catalogue
from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from maestro_lsp.display import details, told
from maestro_lsp.features.requests import prompt_of
from tests.lsp.driver import Place, editor, titles
from tests.lsp.pieces import put_pieces

COMMAND = ".venv/bin/python -m pip install requests"
CARDS = {
    "tool_request": ("asked.tool", {"tool": "Bash", "movement": "look"}),
    "package_request": ("asked.package", {"package": "requests", "command": COMMAND}),
    "spawn_request": ("asked.spawn", {"path": "/home/me/other"}),
}


def card(reason: str) -> Request:
    key, values = CARDS[reason]
    rule = {"rule": "x", "rule_key": "rule.grant", "rule_values": {"name": "Bash", "commands": ""}}
    return Request(
        request_id="r-1",
        job_id="j-1",
        task_id="t-01ABCD",
        reason=reason,
        title="fallback",
        title_key=key,
        title_values=values,
        detail="The model's [words](http://x)\u202e",
        why_key=f"why.{reason}",
        created_at="2026-12-01T09:00:00.000Z",
        **(rule if reason == "tool_request" else {}),
    )


@pytest.mark.parametrize(
    ("reason", "language", "message", "buttons"),
    [
        (
            "tool_request",
            "en",
            "[maestro t-…ABCD] Use Bash in the movement “look”. Allow?",
            ["Allow once", "Allow for this task", "Always allow", "Deny", "Show details"],
        ),
        (
            "package_request",
            "en",
            f"[maestro t-…ABCD] Install requests: {COMMAND}. Allow?",
            ["Allow once", "Deny", "Show details"],
        ),
        (
            "spawn_request",
            "en",
            "[maestro t-…ABCD] Start a task in /home/me/other. Allow?",
            ["Allow once", "Deny", "Show details"],
        ),
        ("tool_request", "ja", "ムーブメント「look」で Bash を使う", ["今回だけ許可"]),
        ("package_request", "ja", f"requests をインストールする: {COMMAND}", ["拒否"]),
        ("spawn_request", "ja", "/home/me/other でタスクを始める", ["拒否"]),
    ],
)
def test_a_card_says_what_is_asked_in_the_clients_language(
    reason: str, language: str, message: str, buttons: list[str]
) -> None:
    say = partial(catalogue(language))
    request = told(card(reason), say)
    prompt = prompt_of(card(reason), say, request.title)
    assert message in prompt.message
    if language == "en":
        assert (prompt.message, list(prompt.choices)) == (message, buttons)
    else:
        assert set(buttons) <= set(prompt.choices)
    page = details(request, request.title, request.why, request.rule or "", say)
    assert "\\u{202e}" in page and "```\nThe model's" in page


def asks_for_glob(request: ScriptRequest) -> ScriptReply:
    """Asks for a tool, then uses it."""
    if "Glob" not in request.tool_names:
        return call("RequestTool", tool="Glob", reason="to find the files")
    if not request.results("Glob"):
        return call("Glob", pattern="*.txt")
    return call("complete", status="success", result=request.last_result("Glob"))


@pytest.fixture
def shop(place: Place) -> Place:
    put_pieces(place)
    return place


@pytest.mark.slow
async def test_a_tool_is_granted_by_a_button_and_the_rule_is_stored(shop: Place) -> None:
    (shop.workspace / "found.txt").write_text("x")
    with serve_in_thread(asks_for_glob) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            ids = await it.start(piece="one")
            asked: Any = await it.question()
            assert "Use Glob in the movement “work”. Allow?" in asked["params"]["message"]
            assert "Allow for this task" in titles(asked)
            it.choose(asked, "Allow for this task")
            await it.changed(ids["jobId"], "succeeded")
            detail = await it.command("task.show", jobId=ids["jobId"])
            assert "found.txt" in detail["result"]
            assert detail["requests"][0]["titleValues"] == {"tool": "Glob", "movement": "work"}
            (rule,) = (await it.command("rules.list"))["rules"]
            assert "Glob" in rule["text"] and rule["scope"] == "task"
            events = (await it.command("task.events", jobId=ids["jobId"]))["events"]
            assert [e["announced"] for e in events if e["kind"] == "cache_break"] == [True]
