"""The server's life: a workspace it cannot work on, a store it cannot open, settings that change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.llm.scripted import call, serve_in_thread
from tests.lsp.driver import PLAIN, Place, editor
from tests.lsp.pieces import put_pieces
from tests.lsp.raw_client import RpcError

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(place: Place) -> Place:
    put_pieces(place)
    return place


async def test_the_server_says_what_it_can_do(place: Place) -> None:
    async with editor(place) as it:
        capabilities = it.initialized["capabilities"]
        sync = capabilities["textDocumentSync"]
        assert (sync["openClose"], sync["change"], bool(sync["save"])) == (True, 2, True)
        assert capabilities["experimental"] == {"maestro": {"protocol": 1}}
        for name in ("maestro.task.start", "maestro.request.decide", "maestro.status"):
            assert name in capabilities["executeCommandProvider"]["commands"]
        status = await it.command("status")
        assert status["sandbox"] == "C" and status["workspace"] == str(place.workspace)
        assert status["store"].startswith(str(place.state)) and status["queue"] == {}


@pytest.mark.parametrize(
    "encodings, chosen", [(["utf-8", "utf-16"], "utf-8"), (["utf-32"], "utf-32"), (None, "utf-16")]
)
async def test_positions_are_counted_as_the_client_wants(place: Place, encodings: Any, chosen: str) -> None:
    capabilities = {**PLAIN, "general": {"positionEncodings": encodings}} if encodings else PLAIN
    async with editor(place, capabilities=capabilities) as it:
        assert it.initialized["capabilities"]["positionEncoding"] == chosen


@pytest.mark.parametrize("root", ["/", "home", None, "ssh://host/w"])
async def test_a_workspace_that_cannot_be_one_is_refused_and_the_server_stays(
    place: Place, root: str | None
) -> None:
    place.env["HOME"] = str(place.workspace)
    uri = place.workspace.as_uri() if root == "home" else Path(root).as_uri() if root == "/" else root
    async with editor(place, rootUri=uri) as it:
        told = (await it.seen("window/showMessage"))["params"]
        assert told["type"] == 2
        for _ in range(2):
            with pytest.raises(RpcError) as refused:
                await it.command("status")
            assert refused.value.code == 4005 and refused.value.message == told["message"]
            assert refused.value.data["setting"] == "rootUri"
        assert await it.client.shut_down() == 0
    assert not (place.workspace / ".maestro").exists()


async def test_the_first_workspace_folder_is_the_workspace(place: Place) -> None:
    folders = [{"uri": place.workspace.as_uri(), "name": "shop"}, {"uri": "file:///elsewhere", "name": "x"}]
    async with editor(place, rootUri=None, workspaceFolders=folders) as it:
        assert (await it.command("status"))["workspace"] == str(place.workspace)


@pytest.mark.parametrize("state", ["a file", "a corrupt database"])
async def test_a_store_that_cannot_be_opened_is_told_and_the_server_stays(place: Place, state: str) -> None:
    if state == "a file":
        place.state.write_text("not a folder")
    else:
        async with editor(place) as it:
            store = Path((await it.command("status"))["store"])
        for old in store.parent.glob("store.db*"):
            old.unlink()
        store.write_bytes(b"this is no database " * 400)
    async with editor(place) as it:
        told = (await it.seen("window/showMessage"))["params"]["message"]
        with pytest.raises(RpcError) as refused:
            await it.command("task.list")
        assert refused.value.message == told and "\n" not in told
        assert await it.client.shut_down() == 0


async def test_settings_are_pulled_and_pulled_again_when_they_change(shop: Place) -> None:
    capabilities = {**PLAIN, "workspace": {"configuration": True}}
    settings: dict[str, Any] = {"mode": "plan"}
    handlers = {"workspace/configuration": lambda _params: [settings]}
    options = {"trusted": True}
    with serve_in_thread(lambda _: call("complete", status="success", result="ok")) as model:
        async with editor(
            shop, capabilities=capabilities, handlers=handlers, initializationOptions=options
        ) as it:
            asked = (await it.seen("workspace/configuration"))["params"]
            assert asked == {"items": [{"scopeUri": shop.workspace.as_uri(), "section": "maestro"}]}
            await it.status_says(lambda status: status["mode"] == "plan")
            settings["llm"] = {"endpoint": model.base_url, "model": "scripted"}
            it.client.notify("workspace/didChangeConfiguration", {"settings": None})
            await it.status_says(lambda status: status["model"]["endpoint"] == model.base_url)
            job = (await it.start(piece="one"))["jobId"]
            assert (await it.until(job, "succeeded"))["mode"] == "plan"


async def test_settings_that_are_pushed_hold_for_the_next_engine(shop: Place) -> None:
    shop.endpoint = "http://127.0.0.1:9/v1"
    with serve_in_thread(lambda _: call("complete", status="success", result="ok")) as model:
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            await it.changed(job, "failed")
            old = await it.engine_pid()
            settings = {"maestro": {"llm": {"endpoint": model.base_url}}}
            it.client.notify("workspace/didChangeConfiguration", {"settings": settings})
            await it.status_says(lambda status: status["model"]["endpoint"] == model.base_url)
            await it.status_says(lambda status: status["engine"]["pid"] != old)
            again = (await it.command("task.retry", jobId=job))["jobId"]
            await it.changed(again, "succeeded")


async def test_an_unknown_setting_is_told_once_with_the_nearest(shop: Place) -> None:
    options = {"trusted": True, "settings": {"llm": {"endpont": "http://127.0.0.1:9/v1"}}}
    async with editor(shop, initializationOptions=options) as it:
        told = (await it.seen("window/showMessage"))["params"]
        assert told["type"] == 2 and "endpoint" in told["message"]
        it.client.notify("workspace/didChangeConfiguration", {"settings": {"maestro": options["settings"]}})
        await it.command("status")
        await it.command("mode.set", mode="ask")
        assert len(it.client.received("window/showMessage")) == 1


@pytest.mark.parametrize(
    "options", [None, [], "x", {"trusted": "yes"}, {"mode": 7}, {"settings": [1]}, {"mode": "yolo"}]
)
async def test_odd_initialization_options_do_no_harm(place: Place, options: Any) -> None:
    async with editor(place, initializationOptions=options) as it:
        status = await it.command("status")
        assert status["trusted"] is False and status["mode"] == "edits"


async def test_a_client_that_answers_no_progress_is_told_everything_else(shop: Place) -> None:
    with serve_in_thread(lambda _: call("complete", status="success", result="ok")) as model:
        shop.endpoint = model.base_url
        async with editor(shop, capabilities={}) as it:
            job = (await it.start(piece="one"))["jobId"]
            await it.changed(job, "succeeded")
            await it.seen("window/showMessage")
            assert it.client.received("$/progress") == []
            assert it.client.received("window/workDoneProgress/create") == []


async def test_nothing_but_the_protocol_is_written_to_the_workspace_or_stdout(shop: Place) -> None:
    before = sorted(path.name for path in shop.workspace.iterdir())
    async with editor(shop) as it:
        await it.command("status")
        assert json.dumps(it.client.messages)
    assert sorted(path.name for path in shop.workspace.iterdir()) == before
