"""The main job with the capabilities that real editors announce, over the typed client of pytest-lsp.

A typed client refuses messages that are not what the protocol says, which the raw one would let pass.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from engine.llm.scripted import ThreadedServer, call, serve_in_thread

pytestmark = pytest.mark.slow

WITHIN = 15.0
STATE = tempfile.TemporaryDirectory(prefix="maestro-test-")
"""The servers' state folder: the plugin starts a server before any fixture of ours runs."""


def script(request: Any) -> Any:
    """Asks once, then ends with what it was answered."""
    if request.contains("The person answered: down"):
        return call("complete", status="success", result="Rounded down.")
    return call("complete", status="needs_user_input", result="Up or down?", options=["up", "down"])


@pytest.fixture
def model() -> Any:
    """The scripted model, reached over HTTP."""
    with serve_in_thread(script) as server:
        yield server


def make_client() -> LanguageClient:
    """A client that answers questions with ``down`` and keeps what it was shown."""
    client = pytest_lsp.make_test_lsp_client()

    @client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)
    def choose(params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
        return next((action for action in params.actions or () if action.title == "down"), None)

    for method in ("maestro/jobChanged", "maestro/event"):
        client.feature(method)(lambda params: None)
    return client


@pytest_lsp.fixture(
    config=ClientServerConfig(
        server_command=[sys.executable, "-I", "-m", "maestro_lsp", "--stdio"],
        client_factory=make_client,
        server_env={**os.environ, "MAESTRO_STATE_DIR": STATE.name, "LC_ALL": "C.UTF-8"},
    ),
    params=["neovim@v0.11", "visual_studio_code", "emacs"],
)
async def client(
    request: pytest.FixtureRequest, lsp_client: LanguageClient, model: ThreadedServer, tmp_path: Path
) -> AsyncIterator[None]:
    """An editor on a workspace, with the capabilities of a real one."""
    workspace = tmp_path / "shop"
    workspace.mkdir(exist_ok=True)
    settings = {"llm": {"endpoint": model.base_url, "model": "scripted"}}
    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities(request.param),
            workspace_folders=[types.WorkspaceFolder(uri=workspace.as_uri(), name="shop")],
            initialization_options={"trusted": True, "mode": "ask", "settings": settings},
        )
    )
    yield
    await lsp_client.shutdown_session()


async def test_a_task_asks_and_ends_in_every_editor(client: LanguageClient) -> None:
    told = asyncio.ensure_future(client.wait_for_notification(types.WINDOW_SHOW_MESSAGE))
    order = {"instruction": "Round the price", "piece": "chat"}
    ids: Any = await client.workspace_execute_command_async(
        types.ExecuteCommandParams(command="maestro.task.start", arguments=[order])
    )
    await asyncio.wait_for(told, WITHIN)
    assert any("Rounded down." in message.message for message in client.messages)
    shown: Any = await client.workspace_execute_command_async(
        types.ExecuteCommandParams(command="maestro.task.show", arguments=[{"jobId": ids["jobId"]}])
    )
    assert (shown["status"], shown["result"]) == ("succeeded", "Rounded down.")
