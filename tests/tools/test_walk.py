"""What a search sees: git's own opinion on ``.gitignore``, and nothing outside the workspace."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.tools.patterns import Glob, IgnoreRules
from engine.tools.walk import Ignores, walk
from tests.tools.world import World


def never() -> bool:
    return False


def seen(root: Path, start: str = "", *, rules: bool = True) -> list[str]:
    return [entry.relative for entry in walk(root, start, Ignores(root) if rules else None, never)]


@pytest.mark.parametrize(
    ("pattern", "path", "right"),
    [
        ("*.py", "a.py", True),
        ("*.py", "deep/er/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/sub/a.py", False),
        ("src/*.py", "x/src/a.py", False),
        ("**/*.py", "a.py", True),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/a/b/c.py", True),
        ("src/**", "src/a/b", True),
        ("src/*", "src/a/b", False),
        ("*.{ts,tsx}", "a.tsx", True),
        ("*.{ts,tsx}", "a.js", False),
        ("{src,test}/**/*.{py,pyi}", "test/a.pyi", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("[a-c]", "b", True),
        ("a+b(c).txt", "a+b(c).txt", True),
        ("日*.md", "docs/日本語.md", True),
        ("\\*", "*", True),
        ("\\*", "x", False),
        ("[", "[", True),
        ("{a", "{a", True),
    ],
)
def test_a_glob_matches_names_at_any_depth_and_paths_from_the_start(
    pattern: str, path: str, right: bool
) -> None:
    assert Glob(pattern).matches(path) is right


def test_a_pattern_that_explodes_is_stopped() -> None:
    with pytest.raises(TimeoutError):
        Glob("{a,aa}" * 40 + "[bc]").matches("a" * 70)
    started = time.monotonic()
    assert IgnoreRules(["*a" * 40 + "[bc]"]).verdict("a" * 250, folder=False) is None
    assert time.monotonic() - started < 5


NAMES = st.sampled_from(["a", "b", "ab", "a.log", "keep.log", "build", "x", "日本"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
LINES = st.sampled_from(
    ["a", "*.log", "!keep.log", "build/", "/x", "a/b", "**/b", "a/**", "!a/b", "*", "!*/", "x/*", "# a", ""]
) | st.sampled_from(["\\!a", "[ab]", "a?", "日*", "/a/", "!/a", "b ", "**", "a/**/b", "x**", "[!a]", "\\#"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(PATHS, min_size=1, max_size=8),
    top=st.lists(LINES, max_size=5),
    nested=st.lists(LINES, max_size=3),
)
@pytest.mark.needs("git")
def test_git_and_the_walk_agree_on_what_is_ignored(
    tmp_path_factory: pytest.TempPathFactory, files: list[str], top: list[str], nested: list[str]
) -> None:
    root = tmp_path_factory.mktemp("repo")
    for name in files:
        path = root / name
        if any(parent.is_file() for parent in path.parents) or path.is_dir():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (root / ".gitignore").write_text("\n".join(top) + "\n")
    if (root / "a").is_dir():
        (root / "a" / ".gitignore").write_text("\n".join(nested) + "\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(root / "nohome"), "GIT_CONFIG_NOSYSTEM": "1"}
    git = ["git", "-c", "core.quotePath=false", "-C", str(root)]
    subprocess.run([*git, "init", "-q"], check=True, env=environment)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"],
        check=True,
        env=environment,
        capture_output=True,
    )
    assert sorted(seen(root)) == sorted(listed.stdout.decode().split("\0")[:-1])


def test_git_and_the_folders_of_tasks_are_left_out(world: World) -> None:
    world.write(".git/config", "")
    world.write(".github/workflow.yml", "")
    world.write(".maestro/pieces/p.yaml", "")
    (world.task / "output" / "r.md").write_text("")
    assert seen(world.root) == [".github/workflow.yml", ".maestro/pieces/p.yaml"]
    assert seen(world.root, ".maestro/tasks/task-1") == [".maestro/tasks/task-1/output/r.md"]


def test_links_to_folders_are_not_followed_and_loops_end(world: World) -> None:
    world.write("a/f", "")
    (world.root / "a" / "up").symlink_to("..")
    (world.root / "out").symlink_to("/etc")
    assert seen(world.root) == ["a/f"]


def test_the_rules_of_git_info_exclude_count_and_a_linked_gitignore_does_not(world: World) -> None:
    world.write(".git/info/exclude", "secret-notes\n")
    world.write("secret-notes", "")
    world.write("a", "")
    outside = world.root.parent / "rules"
    outside.write_text("a\n")
    (world.root / ".gitignore").symlink_to(outside)
    assert "a" in seen(world.root) and "secret-notes" not in seen(world.root)


def test_a_folder_that_hides_everything_is_known(world: World) -> None:
    world.write(".gitignore", "build/\n*.log\n")
    world.write(".venv/.gitignore", "*\n")
    ignores = Ignores(world.root)
    assert ignores.hides_all("build") and ignores.hides_all(".venv") and ignores.hides_all("build/deep")
    assert not ignores.hides_all("src") and not ignores.hides_all("")
