"""The demo as people run it: a real server, a real engine process, a real kill; the model is scripted."""

from __future__ import annotations

import codecs
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from maestro_lsp.cli.terminal import width

pytestmark = pytest.mark.slow

DEADLINE_S = 40.0
DEMO = [sys.executable, "-I", "-m", "maestro_lsp", "demo"]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CONTROL = re.compile(r"\r|\x1b\[[0-9;]*[a-zA-Z]")


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """A fresh person's: a new HOME, no settings, temporary files of their own."""
    temporary = tmp_path / "tmp"
    temporary.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    return {**kept, "HOME": str(tmp_path), "TMPDIR": str(temporary), "LC_ALL": "C.UTF-8", **more}


def demo(tmp_path: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DEMO, *arguments],
        env=environment(tmp_path, **more),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def left_running(tmp_path: Path) -> list[str]:
    """Processes that have this test's folder in their environment, except this one's own."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "environ").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"HOME={tmp_path}\0".encode() in told and state != "Z":
            found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def wait_until_none_runs(tmp_path: Path) -> None:
    end = time.monotonic() + 10
    while left_running(tmp_path):
        assert time.monotonic() < end, left_running(tmp_path)
        time.sleep(0.05)


@pytest.mark.slow
def test_without_a_terminal_it_answers_itself_and_succeeds(tmp_path: Path) -> None:
    done = demo(tmp_path)
    out = done.stdout
    assert done.returncode == 0, out + done.stderr
    assert "replies are scripted" in out
    assert "the demo answers itself" in out
    assert out.index("Round up or down?") < out.index(
        "(answered by the demo)", out.index("Round up or down?")
    )
    assert "AssertionError: 138.24 != 138 : with_tax(128, 8) is 138.24 yen" in out
    killed = re.search(r"kill -9 (\d+)", out)
    resumed = re.search(r"Engine process (\d+) took the job up", out)
    assert killed and resumed and killed[1] != resumed[1]
    assert killed.start() < resumed.start() < out.index("result: succeeded")
    assert out.count("+    return price * (100 + rate) // 100") == 2, "before the approval, and at the end"
    assert re.search(r"implement → verify +\d+\.\d %", out)
    assert re.search(r"The demo ran the sample's tests itself: Ran 5 tests in [\d.]+s, OK", out)
    assert COLOUR.search(out) is None
    assert done.stderr == ""
    wait_until_none_runs(tmp_path)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("up", "return (price * (100 + rate) + 99) // 100"),
        ("切り捨て、円単位で", "return price * (100 + rate) // 100"),
        ("half of a yen counts as a yen", "return (price * (100 + rate) + 50) // 100"),
    ],
)
def test_another_answer_gives_another_diff(tmp_path: Path, answer: str, line: str) -> None:
    done = demo(tmp_path, "--lang", "ja", "--answer", answer, "--keep", "kept")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "結果: 成功" in done.stdout
    assert f"+    {line}" in done.stdout
    assert line in (tmp_path / "kept" / "shop" / "price.py").read_text("utf-8")
    again = subprocess.run(
        [sys.executable, "-m", "unittest"], cwd=tmp_path / "kept" / "shop", capture_output=True
    )
    assert again.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--port", "70000"], "70000"),
        (["--speed", "slow"], "--speed"),
        (["--keep", "full"], "full is not empty"),
        (["--fast"], "--fast"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(tmp_path: Path, arguments: list[str], told: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    done = demo(tmp_path, *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


# --- at a terminal ------------------------------------------------------------------------------------------


class AtTerminal:
    """The demo in a pseudo-terminal of some width, and somebody who types."""

    def __init__(self, tmp_path: Path, columns: int, *arguments: str, **more: str) -> None:
        self.shown = ""
        self._seen = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*DEMO, *arguments],
            env=environment(tmp_path, TERM="xterm-256color", COLUMNS=str(columns), **more),
            cwd=tmp_path,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def until(self, text: str) -> None:
        """Read until the demo has shown a text, after what was waited for before."""
        end = time.monotonic() + DEADLINE_S
        while (found := COLOUR.sub("", self.shown).find(text, self._seen)) < 0:
            assert time.monotonic() < end, self.shown[-2000:]
            if select.select([self.terminal], [], [], 0.5)[0]:
                self.shown += self._decoder.decode(os.read(self.terminal, 65536))
        self._seen = found + len(text)

    def type(self, text: str) -> None:
        os.write(self.terminal, f"{text}\n".encode())

    def rest(self) -> int:
        """Read to the end; the exit status."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                break
            self.shown += self._decoder.decode(data)
            if not data:
                break
        return self.process.wait(DEADLINE_S)

    def lines(self) -> Iterator[str]:
        """What stood on the screen, line by line, without what was erased."""
        for line in self.shown.replace("\r\n", "\n").split("\n"):
            yield CONTROL.sub("", line.rpartition("\x1b[2K")[2])


@pytest.fixture
def at_terminal(tmp_path: Path) -> Iterator[list[AtTerminal]]:
    running: list[AtTerminal] = []
    yield running
    for it in running:
        if it.process.poll() is None:
            it.process.kill()
            it.process.wait()
        os.close(it.terminal)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 120])
def test_a_person_answers_at_the_prompt_and_nothing_is_wider_than_the_terminal(
    tmp_path: Path, at_terminal: list[AtTerminal], columns: int
) -> None:
    it = AtTerminal(tmp_path, columns, "--speed", "fast", "--lang", "ja")
    at_terminal.append(it)
    it.until("番号: ")
    it.type("")
    it.until("番号を入力してください")
    it.until("番号: ")
    it.type("2")
    it.until("自由な回答: ")
    it.type("切り上げてください")
    for _ in range(2):
        it.until("番号: ")
        it.type("1")
    assert it.rest() == 0, it.shown
    assert "return (price * (100 + rate) + 99) // 100" in it.shown
    assert "\x1b[32m" in it.shown
    assert [line for line in it.lines() if width(line) > columns] == []
    wait_until_none_runs(tmp_path)


@pytest.mark.slow
def test_the_details_are_shown_and_asked_again_and_a_declined_edit_ends_as_the_person_says(
    tmp_path: Path, at_terminal: list[AtTerminal]
) -> None:
    it = AtTerminal(tmp_path, 100, "--speed", "fast", "--lang", "en", NO_COLOR="1")
    at_terminal.append(it)
    it.until("A number: ")
    it.type("5")
    it.until("Bash: python3 -m unittest -v")
    it.until("A number: ")
    it.type("2")
    it.until("your own words: ")
    it.type("1")
    it.until("A number: ")
    it.type("4")
    it.until("your own words: ")
    it.type("leave it as it is")
    assert it.rest() == 1
    assert "result: aborted" in it.shown
    assert COLOUR.search(it.shown) is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_leave_nothing_running(
    tmp_path: Path, at_terminal: list[AtTerminal], number: signal.Signals
) -> None:
    it = AtTerminal(tmp_path, 100, "--speed", "fast", "--lang", "en")
    at_terminal.append(it)
    it.until("A number: ")
    it.process.send_signal(number)
    assert it.rest() == 130, it.shown
    assert "Stopped" in it.shown
    assert "Traceback" not in it.shown
    wait_until_none_runs(tmp_path)
    assert list((tmp_path / "tmp").iterdir()) == []


# --- the model alone ----------------------------------------------------------------------------------------


def test_serve_names_the_address_and_answers_as_a_model_server(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*DEMO, "--serve", "--lang", "en"],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        told = ""
        while "MAESTRO_MODEL=scripted" not in told:
            line = process.stdout.readline()
            assert line, told
            told += line
        (url,) = re.findall(r"MAESTRO_ENDPOINT=(\S+)", told)
        with urllib.request.urlopen(f"{url}/models", timeout=5) as answer:
            assert [model["id"] for model in json.load(answer)["data"]] == ["scripted"]
        body = {"model": "scripted", "messages": [{"role": "user", "content": "こんにちは"}]}
        request = urllib.request.Request(
            f"{url}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=5) as answer:
            said = json.load(answer)["choices"][0]["message"]["content"]
        assert "台本モデル" in said and "MAESTRO_ENDPOINT" in said
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        process.stdout.close()


def test_a_used_port_is_named(tmp_path: Path) -> None:
    import socket

    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = used.getsockname()[1]
        done = demo(tmp_path, "--serve", "--port", str(port))
    assert done.returncode == 2
    assert str(port) in done.stderr and len(done.stderr.splitlines()) == 1
