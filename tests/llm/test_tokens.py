"""Counting tokens with the encoding on board: never a download, never a failure, whatever is counted."""

from __future__ import annotations

import asyncio
import random
import socket
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.context import estimated, message_size
from engine.core.jobs import Pressure
from engine.core.messages import encode_message
from engine.core.truncate import estimate_tokens
from engine.llm.tokens import ENCODING, TokenCounter

COUNTER = TokenCounter()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("お誕生日おめでとう", 9), ("a" * 8, 1)],
)
def test_the_encoding_on_board_is_cl100k(text: str, tokens: int) -> None:
    assert COUNTER.count(text) == tokens


@pytest.mark.parametrize(
    "text",
    [
        " " * 1_000_000,
        "\n" * 300_000,
        "a" * 500_000,
        "\ud800 lone",
        "\x00\x01<|endoftext|><|im_start|>",
        "👨‍👩‍👧‍👦" * 20_000,
        "漢字" * 100_000,
    ],
)
def test_odd_input_is_counted(text: str) -> None:
    assert 0 < COUNTER.count(text) <= len(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=300).map(lambda text: text * 90))
def test_a_long_text_counts_about_as_its_chunks_and_never_more_than_its_bytes(text: str) -> None:
    assert COUNTER.count(text) <= len(text.encode("utf-8", "surrogatepass"))


async def test_messages_and_tools_are_counted_with_the_loop_going_on() -> None:
    words = random.Random(7).choices(["def ", "return x\n", "値 ", "status_code "], k=200_000)
    bodies = [encode_message("user", "".join(words)), b'[{"type":"function"}]']
    await COUNTER(bodies[1:])  # loaded
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before)

    watching = asyncio.create_task(watch())
    counts = await COUNTER(bodies)
    watching.cancel()
    assert counts[0] == message_size(bodies[0], COUNTER.count) and counts[1] == COUNTER.count(
        bodies[1].decode()
    )
    assert longest < 0.5, "one message of a megabyte must not hold the loop"


def test_nothing_is_looked_up_and_no_variable_of_the_environment_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert TokenCounter().count("hello world") == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["absent", "changed", "empty"])
def test_with_a_damaged_encoding_characters_are_counted(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "cl100k_base.tiktoken"
    if damage == "changed":
        path.write_bytes(ENCODING.read_bytes()[:-10])
    elif damage == "empty":
        path.write_bytes(b"")
    text = "Characters, 文字も。"
    assert TokenCounter(path).count(text) == estimate_tokens(text)


def test_without_tiktoken_characters_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert TokenCounter().count("x" * 400) == 100


WORDS = {
    "en": ["the ", "context ", "of ", "a model ", "is full", ", and then ", "it stops. "],
    "ja": ["文脈が", "いっぱいに", "なると", "次の", "ムーブメント", "へ進みます。", "テスト"],
    "code": ["def f(x):\n", "    return x\n", "self._name = ", "{'a': 1}\n", "import os\n", "if __name__ "],
}


@settings(max_examples=15, deadline=None)
@given(
    st.floats(0.5, 3.0), st.floats(0, 1), st.randoms(use_true_random=False), st.sampled_from(sorted(WORDS))
)
def test_scaled_by_one_report_a_count_is_within_ten_percent_of_another_tokenizers(
    factor: float, share: float, chance: random.Random, kind: str
) -> None:
    """The other tokenizer makes ``factor`` times as many tokens, of each message a little more or less."""
    messages = [
        encode_message("user", "".join(chance.choices(WORDS[kind], k=chance.randint(20, 400))))
        for _ in range(12)
    ]
    counts = [message_size(body, COUNTER.count) for body in messages]
    others = [factor * count * chance.uniform(0.96, 1.04) for count in counts]
    tools, told = 900, 1 + int(share * 10)
    known = Pressure(real=round(factor * tools + sum(others[:told])), real_at=told)
    true = factor * tools + sum(others)
    assert abs(estimated(known, counts, tools) - true) <= 0.1 * true
