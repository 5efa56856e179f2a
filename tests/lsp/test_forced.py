"""A context that fills up, as an editor sees it: progress, the event, the end that nobody decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from tests.lsp.driver import Place, editor

pytestmark = pytest.mark.slow

PIECE = """
name: full
description: a movement that fills its context
max_movements: 3
initial_movement: work
movements:
  - name: work
    edit: false
    persona: You work.
    instruction: Work.
    allowed_tools: [Read]
    rules: []
    default_next: COMPLETE
"""
LIMIT = 131_072


def fills(request: ScriptRequest) -> ScriptReply:
    """Reads at 72 % of the context, then once more at 97 %."""
    share = 0.97 if request.results("Read") else 0.72
    reply = call("Read", file_path="a.txt")
    return replace(reply, text="I was not done.", prompt_tokens=round(share * LIMIT))


@pytest.mark.parametrize(
    ("locale", "progress", "ended"),
    [
        ("en", "context 72 % full", "Ended by force: Stopped at the context limit (97 % full)"),
        ("ja", "コンテキストの 72 % を使用", "打ち切り: Stopped at the context limit (97 % full)"),
    ],
)
async def test_a_filling_context_is_progress_and_its_end_is_told_as_what_it_is(
    place: Place, locale: str, progress: str, ended: str
) -> None:
    pieces = place.workspace / ".maestro" / "pieces"
    pieces.mkdir(parents=True)
    (pieces / "full.yaml").write_text(PIECE, "utf-8")
    (place.workspace / "a.txt").write_text("a\n")
    with serve_in_thread(fills) as model:
        place.endpoint = model.base_url
        capabilities = {"window": {"workDoneProgress": True}}
        async with editor(place, capabilities=capabilities, locale=locale) as it:
            job = (await it.start(piece="full"))["jobId"]
            await it.seen("$/progress", lambda params: params["value"].get("message") == progress)
            summary = await it.changed(job, "succeeded")
            assert summary["forced"] is True
            told = (await it.seen("window/showMessage"))["params"]
            assert ended in told["message"] and told["type"] == 3
            events = it.events("context")
    assert [(event["action"], event["ratio"]) for event in events] == [
        ("warn", 0.72),
        ("prompt", 0.97),
        ("force_transition", 0.97),
    ]
