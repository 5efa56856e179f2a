"""`maestro.task.export` and `maestro.piece.graph`, and what of a call's title is in the client's language."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from maestro_lsp.convert import path_of
from tests.lsp.driver import Place, editor
from tests.lsp.pieces import put_pieces
from tests.lsp.raw_client import RpcError

pytestmark = pytest.mark.slow

NASTY = "a `b` </details> [link](http://x.example) ![p](http://x.example/p.png)\n# heading\n```\n\u202etxt"


@pytest.fixture
def shop(place: Place) -> Place:
    put_pieces(place)
    return place


def script(request: ScriptRequest) -> ScriptReply:
    """Writes a file (which is asked about), and ends with a text that would like to be more than text."""
    if not request.results("Write"):
        return call("Write", file_path="a.txt", content="one\n")
    return call("complete", status="success", result=NASTY)


async def written(it: Any, decision: str = "allow") -> dict[str, str]:
    ids: dict[str, str] = await it.start("write it", piece="one")
    parked = await it.changed(ids["jobId"], "waiting_human")
    await it.command(
        "request.decide", requestId=parked["openRequests"][0], decision=decision, note="as you like"
    )
    await it.changed(ids["jobId"], "succeeded")
    return ids


def file_of(uri: str) -> Path:
    found = path_of(uri)
    assert found is not None
    return found


async def test_an_export_is_a_document_in_the_tasks_output_folder(shop: Place) -> None:
    with serve_in_thread(script) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            ids = await written(it)
            output = shop.workspace / ".maestro" / "tasks" / ids["taskId"] / "output"
            found = {}
            for form in ("md", "json"):
                path = file_of((await it.command("task.export", jobId=ids["jobId"], format=form))["uri"])
                assert path == output / f"{ids['jobId']}.{form}"
                found[form] = path.read_text("utf-8")
            assert json.loads(found["json"])["job"]["jobId"] == ids["jobId"]
            page = found["md"]
            assert page.startswith("# write it\n")
            for part in (
                "## Instruction",
                "## Result",
                "## Conversation",
                "## Movements",
                "### work → COMPLETE",
                "## Requests and decisions",
                "### Write a.txt (new, 1 line)",
                "allowed by vscode · 20",
                "as you like",
                "## Changed files",
                "```diff\n@@ -0,0 +1 @@\n+one\n```",
                "## What happened",
                "✓ Write · Write a.txt (new, 1 line): a.txt",
            ):
                assert part in page, part


async def test_nothing_that_others_wrote_is_markdown_in_the_page(shop: Place) -> None:
    with serve_in_thread(script) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            ids: dict[str, str] = await it.start(NASTY, piece="one")
            parked = await it.changed(ids["jobId"], "waiting_human")
            await it.command(
                "request.decide", requestId=parked["openRequests"][0], decision="deny", note=NASTY
            )
            await it.changed(ids["jobId"], "succeeded")
            uri = (await it.command("task.export", jobId=ids["jobId"], format="md"))["uri"]
    fence, outside = "", []
    for row in file_of(uri).read_text("utf-8").splitlines():
        assert "\u202e" not in row
        mark = row.strip()
        if fence:
            fence = "" if mark == fence else fence
        elif mark.startswith("```"):
            fence = mark.rstrip("abcdefghijklmnopqrstuvwxyz")
        else:
            outside.append(row)
    assert not fence, "every block is closed"
    text = "\n".join(outside)
    assert "](" not in text and "</details>" not in text and "\n# heading" not in text
    assert "\\<" in text


async def test_a_japanese_client_is_told_in_japanese(shop: Place) -> None:
    with serve_in_thread(script) as model:
        shop.endpoint = model.base_url
        async with editor(shop, locale="ja") as it:
            ids: dict[str, str] = await it.start("write it", piece="one")
            parked = await it.changed(ids["jobId"], "waiting_human")
            [request] = (await it.command("task.show", jobId=ids["jobId"]))["requests"]
            assert request["title"] == "新規作成 a.txt (1 行)"
            asked = await it.question()
            assert "新規作成 a.txt (1 行)" in asked["params"]["message"]
            await it.command("request.decide", requestId=parked["openRequests"][0], decision="deny")
            await it.changed(ids["jobId"], "succeeded")
            events = (await it.command("task.events", jobId=ids["jobId"]))["events"]
            [called] = [event for event in events if event["kind"] == "tool_call"]
            [result] = [event for event in events if event["kind"] == "tool_result"]
            assert (called["title"], result["brief"]) == ("新規作成 a.txt (1 行)", "断られました")
            page = file_of((await it.command("task.export", jobId=ids["jobId"]))["uri"]).read_text("utf-8")
            assert "## 経過" in page and "新規作成 a.txt" in page and "declined" not in page
            pieces = {piece["name"]: piece for piece in (await it.command("piece.list"))["pieces"]}
            assert "質問" in pieces["chat"]["description"] and pieces["one"]["description"] == "one movement"


async def test_mistakes_are_named(shop: Place) -> None:
    unknown = "j-00000000000000000000000000"
    async with editor(shop) as it:
        with pytest.raises(RpcError) as refused:
            await it.command("task.export", jobId=unknown, format="md")
        assert (refused.value.code, refused.value.data["id"]) == (4001, unknown)
        with pytest.raises(RpcError) as refused:
            await it.command("task.export", jobId=unknown, format="pdf")
        assert (refused.value.code, refused.value.data["path"]) == (-32602, "format")
        with pytest.raises(RpcError) as refused:
            await it.command("piece.graph", piece="onne")
        assert refused.value.code == 4001 and "one" in refused.value.data["known"]


async def test_a_piece_is_drawn_twice(shop: Place) -> None:
    async with editor(shop) as it:
        found = await it.command("piece.graph", piece="two")
        assert found["mermaid"].startswith("flowchart TD\n") and "implement" in found["mermaid"]
        assert found["svg"].startswith("<svg ") and "implement" in found["svg"]
        assert await it.command("piece.graph", piece="two") == found


@pytest.mark.parametrize("endpoint", ["localhost:8080", "ftp://x/v1", "http://me:secret@x/v1", "http://"])
async def test_an_endpoint_that_cannot_be_used_is_refused_at_once(shop: Place, endpoint: str) -> None:
    shop.endpoint = endpoint
    async with editor(shop) as it:
        with pytest.raises(RpcError) as refused:
            await it.start(piece="one")
        assert (refused.value.code, refused.value.data["setting"]) == (4005, "llm.endpoint")
        assert "secret" not in refused.value.message
        assert (await it.command("task.list"))["jobs"] == []
