"""The text that every match must hold: never missing where something matches, in whatever encoding."""

from __future__ import annotations

import pytest
import regex
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.tools.encodings import _BOMS, _NAMES
from engine.tools.matching import matcher
from engine.tools.needle import ENCODINGS, needle


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("price", ("price",)),
        (r"def \w+\(", ("def ",)),
        ("fo*bar", ("bar",)),
        ("colou?r", ("colo",)),
        ("x+y", ("x",)),
        ("(foo|bars)be", ("foo", "bars")),
        ("(?:foo|)baz", ("baz",)),
        ("one|three", ("one", "three")),
        ("one|", None),
        ("(?:one|two){0,3}", None),
        ("(?:ab){2}c", ("ab",)),
        (r"a\.b\.c", ("a.b.c",)),
        (r"\${name}", ("${name}",)),
        ("(?=price)p", ("p",)),
        ("price(?!s)", ("price",)),
        ("(?P<name>abc)d", ("abc",)),
        ("[a-z]+_[0-9]", ("_",)),
        ("[]x]y", None),
        (r"(a)\1bcd", None),
        (r"\x41bc", None),
        ("(?x) a b", None),
        ("ab(?i)cd", None),
        ("(?#note)abc", None),
        (r"[^\n]*x", ("x",)),
        ("^$", None),
        ("日本語の設定", ("日本語の設定",)),
        ("設定KEY", ("設定",)),
        ("以上です", ("です",)),
        ("caf\u00e9", ("caf",)),
        ("(?i)license", ("license", "\u0130", "\u017f")),
    ],
)
def test_the_longest_text_that_must_be_there(pattern: str, texts: tuple[str, ...] | None) -> None:
    found = needle(pattern)
    assert (found.texts if found else None) == texts


@pytest.mark.parametrize("pattern", ["a\nb", r"a\nb", r"\n", r"a\r\n", r"(?:x\n|y\n)z", r"^\n+$"])
def test_what_needs_a_line_end_can_match_no_line(pattern: str) -> None:
    with pytest.raises(ValueError, match="line end"):
        needle(pattern)


@pytest.mark.parametrize("pattern", [r"a\r?$", r"(?:\n|x)", r"[^\r\n]+", r"a\n?", r"\\n"])
def test_what_may_do_without_a_line_end_is_searched(pattern: str) -> None:
    needle(pattern)


def test_every_encoding_that_a_file_is_read_in_is_looked_in() -> None:
    assert {name for _, name in _BOMS} | {"latin-1", *_NAMES} <= {"latin-1", *ENCODINGS}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("pattern", ["KEY", "(?i)key", "設定ファイル", "(?i)ファイル名", "上書き", "a.b"])
def test_a_file_with_the_text_is_not_ruled_out(pattern: str, encoding: str) -> None:
    found = needle(pattern)
    text = "前の行\n# KEY a.b 設定ファイル名 上書き\n"
    data = text.encode(encoding, "ignore") if encoding not in ("cp1252", "iso8859-1") else b"KEY a.b"
    assert found is not None
    assert found.in_bytes(data) or not regex.search(pattern, data.decode(encoding))


def test_a_character_looked_for_is_one_row_of_bytes_in_each_encoding() -> None:
    rows = [bytes([a, b]) for a in range(0x80, 256) for b in range(0x40, 256)]
    rows += [bytes([0x8F, a, b]) for a in range(0xA1, 256) for b in range(0xA1, 256)]
    for encoding in ("cp932", "euc_jp", "euc_jis_2004"):
        for row in rows:
            char = row.decode(encoding, "replace")
            if len(char) == 1 and char != "\ufffd" and char.encode(encoding) != row:
                found = needle(regex.escape(char))
                assert found is None or char not in found.texts, (encoding, row, char)


def test_the_letters_that_ignoring_case_makes_equal_are_known() -> None:
    everything = "".join(chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000)
    for letter in "abcdefghijklmnopqrstuvwxyz0_日":
        found = needle(f"(?i){letter}")
        assert found is not None
        for equal in regex.findall(f"(?i){letter}", everything):
            assert found.in_bytes(equal.encode()), (letter, equal)


WRITTEN = (
    r"a b i k s | ( ) [ ] . * + ? ^ $ - (?: (?= (?! (?<= (?i) {2} {0,1} {,2} { } \b \w [^a]"
    r" \d \. \( 日 本 上 é 😀 İ \s a|b [ab] (a|日) \n \1 *? ++ [[:alpha:]] K S ~ (?P<n> (?> \x41 {e}"
)
PIECES = st.sampled_from([*WRITTEN.split(), " "])
TEXT = st.text("abiksKSİſ\u212aé日本上😀~ ().-|{}", max_size=12)


@settings(max_examples=250, deadline=None)
@given(pattern=st.lists(PIECES, min_size=1, max_size=8).map("".join), text=TEXT)
def test_a_line_that_matches_holds_the_needle(pattern: str, text: str) -> None:
    try:
        wanted = matcher(pattern)
    except ValueError as fault:
        assume("line end" in str(fault))
        source = regex.sub(r"\{(?!\d*,?\d*\})", r"\\{", pattern)
        assert not regex.search(source, text, timeout=1)
        return
    if wanted.compiled.search(text, timeout=1) is not None and wanted.needle is not None:
        assert any(part in text or (wanted.needle.folded) for part in wanted.needle.texts)
        for encoding in ("utf-8", "utf-16-le", "utf-32-be"):
            assert wanted.needle.in_bytes(f"x\n{text}\n".encode(encoding))
        assert wanted.likely is not None and wanted.likely.search(text)
