"""Widths, cuts and cleaning: what a terminal may be given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maestro_lsp.cli.diffs import diff_lines
from maestro_lsp.cli.keyboard import without_keys
from maestro_lsp.cli.terminal import clean, fit, width


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("日本語", 6), ("ｱｲｳ", 3), ("Ａ", 2), ("が", 2), ("か\u3099", 2), ("e\u0301", 1), ("", 0)],
)
def test_wide_characters_take_two_columns_and_combining_ones_none(text: str, columns: int) -> None:
    assert width(text) == columns


@given(st.text(max_size=60), st.integers(min_value=1, max_value=40))
def test_a_fitted_text_has_exactly_the_columns_it_was_given(text: str, columns: int) -> None:
    assert width(fit(text, columns)) == columns
    assert "\n" not in fit(text, columns)


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [("ab", 4, "ab  "), ("abcdef", 4, "abc…"), ("日本語です", 6, "日本… "), ("a\n b", 5, "a b  ")],
)
def test_a_long_text_is_cut_on_a_character_and_a_short_one_padded(
    text: str, columns: int, shown: str
) -> None:
    assert fit(text, columns) == shown


@given(st.text())
def test_clean_text_holds_nothing_that_moves_the_cursor_or_turns_the_text(text: str) -> None:
    kept = clean(text)
    assert not set(kept) & {chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))}
    assert not set(kept) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
    kept.encode()


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("\x1b[B", ""),
        ("\x1b[1;5D\x1bOA", ""),
        ("do\x1b[Dwn\x07", "down"),
        ("切り捨て\x1b[3~、円単位", "切り捨て、円単位"),
        ("a\tb", "a\tb"),
    ],
)
def test_an_arrow_key_is_no_answer_and_no_part_of_one(typed: str, line: str) -> None:
    assert without_keys(typed) == line


def test_a_diff_hides_nothing() -> None:
    lines = list(diff_lines("a\u202eb.py", "x\u202e\n", "x\n"))
    assert lines[0] == "--- a/a\\u{202e}b.py"
    assert lines[-2:] == ["-x\\u{202e}", "+x"]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (None, "a\n", ["--- /dev/null", "+++ b/f", "@@ -0,0 +1 @@", "+a"]),
        ("a\n", None, ["--- a/f", "+++ /dev/null", "@@ -1 +0,0 @@", "-a"]),
        ("a\n", "a", ["\\ -newline at end of file"]),
        ("a\n", "a\n", []),
    ],
)
def test_a_diff_is_unified_and_tells_missing_files_and_newlines(
    before: str | None, after: str | None, shown: list[str]
) -> None:
    assert list(diff_lines("f", before, after)) == shown
