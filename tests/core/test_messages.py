"""A message is encoded once, and the bytes are valid for the strictest server."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.messages import encode_assistant, encode_message, encode_thought, encode_tool_result, heal
from engine.core.reply import Reply, ToolCall

ANY_TEXT = st.text(st.characters(exclude_categories=()))


def test_text_is_sent_as_it_is_compact_and_unescaped() -> None:
    assert encode_message("user", '日本\n"x"') == '{"role":"user","content":"日本\\n\\"x\\""}'.encode()
    assert encode_tool_result("c1", "x") == b'{"role":"tool","tool_call_id":"c1","content":"x"}'
    assert encode_assistant(Reply(text="hi", reasoning="hm")) == b'{"role":"assistant","content":"hi"}'


def test_a_reply_of_calls_only_has_the_content_null_and_arguments_as_text() -> None:
    call = ToolCall("c1", "Read", {"path": "a"}, '{"path":"a"}')
    assert json.loads(encode_assistant(Reply(text=" \n", calls=(call,)))) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"path":"a"}'}}
        ],
    }


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("mcp__a__b", "mcp__a__b"),
        ("functions.Read", "functions_Read"),
        ("読む", "__"),
        ("", "unnamed"),
        ("x" * 99, "x" * 64),
    ],
)
def test_a_name_that_openai_would_refuse_is_made_harmless(name: str, sent: str) -> None:
    message = json.loads(encode_assistant(Reply(calls=(ToolCall("c", name, {}, "{}"),))))
    assert message["tool_calls"][0]["function"]["name"] == sent


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_an_empty_message_is_refused_here_and_not_by_the_server(text: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        encode_message("user", text)
    with pytest.raises(ValueError, match="empty"):
        encode_assistant(Reply(text=text))


def test_a_result_without_a_text_says_so() -> None:
    for text in ("", " \n"):
        assert json.loads(encode_tool_result("c", text))["content"] == "(nothing)"


def test_what_a_server_keeps_on_a_call_goes_back_with_it() -> None:
    call = ToolCall("c", "Read", {}, "{}", extra={"google": {"thought_signature": "sig=="}})
    (sent,) = json.loads(encode_assistant(Reply(calls=(call,))))["tool_calls"]
    assert sent["extra_content"] == {"google": {"thought_signature": "sig=="}}


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        (Reply(text="x"), b""),
        (Reply(text="x", reasoning="hm"), b'{"reasoning":"hm"}'),
        (Reply(reasoning="hm", thought={"reasoning_content": " hm "}), b'{"reasoning_content":" hm "}'),
    ],
)
def test_reasoning_is_kept_beside_the_message_as_the_server_gave_it(reply: Reply, kept: bytes) -> None:
    assert encode_thought(reply) == kept


@given(ANY_TEXT)
def test_lone_surrogates_are_healed_and_all_else_stays(text: str) -> None:
    healed = heal(text)
    healed.encode()
    kept = [char for char in text if not "\ud800" <= char <= "\udfff"]
    assert [char for char in healed if char != "\ufffd" and char < "\U00010000"] == [
        char for char in kept if char != "\ufffd" and char < "\U00010000"
    ]
    assert heal(healed) == healed
    assert json.loads(encode_tool_result("c", text))["content"] == (healed if text.strip() else "(nothing)")


def test_a_surrogate_pair_becomes_its_character() -> None:
    assert heal("a\ud83d\ude00b\ud83d") == "a😀b\ufffd"
