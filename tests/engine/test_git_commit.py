"""GitCommit: asked every time, does exactly what it shows, and runs nothing that the repository brings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.core.views import JobDetail, Request
from engine.llm.scripted import ByMovement, ScriptReply, call
from tests.engine.repositories import begin, git, make_hostile, person, write
from tests.engine.rig import Rig, rig

__all__ = ["person"]
pytestmark = [pytest.mark.needs("git"), pytest.mark.usefixtures("person")]

PIECE = """
name: commits
description: One movement that may commit.
max_movements: 3
initial_movement: work
movements:
  - name: work
    edit: {edit}
    persona: p
    instruction: commit it
    allowed_tools: [Read, GitCommit]
    rules: []
"""
FILES = {"src/a.py": "one\ntwo\n", "読み 物/メモ.md": "古い\n", "gone.txt": "x\n"}


def script(*commits: ScriptReply) -> ByMovement:
    return ByMovement({"work": [*commits, call("complete", status="success", result="done")]})


def start(tmp_path: Path, *commits: ScriptReply, edit: bool = True, **config: object):  # type: ignore[no-untyped-def]
    pieces = {"commits": PIECE.format(edit=str(edit).lower())}
    return rig(tmp_path, script(*commits), pieces=pieces, **config)


def results(it: Rig) -> list[str]:
    return [m["content"] for m in it.bodies()[-1]["messages"] if m["role"] == "tool"]


async def allowed(it: Rig, times: int = 1) -> tuple[list[Request], JobDetail]:
    """Start the job and allow what it asks for."""
    job_id = await it.start("Commit it", piece="commits")
    seen = []
    for _ in range(times):
        request = await it.open_request(job_id)
        seen.append(request)
        await it.client.decide(request.request_id, "allow")
        await it.until(job_id, lambda d, r=request: r.request_id not in d.open_requests)  # type: ignore[misc]
    return seen, await it.until_rest(job_id)


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def committed(root: Path) -> list[str]:
    return sorted(git(root, "show", "--name-status", "--no-renames", "--format=", "HEAD").splitlines())


async def test_a_commit_is_shown_allowed_and_made(tmp_path: Path) -> None:
    message = "支払いを直す\n\n理由: 丸めが違った\n# not a comment"
    async with start(tmp_path, call("GitCommit", message=message)) as it:
        begin(it.workspace, FILES)
        write(it.workspace, {"src/a.py": "one\nthree\nfour\n", "読み 物/新 しい.md": "い\nろ\n"})
        (it.workspace / "gone.txt").unlink()
        seen, end = await allowed(it)
        card = seen[0]
        assert end.status == "succeeded"
        assert card.reason == "approval"
        assert "main" in card.title and "支払いを直す" in card.title and "3 files, +4 −2" in card.title
        assert message in card.detail
        for line in ("M src/a.py +2 −1", "D gone.txt +0 −1", "A 読み 物/新 しい.md +2 −0"):
            assert line in card.detail
        assert card.rule is None, "there is no rule to store: it asks every time"
        assert committed(it.workspace) == ["A\t読み 物/新 しい.md", "D\tgone.txt", "M\tsrc/a.py"]
        assert git(it.workspace, "log", "-1", "--format=%B").strip() == message
        assert git(it.workspace, "log", "-1", "--format=%an <%ae>|%G?").strip() == (
            "花子 Test <hanako@example.org>|N"
        )
        assert git(it.workspace, "status", "--porcelain", "src", "gone.txt") == ""
        assert head(it.workspace)[:7] in results(it)[0]


async def test_only_the_named_files_are_committed_and_what_was_staged_stays_staged(tmp_path: Path) -> None:
    async with start(tmp_path, call("GitCommit", message="some", paths=["読み 物", "src/new.py"])) as it:
        begin(it.workspace, FILES)
        write(it.workspace, {"src/a.py": "mine\n", "読み 物/メモ.md": "新しい\n", "src/new.py": "n\n"})
        git(it.workspace, "add", "src/a.py")
        await allowed(it)
        assert committed(it.workspace) == ["A\tsrc/new.py", "M\t読み 物/メモ.md"]
        assert git(it.workspace, "status", "--porcelain", "src") == "M  src/a.py\n"


async def test_the_first_commit_of_a_repository(tmp_path: Path) -> None:
    async with start(tmp_path, call("GitCommit", message="begin", paths=["a.txt"])) as it:
        git(it.workspace, "init", "-q", "-b", "main")
        write(it.workspace, {"a.txt": "a\n", "b.txt": "b\n"})
        await allowed(it)
        assert committed(it.workspace) == ["A\ta.txt"]


async def test_a_staged_deletion_and_a_renamed_file_are_committed(tmp_path: Path) -> None:
    async with start(tmp_path, call("GitCommit", message="moved")) as it:
        begin(it.workspace, FILES)
        git(it.workspace, "rm", "-q", "gone.txt")
        git(it.workspace, "mv", "src/a.py", "src/b.py")
        await allowed(it)
        assert committed(it.workspace) == ["A\tsrc/b.py", "D\tgone.txt", "D\tsrc/a.py"]


async def test_secrets_and_settings_are_left_out_and_said(tmp_path: Path) -> None:
    async with start(tmp_path, call("GitCommit", message="all")) as it:
        begin(it.workspace, FILES)
        write(it.workspace, {".env": "K=1\n", ".vscode/settings.json": "{}\n", "b.txt": "b\n"})
        seen, _ = await allowed(it)
        assert "Left out" in seen[0].detail and ".env" in seen[0].detail
        assert committed(it.workspace) == ["A\tb.txt"]
        assert ".vscode/settings.json" in results(it)[0]


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        (["../outside.txt"], "outside the workspace"),
        ([".env"], "secrets"),
        ([".vscode/settings.json"], "no tool commits it"),
        (["src/a.py"], "nothing differs from the last commit there"),
        (["no/such.txt"], "nothing to commit below no/such.txt"),
    ],
)
async def test_paths_that_cannot_be_committed_are_refused_unasked(
    tmp_path: Path, paths: Sequence[str], says: str
) -> None:
    async with start(tmp_path, call("GitCommit", message="x", paths=list(paths))) as it:
        begin(it.workspace, FILES)
        write(it.workspace, {".env": "K=1\n", ".vscode/settings.json": "{}\n", "b.txt": "b\n"})
        before = head(it.workspace)
        end = await it.until_rest(await it.start(piece="commits"))
        assert end.status == "succeeded"
        assert says in results(it)[0]
        assert head(it.workspace) == before


async def test_there_is_no_commit_where_nothing_is_edited(tmp_path: Path) -> None:
    async with start(tmp_path, call("GitCommit", message="x"), edit=False) as it:
        begin(it.workspace, FILES)
        write(it.workspace, {"b.txt": "b\n"})
        assert (await it.until_rest(await it.start(piece="commits"))).status == "succeeded"
        assert "edit: false" in results(it)[0]


async def test_there_is_no_commit_in_mode_plan(tmp_path: Path) -> None:
    async with start(tmp_path, call("GitCommit", message="x")) as it:
        begin(it.workspace, FILES)
        write(it.workspace, {"b.txt": "b\n"})
        await it.until_rest(await it.start(piece="commits", mode="plan"))
        assert "mode is plan" in results(it)[0]


@pytest.mark.parametrize(("state", "says"), [("MERGE_HEAD", "A merge is"), ("rebase-merge", "A rebase is")])
async def test_there_is_no_commit_in_the_midst_of_a_merge_or_rebase(
    tmp_path: Path, state: str, says: str
) -> None:
    async with start(tmp_path, call("GitCommit", message="x")) as it:
        begin(it.workspace, FILES)
        write(it.workspace, {"b.txt": "b\n"})
        (it.workspace / ".git" / state).write_text(head(it.workspace))
        await it.until_rest(await it.start(piece="commits"))
        assert says in results(it)[0]


async def test_outside_a_repository_and_without_a_name_it_says_what_is_missing(
    tmp_path: Path, person: Path
) -> None:
    commits = [call("GitCommit", message="x"), call("GitCommit", message="x", paths=["b.txt"])]

    class Then:
        def __init__(self) -> None:
            self.asked = 0

        def __call__(self, request):  # type: ignore[no-untyped-def]
            self.asked += 1
            if self.asked == 2:
                begin(tmp_path / "work", FILES)
                write(tmp_path / "work", {"b.txt": "b\n"})
                person.write_text("[user]\n\tname = only\n")
            return (
                commits[self.asked - 1] if self.asked < 3 else call("complete", status="success", result="x")
            )

    async with rig(
        tmp_path, ByMovement({"work": Then()}), pieces={"commits": PIECE.format(edit="true")}
    ) as it:
        await it.until_rest(await it.start(piece="commits"))
        assert "not the top of a git repository" in results(it)[0]
        assert 'git config --global user.name "Their Name"' in results(it)[1]


async def test_no_program_of_the_repository_runs(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with start(tmp_path, call("GitCommit", message="x")) as it:
        begin(it.workspace, FILES)
        make_hostile(it.workspace, mark)
        write(it.workspace, {"b.txt": "b\n", "src/a.py": "three\n"})
        before = head(it.workspace)
        await allowed(it)
        assert head(it.workspace) != before
        assert not mark.exists()
        git(it.workspace, "status")
        assert mark.exists(), "the trap itself works"


async def test_a_file_that_needs_a_filter_of_the_repository_is_not_committed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with start(tmp_path, call("GitCommit", message="x")) as it:
        begin(it.workspace, {**FILES, ".gitattributes": "*.bin filter=evil\n"})
        make_hostile(it.workspace, mark)
        write(it.workspace, {"b.bin": "b\n"})
        await it.until_rest(await it.start(piece="commits"))
        assert "goes through the filter `evil`" in results(it)[0]
        assert not mark.exists()


async def test_a_repository_whose_folder_lies_elsewhere_is_not_written(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with start(tmp_path, call("GitCommit", message="x")) as it:
        begin(other, FILES)
        git(other, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
        (it.workspace / ".git").write_text((tmp_path / "tree" / ".git").read_text())
        await it.until_rest(await it.start(piece="commits"))
        assert "outside the workspace" in results(it)[0]


async def test_declined_it_is_not_made_and_the_note_reaches_the_model(tmp_path: Path) -> None:
    async with start(tmp_path, call("GitCommit", message="x")) as it:
        begin(it.workspace, FILES)
        write(it.workspace, {"b.txt": "b\n"})
        before = head(it.workspace)
        job_id = await it.start(piece="commits")
        request = await it.open_request(job_id)
        await it.client.decide(request.request_id, "deny", note="not on main")
        await it.until_rest(job_id)
        assert head(it.workspace) == before
        assert "not on main" in results(it)[0]


async def test_what_changed_after_it_was_shown_is_asked_again(tmp_path: Path) -> None:
    async with start(tmp_path, call("GitCommit", message="x")) as it:
        begin(it.workspace, FILES)
        write(it.workspace, {"b.txt": "b\n"})
        job_id = await it.start(piece="commits")
        first = await it.open_request(job_id)
        await it.stop()
        write(it.workspace, {"b.txt": "something else\n"})
        await it.client.decide(first.request_id, "allow")
        await it.engine()
        await it.until(job_id, lambda d: bool(d.open_requests) and d.open_requests != [first.request_id])
        second = await it.open_request(job_id)
        await it.client.decide(second.request_id, "allow")
        assert (await it.until_rest(job_id)).status == "succeeded"
        assert git(it.workspace, "show", "HEAD:b.txt") == "something else\n"
        assert git(it.workspace, "rev-list", "--count", "HEAD").strip() == "2"


async def test_what_git_complains_of_is_told(tmp_path: Path) -> None:
    async with start(tmp_path, call("GitCommit", message="x")) as it:
        begin(it.workspace, FILES)
        write(it.workspace, {"b.txt": "b\n"})
        (it.workspace / ".git" / "index.lock").write_text("")
        before = head(it.workspace)
        _, end = await allowed(it)
        assert end.status == "succeeded"
        assert "Nothing was committed" in results(it)[0] and "index.lock" in results(it)[0]
        assert head(it.workspace) == before
