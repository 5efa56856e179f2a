"""What the repairs take for granted about pygls: an update that changes it is noticed here, not by people."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from pygls.progress import Progress
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import JsonRPCProtocol

from maestro_lsp.ground.protocol import RepairedProtocol
from maestro_lsp.repairs import RepairedServer


def test_pygls_is_the_version_that_was_read() -> None:
    assert version("pygls").startswith("2.1.")


def test_every_private_method_that_is_overridden_still_exists_with_its_parameters() -> None:
    ours = (
        *(
            "_register_builtin_features",
            "_handle_request",
            "_handle_notification",
            "_handle_cancel_notification",
        ),
        *(
            "_execute_handler",
            "_send_handler_result",
            "_send_response",
            "_send_data",
            "notify",
            "send_request",
        ),
        *("lsp_initialize", "lsp_initialized", "lsp_shutdown", "lsp_exit", "lsp_workspace__execute_command"),
    )
    for name in ours:
        theirs = getattr(LanguageServerProtocol, name)
        assert name in vars(RepairedProtocol), name
        assert len(inspect.signature(theirs).parameters) == len(
            inspect.signature(vars(RepairedProtocol)[name]).parameters
        ), name
    assert {"callback", "msg_id", "handler"} <= set(
        inspect.signature(JsonRPCProtocol._execute_handler).parameters
    )


def test_every_private_attribute_that_is_used_is_there() -> None:
    protocol = RepairedServer("x", "0").protocol
    for name in (
        "_request_futures",
        "_result_types",
        "_ctx_msg_id",
        "_converter",
        "_shutdown",
        "_workspace",
        "fm",
    ):
        assert hasattr(protocol, name), name
    assert isinstance(protocol.progress, Progress)
    assert "textDocument/didChange" not in protocol.fm.builtin_features
    assert "workspace/didChangeWorkspaceFolders" in protocol.fm.builtin_features


def test_starting_imports_nothing_heavy_beyond_lsprotocol() -> None:
    script = "import sys, maestro_lsp.stdio; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    root = Path(__file__).parents[2]
    modules = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=True, timeout=30
    ).stdout
    for name in ("engine", "httpx", "yaml", "msgspec", "tiktoken", "regex", "sqlite3", "websockets"):
        assert f"'{name}'" not in modules, name
