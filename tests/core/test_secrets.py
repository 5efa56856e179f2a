"""Protected and secret-looking names, and the redactor."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.secrets import (
    REDACTED,
    completes_bare_repository,
    is_git_path,
    is_task_record,
    path_class,
    redact,
)
from engine.core.tooling import PathClass

PLACES = [
    ("src/app.py", PathClass.WORKSPACE),
    ("", PathClass.WORKSPACE),
    ("engine/core/secrets.py", PathClass.WORKSPACE),
    ("src/credentials/model.py", PathClass.WORKSPACE),
    ("app/credentials_test.go", PathClass.WORKSPACE),
    (".env.example", PathClass.WORKSPACE),
    (".env.local.sample", PathClass.WORKSPACE),
    (".environment", PathClass.WORKSPACE),
    (".github/workflows/ci.yml", PathClass.WORKSPACE),
    (".gitignore", PathClass.WORKSPACE),
    ("AGENTS.md", PathClass.WORKSPACE),
    ("keys/id_rsa.pub", PathClass.WORKSPACE),
    ("id_generator.py", PathClass.WORKSPACE),
    ("駒/pieces.yaml", PathClass.WORKSPACE),
    (".env", PathClass.SECRET),
    (".env.production", PathClass.SECRET),
    ("sub/.ENV", PathClass.SECRET),
    (".e\u200bnv", PathClass.SECRET),
    ("．env", PathClass.SECRET),
    (".envrc", PathClass.SECRET),
    ("prod.env", PathClass.SECRET),
    ("id_rsa", PathClass.SECRET),
    ("id_ed25519.bak", PathClass.SECRET),
    ("tls/server.pem", PathClass.SECRET),
    ("tls/server.KEY", PathClass.SECRET),
    ("credentials", PathClass.SECRET),
    ("config/credentials.json", PathClass.SECRET),
    ("secrets.yaml", PathClass.SECRET),
    ("gcp-service-account.json", PathClass.SECRET),
    (".netrc", PathClass.SECRET),
    (".npmrc", PathClass.SECRET),
    (".pypirc", PathClass.SECRET),
    (".aws/config", PathClass.SECRET),
    ("home/.ssh/known_hosts", PathClass.SECRET),
    (".git/credentials", PathClass.SECRET),
    (".git/config", PathClass.PROTECTED),
    (".GIT/hooks/pre-commit", PathClass.PROTECTED),
    (".git::$INDEX_ALLOCATION/config", PathClass.PROTECTED),
    ("GIT~1/config", PathClass.PROTECTED),
    (".g\u200dit/config", PathClass.PROTECTED),
    (".git. /config", PathClass.PROTECTED),
    ("sub/.git", PathClass.PROTECTED),
    (".vscode/settings.json", PathClass.PROTECTED),
    ("sub/.vscode/tasks.json", PathClass.PROTECTED),
    (".idea/workspace.xml", PathClass.PROTECTED),
    (".cursor/mcp.json", PathClass.PROTECTED),
    (".claude/settings.json", PathClass.PROTECTED),
    (".husky/pre-commit", PathClass.PROTECTED),
    (".mcp.json", PathClass.PROTECTED),
    ("x.code-workspace", PathClass.PROTECTED),
    (".maestro/config.yaml", PathClass.PROTECTED),
    (".maestro/pieces/a.yaml", PathClass.PROTECTED),
    ("pieces/run.yaml", PathClass.PROTECTED),
    (".maestro", PathClass.PROTECTED),
    (".maestro/tasks/t-1/output/report.md", PathClass.TASK),
    (".maestro/tasks/t-1/logs/lessons.jsonl", PathClass.TASK),
    (".maestro/tasks/t-1/input/.env", PathClass.SECRET),
    (".maestro/tasks/t-1/output/.git/config", PathClass.PROTECTED),
    ("../x", PathClass.OUTSIDE),
    ("a/../../x", PathClass.OUTSIDE),
    ("a\0b", PathClass.OUTSIDE),
]


@pytest.mark.parametrize(("path", "kind"), PLACES, ids=[repr(path) for path, _ in PLACES])
def test_a_path_is_classed_by_its_folded_parts(path: str, kind: PathClass) -> None:
    assert path_class(tuple(path.split("/")) if path else ()) is kind


def test_a_part_with_a_slash_is_no_part() -> None:
    assert path_class(("/etc", "passwd")) is PathClass.OUTSIDE


@given(st.lists(st.text(min_size=1, max_size=6), max_size=3), st.sampled_from([".git", ".vscode", ".idea"]))
def test_a_protected_folder_protects_at_any_depth(parts: list[str], folder: str) -> None:
    assert path_class((*parts, folder, "x")) is not PathClass.WORKSPACE


@pytest.mark.parametrize(
    ("path", "record"),
    [
        (".maestro/tasks/t-1/output/a.md", False),
        (".maestro/tasks/t-1/input/a.md", False),
        (".maestro/tasks/t-1/logs/a.jsonl", True),
        (".maestro/tasks/t-1/ASK.md", True),
        (".maestro/tasks/t-1/output", True),
        (".maestro/tasks/t-2/output/a.md", True),
        (".maestro/tasks/.gitignore", True),
        (".Maestro/tasks/t-1/LOGS/a", True),
        ("tasks/a.md", False),
    ],
)
def test_only_input_and_output_of_the_own_task_are_no_records(path: str, record: bool) -> None:
    assert is_task_record(tuple(path.split("/")), "t-1") is record


def test_git_paths_are_known_at_any_depth() -> None:
    assert is_git_path(("a", ".GIT", "config"))
    assert not is_git_path((".gitignore",))


@pytest.mark.parametrize(
    ("siblings", "name", "completes"),
    [
        (["HEAD", "objects", "refs"], "config", True),
        (["config", "objects", "refs"], "HEAD", True),
        (["HEAD", "objects"], "config", False),
        (["HEAD", "objects", "refs", "config"], "notes.md", False),
    ],
)
def test_a_write_that_completes_a_bare_repository_is_seen(
    siblings: list[str], name: str, completes: bool
) -> None:
    assert completes_bare_repository(siblings, name) is completes


KEY_BLOCK = (
    "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq9\n" * 5 + "-----END RSA PRIVATE KEY-----"
)
SECRET_TEXTS = [
    ("key sk-proj-a1b2c3d4e5f6g7h8i9j0", f"key {REDACTED}"),
    ("ghp_" + "a1" * 18 + " x", f"{REDACTED} x"),
    ("AKIAIOSFODNN7EXAMPLE", REDACTED),
    ("xoxb-123456789012-abc", REDACTED),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.abcdefghijkl_", REDACTED),
    ("Authorization: Bearer abcdefgh", f"Authorization: Bearer {REDACTED}"),
    ('"authorization": "Basic dXNlcjpwYXNz"', f'"authorization": "Basic {REDACTED}"'),
    ("bearer abcdef0123456789", f"bearer {REDACTED}"),
    ("https://user:hunter2@llm.test/v1", f"https://user:{REDACTED}@llm.test/v1"),
    ("postgres://u:p@ss@db/x", f"postgres://u:{REDACTED}@db/x"),
    (f"a\n{KEY_BLOCK}\nb", f"a\n{REDACTED}\nb"),
    (KEY_BLOCK.replace("\n", "\\n") + '"', f'{REDACTED}"'),
    ("x-api-key: abcdefghij", f"x-api-key: {REDACTED}"),
]


@pytest.mark.parametrize(("text", "shown"), SECRET_TEXTS, ids=[shown[:30] for _, shown in SECRET_TEXTS])
def test_what_is_shaped_like_a_secret_is_redacted(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn and task-force-one-of-many-people are no keys",
        "the bearer of this letter; Bearer authentication is used",
        "basic understanding of authorization",
        "http://localhost:8080/v1 and user@example.org",
        "see https://example.org/a:b@c",
        'if line.startswith("-----BEGIN RSA PRIVATE KEY-----"):',
        "api_key = os.environ['API_KEY']",
        "見積もりを確認してください",
        "commit 3f2a9c1e5b7d8f60a1b2c3d4e5f60718293a4b5c",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


def test_known_values_go_in_every_form_they_may_take() -> None:
    secret = 'pä"ss/wörd'
    text = f"{secret} p%C3%A4%22ss%2Fw%C3%B6rd " + 'pä\\"ss/wörd'
    assert redact(text, [secret]) == f"{REDACTED} {REDACTED} {REDACTED}"


def test_a_longer_known_value_goes_before_the_one_it_contains() -> None:
    assert redact("secret-key-long secret-key", ["secret-key", "secret-key-long"]) == f"{REDACTED} {REDACTED}"


def test_very_short_known_values_do_not_shred_the_text() -> None:
    assert redact("a banana", ["a", ""]) == "a banana"


@given(
    st.lists(st.one_of(st.sampled_from([t for t, _ in SECRET_TEXTS]), st.text(max_size=8)), max_size=5).map(
        " ".join
    ),
    st.lists(st.text(min_size=6, max_size=10), max_size=2),
)
def test_redacting_twice_changes_nothing_more_and_no_known_value_stays(text: str, known: list[str]) -> None:
    once = redact(text + " ".join(known), known)
    assert redact(once, known) == once
    assert not any(secret in once for secret in known if secret not in REDACTED)


HOSTILE = [
    "-----BEGIN RSA PRIVATE KEY-----" * 20_000,
    "eyJ" * 200_000,
    "eyJaaaaaaaaaaa.eyJaaaaaaaaaaa." * 20_000,
    "http://a:" * 60_000,
    "a" * 600_000,
    "sk-" * 200_000,
    "bearer " * 90_000,
    "authorization: bearer " * 30_000,
    "ghp_" * 150_000,
    "AKIA" * 150_000,
    "A" * 300_000 + "://" + ":" * 300_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:12] for text in HOSTILE])
def test_redacting_is_linear_in_hostile_text(text: str) -> None:
    start = time.perf_counter()
    redact(text)
    assert time.perf_counter() - start < 3
