"""The workspace exactly as before the job: what is still as it was left is put back, the rest reported."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import restoring
from engine.catalog import messages
from engine.core import manifest
from engine.core.errors import IllegalMove, NotFound
from engine.core.limits import Snapshots
from engine.core.views import Reverted
from tests.engine.odd import ASK, DONE, SLOW
from tests.engine.rig import Rig, rig
from tests.engine.trees import PIECE, Action, acting, allow_all, bash, edit, play, tree_of, write

OFF: dict[str, Any] = {"pieces": {"one": PIECE}, "sandbox": "off"}


def kept(done: Reverted) -> dict[str, str]:
    """Reasons by path."""
    return {one.path: one.reason for one in done.kept}


def a_project(root: Path) -> None:
    """Texts, bytes, links, an empty folder, odd modes, and what git ignores."""
    (root / "src" / "deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "src" / "a.py").write_text("one\n")
    (root / "src" / "deep" / "b.py").write_text("two\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "日本.txt").write_text("こんにちは\n")
    (root / "bytes.bin").write_bytes(bytes(range(256)) * 4)
    (root / "link").symlink_to("src/a.py")
    (root / "odd").symlink_to("../nowhere")
    (root / ".gitignore").write_text("built/\n*.log\n")
    (root / "built").mkdir()
    (root / "built" / "out").write_text("out\n")


CHANGES: list[tuple[str, list[Action]]] = [
    ("an edit", [("Read", {"file_path": "src/a.py"}), edit("src/a.py", "one", "1")]),
    ("a new file in new folders", [write("new/er/c.py", "c\n")]),
    ("a deletion", [bash("rm src/a.py")]),
    ("a deleted tree", [bash("rm -r src")]),
    ("a rename", [bash("mv src/a.py src/z.py")]),
    ("a renamed folder", [bash("mv src lib")]),
    ("bytes", [bash("printf '\\0\\1' > bytes.bin; printf '\\0' > more.bin")]),
    ("modes", [bash("chmod 600 run.sh src/a.py; chmod 700 src")]),
    ("links", [bash("rm link odd; ln -s run.sh link; ln -s /etc/passwd out")]),
    ("a link in the place of a file", [bash("rm src/a.py; ln -s ../run.sh src/a.py")]),
    ("a file in the place of a link", [bash("rm link; echo x > link")]),
    ("a folder in the place of a file", [bash("rm run.sh; mkdir run.sh; echo x > run.sh/x")]),
    ("a file in the place of a folder", [bash("rm -r src; echo x > src")]),
    ("a link in the place of a folder", [bash("mv src lib; ln -s lib src")]),
    ("empty folders", [bash("rmdir empty; mkdir -p full/of/nothing")]),
    ("a read-only folder", [bash("rm src/deep/b.py; echo x > src/deep/n; chmod 555 src/deep")]),
    ("other rules for git", [bash("echo src/ > .gitignore; rm src/a.py; echo n > n.txt")]),
    ("no rules for git", [bash("rm .gitignore")]),
    (
        "one path again and again",
        [write("w.txt", "1\n"), bash("echo 2 > w.txt; rm src/a.py"), bash("rm w.txt")],
    ),
    ("a pipe", [bash("mkfifo pipe; rm run.sh; mkfifo run.sh")]),
    ("日本語", [bash("mv 日本.txt 国.txt; echo ね > 猫.txt")]),
    ("a failed command", [bash("echo x > src/a.py; exit 3")]),
]


@pytest.mark.parametrize("part", range(3))
async def test_revert_makes_the_workspace_what_it_was(tmp_path: Path, part: int) -> None:
    """One job after the other in one workspace: each finds it as the one before found it."""
    cases = dict(CHANGES[part::3])

    def script(request: Any) -> Any:
        actions = next(actions for what, actions in cases.items() if request.contains(f"Case: {what}."))
        return acting(actions)[request.turn]

    async with rig(tmp_path, script, **OFF) as it:
        a_project(it.workspace)
        before = tree_of(it.workspace)
        for what in cases:
            job = await play(it, f"Case: {what}.")
            assert tree_of(it.workspace) != before, (what, await it.client.events(job))
            done = await it.client.revert(job)
            assert done.kept == [] and done.reverted, what
            assert tree_of(it.workspace) == before, what
            assert await it.client.changes(job) == [], what
            again = await it.client.revert(job)
            assert again.reverted == [] and set(kept(again).values()) == {"already_reverted"}, what
            assert (await it.kinds(job)).count("reverted") == 1


async def test_what_somebody_touched_since_stays_and_is_reported(tmp_path: Path) -> None:
    actions = [
        bash("echo j > src/a.py; rm run.sh; mkdir made; echo j > made/j; echo j > bytes.bin; mv 日本.txt m")
    ]
    async with rig(tmp_path, acting(actions), **OFF) as it:
        root = it.workspace
        a_project(root)
        before = tree_of(root)
        job = await play(it)
        (root / "src" / "a.py").write_text("person\n")
        (root / "run.sh").write_text("person\n")
        (root / "made" / "mine").write_text("person\n")
        (root / "bytes.bin").chmod(0o600)
        (root / "日本.txt").write_text("person\n")
        done = await it.client.revert(job)
        assert kept(done) == {
            "src/a.py": "changed",
            "run.sh": "changed",
            "made/": "not_empty",
            "bytes.bin": "changed",
            "日本.txt": "changed",
            "m": "only_copy",
        }
        assert done.reverted == ["made/j"]
        assert (root / "m").read_text() == "こんにちは\n"
        assert {path.read_text() for path in (root / "src/a.py", root / "run.sh", root / "made/mine")} == {
            "person\n"
        }
        # The person takes their own back, and the rest goes.
        for path in ("src/a.py", "bytes.bin"):
            (root / path).write_bytes(b"j\n")
        (root / "bytes.bin").chmod(before["bytes.bin"][1])
        for path in ("run.sh", "made/mine", "日本.txt"):
            (root / path).unlink()
        done = await it.client.revert(job)
        assert set(kept(done).values()) == {"already_reverted"} and tree_of(root) == before


async def test_single_files_and_folders_can_be_put_back(tmp_path: Path) -> None:
    actions = [bash("rm -r src; echo n > n; mkdir -p x/y; echo n > x/y/n; echo n > x/n")]
    async with rig(tmp_path, acting(actions), **OFF) as it:
        root = it.workspace
        a_project(root)
        job = await play(it)
        done = await it.client.revert(job, ["src/deep", "x/y/n", "nothing"])
        assert done.reverted == ["src/", "src/deep/", "src/deep/b.py", "x/y/", "x/y/n"]
        assert kept(done) == {"nothing": "not_changed"}
        assert (root / "x" / "n").exists() and (root / "n").exists() and not (root / "src" / "a.py").exists()
        assert (await it.client.revert(job, ["."])).reverted == ["n", "src/a.py", "x/", "x/n"]


async def test_an_unsaved_document_stays_and_an_open_one_does_not(tmp_path: Path) -> None:
    async with rig(tmp_path, acting([bash("echo j > run.sh; echo j > src/a.py")]), **OFF) as it:
        a_project(it.workspace)
        job = await play(it)
        done = await it.client.revert(job, unsaved=[it.workspace / "run.sh"])
        assert done.reverted == ["src/a.py"] and kept(done) == {"run.sh": "unsaved"}


async def test_files_that_are_not_kept_are_moved_back_or_reported_and_never_lost(tmp_path: Path) -> None:
    """Too large ones, and ones with secret-looking names: there is no copy of them."""
    command = (
        "mv big other; mv .env env.txt; echo x > huge; cp secrets.json s.txt; rm secrets.json id_rsa;"
        " echo n > new.pem; mv full copy; echo y > full"
    )
    limits = replace(Snapshots(), largest_bytes=1000)
    async with rig(tmp_path, acting([bash(command)]), snapshots=limits, **OFF) as it:
        root = it.workspace
        for name in ("big", "huge", "full"):
            (root / name).write_bytes(name.encode() * 1000)
        (root / ".env").write_text("KEY=geheim-4711\n")
        (root / "secrets.json").write_text("a secret\n")
        (root / "id_rsa").write_text("geheim-4711\n")
        job = await play(it)
        listed = {file.path: (file.status, file.before) for file in await it.client.changes(job)}
        assert listed == {
            "other": ("renamed", None),
            "env.txt": ("renamed", None),
            "huge": ("modified", None),
            "s.txt": ("added", None),
            "secrets.json": ("deleted", None),
            "id_rsa": ("deleted", None),
            "new.pem": ("added", None),
            "copy": ("added", None),
            "full": ("modified", None),
        }
        done = await it.client.revert(job)
        assert kept(done) == {
            "huge": "too_large",
            "secrets.json": "secret",
            "id_rsa": "secret",
            "s.txt": "only_copy",
        }
        assert done.reverted == [".env", "big", "copy", "env.txt", "full", "new.pem", "other"]
        assert (root / "big").read_bytes() == b"big" * 1000 and (root / "full").read_bytes() == b"full" * 1000
        assert (root / ".env").read_text() == "KEY=geheim-4711\n"
        state = tmp_path / "state"
        assert not [p for p in state.rglob("*") if p.is_file() and b"geheim-4711" in p.read_bytes()]


async def test_a_running_or_unknown_job_is_refused(tmp_path: Path) -> None:
    async with rig(tmp_path, [SLOW], **OFF) as it:
        job = await it.start(piece="one")
        await it.until(job, lambda detail: detail.status == "running")
        with pytest.raises(IllegalMove) as refused:
            await it.client.revert(job)
        assert refused.value.key == "revert.running" and refused.value.data == {"status": "running"}
        with pytest.raises(NotFound):
            await it.client.revert("j-nothing")
        await it.client.cancel(job)


async def test_a_parked_job_can_be_put_back_and_what_it_does_then_again(tmp_path: Path) -> None:
    def script(request: Any) -> Any:
        answered = request.contains("reddish")
        if request.results("Bash"):
            return DONE if answered else ASK
        return acting([bash("echo 2 > f" if answered else "echo 1 > f; echo j > run.sh")])[0]

    async with rig(tmp_path, script, **OFF) as it:
        a_project(it.workspace)
        before = tree_of(it.workspace)
        job = await play(it)
        assert (await it.until_rest(job)).wait_reason == "question"
        assert (await it.client.revert(job)).reverted == ["f", "run.sh"]
        (it.workspace / "run.sh").write_text("person\n")
        await it.client.answer(job, "reddish")
        await it.until(job, lambda detail: detail.wait_reason != "question")
        assert (await allow_all(it, job)).status == "succeeded"
        done = await it.client.revert(job)
        assert done.reverted == ["f"] and kept(done) == {"run.sh": "already_reverted"}
        assert {**tree_of(it.workspace), "run.sh": None} == {**before, "run.sh": None}


async def test_a_command_that_runs_on_through_a_revert_claims_nothing_put_back(
    tmp_path: Path,
) -> None:
    """Else a second revert would bring back what the first one put away."""
    go, gone = tmp_path / "go", tmp_path / "gone"
    waits = f"until [ -e {go} ]; do sleep 0.02; done; echo 3 > src/a.py; touch {gone}; sleep 60"

    def script(request: Any) -> Any:
        if request.contains("reddish"):
            return DONE
        steps = [bash(waits, background=True), bash("echo 2 > src/a.py; rm run.sh; mkdir m; echo m > m/m")]
        return [*acting(steps)[:2], ASK][len(request.results("Bash"))]

    async with rig(tmp_path, script, **OFF) as it:
        a_project(it.workspace)
        before = tree_of(it.workspace)
        job = await play(it)
        assert (await it.client.revert(job)).kept == [] and tree_of(it.workspace) == before
        go.touch()
        async with asyncio.timeout(5):
            while not gone.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await it.client.answer(job, "reddish")
        await it.until(job, lambda detail: detail.status == "succeeded")
        [changed] = await it.client.changes(job)
        assert (changed.path, changed.before, changed.after) == ("src/a.py", "one\n", "3\n")
        assert (await it.client.revert(job)).reverted == ["src/a.py"] and tree_of(it.workspace) == before


async def test_a_mode_that_the_person_gave_between_two_commands_stays(tmp_path: Path) -> None:
    file = tmp_path / "work" / "src" / "a.py"

    def script(request: Any) -> Any:
        if len(request.results("Bash")) == 1:
            file.chmod(0o755)
        return acting([bash("echo j >> src/a.py")] * 2)[len(request.results("Bash"))]

    async with rig(tmp_path, script, **OFF) as it:
        a_project(it.workspace)
        done = await it.client.revert(await play(it))
        assert kept(done) == {"src/a.py": "unsure"}
        assert file.stat().st_mode & 0o777 == 0o755


async def test_a_file_that_two_jobs_changed_at_the_same_time_is_nobodys_to_put_back(tmp_path: Path) -> None:
    """To put back what the command did would put back what the other job did meanwhile."""
    go, on = tmp_path / "go", tmp_path / "on"
    command = f"touch {on}; until [ -e {go} ]; do sleep 0.02; done; echo long >> src/a.py; echo n > n"

    def script(request: Any) -> Any:
        if not request.contains("the long one"):
            return acting([("Read", {"file_path": "src/a.py"}), edit("src/a.py", "one", "1")])[request.turn]
        return DONE if request.results("Bash") else acting([bash(command)])[0]

    async with rig(tmp_path, script, **OFF) as it:
        a_project(it.workspace)
        long = asyncio.create_task(play(it, "the long one"))
        async with asyncio.timeout(5):
            while not on.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        short = await play(it, "the short one")
        go.touch()
        done = await it.client.revert(await long)
        assert done.reverted == ["n"] and kept(done) == {"src/a.py": "unsure"}
        assert kept(await it.client.revert(short)) == {"src/a.py": "changed"}
        assert (it.workspace / "src" / "a.py").read_text() == "1\nlong\n"


async def test_a_file_whose_name_is_no_text_is_reported_and_stays(tmp_path: Path) -> None:
    async with rig(tmp_path, acting([bash("echo n > n; echo x > $'\\xff'")]), **OFF) as it:
        done = await it.client.revert(await play(it))
        assert done.reverted == ["n"] and kept(done) == {"?": "name"}


async def test_of_two_jobs_on_one_file_only_the_last_can_be_put_back_first(tmp_path: Path) -> None:
    def script(request: Any) -> Any:
        name = "one" if "first" in request.last_user else "two"
        return DONE if request.results("Bash") else acting([bash(f"echo {name} >> f; echo x > {name}")])[0]

    async with rig(tmp_path, script, **OFF) as it:
        (it.workspace / "f").write_text("f\n")
        jobs = [await play(it, "first"), await play(it, "second")]
        assert (it.workspace / "f").read_text() == "f\none\ntwo\n"
        done = await it.client.revert(jobs[0])
        assert done.reverted == ["one"] and kept(done) == {"f": "changed"}
        assert (await it.client.revert(jobs[1])).reverted == ["f", "two"]
        assert (await it.client.revert(jobs[0])).reverted == ["f"]
        assert (it.workspace / "f").read_text() == "f\n"


async def test_a_revert_that_was_cut_off_is_finished_by_the_next(tmp_path: Path) -> None:
    async with rig(
        tmp_path, acting([bash("rm -r src; mv run.sh r; echo n > n; chmod 700 empty")]), **OFF
    ) as it:
        root = it.workspace
        a_project(root)
        before = tree_of(root)
        job = await play(it)
        # As if it had died after some of it, in the middle of a write and before it was noted.
        (root / "src").mkdir(mode=0o700)
        (root / "run.sh").write_text("#!/bin/sh\n")
        (root / "run.sh").chmod(0o755)
        (root / "r").unlink()
        (root / f".maestro-{job}-12ab34cd.tmp").write_text("ha")
        done = await it.client.revert(job)
        assert kept(done) == {"src/": "changed"} or done.kept == []
        assert set(tree_of(root)) == set(before) and tree_of(root)["src/a.py"] == before["src/a.py"]


async def test_nothing_is_put_back_through_a_link_or_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with rig(tmp_path, acting([bash("rm src/a.py src/deep/b.py; echo n > src/n")]), **OFF) as it:
        root = it.workspace
        a_project(root)
        job = await play(it)
        (root / "src" / "n").unlink()
        (root / "src" / "deep").rmdir()
        (root / "src").rmdir()
        (root / "src").symlink_to(outside)
        (outside / "n").write_text("n\n")
        done = await it.client.revert(job)
        assert kept(done) == {"src/a.py": "changed", "src/deep/b.py": "changed"}
        assert [path.name for path in outside.iterdir()] == ["n"]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_reason_is_told_in_both_languages(language: str) -> None:
    reasons = {
        value
        for module in (restoring, manifest)
        for name, value in vars(module).items()
        if name.isupper() and not name.startswith("_") and name not in ("DIR", "OTHER")
    }
    assert len(reasons) == 14
    for reason in reasons:
        assert messages(language)(f"revert.kept.{reason}")


# --- any tree, any actions, any later changes --------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c.txt", "日", "d"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
WORDS = st.sampled_from(["x", "yy", "\\0\\1\\377", ""])
COMMANDS = st.one_of(
    st.builds(lambda a, w: f"mkdir -p $(dirname {a}); printf '{w}' > {a}", PATHS, WORDS),
    st.builds(lambda a: f"rm -rf {a}", PATHS),
    st.builds(lambda a, b: f"mv -T {a} {b}", PATHS, PATHS),
    st.builds(lambda a, b: f"cp -rT {a} {b}", PATHS, PATHS),
    st.builds(lambda a, b: f"ln -sfn {a} {b}", PATHS, PATHS),
    st.builds(lambda a: f"mkdir -p {a}", PATHS),
    st.builds(lambda m, a: f"chmod {m} {a}", st.sampled_from(["755", "600", "700", "644", "555"]), PATHS),
)
SCRIPTS = st.lists(COMMANDS, min_size=1, max_size=5).map("\n".join)
ACTIONS = st.lists(
    st.one_of(
        SCRIPTS.map(bash), st.builds(lambda p, w: write(p, f"w{w}\n"), PATHS, st.sampled_from(["1", "2"]))
    ),
    min_size=1,
    max_size=3,
)
QUIET = "exec 2>/dev/null\n"


async def _shell(script: str, root: Path) -> None:
    made = await asyncio.create_subprocess_exec(
        "bash", "-c", QUIET + script, cwd=root, stdin=asyncio.subprocess.DEVNULL
    )
    await made.wait()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SCRIPTS, ACTIONS, st.lists(st.tuples(PATHS, st.sampled_from(["write", "remove"])), max_size=2))
def test_any_tree_after_any_actions_is_what_it_was_but_for_what_the_person_touched(
    tree: str, actions: list[Action], touched: list[tuple[str, str]]
) -> None:
    async def scenario(it: Rig) -> None:
        root = it.workspace
        await _shell(tree, root)
        before = tree_of(root)
        job = await play(it)
        for path, how in touched:
            script = (
                f"mkdir -p $(dirname {path}) && printf person > {path}" if how == "write" else f"rm -f {path}"
            )
            await _shell(script, root)
        later = tree_of(root)
        done = await it.client.revert(job)
        end = tree_of(root)
        if not touched:
            assert done.kept == [] and end == before
            return
        for path, _ in touched:
            assert end.get(path) == later.get(path) or end.get(path) == before.get(path), (path, done)
            if later.get(path, ("", 0, b""))[2] == b"person":
                assert end[path] == later[path], "a person's own is never touched"
        reported = {one.path.rstrip("/") for one in done.kept}
        for path in before.keys() | end.keys():
            if not any(_near(mine, path) for mine in (*reported, *(mine for mine, _ in touched))):
                assert end.get(path) == before.get(path), (path, done)

    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with rig(Path(folder), acting(actions), **OFF) as it:
                await scenario(it)

    asyncio.run(run())


def _near(mine: str, path: str) -> bool:
    return path == mine or path.startswith(f"{mine}/") or mine.startswith(f"{path}/")
