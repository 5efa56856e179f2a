"""The extension in a real VS Code: what a person sees there, and what it comes to.

Each flow is a script in ``vscode/flows`` that plays in Chromium and asserts what is on the screen; the files
and the model's requests are asserted here. Screenshots go to ``build/pictures/vscode``; with
``MAESTRO_UPDATE_PICTURES=1`` those that the READMEs show are copied to ``docs/pictures``.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine import story_server
from engine.llm.scripted.threaded import ThreadedServer
from maestro_lsp.demo.sample import make_sample
from maestro_lsp.protocol import protocol_schemas
from tests.editors.vscode import setup
from tests.editors.vscode.harness import (
    BROWSER,
    EXTENSION,
    ROOT,
    Place,
    code_server,
    install,
    install_packages,
    npm,
    pictures_folder,
    play,
)

pytestmark = [pytest.mark.slow, pytest.mark.needs(BROWSER), pytest.mark.timeout(240)]

PICTURES = {
    "main-question": "vscode-question",
    "main-diff": "vscode-diff",
    "main-jobs": "vscode-jobs",
    "main-done": "vscode-done",
    "denied-changes": "vscode-changes",
    "newcomer-steps": "vscode-first-steps",
    "japanese-diff": "vscode-diff-ja",
}
"""Screenshots of the flows, and their names in ``docs/pictures``."""

TRUSTING = "--disable-workspace-trust"
LIGHT = {"workbench.colorTheme": "Default Light Modern"}
BROKEN = (ROOT / "pieces" / "code.yaml").read_text("utf-8")
BROKEN = BROKEN.replace("name: code", "name: broken", 1).replace("next: implement", "next: implment", 1)


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder with Node, code-server and Playwright."""
    folder = setup.ensure()
    install_packages(folder)
    return folder


@pytest.fixture(scope="session")
def extensions(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the extension as its vsix installs it, the server's wheel inside."""
    npm(tools, "run", "package")
    folder = tmp_path_factory.mktemp("vscode") / "extensions"
    install(tools, folder, *EXTENSION.glob("dist/*.vsix"))
    return folder


@pytest.fixture
def model() -> Iterator[ThreadedServer]:
    """The scripted model, in this process: what it was asked can be read."""
    server = ThreadedServer(story_server())
    server.start()
    yield server
    server.stop()


@dataclass(frozen=True)
class Played:
    """What a flow left behind."""

    workspace: Path
    model: ThreadedServer

    def text(self, name: str) -> str:
        """A file of the workspace."""
        return (self.workspace / name).read_text("utf-8")

    def passes(self) -> bool:
        """Whether the sample's tests pass, run by ourselves."""
        command = [sys.executable, "-m", "unittest"]
        return subprocess.run(command, cwd=self.workspace, capture_output=True, timeout=30).returncode == 0

    def told(self, part: str) -> bool:
        """Whether a message of any request to the model holds this."""
        messages = [str(m.get("content")) for body in self.model.bodies() for m in body["messages"]]
        return any(part in message for message in messages)


@pytest.fixture
def played(tools: Path, extensions: Path, model: ThreadedServer, tmp_path: Path) -> Any:
    """Plays a flow on a sample project of its own."""

    def run(
        flow: str,
        *options: str,
        mode: str = "ask",
        language: str = "en",
        files: Mapping[str, str] | None = None,
        user: Mapping[str, Any] | None = None,
    ) -> Played:
        workspace, home = tmp_path / "shop", tmp_path / "home"
        make_sample(workspace)
        home.mkdir()
        for name, text in (files or {}).items():
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name).write_text(text, "utf-8")
        settings = {
            "maestro.interpreter": sys.executable,
            "maestro.llm.endpoint": model.base_url,
            "maestro.llm.model": "scripted",
            "maestro.mode": mode,
        }
        place = Place(home, workspace, settings, user or {}, language=language)
        with code_server(tools, place, extensions, *options) as url:
            play(tools, flow, url, place)
        return Played(workspace, model)

    return run


@pytest.fixture(scope="module", autouse=True)
def _published() -> Iterator[None]:
    """With ``MAESTRO_UPDATE_PICTURES`` the pictures of the READMEs are made anew."""
    yield
    if os.environ.get("MAESTRO_UPDATE_PICTURES"):
        for name, published in PICTURES.items():
            picture = pictures_folder() / f"{name}.png"
            if picture.exists():
                shutil.copyfile(picture, ROOT / "docs" / "pictures" / f"{published}.png")


def test_the_modules_that_know_nothing_of_vscode(tools: Path) -> None:
    assert re.search(r"# fail 0|ℹ fail 0", npm(tools, "test"))


def test_types_hold(tools: Path) -> None:
    npm(tools, "run", "typecheck")


def test_the_wire_is_what_the_server_says(tools: Path) -> None:
    npm(tools, "run", "check:protocol")


@pytest.mark.parametrize(
    ("shape", "field"),
    [("JobSummary", "movement"), ("Request", "rule"), ("StartParams", "piece"), ("ApproveAnswer", "note")],
)
def test_a_field_that_the_server_renames_is_noticed(
    tools: Path, tmp_path: Path, shape: str, field: str
) -> None:
    schemas = protocol_schemas()
    properties = schemas["$defs"][shape]["properties"]
    properties["renamed"] = {"type": "integer"}
    del properties[field]
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(schemas), "utf-8")
    with pytest.raises(AssertionError, match=field):
        npm(tools, "run", "check:protocol", "--", str(schema))


def test_a_question_in_free_text_an_approval_after_its_diff_and_a_reload_while_parked(played: Any) -> None:
    shop = played("main", TRUSTING)
    assert "return price * (100 + rate) // 100" in shop.text("price.py")
    assert "test_fractions_are_rounded_down" in shop.text("test_price.py")
    assert shop.told("down, to whole yen")
    assert shop.passes()


def test_a_faulty_piece_is_marked_a_denial_reaches_the_model_and_changes_are_put_back(played: Any) -> None:
    shop = played("denied", TRUSTING, files={".maestro/pieces/broken.yaml": BROKEN}, user=LIGHT)
    assert shop.told("Round down, customers must not pay more")
    assert "return price * (100 + rate) / 100" in shop.text("price.py")
    assert shop.text("test_price.py").endswith("# mine\n")
    assert "test_fractions_are_rounded_down" in shop.text("test_price.py")
    [exported] = shop.workspace.glob(".maestro/tasks/*/output/*.md")
    assert "Round down, customers must not pay more" in exported.read_text("utf-8")


def test_an_untrusted_workspace_is_asked_about_everything_but_reading(played: Any) -> None:
    shop = played("restricted", mode="edits")
    assert not (shop.workspace / "OVERVIEW.md").exists()


def test_it_all_speaks_japanese(played: Any) -> None:
    shop = played("japanese", TRUSTING, language="ja")
    assert shop.told("円未満は切り捨て\n端数は出さない")
    assert shop.passes()


def test_a_newcomer_gets_from_the_vsix_to_a_finished_demo_task(
    tools: Path, extensions: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    place = Place(home, home / "maestro-sample")
    with code_server(tools, place, extensions, TRUSTING) as url:
        play(tools, "newcomer", url, place)
    assert "return price * (100 + rate) // 100" in (place.workspace / "price.py").read_text("utf-8")


@pytest.mark.parametrize("readme", [EXTENSION / "README.md"])
def test_the_pictures_of_a_readme_are_made_by_these_tests(readme: Path) -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", readme.read_text("utf-8"))
    assert shown, "it shows no picture"
    for link in shown:
        picture = (readme.parent / link).resolve()
        assert picture.exists(), link
        assert picture.stem in PICTURES.values(), link
