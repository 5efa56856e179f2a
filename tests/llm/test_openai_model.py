"""The model connection over real HTTP: bytes sent, replies, retries, faults, time-outs, cancel."""

import asyncio
import contextlib
import http.server
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import ContextOverflow, ModelFault
from engine.core.messages import encode_assistant, encode_message, encode_tool_result
from engine.core.reply import Delta, Finish, Reply
from engine.llm.openai import OpenAIModel
from engine.llm.scripted import Queue, ScriptedServer, ScriptReply, ServerOptions, call, say
from engine.llm.worker_config import ModelWorker
from engine.ports import Model, ModelRequest

ROOT = Path(__file__).parents[2]
KEY = "sk-test-4f5g6h7j8k9l0m1n2b3v"
TOOLS = b'[{"type": "function", "function": {"name":"Read","description":"\xe8\xaa\xad\xe3\x82\x80"}}]'
MESSAGES = (encode_message("system", "Sei vorsichtig."), encode_message("user", "読んで"))


class Waits:
    """A sleep that takes no time and remembers what was asked."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


class Talk:
    """A model, and what it showed, waited and retried."""

    def __init__(self, url: str, **fields: Any) -> None:
        self.waits = Waits()
        self.deltas: list[Delta] = []
        self.retried: list[str] = []
        worker = ModelWorker("w", url, fields.pop("model", "scripted"), **{"timeout_s": 10, **fields})
        self.model = OpenAIModel(
            worker, sleep=self.waits, on_retry=lambda fault, _wait: self.retried.append(fault.key)
        )

    async def ask(self, messages: Any = MESSAGES, tools: bytes = TOOLS, **fields: Any) -> Reply:
        async with asyncio.timeout(20):
            return await self.model.reply(ModelRequest(messages, tools, **fields), self.deltas.append)

    async def fault(self, **fields: Any) -> ModelFault:
        with pytest.raises(ModelFault) as caught:
            await self.ask(**fields)
        return caught.value


@pytest.fixture
async def talk() -> AsyncIterator[Callable[..., Talk]]:
    """Makes talks with a server; closes their connections."""
    talks: list[Talk] = []

    def make(server: ScriptedServer | str, **fields: Any) -> Talk:
        talks.append(Talk(server if isinstance(server, str) else server.base_url, **fields))
        return talks[-1]

    yield make
    for one in talks:
        await one.model.aclose()


def conforms(model: OpenAIModel) -> Model:
    """The assignment is the proof that the port is implemented."""
    return model


def test_httpx_is_loaded_with_the_first_request_and_not_before() -> None:
    code = "import sys, engine.llm.openai, engine.llm.scripted; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=30, check=False).returncode == 0


async def test_a_streamed_reply_arrives_whole_and_in_pieces(talk: Callable[..., Talk]) -> None:
    reply = ScriptReply(text="読みます。", reasoning="hmm", calls=(("Read", {"path": "日本.md"}),))
    async with ScriptedServer([reply]) as server:
        one = talk(server)
        got = await one.ask()
    assert (got.text, got.reasoning, got.finish, got.model) == ("読みます。", "hmm", Finish.STOP, "scripted")
    assert [(c.name, c.arguments, c.raw) for c in got.calls] == [
        ("Read", {"path": "日本.md"}, '{"path":"日本.md"}')
    ]
    assert "".join(delta.text for delta in one.deltas) == got.text
    assert "".join(delta.reasoning for delta in one.deltas) == "hmm"
    assert got.usage.prompt_tokens and got.usage.completion_tokens and got.usage.cached_tokens == 0
    assert 0 < got.seconds < 20


async def test_messages_and_tools_are_sent_as_the_very_bytes_given(talk: Callable[..., Talk]) -> None:
    odd = (b'{"role": "system",  "content":"\\u0041"}', MESSAGES[1])
    async with ScriptedServer([say("x")]) as server:
        one = talk(server, temperature=0.5, max_tokens=9, extra_body={"top_k": 3})
        await one.ask(odd, tool_choice="required")
        await one.ask(odd, b"[]")
    first, second = server.requests
    assert b'"messages":[' + b",".join(odd) + b"]" in first and b'"tools":' + TOOLS in first
    assert first.endswith(b',"tool_choice":"required"}'), "what changes stands at the end"
    parsed = json.loads(first)
    assert (parsed["temperature"], parsed["max_tokens"], parsed["top_k"]) == (0.5, 9, 3)
    assert parsed["stream"] is True and parsed["stream_options"] == {"include_usage": True}
    assert "tools" not in json.loads(second) and "tool_choice" not in json.loads(second)


async def test_append_only_requests_reuse_the_whole_previous_prompt(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer([call("Read", path="a"), say("done")]) as server:
        one = talk(server)
        first = await one.ask()
        result = encode_tool_result(first.calls[0].call_id, "text")
        second = await one.ask((*MESSAGES, encode_assistant(first), result))
    assert second.usage.cached_tokens == first.usage.prompt_tokens
    head = server.requests[0].removesuffix(b"]}")
    assert server.requests[1].startswith(head)


async def test_ids_are_unique_although_the_server_counts_them(talk: Callable[..., Talk]) -> None:
    two = ScriptReply(calls=(("Read", {}), ("Read", {})))
    async with ScriptedServer(lambda request: two) as server:
        one = talk(server)
        ids = [c.call_id for _ in range(3) for c in (await one.ask()).calls]
    assert len(set(ids)) == 6 and all(len(call_id) == 9 and call_id.isalnum() for call_id in ids)


async def test_a_random_id_of_the_server_stays_unless_the_job_has_used_it(
    talk: Callable[..., Talk],
) -> None:
    given = "call_Ab3dE5gH1jK2mN4p"
    entry = {"index": 0, "id": given, "function": {"name": "Read", "arguments": "{}"}}
    raw = sse({"choices": [{"delta": {"tool_calls": [entry]}, "finish_reason": "tool_calls"}]})
    async with ScriptedServer(lambda request: ScriptReply(raw_chunks=raw)) as server:
        one = talk(server)
        first = await one.ask()
        second = await one.ask(taken={given})
    assert first.calls[0].call_id == given and second.calls[0].call_id != given


def sse(*chunks: Any) -> tuple[bytes, ...]:
    return (*(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks), b"data: [DONE]\n\n")


CHUNK = {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}
BODY = json.dumps({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}).encode()


@pytest.mark.parametrize(
    "reply",
    [
        ScriptReply(raw_chunks=sse(CHUNK), content_type=None),
        ScriptReply(raw_chunks=sse(CHUNK), content_type="application/json"),
        ScriptReply(raw_chunks=(BODY[:9], BODY[9:]), content_type="application/json"),
        ScriptReply(raw_chunks=(BODY,), content_type=None),
        ScriptReply(raw_chunks=sse(CHUNK), close_delimited=True),
        ScriptReply(raw_chunks=(b": ping\n\n",) * 3 + sse(CHUNK)),
        ScriptReply(raw_chunks=sse(CHUNK), drop_after=len(sse(CHUNK)[0])),
        ScriptReply(raw_chunks=sse(CHUNK), drop_after=len(sse(CHUNK)[0]), reset=True),
    ],
)
async def test_a_whole_reply_is_taken_whatever_carries_it(
    talk: Callable[..., Talk], reply: ScriptReply
) -> None:
    async with ScriptedServer(Queue([reply])) as server:
        one = talk(server)
        assert (await one.ask()).text == "ok"
    assert one.waits.seconds == [], "it was not sent again"


HALF_CALL = {
    "choices": [
        {
            "delta": {
                "tool_calls": [
                    {"index": 0, "id": "a", "function": {"name": "Read", "arguments": '{"path":"x"}'}}
                ]
            }
        }
    ]
}
CUTS = {
    "half a data line": ScriptReply(text="word " * 60, drop_after=700),
    "half a data line, connection closed as its end": ScriptReply(
        text="word " * 60, drop_after=700, close_delimited=True
    ),
    "a whole call before the finish reason": ScriptReply(raw_chunks=sse(HALF_CALL)[:1]),
    "a reset": ScriptReply(text="word " * 60, drop_after=700, reset=True),
    "nothing but the head": ScriptReply(text="x", drop_after=0),
    "an error inside": ScriptReply(raw_chunks=sse({"error": {"message": "boom", "code": 500}})),
    "a finish reason of a broken server": ScriptReply(text="x", finish="error"),
}


@pytest.mark.parametrize("cut", CUTS)
async def test_a_stream_that_breaks_off_is_asked_for_again_as_a_whole(
    talk: Callable[..., Talk], cut: str
) -> None:
    async with ScriptedServer(Queue([CUTS[cut], CUTS[cut], call("Read", path="y")])) as server:
        one = talk(server)
        reply = await one.ask()
    assert [c.arguments for c in reply.calls] == [{"path": "y"}] and reply.text == ""
    assert one.waits.seconds == [2, 5] and len(set(server.requests)) == 1
    if any(delta.text for delta in one.deltas):
        assert Delta() in one.deltas, "who shows the text is told that it begins anew"


async def test_retries_end_and_the_last_fault_is_told(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer(lambda request: ScriptReply(status=503, text="busy")) as server:
        one = talk(server)
        fault = await one.fault()
    assert (fault.key, fault.retryable, fault.values["detail"]) == ("model.server_error", True, "busy")
    assert one.waits.seconds == [2, 5, 15] and one.retried == ["model.server_error"] * 3
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("status", "headers", "waited"),
    [
        (429, {"retry-after": "30"}, [30]),
        (429, {"retry-after": "999"}, [60]),
        (500, {}, [2]),
        (429, {"retry-after": "0"}, [2]),
    ],
)
async def test_retry_after_is_honoured_up_to_a_cap(
    talk: Callable[..., Talk], status: int, headers: dict[str, str], waited: list[float]
) -> None:
    async with ScriptedServer(Queue([ScriptReply(status=status, headers=headers), say("ok")])) as server:
        one = talk(server)
        assert (await one.ask()).text == "ok"
    assert one.waits.seconds == waited


@pytest.mark.parametrize(
    ("status", "key"), [(401, "model.bad_key"), (403, "model.forbidden"), (400, "model.bad_request")]
)
async def test_a_refusal_is_not_retried_and_shows_no_secret(
    talk: Callable[..., Talk], status: int, key: str
) -> None:
    text = f"your header was authorization: Bearer {KEY} and x-team: hush-hush-7"
    async with ScriptedServer(lambda request: ScriptReply(status=status, text=text)) as server:
        one = talk(server, api_key=KEY, headers={"X-Team": "hush-hush-7"})
        fault = await one.fault(first_of_run=True)
    assert (fault.key, one.waits.seconds, len(server.requests)) == (key, [], 1)
    assert KEY not in f"{fault} {fault.data}" and "hush-hush" not in f"{fault} {fault.data}"


async def test_the_key_is_sent_as_a_bearer_token(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer([say("ok")], options=ServerOptions(api_key=KEY)) as server:
        assert (await talk(server, api_key=KEY + "\n").ask()).text == "ok"
        assert (await talk(server).fault()).key == "model.key_missing"
        assert (await talk(server, api_key="other").fault()).key == "model.bad_key"


async def test_an_unknown_model_is_told_with_those_that_the_server_lists(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer(
        [say("ok")], options=ServerOptions(listed_only=True, models=("a", "b"))
    ) as server:
        fault = await talk(server, model="c").fault(first_of_run=True)
        assert (await talk(server, model="c").ask(model="b")).text == "ok"
    assert (fault.key, fault.values["model"], fault.values["known"]) == ("model.unknown_model", "c", "a, b")


async def test_a_wrong_path_is_told_as_one(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer(lambda request: ScriptReply(status=404, body=b"", text="")) as server:
        assert (await talk(server).fault()).key == "model.not_found"


async def test_a_redirect_is_not_followed_and_the_key_stays_home(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer([say("stolen")]) as thief:
        to = {"location": thief.base_url + "/chat/completions?key=1"}
        async with ScriptedServer(lambda request: ScriptReply(status=307, headers=to)) as server:
            fault = await talk(server, api_key=KEY).fault()
        assert thief.requests == []
    assert fault.key == "model.redirect" and fault.values["location"] == to["location"].split("?")[0]


async def test_proxy_settings_of_the_environment_are_not_used(
    talk: Callable[..., Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    async with ScriptedServer([say("ok")]) as server:
        assert (await talk(server).ask()).text == "ok"


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_refused_connection_fails_at_once_on_the_first_request_of_a_run(
    talk: Callable[..., Talk],
) -> None:
    one = talk(f"http://127.0.0.1:{closed_port()}")
    assert (await one.fault(first_of_run=True)).key == "model.refused"
    assert one.waits.seconds == []
    assert (await one.fault()).key == "model.refused"
    assert one.waits.seconds == [2, 5, 15]


async def test_an_unknown_host_fails_at_once_on_the_first_request_of_a_run(talk: Callable[..., Talk]) -> None:
    one = talk("http://no-such-host.invalid:1/v1")
    fault = await one.fault(first_of_run=True)
    assert (fault.key, fault.values["host"], one.waits.seconds) == (
        "model.unknown_host",
        "no-such-host.invalid",
        [],
    )


async def test_a_server_that_comes_back_is_used_again(talk: Callable[..., Talk]) -> None:
    port = closed_port()
    async with contextlib.AsyncExitStack() as stack:
        one = talk(f"http://127.0.0.1:{port}/v1")

        async def start_at_the_second_wait(seconds: float) -> None:
            one.waits.seconds.append(seconds)
            if len(one.waits.seconds) == 2:
                await stack.enter_async_context(ScriptedServer([say("ok")], port))

        one.model._sleep = start_at_the_second_wait
        assert (await one.ask()).text == "ok"
    assert one.waits.seconds == [2, 5]


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        (
            {
                "error": {
                    "code": 400,
                    "type": "exceed_context_size_error",
                    "message": "exceeds",
                    "n_ctx": 4096,
                }
            },
            4096,
        ),
        ({"error": "the input length exceeds the context length"}, None),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
async def test_a_prompt_that_is_too_long_is_told_apart_and_not_sent_again(
    talk: Callable[..., Talk], body: Any, limit: int | None, inside: bool
) -> None:
    reply = (
        ScriptReply(raw_chunks=sse(body))
        if inside
        else ScriptReply(status=400, body=json.dumps(body).encode())
    )
    async with ScriptedServer(Queue([reply])) as server:
        one = talk(server)
        fault = await one.fault()
    assert isinstance(fault, ContextOverflow) and fault.limit == limit and one.waits.seconds == []


@pytest.mark.parametrize(
    ("parameter", "status", "message"),
    [
        ("tool_choice", 400, "deepseek-reasoner does not support this tool_choice"),
        ("tool_choice", 404, "No endpoints found that support the provided 'tool_choice' value."),
        ("stream_options", 422, "Extra inputs are not permitted: stream_options"),
        ("stream_options", 400, "Unrecognized request argument supplied: stream_options"),
    ],
)
async def test_a_refused_parameter_is_learnt_once(
    talk: Callable[..., Talk], parameter: str, status: int, message: str
) -> None:
    def answer(request: Any) -> ScriptReply:
        body = json.loads(server.requests[-1])
        return ScriptReply(status=status, text=message) if parameter in body else say("ok")

    async with ScriptedServer(answer) as server:
        one = talk(server)
        for _ in range(2):
            assert (await one.ask(tool_choice="required")).text == "ok"
    sent = [json.loads(body) for body in server.requests]
    assert [parameter in body for body in sent] == [True, False, False] and one.waits.seconds == []
    other = "stream_options" if parameter == "tool_choice" else "tool_choice"
    assert all(other in body for body in sent)


async def test_a_refusal_that_goes_on_without_the_parameter_is_a_fault(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer(
        lambda request: ScriptReply(status=400, text="bad tool_choice, bad stream_options")
    ) as server:
        fault = await talk(server).fault(tool_choice="required")
    assert fault.key == "model.bad_request" and len(server.requests) == 2


async def test_silence_ends_with_a_time_out(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer([say("a b c d", delay=5)]) as server:
        one = talk(server, timeout_s=0.2, retries=1)
        fault = await one.fault()
    assert (fault.key, fault.retryable, one.waits.seconds) == ("model.timeout", True, [2])


async def test_keep_alive_comments_start_the_time_out_anew(talk: Callable[..., Talk]) -> None:
    slow = ScriptReply(raw_chunks=((b": keep-alive\n\n",) * 8 + sse(CHUNK)), delay=0.1)
    async with ScriptedServer([slow]) as server:
        one = talk(server, timeout_s=0.4, retries=0)
        assert (await one.ask()).text == "ok"


async def test_comments_alone_do_not_keep_a_request_for_ever(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer([ScriptReply(raw_chunks=(b": keep-alive\n\n",) * 500, delay=0.02)]) as server:
        one = talk(server, longest_s=0.3, retries=0)
        assert (await one.fault()).key == "model.timeout"
        await asyncio.to_thread(server.wait_aborted, 1)


async def test_a_stream_that_is_never_closed_ends_after_its_finish(
    talk: Callable[..., Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.llm.openai._GRACE_S", 0.2)
    async with ScriptedServer([ScriptReply(raw_chunks=(*sse(CHUNK), b"\n"), delay=3)]) as server:
        one = talk(server, retries=0)
        assert (await one.ask()).text == "ok"


async def test_cancel_closes_the_connection(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer([say("word " * 1000, delay=0.01)]) as server:
        one = talk(server)
        shown = asyncio.Event()
        asking = asyncio.create_task(
            one.model.reply(ModelRequest(MESSAGES, TOOLS), lambda _delta: shown.set())
        )
        await asyncio.wait_for(shown.wait(), 5)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.to_thread(server.wait_aborted, 1)


async def test_several_requests_at_once_do_not_disturb_each_other(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer(lambda request: say(request.last_user * 20)) as server:
        one = talk(server)
        asks = [one.ask((encode_message("user", str(n)),)) for n in range(20)]
        texts = [reply.text for reply in await asyncio.gather(*asks)]
    assert texts == [str(n) * 20 for n in range(20)]


@pytest.mark.parametrize(
    ("reply", "key"),
    [
        (
            ScriptReply(raw_chunks=(b"<!doctype html><title>Log in</title>",), content_type="text/html"),
            "model.web_page",
        ),
        (ScriptReply(raw_chunks=(b'{"hello":1}',), content_type="application/json"), "model.garbage"),
        (ScriptReply(raw_chunks=(b"data: " + b"x" * 1024 * 1024,) * 40), "model.too_large"),
    ],
)
async def test_what_is_no_chat_completion_is_told_as_such(
    talk: Callable[..., Talk], reply: ScriptReply, key: str
) -> None:
    async with ScriptedServer(lambda request: reply) as server:
        assert (await talk(server, retries=0).fault()).key == key


async def test_an_empty_reply_is_given_to_the_caller(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer([ScriptReply(raw_chunks=sse())]) as server:
        assert (await talk(server).ask()).empty


async def test_limit_and_slots_are_asked_from_llama_server(talk: Callable[..., Talk]) -> None:
    async with ScriptedServer([say("x")], options=ServerOptions(context=4096, slots=2)) as server:
        model = talk(server).model
        assert (await model.context_limit(), await model.slots(), await model.models()) == (
            4096,
            2,
            ("scripted",),
        )
        assert await talk(server, context_tokens=1000).model.context_limit() == 1000
    assert (await model.context_limit(), await model.slots()) == (4096, 2), "asked once"


async def test_a_kept_connection_that_the_server_has_closed_costs_no_wait(talk: Callable[..., Talk]) -> None:
    answered: list[int] = []

    async def answer_once_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Python 3.11.2 does not close the connection of a callback that raised.
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError):
            for number in range(2):
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
                if number == 0:
                    answered.append(number)
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY)

    server = await asyncio.start_server(answer_once_each, "127.0.0.1", 0)
    async with server:
        one = talk(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert [(await one.ask()).text for _ in range(2)] == ["ok", "ok"]
        await one.model.aclose()
    assert len(answered) == 2 and one.waits.seconds == []


async def test_questions_to_a_server_that_is_away_are_answered_with_nothing(
    talk: Callable[..., Talk],
) -> None:
    model = talk(f"http://127.0.0.1:{closed_port()}").model
    assert (await model.context_limit(), await model.slots(), await model.models()) == (None, 1, ())


async def test_questions_to_a_server_that_does_not_answer_end_after_two_seconds(
    talk: Callable[..., Talk],
) -> None:
    async def wait_for_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(wait_for_the_end, "127.0.0.1", 0)
    async with silent:
        model = talk(f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}").model
        async with asyncio.timeout(5):
            assert await model.context_limit() is None


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run(
        [*command, *subject, "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=60
    )
    return cert, key


class Canned(http.server.BaseHTTPRequestHandler):
    """Answers every request with the same stream."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"".join(sse(CHUNK)))

    def log_message(self, *_args: Any) -> None:
        """Says nothing."""


@contextlib.contextmanager
def tls_server(certificate: tuple[Path, Path]) -> Iterator[str]:
    """The base URL of a server with this certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    with http.server.HTTPServer(("127.0.0.1", 0), Canned) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.mark.needs("openssl")
async def test_an_untrusted_certificate_is_told_and_a_trusted_one_works(
    talk: Callable[..., Talk], certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_server(certificate) as url:
        one = talk(url)
        fault = await one.fault()
        assert (fault.key, one.waits.seconds) == ("model.tls", [])
        assert "self" in str(fault.values["detail"])
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert (await talk(url).ask()).text == "ok"


async def test_https_to_a_server_without_tls_is_told(talk: Callable[..., Talk]) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        one = talk(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert (await one.fault()).key == "model.not_tls"
    assert one.waits.seconds == []
