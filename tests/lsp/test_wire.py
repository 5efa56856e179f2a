"""``wire.md``, played by a plain client message by message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from tests.lsp.driver import Editor, Place, alive, editor, titles
from tests.lsp.pieces import put_pieces
from tests.lsp.raw_client import RpcError
from tests.lsp.tiny import until

PRICE = "def price(x):\n    return x\n"
ANSWER = "down, to whole yen"


def model(request: ScriptRequest) -> ScriptReply:
    """Asks in ``plan``, goes on when it was answered, edits in ``implement``."""
    if request.movement == "plan":
        if not request.contains(ANSWER):
            return call(
                "complete", status="needs_user_input", result="Round up or down?", options=["up", "down"]
            )
        return call("transition", next_step="implement", summary="Round down.", lessons="Prices are in yen.")
    if not request.results("Read"):
        return call("Read", file_path="price.py")
    if not request.results("Edit"):
        return call("Edit", file_path="price.py", old_string="return x", new_string="return int(x)")
    return call("complete", status="success", result="The test passes; prices are rounded down to whole yen.")


@pytest.mark.parametrize("first_choice", ["late", "never"])
async def test_the_transcript_holds_message_by_message(place: Place, first_choice: str) -> None:
    put_pieces(place)
    (place.workspace / "price.py").write_text(PRICE)
    with serve_in_thread(model) as server:
        place.endpoint = server.base_url
        async with editor(place, name="vscode") as it:
            ids = await _asks(it)
            engine = await it.engine_pid()
            it.client.kill()
            await until(lambda: not alive(engine))
        async with editor(place, name="nvim") as it:
            await _answered_after_the_restart(it, ids, first_choice == "late")
            await _edits_and_ends(it, ids)
    assert (place.workspace / "price.py").read_text() == PRICE.replace("return x", "return int(x)")
    tools = {_tools(body) for body in server.requests}
    assert len(tools) == 1, "one array of tools, byte for byte, for the whole job"


async def _asks(it: Editor) -> dict[str, str]:
    capabilities = it.initialized["capabilities"]
    assert "maestro.task.start" in capabilities["executeCommandProvider"]["commands"]
    assert capabilities["experimental"] == {"maestro": {"protocol": 1}}
    assert it.initialized["serverInfo"] == {"name": "maestro-lsp", "version": "0.1.0"}

    ids = await it.start("Make the failing test pass", piece="two")
    job, token = ids["jobId"], f"{ids['jobId']}:1"
    assert sorted(ids) == ["jobId", "taskId"]

    assert (await it.next("window/workDoneProgress/create"))["params"] == {"token": token}
    begin = {"kind": "begin", "title": "two", "message": "plan", "cancellable": True}
    assert (await it.next("$/progress"))["params"] == {"token": token, "value": begin}
    changed = (await it.next("maestro/jobChanged"))["params"]
    times = changed.pop("createdAt"), changed.pop("updatedAt")
    assert all(time.endswith("Z") for time in times)
    assert "reusedPct" in changed.pop("usage"), "null, unless the first call was already answered"
    assert changed == {
        "jobId": job,
        "taskId": ids["taskId"],
        "title": "Make the failing test pass",
        "piece": "two",
        "movement": "plan",
        "status": "running",
        "forced": False,
        "openRequests": [],
    }

    end = {"kind": "end", "message": "waiting for your answer"}
    assert (await it.next("$/progress"))["params"] == {"token": token, "value": end}
    changed = (await it.next("maestro/jobChanged"))["params"]
    assert (changed["status"], changed["waitReason"], changed["resumeMovement"]) == (
        "waiting_human",
        "question",
        "plan",
    )
    asked = await it.next("window/showMessageRequest")
    _is_the_question(asked, ids)
    return {**ids, "requestId": changed["openRequests"][0]}


def _is_the_question(asked: Any, ids: dict[str, str]) -> None:
    assert asked["params"] == {
        "type": 3,
        "message": f"[maestro t-…{ids['taskId'][-4:]} · two] Round up or down?",
        "actions": [{"title": title} for title in ("up", "down", "Answer…", "Later")],
    }


async def _answered_after_the_restart(it: Editor, ids: dict[str, str], late: bool) -> None:
    asked = await it.next("window/showMessageRequest")
    _is_the_question(asked, ids)
    job, request = ids["jobId"], ids["requestId"]
    assert await it.command("task.answer", jobId=job, requestId=request, text=ANSWER) == {}
    if late:
        it.choose(asked, "up")
    with pytest.raises(RpcError) as refused:
        await it.command("task.answer", jobId=job, requestId=request, text="up")
    error = refused.value
    assert error.code == 4003
    assert ANSWER in error.message and "answered" in error.message
    at = error.data.pop("at")
    assert at.endswith("Z")
    assert error.data == {"requestId": request, "decision": "answered", "text": ANSWER, "by": "nvim"}


async def _edits_and_ends(it: Editor, ids: dict[str, str]) -> None:
    job, short = ids["jobId"], f"t-…{ids['taskId'][-4:]}"
    asked = await it.question()
    assert asked["params"]["type"] == 2
    assert asked["params"]["message"] == f"[maestro {short} · implement] Edit price.py (+1 −1). Allow?"
    assert titles(asked) == ["Allow once", "Allow for this task", "Always allow", "Deny", "Show details"]
    it.choose(asked, "Allow once")

    ended = await it.changed(job, "succeeded")
    assert ended["movement"] == "implement" and ended["usage"]["calls"] == 5
    told = await it.next("window/showMessage")
    text = "The test passes; prices are rounded down to whole yen. 1 file changed."
    assert told["params"] == {"type": 3, "message": f"[maestro {short}] Done: {text}"}
    assert len(it.client.received("window/showMessage")) == 1, "a late answer pops up nothing"

    kinds = [event["kind"] for event in it.events()]
    assert [kind for kind in kinds if kind in ("decision", "transition")] == [
        "decision",
        "transition",
        "decision",
    ]
    decision = it.events("decision")[-1]
    assert (decision["decision"], decision["scope"], decision["by"]) == ("allow", "once", "nvim")
    result = next(
        event for event in it.events("tool_result") if "price.py" in event["brief"] and "+1" in event["brief"]
    )
    assert result["ok"] and result["bytes"] > 0
    seqs = [event["seq"] for event in it.events()]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs))), "no gaps"

    detail = await it.command("task.show", jobId=job)
    question = detail["requests"][0]
    assert question["title"] == "Round up or down?" and question["options"] == ["up", "down"]
    assert question["settled"]["text"] == ANSWER and question["settled"]["by"] == "nvim"
    assert [c["author"] for c in detail["comments"]] == ["maestro", "user", "maestro"]
    assert [(m["name"], m["run"], m["next"]) for m in detail["movements"]][:2] == [
        ("plan", 1, "ASK"),
        ("plan", 2, "implement"),
    ]
    assert detail["brief"] == {"goal": "", "done": "", "open": "", "clarifications": ""}
    changes = await it.command("task.changes", jobId=job)
    assert [(file["path"], file["status"], file["currentMatches"]) for file in changes["files"]] == [
        ("price.py", "modified", True)
    ]


def _tools(body: bytes) -> bytes:
    start = body.index(b'"tools":')
    return body[start : body.index(b'"messages":')]


async def test_the_person_reads_japanese_where_the_client_speaks_it(place: Place) -> None:
    put_pieces(place)
    (place.workspace / "price.py").write_text(PRICE)
    with serve_in_thread(model) as server:
        place.endpoint = server.base_url
        async with editor(place, locale="ja-JP") as it:
            ids = await it.start("テストを通して", piece="two")
            asked = await it.question()
            assert titles(asked) == ["up", "down", "回答を書く…", "あとで"]
            ends = [p["value"] for p in it.client.received("$/progress") if p["value"]["kind"] == "end"]
            assert ends == [{"kind": "end", "message": "回答を待っています"}]
            await it.command("task.answer", jobId=ids["jobId"], text=ANSWER)
            asked = await it.question()
            assert asked["params"]["message"].endswith("編集 price.py (+1 −1)。許可しますか?")
            it.choose(asked, "今回だけ許可")
            told = (await it.seen("window/showMessage"))["params"]["message"]
            assert "完了: " in told and told.endswith("1 個のファイルを変更しました。")
    assert Path(place.workspace / "price.py").read_text() != PRICE
