"""A command line of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import Cli
from tests.cli.warm import Warm


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Where commands without a terminal are forked from."""
    made = Warm()
    yield made
    made.close()


@pytest.fixture
def cli(tmp_path: Path, warm: Warm) -> Iterator[Cli]:
    """`maestro-lsp` without a model server."""
    made = Cli(tmp_path, warm)
    yield made
    made.close()
