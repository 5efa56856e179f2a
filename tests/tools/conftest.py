"""Fixtures of the tools' tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tools.shells import Shell, shell_in
from tests.tools.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    root = tmp_path / "w"
    root.mkdir()
    return World(root.resolve())


@pytest.fixture
async def shell(world: World) -> AsyncIterator[Shell]:
    it = shell_in(world)
    yield it
    await it.registry.end_everything()
