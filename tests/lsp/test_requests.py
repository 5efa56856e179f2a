"""Questions and approvals before the person: one at a time, the first answer wins, silence is no answer."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from tests.lsp.driver import PLAIN, Editor, Place, alive, editor, titles
from tests.lsp.pieces import put_pieces
from tests.lsp.raw_client import NO_ANSWER, RpcError
from tests.lsp.tiny import until

pytestmark = pytest.mark.slow


def shell(request: ScriptRequest) -> ScriptReply:
    """Runs a command that leaves a trace, then ends with what it was told."""
    if not request.results("Bash"):
        return call("Bash", command="echo ran >> ran.txt", description="leave a trace")
    return call("complete", status="success", result=request.last_result("Bash"))


def asker(request: ScriptRequest) -> ScriptReply:
    """Asks once, then repeats the answer."""
    if "My answer" in request.last_user or "up" in request.last_user.rpartition("Round up or down?")[2]:
        return call("complete", status="success", result="Understood.")
    return call("complete", status="needs_user_input", result="Round up or down?", options=["up", "down"])


@pytest.fixture
def shop(place: Place) -> Place:
    put_pieces(place)
    return place


def runs(place: Place) -> int:
    """How often the command ran."""
    trace = place.workspace / "ran.txt"
    return len(trace.read_text().splitlines()) if trace.exists() else 0


async def test_an_approved_call_runs_once_though_both_processes_died_while_it_was_asked(shop: Place) -> None:
    with serve_in_thread(shell) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            ids = await it.start(piece="one")
            asked = await it.question()
            assert asked["params"]["message"].endswith(" · work] Bash: echo ran >> ran.txt. Allow?")
            engine = await it.engine_pid()
            it.client.kill()
            await until(lambda: not alive(engine))
        async with editor(shop) as it:
            asked = await it.question()
            it.choose(asked, "Allow once")
            await it.changed(ids["jobId"], "succeeded")
        before, after = (body["messages"] for body in model.bodies())
    assert after[: len(before)] == before, "the conversation goes on, message for message"
    assert [message["role"] for message in after[len(before) :]] == ["assistant", "tool"]
    assert runs(shop) == 1


async def test_a_declined_call_comes_back_to_the_model_with_the_note(shop: Place) -> None:
    with serve_in_thread(shell) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            ids = await it.start(piece="one")
            await it.question()
            request = (await it.command("task.show", jobId=ids["jobId"]))["openRequests"][0]
            note = "Not on this machine."
            settled = await it.command("request.decide", requestId=request, decision="deny", note=note)
            assert settled == {"settled": True}
            await it.changed(ids["jobId"], "succeeded")
            detail = await it.command("task.show", jobId=ids["jobId"])
            assert note in detail["result"] and detail["requests"][0]["settled"]["note"] == note
    assert runs(shop) == 0


async def test_deny_by_button_is_an_answer_too(shop: Place) -> None:
    with serve_in_thread(shell) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            ids = await it.start(piece="one")
            it.choose(await it.question(), "Deny")
            await it.changed(ids["jobId"], "succeeded")
            assert it.events("decision")[0]["decision"] == "deny"
    assert runs(shop) == 0


async def test_another_client_answers_and_the_first_ones_prompt_has_no_effect_any_more(shop: Place) -> None:
    with serve_in_thread(shell) as model:
        shop.endpoint = model.base_url
        async with editor(shop, name="vscode") as one, editor(shop, name="nvim") as other:
            ids = await one.start(piece="one")
            mine, theirs = await one.question(), await other.question()
            assert mine["params"] == theirs["params"]
            other.choose(theirs, "Deny")
            await one.changed(ids["jobId"], "queued")
            one.choose(mine, "Allow once")
            await one.changed(ids["jobId"], "succeeded")
            detail = await one.command("task.show", jobId=ids["jobId"])
            assert detail["requests"][0]["settled"]["by"] == "nvim"
            with pytest.raises(RpcError) as late:
                request = detail["requests"][0]["requestId"]
                await one.command("request.decide", requestId=request, decision="allow")
            assert late.value.code == 4003 and late.value.data["decision"] == "deny"
            assert runs(shop) == 0
            assert len(one.client.received("window/showMessage")) == 1, "only the end is told"


async def test_a_second_editor_is_told_of_changes_but_not_of_ends_that_are_not_its_own(shop: Place) -> None:
    with serve_in_thread(lambda _: call("complete", status="success", result="Done it.")) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as one, editor(shop, name="nvim") as other:
            await other.changed((await other.start(piece="one"))["jobId"], "succeeded")
            await other.seen("window/showMessage")
            ids = await one.start(piece="one")
            assert (await other.changed(ids["jobId"], "queued"))["piece"] == "one"
            await other.changed(ids["jobId"], "succeeded")
            await one.seen("window/showMessage")
            assert await other.command("status")
            assert len(other.client.received("window/showMessage")) == 1
            assert ids["jobId"] not in {event["jobId"] for event in other.events()}, "it does not watch"


NO_ANSWERS: list[dict[str, Any]] = [
    {"result": None},
    {"result": {"title": "Later"}},
    {"result": {"title": "Allow once"}},
    {"result": {"title": None}},
    {"result": "up"},
    {"result": {}},
    {"error": {"code": -32601, "message": "no such method"}},
    {"error": {"code": -32603, "message": "boom"}},
]


@pytest.mark.fault("C: diff closed without a decision", neighbour=True)
async def test_what_is_no_answer_leaves_the_request_open_without_a_word(shop: Place) -> None:
    with serve_in_thread(asker) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            for answer in NO_ANSWERS:
                job = (await it.start(piece="one"))["jobId"]
                asked = await it.question()
                it.client.send({"jsonrpc": "2.0", "id": asked["id"], **answer})
                await it.command("status")
                detail = await it.command("task.show", jobId=job)
                assert (detail["status"], len(detail["openRequests"])) == ("waiting_human", 1), answer
                assert it.client.received("window/showMessage") == [], answer
                await it.command("task.watch", jobId=job, on=False)
                await it.command("task.answer", jobId=job, text="My answer")
                await it.changed(job, "succeeded")


async def test_requests_are_asked_one_at_a_time_in_their_order(shop: Place) -> None:
    with serve_in_thread(asker) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            jobs = []
            for title in ("first", "second", "third"):
                jobs.append((await it.start(title, piece="one"))["jobId"])
                await it.changed(jobs[-1], "waiting_human")
            asked = it.client.received("window/showMessageRequest")
            assert len(asked) == 1, "the others wait for their turn"
            it.choose(await _first(it), "up")
            await it.question()
            # settled by another way: the next one comes at once
            await it.command("task.answer", jobId=jobs[1], text="My answer")
            await it.question()
            await it.command("task.answer", jobId=jobs[2], text="My answer")
            for job in jobs:
                await it.until(job, "succeeded")


async def _first(it: Editor) -> Any:
    return next(m for m in it.client.messages if m.get("method") == "window/showMessageRequest")


async def test_a_cancelled_job_makes_way_for_the_next_request(shop: Place) -> None:
    with serve_in_thread(asker) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            one = (await it.start("first", piece="one"))["jobId"]
            await it.question()
            two = (await it.start("second", piece="one"))["jobId"]
            await it.changed(two, "waiting_human")
            await it.command("task.cancel", jobId=one)
            it.choose(await it.question(), "up")
            await it.changed(two, "succeeded")
            assert (await it.command("task.show", jobId=one))["status"] == "cancelled"


async def test_an_option_that_looks_like_a_button_of_ours_is_never_taken_for_it(shop: Place) -> None:
    def tricky(request: ScriptRequest) -> ScriptReply:
        if "Later" in request.last_user:
            return call("complete", status="success", result="ok")
        options = ["Later", "Answer…", "Allow once", "yes\nAllow once", "", "yes\nAllow once"]
        return call("complete", status="needs_user_input", result="a\n\n[b](c)\u202e?", options=options)

    with serve_in_thread(tricky) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            ids = await it.start(piece="one")
            asked = await it.question()
            assert asked["params"]["message"].endswith("] a [b] (c)?")
            assert titles(asked) == ["yes Allow once", "Answer…", "Later"]
            it.choose(asked, "Later")
            assert (await it.command("task.show", jobId=ids["jobId"]))["status"] == "waiting_human"


async def test_an_answer_is_written_in_a_document_and_taken_when_it_is_saved(shop: Place) -> None:
    with serve_in_thread(asker) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            ids = await it.start(piece="one")
            it.choose(await it.question(), "Answer…")
            shown = (await it.seen("window/showDocument"))["params"]
            path = shop.workspace / ".maestro" / "tasks" / ids["taskId"] / "ASK.md"
            assert shown["uri"] == path.as_uri() and shown["takeFocus"] is True
            text = path.read_text()
            assert "Round up or down?" in text and "- up" in text
            document = {"uri": path.as_uri()}
            it.client.notify(
                "textDocument/didOpen",
                {"textDocument": {**document, "languageId": "markdown", "version": 1, "text": text}},
            )
            it.client.notify("textDocument/didSave", {"textDocument": document})
            detail = await it.command("task.show", jobId=ids["jobId"])
            assert detail["status"] == "waiting_human", "nothing was written below the line yet"
            change = [{"text": text + "My answer\n\nover two lines\n"}]
            versioned = {**document, "version": 2}
            it.client.notify("textDocument/didChange", {"textDocument": versioned, "contentChanges": change})
            it.client.notify("textDocument/didSave", {"textDocument": document})
            await it.changed(ids["jobId"], "succeeded")
            detail = await it.command("task.show", jobId=ids["jobId"])
            assert detail["requests"][0]["settled"]["text"] == "My answer\n\nover two lines"
            it.client.notify("textDocument/didSave", {"textDocument": document})
            told = await it.seen("window/showMessage", lambda p: "answered" in p["message"])
            assert told["params"]["type"] == 3


async def test_a_saved_document_counts_though_the_client_never_opened_it(shop: Place) -> None:
    with serve_in_thread(asker) as model:
        shop.endpoint = model.base_url
        async with editor(shop, capabilities={}) as it:
            ids = await it.start(piece="one")
            it.choose(await it.question(), "Answer…")
            told = (await it.seen("window/showMessage"))["params"]["message"]
            assert f".maestro/tasks/{ids['taskId']}/ASK.md" in told, (
                "a client that cannot open it is told where"
            )
            path = shop.workspace / ".maestro" / "tasks" / ids["taskId"] / "ASK.md"
            path.write_text(path.read_text() + "My answer")
            it.client.notify("textDocument/didSave", {"textDocument": {"uri": path.as_uri()}})
            await it.changed(ids["jobId"], "succeeded")


async def test_a_link_in_place_of_the_task_folder_is_not_written_through(shop: Place, tmp_path: Path) -> None:
    with serve_in_thread(asker) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            ids = await it.start(piece="one")
            asked = await it.question()
            folder = shop.workspace / ".maestro" / "tasks" / ids["taskId"]
            elsewhere = tmp_path / "elsewhere"
            folder.rename(elsewhere)
            folder.symlink_to(elsewhere)
            it.choose(asked, "Answer…")
            told = (await it.seen("window/showMessage"))["params"]
            assert told["type"] == 1 and "is a link" in told["message"]
            assert not (elsewhere / "ASK.md").exists()


async def test_details_are_a_page_to_read_and_the_request_is_asked_again(shop: Place) -> None:
    (shop.workspace / "price.py").write_text("a = 1\n")

    def edit(request: ScriptRequest) -> ScriptReply:
        if not request.results("Read"):
            return call("Read", file_path="price.py")
        if not request.results("Edit"):
            return call("Edit", file_path="price.py", old_string="a = 1", new_string="a = 2\n```")
        return call("complete", status="success", result="ok")

    with serve_in_thread(edit) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            ids = await it.start(piece="one")
            first = await it.question()
            it.choose(first, "Show details")
            shown = (await it.seen("window/showDocument"))["params"]
            page = Path(shown["uri"].removeprefix("file://"))
            assert page.parent == shop.workspace / ".maestro" / "tasks" / ids["taskId"] / "logs"
            text = page.read_text()
            assert "-a = 1" in text and "+a = 2" in text and "Mode ask asks about every change." in text
            assert "````diff" in text, "the fence is longer than any in the diff"
            assert stat.S_IMODE(page.stat().st_mode) == 0o444
            again = await it.question()
            assert again["params"] == first["params"] and again["id"] != first["id"]
            it.choose(again, "Allow for this task")
            await it.changed(ids["jobId"], "succeeded")
            rules = (await it.command("rules.list"))["rules"]
            assert [rule["scope"] for rule in rules] == ["task"]
            assert await it.command("rules.remove", id=rules[0]["id"]) == {}
            assert (await it.command("rules.list"))["rules"] == []


async def test_a_client_with_its_own_approval_gets_the_whole_request(shop: Place) -> None:
    capabilities = {**PLAIN, "experimental": {"maestro": {"approve": True, "input": True}}}
    with serve_in_thread(shell) as model:
        shop.endpoint = model.base_url
        async with editor(shop, capabilities=capabilities) as it:
            it.client.handlers["maestro/approve"] = lambda _: {"decision": "deny", "note": "Not now."}
            ids = await it.start(piece="one")
            asked = (await it.seen("maestro/approve"))["params"]
            assert asked["tool"] == "Bash" and asked["arguments"]["command"] == "echo ran >> ran.txt"
            assert asked["why"] == "Mode ask asks about every command." and asked["jobId"] == ids["jobId"]
            await it.changed(ids["jobId"], "succeeded")
            assert "Not now." in (await it.command("task.show", jobId=ids["jobId"]))["result"]
            assert it.client.received("window/showMessageRequest") == []


@pytest.mark.fault("C: diff closed without a decision")
async def test_an_odd_answer_to_our_own_requests_is_no_answer(shop: Place) -> None:
    capabilities = {"experimental": {"maestro": {"approve": True}}}
    odd = iter([None, {}, {"decision": "yes"}, "allow", {"decision": True}, {"decision": "deny", "note": 5}])
    with serve_in_thread(shell) as model:
        shop.endpoint = model.base_url
        async with editor(
            shop, capabilities=capabilities, handlers={"maestro/approve": lambda _: next(odd)}
        ) as it:
            for _ in range(6):
                job = (await it.start(piece="one"))["jobId"]
                await it.seen("maestro/approve")
                await it.command("status")
                assert (await it.command("task.show", jobId=job))["status"] == "waiting_human"
    assert runs(shop) == 0


async def test_a_client_with_its_own_input_is_asked_for_text(shop: Place) -> None:
    capabilities = {"experimental": {"maestro": {"input": True}}}
    with serve_in_thread(asker) as model:
        shop.endpoint = model.base_url
        async with editor(shop, capabilities=capabilities) as it:
            it.client.handlers["maestro/input"] = lambda _: {"text": "My answer"}
            ids = await it.start(piece="one")
            asked = (await it.seen("maestro/input"))["params"]
            request = asked.pop("requestId")
            assert asked == {
                "jobId": ids["jobId"],
                "prompt": "Round up or down?",
                "options": ["up", "down"],
                "multiline": True,
            }
            await it.changed(ids["jobId"], "succeeded")
            detail = await it.command("task.show", jobId=ids["jobId"])
            assert detail["requests"][0]["requestId"] == request


async def test_a_client_that_promised_too_much_is_asked_the_plain_way(shop: Place) -> None:
    capabilities = {"experimental": {"maestro": {"input": True}}}
    with serve_in_thread(asker) as model:
        shop.endpoint = model.base_url
        async with editor(shop, capabilities=capabilities) as it:
            ids = await it.start(piece="one")
            it.choose(await it.question(), "up")
            await it.changed(ids["jobId"], "succeeded")


def writer(request: ScriptRequest) -> ScriptReply:
    """Edits a file, then ends."""
    if not request.results("Edit"):
        return call("Edit", file_path="a.txt", old_string="one", new_string="two")
    return call("complete", status="success", result="done")


@pytest.mark.fault("C: diff closed without a decision")
async def test_a_diff_that_was_put_away_is_neither_allowed_nor_denied_and_comes_again(shop: Place) -> None:
    (shop.workspace / "a.txt").write_text("one\n")
    with serve_in_thread(writer) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            job = (await it.start(piece="one", mode="ask"))["jobId"]
            it.choose(await it.question(), None)
            await it.command("status")
            detail = await it.command("task.show", jobId=job)
            assert (detail["status"], len(detail["openRequests"])) == ("waiting_human", 1)
            assert await it.client.shut_down(within=5.0) == 0
        assert (shop.workspace / "a.txt").read_text() == "one\n" and len(model.bodies()) == 1
        async with editor(shop) as it:
            it.choose(await it.question(), "Allow once")
            await it.changed(job, "succeeded")
    assert (shop.workspace / "a.txt").read_text() == "two\n"


@pytest.mark.fault("C: diff closed without a decision")
async def test_an_unanswered_prompt_does_not_hold_up_the_end_of_the_server(shop: Place) -> None:
    with serve_in_thread(asker) as model:
        shop.endpoint = model.base_url
        async with editor(shop) as it:
            it.client.handlers["window/showMessageRequest"] = lambda _: NO_ANSWER
            await it.start(piece="one")
            await it.question()
            assert await it.client.shut_down(within=3.0) == 0
