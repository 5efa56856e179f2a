"""`export`, `prune`, `pieces --graph` and what `show` tells, in real terminals' words."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, ThreadedServer, call, serve_in_thread
from tests.cli.harness import Cli, one_sentence

pytestmark = pytest.mark.slow


def script(request: ScriptRequest) -> ScriptReply:
    """``please split``: hands a part to a subtask that fails; else notes the brief and ends."""
    if request.contains("please split"):
        if request.contains("I cannot"):
            return done("All done.")
        if request.results("SpawnSubTask"):
            return call("transition", next_step="WAIT_SUBTASKS", summary="handed out")
        return call("SpawnSubTask", instruction="a part", title="the part", piece="chat")
    if request.contains("a part"):
        return call("complete", status="aborted", result="I cannot.")
    if not request.results("MissionUpdate"):
        return call("MissionUpdate", goal="a clean\nhouse", open="the attic")
    return done("Fine.")


def done(text: str) -> ScriptReply:
    return call("complete", status="success", result=text)


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with serve_in_thread(script) as running:
        yield running


@pytest.fixture(autouse=True)
def configured(cli: Cli, server: ThreadedServer) -> None:
    cli.env |= {"MAESTRO_ENDPOINT": server.base_url, "MAESTRO_MODEL": "scripted"}


def test_export_prints_markdown_or_json_and_nothing_else(cli: Cli) -> None:
    cli("run", "--piece", "chat", "tidy up")
    job = cli.job()["jobId"]
    page = cli("export", job[-6:])
    assert (page.returncode, page.stderr) == (0, "")
    assert page.stdout.startswith("# tidy up\n") and "Goal:\n\n```\na clean\nhouse\n```" in page.stdout
    assert cli("export", job).stdout == page.stdout
    tree = json.loads(cli("export", job, "--format", "json").stdout)
    assert tree["job"] == cli.show(job)
    assert "## 経過" in cli("export", job, env={"LC_ALL": "ja_JP.UTF-8"}).stdout
    assert cli("export", job, "--format", "pdf").returncode == 2
    assert cli("export", "j-00000000000000000000000000").returncode == 2


def test_show_tells_the_brief_the_subtasks_and_when_it_was_decided(cli: Cli) -> None:
    cli("run", "--piece", "chat", "tidy up")
    page = cli("show", cli.job()["jobId"]).stdout
    assert "Mission Brief\n  Goal  a clean house\n  Open  the attic\n" in page
    cli("run", "--trust", "--piece", "parallel", "please split")
    job = next(
        job for job in json.loads(cli("jobs", "--json").stdout)["jobs"] if job["title"] == "please split"
    )
    page = cli("show", job["jobId"]).stdout
    assert "Subtasks\n  j-…" in page and "the part — aborted\n" in page


def test_prune_says_what_it_would_do_does_it_and_says_what_it_did(cli: Cli) -> None:
    cli("run", "--piece", "chat", "tidy up")
    task = cli.job()["taskId"]
    assert cli("prune").stdout == "Nothing to remove: no task ended over 30d ago.\n"
    told = cli("prune", "--older-than", "0d", "--dry-run")
    assert told.stdout.startswith("Would remove tasks: 1 (jobs: 1), about ")
    assert cli.job()["taskId"] == task
    told = cli("prune", "--older-than", "0d", "--json")
    assert {**json.loads(told.stdout), "bytes": 0} == {
        "tasks": 1,
        "jobs": 1,
        "bytes": 0,
        "dryRun": False,
        "left": [],
    }
    assert json.loads(cli("jobs", "--json").stdout) == {"jobs": []}
    gone = cli("comment", task, "go on")
    assert gone.returncode == 2 and task in one_sentence(gone.stderr)


def test_prune_all_looks_into_every_workspace(cli: Cli) -> None:
    other = cli.workspace.parent / "other"
    other.mkdir()
    cli("run", "--piece", "chat", "here")
    cli("run", "--piece", "chat", "-w", other, "there")
    assert json.loads(cli("prune", "--older-than", "0d", "--all", "--json").stdout)["tasks"] == 2
    assert json.loads(cli("jobs", "--all", "--json").stdout) == {"jobs": []}


@pytest.mark.parametrize("age", ["soon", "30", "-1d", "1.5d", ""])
def test_prune_refuses_an_age_it_does_not_understand(cli: Cli, age: str) -> None:
    refused = cli("prune", f"--older-than={age}")
    assert refused.returncode == 2 and f"“{age}” is no age" in one_sentence(refused.stderr)


def test_prune_makes_no_store(cli: Cli) -> None:
    assert cli("prune").returncode == 0
    assert not cli.state.exists()


def test_pieces_draws_one_as_mermaid_and_tells_shipped_ones_in_the_persons_language(cli: Cli) -> None:
    assert cli("pieces", "--graph", "code").stdout.startswith("flowchart TD\n")
    assert cli("pieces", "--graph", "cod").returncode == 2
    told = json.loads(cli("pieces", "--json", env={"LC_ALL": "ja_JP.UTF-8"}).stdout)["pieces"]
    assert all(any("\u3040" <= c <= "\u30ff" for c in piece["description"]) for piece in told)


@pytest.mark.parametrize("verb", ["mcp", "acp"])
def test_a_verb_that_is_not_there_yet_says_so(cli: Cli, verb: str) -> None:
    refused = cli(verb)
    assert refused.returncode == 2 and "later version" in one_sentence(refused.stderr)


@pytest.mark.parametrize("wrong", [["--mode", "yolo", "x"], [], ["x", "y"]])
def test_run_json_has_its_last_line_also_for_wrong_arguments(cli: Cli, wrong: list[str]) -> None:
    refused = cli("run", "--json", *wrong)
    assert refused.returncode == 2
    end = json.loads(refused.stdout)
    assert (end["kind"], end["status"], end["exit"]) == ("end", None, 2)
    assert end["error"] == one_sentence(refused.stderr)
