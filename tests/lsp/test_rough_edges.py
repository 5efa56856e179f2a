"""Where a server is rarely trodden: odd numbers and URIs, secrets in the wrong place, a disk that fails, an
engine process that hangs, a log that was asked for, commands too long for a title.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import Request, catalogue
from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from maestro_lsp.convert import path_of
from maestro_lsp.display import action, public_url, told
from tests.lsp.driver import SERVER, Place, alive, editor, titles
from tests.lsp.pieces import put_pieces
from tests.lsp.raw_client import RawClient, RpcError
from tests.lsp.tiny import content, until

pytestmark = pytest.mark.slow

LONG = " && ".join(f"echo step-{number}" for number in range(90)) + " && rm -r $HOME/all"
WHY = {"en": "the model asked", "ja": "モデルからの質問です"}


def asks(request: ScriptRequest) -> ScriptReply:
    """A question until it is answered, then the end."""
    if request.contains("ANSWERED"):
        return call("complete", status="success", result="All is well.")
    return call("complete", status="needs_user_input", result="Up or down?", options=["up", "ANSWERED"])


def runs_something_long(request: ScriptRequest) -> ScriptReply:
    """A command that no title can hold."""
    if not request.results("Bash"):
        return call("Bash", command=LONG)
    return call("complete", status="success", result="All is well.")


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_every_request_on_the_wire_says_why_in_the_clients_language(
    place: Place, language: str
) -> None:
    put_pieces(place)
    with serve_in_thread(asks) as server:
        place.endpoint = server.base_url
        async with editor(place, locale=language) as it:
            job_id = (await it.start(piece="one"))["jobId"]
            await it.question()
            shown = await it.command("task.show", jobId=job_id)
            stored = await it.command("task.events", jobId=job_id)
            events = [*it.events("request"), *(e for e in stored["events"] if e["kind"] == "request")]
    requests = [*shown["requests"], *(event["request"] for event in events)]
    assert [request["why"] for request in requests] == [WHY[language]] * 3
    assert all(request["title"] == "Up or down?" for request in requests)


async def test_numbers_that_no_store_can_hold_are_wrong_arguments(place: Place) -> None:
    async with editor(place) as it:
        for name, params in (
            ("task.list", {"limit": 10**30}),
            ("task.events", {"jobId": "j-1", "after": 2**63}),
        ):
            with pytest.raises(RpcError) as refused:
                await it.command(name, **params)
            assert refused.value.code == -32602


async def test_half_a_surrogate_pair_names_nothing(place: Place) -> None:
    async with editor(place) as it:
        with pytest.raises(RpcError) as refused:
            await it.command("task.show", jobId="j-\ud83d")
    assert (refused.value.code, refused.value.data) == (4001, {"id": "j-\ufffd"})


async def test_a_late_answer_is_told_the_winner_in_one_sentence_however_long_it_was(place: Place) -> None:
    put_pieces(place)
    winner = "ANSWERED " + "あ" * 20_000
    with serve_in_thread(asks) as server:
        place.endpoint = server.base_url
        async with editor(place) as it:
            job_id = (await it.start(piece="one"))["jobId"]
            await it.question()
            [request_id] = (await it.command("task.show", jobId=job_id))["openRequests"]
            await it.command("task.answer", jobId=job_id, requestId=request_id, text=winner)
            with pytest.raises(RpcError) as late:
                await it.command("task.answer", jobId=job_id, requestId=request_id, text="up")
    assert late.value.code == 4003
    assert len(late.value.message) <= 600 and late.value.message.startswith("This question was answered")
    assert late.value.data["text"] == winner


async def test_a_password_in_the_endpoint_is_never_shown(place: Place) -> None:
    place.endpoint = "http://me:hunter2@127.0.0.1:9/v1"
    async with editor(place) as it:
        told = [await it.command("status"), await it.command("model.list")]
    assert "hunter2" not in str(told)
    assert told[0]["model"]["endpoint"] == "http://…127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ("https://me:p@ss@host/v1?key=secret", "https://…host/v1"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_what_may_be_a_secret(url: str, shown: str) -> None:
    assert public_url(url) == shown


async def test_an_engine_process_that_hangs_does_not_outlive_the_server(place: Place) -> None:
    put_pieces(place)
    with serve_in_thread(asks) as server:
        place.endpoint = server.base_url
        async with editor(place) as it:
            await it.start(piece="one")
            await it.question()
            engine = await it.engine_pid()
            os.kill(engine, signal.SIGSTOP)
            await it.client.request("shutdown")
            it.client.notify("exit")
            await until(lambda: not alive(it.client.process.pid))
            await until(lambda: not alive(engine))


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///tmp/a%20b", "/tmp/a b"),
        ("file://localhost/tmp/a", "/tmp/a"),
        ("FILE:///tmp/a", "/tmp/a"),
        ("file:/tmp/a", "/tmp/a"),
        ("file:///tmp/%00", None),
        ("untitled:a", None),
        ("/tmp/a", None),
        ("", None),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="paths of Unix")
def test_the_file_of_a_uri(uri: str, path: str | None) -> None:
    assert path_of(uri) == (None if path is None else Path(path))


@pytest.mark.parametrize(
    ("uri", "says"),
    [("", "No folder is open"), ("file:///tmp/%00", "The workspace file:///tmp/%00 is not a folder")],
)
async def test_a_workspace_that_is_none_is_told_in_one_sentence(place: Place, uri: str, says: str) -> None:
    async with editor(place, rootUri=uri) as it:
        assert (await it.next("window/showMessage"))["params"]["message"].startswith(says)
        with pytest.raises(RpcError) as refused:
            await it.command("status")
    assert refused.value.code == 4005


async def test_a_folder_that_the_system_refuses_is_named(place: Place) -> None:
    """As one that is closed to this user; a name that is too long fails for an administrator too."""
    place.state.mkdir()
    place.state = place.state / ("x" * 300)
    async with editor(place) as it:
        with pytest.raises(RpcError) as refused:
            await it.command("status")
    assert "x" * 300 in refused.value.message


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process")
async def test_an_answer_that_cannot_be_stored_is_told_and_asked_for_again(place: Place) -> None:
    put_pieces(place)
    with serve_in_thread(asks) as server:
        place.endpoint = server.base_url
        async with editor(place) as it:
            await it.start(piece="one")
            asked = await it.question()
            _, hard = resource.prlimit(it.client.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(it.client.process.pid, resource.RLIMIT_FSIZE, (0, hard))
            it.choose(asked, "ANSWERED")
            failed = await it.seen("window/showMessage")
            assert "store.db" in failed["params"]["message"] and failed["params"]["type"] == 1
            resource.prlimit(it.client.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
            again = await it.question()
            assert titles(again) == titles(asked)
            it.choose(again, "ANSWERED")
            ended = await it.seen("window/showMessage")
    assert ended["params"]["message"].endswith("Done: All is well.")


async def test_a_command_too_long_for_a_title_is_approved_with_both_its_ends_in_sight(place: Place) -> None:
    put_pieces(place)
    with serve_in_thread(runs_something_long) as server:
        place.endpoint = server.base_url
        async with editor(place) as it:
            await it.start(piece="one")
            asked = await it.question()
            message = asked["params"]["message"]
            assert "Bash: echo step-0 && echo step-1" in message
            assert message.endswith("&& rm -r $HOME/all. Allow?") and len(message) <= 600
            shutil.rmtree(place.workspace / ".maestro" / "tasks")
            (place.workspace / ".maestro" / "tasks").write_text("in the way")
            it.choose(asked, "Show details")
            told = (await it.seen("window/showMessage"))["params"]["message"]
            assert "The details cannot be shown" in told and "maestro.task.answer" not in told
            assert titles(await it.question()) == titles(asked)


def _request(**fields: Any) -> Request:
    return Request(
        request_id="r-1", job_id="j-1", task_id="t-1", reason="approval", created_at="now", **fields
    )


def test_the_action_of_other_tools_is_their_title() -> None:
    assert action(_request(title="Write a (new)", tool="Write", arguments={"command": "x"})) == (
        "Write a (new)"
    )
    assert action(_request(title="Bash: a…", tool="Bash", arguments={"command": "a\nb"})) == "Bash: a\nb"


def test_a_key_that_the_catalogue_does_not_know_leaves_the_engines_words() -> None:
    request = told(_request(title="T", why="because", why_key="why.of_an_addition"), catalogue("en"))
    assert (request.title, request.why, request.rule) == ("T", "because", None)


@pytest.mark.parametrize(("level", "told"), [("info", True), ("error", False)])
async def test_the_log_file_holds_the_engines_log_too_from_the_level_on(
    place: Place, tmp_path: Path, level: str, told: bool
) -> None:
    put_pieces(place)
    log = tmp_path / "server.log"
    with serve_in_thread(asks) as server:
        place.endpoint = server.base_url
        argv = [*SERVER, "--log-file", str(log), "--log-level", level]
        async with RawClient.spawn(argv, env=place.environment(), cwd=place.workspace) as client:
            await client.initialize({}, rootUri=place.workspace.as_uri(), initializationOptions={})
            await client.command("maestro.workspace.trust", {"trusted": True})
            await client.command("maestro.task.start", {"instruction": "Do it", "piece": "one"})
            await client.wait_for(lambda m: m.get("method") == "window/showMessageRequest", within=10)
            if told:
                await until(lambda: "[llm-stream]" in content(log))
            assert client.stderr == ""
    assert ("engine process" in content(log)) is told
    assert ("[llm-stream]" in content(log)) is told
