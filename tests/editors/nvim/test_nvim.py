"""The main job in a real Neovim, by keys: each step asserts what stands on the screen."""

from __future__ import annotations

import pytest

from engine.llm.scripted import ThreadedServer
from tests.editors.nvim.driver import INIT, PLAIN, Desk, Nvim, nvim

pytestmark = [pytest.mark.slow, pytest.mark.needs("tmux")]

NOTE = "round up instead"
ANSWER = "half up, please"
AT_ONCE = f"vim.g.maestro = {{ prompt = 'now' }}\n{INIT}"
"""The plugin without the pause that keeps a prompt out of somebody's typing."""


def to_the_question(vim: Nvim) -> None:
    """Start the task by command and allow the command it runs first."""
    vim.until("maestro[ask]")
    vim.command("LspMaestroTask piece=code Make the failing test pass")
    vim.until("what would happen", "Bash: python3 -m unittest -v", "Why you are asked:", "1: Allow once")
    vim.choose("Allow once")
    vim.until("Round up or down? The test says: AssertionError: 138.24 != 138", "1: up 2: down")


def test_a_task_asks_shows_its_diff_hears_a_note_outlives_neovim_ends_and_is_put_back(
    desk: Desk, model: ThreadedServer
) -> None:
    with nvim(desk) as vim:
        to_the_question(vim)
        vim.choose("Answer in your own words…")
        vim.until("Your answer:")
        vim.type(ANSWER, "Enter")

        vim.until("before: price.py", "after: price.py", "+ 50) // 100", "Edit price.py (+2 −2)")
        vim.until("Always allow: Write and Edit: any file in the workspace")
        vim.picture("approval", "Neovim: the diff of an edit in diff mode, and the choices below it")
        vim.choose("Deny with a note…")
        vim.until("Why not, and what instead?", "+ 50) // 100")
        vim.type(NOTE, "Enter")
        vim.until("+ 99) // 100", "Edit price.py (+2 −2)")
        assert any(NOTE in str(body["messages"][-1]) for body in model.bodies())

        vim.press("Enter")
        vim.until("Nothing decided; it stays open", "1 waiting for you", without="after: price.py")
        vim.command("qa!")
        vim.ended()

    assert desk.job()["waitReason"] == "approval"
    with nvim(desk, AT_ONCE) as vim:
        vim.until("after: price.py", "+ 99) // 100", "Edit price.py (+2 −2)")
        vim.choose("Allow once")
        vim.until("after: test_price.py", "with_tax(128, 8), 139)", "1: Allow once")
        vim.choose("Allow once")
        vim.until("Bash: python3 -m unittest -v", "Why you are asked: Mode ask asks about every command.")
        vim.choose("Allow once")
        vim.until("Bash: python3 -m unittest -v", "Why you are asked: This movement says edit: false")
        vim.choose("Allow once")
        vim.until("Done: ")
        vim.until("return (price * (100 + rate) + 99) // 100", "maestro[ask]", without="waiting for you")
        assert "+ 99) // 100" in (desk.workspace / "price.py").read_text()
        assert desk.job()["status"] == "succeeded"
        _look_and_put_back(vim, desk)
    assert "+ 99) // 100" not in (desk.workspace / "price.py").read_text()
    assert (desk.workspace / "test_price.py").read_text().endswith("# mine\n")


def _look_and_put_back(vim: Nvim, desk: Desk) -> None:
    """Afterwards: the piece as a graph, the task written down, and its changes put back but for one."""
    vim.type(":LspMaestroGraph co", "Tab")
    vim.until(":LspMaestroGraph code")
    vim.press("Enter")
    vim.until("piece code", "flowchart TD")
    vim.type("q")
    vim.command("LspMaestroExport")
    vim.until("# Make the failing test pass", "maestro/tasks")
    vim.command("bwipeout")
    with (desk.workspace / "test_price.py").open("a") as file:
        file.write("# mine\n")
    vim.command("LspMaestroRevert")
    vim.until(
        "what would be put back", "test_price.py: stays, it was changed since", "price.py: is as it was"
    )
    vim.until("Put back what “Make the failing test pass” changed?")
    vim.choose("Put it back")
    vim.until("left as they are, and why", "test_price.py: changed since the job left it")
    vim.until("Put back: 1. Left as they are: 1")
    vim.type("q")
    vim.until("return price * (100 + rate) / 100", without="left as they are, and why")


def test_the_jobs_follow_a_task_and_its_request_is_taken_up_from_them(desk: Desk) -> None:
    with nvim(desk, AT_ONCE) as vim:
        vim.until("maestro[ask]")
        vim.command("LspMaestroJobs")
        vim.until("No jobs yet.")
        to_the_question(vim)
        vim.until("waiting", "code · plan", "waits for your answer")
        vim.picture("question", "Neovim: a question with its options, the jobs window above it")
        vim.choose("Later")
        vim.until("Nothing decided; it stays open", "1 waiting for you")
        vim.type("a")
        vim.until("Round up or down?")
        vim.choose("down")
        vim.until("after: price.py", "// 100")
        vim.choose("Look at it first")
        vim.until("Look at it in peace", "after: price.py", without="Type number")
        vim.press("Enter")
        vim.until("1: Allow once")
        vim.press("Enter")
        vim.until("Nothing decided")
        vim.press("Enter")
        vim.until("# Make the failing test pass", "waits for your decision", "## Course", "▸ plan")
        vim.picture("job", "Neovim: the page of a job, what it was told, did and asked")
        vim.type("G")
        vim.until("That settles it: round down.", "→ implement: Cause: price.py:6", "? Edit price.py (+2 −2)")
        vim.type("q")
        vim.type("x")
        vim.until("Cancel “Make the failing test pass”?")
        vim.choose("Cancel the job")
        vim.until("cancelled code · implement", without="waiting for you")
    assert desk.job()["status"] == "cancelled"


def test_no_prompt_opens_into_somebodys_typing(desk: Desk) -> None:
    with nvim(desk) as vim:
        vim.until("maestro[ask]")
        vim.command("LspMaestroTask piece=code Make the failing test pass")
        vim.type("o")
        assert "1: Allow once" not in vim.until("1 waiting for you", "-- INSERT --")
        vim.type("1", "Enter")
        vim.type("still typing")
        assert "1: Allow once" not in vim.until("still typing")
        vim.press("Escape")
        vim.until("1: Allow once", "Type number and <Enter>")
    assert desk.job()["status"] == "waiting_human"


def test_what_was_settled_elsewhere_is_said_and_the_late_choice_changes_nothing(desk: Desk) -> None:
    with nvim(desk) as vim:
        to_the_question(vim)
        job = str(desk.job()["jobId"])
        desk.cli("answer", job, "up")
        vim.choose("down")
        vim.until("This was settled elsewhere; your choice changed nothing", without="Type number")
        vim.until("after: price.py", "+ 99) // 100")
        vim.choose("Deny with a note…")
        vim.until("Why not, and what instead?")
        vim.type("half a note")
        [request] = [r["requestId"] for r in desk.requests() if "settled" not in r]
        desk.cli("decide", request, "allow")
        vim.until("after: test_price.py", without="half a note")


def test_a_selection_a_comment_a_mode_and_the_pieces_by_name(desk: Desk, model: ThreadedServer) -> None:
    with nvim(desk, AT_ONCE) as vim:
        vim.until("maestro[ask]")
        vim.command("LspMaestroMode plan")
        vim.until("New jobs run in mode plan.", "maestro[plan]")
        vim.type(":LspMaestroTask piece=ch", "Tab")
        vim.until(":LspMaestroTask piece=chat")
        vim.press("C-c")
        vim.type("/return", "Enter")
        vim.type("V:LspMaestroTask", "Enter")
        vim.until("Which piece?", "1: Let maestro choose", "chat ", "code ")
        vim.choose("chat ")
        vim.until("chat: what is to be done?")
        vim.type("What is selected here?", "Enter")
        vim.until("Done: ")
        task = desk.job()
        assert (task["piece"], task["mode"]) == ("chat", "plan")
        [selection] = desk.workspace.glob(".maestro/tasks/*/input/selection-1*")
        assert selection.read_text().endswith("\n    return price * (100 + rate) / 100")
        assert selection.name in str(model.bodies()[0]["messages"])
        vim.command("LspMaestroAnswer")
        vim.until("Nothing waits for you.")
        vim.command("LspMaestroTask piece=cod Do it")
        vim.until("cod", "code")


def test_neovim_without_the_plugin_asks_by_its_own_prompt(desk: Desk) -> None:
    with nvim(desk, PLAIN) as vim:
        vim.until("1 client")
        vim.command("Task Make the failing test pass")
        vim.until("Bash: python3 -m unittest -v. Allow?", "1: Allow once", "5: Show details")
        vim.choose("Allow once")
        vim.until("Round up or down?", "1: up", "3: Answer…")
        vim.choose("down")
        vim.until("Edit price.py (+2 −2). Allow?")
        vim.choose("Deny")
        vim.until("You declined the change to price.py.", "4: leave it as it is")
        vim.choose("leave it as it is")
        vim.until("[Warning] [maestro", "Stopped: ")
    assert desk.job()["status"] == "aborted"


def test_checkhealth_says_what_is_there(desk: Desk) -> None:
    with nvim(desk) as vim:
        vim.until("maestro[ask]")
        vim.command("checkhealth maestro")
        vim.until(
            "OK Neovim 0.1",
            "OK maestro-lsp 0.",
            f"OK Model scripted at {desk.endpoint}, without a key",
            "is trusted",
            "Mode of new jobs: ask (asks before each edit and command)",
        )


def test_a_missing_server_is_one_sentence_with_its_mend(desk: Desk) -> None:
    desk.variables["SERVER"] = '["maestro-is-not-here", "--stdio"]'
    with nvim(desk) as vim:
        vim.until("return price")
        vim.command("LspMaestroTask Do it")
        vim.until("The command maestro-is-not-here was not found. Install maestro-lsp, or name the command")
        vim.command("checkhealth maestro")
        vim.until("ERROR The command maestro-is-not-here was not found.", "ADVICE:", "No server runs")


def test_japanese_is_spoken_throughout(desk: Desk) -> None:
    desk.variables["LC_ALL"] = "ja_JP.UTF-8"
    with nvim(desk, AT_ONCE) as vim:
        vim.until("maestro[ask]")
        vim.command("LspMaestroTask piece=code 失敗しているテストを通してください")
        vim.until("実行される内容", "確認する理由:", "1: 今回だけ許可", "5: 理由をつけて拒否…")
        vim.choose("今回だけ許可")
        vim.until("切り上げますか、切り捨てますか。", "1: 切り上げ", "自分の言葉で答える…")
        vim.choose("あとで")
        vim.until("何も決めていません。", "1 件があなたを待っています")
