"""The tests that the inner loop leaves out are named, and each of them exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = [line for line in (ROOT / "tests/data/long.txt").read_text("utf-8").splitlines() if line[:1] != "#"]


@pytest.mark.parametrize("module", sorted({name.partition("::")[0] for name in NAMES}))
def test_every_name_is_a_test(module: str) -> None:
    tree = ast.parse((ROOT / module).read_text("utf-8"))
    there = {getattr(node, "name", None) for node in ast.walk(tree)}
    there |= {name.id for node in ast.walk(tree) if isinstance(node, ast.Assign) for name in _names(node)}
    wanted = {name.split("::")[1] for name in NAMES if name.startswith(f"{module}::")}
    assert wanted <= there


def _names(node: ast.Assign) -> list[ast.Name]:
    return [target for target in node.targets if isinstance(target, ast.Name)]


def test_they_are_in_order_each_once() -> None:
    assert sorted(set(NAMES)) == NAMES
