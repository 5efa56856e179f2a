"""A piece as a picture: every way through it, nothing that breaks out of it, always the same."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from engine.core.graph import Arrow, arrows, mermaid, svg
from engine.core.piece import Movement, Piece, Rule
from engine.core.toolnames import BUILTIN_NAMES
from engine.loader import default_dirs, list_pieces, load_piece

SHIPPED = [entry.name for entry in list_pieces(default_dirs(None, False, []), BUILTIN_NAMES)]


def movement(name: str, *rules: tuple[str, str], default: str | None = None, edit: bool = False) -> Movement:
    return Movement(
        name=name,
        edit=edit,
        persona="",
        instruction="",
        allowed_tools=(),
        rules=tuple(Rule(condition, target) for condition, target in rules),
        default_next=default,
    )


def piece(*movements: Movement, name: str = "p") -> Piece:
    return Piece(name, "what it is for", 9, movements[0].name, movements)


PLANNED = piece(
    movement("計画", ("計画ができた", "実装"), default="実装"),
    movement("実装", ("終わった", "検証"), ("計画が無理", "計画"), default="ABORT", edit=True),
    movement("検証", ("だめだった", "実装"), default="COMPLETE"),
)


def test_rules_forced_hops_and_the_end_are_all_drawn() -> None:
    assert arrows(PLANNED) == (
        Arrow("計画", "実装", "計画ができた", False),
        Arrow("計画", "実装", "", True),
        Arrow("実装", "検証", "終わった", False),
        Arrow("実装", "計画", "計画が無理", False),
        Arrow("実装", "ABORT", "", True),
        Arrow("検証", "実装", "だめだった", False),
        Arrow("検証", "COMPLETE", "complete", False),
        Arrow("検証", "COMPLETE", "", True),
    )


def test_waiting_for_subtasks_leads_on_to_the_default_movement() -> None:
    found = arrows(piece(movement("split", ("all out", "WAIT_SUBTASKS"), default="merge"), movement("merge")))
    assert Arrow("split", "merge", "WAIT_SUBTASKS: all out", False) in found


def test_japanese_names_stand_in_both_pictures_as_they_are() -> None:
    for text in (mermaid(PLANNED), svg(PLANNED)):
        assert "計画ができた" in text and "実装 ✎" in text and "検証 ✓" in text


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_piece_has_a_picture_with_all_its_movements(name: str) -> None:
    loaded = load_piece(name, default_dirs(None, False, []), BUILTIN_NAMES).piece
    text, tree = mermaid(loaded), ET.fromstring(svg(loaded))
    shown = ["".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    for each in loaded.movements:
        assert f'"{each.name}' in text
        assert any(title.startswith(each.name) for title in shown)
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}path"))) == 1 + len(arrows(loaded))
    assert (mermaid(loaded), svg(loaded)) == (mermaid(replace(loaded)), svg(replace(loaded)))


@pytest.mark.parametrize(
    "nasty",
    [
        '"] --> n9["x',
        "<script>alert(1)</script>",
        "a|b`c;end\nclick n0 call()",
        "\x00\x1b[2J\u202e\ud800\U000e0041",
        "]]>&amp;<!--",
        "%%{init: {}}%%",
    ],
)
def test_nothing_in_a_piece_breaks_out_of_the_picture(nasty: str) -> None:
    text = mermaid(piece(movement("one", (nasty, "two")), movement("two")))
    assert len(text.splitlines()) == 7
    label = re.fullmatch(r'  n0 -->\|"([^"|<>`\[\]{}%]*)"\| n1', text.splitlines()[5])
    assert label is not None, text
    drawn = svg(piece(movement("one", (nasty, "two")), movement("two"), name="p"))
    tree = ET.fromstring(drawn.encode("utf-8"))
    names = {node.tag.rpartition("}")[2] for node in tree.iter()}
    assert names == {"svg", "title", "desc", "style", "defs", "marker", "path", "rect", "text"}
    assert not {"\u202e", "\x1b", "\x00"} & set(drawn)


def test_a_movement_that_nothing_leads_to_is_drawn_too() -> None:
    drawn = svg(piece(movement("one"), movement("lost")))
    assert ">lost<" in drawn
