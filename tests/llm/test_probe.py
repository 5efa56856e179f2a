"""What servers say about their context and slots, as bodies of each."""

from typing import Any

import pytest

from engine.llm.probe import model_ids, models_context, ollama_context, props_context, props_slots


@pytest.mark.parametrize(
    ("props", "context", "slots"),
    [
        ({"default_generation_settings": {"n_ctx": 4096, "params": {}}, "total_slots": 4}, 4096, 4),
        ({"n_ctx": 2048}, 2048, None),
        ({"default_generation_settings": {"n_ctx": 0}, "total_slots": 0}, None, None),
        ({"default_generation_settings": None, "total_slots": True}, None, None),
        ([], None, None),
        (None, None, None),
    ],
)
def test_llama_server(props: Any, context: int | None, slots: int | None) -> None:
    assert (props_context(props), props_slots(props)) == (context, slots)


@pytest.mark.parametrize(
    ("entry", "context"),
    [
        ({"max_model_len": 32768}, 32768),
        ({"context_length": 131072, "top_provider": {"context_length": 65536}}, 131072),
        ({"context_window": 8192}, 8192),
        ({"max_context_length": 131072, "loaded_context_length": 4096}, 4096),
        ({"meta": {"n_ctx_train": 40960}}, 40960),
        ({"meta": {"n_ctx_train": 40960, "n_ctx": 8192}}, 8192),
        ({"max_model_len": "big"}, None),
        ({}, None),
    ],
)
def test_lists_of_models(entry: dict[str, Any], context: int | None) -> None:
    other = {"id": "other", "context_length": 1}
    assert models_context({"data": [other, {"id": "m", **entry}]}, "m") == context
    assert models_context({"data": [{"id": "a-path.gguf", **entry}]}, "m") == context, (
        "the only one must be ours"
    )
    assert models_context({"data": [other, {"id": "x", **entry}]}, "m") is None


@pytest.mark.parametrize("body", [None, [], {}, {"data": None}, {"data": [1]}, "x"])
def test_bodies_that_are_no_list_of_models(body: Any) -> None:
    assert models_context(body, "m") is None and model_ids(body) == ()


SHOWN = {
    "parameters": 'temperature 0.6\nnum_ctx      16384\nstop "x"',
    "model_info": {"qwen3.context_length": 262144},
}


@pytest.mark.parametrize(
    ("running", "shown", "context"),
    [
        ({"models": [{"name": "qwen3:latest", "context_length": 4096}]}, SHOWN, 4096),
        ({"models": [{"name": "other", "context_length": 4096}]}, SHOWN, 16384),
        ({"models": []}, SHOWN, 16384),
        ({"models": []}, {"model_info": {"qwen3.context_length": 262144}}, None),
        ({"models": []}, None, None),
        ({"models": "x"}, {"parameters": 5}, None),
    ],
)
def test_ollama_says_what_it_loads_and_not_what_the_model_could(
    running: Any, shown: Any, context: int | None
) -> None:
    assert ollama_context(running, shown, "qwen3") == context
