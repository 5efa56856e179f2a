"""Fixtures of the tools' tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    root = tmp_path / "w"
    root.mkdir()
    return World(root.resolve())
