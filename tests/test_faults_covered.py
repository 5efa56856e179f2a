"""Every situation of data/faults.toml is shown by a test that names it, and so is a neighbour of its kind."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent


@cache
def table() -> dict[str, Any]:
    return tomllib.loads((TESTS / "data" / "faults.toml").read_text("utf-8"))


def marks(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Title and whether it is a neighbour, of each ``pytest.mark.fault(…)`` in the tree.

    A ValueError for one that is not written out in literals: it could not be checked.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="fault", value=ast.Attribute(attr="mark"))):
                title, options = node.args, {keyword.arg: keyword.value for keyword in node.keywords}
                yield ast.literal_eval(title[0]), bool(options and ast.literal_eval(options["neighbour"]))


@cache
def marked() -> dict[bool, dict[str, list[str]]]:
    """Titles that tests name, with the files; under True those of neighbours."""
    found: dict[bool, dict[str, list[str]]] = {False: {}, True: {}}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if "mark.fault(" in text and path != Path(__file__).resolve():
            for title, neighbour in marks(ast.parse(text)):
                found[neighbour].setdefault(title, []).append(path.relative_to(TESTS).as_posix())
    return found


@pytest.mark.parametrize("title", table()["required"])
def test_a_situation_is_shown_and_so_is_a_neighbour(title: str) -> None:
    if title in table()["why"]:
        return
    assert title in marked()[False], "no test is marked with this title"
    assert title.startswith("I") or title in marked()[True], "no test is marked as a neighbour of it"


def test_a_mark_names_a_situation_of_the_table() -> None:
    known = {*table()["required"], *table()["later"]}
    strange = {
        title: files for found in marked().values() for title, files in found.items() if title not in known
    }
    assert not strange


def test_a_reason_is_a_sentence_for_a_situation_that_is_not_shown() -> None:
    for title, why in table()["why"].items():
        assert title in table()["required"] and why.endswith(".")
        assert not (title in marked()[False] and title in marked()[True]), (
            f"{title} is shown: drop its reason"
        )


def test_marks_are_found_on_functions_and_on_parameters() -> None:
    tree = ast.parse(
        """
@pytest.mark.fault("A: one")
@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.fault("A: two", neighbour=True)),
                               pytest.param(2, marks=[pytest.mark.fault("A: three", neighbour=False)])])
def test_it(n): ...
"""
    )
    assert set(marks(tree)) == {("A: one", False), ("A: two", True), ("A: three", False)}


def test_a_mark_that_is_not_literal_is_refused() -> None:
    with pytest.raises(ValueError, match="malformed"):
        list(marks(ast.parse("pytest.mark.fault(title)")))
