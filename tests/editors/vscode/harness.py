"""A real VS Code (code-server) with the extension, on a workspace of its own, driven by scripts.

What a flow does in the window, in Chromium, stands in ``flows/*.mjs``; what it comes to (files, requests that
the model got) is asserted by the tests in Python.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.editors.vscode import setup

ROOT = Path(__file__).resolve().parents[3]
EXTENSION = ROOT / "editors" / "vscode"
FLOWS = Path(__file__).with_name("flows")
BROWSER = "chromium"
READY_S = 20.0
END_S = 8.0
FLOW_S = 100.0


def pictures_folder() -> Path:
    """Where screenshots go: ``$MAESTRO_PICTURES``, else a folder of the build that git ignores."""
    return Path(os.environ.get("MAESTRO_PICTURES") or ROOT / "build" / "pictures" / "vscode")


def npm(folder: Path, *arguments: str, timeout: float = 120) -> str:
    """Run npm in the extension's folder; what it says. Raises ``AssertionError`` with it if it fails."""
    ran = subprocess.run(
        [*setup.npm_of(folder), *arguments],
        cwd=EXTENSION,
        env={**setup.environment(folder), "MAESTRO_BUILD_PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=timeout,
    )
    assert ran.returncode == 0, f"npm {' '.join(arguments)}:\n{ran.stdout}"
    return ran.stdout


def install_packages(folder: Path) -> None:
    """``npm ci``, unless what the lock says is installed already."""
    lock, stamp = EXTENSION / "package-lock.json", EXTENSION / "node_modules" / ".maestro-lock"
    if not stamp.exists() or stamp.read_text("utf-8") != lock.read_text("utf-8"):
        npm(folder, "ci", "--ignore-scripts", "--loglevel=error")
        shutil.copyfile(lock, stamp)


@dataclass(frozen=True)
class Place:
    """Folders of one test. ``path`` is the PATH of the editor: what Pythons it finds."""

    home: Path
    workspace: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict)
    path: str = "/usr/bin:/bin"
    language: str = "en"


@contextlib.contextmanager
def code_server(folder: Path, place: Place, extensions: Path, *options: str) -> Iterator[str]:
    """Run code-server; its address. It and everything it started end with the block."""
    data = place.home / "data"
    for name, content in (("Machine", place.settings), ("User", {**_QUIET, **place.user})):
        (data / name).mkdir(parents=True, exist_ok=True)
        (data / name / "settings.json").write_text(json.dumps(content), "utf-8")
    if place.language != "en":
        _speak(data, place.language)
    port = _free_port()
    entry = folder / "node_modules" / "code-server" / "out" / "node" / "entry.js"
    command = [
        *(str(setup.node_of(folder)), str(entry), "--bind-addr", f"127.0.0.1:{port}", "--auth", "none"),
        *("--user-data-dir", str(data), "--extensions-dir", str(extensions)),
        *("--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"),
        *("--disable-proxy", "--reconnection-grace-time", "5", "--locale", place.language, *options),
    ]
    log = (place.home / "code-server.log").open("ab")
    process = subprocess.Popen(
        command,
        cwd=place.home,
        env=_environment(place),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        _wait_healthy(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        _end(process)
        log.close()


_QUIET = {
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "chat.commandCenter.enabled": False,
    "chat.disableAIFeatures": True,
    "window.commandCenter": False,
    "extensions.ignoreRecommendations": True,
    "git.enabled": False,
    "security.workspace.trust.banner": "never",
    "workbench.colorTheme": "Default Dark Modern",
}


def _speak(data: Path, language: str) -> None:
    """A language pack that translates nothing: with it VS Code takes the language, and the extension's texts
    come in it. The real packs are not on the package registries.
    """
    texts = data / f"{language}.i18n.json"
    texts.write_text(json.dumps({"version": "1.0.0", "contents": {}}), "utf-8")
    extension = {"extensionIdentifier": {"id": f"maestro-tests.{language}", "uuid": "0"}, "version": "1.0.0"}
    pack = {
        "hash": "0",
        "label": language,
        "extensions": [extension],
        "translations": {"vscode": str(texts)},
    }
    (data / "languagepacks.json").write_text(json.dumps({language: pack}), "utf-8")


def _environment(place: Place) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k in ("LANG", "TMPDIR") or k.startswith(("PIP_", "SSL_"))}
    return {
        **kept,
        "LC_ALL": "C.UTF-8",
        "PATH": place.path,
        "HOME": str(place.home),
        "XDG_CONFIG_HOME": str(place.home / "config"),
        "XDG_DATA_HOME": str(place.home / "share"),
        "XDG_STATE_HOME": str(place.home / "state"),
        "MAESTRO_STATE_DIR": str(place.home / "maestro"),
        "PIP_CACHE_DIR": str(setup.cache_folder().with_name("pip")),
        "EXTENSIONS_GALLERY": '{"serviceUrl":""}',
    }


def install(folder: Path, extensions: Path, *packages: Path) -> None:
    """Install vsix files into a folder that several servers can share."""
    entry = folder / "node_modules" / "code-server" / "out" / "node" / "entry.js"
    home = extensions.parent / "install"
    home.mkdir(exist_ok=True)
    command = [str(setup.node_of(folder)), str(entry), "--user-data-dir", str(home)]
    command += ["--extensions-dir", str(extensions)]
    for package in packages:
        command += ["--install-extension", str(package)]
    environment = {**setup.environment(folder), "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    ran = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def play(folder: Path, flow: str, url: str, place: Place, **given: str) -> None:
    """Play a flow in a fresh browser. Raises ``AssertionError`` with what it said."""
    pictures = pictures_folder()
    pictures.mkdir(parents=True, exist_ok=True)
    told = {"url": url, "workspace": str(place.workspace), "home": str(place.home), "pictures": str(pictures)}
    environment = {
        **setup.environment(folder),
        "NODE_PATH": str(folder / "node_modules"),
        "MAESTRO_FLOW": json.dumps({**told, "browser": shutil.which(BROWSER), **given}),
    }
    process = subprocess.Popen(
        [str(setup.node_of(folder)), str(FLOWS / f"{flow}.mjs")],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=FLOW_S)
    except subprocess.TimeoutExpired:
        _end(process)
        said, _ = process.communicate()
        raise AssertionError(f"{flow} took more than {FLOW_S:g} s:\n{said}") from None
    finally:
        _end(process)
    print(said)
    assert process.returncode == 0, f"{flow}:\n{said}\n{_tail(place.home)}"


def _tail(home: Path) -> str:
    """The end of the extension's output, for a flow that failed."""
    logs = sorted(home.glob("data/logs/**/*Maestro.log"), key=lambda log: log.stat().st_mtime)
    return logs[-1].read_text("utf-8")[-4000:] if logs else "(the extension wrote no output)"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        assert process.poll() is None, "code-server ended by itself"
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2).close()
            return
        time.sleep(0.05)
    raise AssertionError("code-server did not answer")


def _end(process: subprocess.Popen[Any]) -> None:
    """End a process and the group it leads."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S if number == signal.SIGTERM else 2)
