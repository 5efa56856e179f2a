"""A real llama-server with a real small model, and the proxy before it that lets a test direct the course."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from engine.llm.scripted import wire
from engine.llm.scripted.script import Script, ScriptRequest
from tests.real_model.setup import model_of, server_of

TEMPLATE = Path(__file__).with_name("smollm2-forced.jinja")
ANSWER_S = 180.0
_CALL_ID = re.compile(rb'("tool_calls":\[\{(?:"index":\d+,)?"id":")\d+(")')


def ask(port: int, path: str, body: dict[str, Any] | None = None) -> Any:
    """The parsed answer of a server on this machine. Raises ``OSError`` where there is none or an error."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
        connection.request(method, path, data, {"content-type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise OSError(f"{path}: {answer.status} {said[:500]!r}")
        return json.loads(said)
    finally:
        connection.close()


@contextmanager
def llama_server(folder: Path, log: Path, *flags: str) -> Iterator[int]:
    """Run the server; its port. Its memory of prompts it put aside is off, so that a loss shows."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
    program = server_of(folder)
    command = [program, "-ngl", "0", "-m", model_of(folder), "--host", "127.0.0.1", "--port", port, "-t", "2"]
    command += ["--jinja", "--no-ui", "--cache-ram", "0", "--alias", "smollm2"]
    command += ["--chat-template-file", TEMPLATE, *flags]
    # Two threads that wait actively for each other are ten times slower on a busy machine.
    environment = {**os.environ, "LD_LIBRARY_PATH": str(program.parent), "OMP_WAIT_POLICY": "passive"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        _await(process, port, log)
        yield port
    finally:
        process.kill()
        process.wait()


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            ask(port, "/health")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"llama-server did not start:\n{log.read_text('utf-8', 'replace')[-2000:]}")


@dataclass(frozen=True, slots=True)
class Call:
    """One chat request as the server got it, and the tokens it told: of the prompt, and reused of it."""

    body: dict[str, Any]
    prompt: int
    cached: int


@dataclass
class Proxy:
    """An endpoint before a llama-server.

    With a ``script`` each prompt goes through the real server and is counted by it, one token is generated,
    and the reply is the script's: the course is directed, tokens and cache are real. Without one the model
    itself replies; ``tool_choice: required`` lets its grammar allow valid calls and nothing else. ``meddle``
    may change a request on its way.
    """

    server: int
    script: Script | None = None
    meddle: Callable[[dict[str, Any]], None] = lambda body: None
    calls: list[Call] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _http: ThreadingHTTPServer | None = None

    @property
    def endpoint(self) -> str:
        """The base URL up to and with ``/v1``."""
        assert self._http is not None
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> Proxy:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Says nothing."""

            def do_GET(self) -> None:
                try:
                    said = json.dumps(ask(proxy.server, self.path)).encode()
                except OSError as error:
                    self.send_error(404, str(error)[:100])
                    return
                self._whole(said, "application/json")

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                proxy.meddle(body)
                said = proxy.directed(body) if proxy.script else proxy.own_choice(body)
                self._whole(said, "text/event-stream")

            def _whole(self, said: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._http is not None
        self._http.shutdown()
        self._http.server_close()

    def directed(self, body: dict[str, Any]) -> bytes:
        """The script's reply to a request, with the real server's counts."""
        assert self.script is not None
        asked = {key: value for key, value in body.items() if key not in ("stream", "stream_options")}
        asked |= {"tool_choice": "required", "max_tokens": 1, "temperature": 0}
        told = ask(self.server, "/v1/chat/completions", asked)["timings"]
        prompt = told["cache_n"] + told["prompt_n"]
        self.calls.append(Call(body, prompt, told["cache_n"]))
        request = ScriptRequest(tuple(body["messages"]), tuple(body["tools"]), number=len(self.calls))
        reply = self.script.reply(request)
        ids = wire.call_ids(body["messages"], len(reply.calls))
        usage = wire.Usage(prompt, told["cache_n"], wire.completion_tokens(reply))
        return b"".join(wire.stream_events(reply, ids, "smollm2", usage))

    def own_choice(self, body: dict[str, Any]) -> bytes:
        """The model's own reply, as the server streams it; the ids of calls made unique, as other servers
        have them.
        """
        # A bias towards the quote that ends a string: left alone, so small a model never ends one.
        asked = {**body, "tool_choice": "required", "parallel_tool_calls": False, "logit_bias": [['"', 4]]}
        connection = http.client.HTTPConnection("127.0.0.1", self.server, timeout=ANSWER_S)
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(asked), {"content-type": "application/json"}
        )
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        assert answer.status == 200, said[:500]
        self.calls.append(Call(body, 0, 0))
        return _CALL_ID.sub(lambda found: found[1] + b"call_%06d" % next(self._ids) + found[2], said)

    def tokens_before(self, body: dict[str, Any], text: str) -> int:
        """How many tokens of a request's prompt stand before the last place of ``text``, by the server's own
        template and tokenizer.
        """
        rendered = {"messages": body["messages"], "tools": body["tools"]}
        prompt = ask(self.server, "/apply-template", rendered)["prompt"]
        before = prompt[: prompt.rindex(text)]
        whole = {"content": before, "add_special": True, "parse_special": True}
        return len(ask(self.server, "/tokenize", whole)["tokens"])
