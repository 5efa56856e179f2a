"""The corpus of streams: what each kind of server sends, read right however the network cuts it."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.messages import encode_assistant, encode_tool_result
from engine.core.reply import Finish, Reply
from engine.llm.normalise import CallIds
from engine.llm.reader import ReplyReader, UnusableReply
from engine.llm.scripted.strict import fault_of

FOLDER = Path(__file__).parents[1] / "data" / "streams"
STREAMS = sorted(path for path in FOLDER.glob("*/*") if path.suffix in (".sse", ".json"))
STREAMS = [path for path in STREAMS if not path.name.endswith(".expected.json")]
TEXT = {"type": "string"}
TOOLS: dict[str, dict[str, Any]] = {
    "Read": {"properties": {"file_path": TEXT, "offset": {"type": "integer"}}},
    "Grep": {"properties": {"pattern": TEXT, "path": TEXT}},
    **{name: {} for name in ("Glob", "Bash", "Write", "complete", "transition")},
}
each = pytest.mark.parametrize("path", STREAMS, ids=lambda path: f"{path.parent.name}-{path.stem}")


def read(pieces: list[bytes]) -> tuple[str, str, Reply] | str:
    """What was shown of text and reasoning, and the reply; or the kind of fault."""
    numbers = itertools.count()
    reader = ReplyReader(TOOLS)
    try:
        deltas = [delta for piece in pieces for delta in reader.feed(piece)]
        rest, reply = reader.end(CallIds(lambda: f"made{next(numbers):05d}"))
    except UnusableReply as unusable:
        return unusable.kind
    deltas += rest
    return "".join(d.text for d in deltas), "".join(d.reasoning for d in deltas), reply


def expected(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(path.with_name(f"{path.stem}.expected.json").read_text("utf-8"))
    return told


@each
def test_every_stream_of_the_corpus_is_understood(path: Path) -> None:
    wanted, got = expected(path), read([path.read_bytes()])
    if "unusable" in wanted:
        assert got == wanted["unusable"]
        return
    assert not isinstance(got, str), got
    _, _, reply = got
    assert (reply.text, reply.reasoning) == (wanted["text"], wanted.get("reasoning", ""))
    assert reply.finish is Finish(wanted.get("finish", "stop"))
    assert reply.empty is wanted.get("empty", False)
    assert reply.model == wanted.get("model", "")
    usage = reply.usage
    assert [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens] == wanted.get(
        "usage", [None] * 3
    )
    assert [(call.name, call.arguments, call.extra) for call in reply.calls] == [
        (call["name"], call["arguments"], call.get("extra")) for call in wanted["calls"]
    ]
    for call, told in zip(reply.calls, wanted["calls"], strict=True):
        assert call.call_id == told["id"] if told["id"] else call.call_id.startswith("made")
    if "thought" in wanted:
        assert reply.thought == wanted["thought"]


@each
def test_what_goes_back_after_it_is_valid_for_the_strictest_server(path: Path) -> None:
    got = read([path.read_bytes()])
    if isinstance(got, str) or got[2].empty:
        return  # nothing goes back
    reply = got[2]
    results = [json.loads(encode_tool_result(call.call_id, "")) for call in reply.calls]
    after = results or [{"role": "user", "content": "go on"}]
    said = [{"role": "user", "content": "x"}, json.loads(encode_assistant(reply)), *after]
    assert fault_of(said) is None


@each
def test_byte_by_byte_it_is_the_same_reply(path: Path) -> None:
    body = path.read_bytes()
    assert read([body[at : at + 1] for at in range(len(body))]) == read([body])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(STREAMS), st.lists(st.integers(0, 1 << 16), max_size=12))
def test_however_it_is_cut_it_is_the_same_reply(path: Path, places: list[int]) -> None:
    body = path.read_bytes()
    cuts = sorted(place % (len(body) + 1) for place in places)
    assert read([body[a:b] for a, b in itertools.pairwise([0, *cuts, len(body)])]) == read([body])


@each
def test_line_ends_marks_and_comments_make_no_difference(path: Path) -> None:
    body = path.read_bytes()
    whole = read([body])
    if path.suffix == ".json":
        assert read([b"\xef\xbb\xbf\r\n" + body + b"\n"]) == whole
        return
    for end in (b"\r\n", b"\r"):
        for before in (b"", b"\xef\xbb\xbf", b": hello\n\n", b"\n", b"retry: 3000\n"):
            other = (before + body.replace(b"\r\n", b"\n")).replace(b"\n", end)
            assert read([other]) == whole
            assert read([other[at : at + 7] for at in range(0, len(other), 7)]) == whole


@each
def test_a_stream_that_breaks_off_never_gives_another_call(path: Path) -> None:
    """Cut anywhere, a stream is no reply, or the same calls (all of it was there), or none."""
    body = path.read_bytes()
    whole = read([body])
    calls = [] if isinstance(whole, str) else [(call.name, call.arguments) for call in whole[2].calls]
    for at in range(0, len(body), 13):
        got = read([body[:at]])
        if not isinstance(got, str) and any(call.arguments is not None for call in got[2].calls):
            assert [(call.name, call.arguments) for call in got[2].calls] == calls


def test_every_kind_of_server_is_there() -> None:
    kinds = "llama_server ollama vllm lmstudio openai azure openrouter gemini deepseek mistral qwen_coder"
    assert set(kinds.split()) <= {path.parent.name for path in STREAMS}
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert all(f"`{path.parent.name}/`" in readme for path in STREAMS)
