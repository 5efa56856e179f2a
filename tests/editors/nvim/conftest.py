"""Fixtures of the tests in a real Neovim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.llm.scripted import ThreadedServer, serve_in_thread
from engine.llm.scripted.story import Story
from maestro_lsp.demo.sample import make_sample
from tests.editors.nvim.driver import Desk


@pytest.fixture
def model() -> Iterator[ThreadedServer]:
    """The demo's scripted model; its requests are kept."""
    with serve_in_thread(Story()) as server:
        yield server


@pytest.fixture
def desk(tmp_path: Path, model: ThreadedServer) -> Desk:
    """The demo's sample as a repository."""
    made = Desk(tmp_path, model.base_url)
    make_sample(made.workspace)
    (made.workspace / ".git").mkdir()
    return made
