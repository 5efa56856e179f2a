"""Every mistake is one sentence on stderr that names the thing and the mend, and an exit status."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from pathlib import Path

import pytest

from engine.llm.scripted import ServerOptions, call, serve_in_thread
from tests.cli.harness import COMMAND, DEADLINE, Cli, one_sentence

pytestmark = pytest.mark.slow

DONE = call("complete", status="success", result="Done.")

FAULTY = """\
name: broken
description: A piece with two faults.
max_movements: 3
initial_movement: work
movements:
  - name: work
    edit: false
    instruction: Do it.
    persona: You.
    allowed_tools: [Read]
    rules:
      - condition: it is done
        next: wrok
  - name: other
    edit: maybe
    instruction: Do it.
    persona: You.
    allowed_tools: []
    rules: []
"""


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_no_endpoint(cli: Cli) -> None:
    done = cli("run", "do it")
    assert (done.returncode, done.stdout) == (2, "")
    sentence = one_sentence(done.stderr)
    assert sentence.startswith("No model server is set. Set MAESTRO_ENDPOINT to its base URL")
    assert "maestro-lsp doctor" in sentence


def test_a_refused_connection(cli: Cli) -> None:
    endpoint = f"http://127.0.0.1:{closed_port()}/v1"
    done = cli("run", "--endpoint", endpoint, "do it")
    assert done.returncode == 1
    assert one_sentence(done.stderr) == (
        f"The model server at {endpoint} refuses the connection. "
        "Start it, or set MAESTRO_ENDPOINT to where it runs."
    )


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (
            "sk-wrong-0123456789",
            "The model server at {endpoint} does not accept the API key. Check MAESTRO_API_KEY.",
        ),
        ("", "The model server at {endpoint} asks for an API key. Set MAESTRO_API_KEY."),
    ],
    ids=["wrong key", "no key"],
)
def test_a_key_that_is_not_accepted(cli: Cli, key: str, sentence: str) -> None:
    with serve_in_thread([DONE], options=ServerOptions(api_key="sk-right-0123456789")) as server:
        done = cli("run", "do it", env={"MAESTRO_ENDPOINT": server.base_url, "MAESTRO_API_KEY": key})
        assert done.returncode == 1
        assert one_sentence(done.stderr) == sentence.format(endpoint=server.base_url)
    assert "sk-wrong" not in done.stdout + done.stderr


def test_an_unknown_model(cli: Cli) -> None:
    options = ServerOptions(models=("qwen", "llama"), listed_only=True)
    with serve_in_thread([DONE], options=options) as server:
        done = cli("run", "--endpoint", server.base_url, "--model", "gpt-9", "do it")
        assert done.returncode == 1
        assert one_sentence(done.stderr) == (
            f"The model server at {server.base_url} does not know the model “gpt-9”. "
            "It lists: qwen, llama. Set MAESTRO_MODEL to one of them."
        )


@pytest.mark.parametrize(
    ("piece", "sentence"),
    [
        ("cdoe", "There is no piece “cdoe”. Did you mean “code”? Known pieces: chat, code, general"),
        ("xyzzy", "There is no piece “xyzzy”. Known pieces: chat, code, general"),
        ("no/such.yaml", "There is no piece file no/such.yaml. Give the path of a .yaml file"),
    ],
)
def test_an_unknown_piece(cli: Cli, piece: str, sentence: str) -> None:
    done = cli("run", "--endpoint", "http://127.0.0.1:1/v1", "--piece", piece, "do it")
    assert (done.returncode, done.stdout) == (2, "")
    assert one_sentence(done.stderr).startswith(sentence)


def test_a_faulty_piece_names_file_line_column_fault_and_mend(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(FAULTY, "utf-8")
    done = cli("run", "--endpoint", "http://127.0.0.1:1/v1", "--piece", path, "do it")
    assert (done.returncode, done.stdout) == (2, "")
    sentence = one_sentence(done.stderr)
    assert re.match(rf"{re.escape(str(path))}:\d+:\d+: ", sentence)
    assert f"(1 more: `maestro-lsp lint {path}`)" in sentence
    assert sentence.startswith(f"{path}:13:15: ") or sentence.startswith(f"{path}:15:11: ")


def test_a_piece_of_a_workspace_that_is_not_trusted(cli: Cli) -> None:
    folder = cli.workspace / ".maestro" / "pieces"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(FAULTY, "utf-8")
    done = cli("run", "--endpoint", "http://127.0.0.1:1/v1", "--piece", "mine", "do it")
    assert done.returncode == 2
    assert "maestro-lsp trust" in one_sentence(done.stderr)


UNKNOWN = "j-01JAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", UNKNOWN], f"There is no job {UNKNOWN}. `maestro-lsp jobs --all` lists them."),
        (["show", "ZZZZ"], "There is no job ZZZZ. `maestro-lsp jobs --all` lists them."),
        (["show", "no id at all"], "There is no job no id at all. `maestro-lsp jobs --all` lists them."),
        (["answer", UNKNOWN, "yes"], f"There is no job {UNKNOWN}. `maestro-lsp jobs --all` lists them."),
        (["cancel", UNKNOWN], f"There is no job {UNKNOWN}. `maestro-lsp jobs --all` lists them."),
        (["retry", UNKNOWN], f"There is no job {UNKNOWN}. `maestro-lsp jobs --all` lists them."),
        (["changes", UNKNOWN], f"There is no job {UNKNOWN}. `maestro-lsp jobs --all` lists them."),
        (
            ["decide", "r-ZZZZ", "allow"],
            "No open request fits “r-ZZZZ”; it may be settled already. `maestro-lsp show ID` lists",
        ),
        (["comment", "t-ZZZZ", "hm"], "There is no task t-ZZZZ. `maestro-lsp jobs --all` lists the jobs"),
        (["comment", "j-ZZZZ", "hm"], "There is no job j-ZZZZ. `maestro-lsp jobs --all` lists them."),
        (["brief", "t-ZZZZ"], "There is no task t-ZZZZ. `maestro-lsp jobs --all` lists the jobs"),
        (["rules", "remove", "u-ZZZZ"], "There is no rule u-ZZZZ. `maestro-lsp rules` lists them."),
        (["resolve", "no-screen"], "No job waits for a screen with the key “no-screen”."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unknown_job_task_request_or_rule(cli: Cli, arguments: list[str], sentence: str) -> None:
    done = cli(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert one_sentence(done.stderr).startswith(sentence)
    assert not cli.state.exists() or not list(cli.state.glob("*/store.db"))


def test_a_finished_job_takes_no_answer_no_cancel_and_no_retry(cli: Cli) -> None:
    with serve_in_thread([DONE]) as server:
        cli("run", "--endpoint", server.base_url, "do it")
    job = cli.job()["jobId"]
    told = {
        ("cancel", job): f"Job {job} has already ended (succeeded), so nothing was changed. Retry it",
        ("answer", job, "yes"): f"Job {job} asks nothing now (it is succeeded). `maestro-lsp show {job}`",
        ("retry", job): f"Job {job} is succeeded; only a failed, aborted or cancelled job can be retried.",
    }
    for arguments, sentence in told.items():
        done = cli(*arguments, env={"MAESTRO_ENDPOINT": server.base_url})
        assert (done.returncode, done.stdout) == (1, "")
        assert one_sentence(done.stderr).startswith(sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run"], "still needed: instruction; see `maestro-lsp run --help`."),
        (["run", "--mode", "reckless", "x"], "--mode: 'reckless' is not one of "),
        (["run", "--endpoint"], "--endpoint: needs a value; see `maestro-lsp run --help`."),
        (["jobs", "--frob"], "unknown arguments: --frob; see `maestro-lsp jobs --help`."),
        (["decide", "r-ZZZZ", "perhaps"], "decision: 'perhaps' is not one of "),
        (["job"], "There is no command “job”. Did you mean “jobs”?"),
        (["frobnicate"], "There is no command “frobnicate”; `maestro-lsp --help` lists the commands."),
        (["--frob"], "unknown arguments: --frob; see `maestro-lsp --help`."),
        (["jobs", "-w", "/no/such/folder"], "/no/such/folder is not a folder."),
        (["rules", "remove"], "Say which rule to remove"),
        (["lint", "none.yaml"], "There is no piece file none.yaml."),
        (["run", "-w", "/", "x"], "/ is too wide for a workspace"),
        (["trust", "/"], "/ is too wide for a workspace"),
        (["worker"], "No model server is set."),
        (["run", "--endpoint", "ftp://x", "x"], "The model endpoint must begin with http://"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_ends_with_2(cli: Cli, arguments: list[str], sentence: str) -> None:
    done = cli(*arguments)
    assert one_sentence(done.stderr).startswith(sentence)
    assert done.returncode == 2


@pytest.mark.parametrize("instruction", ["", "  \n "])
def test_an_empty_instruction(cli: Cli, instruction: str) -> None:
    done = cli("run", "--endpoint", "http://127.0.0.1:1/v1", instruction)
    assert done.returncode == 2
    assert one_sentence(done.stderr) == "The instruction is empty. Say what is to be done."


def test_japanese_mistakes_are_japanese(cli: Cli) -> None:
    cli.env["LC_ALL"] = "ja_JP.UTF-8"
    assert one_sentence(cli("show", "ZZZZ").stderr).startswith("ジョブ ZZZZ はありません。")
    assert one_sentence(cli("run").stderr).startswith("足りない引数があります: instruction。")
    assert one_sentence(cli("run", "x").stderr).startswith("モデルサーバーが設定されていません。")


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({"LC_ALL": "ja_JP.UTF-8", "LANG": "en_GB.UTF-8"}, "ja"),
        ({"LC_ALL": "", "LC_MESSAGES": "ja_JP", "LANG": "en_GB.UTF-8"}, "ja"),
        ({"LC_ALL": "", "LC_MESSAGES": "", "LANG": "ja"}, "ja"),
        ({"LC_ALL": "C", "LANG": "ja_JP.UTF-8"}, "en"),
        ({"LC_ALL": "de_DE.UTF-8"}, "en"),
    ],
)
def test_the_language_is_that_of_the_terminal(cli: Cli, variables: dict[str, str], language: str) -> None:
    done = cli("show", "ZZZZ", env=variables)
    assert ("ジョブ" in done.stderr) == (language == "ja")


def test_json_runs_end_with_a_line_also_when_nothing_could_start(cli: Cli) -> None:
    done = cli("run", "--json", "do it")
    assert done.returncode == 2
    sentence = one_sentence(done.stderr)
    assert json.loads(done.stdout) == {
        "kind": "end",
        "status": None,
        "exit": 2,
        "result": None,
        "error": sentence,
    }


def test_json_runs_tell_a_model_fault_in_the_last_line_and_on_stderr(cli: Cli) -> None:
    endpoint = f"http://127.0.0.1:{closed_port()}/v1"
    done = cli("run", "--json", "--endpoint", endpoint, "do it")
    assert done.returncode == 1
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["kind"], end["status"], end["exit"]) == ("end", "failed", 1)
    assert end["result"] == one_sentence(done.stderr)


def test_a_broken_store_is_named(cli: Cli) -> None:
    with serve_in_thread([DONE]) as server:
        cli("run", "--endpoint", server.base_url, "do it")
    [store] = cli.state.glob("*/store.db")
    store.write_bytes(b"this is no database " * 500)
    done = cli("jobs")
    assert done.returncode == 1
    assert one_sentence(done.stderr).startswith(f"The job store {store} is damaged.")


def test_a_broken_store_hides_no_job_of_another_workspace(cli: Cli) -> None:
    broken = cli.state / "0123456789abcdef" / "store.db"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"this is no database " * 500)
    with serve_in_thread([DONE]) as server:
        cli("run", "--endpoint", server.base_url, "do it")
    job = cli.job()["jobId"]
    assert cli("show", job).returncode == 0
    assert cli("show", job[-4:]).returncode == 0
    assert len(json.loads(cli("jobs", "--all", "--json").stdout)["jobs"]) == 1


def test_what_nobody_foresaw_is_one_sentence_and_a_traceback_in_the_log(cli: Cli) -> None:
    cli.state.mkdir()
    inject = (
        "import engine; engine.piece_schema = None; "
        "import sys; from maestro_lsp.__main__ import main; sys.exit(main(['schema']))"
    )
    done = subprocess.run(
        [COMMAND[0], "-I", "-c", inject], env=cli.env, capture_output=True, encoding="utf-8", timeout=DEADLINE
    )
    assert done.returncode == 1
    log = cli.state / "maestro-lsp.log"
    assert f"in {log};" in one_sentence(done.stderr)
    assert "Traceback" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_a_closed_pipe_is_silent(cli: Cli) -> None:
    done = subprocess.run(
        f"{' '.join(COMMAND)} schema --protocol | head -1",
        shell=True,
        cwd=cli.workspace,
        env=cli.env,
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE,
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""
