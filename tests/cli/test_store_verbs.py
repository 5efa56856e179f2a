"""The job store from the terminal: a committed row is the answer, whoever works on the job."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, ThreadedServer, call, serve_in_thread
from tests.cli.harness import Cli, one_sentence

pytestmark = pytest.mark.slow

WRITE = ("Write", {"file_path": "hello.txt", "content": "hi\n"})


def script(request: ScriptRequest) -> ScriptReply:
    """What the instruction says: ``write``, ``ask`` (until answered "green"), ``abort``; else success."""
    if request.contains("please abort") and not request.contains("second thoughts"):
        return call("complete", status="aborted", result="I would rather not.")
    if request.contains("please write") and not request.results("Write"):
        return ScriptReply(calls=(WRITE,))
    if request.contains("please ask") and not request.contains("green"):
        return call("complete", status="needs_user_input", result="Which colour?", options=["red", "blue"])
    return call("complete", status="success", result="Fine.")


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with serve_in_thread(script) as running:
        yield running


@pytest.fixture(autouse=True)
def configured(cli: Cli, server: ThreadedServer) -> None:
    cli.env |= {"MAESTRO_ENDPOINT": server.base_url, "MAESTRO_MODEL": "scripted"}


def work(cli: Cli) -> str:
    """Work the queue until it is empty; what was said."""
    done = cli("worker", "--until-idle")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_jobs_is_a_table_with_short_ids_newest_first(cli: Cli) -> None:
    cli("run", "one")
    cli("run", "please ask two")
    head, newest, oldest = cli("jobs").stdout.splitlines()
    assert head.split() == ["ID", "status", "piece", "age", "title"]
    assert newest.split()[0].startswith("j-…") and "waiting for you (question)" in newest
    assert newest.endswith("please ask two")
    assert "succeeded" in oldest and oldest.endswith("one")
    assert newest.index("please ask") == oldest.index("one") == head.index("title")


def test_the_table_is_straight_with_japanese_titles_and_words(cli: Cli) -> None:
    from maestro_lsp.cli.terminal import width

    cli.env["LC_ALL"] = "ja_JP.UTF-8"
    cli("run", "色を聞いて please ask")
    cli("run", "終わりにして")
    head, *rows = cli("jobs").stdout.splitlines()
    assert "題" in head
    assert (
        len({width(line[: line.index(title)]) for line, title in zip(rows, ("終", "色"), strict=True)}) == 1
    )
    assert width(head[: head.index("題")]) == width(rows[0][: rows[0].index("終")])


def test_jobs_json_has_the_summaries_of_the_protocol(cli: Cli) -> None:
    cli("run", "one")
    [job] = json.loads(cli("jobs", "--json").stdout)["jobs"]
    assert {"jobId", "taskId", "title", "piece", "movement", "status", "usage", "openRequests"} <= set(job)
    assert (job["status"], job["title"], job["usage"]["calls"]) == ("succeeded", "one", 1)


def test_jobs_all_looks_into_every_workspace_and_ids_need_no_folder(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    cli("run", "here")
    cli("run", "-w", other, "there")
    assert [job["title"] for job in json.loads(cli("jobs", "--json").stdout)["jobs"]] == ["here"]
    everywhere = json.loads(cli("jobs", "--all", "--json").stdout)["jobs"]
    assert [(job["title"], job["workspace"]) for job in everywhere] == [
        ("there", str(other)),
        ("here", str(cli.workspace)),
    ]
    there = everywhere[0]["jobId"]
    assert cli.show(there)["title"] == cli.show(there[-4:])["title"] == cli.show(f"j-…{there[-4:]}")["title"]


def test_looking_into_a_folder_makes_no_store(cli: Cli) -> None:
    assert "No jobs in this workspace yet" in cli("jobs").stdout
    assert json.loads(cli("jobs", "--json").stdout) == {"jobs": []}
    assert "No jobs yet" in cli("jobs", "--all").stdout
    assert "No approval rules" in cli("rules").stdout
    assert not cli.state.exists()


def test_show_says_what_is_waited_for_and_the_exact_command_to_answer(cli: Cli) -> None:
    cli("run", "please ask\nand take your time")
    job = cli.job()["jobId"]
    page = cli("show", job[-5:]).stdout
    assert page.startswith("please ask\n")
    assert f"job  {job}\n" in page
    assert "status  waiting for you (question)" in page
    assert "Instruction\n  please ask\n  and take your time\n" in page
    assert "? Which colour?  (the model asked)\n      1  red\n      2  blue\n" in page
    assert f"    maestro-lsp answer {job} red\n" in page
    assert "usage  model calls: 1" in page


def test_show_tells_movements_decisions_and_the_result_after_the_end(cli: Cli) -> None:
    cli("run", "please ask")
    cli("answer", cli.job()["jobId"], "green")
    work(cli)
    page = cli("show", cli.job()["jobId"]).stdout
    assert "Movements\n  work → ASK  iterations: 1\n  work → COMPLETE" in page
    assert "Decided\n  Which colour? — answered by cli: green  20" in page
    assert page.endswith("Result\n  Fine.\n")


def test_an_answer_is_told_and_the_worker_says_what_becomes_of_the_job(cli: Cli) -> None:
    cli("run", "please ask")
    job = cli.job()["jobId"]
    done = cli("answer", job, "green")
    assert done.stdout.startswith(f"Answered. Job {job} goes on")
    assert [line.split("  ")[1] for line in work(cli).splitlines()] == ["running", "succeeded"]


def test_an_empty_answer_decides_nothing(cli: Cli) -> None:
    cli("run", "please ask")
    done = cli("answer", cli.job()["jobId"], "  ")
    assert done.returncode == 2
    assert "nothing was decided" in one_sentence(done.stderr)
    assert cli.job()["status"] == "waiting_human"


def test_a_question_takes_no_decision_and_an_approval_no_answer(cli: Cli) -> None:
    cli("run", "please ask")
    question = cli.job()
    cli("run", "--mode", "ask", "please write")
    approval = cli.job()
    told = cli("decide", question["openRequests"][0], "allow")
    assert told.returncode == 2
    assert "is a question and wants an answer" in one_sentence(told.stderr)
    told = cli("answer", approval["jobId"], "yes")
    assert told.returncode == 1
    assert "asks nothing now (it is waiting_human)" in one_sentence(told.stderr)


def test_a_denial_with_a_note_reaches_the_model_and_nothing_is_written(
    cli: Cli, server: ThreadedServer
) -> None:
    cli("run", "--mode", "ask", "please write")
    [request] = cli.job()["openRequests"]
    done = cli("decide", request, "deny", "--note", "never on Fridays")
    assert done.stdout.startswith(f"Denied {request}. The job is told in an open editor")
    work(cli)
    assert "never on Fridays" in server.bodies()[-1]["messages"][-1]["content"]
    assert not (cli.workspace / "hello.txt").exists()


def test_a_scope_stores_a_rule_for_the_task(cli: Cli) -> None:
    cli("trust")
    cli("run", "--mode", "ask", "please write")
    job = cli.job()
    cli("decide", job["openRequests"][0], "allow", "--scope", "task")
    [rule] = json.loads(cli("rules", "--json").stdout)["rules"]
    assert (rule["scope"], rule["taskId"]) == ("task", job["taskId"])
    assert f"task t-…{job['taskId'][-4:]}" in cli("rules").stdout


def test_a_comment_answers_a_question(cli: Cli) -> None:
    cli("run", "please ask")
    assert cli("comment", cli.job()["taskId"], "green").returncode == 0
    work(cli)
    assert cli.job()["status"] == "succeeded"


def test_a_comment_on_a_task_at_rest_starts_a_follow_up(cli: Cli) -> None:
    cli("run", "one")
    first = cli.job()
    done = cli("comment", first["taskId"][-4:], "and one more thing")
    follow_up = cli.job()
    assert follow_up["jobId"] in done.stdout
    assert (follow_up["taskId"], follow_up["status"]) == (first["taskId"], "queued")
    work(cli)
    assert cli.show()["instruction"] == "and one more thing"


def test_a_task_is_found_by_one_of_its_jobs(cli: Cli) -> None:
    cli("run", "one")
    first = cli.job()
    assert cli("comment", f"j-…{first['jobId'][-4:]}", "and one more thing").returncode == 0
    assert cli.job()["taskId"] == first["taskId"]
    assert cli("brief", cli.job()["jobId"]).stdout == cli("brief", first["taskId"]).stdout


def test_a_worker_with_nothing_to_do_says_so(cli: Cli) -> None:
    cli("run", "please ask")
    assert work(cli).startswith("Nothing is queued in ")
    cli("answer", cli.job()["jobId"], "green")
    assert "Nothing is queued" not in work(cli)


def test_a_budget_that_is_denied_ends_the_job_and_is_told_so(cli: Cli) -> None:
    cli("run", "--mode", "plan", "please ask", env={"MAESTRO_BUDGET_CALLS": "1"})
    job = cli.job()["jobId"]
    cli("answer", job, "green")
    cli("worker", "--until-idle", env={"MAESTRO_BUDGET_CALLS": "1"})
    [request] = cli.job()["openRequests"]
    assert cli("decide", request, "deny").stdout == f"Denied {request}. Job {job} is cancelled.\n"
    assert cli.job()["status"] == "cancelled"


def test_the_brief_is_printed_in_the_form_in_which_it_is_set(cli: Cli, tmp_path: Path) -> None:
    cli("run", "one")
    task = cli.job()["taskId"]
    file = tmp_path / "brief.yaml"
    file.write_text("goal: 税込みの価格\nopen: |\n  first\n  second\n", "utf-8")
    done = cli("brief", task, "--set", file)
    assert done.returncode == 0
    assert done.stdout.startswith("goal: 税込みの価格\ndone: ''\nopen: |\n  first\n  second\n")
    again = cli("brief", task, "--set", "-", text=done.stdout.replace("first", "third"))
    assert "  third\n  second\n" in again.stdout
    brief = json.loads(cli("brief", task, "--json").stdout)
    assert brief == {"goal": "税込みの価格", "done": "", "open": "third\nsecond\n", "clarifications": ""}


@pytest.mark.parametrize("text", ["aim: x\n", "- goal\n", "goal: [", ""])
def test_a_brief_with_other_keys_is_refused(cli: Cli, text: str) -> None:
    cli("run", "one")
    done = cli("brief", cli.job()["taskId"], "--set", "-", text=text)
    assert (done.returncode, done.stdout) == (2, "")
    one_sentence(done.stderr)


def test_cancel_ends_a_parked_job_at_once(cli: Cli) -> None:
    cli("run", "please ask")
    job = cli.job()["jobId"]
    assert cli("cancel", job[-4:]).stdout == f"Job {job} is cancelled.\n"
    assert cli.show(job)["status"] == "cancelled"
    assert cli.show(job)["requests"][0]["settled"]["decision"] == "withdrawn"


def test_retry_makes_a_new_job_that_a_worker_runs(cli: Cli) -> None:
    cli("run", "please abort")
    first = cli.job()
    done = cli("retry", first["jobId"])
    second = cli.job()
    assert second["jobId"] in done.stdout
    assert (second["retryOf"], second["taskId"], second["status"]) == (
        first["jobId"],
        first["taskId"],
        "queued",
    )
    work(cli)
    assert cli.job()["status"] == "aborted"
    assert f"retry of  {first['jobId']}" in cli("show", second["jobId"]).stdout


def test_retry_without_an_endpoint_says_so(cli: Cli) -> None:
    cli("run", "please abort")
    done = cli("retry", cli.job()["jobId"], env={"MAESTRO_ENDPOINT": ""})
    assert done.returncode == 2
    assert one_sentence(done.stderr).startswith("No model server is set.")


def test_changes_shows_the_diff_and_whether_somebody_changed_the_file_since(cli: Cli) -> None:
    cli("trust")
    cli("run", "please write")
    job = cli.job()["jobId"]
    assert cli("changes", job).stdout == (
        "added  hello.txt\n--- /dev/null\n+++ b/hello.txt\n@@ -0,0 +1 @@\n+hi\n"
    )
    (cli.workspace / "hello.txt").write_text("other\n")
    assert "added  hello.txt  (somebody changed it since)" in cli("changes", job).stdout
    [file] = json.loads(cli("changes", job, "--json").stdout)["files"]
    assert (file["path"], file["status"], file["currentMatches"]) == ("hello.txt", "added", False)


def test_a_job_without_changes_says_so(cli: Cli) -> None:
    cli("run", "one")
    assert "changed no files" in cli("changes", cli.job()["jobId"]).stdout
    done = cli("revert", cli.job()["jobId"])
    assert (done.returncode, done.stdout.startswith("There is nothing to put back")) == (0, True)


def test_revert_puts_back_what_nobody_touched_since_and_tells_the_rest(cli: Cli) -> None:
    cli("trust")
    cli("run", "please write")
    job = cli.job()["jobId"]
    file = cli.workspace / "hello.txt"
    file.write_text("other\n")
    done = cli("revert", job)
    assert (done.returncode, done.stdout) == (1, "left  hello.txt: changed since the job left it\n")
    told = json.loads(cli("revert", job, "--json", env={"LC_ALL": "ja_JP.UTF-8"}).stdout)
    assert told == {
        "reverted": [],
        "kept": [{"path": "hello.txt", "reason": "changed", "text": "ジョブの後に変更されています"}],
    }
    file.write_text("hi\n")
    done = cli("revert", job, "./hello.txt")
    assert (done.returncode, done.stdout) == (0, "put back  hello.txt\n") and not file.exists()
    done = cli("revert", job)
    assert (done.returncode, done.stdout) == (0, "left  hello.txt: was put back before\n")
    done = cli("revert", job, "/etc/passwd")
    assert (done.returncode, one_sentence(done.stderr)[:31]) == (2, "/etc/passwd is not in the works")


def test_trust_is_stored_for_the_folder_and_can_be_taken_back(cli: Cli) -> None:
    assert cli("trust").stdout.startswith(f"{cli.workspace} is trusted from now on")
    cli("run", "please write")
    assert cli.job()["status"] == "succeeded"
    (cli.workspace / "hello.txt").unlink()
    assert "no longer trusted" in cli("trust", cli.workspace, "--revoke").stdout
    cli("run", "please write")
    assert cli.job()["status"] == "waiting_human"


def test_trust_for_one_run_is_not_stored(cli: Cli) -> None:
    assert cli("run", "--trust", "please write").returncode == 0
    (cli.workspace / "hello.txt").unlink()
    assert cli("run", "please write").returncode == 3


def piece(folder: Path, name: str, text: str | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shipped = Path(__file__).resolve().parents[2] / "pieces" / "general.yaml"
    folder.joinpath(f"{name}.yaml").write_text(text or shipped.read_text("utf-8"), "utf-8")


def test_pieces_are_listed_with_source_and_what_they_hide_and_those_of_the_workspace_only_if_trusted(
    cli: Cli,
) -> None:
    piece(cli.workspace / ".maestro" / "pieces", "general")
    piece(cli.user_file.parent / "pieces", "mine", "name: mine\n")
    listed = cli("pieces").stdout
    sources = {tuple(line.split()[:2]) for line in listed.splitlines()}
    assert {("general", "shipped"), ("mine", "yours")} <= sources and "; `maestro-lsp lint " in listed
    cli("trust")
    [general] = [p for p in json.loads(cli("pieces", "--json").stdout)["pieces"] if p["name"] == "general"]
    assert (general["source"], general["shadows"]) == ("workspace", ["shipped"])
    assert "workspace (hides: shipped)" in cli("pieces").stdout


def test_a_worker_ends_in_order_when_it_is_told_to(cli: Cli) -> None:
    cli("run", "please ask")
    job = cli.job()["jobId"]
    running = cli.start("worker")
    assert running.stdout is not None
    assert "Working the queue" in running.stdout.readline()
    cli("answer", job, "green")
    said = [running.stdout.readline().split("  ")[1].strip() for _ in range(3)]
    assert said == ["queued", "running", "succeeded"]
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=15) == ("", "")
    assert running.returncode == 0


def test_the_engine_process_answers_over_its_link_and_ends_with_its_input(cli: Cli) -> None:
    process = cli.start("worker", "--link")
    assert process.stdin is not None and process.stdout is not None
    hello: dict[str, Any] = {
        "workspace": str(cli.workspace),
        "store": str(cli.state / "x" / "store.db"),
        "config": {},
    }
    process.stdin.write(json.dumps(hello) + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["kind"] == "ready"
    process.stdin.close()
    assert process.wait(timeout=15) == 0


def test_an_ambiguous_end_of_an_id_is_refused(cli: Cli, tmp_path: Path) -> None:
    """Two ids with the same end, made by hand: chance would take too long."""
    cli("run", "one")
    cli("run", "two")
    ids = [job["jobId"] for job in json.loads(cli("jobs", "--json").stdout)["jobs"]]
    [store] = cli.state.glob("*/store.db")
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("PRAGMA foreign_keys = OFF")
        for number, job_id in enumerate(ids):
            db.execute("UPDATE jobs SET job_id = ? WHERE job_id = ?", (job_id[:-5] + f"{number}SAME", job_id))
    done = cli("show", "SAME")
    assert done.returncode == 2
    sentence = one_sentence(done.stderr)
    assert sentence.startswith("“SAME” fits several ids: ") and "Give a longer end" in sentence
    assert cli("show", "1SAME").returncode == 0


def test_resolve_wakes_every_job_that_waits_for_a_screen(cli: Cli) -> None:
    """Captchas come with a later issue: two parked questions are made into two by hand."""
    for number in ("one", "two"):
        cli("run", f"please ask {number}")
    [store] = cli.state.glob("*/store.db")
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("UPDATE jobs SET screen_key = 'shop', wait_reason = 'captcha'")
        db.execute("UPDATE requests SET reason = 'captcha'")
    done = cli("resolve", "shop")
    assert done.returncode == 0
    assert done.stdout.count(" goes on.") == 2
    assert {job["status"] for job in json.loads(cli("jobs", "--json").stdout)["jobs"]} == {"queued"}
    assert cli("resolve", "shop").returncode == 2


def test_a_run_follows_its_job_whoever_works_on_it(cli: Cli, server: ThreadedServer) -> None:
    """A worker is at work on the same store: either of the two may take the job."""
    cli("trust")
    worker = cli.start("worker")
    assert worker.stdout is not None
    assert "Working the queue" in worker.stdout.readline()
    for number in range(3):
        done = cli("run", f"number {number}")
        assert (done.returncode, done.stderr) == (0, "")
        assert "Fine.\nsucceeded" in done.stdout
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=15) == 0
