"""Reasoning that goes back: kept or dropped as the server wants it, learnt once from its refusal, and never a
byte of what was accepted changes.
"""

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.core.errors import ModelFault
from engine.core.messages import encode_assistant, encode_message, encode_thought, encode_tool_result
from engine.core.reply import Reply
from engine.llm.openai import OpenAIModel
from engine.llm.scripted import ScriptedServer, ScriptReply
from engine.llm.thoughts import merge_details
from engine.llm.worker_config import ModelWorker
from engine.ports import ModelRequest

TOOLS = b'[{"type":"function","function":{"name":"Read","description":"d"}}]'
DETAIL = {"type": "reasoning.text", "text": "Let me see.", "signature": "s==", "index": 0}


def stream(*deltas: dict[str, Any]) -> ScriptReply:
    chunks = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    text = "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks)
    return ScriptReply(raw_chunks=(f"{text}data: [DONE]\n\n".encode(),))


def a_call(number: int, **extra: Any) -> dict[str, Any]:
    function = {"name": "Read", "arguments": json.dumps({"path": f"f{number}"})}
    return {"tool_calls": [{"index": 0, "id": f"call_q7W2x9{number:03d}", "function": function, **extra}]}


class Conversation:
    """A model, and what was said so far, as the engine keeps it."""

    def __init__(self, server: ScriptedServer, model: str = "m") -> None:
        self.model = OpenAIModel(ModelWorker("w", server.base_url, model, timeout_s=10))
        self.messages = [encode_message("system", "s"), encode_message("user", "u")]
        self.thoughts: dict[int, bytes] = {}

    async def turn(self, model: str | None = None) -> Reply:
        request = ModelRequest(self.messages, TOOLS, model=model, thoughts=self.thoughts)
        async with asyncio.timeout(10):
            reply = await self.model.reply(request, lambda _: None)
        if thought := encode_thought(reply):
            self.thoughts[len(self.messages)] = thought
        self.messages = [*self.messages, encode_assistant(reply)]
        self.messages += [encode_tool_result(call.call_id, "x") for call in reply.calls]
        return reply


async def talked(answer: Callable[[Any], ScriptReply], turns: int) -> list[dict[str, Any]]:
    """The bodies of the requests of a conversation of so many turns."""
    async with ScriptedServer(answer) as server:
        talk = Conversation(server)
        for _ in range(turns):
            await talk.turn()
        await talk.model.aclose()
        return server.bodies()


def thoughts_in(body: dict[str, Any], name: str = "reasoning_content") -> list[Any]:
    return [message.get(name) for message in body["messages"] if message["role"] == "assistant"]


async def test_reasoning_stays_here_unless_the_server_asks_for_it() -> None:
    bodies = await talked(
        lambda request: stream({"reasoning_content": "hm"}, {"reasoning": "hm"}, a_call(request.turn)), 3
    )
    assert all(set(message) == {"role", "content", "tool_calls"} for message in bodies[-1]["messages"][2::2])


@pytest.mark.parametrize(
    "complaint",
    [
        "Missing `reasoning_content` field in the assistant message at message index 2.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    ],
)
async def test_a_server_that_wants_its_reasoning_back_is_asked_once_and_then_has_it(complaint: str) -> None:
    def answer(request: Any) -> ScriptReply:
        missing = [
            m
            for m in request.messages
            if m["role"] == "assistant" and not (m.get("reasoning_content") or "").strip("\n")
        ]
        if missing:
            return ScriptReply(status=400, text=complaint)
        thought = [] if request.turn == 1 else [{"reasoning_content": f"思考\n{request.turn}"}]
        return stream(*thought, a_call(request.turn))

    async with ScriptedServer(answer) as server:
        talk = Conversation(server)
        for _ in range(4):
            await talk.turn()
        await talk.model.aclose()
        bodies, raw = server.bodies(), list(server.requests)
    assert [thoughts_in(body) for body in bodies] == [
        [],
        [None],
        ["思考\n0"],
        ["思考\n0", " "],
        ["思考\n0", " ", "思考\n2"],
    ]
    accepted = [raw[0], *raw[2:]]
    for before, after in itertools.pairwise(accepted):
        assert after.startswith(before[: before.rindex(b"]")]), "what was accepted is not changed any more"


@pytest.mark.parametrize("field", ["reasoning", "thinking"])
async def test_reasoning_that_came_by_another_name_goes_back_by_the_one_asked_for(field: str) -> None:
    def answer(request: Any) -> ScriptReply:
        if request.turn and "reasoning_content" not in request.messages[2]:
            return ScriptReply(status=400, text="reasoning_content is missing")
        return stream({field: "hm"}, a_call(request.turn))

    bodies = await talked(answer, 2)
    assert thoughts_in(bodies[-1]) == ["hm"]


async def test_reasoning_that_stood_in_the_text_goes_back_by_the_name_asked_for() -> None:
    def answer(request: Any) -> ScriptReply:
        if request.turn and "reasoning_content" not in request.messages[2]:
            return ScriptReply(status=400, text="reasoning_content is missing")
        return stream({"content": "<think>hm</think>ok"}, a_call(request.turn))

    bodies = await talked(answer, 2)
    assert (bodies[-1]["messages"][2]["content"], thoughts_in(bodies[-1])) == ("ok", ["hm"])


async def test_what_was_learnt_of_one_model_is_not_held_for_another() -> None:
    def answer(request: Any) -> ScriptReply:
        if request.model == "strict" and request.turn and "reasoning_content" not in request.messages[2]:
            return ScriptReply(status=400, text="reasoning_content is missing")
        return stream({"reasoning_content": "hm"}, a_call(request.turn))

    async with ScriptedServer(answer) as server:
        talk = Conversation(server)
        for model in ("strict", "strict", "other"):
            await talk.turn(model)
        await talk.model.aclose()
        assert thoughts_in(server.bodies()[-1]) == [None, None]


async def test_a_refusal_that_goes_on_is_a_fault_after_one_more_request() -> None:
    def answer(request: Any) -> ScriptReply:
        return ScriptReply(status=400, text="reasoning_content is bad") if request.turn else stream(a_call(0))

    async with ScriptedServer(answer) as server:
        talk = Conversation(server)
        await talk.turn()
        for asked in (3, 4):
            with pytest.raises(ModelFault) as caught:
                await talk.turn()
            assert caught.value.key == "model.bad_request" and len(server.requests) == asked
        await talk.model.aclose()


async def test_a_refusal_that_no_other_request_can_mend_is_a_fault_at_once() -> None:
    async with ScriptedServer(lambda request: ScriptReply(status=400, text="no reasoning_details")) as server:
        talk = Conversation(server)
        with pytest.raises(ModelFault):
            await talk.turn()
        await talk.model.aclose()
        assert len(server.requests) == 1


async def test_blocks_of_reasoning_go_back_unread_and_unasked() -> None:
    secret = {"type": "reasoning.encrypted", "data": "gAAA==", "id": "rs_1", "format": "f", "index": 1}
    pieces = [
        {
            "reasoning": "Let me ",
            "reasoning_details": [{"type": "reasoning.text", "text": "Let me ", "index": 0}],
        },
        {"reasoning": "see.", "reasoning_details": [{"type": "reasoning.text", "text": "see.", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.text", "signature": "s==", "index": 0}, secret]},
    ]
    bodies = await talked(lambda request: stream(*pieces, a_call(request.turn)), 3)
    assert thoughts_in(bodies[-1], "reasoning_details") == [[DETAIL, secret]] * 2
    assert thoughts_in(bodies[-1], "reasoning") == [None, None]


async def test_blocks_of_reasoning_that_are_refused_stay_here_from_then_on() -> None:
    def answer(request: Any) -> ScriptReply:
        if any("reasoning_details" in message for message in request.messages):
            return ScriptReply(
                status=422, text="messages.2.reasoning_details: Extra inputs are not permitted"
            )
        return stream({"reasoning_details": [DETAIL]}, a_call(request.turn))

    bodies = await talked(answer, 3)
    assert [thoughts_in(body, "reasoning_details") for body in bodies] == [
        [],
        [[DETAIL]],
        [None],
        [None, None],
    ]


async def test_a_signature_goes_back_with_its_call_and_no_other() -> None:
    signed = {"google": {"thought_signature": "AbC+/=="}}

    def answer(request: Any) -> ScriptReply:
        calls = [one for message in request.messages for one in message.get("tool_calls") or ()]
        if any(one.get("extra_content") != (signed if "f0" in str(one) else None) for one in calls):
            return ScriptReply(status=400, text="Function call is missing a thought_signature")
        return stream(a_call(request.turn, **({"extra_content": signed} if request.turn == 0 else {})))

    assert len(await talked(answer, 3)) == 3


@pytest.mark.parametrize(
    ("chunks", "blocks"),
    [
        ([[{"type": "t", "text": "a"}], [{"type": "t", "text": "b"}]], [{"type": "t", "text": "ab"}]),
        (
            [[{"type": "t", "text": "a", "index": 0}, {"type": "t", "text": "b", "index": 1}]],
            [{"type": "t", "text": "a", "index": 0}, {"type": "t", "text": "b", "index": 1}],
        ),
        (
            [[{"type": "reasoning.encrypted", "data": "a"}], [{"type": "reasoning.encrypted", "data": "b"}]],
            [{"type": "reasoning.encrypted", "data": "a"}, {"type": "reasoning.encrypted", "data": "b"}],
        ),
        (
            [[{"type": "t", "text": "a", "id": "1"}], [{"type": "t", "text": "b", "id": "2"}]],
            [{"type": "t", "text": "a", "id": "1"}, {"type": "t", "text": "b", "id": "2"}],
        ),
        (
            [[{"type": "t", "text": "a"}], [{"type": "s", "summary": "b"}], [{"type": "t", "text": "c"}]],
            [{"type": "t", "text": "a"}, {"type": "s", "summary": "b"}, {"type": "t", "text": "c"}],
        ),
        (
            [
                [{"type": "t", "text": "a", "signature": None}],
                [{"type": "t", "text": None, "signature": "s"}],
            ],
            [{"type": "t", "text": "a", "signature": "s"}],
        ),
        ([[{}, {"id": [None]}]], [{"id": [None]}]),
        ([[{"id": ["a"]}, {"id": {"b": 1}}]], [{"id": ["a"]}, {"id": {"b": 1}}]),
        ([None, "x", [None, 1, "y"], {}], []),
    ],
)
def test_pieces_of_a_block_are_joined_and_blocks_are_not(chunks: list[Any], blocks: list[Any]) -> None:
    known: list[dict[str, Any]] = []
    for chunk in chunks:
        merge_details(known, chunk)
    assert known == blocks
