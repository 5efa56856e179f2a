"""`dev.py` and the rules of CI, as far as they need no network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dev

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent

PREPARED = """
import runpy, sys
{preparation}
sys.argv = ["dev.py", *{arguments!r}]
runpy.run_path("dev.py", run_name="__main__")
"""


def run_dev(
    folder: Path, preparation: str, *arguments: str, locale: str = "C"
) -> subprocess.CompletedProcess[str]:
    """Runs a copy of dev.py in a folder with the packaging but no environment, after some lines of Python."""
    (folder / "requirements").mkdir(parents=True, exist_ok=True)
    for name in (
        "dev.py",
        "pyproject.toml",
        *(f"requirements/{lock}.txt" for lock in ("runtime", "build", "dev")),
    ):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}
    return subprocess.run(
        [sys.executable, "-c", PREPARED.format(preparation=preparation, arguments=list(arguments))],
        cwd=folder,
        env=kept | {"LANG": locale, "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )


@pytest.mark.parametrize(
    ("preparation", "locale", "sentence"),
    [
        ("sys.version_info = (3, 9, 2)", "C", "Python 3.11 or newer is needed and this is 3.9"),
        ("sys.version_info = (3, 9, 2)", "ja_JP.UTF-8", "Python 3.11 以上が必要ですが、これは 3.9 です"),
        ("sys.modules['ensurepip'] = None", "C", "apt install python3-venv"),
        ("sys.modules['venv'] = None", "ja_JP.UTF-8", "`venv` が使えません"),
    ],
)
def test_what_python_lacks_is_one_sentence(
    tmp_path: Path, preparation: str, locale: str, sentence: str
) -> None:
    done = run_dev(tmp_path, preparation, "demo", locale=locale)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert done.stderr.startswith("dev.py: ")
    assert done.stderr.count("\n") == 1


def test_a_folder_in_the_way_is_named_and_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / ".venv" / "notes.txt"
    kept.parent.mkdir()
    kept.write_text("mine", encoding="utf-8")
    done = run_dev(tmp_path, "", "demo")
    assert done.returncode == 1
    assert f"{tmp_path / '.venv'} is in the way" in done.stderr
    assert kept.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    "arguments", [[], ["tests"], ["check", "--fix"], ["setup", "fresh"], ["notices", "--all"]]
)
def test_wrong_usage_shows_the_commands_and_makes_nothing(tmp_path: Path, arguments: list[str]) -> None:
    done = run_dev(tmp_path, "", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert dev.USAGE in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_help_in_both_languages_names_every_command(tmp_path: Path) -> None:
    english, japanese = (run_dev(tmp_path, "", "--help", locale=name).stdout for name in ("C", "ja_JP.UTF-8"))
    commands = [line.split()[0] for line in english.splitlines() if line.startswith("  ")]
    assert commands == [line.split()[0] for line in japanese.splitlines() if line.startswith("  ")]
    assert set(commands) == {"demo", "run", "test", "fuzz", "check", "setup", "lock", "notices"}


def test_the_stamp_covers_the_locks_the_packaging_and_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = set()
    monkeypatch.setattr(dev, "LOCKS", tmp_path / "requirements")
    for change in ("", "requirements/dev.txt", "pyproject.toml", "elsewhere"):
        run_dev(tmp_path, "", "--help")
        monkeypatch.setattr(dev, "ROOT", tmp_path)
        if change == "elsewhere":
            (tmp_path / change).mkdir()
            (tmp_path / change / "pyproject.toml").write_bytes((tmp_path / "pyproject.toml").read_bytes())
            monkeypatch.setattr(dev, "ROOT", tmp_path / change)
        elif change == "pyproject.toml":
            text = (tmp_path / change).read_text(encoding="utf-8")
            (tmp_path / change).write_text(text.replace("platformdirs>=", "platformdirs>"), encoding="utf-8")
        elif change:
            with (tmp_path / change).open("a", encoding="utf-8") as file:
                file.write("# another line\n")
        keys.add(dev.key("dev"))
    assert len(keys) == 4


def test_a_setting_of_a_tool_does_not_make_the_environment_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dev(tmp_path, "", "--help")
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    before = dev.key("dev")
    text = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        text.replace("line-length = 110", "line-length = 99"), encoding="utf-8"
    )
    assert dev.key("dev") == before


SKIPPING = """
import pytest

def test_passes():
    pass

@pytest.mark.needs("no-such-command-anywhere")
def test_wants_a_command():
    pass
"""


@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_a_skip_fails_on_ci_and_is_named(tmp_path: Path, ci: str, status: int) -> None:
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests" / "conftest.py").read_bytes())
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "long.txt").touch()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = needs(command): x\n", encoding="utf-8")
    (tmp_path / "test_two.py").write_text(SKIPPING, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "-m", "pytest", "-p", "no:cacheprovider", "-rs"],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "CI"} | {"CI": ci},
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "1 passed, 1 skipped" in done.stdout
    assert "needs the command no-such-command-anywhere" in done.stdout
    assert ("test_two.py::test_wants_a_command" in done.stdout) is bool(status)
