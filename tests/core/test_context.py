"""Context pressure as tables: what is due, what a tool result may take, what becomes of a refused prompt."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.context import (
    IMAGE_TOKENS,
    MESSAGE_TOKENS,
    SMALLEST_RESULT,
    Action,
    ContextManager,
    Refusal,
    Sizes,
    after_refusal,
    assess,
    estimated,
    message_size,
    shrunk_results,
    spoken,
    was_cut,
)
from engine.core.jobs import Pressure
from engine.core.limits import ContextLimits
from engine.core.messages import encode_assistant, encode_message, encode_tool_result
from engine.core.records import Message
from engine.core.reply import Reply, ToolCall
from engine.core.truncate import estimate_tokens

LIMITS = ContextLimits()
WARN, PROMPT, FORCE, EXHAUSTED = Action


@pytest.mark.parametrize(
    ("ratio", "fired", "due"),
    [
        (0.0, (), ()),
        (0.6999, (), ()),
        (0.70, (), (WARN,)),
        (0.84, (WARN,), ()),
        (0.85, (WARN,), (PROMPT,)),
        (0.95, (WARN, PROMPT), (FORCE,)),
        (0.99, (WARN, PROMPT, FORCE), (EXHAUSTED,)),
        (0.90, (), (WARN, PROMPT)),
        (1.7, (), (WARN, PROMPT, FORCE, EXHAUSTED)),
        (1.7, (WARN, PROMPT, FORCE, EXHAUSTED), ()),
        (0.50, (WARN,), ()),
    ],
)
def test_each_action_is_due_once_and_several_at_once_are_all_due(
    ratio: float, fired: tuple[Action, ...], due: tuple[Action, ...]
) -> None:
    assert assess(ratio, [action.value for action in fired], LIMITS) == due


@given(st.lists(st.floats(0, 2), max_size=20))
def test_over_any_course_an_action_fires_once_and_never_before_its_share(ratios: list[float]) -> None:
    fired: list[str] = []
    for ratio in ratios:
        due = assess(ratio, fired, LIMITS)
        assert list(due) == sorted(due, key=list(Action).index), "the strongest is the last"
        fired += due
    assert len(fired) == len(set(fired))
    assert (FORCE in fired) == any(ratio >= LIMITS.force for ratio in ratios)


@pytest.mark.parametrize(
    ("context", "sharing", "budget"),
    [
        (ContextManager(40_000), 1, 20_000),
        (ContextManager(40_000, 10_000, 2_000, 8_000), 1, 10_000),
        (ContextManager(1_000_000), 1, 60_000),
        (ContextManager(8_000, 7_900), 1, 1_000),
        (ContextManager(8_000, 9_000), 1, 1_000),
        (ContextManager(30_000), 2, 10_000),
        (ContextManager(40_000), 3, 10_000),
        (ContextManager(40_000), 100, 1_000),
    ],
)
def test_a_result_gets_half_of_what_is_left_capped_and_floored(
    context: ContextManager, sharing: int, budget: int
) -> None:
    assert context.tool_result_budget(LIMITS, sharing) == budget


@given(st.integers(0, 2_000_000), st.integers(1, 30), st.floats(0.05, 0.95))
def test_results_at_once_stay_together_below_what_is_left(limit: int, sharing: int, share: float) -> None:
    limits = ContextLimits(result_share=share, result_min=0, result_max=10**9)
    assert sharing * ContextManager(limit).tool_result_budget(limits, sharing) <= limit


def test_a_message_counts_its_texts_and_calls_and_a_constant_for_each_image() -> None:
    call = ToolCall("c1", "Read", {"file_path": "a"}, '{"file_path":"a"}')
    said = encode_assistant(Reply(text="Ich lese", calls=(call,)))
    assert spoken(said) == ('Ich lese\nRead\n{"file_path":"a"}', 0)
    assert message_size(encode_message("user", "あ" * 40)) == MESSAGE_TOKENS + 40
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    body = json.dumps({"role": "user", "content": [{"type": "text", "text": "Look"}, picture, picture]})
    assert message_size(body.encode()) == MESSAGE_TOKENS + 1 + 2 * IMAGE_TOKENS


def test_sizes_are_taken_once_and_anew_for_another_conversation() -> None:
    sizes, one, two = Sizes(), [Message("user", b"{}")] * 2, [Message("user", b"{}")] * 2
    sizes.taken += [7 for _ in sizes.untaken(one)]
    one.append(Message("user", b"{}"))
    assert len(sizes.untaken(one)) == 1
    sizes.taken.append(8)
    assert sizes.untaken(one) == [] and sizes.taken == [7, 7, 8]
    sizes.forget(1)
    assert len(sizes.untaken(one)) == 2
    assert len(sizes.untaken(two)) == 2 and sizes.taken == []


@pytest.mark.parametrize(
    ("real", "told", "appended", "cut"),
    [
        (0, 4_000, 5_000, False),
        (4_000, 4_500, 5_000, False),
        (4_000, 4_000, 500, True),
        (4_000, 2_500, 500, True),
        (4_000, 4_000, 0, False),
        (4_000, 0, 500, False),
    ],
)
def test_a_prompt_that_does_not_grow_was_cut_by_the_server(
    real: int, told: int, appended: int, cut: bool
) -> None:
    assert was_cut(Pressure(real=real, real_at=3), told, appended) is cut


def results(*texts: str) -> list[Message]:
    opening = [Message("system", encode_message("system", "s")), Message("user", encode_message("user", "u"))]
    return opening + [
        Message("tool", encode_tool_result(f"c{n}", text), f"c{n}") for n, text in enumerate(texts)
    ]


def note(count: int) -> str:
    return f"[{count} left out]"


def content(body: bytes) -> str:
    return str(json.loads(body)["content"])


def test_the_largest_results_give_way_first_and_keep_head_and_tail() -> None:
    long = "".join(f"line {n}\n" for n in range(4_000))
    messages = results("short", long, long)
    shrunk = shrunk_results(messages, 2, 2_000, note)
    assert set(shrunk) == {3, 4}
    for place, body in shrunk.items():
        text = content(body)
        assert text.startswith("line 0\n") and text.endswith("line 3999\n") and "left out]" in text
        assert json.loads(body)["tool_call_id"] == messages[place].call_id
        assert 800 < estimate_tokens(text) < 1_050


def test_what_the_server_has_accepted_is_not_touched() -> None:
    long = "x" * 40_000
    assert set(shrunk_results(results(long, long), 3, 100, note)) == {3}


def test_nothing_is_shrunk_that_is_small_already() -> None:
    assert shrunk_results(results("x" * 4 * SMALLEST_RESULT, "ok"), 2, 0, note) == {}
    assert shrunk_results(results(), 2, 1_000, note) == {}


TEXTS = st.text(st.sampled_from(list("ab あ漢\n")), max_size=4_000)


@settings(max_examples=50, deadline=None)
@given(st.lists(TEXTS, max_size=5), st.integers(-100, 5_000))
def test_what_is_shrunk_fits_and_shrinks(texts: list[str], room: int) -> None:
    messages = results(*texts)
    shrunk = shrunk_results(messages, 2, room, note)
    after = [content(shrunk.get(place, message.body)) for place, message in enumerate(messages)][2:]
    for before, text in zip((content(m.body) for m in messages[2:]), after, strict=True):
        assert text == before or estimate_tokens(text) < estimate_tokens(before)
    total = sum(estimate_tokens(text) for text in after)
    assert total <= max(room, 0) + len(texts) * (2 * SMALLEST_RESULT + 10)


@pytest.mark.parametrize(
    ("opening", "shrinkable", "shrunk", "forced_before", "action"),
    [
        (True, False, False, 0, Refusal.END),
        (False, True, False, 0, Refusal.SHRINK),
        (False, True, False, 1, Refusal.SHRINK),
        (False, True, True, 0, Refusal.FORCE),
        (False, False, False, 0, Refusal.FORCE),
        (False, True, True, 1, Refusal.END),
        (False, False, False, 1, Refusal.END),
    ],
)
def test_a_refused_prompt_is_shrunk_once_then_forced_then_ended(
    opening: bool, shrinkable: bool, shrunk: bool, forced_before: int, action: Refusal
) -> None:
    told = after_refusal(opening=opening, shrinkable=shrinkable, shrunk=shrunk, forced_before=forced_before)
    assert told is action


def test_without_a_report_an_estimate_is_the_count_and_with_one_it_is_scaled() -> None:
    counts = [100, 200, 300, 400]
    assert estimated(Pressure(), counts, 1_000) == 2_000
    assert estimated(Pressure(), counts, 1_000, 1.5) == 3_000
    one = Pressure(real=2_600, real_at=2)
    assert estimated(one, counts, 1_000) == 2_600 + 1_400
    two = Pressure(real=2_600 + 900, real_at=3, earlier=2_600, earlier_at=2)
    assert estimated(two, counts, 1_000) == 3_500 + 400 * 3, "what was appended tells more than the tools"
