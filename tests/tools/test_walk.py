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
from engine.tools.walk import Ignores, LeftOut, walk
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
    assert IgnoreRules(b"*a" * 40 + b"[bc]").verdict("a" * 250, folder=False) is None
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("rules", "path", "right"),
    [
        pytest.param(b"\xef\xbb\xbfa.txt\r\n*.log\r\n", "a.txt", True, id="BOM"),
        pytest.param(b"\xef\xbb\xbfa.txt\r\n*.log\r\n", "b.log", True, id="CRLF"),
        pytest.param(b"a.txt", "a.txt", True, id="no line end at the end"),
        pytest.param(b"a b.txt  \n", "a b.txt", True, id="spaces at the end"),
        pytest.param(b"a\\ \n", "a ", True, id="escaped space at the end"),
        pytest.param(b"a\\\\ \n", "a\\", True, id="escaped backslash before a space"),
        pytest.param(b"\t\n", "a", None, id="only a tab"),
        pytest.param(b"\\#a\n\\!b\n", "#a", True, id="escaped hash"),
        pytest.param(b"\\#a\n\\!b\n", "!b", True, id="escaped exclamation"),
        pytest.param(b"#a\n", "#a", None, id="comment"),
        pytest.param(b"a\x0bb\xc2\x85c\n", "a\x0bb\x85c", True, id="only a line feed ends a rule"),
        pytest.param(b"*.log\n!keep.log\n", "keep.log", False, id="taken back"),
        pytest.param(b"!keep.log\n*.log\n", "keep.log", True, id="the last rule decides"),
        pytest.param(b"/top\n", "sub/top", None, id="anchored"),
        pytest.param(b"a/b\n", "x/a/b", None, id="a slash inside anchors"),
        pytest.param(b"//top\n", "top", None, id="two slashes"),
        pytest.param(b"[\n", "[", None, id="an open class matches nothing"),
        pytest.param(b"a\\\n", "a", None, id="a last backslash matches nothing"),
        pytest.param(b"[[:digit:]]x\n", "7x", True, id="named class"),
        pytest.param(b"[[:nonsense:]]x\n", "nx", None, id="unknown class"),
        pytest.param(b"[]a]x\n", "]x", True, id="bracket in a class"),
        pytest.param(b"[a\\]]x\n", "]x", True, id="escaped bracket in a class"),
        pytest.param(b"[!a-c]x\n", "dx", True, id="negated class"),
        pytest.param(b"[a-]x\n", "-x", True, id="hyphen at the end of a class"),
        pytest.param("日本*\n".encode(), "日本語", True, id="Japanese"),
        pytest.param(b"???\n", "日", True, id="a question mark is a byte"),
        pytest.param(b"caf\xe9\n", "caf\udce9", True, id="bytes that are no text"),
        pytest.param(b"*.tar.gz\n", "a.b.tar.gz", True, id="an ending with two dots"),
        pytest.param(b"*.gz\n", ".gz", True, id="an ending alone"),
    ],
)
def test_rules_are_read_as_git_reads_them(rules: bytes, path: str, right: bool | None) -> None:
    assert IgnoreRules(rules).verdict(path, folder=False) is right


NAMES = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "a.log",
        "keep.log",
        "build",
        "x",
        "日本",
        "a b",
        "[",
        "a\nb",
        "!b",
        "#c",
        "b\\",
        "-",
        "👨‍👩‍👧",
    ]
) | st.sampled_from(["が".encode(), "か\u3099".encode(), b"caf\xe9", b"\xe3\x81"]).map(os.fsdecode)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
RULES = (
    r"a *.log !keep.log build/ /x a/b **/b a/** !a/b * !*/ x/* /a/ !/a ** a/**/b x** b*g *a*b* !b */b /* !/b"
    r" [ab] a? 日* [!a] [ []a] [[:alpha:]] [[:alpha:] [[:no:]] [a- [b-a] [\]a] [^a]* [\[] a[a-c] ??? caf? が"
    r" か* ?日? ! / \!a \# \#c b\\ a\ //a a// build// *** ***/b a/***"
)
LINES = st.sampled_from([*RULES.split(), "", "# a", "b ", "a\\ b", "a \\ ", "\ta", "a\r"])
FILE = st.lists(LINES, max_size=5).map("\n".join) | st.lists(LINES, max_size=4).map(
    lambda lines: "\ufeff" + "\r\n".join(lines) + "\r\n"
)


def written(root: Path, files: list[str]) -> None:
    for name in files:
        path = root / name
        if not any(parent.is_file() for parent in path.parents) and not path.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")


def git(root: Path, *arguments: str) -> bytes:
    environment = {name: os.environ[name] for name in ("PATH", "HOME")} | {"GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, env=environment, capture_output=True, timeout=20
    ).stdout


def listed_by_git(root: Path, inside: str = "") -> set[str]:
    told = git(root / inside, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0")[:-1]
    return {inside + os.fsdecode(name) for name in told if not name.endswith(b"/")}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of our own: whoever runs the tests may have rules that hold everywhere."""
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.fault("C: ignore rules differ per tool", neighbour=True)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.lists(PATHS, min_size=1, max_size=8), top=FILE, nested=FILE, unshared=FILE, everywhere=FILE)
@pytest.mark.needs("git")
def test_git_and_the_walk_agree_on_what_is_ignored(
    tmp_path_factory: pytest.TempPathFactory,
    home: Path,
    files: list[str],
    top: str,
    nested: str,
    unshared: str,
    everywhere: str,
) -> None:
    root = tmp_path_factory.mktemp("repo")
    git(root, "init", "-q")
    written(root, files)
    (root / ".gitignore").write_bytes(top.encode())
    (root / ".git" / "info" / "exclude").write_bytes(unshared.encode())
    (home / ".config" / "git").mkdir(parents=True, exist_ok=True)
    (home / ".config" / "git" / "ignore").write_bytes(everywhere.encode())
    if (root / "a").is_dir():
        (root / "a" / ".gitignore").write_bytes(nested.encode())
    assert set(seen(root)) == listed_by_git(root)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.lists(PATHS, max_size=6), top=FILE, inner=FILE)
@pytest.mark.needs("git")
def test_a_repository_inside_has_its_own_rules_and_none_from_above(
    tmp_path_factory: pytest.TempPathFactory, home: Path, files: list[str], top: str, inner: str
) -> None:
    root = tmp_path_factory.mktemp("repo")
    git(root, "init", "-q")
    (root / "sub" / "module").mkdir(parents=True)
    git(root / "sub" / "module", "init", "-q")
    written(root / "sub" / "module", [*files, "own", "a.log"])
    written(root, files)
    (root / ".gitignore").write_bytes(top.encode())
    (root / "sub" / "module" / ".git" / "info" / "exclude").write_bytes(inner.encode())
    hidden = Ignores(root).ignored("sub/module", folder=True)
    inside = set() if hidden else listed_by_git(root, "sub/module/")
    assert set(seen(root)) == listed_by_git(root) | inside


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    ("settings_of_git", "file"),
    [
        ({}, ".config/git/ignore"),
        ({".gitconfig": "[core]\n\texcludesFile = ~/mine # comment\n"}, "mine"),
        ({".config/git/config": '[Core]\nexcludesfile = "~/my rules"\n'}, "my rules"),
        ({".gitconfig": "[include]\npath = more\n", "more": "[core]\nexcludesFile = ~/mine\n"}, "mine"),
        (
            {
                ".config/git/config": "[core]\nexcludesFile = ~/old\n",
                ".gitconfig": "[core]\nexcludesFile = ~/mine",
            },
            "mine",
        ),
    ],
)
def test_the_rules_a_person_has_everywhere_count(
    world: World, home: Path, settings_of_git: dict[str, str], file: str
) -> None:
    for name, text in settings_of_git.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text("*.swp\n.DS_Store\n")
    for name in ("a.swp", ".DS_Store", "sub/b.swp", "a"):
        world.write(name, "")
    world.write(".git/HEAD", "ref: refs/heads/main\n")
    assert seen(world.root) == ["a"]
    world.write(".gitignore", "!a.swp\n")
    assert seen(world.root) == [".gitignore", "a", "a.swp"]


@pytest.mark.needs("git")
def test_the_settings_of_a_repository_say_nothing_about_rules_elsewhere(world: World, home: Path) -> None:
    (home.parent / "elsewhere").write_text("a\n")
    world.write("a", "")
    world.write(
        ".git/config", f"[core]\nexcludesFile = {home.parent}/elsewhere\nfsmonitor = touch {home}/ran\n"
    )
    (home / ".gitconfig").write_text("[core]\npager = cat\n")
    assert seen(world.root) == ["a"] and not (home / "ran").exists()


def test_without_git_the_usual_file_of_a_person_counts(
    world: World, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
    (home / "settings" / "git").mkdir(parents=True)
    (home / "settings" / "git" / "ignore").write_text("b\n")
    (home / ".gitconfig").write_text("[core]\n")
    written(world.root, ["a", "b"])
    assert seen(world.root) == ["a"]


def test_the_exclude_file_of_a_submodule_is_found_in_the_repository_above(world: World, home: Path) -> None:
    world.write("sub/.git", "gitdir: ../.git/modules/sub\n")
    world.write(".git/modules/sub/info/exclude", "b\n")
    written(world.root, ["sub/a", "sub/b", "b"])
    assert seen(world.root) == ["b", "sub/a"]


@pytest.mark.parametrize("pointer", ["/etc", "../../outside", "\0", "a" * 5000])
def test_a_pointer_of_a_submodule_leads_nowhere_else(world: World, home: Path, pointer: str) -> None:
    outside = world.root.parent / "outside" / "info"
    outside.mkdir(parents=True)
    (outside / "exclude").write_text("a\n")
    world.write("sub/.git", f"gitdir: {pointer}\n")
    world.write("sub/a", "")
    assert seen(world.root) == ["sub/a"]


def test_without_a_repository_the_rules_hold_all_the_same(world: World, home: Path) -> None:
    world.write(".gitignore", "b\n")
    world.write("deep/.gitignore", "!b\n/c\n")
    written(world.root, ["a", "b", "deep/b", "deep/c", "deep/er/c"])
    assert [name for name in seen(world.root) if not name.endswith(".gitignore")] == [
        "a",
        "deep/b",
        "deep/er/c",
    ]


def test_the_rules_of_other_tools_and_of_folders_above_do_not_count(world: World, home: Path) -> None:
    (world.root.parent / ".gitignore").write_text("a\n")
    for name in (".ignore", ".rgignore", ".fdignore", ".dockerignore"):
        world.write(name, "a\n")
    world.write("a", "")
    assert "a" in seen(world.root)


def test_many_rules_are_as_quick_as_few(world: World, home: Path) -> None:
    world.write(".gitignore", "".join(f"name{number}\n*.e{number}\n/p/{number}\n" for number in range(3000)))
    written(world.root, ["a", "x/name2999", "b.e2999", "p/2999", "p/x/2999"])
    assert [name for name in seen(world.root) if name != ".gitignore"] == ["a", "p/x/2999"]


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


def test_where_some_is_taken_back_that_is_what_is_meant(world: World, home: Path) -> None:
    world.write(".gitignore", "*\n!*/\n!*.py\n")
    ignores = Ignores(world.root)
    assert not ignores.hides_all("src") and not ignores.ignored("src/a.py") and ignores.ignored("src/a.log")


def test_folders_that_cannot_be_opened_are_told(
    world: World, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("a/f", "")
    left_out = LeftOut()
    found = walk(world.root, "gone", Ignores(world.root), never, left_out=left_out)
    assert list(found) == [] and left_out.closed.first == ["gone"]
