"""Bash: ends when it must, leaves nothing behind, and says how it went in little space."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc

import msgspec
import pytest

from engine.core.tooling import PathClass, Prepared, ToolResult
from engine.core.truncate import estimate_tokens
from engine.sandbox.none import NoSandbox
from engine.tools.shell import ShellRegistry, shell_tools
from tests.tools.shells import ENGINE, HEARTBEAT, MARK, ROOT, Shell, alive, nap, unnumbered, until
from tests.tools.world import World

# --- what it says -----------------------------------------------------------------------------------


async def test_output_and_exit_status_are_in_the_result(shell: Shell) -> None:
    result = await shell("echo out; echo err >&2")
    assert result.text == "out\nerr\n[exit status 0]"
    assert (result.brief, result.is_error) == ("exit 0", False)


async def test_a_failing_command_names_its_status(shell: Shell) -> None:
    result = await shell("echo no; exit 3")
    assert result.text == "no\n[exit status 3]" and result.is_error


async def test_a_command_without_output_says_so(shell: Shell) -> None:
    assert (await shell("true")).text == "(no output)\n[exit status 0]"


async def test_a_killed_command_names_the_signal(shell: Shell) -> None:
    assert "[exit status 139 (SIGSEGV: a fault in memory)]" in (await shell("kill -SEGV $$")).text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("nonesuch-command", "exit status 127 (a command was not found: check its name"),
        ("touch x; ./x", "exit status 126 (found, but not executable: chmod +x it"),
        ("kill -KILL $$", "exit status 137 (SIGKILL: killed from outside; often memory ran out)"),
        ("kill -TERM $$", "exit status 143 (SIGTERM)"),
        ("kill -35 $$", "exit status 163 (signal 35)"),
        ("ulimit -f 1; head -c 100000 /dev/zero > big", "exit status 153 (SIGXFSZ: a file grew"),
        ("exit 255", "exit status 255]"),
        ("exit 128", "exit status 128]"),
        ("exit 300", "exit status 44]"),
    ],
)
async def test_what_an_exit_status_means_is_said(shell: Shell, command: str, said: str) -> None:
    result = await shell(command)
    assert f"[{said}" in result.text and result.is_error


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo one\necho two", "one\ntwo\n"),
        ("cat <<'END'\n日本語 $HOME\nEND", "日本語 $HOME\n"),
        ("cat <<END | tr a-z A-Z\nabc\nEND\necho after", "ABC\nafter\n"),
        ("echo '😀 が か\u3099'", "😀 が か\u3099\n"),
        ("echo \\\n  continued", "continued\n"),
        ("printf '%s\\n' \"it's\"", "it's\n"),
        ("# only a comment\necho x", "x\n"),
        ("echo x\r\n", "x\n"),
        ("x=1; x=2; export x; bash -c 'echo $x'", "2\n"),
    ],
)
async def test_a_command_is_what_bash_takes_it_for(shell: Shell, command: str, text: str) -> None:
    assert (await shell(command)).text == f"{text}[exit status 0]"


async def test_a_command_of_a_hundred_thousand_bytes_runs(shell: Shell) -> None:
    head, tail = "echo ", "; echo end"
    command = head + "日" * ((100_000 - len(head + tail)) // 3) + tail
    result = await shell(command)
    assert "end\n[exit status 0]" in result.text


async def test_the_title_and_the_command_are_known_before_it_runs(shell: Shell) -> None:
    prepared = await shell.world.prepare(
        shell.bash, command="pytest -q\necho done", description="run the tests"
    )
    assert isinstance(prepared, Prepared)
    assert prepared.title == "Bash: pytest -q\\necho done"
    assert prepared.command == "pytest -q\necho done"
    assert prepared.paths == ((".", PathClass.WORKSPACE),)
    assert prepared.detail == "run the tests"


async def test_it_runs_in_the_workspace_or_in_a_folder_of_it(shell: Shell) -> None:
    shell.world.write("sub/a", "")
    assert str(shell.world.root) in (await shell("pwd")).text
    assert str(shell.world.root / "sub") in (await shell("pwd", cwd="sub")).text


@pytest.mark.fault("C: leaving the workspace")
@pytest.mark.parametrize("cwd", ["../..", "/", "/tmp", "missing", "file", "out"])
async def test_no_other_folder_will_do(shell: Shell, cwd: str) -> None:
    shell.world.write("file", "")
    (shell.world.root / "out").symlink_to("/")
    result = await shell("pwd", cwd=cwd)
    assert result.is_error and "exit status" not in result.text


@pytest.mark.parametrize(
    ("command", "said"), [("  ", "empty"), ("a\0b", "NUL"), ("x" * 100_001, "100,000"), ("\ud83d", "half")]
)
async def test_what_can_be_no_command_is_refused(shell: Shell, command: str, said: str) -> None:
    result = await shell.world.prepare(shell.bash, command=command)
    assert isinstance(result, ToolResult) and result.is_error and said in result.text


async def test_a_folder_that_is_gone_when_the_command_starts_is_an_error_result(shell: Shell) -> None:
    """It was there when the person was asked."""
    gone = shell.world.root / "gone"
    gone.mkdir()
    context = shell.world.context()
    args = msgspec.convert({"command": "pwd", "cwd": "gone"}, shell.bash.arguments)
    prepared = await shell.bash.prepare(context, args)
    assert isinstance(prepared, Prepared)
    gone.rmdir()
    result = await shell.bash.run(context, args, prepared)
    assert isinstance(result, ToolResult) and result.is_error and "not a folder" in result.text


async def test_a_link_to_a_folder_of_the_workspace_will_do_and_one_that_leads_out_will_not(
    shell: Shell,
) -> None:
    shell.world.write("sub/a", "")
    (shell.world.root / "inside").symlink_to("sub")
    (shell.world.root / "outside").symlink_to(shell.world.root.parent)
    assert (await shell("ls", cwd="inside")).text.startswith("a\n")
    assert (await shell("ls", cwd="outside")).is_error


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("LANG", "C.UTF-8", True),
        ("LANG", "ja_JP.eucJP", False),
        ("LC_ALL", "C", False),
        ("LC_ALL", "xx_YY.UTF-8", False),
        ("LC_CTYPE", "POSIX", False),
    ],
)
async def test_text_is_utf_8_whatever_the_person_has_set(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, name: str, value: str, kept: bool
) -> None:
    for other in ("LANG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    shell.world.write("日本語.txt", "")
    text = (await shell(f"echo ${name}; locale charmap; ls *.txt; x=日本; echo ${{#x}}")).text
    lines = text.split("\n")
    assert lines[1:4] == ["UTF-8", "日本語.txt", "2"]
    assert (lines[0] == value) is kept


@pytest.mark.fault("C: unsaved buffer lost")
@pytest.mark.parametrize("background", [False, True])
async def test_unsaved_buffers_are_named_because_the_command_cannot_see_them(
    shell: Shell, background: bool
) -> None:
    shell.world.open("src/日本.py", "x")
    shell.world.open("saved.py", "x", dirty=False)
    result = await shell("true", background=background)
    assert (
        "Not saved in the editor" in result.text
        and "src/日本.py" in result.text
        and "saved.py" not in result.text
    )


async def test_japanese_comes_through(shell: Shell) -> None:
    assert (await shell("echo 日本語")).text.startswith("日本語\n")


# --- environment, descriptors ---------------------------------------------


async def test_keys_are_not_in_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAESTRO_API_KEY", "sk-very-secret")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent")
    monkeypatch.setenv("BASH_ENV", "/tmp/evil")
    monkeypatch.setenv("PYTHONPATH", "/tmp/evil")
    text = (await shell("env")).text
    names = {line.split("=", 1)[0] for line in text.splitlines() if "=" in line}
    assert not names & {"MAESTRO_API_KEY", "SSH_AUTH_SOCK", "BASH_ENV", "PYTHONPATH"}
    assert {
        "PATH",
        "HOME",
        "TERM",
        "NO_COLOR",
        "PAGER",
        "GIT_PAGER",
        "GIT_TERMINAL_PROMPT",
        "GIT_EDITOR",
    } <= names
    assert "TERM=dumb" in text and "secret" not in text


async def test_the_folders_of_the_task_are_named_in_the_environment(shell: Shell) -> None:
    await shell('echo result > "$MAESTRO_OUTPUT/r.txt"; ls "$MAESTRO_INPUT"')
    assert (shell.world.task / "output" / "r.txt").read_text() == "result\n"


async def test_no_descriptor_of_the_engine_is_inherited(shell: Shell) -> None:
    secret = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        text = (await shell("ls /proc/self/fd | tr '\\n' ' '")).text
    finally:
        os.close(secret)
    assert re.match(r"0 1 2 3 *\n", text), text


async def test_bash_reads_no_start_up_files_and_is_not_taken_from_the_workspace(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = world.write("bin/bash", "#!/bin/sh\necho hijacked\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{world.root / 'bin'}:bin::{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(world.root))
    world.write(".bashrc", "echo hijacked")
    world.write(".bash_profile", "echo hijacked")
    monkeypatch.chdir(world.root)
    registry = ShellRegistry()
    result = await world.call(shell_tools(registry)[0], command="echo fine")
    assert result.text.startswith("fine\n")


# --- endings ----------------------------------------------------------------------------------------


async def test_at_the_deadline_it_is_stopped_and_the_output_so_far_is_kept(shell: Shell) -> None:
    started = time.monotonic()
    result = await shell("echo begun; sleep 60", timeout=300)
    assert time.monotonic() - started < 6
    assert (
        result.text.startswith("begun\n")
        and "Stopped after 0.3 s" in result.text
        and "background" in result.text
    )
    assert result.is_error and result.brief == "stopped after 0.3 s"


@pytest.mark.parametrize("timeout", [0, -1, 1.5, "1000", True])
def test_a_timeout_that_is_none_is_refused(shell: Shell, timeout: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"command": "x", "timeout": timeout}, shell.bash.arguments)


async def test_a_huge_timeout_is_the_longest_there_is(shell: Shell) -> None:
    assert "[exit status 0]" in (await shell("true", timeout=10**18)).text


async def test_the_default_deadline_is_the_engines(shell: Shell) -> None:
    shell.world.timeout_s = 0.3
    assert "Stopped after 0.3 s" in (await shell("sleep 60")).text


async def test_a_command_that_ignores_sigterm_is_killed(shell: Shell) -> None:
    started = time.monotonic()
    await shell(f"trap '' TERM; {nap(61)} & while :; do sleep 0.1; done", timeout=200)
    assert time.monotonic() - started < 6
    assert alive(nap(61)) == []


@pytest.mark.fault("D: cancel leaves children", neighbour=True)
@pytest.mark.parametrize(
    "start",
    [
        f"{nap(62)} &",
        f"nohup {nap(62)} >/dev/null 2>&1 &",
        f"setsid {nap(62)} &",
        f"(setsid {nap(62)} &)",
    ],
    ids=unnumbered,
)
async def test_a_child_that_keeps_the_pipe_does_not_hold_the_result_and_ends_with_the_command(
    shell: Shell, start: str
) -> None:
    started = time.monotonic()
    result = await shell(f"{start}\necho done")
    assert result.text == "done\n[exit status 0]"
    assert time.monotonic() - started < 6
    assert alive(nap(62)) == []


@pytest.mark.fault("D: cancel leaves children")
@pytest.mark.parametrize(
    "command",
    [
        HEARTBEAT,
        f"({HEARTBEAT}) & wait",
        f"setsid bash -c '{HEARTBEAT}'",
        f"trap '' TERM INT HUP; {HEARTBEAT}",
        f"setsid bash -c \"trap '' TERM; {HEARTBEAT}\" & wait",
    ],
    ids=unnumbered,
)
async def test_cancel_leaves_nothing_within_two_seconds(shell: Shell, command: str) -> None:
    beat = shell.world.root / "beat"
    task = asyncio.create_task(shell(command))
    await until(beat.exists)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 5
    assert alive(MARK) == []


async def test_cancel_while_the_command_is_being_started_leaves_nothing(shell: Shell) -> None:
    for _ in range(5):
        task = asyncio.create_task(shell(f"{nap(63)}"))
        await asyncio.sleep(0)
        await asyncio.sleep(0.003)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert alive(nap(63)) == []


@pytest.mark.fault("D: cancel leaves children")
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize(
    "command", [HEARTBEAT, f"setsid bash -c \"trap '' TERM; {HEARTBEAT}\" & wait"], ids=unnumbered
)
async def test_kill_9_of_the_engine_ends_the_children(world: World, command: str, background: bool) -> None:
    arguments = [str(ROOT), str(world.root), command, *(["background"] if background else [])]
    engine = subprocess.Popen([sys.executable, "-c", ENGINE, *arguments])
    beat = world.root / "beat"
    try:
        await until(beat.exists, 15)
    finally:
        engine.kill()
        engine.wait()
    await until(lambda: alive(MARK) == [], 2)


async def test_kill_9_of_the_reaper_by_its_command_still_leaves_nothing_in_the_group(shell: Shell) -> None:
    result = await shell(f"({nap(64)} &) ; kill -9 $PPID; {nap(64)}")
    assert "SIGKILL" in result.text
    await until(lambda: alive(nap(64)) == [], 2)


# --- much output ------------------------------------------------------------------------------------


async def test_of_much_output_head_and_tail_are_shown_and_the_rest_is_in_a_file(shell: Shell) -> None:
    shell.world.budget = 1000
    result = await shell("seq 1 100000")
    assert estimate_tokens(result.text) <= 1000
    assert result.text.startswith("1\n2\n3\n") and result.text.endswith("99999\n100000\n[exit status 0]")
    assert result.truncated
    found = re.search(r"\[… ([\d,]+) bytes left out\. The full output is in (\S+): ", result.text)
    assert found
    log = shell.world.root / found[2]
    assert log == shell.world.task / "logs" / "call-1.txt"
    assert log.read_text() == "".join(f"{n}\n" for n in range(1, 100_001))
    kept = result.text.replace(result.text[found.start() : result.text.index("]\n") + 2], "").replace(
        "[exit status 0]", ""
    )
    assert int(found[1].replace(",", "")) + len(kept.encode()) == len(log.read_bytes())
    for word in ("head", "tail", "grep", "awk", "sed"):
        assert word in result.text


async def test_dense_output_that_is_cut_is_in_a_file_too(shell: Shell) -> None:
    shell.world.budget = 1000
    result = await shell("for i in $(seq 80); do echo 日本語日本語日本語日本語; done")
    assert result.truncated and estimate_tokens(result.text) <= 1000
    assert (shell.world.task / "logs" / "call-1.txt").read_text() == "日本語日本語日本語日本語\n" * 80


async def test_two_calls_with_one_id_do_not_share_a_file(shell: Shell) -> None:
    shell.world.budget = 1000
    await shell("seq 1 10000")
    shell.world.calls = 0
    result = await shell("seq 2 10001")
    assert "call-1-2.txt" in result.text
    assert (shell.world.task / "logs" / "call-1.txt").read_text().startswith("1\n")


async def test_short_output_makes_no_file(shell: Shell) -> None:
    await shell("echo hi")
    assert list((shell.world.task / "logs").iterdir()) == []


async def test_a_log_is_never_written_through_a_link(shell: Shell) -> None:
    shell.world.budget = 1000
    outside = shell.world.root.parent / "outside"
    outside.mkdir()
    (shell.world.task / "logs").rmdir()
    (shell.world.task / "logs").symlink_to(outside)
    result = await shell("seq 1 10000")
    assert "could not be stored" in result.text
    assert list(outside.iterdir()) == []


@pytest.mark.slow
@pytest.mark.fault("D: megabytes of output")
async def test_two_hundred_megabytes_take_constant_memory_and_a_capped_file(shell: Shell) -> None:
    shell.world.timeout_s = 50
    tracemalloc.start()
    result = await shell("yes 0123456789012345678901234567890 | head -c 200M; echo; echo the end")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "the end" in result.text and "The first 64 MiB" in result.text
    assert (shell.world.task / "logs" / "call-1.txt").stat().st_size == 64 << 20
    assert peak < 16 << 20
    assert sum(map(len, shell.world.emitted)) < 10 << 20


@pytest.mark.fault("D: megabytes of output")
async def test_a_million_lines_on_standard_error_are_no_different(shell: Shell) -> None:
    result = await shell("seq 1 1000000 >&2")
    assert result.text.startswith("1\n2\n") and "1000000\n[exit status 0]" in result.text


async def test_binary_and_ansi_output_become_text(shell: Shell) -> None:
    result = await shell(r"printf '\033[31mred\033[0m 10%%\r100%%\n\377\376\0end\n'")
    assert result.text == "100%\n\ufffd\ufffd\ufffdend\n[exit status 0]"


async def test_output_is_seen_while_the_command_runs(shell: Shell) -> None:
    fifo = shell.world.root / "go"
    os.mkfifo(fifo)
    task = asyncio.create_task(shell("echo first; read x < go; echo second"))
    await until(lambda: "first" in "".join(shell.world.emitted))
    assert not task.done()
    await asyncio.to_thread(fifo.write_text, "\n")
    assert (await task).text.startswith("first\nsecond\n")
    assert "".join(shell.world.emitted) == "first\nsecond\n"


@pytest.mark.fault("D: megabytes of output", neighbour=True)
async def test_the_event_loop_stays_free_while_output_pours_in(shell: Shell) -> None:
    task = asyncio.create_task(shell("yes | head -c 50M"))
    longest, last = 0.0, time.monotonic()
    while not task.done():
        await asyncio.sleep(0.001)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    await task
    assert longest < 0.5


# --- background -------------------------------------------------------------------------------------


async def test_a_background_command_gives_its_output_bit_by_bit(shell: Shell) -> None:
    fifo = shell.world.root / "go"
    os.mkfifo(fifo)
    started = await shell("echo first; read x < go; echo second", background=True)
    assert "bash-1" in started.text and not started.is_error
    first = await shell.world.call(shell.output, id="bash-1")
    assert first.text == "first\n[bash-1: still running]"
    await asyncio.to_thread(fifo.write_text, "\n")
    texts: list[str] = []
    while "exit status" not in "".join(texts):
        texts.append((await shell.world.call(shell.output, id="bash-1")).text)
    assert "second\n" in "".join(texts) and "first" not in "".join(texts)
    assert (shell.world.task / "logs" / "call-1.txt").read_text() == "first\nsecond\n"


async def test_asking_for_output_waits_a_moment_instead_of_spinning(shell: Shell) -> None:
    shell.world.timeout_s = 0.3
    await shell("sleep 60", background=True)
    started = time.monotonic()
    result = await shell.world.call(shell.output, id="bash-1")
    assert time.monotonic() - started >= 0.25
    assert result.text == "(nothing new)\n[bash-1: still running]"


async def test_stop_ends_a_background_command_and_returns_the_rest(shell: Shell) -> None:
    await shell(f"echo up; {HEARTBEAT}", background=True)
    await until((shell.world.root / "beat").exists)
    result = await shell.world.call(shell.stop, id="bash-1")
    assert result.text.startswith("up\n[bash-1: exit status")
    assert alive(MARK) == []


async def test_an_unknown_id_is_answered_with_the_known_ones(shell: Shell) -> None:
    await shell("sleep 60", background=True)
    result = await shell.world.call(shell.output, id="bash-9")
    assert result.is_error and "bash-1 (sleep 60)" in result.text


async def test_everything_of_a_job_ends_with_it_and_nothing_of_another(shell: Shell) -> None:
    await shell(f"{nap(65)}", background=True)
    await shell(f"setsid {nap(65)}", background=True)
    shell.world.job = "job-2"
    await shell(f"{nap(66)}", background=True)
    await until(lambda: len(alive(nap(65))) >= 2 and len(alive(nap(66))) >= 1)
    started = time.monotonic()
    await shell.registry.end_all("job-1")
    assert time.monotonic() - started < 5
    assert alive(nap(65)) == [] and alive(nap(66)) != []
    shell.world.job = "job-1"
    assert (await shell.world.call(shell.output, id="bash-1")).is_error
    await shell.registry.end_all("job-2")
    assert alive(nap(66)) == []


async def test_ending_a_job_ends_its_foreground_command_too(shell: Shell) -> None:
    task = asyncio.create_task(shell(f"echo up; {nap(67)}"))
    await until(lambda: shell.world.emitted != [])
    await shell.registry.end_all("job-1")
    result = await task
    assert "exit status 143 (SIGTERM)" in result.text
    assert alive(nap(67)) == []


async def test_there_are_not_more_background_commands_than_a_machine_bears(shell: Shell) -> None:
    for _ in range(16):
        await shell("sleep 60", background=True)
    result = await shell("sleep 60", background=True)
    assert result.is_error and "BashStop" in result.text


# --- the commands port ------------------------------------------------------------------------------


def test_level_c_says_that_it_is_none() -> None:
    assert NoSandbox.for_machine().level == "C"


async def test_without_bash_the_result_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(world.root))
    result = await world.call(shell_tools(ShellRegistry())[0], command="true")
    assert result.is_error and "No bash was found" in result.text


def test_the_reaper_refuses_to_outlive_a_parent_that_is_not_the_engine() -> None:
    reaper = ROOT / "engine" / "sandbox" / "reaper.py"
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(reaper), "1", "/bin/sleep", "60"], timeout=10, check=False
    )
    assert done.returncode in (128 + signal.SIGTERM, 128 + signal.SIGKILL)


def test_arguments_are_those_of_the_interface() -> None:
    bash, output, stop = shell_tools(ShellRegistry())
    assert set(dict(bash.schema)["properties"]) == {"command", "timeout", "cwd", "description", "background"}  # type: ignore[call-overload]
    assert dict(output.schema)["required"] == dict(stop.schema)["required"] == ["id"]
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"command": "x", "shell": "zsh"}, bash.arguments)
