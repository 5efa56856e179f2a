"""Git repositories for tests: of a person whose own configuration is known, and hostile ones."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

IDENTITY = "[user]\n\tname = 花子 Test\n\temail = hanako@example.org\n[commit]\n\tgpgSign = true\n"


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's git configuration file, the only one there is."""
    config = tmp_path / "gitconfig"
    config.write_text(IDENTITY, "utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in [name for name in os.environ if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))]:
        monkeypatch.delenv(name)
    return config


def git(root: Path, *words: str) -> str:
    """What a git command says; it must succeed."""
    plain = ("-c", "core.quotePath=false", "-c", "commit.gpgSign=false")
    done = subprocess.run(["git", *plain, *words], cwd=root, check=True, capture_output=True, timeout=20)
    return done.stdout.decode()


def begin(root: Path, files: dict[str, str]) -> None:
    """A repository at ``root`` with one commit of these files; what else is there stays out of it."""
    git(root, "init", "-q", "-b", "main")
    write(root, files)
    git(root, "add", "-f", "--", *files)
    git(root, "commit", "-q", "-m", "first")


def write(root: Path, files: dict[str, str]) -> None:
    """Write these files, with their folders."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")


def make_hostile(root: Path, mark: Path) -> None:
    """Configure a repository so that whatever git runs for it writes its name to ``mark``."""
    program = mark.with_suffix(".sh")
    program.write_text(f'#!/bin/sh\necho "$1" >> {mark}\ncat\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    keys = (
        "filter.evil.clean filter.evil.smudge filter.evil.process core.fsmonitor core.pager core.editor"
        " core.sshCommand diff.external diff.evil.command diff.evil.textconv gpg.program sequence.editor"
    )
    for key in keys.split():
        git(root, "config", key, f"{program} {key}")
    for hook in ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change"):
        file = root / ".git" / "hooks" / hook
        file.write_text(f"#!/bin/sh\necho {hook} >> {mark}\n")
        file.chmod(0o755)
