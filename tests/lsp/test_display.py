"""Outside text on one line: nothing hidden, nothing lost, nothing that poses as markup."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Request, catalogue
from maestro_lsp.display import clip, details, exact, fenced, head, plain, sentence
from maestro_lsp.features.requests import Answer, Page, Verdict, prompt_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Bash: pytest -q", "Bash: pytest -q"),
        ("Edit src/price.py (+2 −1)", "Edit src/price.py (+2 −1)"),
        ("cat 日本語.txt", "cat 日本語.txt"),
        ("ls\nrm -rf .", "ls\\nrm -rf ."),
        ("a\\nb", "a\\\\nb"),
        ("rm \u202egpj.x", "rm \\u{202e}gpj.x"),
        ("ls\u200b", "ls\\u{200b}"),
        ("ls\u3000-l", "ls\\u{3000}-l"),
        ("a\x1b[2K", "a\\u{1b}[2K"),
        ("echo [x](http://y)", "echo [x]\\(http://y)"),
        ("pаypal", "p\\u{430}ypal"),
        ("кот", "кот"),
        ("a" + " " * 200 + "b", "a \\u{20}×200 b"),
    ],
)
def test_an_approval_shows_every_character_for_what_it_is(text: str, shown: str) -> None:
    assert exact(text) == shown


@given(st.text())
def test_an_approval_is_one_line_without_hidden_characters(text: str) -> None:
    shown = exact(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for c in shown)
    assert "](" not in shown


@given(st.text(), st.text())
def test_two_commands_that_differ_are_shown_differently(one: str, other: str) -> None:
    assert (exact(one) == exact(other)) == (one == other)


@given(st.text())
def test_prose_is_one_line(text: str) -> None:
    shown = plain(text)
    assert "\n" not in shown and "](" not in shown and plain(shown) == shown


@given(st.text(), st.integers(60, 600))
def test_what_is_too_long_keeps_head_and_tail_and_says_how_much_is_missing(text: str, limit: int) -> None:
    shown = clip(text, limit)
    assert len(shown) <= limit
    assert shown == text or (text.startswith(shown.partition(" …(")[0]) and text.endswith(shown[-5:]))


def test_a_cut_says_how_many_characters_are_missing() -> None:
    shown = clip("a" * 500 + "b" * 500, 100)
    first, _, rest = shown.partition(" …(")
    count, _, last = rest.partition(")… ")
    assert len(first) + int(count) + len(last) == 1000


def test_small_helpers() -> None:
    assert head("abcdef", 4) == "abc…" and head("abcd", 4) == "abcd"
    assert sentence("Done", ".") == "Done." and sentence("Done!", ".") == "Done!" and sentence("", ".") == ""
    assert fenced("```\nx\n```", "diff").startswith("````diff\n")


def request(reason: str = "approval", **more: object) -> Request:
    base: dict[str, object] = {
        "request_id": "r-1",
        "job_id": "j-1",
        "task_id": "t-01J900000000000000000000XY9Z",
        "reason": reason,
        "title": "Bash: make",
        "created_at": "",
        "piece": "code",
        "movement": "implement",
    }
    return Request(**{**base, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize(
    ("reason", "rule", "kind", "choices"),
    [
        ("approval", "x", 2, [Verdict("allow"), Verdict("allow", "task"), Verdict("allow", "always")]),
        ("approval", None, 2, [Verdict("allow"), Verdict("deny"), Page("details")]),
        ("tide", None, 2, [Verdict("allow"), Verdict("deny"), Page("details")]),
        ("crashed", None, 2, [Verdict("allow"), Verdict("deny"), None]),
        ("captcha", None, 2, [Verdict("allow"), Verdict("deny"), None]),
        ("question", None, 3, [Page("answer"), None]),
    ],
)
def test_each_reason_has_its_buttons(
    language: str, reason: str, rule: str | None, kind: int, choices: list[object]
) -> None:
    prompt = prompt_of(request(reason, rule=rule), catalogue(language), "Bash: make")
    assert prompt.kind.value == kind
    assert list(prompt.choices.values())[: len(choices)] == choices
    assert len(set(prompt.choices)) == len(prompt.choices)
    assert prompt.message.startswith("[maestro t-…XY9Z · ")


def test_a_question_names_the_piece_and_an_approval_the_movement() -> None:
    say = catalogue("en")
    assert prompt_of(request("question"), say, "Why?").message == "[maestro t-…XY9Z · code] Why?"
    assert (
        prompt_of(request(), say, "Bash: make").message == "[maestro t-…XY9Z · implement] Bash: make. Allow?"
    )


def test_an_option_is_answered_in_full_though_its_button_is_short() -> None:
    option = "down\n" + "x" * 300
    prompt = prompt_of(request("question", options=[option, option]), catalogue("en"), "?")
    assert [len(title) <= 80 for title in prompt.choices] == [True] * 3
    assert next(iter(prompt.choices.values())) == Answer(option)


def test_a_long_command_shows_both_its_ends() -> None:
    message = prompt_of(request(), catalogue("en"), "Bash: " + "a" * 5000 + " ; rm x").message
    assert len(message) <= 600 and message.endswith("rm x. Allow?") and "…(" in message


def test_the_page_of_details_says_why_and_shows_the_arguments() -> None:
    page = details(
        request(arguments={"command": "make\u202e"}), "Bash: make", "Because.", "Bash: make", catalogue("en")
    )
    assert "Because." in page and "make\\u{202e}" in page and "\u202e" not in page
