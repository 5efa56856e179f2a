"""A command line of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """`maestro-lsp` without a model server."""
    return Cli(tmp_path)
