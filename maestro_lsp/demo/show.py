"""What the demo is made of: arguments, the scripted model, a sample, a language server, a person."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine import BadArgument, catalogue, language_of_locale, story_server
from maestro_lsp import __version__
from maestro_lsp.cli.arguments import Parser
from maestro_lsp.cli.keyboard import Keyboard
from maestro_lsp.cli.terminal import Terminal, terminal_locale
from maestro_lsp.demo.client import LspClient
from maestro_lsp.demo.person import Person
from maestro_lsp.demo.play import Play
from maestro_lsp.demo.sample import make_sample, run_tests
from maestro_lsp.demo.screen import Screen
from maestro_lsp.demo.view import INDENT, Say, fact_rows, heading, row, wrapped

_WIDEST = 110
_DELAY_S = 0.02
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Options:
    """How the demo is run. ``keep`` is a folder that stays, None for a temporary one."""

    serve: bool
    editor: str | None
    port: int
    answer: str | None
    keep: Path | None
    speed: Literal["fast", "normal"]
    language: str


def run(argv: Sequence[str]) -> int:
    """Run the demo with these arguments; its exit status. Raises ``EngineError``."""
    terminal = Terminal()
    options = _options(argv, terminal)
    terminal.language = options.language
    say = catalogue(options.language)
    screen = Screen(terminal, min(terminal.columns(), _WIDEST) - (2 if terminal.tty else 0))
    try:
        if options.serve:
            return asyncio.run(_serve(screen, say, options))
        if options.editor is not None:
            return asyncio.run(_in_neovim(say, options))
        return asyncio.run(_demo(screen, say, options))
    except (KeyboardInterrupt, asyncio.CancelledError):
        screen.progress(None)
        screen.show([(), row((say("demo.interrupted"), "dim"))])
        return 0 if options.serve else _INTERRUPTED


def _options(argv: Sequence[str], terminal: Terminal) -> Options:
    interactive = terminal.interactive and terminal.tty
    parser = Parser(terminal, "demo")

    def add(name: str, key: str, **more: object) -> None:
        parser.add_argument(name, help=terminal.text(f"demo.arg.{key}").replace("%", "%%"), **more)  # type: ignore[arg-type]

    add("--serve", "serve", action="store_true")
    add("--editor", "editor", choices=("nvim",))
    add("--port", "port", type=int, metavar="N", default=0)
    add("--answer", "answer", metavar="TEXT")
    add("--keep", "keep", type=Path, metavar="DIR")
    add("--speed", "speed", choices=("fast", "normal"), default="normal" if interactive else "fast")
    add("--lang", "lang", choices=("en", "ja"), default=language_of_locale(terminal_locale()))
    read: argparse.Namespace = parser.read(list(argv))
    if not 0 <= read.port < 65536:
        raise BadArgument("demo.bad_port", port=read.port)
    if read.keep is not None and read.keep.exists() and any(read.keep.iterdir()):
        raise BadArgument("demo.keep_not_empty", path=str(read.keep))
    return Options(read.serve, read.editor, read.port, read.answer, read.keep, read.speed, read.lang)


# --- the demo -------------------------------------------------------------------------------------------


async def _demo(screen: Screen, say: Say, options: Options) -> int:
    terminal, columns = screen.terminal, screen.columns
    present = terminal.interactive and terminal.tty
    screen.show([heading(f"maestro-lsp {__version__} · demo", columns), *wrapped(say("demo.intro"), columns)])
    with _Folder(options.keep) as folder:
        workspace, state = folder / "shop", folder / "state"
        names = make_sample(workspace)
        state.mkdir()
        delay = _DELAY_S if options.speed == "normal" else 0.0
        argv = [sys.executable, "-I", "-m", "maestro_lsp", "--stdio"]
        async with _ended_by_signals(), story_server(delay=delay) as model:
            environment = _environment(model.base_url, state)
            async with LspClient.start(argv, environment, folder / "server.log") as client:
                facts = [
                    (
                        say("demo.fact.workspace"),
                        f"{workspace}  ({say('demo.fact.files', count=len(names))})",
                    ),
                    (say("demo.fact.server"), f"maestro-lsp --stdio, pid {client.process.pid}"),
                    (say("demo.fact.model"), f"{model.base_url}  ({say('demo.fact.scripted')})"),
                ]
                screen.show([(), *fact_rows(facts, columns)])
                if not present:
                    screen.show(wrapped(say("demo.no_terminal"), columns, "dim"))
                keyboard = Keyboard() if present else None
                person = Person(screen, say, keyboard, options.answer, options.speed == "normal")
                play = Play(client, screen, person, say, workspace, options.speed == "normal")
                succeeded = await play.run(say("demo.instruction"), options.language)
        return await _check(screen, say, workspace, options, succeeded)


async def _in_neovim(say: Say, options: Options) -> int:
    """The demo's task in a real Neovim, which a person works in as ever. Neovim's exit status."""
    from maestro_lsp.demo.nvim import run_nvim

    with _Folder(options.keep) as folder:
        make_sample(folder / "shop")
        (folder / "state").mkdir()
        delay = _DELAY_S if options.speed == "normal" else 0.0
        async with _ended_by_signals(), story_server(delay=delay) as model:
            environment = _environment(model.base_url, folder / "state")
            return await run_nvim(folder, environment, say, options.language)


async def _check(screen: Screen, say: Say, workspace: Path, options: Options, succeeded: bool) -> int:
    """Run the sample's tests ourselves: the model's word is not enough."""
    passed, told = await run_tests(workspace)
    mark = ("✓ ", "green") if passed else ("✗ ", "red")
    screen.show([row(INDENT, mark, say("demo.checked", told=told))])
    if options.keep is not None:
        screen.show([row(INDENT, (say("demo.kept", path=str(workspace)), "dim"))])
    if succeeded and passed:
        return 0
    screen.show(wrapped(say("demo.not_done"), screen.columns, "red"))
    return 1


def _environment(endpoint: str, state: Path) -> dict[str, str]:
    """The server's environment: the person's own, without any settings of theirs."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAESTRO_")}
    return {
        **own,
        "MAESTRO_ENDPOINT": endpoint,
        "MAESTRO_MODEL": "scripted",
        "MAESTRO_STATE_DIR": str(state),
        "XDG_CONFIG_HOME": str(state / "config"),
    }


class _Folder:
    """A folder for the demo: the person's own, which stays, or a temporary one."""

    def __init__(self, keep: Path | None) -> None:
        self._keep = keep
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Path:
        if self._keep is not None:
            self._keep.mkdir(parents=True, exist_ok=True)
            return self._keep.resolve()
        self._temporary = tempfile.TemporaryDirectory(prefix="maestro-demo-", ignore_cleanup_errors=True)
        return Path(self._temporary.name).resolve()

    def __exit__(self, *_: object) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()


@asynccontextmanager
async def _ended_by_signals() -> AsyncIterator[None]:
    """A terminal that is closed ends the demo as Ctrl-C does: in order."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    numbers = [
        number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
    ]
    for number in numbers:
        with suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, task.cancel)
    yield


# --- the model alone ------------------------------------------------------------------------------------


async def _serve(screen: Screen, say: Say, options: Options) -> int:
    """The scripted model as an endpoint for any editor, until Ctrl-C."""
    delay = _DELAY_S if options.speed == "normal" else 0.0
    try:
        server = await story_server(options.port, delay).__aenter__()
    except OSError as error:
        raise BadArgument("demo.port_taken", port=options.port, reason=error.strerror or str(error)) from None
    screen.show(
        [
            heading(f"maestro-lsp {__version__} · demo --serve", screen.columns),
            *wrapped(say("demo.serving", url=server.base_url), screen.columns),
            (),
            row(INDENT, (f"export MAESTRO_ENDPOINT={server.base_url}", "bold")),
            row(INDENT, ("export MAESTRO_MODEL=scripted", "bold")),
            (),
            *wrapped(say("demo.serving_how"), screen.columns),
        ]
    )
    try:
        await asyncio.Event().wait()
    finally:
        await server.__aexit__(None, None, None)
    return 0
