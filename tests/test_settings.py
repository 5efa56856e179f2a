"""The configuration: who may say what, who wins, and what the person is told."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Budget, EngineConfig, NotConfigured, Price
from maestro_lsp.settings import KEYS, InWorkspace, Loaded, Source, load_config, user_file

CONTRACT = {
    "": ("mode", "language", "piece", "pieces_dirs", "max_concurrency", "sandbox", "deny"),
    "llm": ("endpoint", "model", "api_key_env", "context_tokens", "timeout_minutes", "temperature"),
    "llm.": ("max_tokens", "headers", "extra_body", "workers"),
    "llm.retry": ("max_attempts", "backoff_ms", "retryable_status"),
    "safety": ("max_iterations", "text_only_limit", "repeated_calls", "revisit_limit", "ask_limit"),
    "safety.": ("max_ask_limit_deflections", "bash_timeout_s"),
    "context": ("warn", "prompt", "force", "exhausted"),
    "budget": ("tokens", "calls", "minutes", "cost"),
    "mcp": ("servers",),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without any configuration."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    return tmp_path


def write_user(text: str) -> None:
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(text, "utf-8")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "w" / ".maestro").mkdir(parents=True)
    return tmp_path / "w"


def write_workspace(workspace: Path, text: str) -> None:
    (workspace / ".maestro" / "config.yaml").write_text(text, "utf-8")


def load(environ: Mapping[str, str] | None = None, **more: Any) -> Loaded:
    return load_config(environ=environ or {}, **more)


def said(loaded: Loaded) -> list[str]:
    return [notice.text("en") for notice in loaded.warnings]


def test_every_key_of_the_contract_is_in_the_table() -> None:
    names = {f"{part.rstrip('.')}.{name}".lstrip(".") for part, rest in CONTRACT.items() for name in rest}
    assert len(names) == 36
    assert names <= set(KEYS)


def test_nothing_configured_is_the_default_without_a_word() -> None:
    assert load() == Loaded(EngineConfig(), (), {})


@pytest.mark.parametrize(
    ("sources", "winner"),
    [
        (("user",), "user"),
        (("user", "environment"), "environment"),
        (("user", "environment", "editor"), "editor"),
        (("user", "environment", "editor", "command"), "command"),
        (("user", "editor"), "editor"),
        (("environment", "command"), "command"),
    ],
)
def test_the_later_source_wins(sources: tuple[str, ...], winner: str) -> None:
    if "user" in sources:
        write_user("llm:\n  model: from-user\n")
    loaded = load(
        {"MAESTRO_MODEL": "from-environment"} if "environment" in sources else {},
        editor={"llm": {"model": "from-editor"}} if "editor" in sources else None,
        overrides={"llm.model": "from-command" if "command" in sources else None},
    )
    assert loaded.config.llm.model == f"from-{winner}"
    assert loaded.origins["llm.model"].source is Source[winner.upper()]
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("variable", "value", "read"),
    [
        ("MAESTRO_ENDPOINT", "http://h/v1", lambda c: c.llm.endpoint == "http://h/v1"),
        ("MAESTRO_LLM_ENDPOINT", "http://h/v1", lambda c: c.llm.endpoint == "http://h/v1"),
        ("MAESTRO_CONTEXT_TOKENS", "4096", lambda c: c.llm.context_tokens == 4096),
        ("MAESTRO_MODE", "ask", lambda c: c.mode == "ask"),
        ("MAESTRO_LANGUAGE", "ja", lambda c: c.language == "ja"),
        ("MAESTRO_MAX_CONCURRENCY", "2", lambda c: c.max_concurrency == 2),
        ("MAESTRO_MAX_ITERATIONS", "7", lambda c: c.safety.max_iterations == 7),
        ("MAESTRO_SAFETY_MAX_ITERATIONS", "7", lambda c: c.safety.max_iterations == 7),
        ("MAESTRO_BASH_TIMEOUT_S", "1.5", lambda c: c.safety.bash_timeout_s == 1.5),
        ("MAESTRO_CONTEXT_WARN", "0.5", lambda c: c.context.warn == 0.5),
        ("MAESTRO_BACKOFF_MS", "10, 20", lambda c: c.llm.backoff_ms == (10, 20)),
        ("MAESTRO_HEADERS", '{"x-a": "b"}', lambda c: c.llm.headers == {"x-a": "b"}),
        ("MAESTRO_EXTRA_BODY", '{"top_k": 1}', lambda c: c.llm.extra_body == {"top_k": 1}),
        ("MAESTRO_DENY", "Bash(git push, now)", lambda c: c.deny == ("Bash(git push, now)",)),
        ("MAESTRO_PIECES_DIRS", "/a, /b", lambda c: c.pieces_dirs == ("/a", "/b")),
        ("MAESTRO_SANDBOX", "require", lambda c: c.sandbox == "require"),
        ("MAESTRO_TEMPERATURE", "0", lambda c: c.llm.temperature == 0.0),
    ],
)
def test_every_key_has_a_variable(variable: str, value: str, read: Any) -> None:
    loaded = load({variable: value})
    assert read(loaded.config), loaded.config
    assert said(loaded) == []
    [origin] = loaded.origins.values()
    assert (origin.source, origin.place) == (Source.ENVIRONMENT, variable)


def test_no_two_keys_share_a_variable() -> None:
    variables = [variable for key in KEYS.values() for variable in key.variables]
    assert len(variables) == len(set(variables))


def test_an_empty_variable_is_none() -> None:
    assert load({"MAESTRO_MODEL": "", "MAESTRO_MODE": "  "}) == Loaded(EngineConfig(), (), {})


@pytest.mark.parametrize(
    "tree",
    [
        {"llm": {"contextTokens": 4096, "retry": {"maxAttempts": 1}}},
        {"maestro": {"llm": {"contextTokens": 4096, "retry": {"maxAttempts": 1}}}},
        {"llm.contextTokens": 4096, "maestro.llm.retry.maxAttempts": 1},
    ],
    ids=["section", "whole", "dotted"],
)
def test_editor_settings_are_camel_case_nested_or_dotted(tree: dict[str, Any]) -> None:
    loaded = load(editor=tree)
    assert (loaded.config.llm.context_tokens, loaded.config.llm.max_attempts) == (4096, 1)
    assert loaded.warnings == ()


def test_what_an_editor_leaves_empty_is_not_set() -> None:
    editor = {"mode": None, "llm": {"endpoint": "", "model": None}, "trace": {"server": "off"}}
    assert load(editor=editor) == Loaded(EngineConfig(), (), {})


def test_the_names_inside_headers_and_extra_body_are_left_as_they_are() -> None:
    editor = {"llm": {"headers": {"X-MyKey": "v"}, "extraBody": {"chatTemplate": {"enableThinking": False}}}}
    config = load(editor=editor).config
    assert config.llm.headers == {"X-MyKey": "v"}
    assert config.llm.extra_body == {"chatTemplate": {"enableThinking": False}}


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("llm:\n  endpont: x\n", "llm.endpoint"),
        ("lmm:\n  endpoint: x\n", "llm"),
        ("endpoint: x\n", "llm.endpoint"),
        ("context_token: 5\n", "llm.context_tokens"),
        ("mod: ask\n", "mode"),
        ("llm:\n  api_key: sk-secret\n", "llm.api_key_env"),
        ("safety:\n  maxiterations: 5\n", "safety.max_iterations"),
    ],
)
def test_an_unknown_key_is_a_warning_that_names_the_nearest(text: str, near: str) -> None:
    write_user(text)
    loaded = load()
    [sentence] = said(loaded)
    assert sentence.endswith(f"Did you mean “{near}”?")
    assert str(user_file()) in sentence
    assert "sk-secret" not in sentence
    assert loaded.config == EngineConfig()


def test_a_key_that_resembles_nothing_is_named_alone_and_an_editors_by_its_own_name() -> None:
    [sentence] = said(load(editor={"zzzzzz": 1}))
    assert sentence == "“maestro.zzzzzz” in settings is not a setting and has no effect. Remove it."
    [sentence] = said(load(editor={"llm": {"contextToken": 1}}))
    assert sentence.endswith("Did you mean “maestro.llm.contextTokens”?")


def test_a_mistyped_variable_is_told_and_another_programs_is_not() -> None:
    loaded = load(
        {"MAESTRO_ENDPONT": "http://x/v1", "MAESTRO_DRIVER_STARTUP_TIMEOUT": "5", "MAESTRO_STATE_DIR": "/x"}
    )
    assert said(loaded) == ["The variable MAESTRO_ENDPONT has no effect. Did you mean MAESTRO_ENDPOINT?"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("mode: aks\n", "“mode” in {file} must be one of plan, ask, edits, all; it is ignored."),
        ("mode: [ask]\n", "“mode” in {file} must be one of plan, ask, edits, all; it is ignored."),
        (
            "max_concurrency: 0\n",
            "“max_concurrency” in {file} must be a whole number from 1 on; it is ignored.",
        ),
        (
            "max_concurrency: yes\n",
            "“max_concurrency” in {file} must be a whole number from 1 on; it is ignored.",
        ),
        ("llm: {model: 5}\n", "“llm.model” in {file} must be a text; it is ignored."),
        (
            "llm: {context_tokens: many}\n",
            "“llm.context_tokens” in {file} must be a whole number from 1 on; it is ignored.",
        ),
        (
            "context: {warn: 70}\n",
            "“context.warn” in {file} must be a number above 0 and at most 1; it is ignored.",
        ),
        (
            "llm: {timeout_minutes: .inf}\n",
            "“llm.timeout_minutes” in {file} must be a number from 0 on; it is ignored.",
        ),
        ("llm: {headers: [a]}\n", "“llm.headers” in {file} must be keys with values; it is ignored."),
        ("deny: {a: b}\n", "“deny” in {file} must be a list of texts; it is ignored."),
        (
            "llm: {retry: {backoff_ms: [a]}}\n",
            "“llm.retry.backoff_ms” in {file} must be a list of whole numbers; it is ignored.",
        ),
        ("llm: 5\n", "“llm” in {file} must be keys with values; it is ignored."),
    ],
)
def test_a_wrong_type_is_a_warning_and_the_default(text: str, sentence: str) -> None:
    write_user(text)
    loaded = load()
    [told] = said(loaded)
    assert told.startswith(sentence.format(file=user_file()))
    assert loaded.config == EngineConfig()


def test_a_wrong_value_leaves_the_weaker_source_standing() -> None:
    write_user("mode: plan\n")
    loaded = load({"MAESTRO_MODE": "aks"})
    assert loaded.config.mode == "plan"
    assert said(loaded) == ["“mode” in MAESTRO_MODE must be one of plan, ask, edits, all; it is ignored."]


def test_a_bare_off_is_the_word_off_though_yaml_reads_false() -> None:
    write_user("sandbox: off\n")
    assert load().config.sandbox == "off"


@pytest.mark.parametrize(
    ("text", "key"),
    [("mode: [\n", "settings.broken"), ("- a\n", "settings.no_mapping"), ("{1: 2}\n", "settings.no_mapping")],
)
def test_a_user_file_that_is_no_mapping_stops_everything(text: str, key: str) -> None:
    write_user(text)
    with pytest.raises(NotConfigured) as caught:
        load()
    assert caught.value.key == key
    assert str(user_file()) in str(caught.value.values["path"])


def test_mcp_servers_are_known_but_come_later() -> None:
    write_user("mcp: {servers: {}}\n")
    [sentence] = said(load())
    assert "comes with a later version" in sentence


# -- workers and budgets

WORKERS = """
llm:
  endpoint: http://mine/v1
  model: big
  api_key_env: MY_KEY
  context_tokens: 9000
  temperature: 0.5
  headers: {x-team: a}
  workers:
    - id: small
      model: small-7b
      roles: [subtask, classifier]
      max_concurrency: 2
    - id: far
      endpoint: https://far/v1
      api_key_env: FAR_KEY
      retry: {max_attempts: 1, max_requeues: 2}
      price: {input: 3, cached: 0.3, output: 15}
      vlm: true
    - {id: old, model: old, enabled: false}
"""


def test_a_worker_sets_what_it_needs_and_takes_the_rest_from_llm() -> None:
    write_user(WORKERS)
    loaded = load({"MY_KEY": "mine-secret", "FAR_KEY": "far-secret"})
    assert loaded.warnings == ()
    main, small, far = loaded.config.model_workers
    assert (main.id, main.roles, main.llm) == ("default", ("main",), loaded.config.llm)
    assert (small.id, small.roles, small.max_concurrency) == ("small", ("subtask", "classifier"), 2)
    assert (small.llm.endpoint, small.llm.model) == ("http://mine/v1", "small-7b")
    assert (small.llm.api_key, small.llm.headers) == ("mine-secret", {"x-team": "a"})
    assert small.llm.context_tokens is None, "that is another model's"
    assert (far.llm.max_attempts, far.llm.max_requeues, far.llm.temperature) == (1, 2, 0.5)
    assert far.vlm and far.llm.price == Price(input=3, cached=0.3, output=15)
    assert [worker.id for worker in loaded.config.workers] == ["small", "far", "old"]
    assert {"mine-secret", "far-secret", "a"} <= set(loaded.config.secrets)


def test_a_key_does_not_travel_to_another_server() -> None:
    write_user(WORKERS.replace("      api_key_env: FAR_KEY\n", ""))
    far = load({"MY_KEY": "mine-secret", "MAESTRO_API_KEY": "mine-too"}).config.model_workers[2]
    assert (far.llm.api_key, far.llm.headers, far.llm.model) == ("", {}, "")


def test_workers_come_from_editor_and_environment_too() -> None:
    one = {"id": "a", "endpoint": "http://a/v1", "apiKeyEnv": "A", "maxConcurrency": 3, "contextTokens": 5}
    [worker] = load({"A": "k"}, editor={"llm": {"workers": [one]}}).config.workers
    assert (worker.max_concurrency, worker.llm.context_tokens, worker.llm.api_key) == (3, 5, "k")
    listed = '[{"id": "b", "endpoint": "http://b/v1", "roles": "default, subtask"}]'
    [worker] = load({"MAESTRO_WORKERS": listed}).config.workers
    assert (worker.id, worker.roles) == ("b", ("main", "subtask"))


def test_a_server_that_a_stronger_source_names_serves_every_job_that_names_none() -> None:
    write_user("llm: {workers: [{id: a, endpoint: 'http://a/v1', roles: [main, classifier]}]}\n")
    assert [worker.roles for worker in load().config.model_workers] == [("main", "classifier")]
    loaded = load({"MAESTRO_ENDPOINT": "http://e/v1"})
    assert [(w.id, w.roles) for w in loaded.config.model_workers] == [("default", ("main",)), ("a", ())]


def test_a_listed_worker_named_default_stands_for_the_one_of_the_endpoint() -> None:
    write_user("llm: {endpoint: 'http://a/v1', workers: [{id: default, model: m, roles: [main]}]}\n")
    [worker] = load().config.model_workers
    assert (worker.llm.endpoint, worker.llm.model) == ("http://a/v1", "m")


@pytest.mark.parametrize(
    ("workers", "sentence"),
    [
        ("5", "“llm.workers” in {place} must be a list of workers"),
        ("[a]", "“llm.workers” in {place} must be a list of workers"),
        ("[{id: a}]", "“llm.workers[0]” in {place} has no endpoint"),
        (
            "[{id: a, endpoint: 'http://a/v1'}, {id: a, endpoint: 'http://b/v1'}]",
            "“llm.workers[1]” in {place} has the id of a worker before it",
        ),
        (
            "[{id: a, endpoint: 'http://a/v1', modle: m}]",
            "“llm.workers[0].modle” in {place} is not a setting and has no effect. Did you mean “model”?",
        ),
        ("[{id: a, endpoint: 'http://a/v1', vlm: 3}]", "“llm.workers[0].vlm” in {place} must be true or"),
        (
            "[{id: a, endpoint: 'http://a/v1', price: {inptu: 1}}]",
            "“llm.workers[0].price” in {place} must be input, cached and output",
        ),
        (
            "[{id: a, endpoint: 'http://a/v1', retry: {backoff_ms: x}}]",
            "“llm.workers[0].retry.backoff_ms” in",
        ),
        (
            "[{id: a, endpoint: 'http://a/v1', roles: [boss]}]",
            "“llm.workers[0].roles” in {place} names a role",
        ),
        (
            "[{id: a, endpoint: 'http://a/v1', api_key_env: sk-pasted-here-1234567890}]",
            "“llm.workers[0].api_key_env” in {place} names a variable that is not set",
        ),
    ],
)
def test_what_is_wrong_with_a_worker_is_told_by_its_place(workers: str, sentence: str) -> None:
    write_user(f"llm: {{workers: {workers}}}\n")
    [told] = said(load())
    assert told.startswith(sentence.format(place=user_file()))
    assert "sk-pasted" not in told


def test_a_budget_is_read_and_a_workspace_may_only_make_it_smaller(workspace: Path) -> None:
    write_user("budget: {tokens: 500000, calls: 40}\nllm: {endpoint: 'http://a/v1', price: {input: 1}}\n")
    write_workspace(workspace, "budget: {tokens: 1000, calls: 90, cost: 0.5, minutes: 10}\n")
    loaded = load(workspace=workspace, trusted=True)
    assert loaded.config.budget == Budget(tokens=1000, calls=40, minutes=10, cost=0.5)
    assert said(loaded) == [
        "“budget.calls” in .maestro/config.yaml is less strict than your own setting and is ignored."
    ]
    assert load({"MAESTRO_BUDGET_MINUTES": "2.5"}).config.budget.minutes == 2.5


def test_a_budget_of_nothing_and_a_cost_without_a_price_are_told() -> None:
    write_user("budget: {minutes: 0}\n")
    [sentence] = said(load())
    assert "must be a number above 0" in sentence
    write_user("budget: {cost: 1}\n")
    [sentence] = said(load())
    assert "“budget.cost” has no effect, because no model has a price" in sentence


# -- the workspace


def test_a_workspace_file_counts_only_where_the_person_trusts_the_workspace(workspace: Path) -> None:
    write_workspace(workspace, "piece: chat\n")
    untrusted = load(workspace=workspace)
    assert untrusted.config.piece is None
    assert said(untrusted) == [
        ".maestro/config.yaml is not used until you trust this workspace: `maestro-lsp trust`."
    ]
    assert load(workspace=workspace, trusted=True).config.piece == "chat"
    assert load(workspace=workspace, overrides={"trusted": True}).config.piece == "chat"
    assert load(workspace=workspace, trusted=True, overrides={"trusted": False}).config.piece is None


def test_a_workspace_may_set_piece_language_and_context_limit(workspace: Path) -> None:
    write_user("piece: code\nllm: {context_tokens: 9}\n")
    write_workspace(workspace, "piece: chat\nlanguage: ja\ncontext_tokens: 4096\n")
    loaded = load(workspace=workspace, trusted=True)
    config = loaded.config
    assert (config.piece, config.language, config.llm.context_tokens) == ("chat", "ja", 4096)
    assert loaded.warnings == ()
    assert loaded.origins["piece"].source is Source.WORKSPACE


def test_environment_editor_and_command_line_win_over_the_workspace(workspace: Path) -> None:
    write_workspace(workspace, "piece: chat\n")
    assert load({"MAESTRO_PIECE": "code"}, workspace=workspace, trusted=True).config.piece == "code"
    assert load(editor={"piece": "code"}, workspace=workspace, trusted=True).config.piece == "code"


@pytest.mark.parametrize("name", [name for name, key in KEYS.items() if key.workspace is InWorkspace.REFUSED])
def test_everything_else_is_refused_with_a_warning_whoever_trusts_the_workspace(
    workspace: Path, name: str
) -> None:
    first, *rest = reversed(name.split("."))
    tree = f"{{{first}: 1}}"
    for part in rest:
        tree = f"{{{part}: {tree}}}"
    write_workspace(workspace, tree)
    loaded = load(workspace=workspace, trusted=True)
    assert loaded.config == EngineConfig()
    [sentence] = said(loaded)
    assert sentence.startswith(f"“{name}” is not taken from a workspace")


def test_what_could_hurt_is_refused() -> None:
    harmless = {name for name, key in KEYS.items() if key.workspace is not InWorkspace.REFUSED}
    budget = {f"budget.{name}" for name in ("tokens", "calls", "minutes", "cost")}
    assert harmless == {"mode", "language", "piece", "deny", "llm.context_tokens", *budget}


@pytest.mark.parametrize(
    ("mine", "its", "mode", "warned"),
    [
        ("edits", "ask", "ask", False),
        ("edits", "plan", "plan", False),
        ("ask", "edits", "ask", True),
        ("plan", "all", "plan", True),
        ("edits", "all", "edits", True),
        ("ask", "ask", "ask", False),
    ],
)
def test_a_workspace_makes_the_mode_stricter_never_looser(
    workspace: Path, mine: str, its: str, mode: str, warned: bool
) -> None:
    write_workspace(workspace, f"mode: {its}\n")
    for source in ({"environ": {"MAESTRO_MODE": mine}}, {"environ": {}, "editor": {"mode": mine}}):
        loaded = load_config(workspace=workspace, trusted=True, **source)  # type: ignore[arg-type]
        assert loaded.config.mode == mode
        assert bool(loaded.warnings) == warned


def test_the_command_line_is_the_persons_own_word_on_the_mode(workspace: Path) -> None:
    write_workspace(workspace, "mode: plan\n")
    assert load(workspace=workspace, trusted=True, overrides={"mode": "edits"}).config.mode == "edits"


def test_a_workspace_adds_to_deny_and_takes_nothing_away(workspace: Path) -> None:
    write_user("deny: [WebFetch]\n")
    write_workspace(workspace, "deny: [Bash(git push), WebFetch]\n")
    assert load(workspace=workspace, trusted=True).config.deny == ("WebFetch", "Bash(git push)")


def test_a_broken_workspace_file_is_a_warning(workspace: Path) -> None:
    write_workspace(workspace, "piece: [\n")
    [sentence] = said(load(workspace=workspace, trusted=True))
    assert ".maestro/config.yaml, line" in sentence


def test_a_link_for_a_workspace_file_is_not_followed(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.yaml").write_text("piece: chat\n")
    (workspace / ".maestro" / "config.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    loaded = load(workspace=workspace, trusted=True)
    assert loaded.config.piece is None
    assert "is not followed" in said(loaded)[0]


# -- keys


SECRET = "sk-0123456789-secret"


def test_the_key_comes_from_its_variable_or_from_the_one_that_is_named() -> None:
    assert load({"MAESTRO_API_KEY": SECRET}).config.llm.api_key == SECRET
    write_user("llm: {api_key_env: MY_KEY}\n")
    loaded = load({"MY_KEY": SECRET})
    assert loaded.config.llm.api_key == SECRET
    assert loaded.origins["llm.api_key"].place == "MY_KEY"


def test_the_stronger_source_names_the_key() -> None:
    environ = {"MAESTRO_API_KEY": "of-the-environment", "MY_KEY": "of-my-key"}
    write_user("llm: {api_key_env: MY_KEY}\n")
    assert load(environ).config.llm.api_key == "of-the-environment"
    assert load(environ, editor={"llm": {"apiKeyEnv": "MY_KEY"}}).config.llm.api_key == "of-my-key"


def test_a_named_variable_that_is_not_set_is_told() -> None:
    loaded = load({"MAESTRO_API_KEY_ENV": "MY_KEY"})
    assert said(loaded) == [
        "The variable MY_KEY, which llm.api_key_env names, is not set. Set it to the API key."
    ]


def test_a_key_pasted_where_a_name_belongs_is_told_and_never_repeated() -> None:
    loaded = load({"MAESTRO_API_KEY_ENV": SECRET})
    [sentence] = said(loaded)
    assert "not the key itself" in sentence
    assert SECRET not in sentence


def test_no_secret_is_in_the_repr_of_a_configuration_or_in_a_notice() -> None:
    environ = {"MAESTRO_API_KEY": SECRET}
    write_user(f"api_key: {SECRET}\nllm: {{api_key: {SECRET}, model: [{SECRET}], apikey: {SECRET}}}\n")
    loaded = load(environ)
    assert len(loaded.warnings) == 4
    assert SECRET not in repr(loaded)
    assert not [sentence for sentence in said(loaded) if SECRET in sentence]


# -- whatever comes


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from([*KEYS, *(part for name in KEYS for part in name.split("."))]) | st.text(max_size=15)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES, max_size=3), max_size=4))
def test_no_editor_can_send_settings_that_break_the_server(tree: dict[str, Any]) -> None:
    loaded = load(editor=tree)
    assert isinstance(loaded.config, EngineConfig)
    for notice in loaded.warnings:
        assert notice.text("en") and notice.text("ja")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("warn: 0.5\n  prompt: 0.5\n  force: 0.9\n  exhausted: 1.0", None),
        ("warn: 0.9", "context_order"),
        ("force: 0.8", "context_order"),
        ("exhausted: 0.9\n  result_share: 0.25", "context_order"),
    ],
)
def test_thresholds_out_of_order_are_worth_one_warning_and_count_as_not_set(
    given: str, told: str | None
) -> None:
    write_user(f"context:\n  {given}\n")
    loaded = load()
    limits = loaded.config.context
    assert limits.warn <= limits.prompt <= limits.force <= limits.exhausted
    assert [notice.key for notice in loaded.warnings] == ([f"settings.{told}"] if told else [])
    if told:
        assert (limits.warn, limits.force) == (0.70, 0.95)
        assert not any(name.endswith((".warn", ".force", ".exhausted")) for name in loaded.origins)
    if "result_share" in given:
        assert limits.result_share == 0.25, "what is in order stays"


# --- the keyring --------------------------------------------------------------------------------------------

KEYRING = """
def get_password(service, name):
    if name == "BROKEN_KEY":
        raise RuntimeError("no backend")
    return {("maestro-lsp", "HOUSE_KEY"): "sk-from-the-keyring"}.get((service, name))
"""


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package ``keyring`` as a person may have it beside us, with one password in it."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "keyring.py").write_text(KEYRING, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "keyring", raising=False)


@pytest.mark.usefixtures("keyring")
def test_a_key_that_no_variable_holds_is_looked_up_in_the_keyring_of_the_os() -> None:
    write_user("llm: {api_key_env: HOUSE_KEY}")
    loaded = load()
    assert (loaded.config.llm.api_key, said(loaded)) == ("sk-from-the-keyring", [])
    assert load({"HOUSE_KEY": "sk-variable"}).config.llm.api_key == "sk-variable"


@pytest.mark.usefixtures("keyring")
def test_a_worker_finds_its_key_in_the_keyring_too() -> None:
    write_user("llm: {workers: [{id: big, endpoint: 'http://127.0.0.1:1/v1', api_key_env: HOUSE_KEY}]}")
    assert load().config.workers[0].llm.api_key == "sk-from-the-keyring"


@pytest.mark.usefixtures("keyring")
@pytest.mark.parametrize("name", ["OTHER_KEY", "BROKEN_KEY"])
def test_a_keyring_that_holds_or_says_nothing_is_like_a_variable_that_is_not_set(name: str) -> None:
    write_user(f"llm: {{api_key_env: {name}}}")
    loaded = load()
    assert loaded.config.llm.api_key == ""
    assert [name in text for text in said(loaded)] == [True]
