"""What a classifier is asked, and which piece its answer means (engine.md section 2)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.catalog import prompts
from engine.core.classify import chosen, hits, question, usable
from engine.core.piece_card import PieceCard

NAMES = ("chat", "code", "general", "piece-builder", "review")


@pytest.mark.parametrize(
    ("answer", "piece"),
    [
        ("code", "code"),
        ("  Code\n", "code"),
        ("CODE.", "code"),
        ("ｃｏｄｅ", "code"),
        ("“code”", "code"),
        ("「code」", "code"),
        ("`piece-builder`", "piece-builder"),
        ("**code**", "code"),
        ("- code", "code"),
        ('"code"', "code"),
        ('{"piece": "code"}', "code"),
        ('{"name": "Code", "why": "it reviews nothing"}', "code"),
        ('["code"]', "code"),
        ('```json\n{"piece": "code"}\n```', "code"),
        ("```\ncode\n```", "code"),
        ("The best piece is code.", "code"),
        ("最適なのはcodeです。", "code"),
        ("ピース「code」が合います。generalではありません。", "code"),
        ("In general, I would take `code` for this.", "code"),
        ("<think>review? no, general. or chat</think>\ncode", "code"),
        ("review? no, general</think>code", "code"),
        ("The task asks to mend a test, so review or chat will not do.\n\ncode", "code"),
        ("It mends a test.\n\nPiece: code", "code"),
        ('Let me see: chat or code?\n{"piece": "code"}', "code"),
        ("I take piece-builder", "piece-builder"),
        # none, or more than one
        ("", None),
        ("   \n", None),
        ("dance", None),
        ("codes", None),
        ("code-review", None),
        ("code or chat", None),
        ("`code` or `chat`", None),
        ('{"piece": "dance"}', None),
        ('{"piece": ["code", "chat"]}', None),
        ("I would use code here, although general also fits.", None),
        ("[" * 9000, None),
        ("'" * 9000, None),
    ],
)
def test_an_answer_names_exactly_one_piece_of_the_list_or_none(answer: str, piece: str | None) -> None:
    assert chosen(answer, NAMES) == piece


def test_a_piece_whose_file_is_written_in_capitals_can_be_chosen() -> None:
    assert chosen("tidy", ["Tidy", "chat"]) == chosen("I take `TIDY`.", ["Tidy", "chat"]) == "Tidy"


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_any_answer_is_read_without_an_error_and_means_a_piece_of_the_list_or_none(answer: str) -> None:
    assert chosen(answer, NAMES) in (*NAMES, None)


@given(st.sampled_from(NAMES), st.sampled_from(["", "`", '"', "**", " "]), st.sampled_from(["", ".", "\n"]))
def test_a_name_is_found_in_any_dress(name: str, quote: str, end: str) -> None:
    for dressed in (name, name.upper(), name.title()):
        assert chosen(f"{quote}{dressed}{quote}{end}", NAMES) == name
    assert chosen(json.dumps({"piece": name}), NAMES) == name


CODE = PieceCard("code", "shipped", "Changes code.", ("fix", "failing test", "テスト"))
CHAT = PieceCard("chat", "shipped", "Answers\n  questions. " + "x" * 2000)
BROKEN = PieceCard("broken", "workspace", errors=2)


@pytest.mark.parametrize(
    ("task", "found"),
    [
        ("Fix it", ("fix",)),
        ("fix the FAILING  test", ("fix",)),
        ("a failing test", ("failing test",)),
        ("the prefix", ()),
        ("テストを通してください", ("テスト",)),
        ("ﾃｽﾄを通す", ("テスト",)),
        ("fixを", ("fix",)),
    ],
)
def test_keywords_are_found_as_words_whatever_their_case_and_width(task: str, found: tuple[str, ...]) -> None:
    assert hits(CODE, task) == found


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_question_shows_every_usable_piece_with_its_hints_and_a_task_that_is_cut(language: str) -> None:
    cards = usable([CODE, CHAT, BROKEN])
    assert [card.name for card in cards] == ["code", "chat"]
    task = "fix the start " + "word " * 20_000 + "the end 終わり"
    system, message = question(cards, task, 2_000, prompts(language))
    assert "general" in system
    assert "- code: Changes code. (" in message and "fix, failing test, テスト" in message
    assert "- chat: Answers questions. x" in message and "broken" not in message
    assert "fix the start" in message and "the end 終わり" in message and "[…]" in message
    assert len(message) < 12_000
