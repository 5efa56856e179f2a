"""Makes the hash-locked requirements files and the licence list. Run by `dev.py lock` and `dev.py notices`.

`lock` resolves pyproject.toml once for every platform and every Python from 3.11 on: `dev.txt` is the whole,
`runtime.txt` and `build.txt` are parts of it with the same versions. Known pins stay unless `--upgrade`. The
files name packages, versions, markers and hashes, and never an address: anybody's package index will do.
"""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements"
UV = "uv==0.13.9"
OPTIONS = (
    *("--universal", "--python-version", "3.11", "--generate-hashes", "--only-binary", ":all:"),
    *("--no-annotate", "--no-header", "--quiet"),
)
HEAD = """# Third-party notices

maestro-lsp is licensed under the Apache License 2.0 (see LICENSE). It is installed together with the packages
below, which it does not contain; each comes with its own licence text. Made by `dev.py notices`.

| package | version | licence |
| --- | --- | --- |
"""

BUNDLED = """
It contains one file of others: `engine/llm/encodings/cl100k_base.tiktoken`, data of tiktoken, with which
tokens are counted without a download. Its licence:

"""
BUNDLED_LICENCE = ROOT / "engine" / "llm" / "encodings" / "LICENSE.txt"


def lock(arguments: Sequence[str]) -> None:
    """Writes the three requirements files; `arguments` go to the resolver, which is installed where this runs
    (`dev.py` makes a throw-away environment for it). Exits with a sentence if an address got into a file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    build: list[str] = project["build-system"]["requires"]
    runtime: list[str] = project["project"]["dependencies"]
    sources = {
        "dev.txt": [*runtime, *project["dependency-groups"]["dev"], *build],
        "runtime.txt": runtime,
        "build.txt": build,
    }
    subprocess.run([sys.executable, "-I", "-m", "pip", "install", "--quiet", UV], check=True)
    for name, requirements in sources.items():
        target = LOCKS / name
        limits = [] if name == "dev.txt" else ["--constraint", str(LOCKS / "dev.txt")]
        command = [sys.executable, "-I", "-m", "uv", "pip", "compile", "-", "--output-file", str(target)]
        subprocess.run(
            [*command, *OPTIONS, *limits, *arguments],
            input="\n".join(requirements),
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for line in target.read_text(encoding="utf-8").splitlines():
            if line.startswith("-") or "://" in line:
                sys.exit(f"{target} names an address or an option: {line}")


def pins(name: str) -> dict[str, str]:
    """Package → version of one requirements file."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", (LOCKS / name).read_text(encoding="utf-8"), re.M)
    return {package.lower(): version for package, version in found}


def notices() -> None:
    """Writes THIRD_PARTY_NOTICES.md from the metadata of the runtime packages in the running environment."""
    rows = []
    for name, version in sorted(pins("runtime.txt").items()):
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            sys.exit(f"{name} is in runtime.txt but not installed here; its licence cannot be read.")
        rows.append(f"| {name} | {version} | {licence(distribution)} |\n")
    text = "".join(f"> {line}\n".replace("> \n", ">\n") for line in _lines(BUNDLED_LICENCE))
    (ROOT / "THIRD_PARTY_NOTICES.md").write_text(HEAD + "".join(rows) + BUNDLED + text, encoding="utf-8")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").strip().split("\n")


def licence(distribution: importlib.metadata.Distribution) -> str:
    """The licence as the package's metadata names it."""
    metadata = distribution.metadata
    classifiers: list[str] = metadata.get_all("Classifier") or []
    named: list[str] = [
        value for key in ("License-Expression", "License") for value in metadata.get_all(key) or []
    ]
    named += [value.rpartition(" :: ")[2] for value in classifiers if value.startswith("License :: ")]
    if not named:
        sys.exit(f"{distribution.name} does not say what its licence is.")
    # Some packages put the whole text there; its first line is the name.
    return named[0].strip().split("\n")[0]


if __name__ == "__main__":
    if sys.argv[1:] == ["notices"]:
        notices()
    else:
        lock(sys.argv[1:])
