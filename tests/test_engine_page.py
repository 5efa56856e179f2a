"""The page docs/engine.md goes through both source documents point by point: each point names code and a test
that are there, its numbers are those of the code, and the index leaves no point out.
"""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from engine.core.outcome import SETTLEMENTS, Via

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "engine.md").read_text("utf-8")
SOURCES = {"CF", "MC", "ours"}
CODE = re.compile(r"`((?:engine|maestro_lsp|pieces|tests|docs)/[^`\s]+)`")
POINT = re.compile(r"\d\.\d+")
TEST = re.compile(r"tests/(?:\w+/)*test_\w+\.py::test_\w+")


@dataclass(frozen=True)
class Row:
    """A line of a table: its cells, the nearest heading and the chapter it stands under."""

    chapter: str
    section: str
    cells: tuple[str, ...]


def rows() -> Iterator[Row]:
    chapter = section = ""
    for line in PAGE.splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ").strip()
            chapter = section if line.startswith("## ") else chapter
        elif line.startswith("|") and not re.fullmatch(r"[|\s:-]+", line):
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield Row(chapter, section, tuple(cell.strip() for cell in cells))


POINTS = [row for row in rows() if POINT.fullmatch(row.cells[0])]
NUMBERS = [row for row in rows() if row.section.startswith("Numbers") and CODE.search(row.cells[-1])]
INDEX = [row for row in rows() if row.section.startswith(("Context flow", "Movement control flow"))]


@cache
def names_in(path: Path) -> frozenset[str]:
    """What a file defines: functions, classes, constants, members as ``Class.member``; keys of a TOML file;
    queries of an SQL file.
    """
    text = path.read_text("utf-8")
    match path.suffix:
        case ".toml":
            return frozenset(tomllib.loads(text))
        case ".sql":
            return frozenset(re.findall(r"^-- name: (\w+)", text, re.MULTILINE))
        case ".py":
            return frozenset(_defined(ast.parse(text).body))
        case _:
            return frozenset()


def _defined(body: list[ast.stmt], within: str = "") -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield within + name
            case ast.ClassDef(name=name):
                yield within + name
                yield from _defined(node.body, f"{within}{name}.")
            case ast.Assign(targets=targets):
                yield from (
                    within + name.id
                    for target in targets
                    for name in ast.walk(target)
                    if isinstance(name, ast.Name)
                )
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield within + name


def missing(cell: str) -> list[str]:
    """The places and tests of a cell that are not there."""
    found = []
    for place in CODE.findall(cell):
        path, _, name = place.replace("::", ":").partition(":")
        file = ROOT / path
        if not file.exists() or (name and name not in names_in(file)):
            found.append(place)
    return found


def faults_of(row: Row) -> Iterator[str]:
    """What is wrong with a point."""
    number, *cells = row.cells
    if len(cells) != 4:
        yield f"{number}: it has number, source, behaviour, where it lives, the test that shows it"
        return
    source, behaviour, where, shown = cells
    if not set(source.split(", ")) <= SOURCES:
        yield f"{number}: {source} is no source"
    if len(behaviour) < 15 or not CODE.search(where):
        yield f"{number}: no behaviour, or no place in the code"
    tests = CODE.findall(shown)
    if not tests or not all(TEST.fullmatch(test) for test in tests):
        yield f"{number}: no test, or something that is none"
    yield from (f"{number}: {place} is not there" for place in missing(where) + missing(shown))


def test_each_point_names_code_and_tests_that_are_there() -> None:
    assert [fault for row in POINTS for fault in faults_of(row)] == []


def test_points_are_numbered_by_their_chapter_without_a_gap() -> None:
    counted: dict[str, int] = {}
    for row in POINTS:
        chapter = row.chapter[0]
        counted[chapter] = counted.get(chapter, 0) + 1
        assert row.cells[0] == f"{chapter}.{counted[chapter]}"
    assert set(counted) == set("1234567")


def test_every_other_place_that_is_named_is_there() -> None:
    assert missing(PAGE) == []


def test_each_point_of_the_documents_stands_in_the_index_and_the_index_names_points() -> None:
    known = {row.cells[0] for row in POINTS}
    named = {point for row in INDEX for point in POINT.findall(row.cells[-1])}
    assert named <= known
    assert {row.cells[0] for row in POINTS if row.cells[1] != "ours"} <= named


def test_the_settlement_table_is_that_of_the_code() -> None:
    told = {
        tuple(cell.replace("`", "") for cell in row.cells[:5])
        for row in rows()
        if row.section.startswith("Settlements") and row.cells[0].startswith("`")
    }
    real = {
        (
            row.sentinel,
            "rule" if row.via is Via.RULE else "tool or engine",
            row.status.value,
            f"{row.resume.value}{', conversation kept' if row.keeps_conversation else ''}"
            if row.resume
            else "–",
            ", ".join(row.wait_reasons) or "–",
        )
        for row in SETTLEMENTS
    }
    assert told == real


def value_of(place: str) -> object:
    """The value of a constant, or of a field of a class that has defaults."""
    path, _, name = place.partition(":")
    value: Any = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    for part in name.split("."):
        value = getattr(value() if isinstance(value, type) else value, part)
    return value


def test_each_number_is_the_one_of_the_code() -> None:
    told = {row.cells[0]: ast.literal_eval(row.cells[1].split("`")[1]) for row in NUMBERS}
    assert told == {row.cells[0]: value_of(CODE.findall(row.cells[2])[0]) for row in NUMBERS}


def test_there_are_many_points_and_numbers() -> None:
    assert len(POINTS) > 150
    assert len(NUMBERS) > 40


def test_what_the_code_cites_of_this_page_is_a_section_of_it() -> None:
    sections = set(re.findall(r"^## (\d)\.", PAGE, re.MULTILINE))
    cited = re.compile(r"engine\.md`*\s*(?:§|sections?\s)\s*(\d)(?:[^.\n]{0,6}(?:and|§|,)\s*§?(\d))*")
    files = [*(ROOT / "engine").rglob("*.py"), *(ROOT / "maestro_lsp").rglob("*.py")]
    found = {
        number
        for file in files
        for match in cited.finditer(re.sub(r"\s+", " ", file.read_text("utf-8")))
        for number in match.groups()
        if number
    }
    assert found
    assert found <= sections
