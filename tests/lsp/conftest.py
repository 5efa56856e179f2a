"""Fixtures of the tests over the protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lsp.driver import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace without a model server."""
    workspace = tmp_path / "shop"
    workspace.mkdir()
    return Place(workspace, tmp_path / "state")
