"""Each fault of a model server is one clear sentence in two languages, and never shows a key."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import ContextOverflow, ModelFault, NotConfigured
from engine.endpoint import parse_endpoint
from engine.llm.faults import HttpError, http_fault, retry_wait, stream_fault
from engine.llm.ids import looks_random, random_id
from engine.llm.request import retry_after_s
from engine.llm.worker_config import ModelWorker

KEY = "sk-test-4f5g6h7j8k9l0m1n2b3v"
WORKER = ModelWorker("w", "http://127.0.0.1:8080", "qwen", api_key=KEY, headers={"x-team": "team-secret-77"})
MESSAGES = Path(__file__).parents[2] / "engine" / "messages"


def error(status: int, body: Any, **fields: Any) -> HttpError:
    return HttpError(status, body if isinstance(body, bytes) else json.dumps(body).encode(), **fields)


def openai(message: str, **fields: Any) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", **fields}}


OVERFLOWS: dict[str, tuple[int, Any, int | None]] = {
    "llama-server": (
        400,
        {
            "error": {
                "code": 400,
                "message": "request (13392 tokens) exceeds the available context size (8192 tokens)",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 13392,
                "n_ctx": 8192,
            }
        },
        8192,
    ),
    "llama-server, older": (
        400,
        openai("the request exceeds the available context size. try increasing the context size"),
        None,
    ),
    "llama-server as 500": (
        500,
        {
            "error": {
                "code": 500,
                "message": "context size exceeded",
                "type": "exceed_context_size_error",
                "n_ctx": 4096,
            }
        },
        4096,
    ),
    "a gateway that wraps the body": (
        400,
        {"detail": '{"error":{"message":"request exceeds the available context size (2048 tokens)"}}'},
        2048,
    ),
    "OpenAI": (
        400,
        openai(
            "This model's maximum context length is 128000 tokens. However, yours are 130001 tokens.",
            param="messages",
            code="context_length_exceeded",
        ),
        128000,
    ),
    "OpenAI, newer": (
        400,
        openai("Your input exceeds the context window of this model.", code="context_length_exceeded"),
        None,
    ),
    "vLLM": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000.",
            "type": "BadRequestError",
            "code": 400,
        },
        4096,
    ),
    "vLLM, max_tokens": (
        400,
        openai(
            "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context "
            "length is 4096 tokens and your request has 2104 input tokens"
        ),
        4096,
    ),
    "vLLM, prompt": (
        400,
        openai("The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
        4096,
    ),
    "LM Studio": (
        400,
        {
            "error": "Trying to keep the first 13120 tokens when context the overflows. However, the model "
            "is loaded with context length of only 4096 tokens, which is not enough."
        },
        4096,
    ),
    "LM Studio, newer": (
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the context "
            "length (n_keep: 10247 >= n_ctx: 4096)."
        },
        4096,
    ),
    "LM Studio without figures": (
        400,
        {"error": "The number of tokens to keep from the initial prompt is greater than the context length."},
        None,
    ),
    "Ollama": (400, {"error": "the input length exceeds the context length"}, None),
    "Ollama as 500": (500, {"error": {"message": "input length exceeds maximum context length"}}, None),
    "OpenRouter": (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": '{"message":"This endpoint\'s maximum context length is 32,768 tokens."}'
                },
            }
        },
        32768,
    ),
    "Anthropic-like": (400, openai("prompt is too long: 210000 tokens > 200000 maximum"), 200000),
    "Gemini": (
        400,
        openai("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        1048576,
    ),
    "Mistral": (
        400,
        {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"},
        32768,
    ),
    "SGLang": (
        400,
        openai("The input (5000 tokens) is longer than the model's context length (4096 tokens)."),
        4096,
    ),
    "llama-cpp-python": (400, openai("Requested tokens (5000) exceed context window of 4096"), 4096),
    "Groq": (413, openai("Request too large for model", code="rate_limit_exceeded"), None),
    "a proxy": (413, b"<html><title>413 Request Entity Too Large - payload too large</title></html>", None),
}


@pytest.mark.parametrize("server", OVERFLOWS)
def test_every_wording_of_a_too_long_prompt_is_recognised_with_its_limit(server: str) -> None:
    status, body, limit = OVERFLOWS[server]
    fault = http_fault(WORKER, error(status, body))
    assert isinstance(fault, ContextOverflow) and fault.limit == limit and not fault.retryable


def test_an_overflow_inside_a_stream_is_one_too() -> None:
    _, body, _ = OVERFLOWS["llama-server"]
    fault = stream_fault(WORKER, body["error"])
    assert isinstance(fault, ContextOverflow) and fault.limit == 8192


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Invalid value for 'max_tokens'"),
        (500, "out of memory while allocating the context"),
        (429, "Rate limit reached: tokens per minute, please reduce the length of the messages"),
        (400, "unexpected character at column 5"),
    ],
)
def test_other_errors_are_no_overflow(status: int, message: str) -> None:
    assert not isinstance(http_fault(WORKER, error(status, openai(message))), ContextOverflow)


def test_a_request_that_the_server_echoes_is_not_searched() -> None:
    echo = {
        "detail": [{"loc": ["body", "x"], "msg": "bad", "input": "the maximum context length is 5 tokens"}]
    }
    assert http_fault(WORKER, error(422, echo)).key == "model.bad_request"


@pytest.mark.parametrize(
    ("given", "key", "retryable"),
    [
        (error(401, openai("Incorrect API key")), "model.bad_key", False),
        (error(403, openai("no access")), "model.forbidden", False),
        (error(402, openai("Insufficient Balance")), "model.no_credit", False),
        (error(404, b""), "model.not_found", False),
        (error(404, openai("The model `qwen` does not exist.")), "model.unknown_model", False),
        (error(404, {"error": 'model "qwen" not found, try pulling it first'}), "model.unknown_model", False),
        (error(400, openai("qwen is not a valid model ID")), "model.unknown_model", False),
        (error(429, openai("slow down")), "model.rate_limited", True),
        (
            error(429, openai("You exceeded your current quota", code="insufficient_quota")),
            "model.no_credit",
            False,
        ),
        (error(500, b"oops"), "model.server_error", True),
        (error(501, b"oops"), "model.server_error", False),
        (error(503, openai("Loading model", type="unavailable_error")), "model.loading", True),
        (error(503, b"<html><title>503 busy</title></html>"), "model.server_error", True),
        (error(400, openai("bad field")), "model.bad_request", False),
        (error(302, b"", location="https://user:pw@login.test/x?token=1"), "model.redirect", False),
    ],
)
def test_each_status_has_its_own_sentence(given: HttpError, key: str, retryable: bool) -> None:
    fault = http_fault(WORKER, given)
    assert (fault.key, fault.retryable) == (key, retryable)
    for language in ("en", "ja"):
        sentence = catalogue(language)[key].format(**fault.values)
        assert "pw" not in sentence and "token=1" not in sentence


def test_a_404_names_the_models_that_the_server_lists() -> None:
    fault = http_fault(WORKER, error(404, b""), ("llama", "gemma"))
    assert (fault.key, fault.data["known"]) == ("model.unknown_model", ["llama", "gemma"])
    assert "llama, gemma" in catalogue("en")[fault.key].format(**fault.values)
    assert http_fault(WORKER, error(404, b""), ("qwen",)).key == "model.not_found"


def test_without_a_key_a_401_says_that_one_is_needed() -> None:
    assert http_fault(ModelWorker("w", "http://h", "m"), error(401, b"")).key == "model.key_missing"


@pytest.mark.parametrize(
    "message",
    [
        f"headers were: authorization: Bearer {KEY}, x-team: team-secret-77",
        f"Incorrect API key provided: {KEY}",
        f"connecting to http://me:{KEY}@host failed",
        f"\x1b[31mred\x1b[0m {KEY}\nnext line",
        "Bearer abcdef123456789012345 is wrong",
    ],
)
def test_no_error_text_holds_a_key_a_header_or_control_characters(message: str) -> None:
    for fault in (
        http_fault(WORKER, error(403, openai(message))),
        stream_fault(WORKER, {"message": message}),
    ):
        text = f"{fault} {fault.values} {fault.data}"
        assert KEY not in text and "team-secret-77" not in text and "abcdef1234567890" not in text
        assert "\x1b" not in text and "\\x1b" not in text and "next line" not in text


def test_long_error_texts_are_cut() -> None:
    fault = http_fault(WORKER, error(500, b"x" * 100_000))
    assert len(str(fault.values["detail"])) == 300


def test_the_worker_never_shows_its_key_or_headers() -> None:
    assert KEY not in repr(WORKER) and "team-secret" not in repr(WORKER)


def test_waits_are_those_of_the_specification() -> None:
    def waits(fault: ModelFault, **fields: Any) -> list[float | None]:
        return [
            retry_wait(WORKER, fault, failures, first_of_run=fields.get("first", False))
            for failures in range(4)
        ]

    again = ModelFault("model.server_error", retryable=True)
    refused = ModelFault("model.refused", retryable=True)
    assert waits(again) == waits(again, first=True) == waits(refused) == [2, 5, 15, None]
    assert waits(refused, first=True) == [None] * 4
    assert waits(ModelFault("model.bad_key")) == [None] * 4
    asked = [ModelFault("x", retryable=True, data={"retryAfter": seconds}) for seconds in (1, 30, 999)]
    assert [waits(fault)[:2] for fault in asked] == [[2, 5], [30, 30], [60, 60]]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, now=10.0) == seconds


@pytest.mark.parametrize(
    ("url", "base", "root"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080"),
        (" http://localhost:1/v1/ ", "http://localhost:1/v1", "http://localhost:1"),
        ("http://localhost:1/v1/chat/completions", "http://localhost:1/v1", "http://localhost:1"),
        ("HTTPS://api.test/openai", "https://api.test/openai/v1", "https://api.test/openai"),
        (
            "https://api.test/v1beta/openai/",
            "https://api.test/v1beta/openai",
            "https://api.test/v1beta/openai",
        ),
        ("https://api.test/api/paas/v4", "https://api.test/api/paas/v4", "https://api.test/api/paas/v4"),
        ("http://[::1]:9/v1", "http://[::1]:9/v1", "http://[::1]:9"),
    ],
)
def test_an_endpoint_may_end_with_v1_or_not(url: str, base: str, root: str) -> None:
    endpoint = parse_endpoint(url)
    assert (endpoint.base, endpoint.root) == (base, root)
    assert endpoint.loopback == any(name in url for name in ("127.0.0.1", "localhost", "::1"))


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("", "model.no_endpoint"),
        ("127.0.0.1:8080", "model.url_scheme"),
        ("ftp://h/v1", "model.url_scheme"),
        ("http://user:hunter22@h/v1", "model.url_userinfo"),
        ("https://llm.test@evil.test/v1", "model.url_userinfo"),
        ("http:///v1", "model.url_invalid"),
        ("http://h:port/v1", "model.url_invalid"),
        ("http://h:99999/v1", "model.url_invalid"),
        ("http://h/v1?key=hunter22", "model.url_invalid"),
        ("http://h/v1#x", "model.url_invalid"),
        ("http://h\\@evil/v1", "model.url_userinfo"),
        ("http://h\\x/v1", "model.url_invalid"),
        ("http://a b/v1", "model.url_invalid"),
        ("http://[::1/v1", "model.url_invalid"),
    ],
)
def test_a_bad_endpoint_is_refused_without_repeating_it(url: str, key: str) -> None:
    with pytest.raises(NotConfigured) as caught:
        ModelWorker("w", url, "m")
    assert caught.value.key == key and caught.value.data["setting"] == "llm.endpoint"
    assert (
        "hunter22"
        not in f"{caught.value} {caught.value.values} {caught.value.data} {caught.value.__context__}"
    )


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"api_key": "two words"}, "model.key_unusable"),
        ({"api_key": "鍵"}, "model.key_unusable"),
        ({"api_key": "a\nb"}, "model.key_unusable"),
        ({"headers": {"x": "a\r\nhost: evil"}}, "model.header_unusable"),
        ({"extra_body": {"messages": []}}, "model.extra_body_reserved"),
    ],
)
def test_a_setting_that_would_break_requests_is_refused(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(NotConfigured) as caught:
        ModelWorker("w", "http://h", "m", **fields)
    assert caught.value.key == key


def test_a_key_with_a_line_break_after_it_is_taken_without() -> None:
    assert ModelWorker("w", "http://h", "m", api_key=" k1234\n").api_key == "k1234"


@pytest.mark.parametrize(
    "counted", ["0", "1", "call_1", "call_0001", "functions.Read:0", "call_00000001", "", "--"]
)
def test_ids_that_count_are_not_kept(counted: str) -> None:
    assert not looks_random(counted)


@pytest.mark.parametrize(
    "given",
    [
        "call_Ab3dE5gH1jK2mN4p",
        "chatcmpl-tool-0f9a8b7c6d5e4f",
        "call_8f3k2m9q",
        "372915846",
        pytest.param(random_id(), id="ours"),
    ],
)
def test_random_ids_are_kept(given: str) -> None:
    assert looks_random(given)


def catalogue(language: str) -> dict[str, str]:
    table = tomllib.loads((MESSAGES / f"model.{language}.toml").read_text("utf-8"))["model"]
    return {f"model.{name}": text for name, text in table.items()}


def test_every_key_has_a_sentence_in_both_languages_with_the_same_values() -> None:
    engine = MESSAGES.parent
    files = [engine / "endpoint.py", *(engine / "llm").glob("*.py")]
    source = "".join(path.read_text("utf-8") for path in files)
    used = set(re.findall(r'"(model\.[a-z_]+)"', source)) | {"model.context_overflow"}
    english, japanese = catalogue("en"), catalogue("ja")
    assert used == set(english) == set(japanese)
    for key in used:
        names = [set(re.findall(r"\{(\w+)\}", text[key])) for text in (english, japanese)]
        assert names[0] == names[1], key
