"""Replies of a model server: real streams bent in one or two places, and bodies made of the wire's words."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from engine.core.messages import encode_assistant, encode_thought, encode_tool_result
from engine.core.reply import Finish, Reply
from engine.llm.normalise import CallIds
from engine.llm.reader import ReplyReader, UnusableReply
from engine.llm.scripted.strict import fault_of

FOLDER = Path(__file__).parents[1] / "data" / "streams"
RECORDED = sorted(
    path for path in FOLDER.glob("*/*") if path.suffix in (".sse", ".json") and ".expected" not in path.name
)
TOOLS: dict[str, dict[str, Any]] = {
    "Read": {"properties": {"file_path": {"type": "string"}, "offset": {"type": "integer"}}},
    "Bash": {},
}
_FIELDS = """choices delta message tool_calls function function_call content type thinking error usage timings
arguments parameters finish_reason id index name object model reasoning reasoning_content reasoning_details
text extra_content code"""
_WORDS = _FIELDS.split()
_MARKS = """<think> </think> <tool_call> </tool_call> <function=Read> <parameter=file_path> </parameter>
</function> [TOOL_CALLS] [ARGS] <|channel|> <|message|> <|start|>assistant <|end|> <|python_tag|> <arg_key>
<｜tool▁calls▁begin｜> {"name":"Read","arguments":{}} Read ``` { } " \\ 日本"""
_TOKENS = [*_MARKS.split(), "commentary to=functions.Read", "\n", "\x00", "\ud83d", "\ude00"]
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.floats(allow_nan=True)
    | st.sampled_from(
        [
            "",
            "Read",
            "a",
            "stop",
            "length",
            "error",
            '{"file_path":"x"}',
            '{"',
            "\ud800",
            "chat.completion",
            *_TOKENS,
        ]
    )
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=4),
    max_leaves=12,
)
_TEXTS = st.lists(st.sampled_from(_TOKENS) | st.text(max_size=3), max_size=12).map("".join)


def _streamed(deltas: list[Any]) -> bytes:
    chunks = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


@st.composite
def _bent(draw: st.DrawFn) -> bytes:
    """A recorded stream with a few lines left out, doubled, swapped or altered."""
    lines = draw(st.sampled_from(RECORDED)).read_bytes().splitlines(keepends=True)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["drop", "double", "swap", "byte", "value", "null", "cut"])):
            case "drop":
                lines[at : at + 1] = [b"\n"]
            case "double":
                lines.insert(at, lines[at])
            case "swap":
                lines[at], lines[-1 - at] = lines[-1 - at], lines[at]
            case "byte":
                place = draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:place] + draw(st.binary(max_size=2)) + lines[at][place:]
            case "value":
                other = json.dumps(draw(_VALUES)).encode()
                lines[at] = re.sub(
                    rb'"[^"\\]*"(?=[,}\]])',
                    lambda _, other=other: other,
                    lines[at],
                    count=draw(st.integers(1, 3)),
                )
            case "null":
                name = draw(st.sampled_from(_WORDS)).encode()
                lines[at] = re.sub(
                    rb'"' + name + rb'":(?:"[^"\\]*"|\d+|true|false)', b'"' + name + b'":null', lines[at]
                )
            case _:
                lines[at:] = [lines[at][: draw(st.integers(0, len(lines[at])))]]
        if not lines:
            return b""
    return b"".join(lines)


_BODIES = st.one_of(
    _bent(),
    st.lists(_VALUES, max_size=4).map(_streamed),
    st.lists(_TEXTS.map(lambda text: {"content": text}), max_size=4).map(_streamed),
    _VALUES.map(lambda value: json.dumps({"choices": [{"message": value}]}).encode()),
    _VALUES.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=120),
)
strategy = st.tuples(_BODIES, st.lists(st.integers(0, 1 << 16), max_size=6))
"""A body, and the places where the network cuts it."""


def _read(pieces: list[bytes]) -> tuple[str, str, Reply] | str:
    numbers = itertools.count()
    reader = ReplyReader(TOOLS)
    try:
        deltas = [delta for piece in pieces for delta in reader.feed(piece)]
        rest, reply = reader.end(
            CallIds(lambda: f"made{next(numbers):05d}", lambda given: given.isalnum() and given.isascii())
        )
    except UnusableReply as unusable:
        return unusable.kind
    deltas += rest
    for delta in deltas:
        f"{delta.text}{delta.reasoning}".encode()  # no half characters are shown
    return "".join(d.text for d in deltas), "".join(d.reasoning for d in deltas), reply


def check(example: tuple[bytes, list[int]]) -> None:
    """A reply or a typed fault; the same however it is cut; nothing of a cut one runs; valid to send back."""
    body, places = example
    whole = _read([body])
    cuts = sorted(place % (len(body) + 1) for place in places)
    assert _read([body[a:b] for a, b in itertools.pairwise([0, *cuts, len(body)])]) == whole
    if isinstance(whole, str):
        return
    reply = whole[2]
    for call in reply.calls:
        assert (call.arguments is None) == (call.problem is not None)
        assert isinstance(json.loads(call.raw), dict)
        assert reply.finish is Finish.STOP or call.arguments is None
    encode_thought(reply).decode()
    if not reply.empty:
        results = [json.loads(encode_tool_result(call.call_id, "x")) for call in reply.calls]
        said = [{"role": "user", "content": "x"}, json.loads(encode_assistant(reply))]
        assert fault_of([*said, *(results or [{"role": "user", "content": "x"}])]) is None
