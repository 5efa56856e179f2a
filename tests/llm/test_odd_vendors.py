"""Replies of servers that nobody has seen yet: what they leave out, repeat or mix up does no harm."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from engine.core.messages import encode_assistant
from engine.core.reply import Finish, Reply
from engine.llm.arguments import parse_arguments
from engine.llm.normalise import CallIds
from engine.llm.reader import ReplyReader

TOOLS: dict[str, dict[str, Any]] = {name: {} for name in ("Read", "Bash", "Write")}
END = b"data: [DONE]\n\n"


def chunk(delta: Any, finish: str | None = None, index: int = 0) -> bytes:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def call(name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"tool_calls": [{**fields, "function": {"name": name, "arguments": arguments}}]}


def read(*pieces: bytes, step: int = 1 << 20) -> Reply:
    reader, body, numbers = ReplyReader(TOOLS), b"".join(pieces), itertools.count(1)
    for start in range(0, len(body), step):
        reader.feed(body[start : start + step])
    return reader.end(CallIds(lambda: f"made{next(numbers)}"))[1]


def said(reply: Reply) -> list[tuple[str, Any]]:
    return [(one.name, one.arguments) for one in reply.calls]


@pytest.mark.fault("A: malformed arguments poison the history", neighbour=True)
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"a":1e999}', "too large"),
        ('{"a":[-1e999]}', "too large"),
        ('{"a":' + "9" * 400 + "}", "too large"),
        ('{"a":NaN}', "too large"),
        ('{"a":' + "[" * 150 + "]" * 150 + "}", "nested too deeply"),
        ('{"a":' + "[" * 990 + "]" * 990 + "}", "nested too deeply"),
        ('{"a":' + '{"b":' * 50_000 + "1" + "}" * 50_001, "nested too deeply"),
        ([{"file_path": "a"}], "not an array"),
        (True, "not a boolean"),
    ],
)
def test_arguments_that_a_server_could_not_read_again_never_reach_the_history(
    arguments: Any, problem: str
) -> None:
    reply = read(chunk(call("Read", arguments)), chunk({}, "tool_calls"), END)
    (one,) = reply.calls
    assert one.arguments is None and one.raw == "{}" and problem in str(one.problem)
    json.loads(encode_assistant(reply))


@pytest.mark.parametrize("depth", range(940, 1000, 7))
def test_no_depth_of_nesting_raises(depth: int) -> None:
    text = '{"a":' + "[" * depth + "]" * depth + "}"
    assert parse_arguments(text).value is None
    extra = f'"extra_content":{{"x":{"[" * 300}{"]" * 300}}}'
    entry = f'{{"function":{{"name":"Read","arguments":"{{}}"}},{extra}}}'
    body = f'data: {{"choices":[{{"delta":{{"tool_calls":[{entry}]}},"finish_reason":"stop"}}]}}\n\n'
    assert read(body.encode()).calls[0].extra is None


@pytest.mark.fault("A: output limit hit inside a tool call", neighbour=True)
@pytest.mark.parametrize(
    "reasons", [("length", "stop"), ("stop", "length"), ("length", "tool_calls", "stop")]
)
def test_a_reply_that_was_cut_stays_cut_whatever_is_said_after_it(reasons: tuple[str, ...]) -> None:
    reply = read(chunk(call("Bash", '{"command":"ls"}')), *(chunk({}, reason) for reason in reasons), END)
    assert reply.finish is Finish.CUT and reply.calls[0].arguments is None


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_several_answers_only_the_first_is_read(order: tuple[int, int]) -> None:
    pieces = ('{"file_path":', '"x"}')
    reply = read(
        *(
            chunk(call("Read" if not at else "", piece), None, n)
            for at, piece in enumerate(pieces)
            for n in order
        ),
        chunk({}, "length", order[1]),
        chunk({}, "tool_calls", order[0]),
        END,
    )
    assert said(reply) == [("Read", {"file_path": "x"})] and reply.finish is Finish.STOP


@pytest.mark.fault("A: index missing in a streamed tool call", neighbour=True)
@pytest.mark.parametrize("kind", [str, float])
def test_an_index_of_another_type_is_an_index(kind: type) -> None:
    first = [chunk(call("Read", '{"n":', index=kind(n))) for n in (0, 1)]
    then = [chunk(call("", f"{n}}}", index=kind(n))) for n in (0, 1)]
    assert said(read(*first, *then, chunk({}, "stop"), END)) == [("Read", {"n": 0}), ("Read", {"n": 1})]


def test_two_tools_with_the_same_arguments_and_index_are_two_calls() -> None:
    both = [chunk(call(name, '{"file_path":"x"}', index=0)) for name in ("Read", "Write")]
    assert [name for name, _ in said(read(*both, chunk({}, "stop"), END))] == ["Read", "Write"]


def test_one_call_that_is_in_no_array_is_a_call() -> None:
    one = {"tool_calls": call("Read", "{}")["tool_calls"][0]}
    assert said(read(chunk(one), chunk({}, "stop"), END)) == [("Read", {})]


def test_a_call_that_is_in_the_text_and_parsed_too_runs_once_and_is_not_shown() -> None:
    text = '<tool_call>{"name":"Read","arguments":{"file_path":"x"}}</tool_call>'
    parsed = chunk(call("Read", '{"file_path": "x"}'))
    reply = read(chunk({"content": text}), parsed, chunk({}, "stop"), END)
    assert (reply.text, said(reply)) == ("", [("Read", {"file_path": "x"})])
    other = read(chunk({"content": text.replace('"x"', '"y"')}), parsed, chunk({}, "stop"), END)
    assert '"y"' in other.text and said(other) == [("Read", {"file_path": "x"})]


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize("start", [b"\n" * 300, b"\xef\xbb\xbf", b"\xef\xbb\xbf \r\n" + b" " * 100])
def test_what_a_server_sends_while_it_waits_hides_no_answer(start: bytes, step: int) -> None:
    whole = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    assert read(start, json.dumps(whole).encode(), step=step).text == "hi"
    assert read(start, chunk({"content": "hi"}), END, step=step).text == "hi"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_events_without_blank_lines_between_them_are_events(line_end: bytes) -> None:
    body = b"".join([chunk({"content": "a"}), chunk({"content": "b"}), chunk({}, "stop"), END])
    assert read(body.replace(b"\n\n", line_end), step=3).text == "ab"


def test_a_model_that_runs_away_in_spaces_takes_no_time_to_read() -> None:
    text = "<tool_call><function=Write><parameter=content>" + " " * 300_000
    assert read(chunk({"content": text}), chunk({}, "stop"), END).text.startswith("<tool_call>")
