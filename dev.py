#!/usr/bin/env python3
"""Everything a developer runs, with nothing but Python: `python3 dev.py` prints the list.

The checkout gets an environment of its own, `.venv`, in two steps: `runtime` (what `demo` and `run` need, so
that a first start is quick) and `dev` (that and the tools). Both are installed from hash-locked requirements
and remembered in a stamp, so that every later run starts at once and needs no network.

Only the standard library, and everything above the version check must parse on older Pythons.
"""

import os
import sys

JAPANESE = (
    (os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or "")
    .lower()
    .startswith("ja")
)
if sys.version_info < (3, 11):  # noqa: UP036 - run by older ones, it shall say so
    sys.exit(
        (
            "dev.py: Python 3.11 以上が必要ですが、これは {}.{} です。新しい Python で"
            "実行してください（例: python3.12 dev.py）。"
            if JAPANESE
            else "dev.py: Python 3.11 or newer is needed and this is {}.{}; run it with a newer one, "
            "for example `python3.12 dev.py`."
        ).format(*sys.version_info[:2])
    )

import hashlib
import json
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / "maestro-dev.json"
LOCKS = ROOT / "requirements"
LEVELS = {"runtime": ("runtime.txt", "build.txt"), "dev": ("dev.txt",)}  # dev.txt holds the other two
FAST_SECONDS = 90

USAGE = """usage: python3 dev.py COMMAND [arguments]

  demo [arguments]               the main job on the scripted model: no key, no network
  run [arguments]                maestro-lsp with these arguments
  test [--fast] [arguments]      the tests, arguments for pytest; --fast leaves out the slow ones
  fuzz [--minutes N] [NAME …]    feeds what takes anything with anything, ten minutes long (tests/fuzz)
  check                          format, lint, types, layers
  setup [--fresh]                the environment for all of these; --fresh makes it anew
  lock [--upgrade]               the requirements files and the notices again, when pyproject.toml changed
  notices                        THIRD_PARTY_NOTICES.md again
"""
USAGE_JA = """使い方: python3 dev.py コマンド [引数]

  demo [引数]                    台本どおりに答えるモデルで主な仕事を実演（鍵もネットワークも不要）
  run [引数]                     この引数で maestro-lsp を実行
  test [--fast] [引数]           テスト。引数は pytest へ渡す。--fast は遅いテストを除く
  fuzz [--minutes N] [名前 …]    何でも受け取る部分に何でも与える。既定は 10 分（tests/fuzz）
  check                          書式、リント、型、層の検査
  setup [--fresh]                上のすべてに使う環境を用意。--fresh は作り直す
  lock [--upgrade]               pyproject.toml の変更後に requirements とライセンス一覧を作り直す
  notices                        THIRD_PARTY_NOTICES.md を作り直す
"""
TEXTS = {
    "make": ("Making the environment {path} …", "環境 {path} を作っています…"),
    "packages": (
        "Installing {count} packages, checked by hash …",
        "{count} 個のパッケージをハッシュを確かめながら入れています…",
    ),
    "project": ("Installing maestro-lsp itself …", "maestro-lsp 本体を入れています…"),
    "ready": ("Ready after {seconds:.0f} s.", "準備ができました（{seconds:.0f} 秒）。"),
    "no_venv": (
        "this Python has no working `venv`; on Debian and Ubuntu install it with `apt install python3-venv`.",
        "この Python では `venv` が使えません。Debian や Ubuntu なら `apt install python3-venv` で"
        "入れてください。",
    ),
    "not_venv": (
        "{path} is in the way and is no Python environment; move it elsewhere.",
        "{path} は Python の環境ではありません。別の場所へ移してください。",
    ),
    "not_made": (
        "the environment {path} could not be made: {error}",
        "環境 {path} を作れませんでした: {error}",
    ),
    "not_installed": (
        "the installation did not succeed, see above; the first run needs a network that reaches a Python "
        "package index, later ones need none.",
        "インストールに失敗しました（上の出力を見てください）。初回だけ Python パッケージの入手先につながる"
        "ネットワークが必要です。",
    ),
    "failed": ("FAILED: {names}", "失敗: {names}"),
    "passed": ("All checks passed.", "すべての検査に合格しました。"),
    "slow": (
        "the fast tests took {seconds:.0f} s, more than {limit}: mark what is slow, or name what is long in"
        " tests/data/long.txt.",
        "速いテストに {seconds:.0f} 秒かかり、{limit} 秒を超えました。遅いものには @pytest.mark.slow を"
        "付けるか、tests/data/long.txt に書いてください。",
    ),
    "unknown": ("unknown command {name}", "{name} というコマンドはありません"),
}


def text(key: str, **values: object) -> str:
    """The sentence of this key in the person's language."""
    return TEXTS[key][JAPANESE].format(**values)


def say(sentence: str, end: str = "\n") -> None:
    """Prints to stderr: stdout belongs to the command that is run."""
    print(sentence, end=end, file=sys.stderr, flush=True)


def fail(key: str, **values: object) -> NoReturn:
    """Ends with status 1 and one sentence."""
    say("dev.py: " + text(key, **values))
    raise SystemExit(1)


# The environment


def ensure(level: str) -> None:
    """Makes .venv good for a level of LEVELS, or finds that it is. Ends the process where that fails."""
    if is_ready(level):
        return
    started = time.monotonic()
    if not is_usable():
        make(VENV)
    count = sum((LOCKS / name).read_text(encoding="utf-8").count("==") for name in LEVELS[level])
    say(text("packages", count=count))
    files = [argument for name in LEVELS[level] for argument in ("-r", str(LOCKS / name))]
    # Only wheels: building from source would fetch build tools that no hash covers.
    pip("install", "--require-hashes", "--only-binary", ":all:", *files)
    say(text("project"))
    pip("install", "--no-deps", "--no-build-isolation", "--no-index", "--editable", str(ROOT))
    STAMP.write_text(json.dumps({level: key(level), "installed": installed()}), encoding="utf-8")
    say(text("ready", seconds=time.monotonic() - started))


def is_ready(level: str) -> bool:
    """Whether the stamp says that this level, or the whole, was installed, and it is still all there."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    stamped = any(stamp.get(name) == key(name) for name in (level, "dev"))
    return stamped and PYTHON.exists() and set(stamp.get("installed", ())) <= set(installed())


def key(level: str) -> str:
    """Changes with everything that decides what is installed: the locks, the packaging, the folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parts: list[Any] = [project["build-system"], project["project"], project["tool"]["hatch"], str(ROOT)]
    parts += [(LOCKS / name).read_text(encoding="utf-8") for name in LEVELS[level]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def installed() -> list[str]:
    """Names of the metadata folders in the environment, which carry each package's version."""
    folders = [*VENV.glob("lib/python*/site-packages"), *VENV.glob("Lib/site-packages")]
    return sorted({entry.name for folder in folders for entry in folder.glob("*.dist-info")})


def is_usable() -> bool:
    """Whether .venv holds a Python that runs, is new enough and has pip."""
    probe = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([PYTHON, "-I", "-c", probe], capture_output=True).returncode == 0
    except OSError:
        return False


def make(folder: Path) -> None:
    """Makes an environment with the Python that runs this file. An unfinished or broken one is replaced."""
    try:
        import ensurepip  # noqa: F401 - Debian ships these two apart from Python
        import venv  # noqa: F401
    except ImportError:
        fail("no_venv")
    say(text("make", path=folder))
    if folder.exists() and not (folder / "pyvenv.cfg").exists() and any(folder.iterdir()):
        fail("not_venv", path=folder)
    # Not sys.executable: this file may be running in the very environment that is replaced.
    base = getattr(sys, "_base_executable", None) or sys.executable
    try:
        if folder.exists():
            shutil.rmtree(folder)
        done = subprocess.run([base, "-I", "-m", "venv", str(folder)], capture_output=True, text=True)
    except OSError as error:
        fail("not_made", path=folder, error=error)
    if done.returncode:
        fail("not_made", path=folder, error=(done.stdout + done.stderr).strip())


def pip(*arguments: str) -> None:
    """Runs the environment's pip; shows the packages as they come, and its whole output if it fails."""
    command = [str(PYTHON), "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    output: list[str] = []
    show = sys.stderr.isatty()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            output.append(line)
            if show and line.startswith("Collecting "):
                say("\r\x1b[K  " + line.split()[1], end="")
    if show:
        say("\r\x1b[K", end="")
    if process.returncode:
        say("".join(output), end="")
        fail("not_installed")


# Running


def setup(fresh: bool) -> int:
    """The environment for everything; `fresh` makes it anew though it may be good."""
    if fresh:
        make(VENV)
    ensure("dev")
    return 0


def clean_environment(tools: bool) -> dict[str, str]:
    """The person's environment without what would put other packages before ours; with the tools on PATH
    for tests, not for `run` and `demo`, whose shell commands shall see the person's own Python."""
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}}
    if tools:
        environment["PATH"] = os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)])
        environment["VIRTUAL_ENV"] = str(VENV)
    return environment


def call(*arguments: str) -> int:
    """Runs the environment's Python in the checkout; its exit status, as a shell gives it."""
    status = subprocess.run([PYTHON, *arguments], cwd=ROOT, env=clean_environment(tools=True)).returncode
    return status if status >= 0 else 128 - status


def maestro(*arguments: str) -> int:
    """Runs maestro-lsp where the person is; on POSIX it takes the place of this process."""
    ensure("runtime")
    command = [str(PYTHON), "-I", "-m", "maestro_lsp", *arguments]
    environment = clean_environment(tools=False)
    if os.name != "nt":
        os.execve(PYTHON, command, environment)
    return subprocess.run(command, env=environment).returncode


BESIDE = ("--numprocesses=auto", "--dist=worksteal")
"""How tests run beside each other; the slow ones want the machine for themselves."""


def test(arguments: Sequence[str]) -> int:
    """The tests: first those that may run beside each other, then the slow ones. Which of them to run may be
    named. `--fast` leaves out the slow and the long ones and complains when the others take too long all the
    same.
    """
    ensure("dev")
    pytest = ("-P", "-m", "pytest")
    options = [argument for argument in arguments if argument != "--fast"]
    if "--fast" in arguments:
        started = time.monotonic()
        status = call(*pytest, *BESIDE, "-m", "not slow and not long", "--durations=5", *options)
        if (seconds := time.monotonic() - started) > FAST_SECONDS:
            say("dev.py: " + text("slow", seconds=seconds, limit=FAST_SECONDS))
        return status
    if not all(option.startswith("--") for option in options):
        return call(*pytest, *options)
    quick = call(*pytest, *BESIDE, "-m", "not slow", *options)
    return call(*pytest, "-m", "slow", *options) or quick


def fuzz(arguments: Sequence[str]) -> int:
    """The modules of tests/fuzz, by the minute."""
    ensure("dev")
    return call("-P", "-m", "tests.fuzz", *arguments)


def check() -> int:
    """Every check, also after one failed. Status 1 if any did."""
    ensure("dev")
    checks = {
        "format": ("-I", "-m", "ruff", "format", "--check", "--quiet", "--output-format", "concise", "."),
        "lint": ("-I", "-m", "ruff", "check", "--output-format", "concise", "."),
        "types": ("-I", "-m", "mypy"),
        "layers": (
            "-I",
            "-c",
            "from importlinter.cli import lint_imports_command as lint; lint()",
            "--no-logo",
        ),
    }
    failed = []
    for name, arguments in checks.items():
        started = time.monotonic()
        say(f"== {name}")
        if call(*arguments):
            failed.append(name)
        say(f"== {name}: {time.monotonic() - started:.1f} s")
    say(text("failed", names=", ".join(failed)) if failed else text("passed"))
    return 1 if failed else 0


def lock(arguments: Sequence[str]) -> int:
    """The requirements files, then the notices of what they name."""
    script = str(LOCKS / "lock.py")
    # Not in .venv: that cannot be made while the lock is out of date.
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder, "env"))
        python = Path(folder, "env", BIN.name, PYTHON.name)
        status = subprocess.run([python, "-I", script, *arguments], cwd=ROOT).returncode
    return status or notices()


def notices() -> int:
    """THIRD_PARTY_NOTICES.md from the metadata of the installed runtime packages."""
    ensure("runtime")
    return call("-I", str(LOCKS / "lock.py"), "notices")


def main(arguments: Sequence[str]) -> int:
    """Runs one command of USAGE and gives its exit status; 2 for wrong usage."""
    command, rest = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    commands = {
        "demo": lambda: maestro("demo", *rest),
        "run": lambda: maestro(*rest),
        "test": lambda: test(rest),
        "fuzz": lambda: fuzz(rest),
        "check": check,
        "setup": lambda: setup(fresh=bool(rest)),
        "lock": lambda: lock(rest),
        "notices": notices,
    }
    known = {"check": (), "setup": ("--fresh",), "lock": ("--upgrade",), "notices": ()}
    if command in commands and set(rest) <= set(known.get(command, rest)):
        return commands[command]()
    usage = USAGE_JA if JAPANESE else USAGE
    if command in {"-h", "--help"}:
        print(usage, end="")
        return 0
    if command:
        say("dev.py: " + text("unknown", name=" ".join([command, *rest])))
    say(usage, end="")
    return 2


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
