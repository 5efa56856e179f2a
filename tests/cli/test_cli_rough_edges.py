"""Where the command line is rarely trodden: folders the system refuses, keys in the wrong place, commands too
long for a title, Ctrl-C before anything runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, serve_in_thread
from tests.cli.harness import COMMAND, Cli, one_sentence
from tests.cli.warm import DEADLINE

pytestmark = pytest.mark.slow

TOO_LONG = "x" * 300
"""No file system takes it: as a folder that is closed to this user, but for an administrator too."""

LONG = " && ".join(f"echo step-{number}" for number in range(60)) + " && echo the-very-end"
KEY = "sk-Pasted0123456789abcdefgh"


def runs_something_long(request: ScriptRequest) -> ScriptReply:
    if not request.results("Bash"):
        return call("Bash", command=LONG)
    return call("complete", status="success", result="Done.")


def writes(request: ScriptRequest) -> ScriptReply:
    if not request.results("Write"):
        return call("Write", file_path="hello.txt", content="first line\nlast line\n")
    return call("complete", status="success", result="Done.")


def asks(request: ScriptRequest) -> ScriptReply:
    return call("complete", status="needs_user_input", result="Which way?")


@pytest.mark.parametrize("verb", [["jobs"], ["run", "do it"], ["trust"], ["pieces"], ["show", "ABCD"]])
def test_a_state_folder_that_the_system_refuses_is_one_sentence(cli: Cli, verb: list[str]) -> None:
    cli.state.mkdir()
    folder = str(cli.state / TOO_LONG)
    done = cli(*verb, env={"MAESTRO_STATE_DIR": folder, "MAESTRO_ENDPOINT": "http://127.0.0.1:9/v1"})
    assert done.returncode == 1
    sentence = one_sentence(done.stderr)
    assert TOO_LONG in sentence and "Something went wrong" not in sentence


def test_a_folder_of_path_that_the_system_refuses_is_passed_over(cli: Cli) -> None:
    with serve_in_thread(writes) as server:
        done = cli("doctor", env={"MAESTRO_ENDPOINT": server.base_url, "PATH": f"/{TOO_LONG}:/usr/bin:/bin"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "bash: " in done.stdout


def test_a_configuration_folder_that_the_system_refuses_is_one_sentence(cli: Cli) -> None:
    done = cli("run", "do it", env={"XDG_CONFIG_HOME": f"/{TOO_LONG}"})
    assert done.returncode == 2
    assert "cannot be read as a configuration file" in one_sentence(done.stderr)


def test_a_log_file_that_cannot_be_written_is_one_sentence(cli: Cli) -> None:
    done = cli("--stdio", "--log-file", "/no/such/folder/log")
    assert (done.returncode, done.stdout) == (2, "")
    assert one_sentence(done.stderr).startswith(
        "The log file /no/such/folder/log cannot be written (No such file or directory)."
    )


@pytest.mark.parametrize("pasted", [KEY, "abcdef0123456789"])
def test_a_key_in_place_of_its_variables_name_is_never_printed(cli: Cli, pasted: str) -> None:
    cli.user_file.write_text(f"llm:\n  api_key_env: {pasted}\n  endpoint: http://127.0.0.1:9/v1?key={KEY}\n")
    for verb in (["doctor"], ["run", "do it"]):
        done = cli(*verb)
        assert pasted not in done.stdout + done.stderr and KEY not in done.stdout + done.stderr
        assert "not the key itself" in done.stdout + done.stderr


def test_a_variable_that_is_not_set_is_named(cli: Cli) -> None:
    cli.user_file.write_text("llm:\n  api_key_env: OPENAI_API_KEY\n")
    assert "The variable OPENAI_API_KEY, which llm.api_key_env names, is not set" in cli("doctor").stdout


def test_ctrl_c_while_modules_are_loaded_is_silent() -> None:
    script = """
import sys
class Pressed:
    def find_spec(self, name, *_):
        if name == "maestro_lsp.cli.dispatch":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Pressed())
from maestro_lsp.__main__ import main
sys.exit(main(["jobs"]))
"""
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, timeout=DEADLINE)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_long_command_is_shown_to_its_end_before_it_is_decided(cli: Cli) -> None:
    with serve_in_thread(runs_something_long) as server:
        cli.env |= {"MAESTRO_ENDPOINT": server.base_url}
        screen = cli.terminal("run", "--mode", "ask", "do it")
        asked = screen.until("Choose a number")
        screen.press(b"\x04")
        screen.until("To answer: ")
        assert screen.end() == 3
    shown = cli("show", cli.job()["jobId"]).stdout
    for text in (asked.replace("\n", ""), shown):
        assert f"Bash: {LONG}" in text
    rules = [line for line in asked.splitlines() if "What 2 and 3 store" in line]
    assert len(rules) == 1, "the rule is told once, not in every choice"


def test_show_has_the_diff_that_decide_decides_on(cli: Cli) -> None:
    with serve_in_thread(writes) as server:
        cli.env |= {"MAESTRO_ENDPOINT": server.base_url}
        assert cli("run", "--mode", "ask", "do it").returncode == 3
    shown = cli("show", cli.job()["jobId"]).stdout
    assert "+first line\n+last line\n" in shown
    assert shown.index("+last line") < shown.index("maestro-lsp decide r-")


@pytest.mark.parametrize(
    ("locale", "why"), [("C.UTF-8", "the model asked"), ("ja_JP.UTF-8", "モデルからの質問です")]
)
def test_json_says_why_a_person_is_asked_in_their_language(cli: Cli, locale: str, why: str) -> None:
    with serve_in_thread(asks) as server:
        cli.env |= {"MAESTRO_ENDPOINT": server.base_url, "LC_ALL": locale}
        done = cli("run", "--json", "do it")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    [told] = [event["request"]["why"] for event in events if event["kind"] == "request"]
    assert told == cli.show()["requests"][0]["why"] == why


def test_what_follows_a_prompt_that_was_left_begins_a_line_of_its_own(cli: Cli) -> None:
    with serve_in_thread(asks) as server:
        cli.env |= {"MAESTRO_ENDPOINT": server.base_url}
        screen = cli.terminal("run", "do it")
        screen.until("leaves it waiting): ")
        screen.press(b"\x04")
        assert screen.until("To answer: ").endswith("\nTo answer: ")
        assert screen.end() == 3


def test_output_that_nobody_holds_open_is_no_failure(cli: Cli) -> None:
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        command = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "jobs"]
        done = subprocess.run(command, cwd=cli.workspace, env=cli.env, capture_output=True, timeout=DEADLINE)
        assert (done.returncode, done.stderr) == (0, b""), closed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_finds_no_room_is_one_sentence(cli: Cli) -> None:
    command = ["sh", "-c", 'exec "$@" >/dev/full', "sh", *COMMAND, "jobs"]
    done = subprocess.run(
        command, cwd=cli.workspace, env=cli.env, capture_output=True, timeout=DEADLINE, encoding="utf-8"
    )
    assert done.returncode == 1
    assert one_sentence(done.stderr).startswith("The output cannot be written")
