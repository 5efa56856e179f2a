"""`maestro-lsp run`: one task to its end in a terminal, or without one."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.llm.scripted import ScriptReply, ScriptRequest, call, say, serve_in_thread
from tests.cli.harness import Cli, one_sentence

pytestmark = pytest.mark.slow

WRITE = ("Write", {"file_path": "hello.txt", "content": "hi\n"})
DONE = call("complete", status="success", result="All done: hello.txt is there.")


def writes(request: ScriptRequest) -> ScriptReply:
    """Says something, writes a file, ends."""
    if not request.results("Write"):
        return ScriptReply(text="I shall write it.", calls=(WRITE,))
    return DONE


def asks(request: ScriptRequest) -> ScriptReply:
    """Asks until the answer stands in the prompt, then repeats it."""
    for answer in ("sideways, please", "the-left-one"):
        if request.contains(answer):
            return call("complete", status="success", result=f"It goes {answer}.")
    question = {"status": "needs_user_input", "result": "Which way?", "options": ["the-left-one", "right"]}
    # The options of an earlier question stand in no prompt; the words themselves do only after an answer.
    return ScriptReply(calls=(("complete", question),))


def served(cli: Cli, server: Any) -> Cli:
    cli.env |= {"MAESTRO_ENDPOINT": server.base_url, "MAESTRO_MODEL": "scripted"}
    return cli


def test_a_task_runs_to_its_end_and_shows_progress_text_result_and_cost(cli: Cli) -> None:
    with serve_in_thread(writes) as server:
        done = served(cli, server)("run", "--trust", "write hello.txt")
    assert (done.returncode, done.stderr) == (0, "")
    shown = done.stdout
    assert "piece general" in shown and "No piece was named" not in shown
    assert shown.count("I shall write it.") == 1
    assert [line for line in shown.splitlines() if line.startswith(("▸", "  ·", "  ✓"))] == [
        "▸ work",
        "  · Write hello.txt (new, 1 line)",
        "  ✓ hello.txt (new, 1 line)",
    ]
    assert "All done: hello.txt is there.\n  A hello.txt\nsucceeded · model calls: 2" in shown
    assert (cli.workspace / "hello.txt").read_text() == "hi\n"


def test_model_chooses_among_the_listed_workers_and_a_busy_server_is_told(cli: Cli) -> None:
    def busy_first(request: ScriptRequest) -> ScriptReply:
        return ScriptReply(status=429) if request.number == 1 else DONE

    with serve_in_thread([]) as main, serve_in_thread(busy_first) as other:
        cli.user_file.write_text(
            "llm:\n  retry: {max_attempts: 0, requeue_s: 0.05}\n  workers:\n"
            f"  - {{id: first, endpoint: '{main.base_url}', model: scripted, roles: [main]}}\n"
            f"  - {{id: coder, endpoint: '{other.base_url}', model: coder-7b}}\n",
            "utf-8",
        )
        done = cli("run", "--piece", "chat", "--model", "coder", "what is this?")
        wrong = cli("run", "--piece", "chat", "--model", "gpt", "what is this?")
        assert (len(main.requests), len(other.requests)) == (0, 2)
    assert done.returncode == 0, done.stderr
    assert "coder-7b" in done.stdout
    assert "… The model server takes no more requests for now" in done.stdout
    assert wrong.returncode == 2
    assert "The model gpt is none of your workers. Name one of these: first, scripted, " in wrong.stderr


def test_a_named_piece_wins_over_the_configured_one(cli: Cli) -> None:
    with serve_in_thread([DONE]) as server:
        done = served(cli, server)("run", "--piece", "chat", "what is this?")
    assert done.returncode == 0
    assert "piece chat" in done.stdout


@pytest.mark.parametrize(
    ("locale", "answer", "told"),
    [
        ("C.UTF-8", "chat", ["No piece was named", "piece –", "piece chat, chosen for this task"]),
        ("C.UTF-8", "dance", ["piece general, since none could be chosen: the model named none"]),
        ("ja_JP.UTF-8", "chat", ["タスクに合うものを選びます。", "ピース chat（このタスクのために選択）"]),
        ("ja_JP.UTF-8", "", ["ピース general（モデルが何も答えず選べませんでした）"]),
    ],
)
def test_where_no_piece_is_named_one_is_chosen_and_the_person_is_told(
    cli: Cli, locale: str, answer: str, told: list[str]
) -> None:
    del cli.env["MAESTRO_PIECE"]

    def script(request: ScriptRequest) -> ScriptReply:
        return DONE if request.tool_names else ScriptReply(text=answer)

    with serve_in_thread(script) as server:
        done = served(cli, server)("run", "what is this?", env={"LC_ALL": locale})
    assert (done.returncode, done.stderr) == (0, "")
    assert [text for text in told if text not in done.stdout] == [], done.stdout
    assert cli.job()["piece"] == ("chat" if answer == "chat" else "general")


def test_the_workspace_is_named_by_w_and_the_instruction_may_come_on_stdin(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    with serve_in_thread(writes) as server:
        done = served(cli, server)("run", "-w", other, "--trust", "-", text="from stdin")
    assert done.returncode == 0
    assert (other / "hello.txt").is_file()
    assert not (cli.workspace / "hello.txt").exists()
    assert json.loads(server.requests[0])["messages"][1]["content"].count("from stdin") == 1


def test_json_prints_one_event_a_line_and_a_last_line_and_nothing_else(cli: Cli) -> None:
    with serve_in_thread(writes) as server:
        done = served(cli, server)("run", "--trust", "--json", "write hello.txt")
    assert (done.returncode, done.stderr) == (0, "")
    *events, end = [json.loads(line) for line in done.stdout.splitlines()]
    stored = [event for event in events if "delta" not in event]
    assert [event["seq"] for event in stored] == list(range(1, len(stored) + 1))
    assert "".join(e["delta"] for e in events if e["kind"] == "text" and "delta" in e) == "I shall write it."
    kinds = {event["kind"] for event in events}
    assert {"status", "movement", "text", "tool_call", "tool_result", "usage"} <= kinds
    assert (end["kind"], end["status"], end["exit"]) == ("end", "succeeded", 0)
    assert end["result"] == "All done: hello.txt is there."
    assert stored == json.loads(json.dumps(stored)) and all(e["jobId"] == end["jobId"] for e in events)


def test_a_live_delta_carries_the_seq_of_the_last_stored_event(cli: Cli) -> None:
    with serve_in_thread(writes) as server:
        done = served(cli, server)("run", "--trust", "--json", "write hello.txt")
    last = 0
    for event in map(json.loads, done.stdout.splitlines()[:-1]):
        if "delta" in event:
            assert event["seq"] == last
        last = event["seq"]


@pytest.mark.parametrize(
    ("typed", "result"),
    [("1", "It goes the-left-one."), ("sideways, please", "It goes sideways, please.")],
    ids=["by number", "in free text"],
)
def test_a_question_is_answered_at_the_prompt(cli: Cli, typed: str, result: str) -> None:
    with serve_in_thread(asks) as server:
        screen = served(cli, server).terminal("run", "where to?")
        shown = screen.until("A number or your own answer")
        assert "? Which way?" in shown
        assert "  1  the-left-one\n  2  right" in shown
        screen.type("")
        screen.until("Nothing was decided.")
        screen.type(typed)
        screen.until(result)
        assert screen.end() == 0


def test_without_a_terminal_a_question_ends_the_run_with_3_and_says_how_to_answer(cli: Cli) -> None:
    with serve_in_thread(asks) as server:
        done = served(cli, server)("run", "where to?")
        job = cli.job()["jobId"]
        assert (done.returncode, done.stderr) == (3, "")
        assert f"To answer: maestro-lsp answer {job} the-left-one" in done.stdout
        assert "maestro-lsp worker -w" in done.stdout
        assert cli("answer", job, "sideways, please").returncode == 0
        worked = cli("worker", "--until-idle")
    assert worked.returncode == 0
    assert cli.show(job)["result"] == "It goes sideways, please."


def test_json_with_a_question_ends_with_3_and_names_the_request(cli: Cli) -> None:
    with serve_in_thread(asks) as server:
        done = served(cli, server)("run", "--json", "where to?")
    end = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, end["status"], end["exit"], end["result"]) == (3, "waiting_human", 3, None)
    assert len(end["openRequests"]) == 1


def test_ctrl_d_leaves_the_question_open(cli: Cli) -> None:
    with serve_in_thread(asks) as server:
        screen = served(cli, server).terminal("run", "where to?")
        screen.until("A number or your own answer")
        screen.press(b"\x04")
        screen.until("To answer: maestro-lsp answer")
        assert screen.end() == 3
    assert cli.job()["status"] == "waiting_human"


def test_what_was_typed_before_the_question_does_not_answer_it(cli: Cli) -> None:
    asked = threading.Event()

    def later(request: ScriptRequest) -> ScriptReply:
        asked.wait(15)
        return asks(request)

    with serve_in_thread(later) as server:
        screen = served(cli, server).terminal("run", "where to?")
        screen.until("▸ work")
        screen.type("the-left-one")
        asked.set()
        screen.until("A number or your own answer")
        screen.type("sideways, please")
        screen.until("It goes sideways, please.")
        assert screen.end() == 0


def test_an_answer_from_elsewhere_ends_the_prompt_and_the_run_goes_on(cli: Cli) -> None:
    with serve_in_thread(asks) as server:
        screen = served(cli, server).terminal("run", "where to?")
        screen.until("A number or your own answer")
        assert cli("answer", cli.job()["jobId"], "sideways, please").returncode == 0
        screen.until("answered by cli")
        screen.until("It goes sideways, please.")
        assert screen.end() == 0


def test_an_approval_shows_the_diff_and_numbered_choices_and_allow_once_writes(cli: Cli) -> None:
    with serve_in_thread(writes) as server:
        screen = served(cli, server).terminal("run", "--mode", "ask", "--trust", "write hello.txt")
        shown = screen.until("Choose a number")
        assert "--- /dev/null\n+++ b/hello.txt\n@@ -0,0 +1 @@\n+hi\n" in shown
        assert "Mode ask asks about every change." in shown
        assert "  1  Allow once\n  2  Allow for this task (Write and Edit" in shown
        assert "  3  Always allow (Write and Edit" in shown
        assert "  4  Deny" in shown
        assert not (cli.workspace / "hello.txt").exists()
        screen.type("")
        screen.until("Nothing was decided.")
        screen.type("7")
        screen.until("none of the choices")
        screen.type("1")
        screen.until("All done")
        assert screen.end() == 0
    assert (cli.workspace / "hello.txt").read_text() == "hi\n"
    assert json.loads(cli("rules", "--json").stdout) == {"rules": []}


@pytest.mark.parametrize("typed", [["4", "not in this folder"], ["deny: not in this folder"]])
def test_a_denial_with_a_note_reaches_the_model(cli: Cli, typed: list[str]) -> None:
    with serve_in_thread(writes) as server:
        screen = served(cli, server).terminal("run", "--mode", "ask", "--trust", "write hello.txt")
        for line in typed:
            screen.until("Choose a number" if line == typed[0] else "A note for the model")
            screen.type(line)
        screen.until("All done")
        assert screen.end() == 0
        last = server.bodies()[-1]["messages"][-1]
    assert last["role"] == "tool"
    assert "not in this folder" in last["content"]
    assert not (cli.workspace / "hello.txt").exists()


def test_always_stores_a_rule_that_can_be_listed_and_removed(cli: Cli) -> None:
    with serve_in_thread(writes) as server:
        screen = served(cli, server).terminal("run", "--mode", "ask", "--trust", "write hello.txt")
        screen.until("Choose a number")
        screen.type("3")
        screen.until("All done")
        assert screen.end() == 0
    assert "Write and Edit" in cli("rules").stdout
    [rule] = json.loads(cli("rules", "list", "--json").stdout)["rules"]
    assert rule["scope"] == "always"
    assert cli("rules", "remove", rule["id"][-4:]).returncode == 0
    assert "No approval rules" in cli("rules").stdout


def test_without_a_terminal_an_approval_ends_with_3_shows_the_diff_and_decide_settles_it(cli: Cli) -> None:
    with serve_in_thread(writes) as server:
        done = served(cli, server)("run", "--mode", "ask", "write hello.txt")
        [request] = cli.job()["openRequests"]
        assert done.returncode == 3
        assert "+hi\n" in done.stdout
        assert f"To answer: maestro-lsp decide {request} allow|deny" in done.stdout
        assert cli("decide", request[-6:], "allow").returncode == 0
        assert cli("worker", "--until-idle").returncode == 0
    assert cli.job()["status"] == "succeeded"
    assert (cli.workspace / "hello.txt").is_file()


def test_a_second_decision_is_told_who_was_first(cli: Cli) -> None:
    with serve_in_thread(writes) as server:
        served(cli, server)("run", "--mode", "ask", "write hello.txt")
    [request] = cli.job()["openRequests"]
    assert cli("decide", request, "deny", "--note", "no").returncode == 0
    late = cli("decide", request, "allow")
    assert late.returncode == 1
    assert "already settled" in one_sentence(late.stderr)
    assert "deny, by cli" in late.stderr


def test_ctrl_c_cancels_the_job(cli: Cli) -> None:
    never = threading.Event()

    def hangs(_request: ScriptRequest) -> ScriptReply:
        never.wait(30)
        return DONE

    with serve_in_thread(hangs) as server:
        screen = served(cli, server).terminal("run", "take your time")
        server.wait_requests(1)
        screen.press(b"\x03")
        screen.until("Cancelling")
        screen.until("cancelled")
        assert screen.end() == 4
        never.set()
    assert cli.job()["status"] == "cancelled"


def test_ctrl_c_at_a_question_cancels_too(cli: Cli) -> None:
    with serve_in_thread(asks) as server:
        screen = served(cli, server).terminal("run", "where to?")
        screen.until("A number or your own answer")
        screen.press(b"\x03")
        assert screen.end() == 4
    assert cli.job()["status"] == "cancelled"


def test_a_signal_to_end_leaves_the_job_in_the_queue_and_a_worker_goes_on(cli: Cli) -> None:
    go_on = threading.Event()

    def waits(request: ScriptRequest) -> ScriptReply:
        go_on.wait(30)
        return writes(request)

    with serve_in_thread(waits) as server:
        running = served(cli, server).start("run", "--trust", "write hello.txt")
        server.wait_requests(1)
        running.send_signal(signal.SIGTERM)
        shown, mistakes = running.communicate(timeout=20)
        assert (running.returncode, mistakes) == (1, "")
        assert "The job is kept" in shown
        assert cli.job()["status"] == "queued"
        go_on.set()
        cli("trust")
        assert cli("worker", "--until-idle").returncode == 0
    assert cli.job()["status"] == "succeeded"


@pytest.mark.parametrize(
    ("locale", "sentence"),
    [("C.UTF-8", "The model gave the task up."), ("ja_JP.UTF-8", "モデルがタスクを断念しました。")],
)
def test_an_aborted_job_ends_with_1_and_says_why(cli: Cli, locale: str, sentence: str) -> None:
    reply = call("complete", status="aborted", result="There is nothing to do.")
    with serve_in_thread([reply]) as server:
        done = served(cli, server)("run", "do it", env={"LC_ALL": locale})
    assert done.returncode == 1
    assert "There is nothing to do." in done.stdout
    assert one_sentence(done.stderr) == sentence


def test_everything_is_said_in_japanese_in_a_japanese_terminal(cli: Cli) -> None:
    cli.env["LC_ALL"] = "ja_JP.UTF-8"
    with serve_in_thread(writes) as server:
        done = served(cli, server)("run", "--mode", "ask", "hello.txt を書いて")
    assert done.returncode == 3
    assert "ピース general" in done.stdout
    assert "答えるには: maestro-lsp decide" in done.stdout
    assert "Mode ask" not in done.stdout


def test_text_of_the_model_cannot_take_over_the_terminal(cli: Cli) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jred\u202e"
    reply = ScriptReply(text=evil, calls=(("complete", {"status": "success", "result": evil}),))
    with serve_in_thread([reply]) as server:
        done = served(cli, server)("run", "be evil")
    assert done.returncode == 0
    assert "red" in done.stdout
    assert not set(done.stdout) & {"\x1b", "\x07", "\u202e"}


def test_a_text_only_model_is_aborted_and_its_last_text_is_shown(cli: Cli) -> None:
    with serve_in_thread(say("I only talk.")) as server:
        done = served(cli, server)("run", "do it")
    assert done.returncode == 1
    assert "only wrote text" in one_sentence(done.stderr)
    assert "I only talk." in done.stdout
