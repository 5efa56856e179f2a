"""Any server's reply is understood: each shape of a real server's fault as the chunks that show it, and its
neighbours.
"""

import itertools
import json
from typing import Any

import pytest

from engine.core.messages import encode_assistant
from engine.core.reply import CallUsage, Delta, Finish, Reply
from engine.llm.normalise import CallIds
from engine.llm.reader import ReplyReader, UnusableReply
from engine.llm.scripted.strict import fault_of

KNOWN: dict[str, dict[str, Any]] = {name: {} for name in ("Read", "Bash", "Glob", "Write")}


def ids() -> CallIds:
    numbers = itertools.count(1)
    return CallIds(lambda: f"made{next(numbers)}")


def chunk(delta: Any = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **fields}


def tool(*fragments: Any) -> dict[str, Any]:
    return chunk({"tool_calls": list(fragments)})


def part(arguments: Any = None, *, name: Any = None, **fields: Any) -> dict[str, Any]:
    function = {} if name is None else {"name": name}
    return {**fields, "function": function if arguments is None else {**function, "arguments": arguments}}


def sse(*chunks: Any) -> bytes:
    return "".join(f"data: {c if isinstance(c, str) else dump(c)}\n\n" for c in chunks).encode()


def dump(value: Any) -> str:
    """JSON as servers write it; half a surrogate pair can only be sent as an escape."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def read(body: bytes, known: dict[str, dict[str, Any]] = KNOWN) -> tuple[list[Delta], Reply]:
    reader = ReplyReader(known)
    deltas = reader.feed(body)
    rest, reply = reader.end(ids())
    return [*deltas, *rest], reply


def stream(*chunks: Any, end: str | None = "tool_calls") -> Reply:
    """The reply of a stream of these chunks with a proper end."""
    last = [] if end is None else [chunk(finish=end)]
    reply = read(sse(*chunks, *last, "[DONE]"))[1]
    if not reply.empty and reply.calls:
        sent = json.loads(encode_assistant(reply))
        results = [{"role": "tool", "tool_call_id": call.call_id, "content": "x"} for call in reply.calls]
        conversation = [{"role": "user", "content": "x"}, sent, *results]
        assert fault_of(conversation) is None, (
            "whatever came in, what goes back is valid for the strictest server"
        )
    return reply


def calls(reply: Reply) -> list[tuple[str, str, Any]]:
    return [(call.call_id, call.name, call.arguments) for call in reply.calls]


READ_X = ("a", "Read", {"path": "x"})

FRAGMENTS: dict[str, tuple[list[Any], list[tuple[str, str, Any]]]] = {
    "clean": (
        [
            tool(part("", index=0, id="a", name="Read")),
            tool(part('{"pa', index=0)),
            tool(part('th":"x"}', index=0)),
        ],
        [READ_X],
    ),
    "index missing, one call": ([tool(part('{"pa', id="a", name="Read")), tool(part('th":"x"}'))], [READ_X]),
    "index missing, two calls with ids": (
        [tool(part('{"path":"x"}', id="a", name="Read")), tool(part('{"path":"y"}', id="b", name="Read"))],
        [READ_X, ("b", "Read", {"path": "y"})],
    ),
    "index missing, two calls in one chunk without ids": (
        [tool(part('{"path":"x"}', name="Read"), part('{"path":"x"}', name="Read"))],
        [("made1", "Read", {"path": "x"}), ("made2", "Read", {"path": "x"})],
    ),
    "index missing, two calls without arguments in one chunk": (
        [tool(part(name="Read"), part(name="Glob"))],
        [("made1", "Read", {}), ("made2", "Glob", {})],
    ),
    "index without id (Ollama)": (
        [tool(part(index=0, name="Bash")), tool(part('{"com', index=0)), tool(part('mand":"ls"}', index=0))],
        [("made1", "Bash", {"command": "ls"})],
    ),
    "name and id once, then empty": (
        [tool(part("", index=0, id="a", name="Read"))]
        + [tool(part(piece, index=0, id="", name="")) for piece in ('{"path"', ':"x"', "}")],
        [READ_X],
    ),
    "name and id null in continuations": (
        [
            tool(part('{"path"', index=0, id="a", name="Read")),
            tool({"index": 0, "id": None, "function": {"name": None, "arguments": ':"x"}'}}),
        ],
        [READ_X],
    ),
    "name and id with every fragment": (
        [tool(part(piece, index=0, id="a", name="Read")) for piece in ("", '{"path"', ':"x"}', "")],
        [READ_X],
    ),
    "another id with every fragment": (
        [
            tool(part(piece, index=0, id=f"i{n}")) if n else tool(part(piece, index=0, id="a", name="Read"))
            for n, piece in enumerate(('{"pa', 'th":', '"x"}'))
        ],
        [READ_X],
    ),
    "another id and the name with every fragment": (
        [
            tool(part(piece, index=0, id=one, name="Read"))
            for one, piece in (("a", ""), ("b", '{"path"'), ("c", ':"x"}'))
        ],
        [READ_X],
    ),
    "every call has index 0, ids differ": (
        [
            tool(part('{"path":"x"}', index=0, id="a", name="Read")),
            tool(part('{"path":"y"}', index=0, id="b", name="Read")),
        ],
        [READ_X, ("b", "Read", {"path": "y"})],
    ),
    "every call has index 0 and no id": (
        [tool(part('{"path":"x"}', index=0, name="Read")), tool(part('{"path":"y"}', index=0, name="Read"))],
        [("made1", "Read", {"path": "x"}), ("made2", "Read", {"path": "y"})],
    ),
    "every call has index 0, streamed, ids differ": (
        [
            tool(part("", index=0, id="a", name="Read")),
            tool(part('{"path":"x"}', index=0)),
            tool(part("", index=0, id="b", name="Bash")),
            tool(part('{"command":"ls"}', index=0)),
        ],
        [READ_X, ("b", "Bash", {"command": "ls"})],
    ),
    "the id repeats, the index tells": (
        [
            tool(
                part('{"path":"x"}', index=0, id="0", name="Read"),
                part('{"path":"y"}', index=1, id="0", name="Read"),
            )
        ],
        [("0", "Read", {"path": "x"}), ("made1", "Read", {"path": "y"})],
    ),
    "the index jumps in a continuation": (
        [tool(part('{"pa', index=0, id="a", name="Read")), tool(part('th":"x"}', index=1))],
        [READ_X],
    ),
    "indexes begin at 1 and interleave": (
        [
            tool(part('{"pa', index=1, id="a", name="Read")),
            tool(part('{"pa', index=2, id="b", name="Glob")),
            tool(part('th":"x"}', index=1)),
            tool(part('th":"y"}', index=2)),
        ],
        [READ_X, ("b", "Glob", {"path": "y"})],
    ),
    "the whole call once more at the end": (
        [
            tool(part('{"path":"x"}', index=0, id="a", name="Read")),
            tool(part('{"path":"x"}', index=0, id="a", name="Read")),
        ],
        [READ_X],
    ),
    "the name in pieces": (
        [
            tool(part("", index=0, id="a", name="Re")),
            tool(part("", index=0, name="ad")),
            tool(part('{"path":"x"}', index=0)),
        ],
        [READ_X],
    ),
    "arguments are an object, no id, no type": (
        [tool(part({"pattern": "*.py"}, name="Glob"))],
        [("made1", "Glob", {"pattern": "*.py"})],
    ),
    "arguments encoded twice": (
        [tool(part(json.dumps('{"path":"x"}'), index=0, id="a", name="Read"))],
        [READ_X],
    ),
    "arguments null": (
        [tool({"id": "a", "function": {"name": "Read", "arguments": None}})],
        [("a", "Read", {})],
    ),
    "arguments empty": ([tool(part("", index=0, id="a", name="Read"))], [("a", "Read", {})]),
    "arguments absent": ([tool(part(index=0, id="a", name="Read"))], [("a", "Read", {})]),
    "no function level": ([tool({"id": "a", "name": "Read", "arguments": '{"path":"x"}'})], [READ_X]),
    "an id that is a number": (
        [tool(part('{"path":"x"}', id=7, name="Read"))],
        [("7", "Read", {"path": "x"})],
    ),
    "a blank fragment at the end": (
        [tool(part('{"path":"x"}', index=0, id="a", name="Read")), tool({"function": {"arguments": ""}})],
        [READ_X],
    ),
    "function_call, the old form": (
        [
            chunk({"function_call": {"name": "Read", "arguments": '{"pa'}}),
            chunk({"function_call": {"arguments": 'th":"x"}'}}),
        ],
        [("made1", "Read", {"path": "x"})],
    ),
    "a decorated name stays as it is": (
        [tool(part("{}", index=0, id="a", name="Read<|channel|>commentary"))],
        [("a", "Read<|channel|>commentary", {})],
    ),
    "nine times the same": (
        [tool(part('{"command":"make deploy"}', index=n, id=f"i{n}", name="Bash")) for n in range(9)],
        [(f"i{n}", "Bash", {"command": "make deploy"}) for n in range(9)],
    ),
    "a surrogate pair cut between fragments": (
        [tool(part('{"path":"\ud83d', index=0, id="a", name="Read")), tool(part('\ude00"}', index=0))],
        [("a", "Read", {"path": "😀"})],
    ),
}


SITUATIONS = {
    "index missing, one call": pytest.mark.fault("A: index missing in a streamed tool call"),
    "index missing, two calls with ids": pytest.mark.fault("A: index missing in a streamed tool call"),
    "index missing, two calls in one chunk without ids": pytest.mark.fault(
        "A: index missing in a streamed tool call", neighbour=True
    ),
    "every call has index 0, streamed, ids differ": pytest.mark.fault(
        "A: index missing in a streamed tool call", neighbour=True
    ),
    "index without id (Ollama)": pytest.mark.fault("A: first delta has index but no id"),
    "name and id once, then empty": pytest.mark.fault("A: name and id only once, then empty strings"),
    "name and id null in continuations": pytest.mark.fault(
        "A: name and id only once, then empty strings", neighbour=True
    ),
    "arguments are an object, no id, no type": pytest.mark.fault(
        "A: arguments is an object, id and type absent"
    ),
    "arguments encoded twice": pytest.mark.fault("A: arguments is an object, id and type absent"),
    "arguments null": pytest.mark.fault("A: arguments is an object, id and type absent"),
    "arguments empty": pytest.mark.fault("A: arguments is an object, id and type absent"),
    "arguments absent": pytest.mark.fault("A: arguments is an object, id and type absent", neighbour=True),
    "no function level": pytest.mark.fault("A: arguments is an object, id and type absent", neighbour=True),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SITUATIONS.get(name, ())) for name in FRAGMENTS])
def test_fragments_of_calls_find_their_call(name: str) -> None:
    chunks, expected = FRAGMENTS[name]
    assert calls(stream(*chunks)) == expected


def test_what_comes_empty_changes_nothing_of_what_came_before() -> None:
    clean = stream(*FRAGMENTS["clean"][0])
    for name in ("name and id once, then empty", "name and id null in continuations"):
        assert stream(*FRAGMENTS[name][0]).calls == clean.calls


@pytest.mark.fault("A: arguments is an object, id and type absent")
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"pattern": "*.py"}, '{"pattern":"*.py"}'),
        ('{"pattern":"*.py"}', '{"pattern":"*.py"}'),
        (json.dumps('{"pattern":"*.py"}'), '{"pattern":"*.py"}'),
        (None, "{}"),
        ("", "{}"),
    ],
)
def test_a_body_with_arguments_in_any_form_gives_one_call_whose_history_is_a_text(
    given: Any, meant: str
) -> None:
    _, reply = read(
        body({"content": None, "tool_calls": [{"function": {"name": "Glob", "arguments": given}}]})
    )
    (sent,) = json.loads(encode_assistant(reply))["tool_calls"]
    assert calls(reply) == [("made1", "Glob", json.loads(meant))]
    assert (sent["type"], sent["function"]["arguments"]) == ("function", meant)


@pytest.mark.fault("A: finish says stop, but there are tool calls")
@pytest.mark.parametrize("name", FRAGMENTS)
@pytest.mark.parametrize("finish", ["stop", None])
def test_the_presence_of_calls_decides_not_the_finish_reason(name: str, finish: str | None) -> None:
    chunks, expected = FRAGMENTS[name]
    reply = stream(*chunks, end=finish)
    assert calls(reply) == expected and reply.finish is Finish.STOP


def test_ids_that_may_not_stay_are_replaced() -> None:
    reader = ReplyReader(KNOWN)
    reader.feed(
        sse(
            tool(part("{}", index=0, id="taken", name="Read"), part("{}", index=1, id="free", name="Read")),
            "[DONE]",
        )
    )
    _, reply = reader.end(CallIds(lambda: "new", lambda given: given != "taken"))
    assert [call.call_id for call in reply.calls] == ["new", "free"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"path":"a.py", "content":"x', "breaks off at column 29"),
        ('{"path":"a.py", "content":"x', "string that begins at column 27 is not closed"),
        ('{"path": ', "breaks off at column 9"),
        ('{"path" "x"}', "column 9"),
        ('{"path":"x"}{"path":"y"}', "more text follows it at column 13"),
        ('{"a":1,}', "column 8"),
        ("{'a':1}", "column 2"),
        ('{\n"a": 1\n"b": 2}', "line 3, column 1"),
        ('["x"]', "not an array"),
        ('"just text"', "column 1"),
        ("true", "not a boolean"),
        ('{"a":NaN}', "NaN"),
        ("{" * 50 + '"a":' * 3, "column"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_broken_arguments_become_a_problem_and_a_harmless_history(arguments: str, said: str) -> None:
    (call,) = stream(tool(part(arguments, index=0, id="a", name="Write"))).calls
    assert call.arguments is None and call.raw == "{}"
    assert call.problem is not None and said in call.problem and "one JSON object" in call.problem


@pytest.mark.parametrize(
    ("arguments", "value", "raw"),
    [
        ('{"a": [1, "日本"]}', {"a": [1, "日本"]}, '{"a": [1, "日本"]}'),
        ('{"a":"line\nbreak"}', {"a": "line\nbreak"}, '{"a":"line\\nbreak"}'),
        ('{"a":"\\ud83d"}', {"a": "\ufffd"}, '{"a":"\ufffd"}'),
        ('{"a":"\\ud83d\\ude00"}', {"a": "😀"}, '{"a":"😀"}'),
        ('{"a":1}\n{"a":1}', {"a": 1}, '{"a":1}'),
        ("null", {}, "{}"),
        (" \n", {}, "{}"),
    ],
)
def test_what_can_be_understood_is_and_goes_back_as_strict_json(arguments: str, value: Any, raw: str) -> None:
    (call,) = stream(tool(part(arguments, index=0, id="a", name="Write"))).calls
    assert (call.arguments, call.raw, call.problem) == (value, raw, None)
    assert json.loads(call.raw) == value


@pytest.mark.parametrize("reason", ["length", "content_filter", "max_tokens", "MAX_TOKENS", "SAFETY"])
@pytest.mark.parametrize(
    "arguments", ['{"path":"README.md","content":"..', '{"path":"README.md","content":"whole"}']
)
def test_nothing_of_a_cut_reply_can_be_executed(reason: str, arguments: str) -> None:
    reply = stream(tool(part(arguments, index=0, id="a", name="Write")), end=reason)
    assert reply.finish is Finish.CUT
    assert [call.arguments for call in reply.calls] == [None]
    assert reason.lower() in (reply.calls[0].problem or "")


USAGE = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 80}}
COUNTED = CallUsage(100, 5, 80)


@pytest.mark.fault("A: usage-only last chunk")
@pytest.mark.fault("A: usage that cannot be trusted")
@pytest.mark.parametrize(
    ("chunks", "usage"),
    [
        ([chunk({"content": "hi"}), chunk(finish="stop"), {"choices": [], "usage": USAGE}], COUNTED),
        ([chunk({"content": "hi"}), chunk(finish="stop"), {"usage": USAGE}], COUNTED),
        (
            [
                chunk({"content": "hi"}),
                {"choices": [{"delta": None, "finish_reason": "stop"}], "usage": USAGE},
            ],
            COUNTED,
        ),
        (
            [{"choices": [], "usage": None}, chunk({"content": "hi"}), chunk(finish="stop", usage=USAGE)],
            COUNTED,
        ),
        ([{"choices": None}, chunk({"content": "hi"}, usage=USAGE), chunk(finish="stop")], COUNTED),
        (
            [
                chunk({"content": "h"}, usage={"prompt_tokens": 100, "completion_tokens": 1}),
                chunk({"content": "i"}, usage={"prompt_tokens": 100, "completion_tokens": 4}),
                chunk(finish="stop", usage=USAGE),
            ],
            COUNTED,
        ),
        (
            [
                chunk({"content": "hi"}),
                chunk(finish="stop"),
                {"usage": {"prompt_tokens": 0, "completion_tokens": 0}},
            ],
            CallUsage(),
        ),
        ([chunk({"content": "hi"}), chunk(finish="stop")], CallUsage()),
        (
            [
                chunk({"content": "hi"}, "stop"),
                {"usage": {"prompt_tokens": None, "input_tokens": 100, "output_tokens": 5}},
            ],
            CallUsage(100, 5, None),
        ),
        (
            [
                chunk({"content": "hi"}, "stop"),
                {
                    "choices": [],
                    "usage": {"prompt_tokens": 100, "completion_tokens": 5},
                    "timings": {"cache_n": 80, "prompt_n": 20, "predicted_n": 5},
                },
            ],
            COUNTED,
        ),
        (
            [chunk({"content": "h"}), chunk({"content": "i"}, usage=USAGE), chunk(finish="stop", usage=None)],
            COUNTED,
        ),
        (
            [
                chunk({"content": "hi"}, "stop", usage=USAGE),
                {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}},
            ],
            COUNTED,
        ),
        (
            [chunk({"content": "hi"}, "stop", timings={"cache_n": 80, "prompt_n": 20, "predicted_n": 5})],
            COUNTED,
        ),
        (
            [
                chunk({"content": "hi"}, "stop"),
                {"usage": {"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 80}},
            ],
            COUNTED,
        ),
        ([{"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop", "usage": USAGE}]}], COUNTED),
        ([chunk({"content": "hi"}, "stop", x_groq={"usage": USAGE})], COUNTED),
        (
            [
                chunk({"content": "hi"}, "stop"),
                {"usage": {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 50}}},
            ],
            CallUsage(10, None, 10),
        ),
        (
            [
                chunk({"content": "hi"}, "stop"),
                {"usage": {"prompt_tokens": "many", "completion_tokens": True}},
            ],
            CallUsage(),
        ),
    ],
)
def test_usage_is_the_largest_that_was_said_wherever_it_was(chunks: list[Any], usage: CallUsage) -> None:
    reply = stream(*chunks, end=None)
    assert (reply.text, reply.usage) == ("hi", usage)


@pytest.mark.fault("A: usage-only last chunk", neighbour=True)
@pytest.mark.parametrize(
    "last",
    [
        {"choices": [{}]},
        {"choices": [None]},
        {"choices": {}},
        {"choices": [{"delta": []}]},
        {"choices": [{"delta": {"tool_calls": None, "content": None}}]},
        {"choices": [{"delta": {"tool_calls": [None, {}, {"function": None}]}}]},
        {},
        {"object": "chat.completion.chunk", "choices": [], "system_fingerprint": None},
    ],
)
def test_a_strange_last_chunk_takes_nothing_away(last: Any) -> None:
    call = tool(part('{"path":"x"}', index=0, id="a", name="Read"))
    reply = stream({"choices": []}, call, chunk(finish="stop"), {**last, "usage": USAGE}, end=None)
    assert (calls(reply), reply.usage) == ([READ_X], COUNTED)


@pytest.mark.parametrize(
    "empty",
    [[], [{"choices": []}], [chunk({"reasoning_content": "hmm"})], [chunk({"content": "<think>hmm"})]],
)
def test_a_reply_without_text_and_calls_is_empty(empty: list[Any]) -> None:
    assert stream(*empty, end=None).empty


def test_a_body_without_a_byte_is_an_empty_reply() -> None:
    assert read(b"")[1].empty and read(b"\n")[1].empty and read(b": ping\n\n")[1].empty


def test_an_empty_list_of_calls_with_text_is_text() -> None:
    reply = stream(chunk({"content": "hello", "tool_calls": []}), end="tool_calls")
    assert (reply.text, reply.calls, reply.empty) == ("hello", (), False)


REASONED = ("The answer.", "I should think.")


@pytest.mark.parametrize(
    "pieces",
    [
        [{"reasoning_content": "I should "}, {"reasoning_content": "think."}, {"content": "The answer."}],
        [{"reasoning": "I should think."}, {"content": "The answer."}],
        [
            {"reasoning": "I should think.", "reasoning_content": "I should think."},
            {"content": "The answer."},
        ],
        [{"thinking": "I should think."}, {"content": "The answer."}],
        [{"content": "<think>I should think.</think>The answer."}],
        [{"content": "<think>\nI should think.\n</think>\n\nThe answer."}],
        [
            {"content": "\n<thi"},
            {"content": "nk>I should th"},
            {"content": "ink.</th"},
            {"content": "ink>\n"},
            {"content": "\nThe answer."},
        ],
        [{"content": "[THINK]I should think.[/THINK]The answer."}],
        [{"content": "<think>I should </think><think>think.</think>The answer."}],
        [{"content": "I should think.\n</think>\n\nThe answer."}],
        [
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I should think."}]}]},
            {"content": [{"type": "text", "text": "The answer."}]},
        ],
    ],
)
def test_reasoning_is_kept_apart_from_the_answer(pieces: list[Any]) -> None:
    reply = stream(*map(chunk, pieces), end="stop")
    assert (reply.text, reply.reasoning) == REASONED


@pytest.mark.parametrize(
    "text",
    [
        "The tag <think> opens and </think> closes.",
        "Write `</think>` at the end.",
        "a < b and <thing> is no tag",
        "<thinker>",
        "<",
        "x\n</think>\ny\n</think>\nz",
    ],
)
def test_text_about_reasoning_tags_stays_text(text: str) -> None:
    reply = stream(chunk({"content": text}), end="stop")
    assert (reply.text, reply.reasoning) == (text, "")


@pytest.mark.parametrize(
    ("text", "rest", "expected"),
    [
        (
            '<tool_call>\n{"name": "Read", "arguments": {"path": "x"}}\n</tool_call>',
            "",
            [("Read", {"path": "x"})],
        ),
        (
            'Let me see.\n<tool_call>{"name":"Read","arguments":"{\\"path\\":\\"x\\"}"}</tool_call>',
            "Let me see.",
            [("Read", {"path": "x"})],
        ),
        (
            '<tool_call>{"name":"Read","arguments":{"path":"x"}}</tool_call>\n'
            '<tool_call>{"name":"Glob","arguments":{}}</tool_call>',
            "",
            [("Read", {"path": "x"}), ("Glob", {})],
        ),
        ('<tool_call>{"name":"Read","parameters":{"path":"x"}}', "", [("Read", {"path": "x"})]),
        ('<tool_call>{"name":"Read","arguments":{"path":"x</tool_call>', "", [("Read", None)]),
        ('```json\n{"name":"Read","arguments":{"path":"x"}}\n```', "", [("Read", {"path": "x"})]),
        ('{"name":"Read","arguments":{"path":"x"}}', "", [("Read", {"path": "x"})]),
        ('{"type":"function","function":{"name":"Read","arguments":"{}"}}', "", [("Read", {})]),
        (
            '[TOOL_CALLS][{"name":"Read","arguments":{}},{"name":"Bash","arguments":{}}]',
            "",
            [("Read", {}), ("Bash", {})],
        ),
    ],
)
def test_calls_in_the_text_are_calls(text: str, rest: str, expected: list[Any]) -> None:
    deltas, reply = read(sse(*(chunk({"content": piece}) for piece in text), chunk(finish="stop")))
    assert reply.text == rest
    assert [(call.name, call.arguments) for call in reply.calls] == expected
    if text.lstrip().startswith("<"):
        assert not "".join(delta.text for delta in deltas).strip(), "the call is not shown to the person"


@pytest.mark.parametrize(
    "text",
    [
        'Use it so:\n```\n<tool_call>{"name":"Read","arguments":{}}</tool_call>\n```',
        'The form `<tool_call>{"name":"Read","arguments":{}}</tool_call>` is Hermes.',
        '```json\n{"name":"maestro","arguments":{"path":"x"}}\n```',
        '```json\n{"name":"Read","arguments":{},"version":"1.0"}\n```',
        'Here is the call:\n```json\n{"name":"Read","arguments":{}}\n```',
        '{"name":"Read"}',
        "<tool_call>nothing</tool_call>",
        "[]",
    ],
)
def test_text_about_calls_stays_text(text: str) -> None:
    reply = stream(chunk({"content": text}), end="stop")
    assert (reply.text, reply.calls) == (text, ())


def test_without_tools_the_text_is_never_searched_for_calls() -> None:
    text = '<tool_call>{"name":"Read","arguments":{}}</tool_call>'
    deltas, reply = read(sse(chunk({"content": text}), "[DONE]"), {})
    assert (reply.text, reply.calls, "".join(d.text for d in deltas)) == (text, (), text)


def body(message: Any, **fields: Any) -> bytes:
    return json.dumps(
        {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": USAGE, **fields}
    ).encode()


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n "])
def test_a_body_that_does_not_stream_is_read_whatever_its_content_type(start: bytes) -> None:
    twice = [{"function": {"name": "Read", "arguments": {"path": "x"}}}] * 2
    deltas, reply = read(start + body({"content": "<think>hm</think>ok", "tool_calls": twice}))
    assert (reply.text, reply.reasoning, reply.usage, reply.model) == ("ok", "hm", COUNTED, "m")
    assert calls(reply) == [("made1", "Read", {"path": "x"}), ("made2", "Read", {"path": "x"})]
    assert [delta.text for delta in deltas if delta.text] == ["ok"]


def test_one_event_that_holds_a_whole_message_is_a_reply() -> None:
    whole = json.loads(body({"content": "ok", "tool_calls": [part('{"path":"x"}', id="a", name="Read")]}))
    assert calls(stream(whole, end=None)) == [READ_X]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (sse(chunk({"content": "half"})), "cut"),
        (sse(chunk({"content": "half"})) + b'data: {"choices":[{"del', "cut"),
        (sse(tool(part('{"path":"x"}', index=0, id="a", name="Read"))), "cut"),
        (sse(chunk({"content": "x"}), '{"choices":['), "cut"),
        (b'{"choices":[{"mess', "cut"),
        (sse(chunk({"content": "x"}, "error")), "error"),
        (sse({"error": {"message": "boom", "code": 500}}), "error"),
        (sse(chunk({"content": "x"}), {"error": "boom"}), "error"),
        (b'event: error\ndata: {"message":"boom"}\n\n', "error"),
        (b'error: {"message":"boom"}\n\n', "error"),
        (sse({"object": "error", "message": "boom", "code": 400}), "error"),
        (b'{"error":{"message":"boom"}}', "error"),
        (b"<!doctype html><title>Login</title>", "page"),
        (b'{"hello":"world"}', "garbage"),
        (b"[1]", "garbage"),
    ],
)
def test_what_is_no_reply_is_said_to_be_none(given: bytes, kind: str) -> None:
    with pytest.raises(UnusableReply) as caught:
        read(given)
    assert caught.value.kind == kind


def test_a_reply_of_more_than_32_mib_is_stopped() -> None:
    reader = ReplyReader(KNOWN)
    with pytest.raises(UnusableReply, match="too_large"):
        for _ in range(40):
            reader.feed(b"data: " + b"x" * 1024 * 1024)


def test_a_finish_reason_without_done_is_a_whole_reply() -> None:
    assert read(sse(chunk({"content": "x"}), chunk(finish="stop")))[1].text == "x"


def test_done_without_its_blank_line_is_seen() -> None:
    assert read(sse(chunk({"content": "x"})) + b"data: [DONE]")[1].text == "x"


def test_what_follows_done_is_ignored() -> None:
    assert read(sse(chunk({"content": "x"}), "[DONE]", chunk({"content": "y"})))[1].text == "x"


def test_shown_text_joins_to_the_text_of_the_reply_and_holds_whole_characters() -> None:
    pieces = ["日", "本\ud83d", "\ude00 a <", " b <tool", " x"]
    deltas, reply = read(sse(*(chunk({"content": piece}) for piece in pieces), chunk(finish="stop")))
    shown = "".join(delta.text for delta in deltas)
    assert shown == "日本😀 a < b <tool x"
    assert reply.text == shown
    assert all(char < "\ud800" or char > "\udfff" for delta in deltas for char in delta.text)
