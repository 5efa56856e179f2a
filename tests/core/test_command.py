"""Which Bash strings are plain, which are listed, and which a stored rule covers (sandbox note §3.2)."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.core.command import (
    MAX_BYTES,
    Odd,
    Unplain,
    WordRule,
    in_default_list,
    listed,
    parse,
    ruled,
    secret_word,
    shortest_prefix,
)
from engine.core.command_table import DEFAULT_LIST

POLICY = yaml.safe_load((Path(__file__).parents[1] / "data" / "policy.yaml").read_text(encoding="utf-8"))


def plain(command: str) -> tuple[tuple[str, ...], ...]:
    commands = parse(command)
    assert not isinstance(commands, Unplain), commands
    return commands


PLAIN = [
    ("ls", (("ls",),)),
    ("  ls   -la  src ", (("ls", "-la", "src"),)),
    ("git status && git log --oneline -5", (("git", "status"), ("git", "log", "--oneline", "-5"))),
    ("cat README.md|wc -l", (("cat", "README.md"), ("wc", "-l"))),
    ("a;b||c", (("a",), ("b",), ("c",))),
    ("grep -n 'foo; bar && $x' README.md", (("grep", "-n", "foo; bar && $x", "README.md"),)),
    ('rg -n "a|b (c)" src', (("rg", "-n", "a|b (c)", "src"),)),
    ("echo a'b'\"c\"d", (("echo", "abcd"),)),
    ("grep '' x", (("grep", "", "x"),)),
    ("cat 報告書/第１章「序」.md", (("cat", "報告書/第１章「序」.md"),)),
    ("rg '見積もり' docs", (("rg", "見積もり", "docs"),)),
    ("cat café.txt", (("cat", "café.txt"),)),
    ("git diff HEAD^", (("git", "diff", "HEAD^"),)),
    ("git log main..HEAD", (("git", "log", "main..HEAD"),)),
    ("git diff 'HEAD~1'", (("git", "diff", "HEAD~1"),)),
    ("cat .env.example", (("cat", ".env.example"),)),
    ("cat src/credentials.py id_rsa.pub", (("cat", "src/credentials.py", "id_rsa.pub"),)),
]


@pytest.mark.parametrize(("command", "words"), PLAIN, ids=[command for command, _ in PLAIN])
def test_a_plain_command_is_its_words(command: str, words: tuple[tuple[str, ...], ...]) -> None:
    assert parse(command) == words


UNPLAIN = [
    ("", Odd.EMPTY),
    ("   ", Odd.EMPTY),
    ("x" * (MAX_BYTES + 1), Odd.TOO_LONG),
    ("cat " + "あ" * (MAX_BYTES // 3), Odd.TOO_LONG),
    ("ls\0; id", Odd.CONTROL),
    ("ls\nid", Odd.CONTROL),
    ("ls\rid", Odd.CONTROL),
    ("ls\tid", Odd.CONTROL),
    ("grep 'a\nb' x", Odd.CONTROL),
    ("ls \x7f", Odd.CONTROL),
    ("ls \u202etxt", Odd.CHARACTER),
    ("ls a\u00a0b", Odd.CHARACTER),
    ("ls　src", Odd.CHARACTER),
    ("ls a\u200bb", Odd.CHARACTER),
    ("ls '\u3164'", Odd.CHARACTER),
    ("ls a\ufe0f", Odd.CHARACTER),
    ("ls \U000e0072", Odd.CHARACTER),
    ("ls \ue000", Odd.CHARACTER),
    ("ls \ud800", Odd.CHARACTER),
    ("ls;", Odd.EMPTY_PART),
    ("; ls", Odd.EMPTY_PART),
    ("ls ;; id", Odd.EMPTY_PART),
    ("ls ||| id", Odd.EMPTY_PART),
    ("ls & id", Odd.OPERATOR),
    ("ls |& id", Odd.OPERATOR),
    ("(ls)", Odd.OPERATOR),
    ("ls() { id; }", Odd.OPERATOR),
    ("echo 'a", Odd.QUOTE),
    ('echo "a', Odd.QUOTE),
    ("ls $(id)", Odd.EXPANSION),
    ("ls `id`", Odd.EXPANSION),
    ('echo "$HOME"', Odd.EXPANSION),
    ('echo "a`id`"', Odd.EXPANSION),
    ('echo "a\\" b"', Odd.EXPANSION),
    ('echo "hi!"', Odd.EXPANSION),
    ("! ls", Odd.EXPANSION),
    ("l\\s", Odd.EXPANSION),
    ("$'\\x74ouch' x", Odd.EXPANSION),
    ("echo x > y", Odd.REDIRECT),
    ("cat<y", Odd.REDIRECT),
    ("pytest 2>&1", Odd.REDIRECT),
    ("ls *.py", Odd.GLOB),
    ("ls a?", Odd.GLOB),
    ("ls [ab]", Odd.GLOB),
    ("echo {a,b}", Odd.GLOB),
    ("ls ~", Odd.HOME),
    ("ls a=~/x", Odd.HOME),
    ("ls # all", Odd.COMMENT),
    ("A=b ls", Odd.ASSIGNMENT),
    ("PATH+=x", Odd.ASSIGNMENT),
    ("cd src", Odd.BUILTIN),
    ("export A", Odd.BUILTIN),
    (". ./x.sh", Odd.BUILTIN),
    ("'eval' x", Odd.BUILTIN),
    ("if true", Odd.BUILTIN),
    ("ls; time ls", Odd.BUILTIN),
    ("./run.sh", Odd.COMMAND_WORD),
    ("bin/run", Odd.COMMAND_WORD),
    ("сat x", Odd.COMMAND_WORD),  # a Cyrillic es
    ("'' x", Odd.COMMAND_WORD),
    ("-x", Odd.COMMAND_WORD),
    ("'ls -l'", Odd.COMMAND_WORD),
    ("cat /etc/passwd", Odd.OUTSIDE),
    ("cat ../x", Odd.OUTSIDE),
    ("cat a/../../x", Odd.OUTSIDE),
    ("cat ..", Odd.OUTSIDE),
    ("grep --file=/etc/passwd x", Odd.OUTSIDE),
    ("grep -f/etc/passwd x", Odd.OUTSIDE),
    ("ls -C..", Odd.OUTSIDE),
    ("git show HEAD:../x", Odd.OUTSIDE),
    ("cat 'a\\..\\x'", Odd.OUTSIDE),
    ("curl file:///etc/passwd", Odd.OUTSIDE),
    ("cat .env", Odd.SECRET),
    ("cat .e''nv", Odd.SECRET),
    ("cat config/.ENV.production", Odd.SECRET),
    ("git show HEAD:.env", Odd.SECRET),
    ("rg -g '*.pem' x", Odd.SECRET),
    ("cat server.key", Odd.SECRET),
    ("cat sub/.aws/config", Odd.SECRET),
    ("cat ．env", Odd.SECRET),  # full-width dot
]


@pytest.mark.parametrize(("command", "reason"), UNPLAIN, ids=[repr(command)[:40] for command, _ in UNPLAIN])
def test_everything_else_is_not_plain_and_says_why(command: str, reason: Odd) -> None:
    found = parse(command)
    assert isinstance(found, Unplain)
    assert found.reason is reason


def test_every_reason_has_an_example() -> None:
    assert {reason for _, reason in UNPLAIN} == set(Odd)


ACTIVE = "$`\\!<>*?[]{}()&~#\n\r\t\0"
QUOTED = st.one_of(
    st.text("ab -/;|'$", max_size=4).map(lambda t: "'" + t.replace("'", "") + "'"),
    st.text("ab ;|'<>*#&", max_size=4).map(lambda t: f'"{t}"'),
)
BARE = st.text("abx-_./:=,+@%^1日", min_size=1, max_size=5)
SHELL_TEXT = st.lists(
    st.one_of(BARE, QUOTED, st.sampled_from([" ", "  ", ";", "&&", "||", "|", *ACTIVE, "'", '"'])),
    max_size=10,
).map("".join)


MOSTLY_PLAIN = st.lists(
    st.one_of(
        st.text("abx-_.:=,+@%^1日", min_size=1, max_size=5),
        st.text("ab ;|'$<*#日", max_size=4).map(lambda t: "'" + t.replace("'", "") + "'"),
        st.text("ab ;|'<*#日", max_size=4).map(lambda t: f'"{t}"'),
        st.just(" "),
    ),
    max_size=9,
).map("".join)


def outside_quotes(command: str) -> str:
    """What stands outside quotes, by the shortest scanner there is."""
    kept: list[str] = []
    quote = ""
    for char in command:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        else:
            kept.append(char)
    return "".join(kept)


@given(SHELL_TEXT)
def test_nothing_with_an_active_character_outside_quotes_is_plain(command: str) -> None:
    bare = outside_quotes(command).replace("&&", "")
    if any(char in bare for char in ACTIVE):
        assert isinstance(parse(command), Unplain)


@given(st.lists(MOSTLY_PLAIN.map("cmd ".__add__), min_size=1, max_size=4).map("&&".join))
def test_what_is_plain_splits_as_shlex_splits_it(command: str) -> None:
    commands = parse(command)
    assume(not isinstance(commands, Unplain))
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    joins = (";", "|", "||", "&&")
    assert [word for words in commands for word in words if word not in joins] == [
        token for token in lexer if token not in joins
    ]


@given(st.lists(st.lists(st.text("abc-_.;|&<>$ #*日", max_size=5), max_size=4), min_size=1, max_size=4))
def test_quoted_words_come_back_as_they_went_in(parts: list[list[str]]) -> None:
    words = tuple(("cmd", *part) for part in parts)
    commands = parse(" && ".join(shlex.join(part) for part in words))
    assume(not isinstance(commands, Unplain))
    assert commands == words


@settings(max_examples=100, deadline=None)
@given(MOSTLY_PLAIN)
def test_bash_itself_splits_a_plain_command_into_the_same_words(arguments: str) -> None:
    commands = parse("printer " + arguments)
    assume(not isinstance(commands, Unplain) and len(commands) == 1)
    shown = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", f'printer() {{ printf "%s\\0" "$@"; }}\nprinter {arguments}'],
        capture_output=True,
        check=True,
        timeout=10,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
    )
    words = tuple(shown.stdout.decode().split("\0")[:-1])
    # printf without arguments prints one empty one.
    assert words == commands[0][1:] or (words == ("",) and commands[0][1:] == ())


def test_long_hostile_input_is_judged_at_once() -> None:
    for command in ("'" * 4000, "a=" * 2000, "../" * 1300, "-" * 4000, "ls " + ".env" * 1000, ";" * 4000):
        assert isinstance(parse(command), Unplain)


def test_the_default_list_is_the_one_of_the_policy() -> None:
    assert {tuple(entry.split()) for entry in POLICY["default_list"]} == DEFAULT_LIST


LISTED_BY_DEFAULT = [
    "ls -la src",
    "pwd",
    "head -n 20 a.py",
    "head -20 a.py",
    "tail -n5 a.py",
    "cat a.py | sort -u | uniq -c",
    "sort -k2,3 -t , a.csv",
    "cut -d , -f 1 a.csv",
    "diff -u a b",
    "tree -L 2 -I node_modules",
    "jq -r '.items[0].name' a.json",
    "grep -rn foo src",
    "grep -C3 -i 'a b' x.txt",
    "rg -n -g '*.py' x",
    "rg -tpy -A 3 見積 src",
    "git status --short --branch",
    "git log --oneline -n 5 -- src",
    "git log -p -S foo",
    "git log --format='%h %s' --since=2.weeks",
    "git diff --stat HEAD^",
    "git diff -- src/a.txt",
    "git show HEAD:README.md",
    "git blame -L 1,5 a.py",
]


@pytest.mark.parametrize("command", LISTED_BY_DEFAULT)
def test_the_default_list_lets_reading_commands_through(command: str) -> None:
    assert in_default_list(plain(command))


NOT_BY_DEFAULT = [
    "pytest",
    "ls && rm a",
    "rm a | ls",
    "sort -o a b",
    "sort -uo a b",
    "sort --output=a b",
    "sort --outp=a b",
    "sort -S 1k --compress-prog=x big.txt",
    "sort -T x a",
    "uniq a b",
    "uniq -c a b",
    "uniq -f 1 a b",
    "tree -o x",
    "tree -ao x",
    "tree -Io pattern x",  # tree has no getopt: I takes the next word, o the one after it
    "tree -R -L 1",
    "rg --pre x y",
    "rg --pre=x y",
    "rg --hostname-bin=x y",
    "rg -e -- --pre=x y",  # `--` is the value of -e here
    "rg -uu x",
    "rg --hidden x",
    "rg -z x",
    "grep -R x src",
    "grep -f names x",
    "diff -l a b",
    "file -C -m x",
    "file -f names",
    "wc --files0-from=names",
    "du --files0-from=names",
    "jq 'env.HOME' a",
    "jq -n '$ENV' a",
    "jq -L mods x a",
    "git",
    "git -c alias.x=y status",
    "git -C sub status",
    "git --git-dir=x status",
    "git log --output=x",
    "git log --outp=x",
    "git log --ext-diff",
    "git log -c",
    "git diff --textconv",
    "git diff --no-index a b",
    "git diff -Oorder",
    "git log --format=%G?",
    "git log --show-signature",
    "git blame --contents x a",
    "git statusx",
    "git push",
    "lsof",
    "LS",
    "tail -f log",
]


@pytest.mark.parametrize("command", NOT_BY_DEFAULT)
def test_the_default_list_lets_nothing_through_that_writes_runs_or_reads_elsewhere(command: str) -> None:
    commands = parse(command)
    assert isinstance(commands, Unplain) or not in_default_list(commands)


ALLOWED = [
    (["pytest"], "pytest -q tests", True),
    (["pytest"], "pytest-evil", False),
    (["npm test"], "npm test", True),
    (["npm test"], "npm test -- --watch", True),
    (["npm test"], "npm run test", False),
    (["npm"], "npm test", True),
    (["npm"], "npm exec evil", False),
    (["npm"], "npm --silent exec evil", False),
    (["pytest"], "ls", False),  # replaces the default list
    ([], "ls", False),
    (["cat", "wc"], "cat a | wc -l", True),
    (["cat"], "cat a | wc -l", False),
    (["python3 -m pytest"], "python3 -m pytest -q tests/test_a.py", True),
    (["python3 -m"], "python3 -m pytest", False),
    (["python3"], "python3 x.py", False),
    (["python3 x.py"], "python3 x.py", True),
    (["python3 x.py"], "python3 x.py a", False),
    (["python3.11"], "python3.11 -c x", False),
    (["env"], "env -S 'sh -c x'", False),
    (["env A=1 pytest"], "env A=1 pytest -q", True),
    (["env A=1 B=2"], "env A=1 B=2 sh", False),
    (["timeout 5 sh"], "timeout 5 sh -c x", False),
    (["xargs -n 1"], "xargs -n 1 sh", False),
    (["sudo -n -u"], "sudo -n -u root", False),
    (["uv run"], "uv run pytest", False),
    (["uv run pytest"], "uv run pytest -q", True),
    (["uv run python"], "uv run python -c x", False),
    (["find"], "find . -name '*.py' -type f", True),
    (["find"], "find . -mtime -1", True),
    (["find"], "find . -exec touch x", False),
    (["find"], "find . -delete", False),
    (["find"], "find . -fprintf x y", False),
    (["find . -delete"], "find . -delete", True),
    (["sed -n"], "sed -n '1,5p' README.md", True),
    (["sed"], "sed 's/a/b/g' README.md", True),
    (["sed -n"], "sed -n '1e touch x' README.md", False),
    (["sed -n"], "sed -n 'w x' README.md", False),
    (["sed"], "sed 's/a/b/w x' README.md", False),
    (["sed"], "sed 's/a/b/e' README.md", False),
    (["sed"], "sed -i s/a/b/ README.md", False),
    (["sed"], "sed -n -f x README.md", False),
    (["sed -i"], "sed -i s/a/b/ README.md", True),
    (["awk"], "awk '{print $1}' a", False),
    (["tar"], "tar -czf a.tgz src/x", True),
    (["tar"], "tar -czf a.tgz --checkpoint=1 --checkpoint-action=exec=x src/x", False),
    (["tar"], "tar xIf prog a.tar", False),
    (["man"], "man --pager=x ls", False),
    (["git"], "git status -s", True),
    (["git"], "git -c alias.x=y x", False),
    (["git ls-remote"], "git ls-remote --heads .", True),
    (["git ls-remote"], "git ls-remote --upload-pa=x .", False),
    (["git ls-remote"], "git ls-remote --exec=x .", False),
    (["git grep"], "git grep -n text", True),
    (["git grep"], "git grep -Oevil text", False),
    (["git grep"], "git grep -nOevil text", False),
    (["git"], "git submodule foreach x", False),
    (["git bisect"], "git bisect run x", False),
    (["git push"], "git push -u origin main", True),
    (["."], ". x.sh", False),
    (["cd"], "cd src", False),
    (["ls; rm"], "ls", False),
]


@pytest.mark.parametrize(
    ("allowed", "command", "expected"), ALLOWED, ids=[f"{a}: {c}" for a, c, _ in ALLOWED]
)
def test_allowed_commands_are_first_words_with_their_options_checked(
    allowed: list[str], command: str, expected: bool
) -> None:
    commands = parse(command)
    assert (not isinstance(commands, Unplain) and listed(commands, allowed)) is expected


RULED = [
    ([WordRule(("pytest", "-q"))], "pytest -q", True),
    ([WordRule(("pytest", "-q"))], "pytest -q x", False),
    ([WordRule(("pytest",), prefix=True)], "pytest -q x", True),
    ([WordRule(("pytest",), prefix=True)], "pytest -q && ls", False),
    ([WordRule(("pytest",), prefix=True), WordRule(("ls",))], "pytest -q && ls", True),
    ([WordRule(("python", "-m", "pytest"))], "python -m pytest", True),
    ([WordRule(("python", "-m", "pytest"), prefix=True)], "python -m pytest -q", False),
    ([WordRule(("sh",)), WordRule(("cat", "x"))], "cat x | sh", False),
    ([WordRule(("bash", "x.sh")), WordRule(("ls",))], "bash x.sh && ls", True),
    ([WordRule(("xargs", "rm"), prefix=True)], "xargs rm x", False),
    ([WordRule(("git",), prefix=True)], "git status", False),
    ([WordRule(("git", "add"), prefix=True)], "git add a", True),
    ([WordRule(("git", "-c", "a=b"), prefix=True)], "git -c a=b status", False),
    ([WordRule(("npm", "run"), prefix=True)], "npm run build", True),
    ([WordRule(("npm", "exec"), prefix=True)], "npm exec x", False),
    ([WordRule(("find", "."), prefix=True)], "find . -name x", True),
    ([WordRule(("find", "."), prefix=True)], "find . -delete", False),
    ([WordRule(("find", ".", "-exec"), prefix=True)], "find . -exec rm x", False),
    ([WordRule(("find", ".", "-delete"))], "find . -delete", True),
    ([WordRule((), prefix=True)], "ls", False),
    ([], "ls", False),
]


@pytest.mark.parametrize(("rules", "command", "expected"), RULED, ids=[f"{r}: {c}" for r, c, _ in RULED])
def test_a_stored_rule_covers_its_words_and_never_shortens_what_runs_code(
    rules: list[WordRule], command: str, expected: bool
) -> None:
    assert ruled(plain(command), rules) is expected


@pytest.mark.parametrize(
    ("command", "least"),
    [
        ("pytest -q tests", 1),
        ("git add a", 2),
        ("npm run build", 2),
        ("cargo test x", 2),
        ("sh -c x", None),
        ("python3 x.py", None),
        ("nodejs x.js", None),
        ("env pytest", None),
        ("sudo ls", None),
        ("xargs rm", None),
        ("uv run pytest", None),
        ("find . -delete", None),
        ("git", None),
    ],
)
def test_how_far_a_rule_may_be_shortened(command: str, least: int | None) -> None:
    assert shortest_prefix(plain(command)[0]) == least


def test_nothing_is_listed_or_ruled_for_no_command_at_all() -> None:
    assert not listed((), None)
    assert not ruled((), [WordRule((), prefix=True)])


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("cat .env > x", ".env"),
        ("cat < config/prod.pem", "config/prod.pem"),
        ("cat .e''nv", ".env"),
        ("x=$(cat .aws/credentials)", ".aws/credentials"),
        ("cat .env.example", None),
        ("echo credentials.py", None),
    ],
)
def test_a_secret_looking_name_is_seen_in_any_command(command: str, word: str | None) -> None:
    assert secret_word(command) == word
