"""Nobody sits at a terminal: what waits for a person ends, and nothing reaches what the engine holds."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.tools.shells import ROOT, Shell
from tests.tools.world import World

REPOSITORY = (
    "git init -q . && git config user.name A && git config user.email a@example.com"
    " && touch a b && git add a && git commit -q -m one && git add b"
)
# A program that asks as those do that insist on a person: at the terminal, whatever its input is.
INSISTS = """#!/bin/sh
exec 3<>/dev/tty || { echo no terminal; exit 1; }
read answer <&3
"""
FAKES = ("sudo", "ssh", "less", "vim", "npm")


@pytest.fixture
def asking(shell: Shell) -> Shell:
    """A shell in a folder with a repository, and with programs that insist on a terminal as well as the
    machine's own.
    """
    shell.world.timeout_s = 15.0
    shell.world.write("text.txt", "needle in here\n" * 500)
    shell.world.write("package/index.js", "")
    for name in FAKES:
        shell.world.write(f"fakes/{name}", INSISTS).chmod(0o755)
    subprocess.run(REPOSITORY, shell=True, check=True, cwd=shell.world.root, env=_plain_environment())
    return shell


def _plain_environment() -> dict[str, str]:
    return {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.mark.fault("D: child waits for stdin")
@pytest.mark.parametrize(
    "command",
    [
        "cat",
        'read x; echo "got [$x]"',
        "rg needle",
        "python3",
        "git commit",
        "sudo ls",
        "ssh -o ConnectTimeout=1 127.0.0.1",
    ],
)
async def test_a_command_that_waits_for_input_ends_by_itself(asking: Shell, command: str) -> None:
    result = await asking(command)
    assert "[exit status" in result.text and "Stopped after" not in result.text


@pytest.mark.fault("D: child waits for stdin", neighbour=True)
@pytest.mark.parametrize(
    "command",
    [
        *(f"PATH=$PWD/fakes:$PATH {name}" for name in FAKES),
        "git log -p",
        "git add -p",
        "git rebase -i --root",
        "git commit --amend",
        "less text.txt",
        "cd package && npm init",
        "python3 -",
        "python3 -c 'import getpass; getpass.getpass()'",
        "python3 -c 'input()'",
        "bash -i",
        "select x in a b; do echo $x; done",
        "tty",
        "mail -s hello root",
    ],
)
async def test_a_command_that_insists_on_a_person_ends_by_itself(asking: Shell, command: str) -> None:
    result = await asking(command)
    assert "[exit status" in result.text and "Stopped after" not in result.text


@pytest.mark.parametrize("command", ["vim text.txt", "mkfifo pipe; echo asking; read x <> pipe"])
async def test_what_waits_in_its_own_way_ends_at_the_deadline_with_what_it_said(
    asking: Shell, command: str
) -> None:
    """Vim waits for input from its error output, in the hope that this is a terminal."""
    started = time.monotonic()
    result = await asking(command, timeout=500)
    assert result.is_error and time.monotonic() - started < 10
    if "asking" in command:
        assert result.text.startswith("asking\n[Stopped after 0.5 s")


async def test_ripgrep_without_a_path_searches_the_tree_and_not_its_input(asking: Shell) -> None:
    """Where there is no ripgrep, grep -r is the same trap."""
    result = await asking("if type rg >/dev/null 2>&1; then rg -l needle; else grep -rl needle; fi")
    assert "text.txt" in result.text and not result.is_error


@pytest.mark.fault("D: child waits for stdin")
async def test_an_editor_is_taken_for_one_that_changed_nothing_and_a_pager_for_none(asking: Shell) -> None:
    """Whatever is configured: here, programs that insist on a terminal."""
    result = await asking(
        "PATH=$PWD/fakes:$PATH; git config core.editor vim; git config core.pager less; git config"
        " sequence.editor vim; git commit -q -m two && git commit -q --amend && git rebase -q -i --root &&"
        " git log --oneline && git log && git var GIT_EDITOR && git var GIT_PAGER"
    )
    assert result.text.count("two") == 2 and "no terminal" not in result.text
    assert result.text.endswith("\ntrue\ncat\n[exit status 0]")


async def test_standard_input_is_empty_and_there_is_no_terminal(shell: Shell) -> None:
    result = await shell(
        "readlink /proc/self/fd/0; (: < /dev/tty) 2>/dev/null || echo no tty; ps -o tty= -p $$"
    )
    assert result.text.split("\n")[:3] == ["/dev/null", "no tty", "?"]


ALONE = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.tools.shells import shell_in
from tests.tools.world import World

asyncio.run(shell_in(World(Path(sys.argv[2]), timeout_s=5.0))(sys.argv[3]))
"""
IN_A_TERMINAL = "import pty, sys; pty.spawn(sys.argv[1:])"


@pytest.mark.fault("D: child waits for stdin")
def test_an_engine_in_a_terminal_lends_neither_it_nor_what_is_typed_there(world: World) -> None:
    command = "cat > got; (: < /dev/tty) 2>/dev/null && echo a terminal >> got; touch done"
    engine = [sys.executable, "-c", ALONE, str(ROOT), str(world.root), command]
    subprocess.run(
        [sys.executable, "-c", IN_A_TERMINAL, *engine],
        input=b"typed by the person\n",
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert (world.root / "done").exists() and (world.root / "got").read_text() == ""


SCRIBBLER = """
import os
for folder in ("/proc/self/fd", f"/proc/{os.getppid()}/fd"):
    for fd in range(256):
        try:
            if folder == "/proc/self/fd":
                os.write(fd, b"Content-Length: 2\\r\\n\\r\\n{}")
            else:
                with open(f"{folder}/{fd}", "wb", buffering=0) as file:
                    file.write(b"Content-Length: 2\\r\\n\\r\\n{}")
        except OSError:
            pass
"""

LINKED = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from engine.link import LineChannel, private_stdio
from tests.tools.shells import shell_in
from tests.tools.world import World

async def main():
    channel = LineChannel(*private_stdio())
    channel.send({"kind": "first"})
    result = await shell_in(World(Path(sys.argv[2])))(sys.argv[3])
    channel.send({"kind": "last", "text": result.text})
    channel.close()

asyncio.run(main())
"""


@pytest.mark.fault("D: child waits for stdin", neighbour=True)
def test_a_command_can_neither_read_nor_write_the_stream_of_the_engine(world: World) -> None:
    """The command tries all descriptors that it and its parent have."""
    world.write("scribble.py", SCRIBBLER)
    command = f"cat; exec {sys.executable} -I scribble.py"
    done = subprocess.run(
        [sys.executable, "-c", LINKED, str(ROOT), str(world.root), command],
        input=b'{"kind": "secret order"}\n',
        capture_output=True,
        timeout=30,
        check=True,
    )
    first, last = done.stdout.splitlines()
    assert first == b'{"kind":"first"}' and last.startswith(b'{"kind":"last"')
    assert b"secret order" not in last, "the command read the engine's input"
    assert last.count(b"Content-Length") == 2, "its own output and error output, and nothing else"


PEEP = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from engine.processes import keep_private, start_time
LOOK = '''
import os
for name in ("environ", "mem", "fd/1"):
    try:
        with open(f"/proc/{os.getppid()}/{name}", "wb" if name == "fd/1" else "rb", buffering=0) as file:
            if name != "environ" or file.read(1):
                print(name, end=" ")
    except OSError:
        pass
'''
def look():
    return subprocess.run([sys.executable, "-I", "-c", LOOK], capture_output=True, text=True).stdout
print(look(), file=sys.stderr)
keep_private()
print(look(), bool(start_time(os.getpid())), file=sys.stderr)
"""
# Root may look into everything by capabilities (SYS_PTRACE, SYS_ADMIN, PERFMON): they are given up first.
WITHOUT_CAPABILITY = """
import ctypes, os, sys
for capability in (19, 21, 38):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no such door elsewhere")
def test_a_private_process_cannot_be_looked_into_by_what_it_starts() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CAPABILITY, "-c", PEEP, str(ROOT)],
        capture_output=True,
        timeout=30,
        check=True,
    )
    before, after = done.stderr.decode().strip().splitlines()
    assert before.split() == ["environ", "mem", "fd/1"], "else the second look says nothing"
    assert after.split() == ["True"], "shut, but whether it lives can still be told"
