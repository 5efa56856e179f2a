"""However the network cuts a body, the reply is the same: the property over all shapes of a reply."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.reply import Reply
from engine.llm.normalise import CallIds
from engine.llm.reader import ReplyReader, UnusableReply
from engine.llm.sse import Event, EventDecoder

KNOWN: dict[str, dict[str, Any]] = {"Read": {}, "Bash": {}}
TEXT = st.text(st.sampled_from("ab \n<>/think日😀é{}\"'\r") | st.characters(codec="utf-8"), max_size=30)
PIECES = st.lists(
    st.one_of(
        st.builds(lambda text: {"content": text}, TEXT),
        st.builds(lambda text: {"reasoning_content": text}, TEXT),
        st.sampled_from(
            ["<think>", "</think>", "<tool_call>", "</tool_call>", '{"name":"Read","arguments":{}}']
        ).map(lambda text: {"content": text}),
        st.builds(
            lambda index, name, call_id, text: {
                "tool_calls": [{"index": index, "id": call_id, "function": {"name": name, "arguments": text}}]
            },
            st.none() | st.integers(0, 2),
            st.sampled_from(["", "Read", "Bash", "x"]),
            st.sampled_from(["", "a", "b"]),
            st.sampled_from(["", "{", "}", '{"a":1}', '"x', ':"😀"']),
        ),
        st.just(None),
    ),
    max_size=8,
)


def outcome(pieces: list[bytes]) -> tuple[Any, ...]:
    """The reply, or the fault, and what was shown in total."""
    numbers = itertools.count()
    reader = ReplyReader(KNOWN)
    try:
        deltas = [delta for piece in pieces for delta in reader.feed(piece)]
        last, reply = reader.end(CallIds(lambda: f"n{next(numbers)}"))
    except UnusableReply as unusable:
        return ("unusable", unusable.kind, str(unusable.error))
    shown = [*deltas, *last]
    return reply, "".join(d.text for d in shown), "".join(d.reasoning for d in shown)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    end = draw(st.sampled_from(["\n\n", "\r\n\r\n", "\r\r"]))
    space = draw(st.sampled_from([" ", ""]))
    lines = [": keep-alive" + end[: len(end) // 2]]
    for delta in draw(PIECES):
        chunk = {"choices": [{"delta": delta, "finish_reason": None}]}
        lines.append(f"data:{space}{json.dumps(chunk, ensure_ascii=draw(st.booleans()))}{end}")
    finish = draw(st.sampled_from(["stop", "length", "tool_calls", None]))
    lines.append(f"data:{space}{json.dumps({'choices': [{'delta': {}, 'finish_reason': finish}]})}{end}")
    lines.append(draw(st.sampled_from([f"data: [DONE]{end}", "data: [DONE]", ""])))
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + "".join(lines).encode()


@settings(max_examples=300, deadline=None)
@given(bodies(), st.data())
def test_any_cutting_of_the_bytes_gives_the_same_reply(body: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    pieces = [body[a:b] for a, b in itertools.pairwise([0, *cuts, len(body)])]
    whole = outcome([body])
    assert outcome(pieces) == whole
    assert outcome([body[i : i + 1] for i in range(len(body))]) == whole
    if isinstance(whole[0], Reply):
        assert all(
            json.loads(call.raw) == (call.arguments or json.loads(call.raw)) for call in whole[0].calls
        )
        assert len({call.call_id for call in whole[0].calls}) == len(whole[0].calls)


FIELDS = """choices delta message tool_calls function function_call content type thinking error usage timings
arguments finish_reason id index name object model"""
NAMES = st.sampled_from(FIELDS.split())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)
CHOICES = st.builds(
    lambda delta, more: {"choices": [{"delta": delta, **more}]}, VALUES, st.dictionaries(NAMES, VALUES)
)


def as_stream(values: list[Any]) -> bytes:
    return (
        b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in [*values, {}])
        + b"data: [DONE]"
    )


@settings(max_examples=400, deadline=None)
@given(
    st.binary(max_size=200)
    | st.text().map(str.encode)
    | st.lists(VALUES | CHOICES, max_size=3).map(as_stream)
    | VALUES.map(lambda value: json.dumps(value).encode())
)
def test_no_body_whatever_makes_anything_but_a_reply_or_a_fault(body: bytes) -> None:
    outcome([body])


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [Event("a"), Event("b")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [Event("a"), Event("b")]),
        (b"data: a\r\rdata: b\r\r", [Event("a"), Event("b")]),
        (b"data: a\ndata: b\n\n", [Event("a\nb")]),
        (b"data:a\n\n", [Event("a")]),
        (b"data:  a\n\n", [Event(" a")]),
        (b": comment\n\nevent: x\ndata: a\n\ndata: b\n\n", [Event("a", "x"), Event("b")]),
        (b"id: 1\nretry: 2\ndata\n\n", [Event("")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Event("a")]),
        (b"data: \xff\n\n", [Event("\ufffd")]),
        ("data: 日本\n\n".encode(), [Event("日本")]),
        (b"data: left out", [Event("left out")]),
        (b"data: left out\r", [Event("left out")]),
        (b"", []),
    ],
)
def test_event_streams_are_read_as_the_standard_says(stream: bytes, events: list[Event]) -> None:
    for size in (1, 2, 3, len(stream) + 1):
        decoder = EventDecoder()
        found = [e for i in range(0, len(stream), size) for e in decoder.feed(stream[i : i + size])]
        assert found + decoder.close() == events
