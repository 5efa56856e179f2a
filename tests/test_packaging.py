"""What is built is what runs: both packages with their data, and never somebody else's `engine`."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from email.parser import Parser
from pathlib import Path

import pytest

import maestro_lsp

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DATA = {".sql", ".md", ".toml", ".yaml", ".txt", ".json", ".typed", ".tiktoken"}
HOSTILE = """from pathlib import Path
Path(__file__).with_suffix(".was-run").touch()
raise RuntimeError("hostile")
"""


def run(
    *command: str | Path, cwd: Path = ROOT, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME", "LC_ALL", "LANG"}}
    return subprocess.run(
        list(command), cwd=cwd, env=kept | dict(more or {}), capture_output=True, encoding="utf-8", timeout=50
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that was made from that sdist, built without network."""
    folder = tmp_path_factory.mktemp("built")
    done = run(sys.executable, "-I", "-m", "build", "--no-isolation", "--outdir", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [path] = built.glob("maestro_lsp-*-py3-none-any.whl")
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """The scripts folder of a fresh environment with the wheel installed and, for its dependencies, a look
    into the environment of the tests (whose own editable maestro-lsp is not seen through it)."""
    folder = tmp_path_factory.mktemp("a fresh home") / "env"
    assert run(sys.executable, "-I", "-m", "venv", "--without-pip", folder).returncode == 0
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-I", "-m", "pip", "--python", str(scripts / "python")]
    done = run(*pip, "install", "--no-deps", "--no-index", wheel)
    assert done.returncode == 0, done.stdout + done.stderr
    found = run(scripts / "python", "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(found.stdout.strip(), "borrowed.pth").write_text("\n".join(borrowed) + "\n", encoding="utf-8")
    return scripts


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder as a person might open it: with an `engine/` and a `yaml.py` of its own, both harmful."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text(HOSTILE, encoding="utf-8")
    (tmp_path / "yaml.py").write_text(HOSTILE, encoding="utf-8")
    return tmp_path


def sprung(trap: Path) -> list[Path]:
    return list(trap.rglob("*.was-run"))


def test_the_wheel_holds_both_packages_and_every_data_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in ("engine", "maestro_lsp")
        for path in (ROOT / package).rglob("*")
        if path.suffix in DATA | {".py"}
    }
    assert {"engine/core/__init__.py", "engine/py.typed", "maestro_lsp/identity.py"} <= sources
    assert sources - names == set()
    assert {name.split("/")[0] for name in names} == {
        "engine",
        "maestro_lsp",
        f"maestro_lsp-{maestro_lsp.__version__}.dist-info",
    }


def test_the_wheel_holds_the_shipped_pieces(wheel: Path) -> None:
    shipped = {path.relative_to(ROOT / "pieces") for path in (ROOT / "pieces").rglob("*.yaml")}
    assert shipped
    with zipfile.ZipFile(wheel) as archive:
        for piece in shipped:
            packed = archive.read(f"engine/builtin_pieces/{piece.as_posix()}")
            assert packed == (ROOT / "pieces" / piece).read_bytes()


def test_the_sdist_holds_what_the_tests_and_a_build_need_and_no_environment(built: Path) -> None:
    [path] = built.glob("maestro_lsp-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = ["pyproject.toml", "dev.py", "LICENSE", "requirements/runtime.txt", "tests/test_packaging.py"]
    assert set(wanted) <= names
    assert not [name for name in names if name.startswith((".venv", ".git/")) or "__pycache__" in name]


def test_the_metadata_says_what_pyproject_says(wheel: Path) -> None:
    info = f"maestro_lsp-{maestro_lsp.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        scripts = archive.read(f"{info}/entry_points.txt").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
        assert f"{info}/licenses/THIRD_PARTY_NOTICES.md" in archive.namelist()
    assert metadata["Name"] == "maestro-lsp"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    extras = PROJECT["project"]["optional-dependencies"]
    assert metadata.get_all("Provides-Extra", []) == list(extras)
    wanted = [*PROJECT["project"]["dependencies"], *(name for extra in extras.values() for name in extra)]
    assert len(metadata.get_all("Requires-Dist", [])) == len(wanted)
    assert scripts.split() == ["[console_scripts]", "maestro-lsp", "=", "maestro_lsp.__main__:main"]


def test_the_readme_is_in_the_metadata_as_soon_as_there_is_one() -> None:
    assert PROJECT["project"].get("readme") == ("README.md" if (ROOT / "README.md").exists() else None)


def test_the_installed_script_tells_its_version(home: Path, tmp_path: Path) -> None:
    done = run(home / "maestro-lsp", "--version", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert maestro_lsp.__version__ in done.stdout.split()


@pytest.mark.parametrize("start", [["maestro-lsp"], ["python", "-I", "-m", "maestro_lsp"]])
def test_a_hostile_engine_in_the_folder_is_not_seen(home: Path, trap: Path, start: list[str]) -> None:
    done = run(home / start[0], *start[1:], "--version", cwd=trap)
    assert (done.returncode, done.stderr) == (0, "")
    assert maestro_lsp.__version__ in done.stdout.split()
    assert sprung(trap) == []


def test_in_the_folder_with_the_trap_isolated_python_imports_ours(home: Path, trap: Path) -> None:
    done = run(
        home / "python", "-I", "-c", "import engine, yaml; print(engine.__file__, yaml.__file__)", cwd=trap
    )
    assert done.returncode == 0, done.stderr
    assert str(trap) not in done.stdout
    assert sprung(trap) == []


@pytest.mark.parametrize(
    "start",
    [["maestro-lsp", "--version"], ["python", "-m", "maestro_lsp", "--version"]],
    ids=["script", "module"],
)
def test_an_engine_on_pythonpath_is_named_and_not_run(home: Path, trap: Path, start: list[str]) -> None:
    done = run(home / start[0], *start[1:], cwd=trap, more={"PYTHONPATH": "."})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert str(trap / "engine") in done.stderr
    assert sprung(trap) == []


CHECK = "from maestro_lsp.identity import check_packages; check_packages(); print('ours')"


def test_the_check_lets_our_own_engine_pass(home: Path, tmp_path: Path) -> None:
    assert run(home / "python", "-c", CHECK, cwd=tmp_path).stdout == "ours\n"


@pytest.mark.parametrize(
    ("intruder", "locale", "sentence"),
    [
        ("engine/__init__.py", "en_GB.UTF-8", "another package named 'engine' at {place} hides its own"),
        ("engine.py", "C", "another package named 'engine' at {place} hides its own"),
        ("engine/__init__.py", "ja_JP.UTF-8", "{place} にある別の 'engine' パッケージ"),
    ],
)
def test_the_check_names_the_intruder(
    home: Path, tmp_path: Path, intruder: str, locale: str, sentence: str
) -> None:
    module = tmp_path / intruder
    module.parent.mkdir(exist_ok=True)
    module.write_text(HOSTILE, encoding="utf-8")
    place = module if intruder == "engine.py" else module.parent
    done = run(home / "python", "-c", CHECK, cwd=tmp_path, more={"LANG": locale, "PYTHONUTF8": "1"})
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence.format(place=place) in done.stderr
    assert done.stderr.count("\n") == 1
    assert sprung(tmp_path) == []


def test_the_check_says_when_engine_is_missing(tmp_path: Path) -> None:
    (tmp_path / "maestro_lsp").mkdir()
    for name in ("__init__.py", "identity.py"):
        (tmp_path / "maestro_lsp" / name).write_bytes((ROOT / "maestro_lsp" / name).read_bytes())
    done = run(sys.executable, "-S", "-c", CHECK, cwd=tmp_path)
    assert done.returncode == 2
    assert f"'engine' is missing in {tmp_path}" in done.stderr


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9.-]+)==([^\s;\\]+)", text, re.M))


@pytest.mark.parametrize("name", ["runtime.txt", "build.txt", "dev.txt"])
def test_a_lock_has_a_hash_for_each_package_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    entries = [entry for entry in re.split(r"\n(?=\S)", text.strip()) if entry]
    for entry in entries:
        assert re.fullmatch(
            r"[a-z0-9.-]+==\S+( ; [^\\\n]+)? \\(\n {4}--hash=sha256:[0-9a-f]{64}( \\)?)+", entry
        ), entry.splitlines()[0]
    assert len(entries) == len(pins(name)) > 0


def test_the_locks_agree_and_hold_all_that_pyproject_asks_for() -> None:
    runtime, build, whole = pins("runtime.txt"), pins("build.txt"), pins("dev.txt")
    assert runtime.items() | build.items() <= whole.items()
    asked = {re.split(r"[^a-z-]", line)[0] for line in PROJECT["project"]["dependencies"]}
    assert asked <= runtime.keys()
    assert {re.split(r"[^a-z-]", line)[0] for line in PROJECT["dependency-groups"]["dev"]} <= whole.keys()
    assert PROJECT["build-system"]["requires"] == [f"hatchling=={build['hatchling']}"]


def test_the_notices_name_each_runtime_package_and_no_licence_that_binds_us() -> None:
    text = (ROOT / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z0-9.-]+) \| (\S+) \| (.+) \|$", text, re.M)
    assert {name: version for name, version, _ in rows if name not in {"package", "---"}} == pins(
        "runtime.txt"
    )
    assert [licence for _, _, licence in rows if re.search(r"\bA?GPL", licence)] == []
    bundled = (ROOT / "engine" / "llm" / "encodings" / "LICENSE.txt").read_text(encoding="utf-8")
    assert "cl100k_base.tiktoken" in text and bundled.split("\n")[2] in text, "what is bundled is named too"
