"""Commands: params read as sent, results as the protocol says, one clear sentence for every mistake."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, say, serve_in_thread
from maestro_lsp.features.commands import HANDLERS
from maestro_lsp.protocol import COMMANDS, protocol_schemas
from tests.lsp.driver import Place, editor
from tests.lsp.pieces import put_pieces
from tests.lsp.raw_client import RpcError

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(place: Place) -> Place:
    put_pieces(place)
    return place


def ready(_request: ScriptRequest) -> ScriptReply:
    return call("complete", status="success", result="Ready.")


WRONG: list[tuple[str, list[Any], str, str]] = [
    ("task.start", [], "instruction", "string"),
    ("task.start", [None], "instruction", "string"),
    ("task.start", [{}], "instruction", "string"),
    ("task.start", [{"instruction": 5}], "instruction", "string"),
    ("task.start", [{"instruction": "x", "mode": "yolo"}], "mode", "all | ask | edits | plan"),
    ("task.start", [{"instruction": "x", "files": "a"}], "files", "array of string"),
    ("task.start", [{"instruction": "x", "files": ["untitled:a"]}], "files[0]", "file URI"),
    ("task.start", [{"instruction": "x", "selection": {"uri": "file:///a"}}], "selection.range", "object"),
    ("task.start", ["do it"], "arguments[0]", "object"),
    ("task.start", [{"instruction": "x"}, {}], "arguments[1]", "one params object"),
    ("task.watch", [{"jobId": "j", "on": "false"}], "on", "true or false"),
    ("task.list", [{"limit": 0}], "limit", "integer from 1 to 2147483647"),
    ("task.list", [{"limit": 1.5}], "limit", "integer from 1 to 2147483647"),
    ("task.show", [{"jobId": "j", "job_id": "j"}], "job_id", "jobId"),
    ("status", [{"verbose": True}], "verbose", ""),
    ("request.decide", [{"requestId": "r", "decision": "maybe"}], "decision", "allow | deny"),
]


async def test_a_wrong_argument_is_named_with_what_was_expected(shop: Place) -> None:
    async with editor(shop) as it:
        for name, arguments, path, expected in WRONG:
            with pytest.raises(RpcError) as refused:
                await it.client.command(f"maestro.{name}", *arguments)
            error = refused.value
            assert (error.code, error.data["path"], error.data["expected"]) == (-32602, path, expected), error
            assert "\n" not in error.message and error.message.endswith((".", "?"))
        assert (await it.command("task.list"))["jobs"] == [], "nothing was started"


async def test_a_mistyped_key_is_told_the_nearest(shop: Place) -> None:
    async with editor(shop) as it:
        with pytest.raises(RpcError) as refused:
            await it.command("task.start", instrction="x", instruction="x")
        assert "`instruction`" in refused.value.message and refused.value.data["near"] == "instruction"


async def test_absent_arguments_are_an_empty_object(shop: Place) -> None:
    async with editor(shop) as it:
        for params in ({}, {"arguments": None}, {"arguments": []}):
            sent = {"command": "maestro.rules.list", **params}
            assert await it.client.request("workspace/executeCommand", sent) == {"rules": []}


async def test_unknown_things_are_named(shop: Place) -> None:
    shop.endpoint = "http://127.0.0.1:9/v1"
    unknown = "j-00000000000000000000000000"
    async with editor(shop) as it:
        for name, params in (
            ("task.show", {"jobId": unknown}),
            ("task.events", {"jobId": unknown}),
            ("task.watch", {"jobId": unknown, "on": True}),
            ("task.answer", {"jobId": unknown, "text": "x"}),
            ("task.cancel", {"jobId": unknown}),
            ("task.retry", {"jobId": unknown}),
            ("task.changes", {"jobId": unknown}),
            ("task.export", {"jobId": unknown}),
            ("task.revert", {"jobId": unknown}),
            ("task.comment", {"taskId": unknown, "text": "x"}),
            ("task.brief", {"taskId": unknown}),
            ("request.decide", {"requestId": unknown, "decision": "allow"}),
            ("rules.remove", {"id": unknown}),
            ("mode.set", {"mode": "plan", "jobId": unknown}),
        ):
            with pytest.raises(RpcError) as refused:
                await it.command(name, **params)
            assert (refused.value.code, refused.value.data["id"]) == (4001, unknown), name
            assert unknown in refused.value.message
        with pytest.raises(RpcError) as refused:
            await it.start(piece="onne")
        assert refused.value.code == 4001
        assert {"one", "two", "general", "chat", "code"} <= set(refused.value.data["known"])
        assert await it.command("captcha.resolve", key="nobody waits") == {"resumed": []}


async def test_without_a_model_server_a_task_is_refused_with_the_mend(shop: Place) -> None:
    async with editor(shop) as it:
        with pytest.raises(RpcError) as refused:
            await it.start()
        assert refused.value.code == 4005
        assert refused.value.data["setting"] == "llm.endpoint" and refused.value.data["mend"]
        assert "MAESTRO_ENDPOINT" in refused.value.message
        assert (await it.command("task.list"))["jobs"] == []


async def test_a_faulty_piece_is_told_place_by_place(shop: Place) -> None:
    shop.endpoint = "http://127.0.0.1:9/v1"
    broken = shop.workspace / ".maestro" / "pieces" / "broken.yaml"
    broken.write_text("name: broken\ndescription: x\ninitial_movement: a\nmovements: []\n")
    async with editor(shop, locale="ja") as it:
        with pytest.raises(RpcError) as refused:
            await it.start(piece="broken")
        assert refused.value.code == 4004
        problem = refused.value.data["problems"][0]
        assert {"severity", "message", "range", "code"} <= set(problem) and not {"key", "values"} & set(
            problem
        )
        assert any("\u3040" <= c <= "\u30ff" for c in problem["message"])
        entries = {piece["name"]: piece for piece in (await it.command("piece.list"))["pieces"]}
        assert entries["broken"]["problems"] and entries["one"]["source"] == "workspace"
        assert entries["chat"]["source"] == "shipped" and entries["chat"]["description"]


async def test_pieces_of_a_workspace_count_only_while_it_is_trusted(shop: Place) -> None:
    shop.endpoint = "http://127.0.0.1:9/v1"
    async with editor(shop, initializationOptions={}) as it:
        assert (await it.command("status"))["trusted"] is False
        with pytest.raises(RpcError) as refused:
            await it.start(piece="one")
        assert refused.value.code == 4006
        assert await it.command("workspace.trust", trusted=True) == {}
        assert (await it.command("status"))["trusted"] is True
        assert "one" in [piece["name"] for piece in (await it.command("piece.list"))["pieces"]]
    async with editor(shop, initializationOptions={}) as it:
        assert (await it.command("status"))["trusted"] is True, "as the person said before"
    async with editor(shop, initializationOptions={"trusted": False}) as it:
        assert (await it.command("status"))["trusted"] is False, "as this session was told"


async def test_a_job_that_ended_moves_no_more_but_can_be_tried_again(shop: Place) -> None:
    answers = iter([call("complete", status="aborted", result="I cannot."), ready])

    def script(request: ScriptRequest) -> ScriptReply:
        step = next(answers)
        return step if isinstance(step, ScriptReply) else step(request)

    with serve_in_thread(script) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            await it.changed(job, "aborted")
            told = (await it.seen("window/showMessage"))["params"]
            assert told["type"] == 2 and "I cannot." in told["message"]
            for name, params in (
                ("task.cancel", {}),
                ("task.answer", {"text": "x"}),
                ("mode.set", {"mode": "plan"}),
            ):
                with pytest.raises(RpcError) as refused:
                    await it.command(name, jobId=job, **params)
                assert refused.value.code == 4002, name
                assert refused.value.data["status"] == "aborted", name
            again = (await it.command("task.retry", jobId=job))["jobId"]
            assert (await it.changed(again, "succeeded"))["retryOf"] == job
            with pytest.raises(RpcError) as refused:
                await it.command("task.retry", jobId=again)
            assert refused.value.code == 4002
            jobs = (await it.command("task.list"))["jobs"]
            assert [j["jobId"] for j in jobs] == [again, job], "newest first"
            assert [j["jobId"] for j in (await it.command("task.list", status=["aborted"]))["jobs"]] == [job]
            assert len((await it.command("task.list", limit=1))["jobs"]) == 1


async def test_a_refused_connection_fails_the_job_with_one_sentence(shop: Place) -> None:
    shop.endpoint = "http://127.0.0.1:9/v1"
    async with editor(shop) as it:
        job = (await it.start(piece="one"))["jobId"]
        failed = await it.changed(job, "failed")
        assert failed["reason"]
        told = (await it.seen("window/showMessage"))["params"]
        assert told["type"] == 1 and "127.0.0.1:9" in told["message"] and "Traceback" not in told["message"]


class Gated:
    """A model that thinks until the gate opens, says something, and completes."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def reply(self, request: ScriptRequest) -> ScriptReply:
        if request.turn == 0:
            self.gate.wait(30)
            return say("I look around.")
        return ready(request)


async def test_streaming_comes_only_to_a_client_that_asked_for_it(shop: Place) -> None:
    script = Gated()
    with serve_in_thread(script.reply) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            await it.changed(job, "running")
            assert await it.command("task.watch", jobId=job, on=True) == {}
            await asyncio.to_thread(model.wait_requests, 1)
            async with editor(shop) as other:
                script.gate.set()
                await it.changed(job, "succeeded")
                assert await other.command("status") and other.events() == []
            deltas = [event for event in it.events("text") if "delta" in event]
            stored = [event for event in it.events("text") if "full" in event]
            assert "".join(event["delta"] for event in deltas) == stored[0]["full"] == "I look around."
            assert all(event["seq"] < stored[0]["seq"] for event in deltas), "of the last stored event"


async def test_a_client_that_stops_watching_hears_no_more(shop: Place) -> None:
    script = Gated()
    with serve_in_thread(script.reply) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one"))["jobId"]
            await asyncio.to_thread(model.wait_requests, 1)
            await it.command("task.watch", jobId=job, on=False)
            heard = len(it.events())
            script.gate.set()
            await it.changed(job, "succeeded")
            await it.command("status")
            assert len(it.events()) == heard and it.client.received("window/showMessage") == []
            events = await it.command("task.events", jobId=job)
            assert [event["seq"] for event in events["events"]] == list(range(1, events["last"] + 1))
            last = events["last"]
            assert await it.command("task.events", jobId=job, after=last) == {"events": [], "last": last}


async def test_files_and_a_selection_reach_the_task_by_path(shop: Place) -> None:
    (shop.workspace / "a.py").write_text("one\ntwo\nthree\n")
    with serve_in_thread(ready) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            uri = (shop.workspace / "a.py").as_uri()
            opened = {"uri": uri, "languageId": "python", "version": 1, "text": "one\n𝒙 two\nthree\n"}
            it.client.notify("textDocument/didOpen", {"textDocument": opened})
            place = {"start": {"line": 1, "character": 3}, "end": {"line": 2, "character": 3}}
            ids = await it.start(piece="one", files=[uri], selection={"uri": uri, "range": place})
            await it.changed(ids["jobId"], "succeeded")
            asked = model.bodies()[0]["messages"][-1]["content"]
            assert "a.py" in asked and "selection-1.py" in asked
            kept = shop.workspace / ".maestro" / "tasks" / ids["taskId"] / "input" / "selection-1.py:2-3"
            found = list(kept.parent.iterdir())
            assert len(found) == 1 and found[0].read_text().endswith("two\nthr"), "of the open buffer"
            with pytest.raises(RpcError) as refused:
                await it.start(files=[(shop.workspace / "gone.py").as_uri()])
            assert refused.value.code == -32602 and "gone.py" in refused.value.message
            with pytest.raises(RpcError) as refused:
                await it.start(workspace="file:///somewhere/else")
            assert refused.value.data["path"] == "workspace"


@pytest.mark.fault("C: unsaved buffer lost")
async def test_unsaved_text_is_what_the_model_reads_and_what_it_may_not_overwrite(shop: Place) -> None:
    path = shop.workspace / "a.txt"
    path.write_text("on disk\n")

    def script(request: ScriptRequest) -> ScriptReply:
        if not request.results("Read"):
            return call("Read", file_path="a.txt")
        if not request.results("Edit"):
            return call("Edit", file_path="a.txt", old_string="unsaved", new_string="mine")
        return call("complete", status="success", result=" | ".join(r.text for r in request.results()))

    with serve_in_thread(script) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            document = {"uri": path.as_uri(), "languageId": "text", "version": 1, "text": "on disk\n"}
            it.client.notify("textDocument/didOpen", {"textDocument": document})
            change = {"range": _range(0, 0, 0, 7), "text": "unsaved"}
            versioned = {"uri": path.as_uri(), "version": 2}
            it.client.notify(
                "textDocument/didChange", {"textDocument": versioned, "contentChanges": [change]}
            )
            job = (await it.start(piece="one"))["jobId"]
            await it.changed(job, "succeeded")
            read, edited = (await it.command("task.show", jobId=job))["result"].split(" | ")
            assert "unsaved" in read and "on disk" not in read.replace("not on disk", "")
            assert "has unsaved changes in the editor" in edited and "Changed a.txt" not in edited
            assert it.client.received("workspace/applyEdit") == []
    assert path.read_text() == "on disk\n"


def _range(line: int, character: int, end_line: int, end_character: int) -> dict[str, Any]:
    end = {"line": end_line, "character": end_character}
    return {"start": {"line": line, "character": character}, "end": end}


async def test_the_mode_and_the_brief_can_be_set(shop: Place) -> None:
    with serve_in_thread(ready) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            assert await it.command("mode.set", mode="plan") == {}
            assert (await it.command("status"))["mode"] == "plan"
            ids = await it.start(piece="one")
            detail = await it.until(ids["jobId"], "succeeded")
            assert detail["mode"] == "plan"
            brief = await it.command("task.brief", taskId=ids["taskId"], brief={"goal": "Whole yen."})
            assert brief == {"goal": "Whole yen.", "done": "", "open": "", "clarifications": ""}
            assert await it.command("task.brief", taskId=ids["taskId"]) == brief
            models = await it.command("model.list")
            assert models == {
                "workers": [
                    {
                        "id": "default",
                        "endpoint": model.base_url,
                        "model": "scripted",
                        "hasKey": False,
                        "roles": ["main"],
                        "vision": False,
                    }
                ]
            }


async def test_several_workers_are_listed_one_is_chosen_by_name_and_an_unknown_one_is_refused(
    shop: Place,
) -> None:
    with serve_in_thread(ready) as main, serve_in_thread(ready) as other:
        shop.endpoint = main.base_url
        shop.env["THEIR_KEY"] = "sk-of-the-other-0123456789"
        listed = {"id": "coder", "endpoint": other.base_url, "model": "coder-7b", "vlm": True}
        listed |= {"api_key_env": "THEIR_KEY", "max_concurrency": 2, "context_tokens": 9000}
        shop.env["MAESTRO_WORKERS"] = json.dumps([listed])
        async with editor(shop) as it:
            workers = (await it.command("model.list"))["workers"]
            assert [worker["id"] for worker in workers] == ["default", "coder"]
            assert workers[1] == {
                "id": "coder",
                "endpoint": other.base_url,
                "model": "coder-7b",
                "hasKey": True,
                "roles": [],
                "vision": True,
                "maxConcurrency": 2,
                "contextTokens": 9000,
            }
            assert (await it.command("status"))["model"]["id"] == "default"
            with pytest.raises(RpcError) as refused:
                await it.start(piece="one", model="gpt")
            assert refused.value.code == 4005 and "gpt" in refused.value.message
            assert refused.value.data["known"] == ["default", "scripted", "coder", "coder-7b"]
            job = (await it.start(piece="one", model="coder"))["jobId"]
            await it.until(job, "succeeded")
            assert (len(main.requests), len(other.requests)) == (0, 1)
            assert "sk-of-the-other" not in str(it.client.messages) + it.client.stderr


async def test_a_key_is_never_shown(shop: Place) -> None:
    shop.env["MAESTRO_API_KEY"] = "sk-very-secret-0123456789"
    shop.endpoint = "http://127.0.0.1:9/v1"
    async with editor(shop) as it:
        status = await it.command("status")
        assert status["model"]["hasKey"] is True
        job = (await it.start(piece="one"))["jobId"]
        await it.changed(job, "failed")
        assert "very-secret" not in str(it.client.messages) and "very-secret" not in it.client.stderr


def test_every_command_has_a_handler_a_schema_and_no_more() -> None:
    assert {row.handler for row in COMMANDS.values()} == set(HANDLERS)
    schemas = protocol_schemas()
    assert set(schemas["commands"]) == set(COMMANDS)
    start = schemas["$defs"]["StartParams"]
    assert start["required"] == ["instruction"] and start["additionalProperties"] is False
    assert set(schemas["notifications"]) == {"maestro/jobChanged", "maestro/event"}
    summary = schemas["$defs"]["JobSummary"]
    assert {"jobId", "taskId", "openRequests", "usage", "resumeMovement"} <= set(summary["properties"])
