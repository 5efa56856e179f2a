"""Calls that models write into their text: each form that is known, and what is near it and only text."""

import itertools
import json
from typing import Any

import pytest

from engine.core.reply import Reply
from engine.llm.normalise import CallIds
from engine.llm.reader import ReplyReader

TOOLS: dict[str, dict[str, Any]] = {
    "Read": {
        "properties": {
            "path": {"type": "string"},
            "offset": {"type": "integer"},
            "all": {"type": "boolean"},
            "edits": {"type": "array"},
        }
    },
    "Bash": {},
    "Write": {"properties": {"path": {"type": "string"}, "content": {"type": ["string", "null"]}}},
}
READ = ("Read", {"path": "x"})
BASH = ("Bash", {"command": "ls"})


def said(text: str, tools: dict[str, dict[str, Any]] = TOOLS, size: int = 7) -> tuple[str, Reply]:
    """What was shown while it streamed, and the reply."""
    numbers = itertools.count()
    reader = ReplyReader(tools)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    chunks = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, end])
    deltas = reader.feed(body.encode())
    rest, reply = reader.end(CallIds(lambda: f"n{next(numbers)}"))
    return "".join(delta.text for delta in [*deltas, *rest]), reply


QWEN = "<tool_call>\n<function=Read>\n<parameter=path>\nx\n</parameter>\n</function>\n</tool_call>"
HARMONY = (
    "<|channel|>analysis<|message|>I must look.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.Read "
    '<|constrain|>json<|message|>{"path":"x"}<|call|>'
)

CALLS: dict[str, tuple[str, str, list[Any]]] = {
    "Hermes": ('<tool_call>\n{"name": "Read", "arguments": {"path": "x"}}\n</tool_call>', "", [READ]),
    "Hermes after a text": (
        'I look.\n<tool_call>{"name":"Read","arguments":{"path":"x"}}</tool_call>',
        "I look.",
        [READ],
    ),
    "Hermes, several, with a text between": (
        '<tool_call>{"name":"Read","arguments":{"path":"x"}}</tool_call>\nand\n'
        '<tool_call>{"name":"Bash","arguments":{"command":"ls"}}</tool_call>',
        "and",
        [READ, BASH],
    ),
    "Hermes, several in one block": (
        '<tool_call>{"name":"Read","arguments":{"path":"x"}}\n{"name":"Bash","arguments":{"command":"ls"}}</tool_call>',
        "",
        [READ, BASH],
    ),
    "Hermes, one brace too many": (
        '<tool_call>{"name":"Read","arguments":{"path":"x"}}}</tool_call>',
        "",
        [READ],
    ),
    "Hermes that is not closed": ('<tool_call>\n{"name":"Read","arguments":{"path":"x"}}', "", [READ]),
    "Hermes whose content holds the closing tag": (
        '<tool_call>{"name":"Write","arguments":{"path":"x","content":"a</tool_call>b\\n<tool_call>"}}</tool_call>',
        "",
        [("Write", {"path": "x", "content": "a</tool_call>b\n<tool_call>"})],
    ),
    "Hermes with broken arguments": (
        '<tool_call>{"name":"Read","arguments":{"path":"x</tool_call>',
        "",
        [("Read", None)],
    ),
    "Qwen-coder": (QWEN, "", [READ]),
    "Qwen-coder without the wrapper": (
        QWEN.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"),
        "",
        [READ],
    ),
    "Qwen-coder whose wrapper is only closed": (QWEN.removeprefix("<tool_call>\n"), "", [READ]),
    "Qwen-coder, several after a text": (
        f"Two at once.\n\n{QWEN}\n<tool_call>\n<function=Bash>\n<parameter=command>\nls\n</parameter>\n"
        "</function>\n</tool_call>",
        "Two at once.",
        [READ, BASH],
    ),
    "Qwen-coder, values by the schema": (
        "<function=Read><parameter=path>12</parameter><parameter=offset>12</parameter>"
        '<parameter=all>True</parameter><parameter=edits>[{"a": 1}]</parameter></function>',
        "",
        [("Read", {"path": "12", "offset": 12, "all": True, "edits": [{"a": 1}]})],
    ),
    "Qwen-coder, a value that is not what the schema wants": (
        "<function=Read><parameter=offset>many</parameter></function>",
        "",
        [("Read", {"offset": "many"})],
    ),
    "Qwen-coder, a content with lines, fences and tags": (
        "<function=Write>\n<parameter=path>\nx.md\n</parameter>\n<parameter=content>\n  # A\n```\n"
        "</parameter> and <b>\n日本\n\n</parameter>\n</function>",
        "",
        [("Write", {"path": "x.md", "content": "  # A\n```\n</parameter> and <b>\n日本\n"})],
    ),
    "Qwen-coder without parameters": ("<function=Bash>\n</function>", "", [("Bash", {})]),
    "Llama, a function with JSON": ('<function=Read>{"path": "x"}</function>', "", [READ]),
    "Llama, python tag": (
        '<|python_tag|>{"name": "Read", "parameters": {"path": "x"}}<|eom_id|>',
        "",
        [READ],
    ),
    "Llama, several after one python tag": (
        '<|python_tag|>{"name":"Read","parameters":{"path":"x"}}; '
        '{"name":"Bash","parameters":{"command":"ls"}}',
        "",
        [READ, BASH],
    ),
    "Mistral, an array": (
        '[TOOL_CALLS][{"name":"Read","arguments":{"path":"x"}},{"name":"Bash","arguments":{"command":"ls"}}]',
        "",
        [READ, BASH],
    ),
    "Mistral, names and arguments": (
        '[TOOL_CALLS]Read[CALL_ID]abcdefghi[ARGS]{"path": "x"}[TOOL_CALLS]Bash[ARGS]{"command":"ls"}</s>',
        "",
        [READ, BASH],
    ),
    "Mistral, after a text": (
        'I look.\n[TOOL_CALLS] [{"name":"Read","arguments":{"path":"x"}}]',
        "I look.",
        [READ],
    ),
    "GLM": (
        "<tool_call>Read\n<arg_key>path</arg_key>\n<arg_value>x</arg_value>\n<arg_key>offset</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
        "",
        [("Read", {"path": "x", "offset": 3})],
    ),
    "Kimi": (
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.Read:0<|tool_call_argument_begin|>{"path":"x"}'
        '<|tool_call_end|><|tool_call_begin|>functions.Bash:1<|tool_call_argument_begin|>{"command":"ls"}'
        "<|tool_call_end|><|tool_calls_section_end|>",
        "",
        [READ, BASH],
    ),
    "DeepSeek": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>Read\n```json\n"
        '{"path": "x"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
        "",
        [READ],
    ),
    "DeepSeek, newer": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>Read<｜tool▁sep｜>{"path":"x"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "",
        [READ],
    ),
    "gpt-oss": (HARMONY, "", [READ]),
    "gpt-oss, the recipient first": (
        '<|start|>assistant to=functions.Read<|channel|>commentary json<|message|>{"path":"x"}',
        "",
        [READ],
    ),
    "gpt-oss, several with a preamble": (
        "<|channel|>commentary<|message|>I look at both.<|end|>"
        '<|start|>assistant<|channel|>commentary to=functions.Read<|message|>{"path":"x"}<|call|>'
        '<|start|>assistant<|channel|>commentary to=functions.Bash<|message|>{"command":"ls"}<|call|>',
        "I look at both.",
        [READ, BASH],
    ),
    "JSON": ('{"name":"Read","arguments":{"path":"x"}}', "", [READ]),
    "JSON, one after the other": (
        '{"name":"Read","arguments":{"path":"x"}}\n{"name":"Bash","arguments":{"command":"ls"}}',
        "",
        [READ, BASH],
    ),
    "JSON as OpenAI has it": (
        '[{"type":"function","id":"1","function":{"name":"Read","arguments":"{\\"path\\":\\"x\\"}"}}]',
        "",
        [READ],
    ),
    "JSON in a fence": ('```json\n{"name":"Read","arguments":{"path":"x"}}\n```', "", [READ]),
    "JSON in several fences": (
        '```json\n{"name":"Read","arguments":{"path":"x"}}\n```\n\n```json\n{"name":"Bash","arguments":{"command":"ls"}}\n```',
        "",
        [READ, BASH],
    ),
    "a name in other letter case": ('{"name":"read","arguments":{}}', "", [("read", {})]),
    "a name with the known prefix": ('{"name":"functions.Read","arguments":{}}', "", [("Read", {})]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_the_text_is_a_call(name: str) -> None:
    text, rest, expected = CALLS[name]
    _, reply = said(text)
    assert (reply.text, [(call.name, call.arguments) for call in reply.calls]) == (rest, expected)
    assert len({call.call_id for call in reply.calls}) == len(expected)


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith(("JSON", "a name"))])
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_call_in_the_text_is_not_shown_while_it_streams(name: str, size: int) -> None:
    text, rest, _ = CALLS[name]
    shown, _ = said(text, size=size)
    assert rest.startswith(shown.strip())


def test_what_is_thought_in_a_channel_is_reasoning() -> None:
    assert said(HARMONY)[1].reasoning == "I must look."
    plain = (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>"
    )
    _, reply = said(plain)
    assert (reply.text, reply.reasoning, reply.calls) == ("Done.", "Hm.", ())


HERMES = '<tool_call>{"name":"Read","arguments":{"path":"x"}}</tool_call>'


@pytest.mark.parametrize(
    "text",
    [
        f"Use it so:\n```\n{HERMES}\n```",
        f"Use it so:\n```xml\n{QWEN}\n```\nThen it runs.",
        f"The form `{HERMES}` is Hermes.",
        f"Models write\n{HERMES}\nwhen they call a tool.",
        f"Models write\n{QWEN}\nwhen they call a tool.",
        f"> {HERMES}",
        f"- {HERMES}",
        f"It ends with {HERMES}",
        HERMES.replace("Read", "get_weather"),
        QWEN.replace("Read", "get_weather"),
        HARMONY.replace("Read", "get_weather"),
        f"The log said:\n{HARMONY}\nWhat does it mean?",
        "<tool_call>nothing</tool_call>",
        '<tool_call>{"name":"Read"}</tool_call>',
        "<function=Read>\n<parameter=path>\nx",
        "<function=Read> is how Qwen begins.",
        "[TOOL_CALLS] is a token of Mistral's.",
        'The answer is [TOOL_CALLS][{"name":"Read","arguments":{}}]',
        "<|python_tag|>print(1)",
        "<|tool_calls_section_begin|><|tool_calls_section_end|>",
        "<|channel|>",
        "<|channel|>analysis",
        '```json\n{"name":"maestro","arguments":{"path":"x"}}\n```',
        '```json\n{"name":"Read","arguments":{},"version":"1.0"}\n```',
        '```json\n{"name":"Read","arguments":{}}\n```\nis the call.',
        'Here is the call:\n```json\n{"name":"Read","arguments":{}}\n```',
        '{"name":"Read"}',
        '{"name":"Read","arguments":[]}',
        '[{"name":"Read","arguments":{}},{"name":"other","arguments":{}}]',
        "[]",
        "{",
    ],
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_text_about_calls_stays_text(text: str, end: str) -> None:
    _, reply = said(text + end)
    assert (reply.text, reply.calls, reply.reasoning) == (text + end, (), "")


def test_without_tools_nothing_is_a_call() -> None:
    for text, _, _ in CALLS.values():
        shown, reply = said(text, {})
        assert (reply.text, reply.calls, shown) == (text, (), text)


def test_calls_of_the_server_itself_leave_the_text_alone() -> None:
    reader = ReplyReader(TOOLS)
    call = {"index": 0, "id": "a", "function": {"name": "Bash", "arguments": "{}"}}
    delta = {"content": HERMES, "tool_calls": [call]}
    reader.feed(f"data: {json.dumps({'choices': [{'delta': delta, 'finish_reason': 'stop'}]})}\n\n".encode())
    _, reply = reader.end(CallIds(lambda: "n"))
    assert (reply.text, [call.name for call in reply.calls]) == (HERMES, ["Bash"])


@pytest.mark.parametrize(
    "opening", ["<tool_call>", "<function=", "[TOOL_CALLS]", '{"name":"Read","arguments":', "```\n"]
)
def test_a_long_text_of_openings_takes_no_time(opening: str) -> None:
    text = f"{opening}\n" * 20_000
    assert said(text, size=len(text))[1].text == text
