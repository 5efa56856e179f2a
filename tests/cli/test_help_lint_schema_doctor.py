"""What needs no job: help, version, `lint`, `schema`, `doctor`, and how the server is started."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from engine.llm.scripted import ServerOptions, call, serve_in_thread
from tests.cli.harness import Cli
from tests.cli.test_mistakes import FAULTY

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
VERBS = (
    *("run", "jobs", "show", "answer", "decide", "comment", "brief", "cancel", "retry", "resolve", "changes"),
    *("revert", "export", "prune", "rules", "trust", "pieces", "worker", "lint", "schema", "doctor", "demo"),
)
LATER = ("mcp", "acp", "--tcp")


@pytest.mark.parametrize("locale", ["C.UTF-8", "ja_JP.UTF-8"])
def test_the_help_names_every_verb_and_none_that_comes_later(cli: Cli, locale: str) -> None:
    done = cli("--help", env={"LC_ALL": locale})
    assert (done.returncode, done.stderr) == (0, "")
    for verb in VERBS:
        assert f"  maestro-lsp {verb}" in done.stdout
    assert not [later for later in LATER if f" {later}" in done.stdout]


def test_on_a_terminal_without_arguments_there_is_the_help(cli: Cli) -> None:
    screen = cli.terminal()
    screen.until("maestro-lsp doctor")
    assert screen.end() == 0


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "demo"])
def test_every_verb_explains_itself_in_both_languages(cli: Cli, verb: str) -> None:
    english, japanese = cli(verb, "--help"), cli(verb, "--help", env={"LC_ALL": "ja_JP.UTF-8"})
    assert (english.returncode, japanese.returncode) == (0, 0)
    assert english.stdout.startswith(f"usage: maestro-lsp {verb}")
    assert japanese.stdout.startswith(f"使い方: maestro-lsp {verb}")
    assert not {"options:", "usage:", "show this help"} & set(japanese.stdout.split("\n"))
    assert "この説明を表示する" in japanese.stdout


def test_version_is_a_word_of_its_own_and_needs_no_terminal(cli: Cli) -> None:
    assert cli.cold("--version").stdout == "maestro-lsp 0.1.0\n"


FRAME = "Content-Length: {length}\r\n\r\n{body}"


def framed(*messages: dict[str, object]) -> str:
    bodies = [json.dumps({"jsonrpc": "2.0", **message}) for message in messages]
    return "".join(FRAME.format(length=len(body), body=body) for body in bodies)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--stdio"],
        ["--stdio", "--clientProcessId=1"],
        ["--log-level", "debug", "--log-file", "server.log"],
    ],
)
def test_without_a_terminal_it_is_the_language_server(cli: Cli, arguments: list[str]) -> None:
    initialize = {
        "id": 1,
        "method": "initialize",
        "params": {"processId": None, "rootUri": None, "capabilities": {}},
    }
    text = framed(initialize, {"id": 2, "method": "shutdown"}, {"method": "exit"})
    done = cli.cold(*arguments, text=text)
    assert done.returncode == 0
    assert '"maestro.task.start"' in done.stdout.replace(" ", "")
    assert done.stdout.startswith("Content-Length: ")
    if "server.log" in arguments:
        assert (cli.workspace / "server.log").is_file()


def test_lint_tells_each_fault_with_its_place_and_ends_with_1(cli: Cli) -> None:
    (cli.workspace / "broken.yaml").write_text(FAULTY, "utf-8")
    done = cli("lint", "broken.yaml")
    assert (done.returncode, done.stderr) == (1, "")
    *lines, summary = done.stdout.splitlines()
    assert lines[0].startswith("broken.yaml:13:15: error: ")
    assert "“work”" in lines[0]
    assert lines == sorted(lines, key=lambda line: int(line.split(":")[1]))
    assert summary == "files: 1, errors: 2, warnings: 0"


def test_lint_json_has_ranges_and_messages_as_the_protocol(cli: Cli) -> None:
    (cli.workspace / "broken.yaml").write_text(FAULTY, "utf-8")
    done = cli("lint", "--json", "broken.yaml", env={"LC_ALL": "ja_JP.UTF-8"})
    found = json.loads(done.stdout)
    assert (done.returncode, found["errors"]) == (1, 2)
    [file] = found["files"]
    first = next(problem for problem in file["problems"] if problem["severity"] == "error")
    assert first["range"]["start"] == {"line": 12, "character": 14}
    assert {"severity", "message", "range", "code"} <= set(first)
    assert not first["message"].isascii()


def test_lint_without_files_checks_everything_that_can_be_found(cli: Cli) -> None:
    clean = cli("lint")
    assert (clean.returncode, clean.stderr) == (0, "")
    shipped = len(list((ROOT / "pieces").glob("*.yaml")))
    assert clean.stdout.startswith(f"files: {shipped}, errors: 0")
    mine = cli.workspace / ".maestro" / "pieces"
    mine.mkdir(parents=True)
    (mine / "broken.yaml").write_text(FAULTY, "utf-8")
    assert cli("lint").returncode == 1
    assert cli("lint", mine).returncode == 1


def test_lint_reads_no_pipe_and_no_giant(cli: Cli) -> None:
    big = cli.workspace / "big.yaml"
    big.write_text("#" * 400_000, "utf-8")
    done = cli("lint", big)
    assert done.returncode == 1
    assert "KiB" in done.stdout
    done = cli("lint", "/dev/zero")
    assert done.returncode == 2
    assert "regular file" in done.stderr


def test_schema_prints_json_schemas_of_pieces_and_of_the_protocol(cli: Cli) -> None:
    pieces = json.loads(cli("schema").stdout)
    assert {"name", "movements", "max_movements"} <= set(pieces["properties"])
    for shape in (pieces, *pieces["$defs"].values()):
        assert all(key["description"].strip() for key in shape["properties"].values())
    japanese = json.loads(cli("schema", env={"LC_ALL": "ja_JP.UTF-8"}).stdout)
    assert "ピース" in japanese["properties"]["name"]["description"]
    protocol = json.loads(cli("schema", "--protocol").stdout)
    assert {"JobSummary", "JobDetail", "Request"} <= set(protocol["$defs"])
    assert "maestro.task.start" in protocol["commands"]


def test_doctor_without_anything_says_what_is_missing_and_ends_with_1(cli: Cli) -> None:
    done = cli("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    assert "✗ No model server is set. Set MAESTRO_ENDPOINT" in done.stdout
    assert f"yours would be {cli.user_file}" in done.stdout
    assert f"writable: {cli.state}" in done.stdout
    assert "not trusted" in done.stdout
    assert "level C" in done.stdout


def test_doctor_tells_where_each_value_comes_from_and_never_a_key(cli: Cli) -> None:
    cli.user_file.write_text("mode: ask\nllm:\n  headers: {x-token: hidden-header-1}\n", "utf-8")
    key = "sk-never-shown-123"
    with serve_in_thread([], options=ServerOptions(api_key=key)) as server:
        env = {"MAESTRO_ENDPOINT": server.base_url, "MAESTRO_MODEL": "scripted", "MAESTRO_API_KEY": key}
        done = cli("doctor", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"mode = ask (from {cli.user_file})" in done.stdout
    assert "(from the variable MAESTRO_ENDPOINT)" in done.stdout
    assert "✓ It has the model scripted." in done.stdout
    assert "context limit is 131072" in done.stdout
    assert key not in done.stdout and "hidden-header-1" not in done.stdout


@pytest.mark.parametrize(
    ("options", "variables", "sentence"),
    [
        (
            ServerOptions(api_key="sk-right-123456"),
            {"MAESTRO_API_KEY": "sk-wrong-123456"},
            "does not accept the API key",
        ),
        (ServerOptions(api_key="sk-right-123456"), {}, "asks for an API key"),
        (ServerOptions(models=("qwen",)), {"MAESTRO_MODEL": "gpt-9"}, "does not know the model “gpt-9”"),
    ],
    ids=["wrong key", "no key", "unknown model"],
)
def test_doctor_finds_what_would_fail(
    cli: Cli, options: ServerOptions, variables: dict[str, str], sentence: str
) -> None:
    with serve_in_thread([call("complete")], options=options) as server:
        done = cli("doctor", env={"MAESTRO_ENDPOINT": server.base_url, **variables})
        assert not server.requests
    assert done.returncode == 1
    assert sentence in done.stdout
    assert "sk-wrong" not in done.stdout


def test_doctor_looks_at_every_worker_and_one_that_nobody_needs_stops_nothing(cli: Cli) -> None:
    key = "sk-of-the-second-0123456789"
    with serve_in_thread([]) as main, serve_in_thread([], options=ServerOptions(api_key=key)) as second:
        cli.user_file.write_text(
            "llm:\n  workers:\n"
            f"  - {{id: first, endpoint: '{main.base_url}', model: scripted, roles: [main]}}\n"
            f"  - {{id: second, endpoint: '{second.base_url}', api_key_env: KEY_2,\n"
            "     headers: {x-a: hidden-1}}\n"
            "  - {id: gone, endpoint: 'http://127.0.0.1:9/v1'}\n"
            "budget: {cost: 1}\n",
            "utf-8",
        )
        done = cli("doctor", env={"KEY_2": key})
    assert done.returncode == 0, done.stdout
    assert "llm.workers = first, second, gone (from" in " ".join(done.stdout.split())
    for line in ("· Worker first (main):", "· Worker second (only when named):", "! "):
        assert line in done.stdout
    assert "✓ It has the model scripted." in done.stdout
    assert "“budget.cost” has no effect" in done.stdout
    assert key not in done.stdout and "hidden-1" not in done.stdout


@pytest.mark.parametrize(("configured", "told"), [("", True), ("general", False)])
def test_doctor_says_that_a_piece_has_to_be_named_while_nobody_can_choose_one(
    cli: Cli, configured: str, told: bool
) -> None:
    with serve_in_thread([]) as main:
        cli.user_file.write_text(
            "llm:\n  workers:\n"
            f"  - {{id: big, endpoint: '{main.base_url}', model: scripted, roles: [main]}}\n"
            "  - {id: small, endpoint: 'http://127.0.0.1:9/v1', roles: [classifier]}\n",
            "utf-8",
        )
        done = cli("doctor", env={"MAESTRO_PIECE": configured})
    assert done.returncode == 0, done.stdout
    assert ("! Worker small chooses the piece of a task that names none." in done.stdout) == told


def test_doctor_finds_a_refused_connection(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        done = cli("doctor", env={"MAESTRO_ENDPOINT": endpoint})
    assert done.returncode == 1
    assert "refuses the connection" in done.stdout


def test_doctor_names_a_broken_configuration_file(cli: Cli) -> None:
    cli.user_file.write_text("mode: ask\nllm: [\n", "utf-8")
    done = cli("doctor")
    assert done.returncode == 1
    assert f"✗ {cli.user_file}, line " in done.stdout


def test_doctor_says_which_setting_has_no_effect(cli: Cli) -> None:
    cli.user_file.write_text("llm:\n  endpont: http://127.0.0.1:1/v1\n", "utf-8")
    done = cli("doctor")
    assert "! “llm.endpont” in" in done.stdout
    assert "Did you mean “llm.endpoint”?" in done.stdout


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_doctor_finds_a_model_server_on_this_machine(cli: Cli) -> None:
    """On the first of the usual ports that is free here."""
    servers = (("llama-server", 8080), ("LM Studio", 1234), ("Ollama", 11434))
    name, port = next((name, port) for name, port in servers if is_free(port))
    with serve_in_thread([], port=port) as server:
        done = cli("doctor")
    assert done.returncode == 1
    wanted = f"{name} is running here with scripted. To use it: MAESTRO_ENDPOINT={server.base_url}"
    assert wanted in done.stdout
