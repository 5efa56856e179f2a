"""Workspaces with everything odd in them that a search may meet, for properties of Glob and Grep."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import strategies as st

_ODD = [b"caf\xe9.txt", b"\xe3\x81.py", "か\u3099.txt".encode(), "が.txt".encode()]
NAMES = st.sampled_from(
    [
        "a",
        "b.py",
        "c.log",
        "build",
        "日本.txt",
        "a b.txt",
        "a\nb.py",
        "👨‍👩‍👧.txt",
        "-e",
        "--files",
        "会議\u3000資料.md",
        "_x",
        "{a}",
        ".hidden",
        ".env",
        "id_rsa",
        "\\",
        "*",
        "[a]",
        ":1:",
        "B.PY",
    ]
) | st.sampled_from(_ODD).map(os.fsdecode)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
IGNORE_FILES = st.sampled_from(
    [".gitignore", "a/.gitignore", ".ignore", ".rgignore", "build/.gitignore", ".git/info/exclude"]
)
RULES = st.lists(
    st.sampled_from(
        [
            "*.log",
            "build",
            "!c.log",
            "/a",
            "a/*",
            "!a/b.py",
            "日*",
            "*.txt",
            "b.py/",
            "!*/",
            "*",
            "\\[a\\]",
            "[",
        ]
    ),
    max_size=4,
).map("\n".join)
_LINES = st.sampled_from(
    [
        "KEY",
        "key",
        "the KEY and KEY",
        "設定ファイル",
        "日本語 KEY 上書き",
        "x" * 500 + "KEY" + "y" * 500,
        "",
        "12 ３４",
        "${name}",
        "foo(bar)",
        "が" * 250 + "KEY" + "👨‍👩‍👧" * 120,
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaa!",
        "\u212aEY",
        "é KEY",
        "--files -e",
        "a|b",
        "\tKEY",
        "tilde ~/x",
    ]
)
_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
_ENCODINGS = st.sampled_from(
    [
        "utf-8",
        "utf-8-sig",
        "utf-16",
        "utf-16-be",
        "utf-16-le",
        "utf-32",
        "cp932",
        "euc_jp",
        "iso2022_jp",
        "cp1252",
    ]
)
TEXTS = st.builds(
    lambda lines, end, last, encoding: (end.join(lines) + last).encode(encoding, "ignore"),
    st.lists(_LINES, max_size=5),
    _ENDS,
    st.sampled_from(["", "\n"]),
    _ENCODINGS,
)
CONTENTS = TEXTS | st.sampled_from(
    [b"KEY\0KEY\n", b"KEY \xff\xfe KEY\n", b"\x89PNG\r\n\x1a\n KEY", b"", b"\n", b"\xef\xbb\xbf"]
)
TREES = st.tuples(
    st.dictionaries(PATHS, CONTENTS, min_size=1, max_size=8), st.dictionaries(IGNORE_FILES, RULES, max_size=3)
)
PATTERNS = st.sampled_from(
    [
        "KEY",
        "(?i)key",
        "設定",
        "上書き",
        "KEY$",
        "^KEY",
        "^$",
        r"\bKEY\b",
        r"(?<=the )KEY",
        r"(KEY).*\1",
        "KEY|設定",
        r"\d+",
        r"[[:upper:]]{3}",
        "-e",
        "--files",
        "${name}",
        r"\$\{name}",
        "foo(",
        r"foo\(bar",
        ".",
        "x*",
        "é",
        "本語",
        "(?i)ファイル",
        "~/x",
        r"KEY\n",
        "(?i:k)ey",
        r"\p{Han}+",
        "(?P<n>K)EY",
        "a{3}",
        "(?:K|k)(?:EY|ey)",
        r"\S+\s+KEY",
        "[^ -~]",
        "",
        "(?R)",
        "^.{3}$",
    ]
)
GLOBS = st.sampled_from(
    [None, None, "*.py", "*.{txt,md}", "a/**", "**/*.log", "[!a]*", "!*.py", "日*", "が*", "{", "*.PY"]
)
ARGUMENTS = st.fixed_dictionaries(
    {
        "pattern": PATTERNS,
        "glob": GLOBS,
        "path": st.sampled_from([None, None, None, "a", "build", "b.py", "."]),
        "output_mode": st.sampled_from(["content", "files_with_matches", "count"]),
        "context": st.sampled_from([None, 0, 1, 3]),
        "head_limit": st.sampled_from([None, 1, 2, 5]),
    }
)


def write_tree(root: Path, tree: tuple[dict[str, bytes], dict[str, str]]) -> None:
    """Write the files of a tree as far as one does not stand in the way of another, then its rules."""
    files, rules = tree
    for name, data in [*files.items(), *((name, text.encode()) for name, text in rules.items())]:
        path = root / name
        if path.is_dir() or any(parent.is_file() for parent in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
