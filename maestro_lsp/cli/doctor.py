"""`doctor`: what is configured, reachable and missing, and how to mend it. Keys are never printed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from engine import (
    EngineConfig,
    EngineError,
    ModelReport,
    ModelSettings,
    NotConfigured,
    WorkerSettings,
    check_model,
    explain,
    find_program,
    refuse_workspace,
    sandbox_level,
    state_dir,
)
from maestro_lsp import __version__
from maestro_lsp.cli.arguments import Namespace, Parser, Verb
from maestro_lsp.cli.errors import FAILED, SUCCEEDED
from maestro_lsp.cli.find import folder, has_store, opened
from maestro_lsp.cli.terminal import Terminal, clean
from maestro_lsp.display import public_url
from maestro_lsp.settings import KEYS, Loaded, is_variable_name, load_config, user_file

LOCAL_SERVERS = (("Ollama", 11434), ("llama-server", 8080), ("LM Studio", 1234))
_PROBE_S = 1.0
_MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "red"), "info": ("·", "dim")}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the page. ``bad`` means that no task could run."""

    state: Literal["ok", "warn", "bad", "info"]
    text: str


def _add(parser: Parser) -> None:
    parser.workspace()


def _doctor(args: Namespace, terminal: Terminal) -> int:
    findings = asyncio.run(Doctor(terminal, folder(args.workspace)).look())
    for finding in findings:
        mark, style = _MARKS[finding.state]
        terminal.line(f"{terminal.styled(mark, style)} {' '.join(clean(finding.text).split())}")
    bad = any(finding.state == "bad" for finding in findings)
    terminal.line()
    terminal.say("cli.doctor.cannot_run" if bad else "cli.doctor.can_run")
    return FAILED if bad else SUCCEEDED


class Doctor:
    """Looks at everything a task needs."""

    def __init__(self, terminal: Terminal, workspace: Path) -> None:
        self.terminal = terminal
        self.workspace = workspace

    def _finding(self, state: Literal["ok", "warn", "bad", "info"], key: str, /, **values: object) -> Finding:
        return Finding(state, self.terminal.text(f"cli.doctor.{key}", **values))

    def _error(self, error: EngineError) -> Finding:
        return Finding("bad", explain(error, self.terminal.language))

    async def look(self) -> list[Finding]:
        """Everything, in the order in which it is mended."""
        local = asyncio.create_task(self._local_servers())
        findings = [self._finding("info", "version", version=__version__, python=_python(), place=sys.prefix)]
        trusted = await self._trusted()
        try:
            loaded = load_config(workspace=self.workspace, trusted=trusted)
        except NotConfigured as error:
            return [*findings, self._error(error), *await local]
        findings += self._configured(loaded)
        findings += await self._workers(loaded.config)
        if loaded.config.model_workers and not any(finding.state == "bad" for finding in findings):
            local.cancel()
        else:
            findings += await local
        return [*findings, *self._state_folder(), *self._workspace_folder(trusted), *self._programs()]

    async def _trusted(self) -> bool:
        if not has_store(self.workspace):
            return False
        try:
            async with opened(self.workspace) as client:
                return await client.trusted()
        except EngineError:
            return False

    def _configured(self, loaded: Loaded) -> Iterator[Finding]:
        """Every value that is not at its default, with its place; of secrets only that they are there."""
        mine = user_file()
        yield self._finding("info", "user_file" if mine.is_file() else "no_user_file", path=str(mine))
        for name, origin in sorted(loaded.origins.items()):
            place = self.terminal.text(f"cli.doctor.from_{origin.source.name.lower()}", place=origin.place)
            yield self._finding(
                "info", "setting", key=name, value=self._shown(name, loaded.config), place=place
            )
        if not any(worker.llm.api_key for worker in loaded.config.model_workers):
            yield self._finding("info", "no_key")
        for notice in loaded.warnings:
            yield Finding("warn", notice.text(self.terminal.language))

    def _shown(self, name: str, config: EngineConfig) -> str:
        if name in ("llm.api_key", "llm.headers", "llm.extra_body"):
            return self.terminal.text("cli.doctor.hidden")
        if name == "llm.workers":
            return ", ".join(worker.id for worker in config.workers)
        value: object = config
        for part in (KEYS[name].field or "").split("."):
            value = getattr(value, part)
        text = str(value)
        pasted = not (is_variable_name(text) or text in os.environ)
        if (name == "llm.endpoint" and public_url(text) != text) or (name == "llm.api_key_env" and pasted):
            return self.terminal.text("cli.doctor.hidden")
        return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)

    async def _workers(self, config: EngineConfig) -> list[Finding]:
        if not config.model_workers:
            return [self._error(NotConfigured("config.no_endpoint"))]
        looks = (self._model(worker, config) for worker in config.model_workers)
        return [finding for found in await asyncio.gather(*looks) for finding in found]

    async def _model(self, worker: WorkerSettings, config: EngineConfig) -> list[Finding]:
        """One worker; where there are several, after a line that says which one it is."""
        llm, findings = worker.llm, []
        if config.workers:
            roles = ", ".join(worker.roles) or self.terminal.text("cli.doctor.by_name")
            findings = [self._finding("info", "worker", id=worker.id, roles=roles)]
        try:
            report = await check_model(llm)
        except EngineError as error:
            needed = not config.workers or "main" in worker.roles or worker is config.model_workers[0]
            findings.append(replace(self._error(error), state="bad" if needed else "warn"))
            if config.piece is None and not needed and worker is _classifier(config):
                findings.append(self._finding("warn", "no_classifier", id=worker.id))
            return findings
        findings.append(self._finding("ok", "reachable", endpoint=report.endpoint))
        if llm.model:
            key = "model_listed" if report.models else "model_not_checked"
            findings.append(self._finding("ok" if report.models else "info", key, model=llm.model))
        elif report.models:
            findings.append(self._finding("warn", "no_model", models=_models(report)))
        if report.context_tokens is not None:
            findings.append(self._finding("info", "context", tokens=report.context_tokens))
        elif llm.context_tokens is None:
            findings.append(self._finding("warn", "no_context", tokens=config.context.default_limit))
        return findings

    async def _local_servers(self) -> list[Finding]:
        """Model servers on this machine that could be used."""
        found = await asyncio.gather(*(self._local(name, port) for name, port in LOCAL_SERVERS))
        names = ", ".join(f"{name} ({port})" for name, port in LOCAL_SERVERS)
        return [finding for finding in found if finding] or [self._finding("info", "no_local", names=names)]

    async def _local(self, name: str, port: int) -> Finding | None:
        endpoint = f"http://127.0.0.1:{port}/v1"
        try:
            report = await check_model(ModelSettings(endpoint=endpoint), timeout_s=_PROBE_S)
        except EngineError:
            return None
        if not report.models:
            return self._finding("info", "local_no_model", name=name, endpoint=endpoint)
        values = {"endpoint": endpoint, "models": _models(report), "model": report.models[0]}
        return self._finding("info", "local", name=name, **values)

    def _state_folder(self) -> Iterator[Finding]:
        path = state_dir()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            writable = os.access(path, os.W_OK | os.X_OK)
        except OSError:
            writable = False
        yield self._finding(*(("ok", "state") if writable else ("bad", "state_not_writable")), path=str(path))

    def _workspace_folder(self, trusted: bool) -> Iterator[Finding]:
        try:
            refuse_workspace(self.workspace, state_dir())
        except EngineError as error:
            yield self._error(error)
            return
        yield self._finding("info", "trusted" if trusted else "untrusted", path=str(self.workspace))

    def _programs(self) -> Iterator[Finding]:
        for name in ("bash", "git", "rg"):
            path = find_program(name, self.workspace)
            if path is not None:
                yield self._finding("ok", "program", name=name, path=path)
            else:
                yield self._finding("warn", f"no_{name}")
        level = sandbox_level()
        yield self._finding("ok" if level == "A" else "warn", f"sandbox_{level.lower()}")


def _classifier(config: EngineConfig) -> WorkerSettings | None:
    """The worker that alone has a say where no piece is named: the first of that role."""
    return next((worker for worker in config.model_workers if "classifier" in worker.roles), None)


def _models(report: ModelReport) -> str:
    more = "" if len(report.models) <= 8 else ", …"
    return ", ".join(report.models[:8]) + more


def _python() -> str:
    return ".".join(map(str, sys.version_info[:3]))


VERBS = {"doctor": Verb(_doctor, _add)}
