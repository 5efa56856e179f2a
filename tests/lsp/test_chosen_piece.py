"""A task that names no piece, as an editor sees it: no piece at first, then the one that was chosen."""

from __future__ import annotations

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from tests.lsp.driver import Place, editor

pytestmark = pytest.mark.slow

DONE = call("complete", status="success", result="done")


@pytest.mark.parametrize(
    ("locale", "answer", "piece", "progress"),
    [
        ("en", "chat", "chat", "piece chat, chosen for this task"),
        ("ja", "chat", "chat", "ピース chat（このタスクのために選択）"),
        (
            "ja",
            "dance",
            "general",
            "ピース general（モデルの答えがどれか一つを示さず選べませんでした）",
        ),
    ],
)
async def test_the_choice_is_progress_an_event_and_a_change_of_the_job(
    place: Place, locale: str, answer: str, piece: str, progress: str
) -> None:
    def model_of(request: ScriptRequest) -> ScriptReply:
        return DONE if request.tool_names else ScriptReply(text=answer)

    with serve_in_thread(model_of) as model:
        place.endpoint = model.base_url
        capabilities = {"window": {"workDoneProgress": True}}
        async with editor(place, capabilities=capabilities, locale=locale) as it:
            job = (await it.start("What is this?"))["jobId"]
            await it.seen("$/progress", lambda params: params["value"].get("message") == progress)
            told = await it.seen("maestro/jobChanged", lambda params: params["piece"] is not None)
            assert (told["params"]["jobId"], told["params"]["piece"]) == (job, piece)
            assert (await it.until(job, "succeeded"))["piece"] == piece
            (event,) = it.events("piece")
            assert event["piece"] == piece and event.get("failure") == (
                None if piece == "chat" else "unclear"
            )
