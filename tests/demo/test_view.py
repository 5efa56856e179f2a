"""What the demo shows of a job's events, as rows of text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import catalogue
from maestro_lsp.cli.terminal import width
from maestro_lsp.demo.view import Row, View, costs, cut, diff_rows, heading, share_rows, wrapped


def plain(rows: list[Row]) -> list[str]:
    return ["".join(text for text, _ in spans).rstrip() for spans in rows]


def styles(rows: list[Row]) -> list[str]:
    return [style for spans in rows for text, style in spans if text.strip()]


def view(columns: int = 80, language: str = "en") -> View:
    return View(catalogue(language), columns)


def event(kind: str, **body: Any) -> dict[str, Any]:
    return {"jobId": "j-1", "seq": 1, "at": "2026-12-01T09:00:00.000Z", "kind": kind, **body}


def call(tool: str, title: str, **arguments: Any) -> dict[str, Any]:
    return event("tool_call", callId="c1", tool=tool, title=title, arguments=arguments)


def result(ok: bool, brief: str, seconds: float = 0.0) -> dict[str, Any]:
    return event("tool_result", callId="c1", ok=ok, brief=brief, bytes=1, seconds=seconds)


@pytest.mark.parametrize(
    ("title", "brief", "shown"),
    [
        ("Read price.py", "price.py, lines 1–6", "  ✓ Read price.py  lines 1–6"),
        ("Edit price.py (+2 −2)", "price.py +2 −2", "  ✓ Edit price.py (+2 −2)"),
        ("Glob **/*.py", "3 files", "  ✓ Glob **/*.py  3 files"),
        ("Read a\nb.py", "a\nb.py, lines 1–2", "  ✓ Read a b.py  lines 1–2"),
    ],
)
def test_a_call_and_its_result_are_one_row_that_says_nothing_twice(
    title: str, brief: str, shown: str
) -> None:
    it = view()
    tool = title.partition(" ")[0]
    assert it.rows(call(tool, title)) == []
    assert plain(it.rows(result(True, brief))) == [shown]


def test_a_command_is_shown_when_it_starts_and_its_output_line_by_line() -> None:
    it = view()
    assert plain(it.rows(call("Bash", "Bash: make test", command="make test"))) == ["  $ make test"]
    assert plain(it.rows(event("tool_output", callId="c1", delta="one\n  tw"))) == ["  │ one"]
    assert plain(it.rows(event("tool_output", callId="c1", delta="o\nthr"))) == ["  │   two"]
    assert plain(it.rows(result(False, "exit 2", 1.25))) == ["  │ thr", "  ✗ exit 2  1.2 s"]


def test_what_a_killed_command_had_begun_to_say_is_shown_as_it_stood() -> None:
    it = view()
    it.rows(call("Bash", "Bash: make test", command="make test"))
    it.rows(event("tool_output", callId="c1", delta="test_one ... "))
    assert plain(it.interrupted()) == ["  │ test_one ..."]
    assert it.interrupted() == []


def test_output_cannot_move_the_cursor_or_colour_the_screen() -> None:
    it = view()
    it.rows(call("Bash", "Bash: x", command="x"))
    shown = plain(it.rows(event("tool_output", callId="c1", delta="a\x1b[2J\x1b]0;b\x07\r\n")))
    assert not any(char in "".join(shown) for char in "\x1b\x07\r")


def test_a_transition_shows_summary_and_lesson_and_the_cache_names_the_hop() -> None:
    it = view(80)
    rows = it.rows(
        event("transition", **{"from": "plan", "to": "implement"}, summary="One.\nTwo.", lessons="Yen.")
    )
    assert plain(rows) == ["  → implement", "    One.", "    Two.", "    lesson: Yen."]
    it.rows(event("movement", name="implement", visit=1))
    shown = plain(it.rows(event("cache", reused=4102, total=4410, pct=93.0)))
    assert shown == ["  93 % of this prompt was in the server's cache (4,102 of 4,410 tokens)"]
    assert it.transitions == [("plan → implement", 93.0)]


def test_a_movement_entered_again_after_an_answer_is_named_so_in_the_table() -> None:
    it = view()
    it.rows(event("movement", name="plan", visit=1))
    it.rows(event("cache", reused=1, total=2, pct=50.0))
    it.rows(event("transition", **{"from": "plan", "to": "verify"}, summary="s"))
    it.rows(event("movement", name="verify", visit=1))
    it.rows(event("cache", reused=9, total=10, pct=90.0))
    assert plain(share_rows(it.transitions, it.say))[1:] == [
        "    after the answer   50.0 %",
        "    plan → verify      90.0 %",
    ]


@pytest.mark.parametrize(
    ("language", "decision", "shown"),
    [
        ("en", {"decision": "allow", "scope": "task"}, "  allowed for this task"),
        ("en", {"decision": "deny", "scope": None, "note": "half up\nplease"}, "  declined: half up please"),
        ("ja", {"decision": "allow", "scope": "once"}, "  許可（今回のみ）"),
        ("ja", {"decision": "answered"}, "  回答済み"),
    ],
)
def test_decisions_are_said_in_the_language_of_the_terminal(
    language: str, decision: dict[str, Any], shown: str
) -> None:
    assert plain(view(language=language).rows(event("decision", requestId="r", by="demo", **decision))) == [
        shown
    ]


def test_control_calls_and_usage_add_no_rows() -> None:
    it = view()
    it.rows(call("complete", "Complete"))
    assert it.rows(result(True, "complete")) == []
    assert it.rows(event("usage", promptTokens=1, completionTokens=1, cachedTokens=0, seconds=0.1)) == []


def test_a_diff_is_shown_whole_and_coloured() -> None:
    rows = diff_rows("price.py", "a = 1\nb = 2\n", "a = 1\nb = 3\n", 80)
    assert plain(rows) == [
        "  --- a/price.py",
        "  +++ b/price.py",
        "  @@ -1,2 +1,2 @@",
        "   a = 1",
        "  -b = 2",
        "  +b = 3",
    ]
    assert styles(rows) == ["bold", "bold", "cyan", "", "red", "green"]


def test_a_long_line_of_a_diff_goes_on_below_and_loses_nothing() -> None:
    line = "値段" * 40
    rows = diff_rows("a.py", "", f"{line}\n", 40)
    added = [text.removeprefix("  ") for text in plain(rows) if "値" in text]
    assert "".join(part.removeprefix("+").removeprefix(" ") for part in added) == line
    assert all(width(text) <= 40 for text in plain(rows))


def test_a_heading_fills_the_row_whatever_the_width_of_its_letters() -> None:
    assert width(plain([heading("plan", 60)])[0]) == 60
    assert width(plain([heading("変更されたファイル: 2", 60)])[0]) == 60
    assert width(plain([heading("長" * 100, 60)])[0]) <= 60


def test_japanese_is_broken_anywhere_but_never_before_a_closing_mark() -> None:
    shown = plain(wrapped("これは長い文です、次の行でも続きます。", 14, indent=""))
    assert len(shown) > 1
    assert all(not line.startswith(("、", "。")) for line in shown)


@given(
    st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=200),
    st.integers(20, 120),
)
def test_wrapping_loses_no_character_and_keeps_its_width(text: str, columns: int) -> None:
    shown = plain(wrapped(text, columns, indent=""))
    assert "".join("".join(shown).split()) == "".join(text.split())
    # Marks that no line begins with may hang over the edge.
    assert all(
        width(line.rstrip("、。，．）」』】！？：；・ー”’…,.)]}!?:; ぁぃぅぇぉっゃゅょァィゥェォッャュョ"))
        <= columns
        for line in shown
    )


@given(st.text(max_size=100), st.integers(10, 100))
def test_a_cut_line_fits(text: str, columns: int) -> None:
    assert width(cut(text, columns)) <= columns


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_cost_names_calls_tokens_and_the_cached_share(language: str) -> None:
    usage = {"calls": 12, "promptTokens": 48211, "completionTokens": 912, "reusedPct": 93.1}
    told = costs(usage, 21.4, 4, catalogue(language))
    assert all(part in told for part in ("12", "48,211", "912", "93.1 %", "21"))
    assert "–" in costs({**usage, "reusedPct": None}, 1, 0, catalogue(language))
