"""What the person configured: files, environment, editor and command line, merged into one ``EngineConfig``.

One table (``KEYS``) says of every key its name, its type, its variables and whether a workspace may set it.
Order, later wins: defaults; the user's ``config.yaml``; the workspace's ``.maestro/config.yaml`` (a trusted
workspace, harmless keys and tighter rules only); environment; editor settings; command line.

Values are never repeated in a notice: any of them may be a key that was pasted into the wrong place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

from engine import (
    MODES,
    Budget,
    ContextLimits,
    EngineConfig,
    Leases,
    ModelSettings,
    NotConfigured,
    Safety,
    WorkerSettings,
    catalogue,
    cut,
)
from maestro_lsp.settings.keys import is_variable_name, key_named
from maestro_lsp.settings.table import KEYS, SECTIONS, InWorkspace, Key, nearest_key
from maestro_lsp.settings.workers import read_workers

WORKSPACE_FILE = Path(".maestro", "config.yaml")
_MAX_BYTES = 256 * 1024
API_KEY = "MAESTRO_API_KEY"
LOG_LEVEL = "MAESTRO_LOG_LEVEL"
OTHER_VARIABLES = (
    *(API_KEY, LOG_LEVEL, "MAESTRO_STATE_DIR"),
    *("MAESTRO_INPUT", "MAESTRO_OUTPUT", "MAESTRO_ENGINE_PROCESS"),
)

_SHORT_IN_WORKSPACE = {"context_tokens": "llm.context_tokens"}
_EDITORS_OWN = frozenset({"trace", "trusted"})
THRESHOLDS = ("warn", "prompt", "force", "exhausted")


class Source(IntEnum):
    """Where a value came from, weakest first."""

    DEFAULT = 0
    USER = 1
    WORKSPACE = 2
    ENVIRONMENT = 3
    EDITOR = 4
    COMMAND = 5


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was set: ``place`` is a file or a variable, empty for editor and command line."""

    source: Source
    place: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about the configuration that the person should know, as a catalogue key."""

    key: str
    values: Mapping[str, str] = field(default_factory=dict)

    def text(self, language: str) -> str:
        """The sentence in a language."""
        return catalogue(language)(self.key, **self.values)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The merged configuration; ``origins`` has an entry for every key that is not at its default."""

    config: EngineConfig
    warnings: tuple[Notice, ...]
    origins: Mapping[str, Origin]


def user_file() -> Path:
    """The user's ``config.yaml``, in the platform's user config folder."""
    from platformdirs import user_config_path

    return user_config_path("maestro-lsp", appauthor=False) / "config.yaml"


def load_config(
    *,
    workspace: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    editor: Mapping[str, Any] | None = None,
    trusted: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Merge everything that is configured.

    ``overrides`` are the command line's, by key name (None: not given), and ``trusted`` for this session;
    ``editor`` are the settings of ``maestro.*``, nested, camelCase. ``trusted`` says whether the person
    trusts the workspace: only then its file is read. A wrong value is a warning, and the
    next weaker one counts. Raises ``NotConfigured`` for a user file that is no YAML
    mapping: half a policy must not run.
    """
    environment = os.environ if environ is None else environ
    given = dict(overrides or {})
    session_trust = given.pop("trusted", None)
    merge = _Merge()
    mine = user_file()
    merge.tree(_read_yaml(mine), Origin(Source.USER, str(mine)))
    merge.environment(environment)
    merge.tree(_snake_tree(editor or {}), Origin(Source.EDITOR))
    for name, value in given.items():
        if value is not None:
            merge.value(name, value, Origin(Source.COMMAND))
    if workspace is not None:
        merge.workspace(workspace, trusted if session_trust is None else bool(session_trust))
    return merge.loaded(environment, session_trust)


class _Merge:
    """The values so far, strongest last."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, Origin] = {}
        self.notices: list[Notice] = []

    def notice(self, key: str, /, **values: str) -> None:
        self.notices.append(Notice(f"settings.{key}", values))

    def value(self, name: str, value: Any, origin: Origin) -> None:
        """Take one value if it is of the key's type."""
        key = KEYS[name]
        if key.field is None:
            self.notice("later", key=name, place=_place(origin))
            return
        try:
            read = key.kind.read(value)
        except (ValueError, OverflowError, RecursionError):
            self._wrong_type(key, origin)
            return
        self.values[name], self.origins[name] = read, origin

    def _wrong_type(self, key: Key, origin: Origin) -> None:
        values = {"key": _shown(key.name, origin), "place": _place(origin)}
        if key.kind.choices:
            self.notice("wrong_choice", choices=", ".join(key.kind.choices), **values)
        else:
            self.notice(f"wrong_{key.kind.expected}", **values)

    def tree(self, tree: Mapping[str, Any], origin: Origin) -> None:
        """Take a nested mapping of snake_case keys."""
        for name, value in _flat(tree):
            if origin.source is Source.EDITOR and (name.split(".")[0] in _EDITORS_OWN or value in (None, "")):
                continue
            if name in KEYS:
                self.value(name, value, origin)
            else:
                self._unknown(name, origin)

    def _unknown(self, name: str, origin: Origin) -> None:
        if any(known.startswith(f"{name}.") for known in KEYS):  # a section, and no section stands there
            self.notice("wrong_mapping", key=_shown(name, origin), place=_place(origin))
            return
        near = nearest_key(name)
        shown = {"key": cut(_shown(name, origin), 80), "place": _place(origin)}
        if near is None:
            self.notice("unknown_key", **shown)
        else:
            self.notice("unknown_key_near", near=_shown(near, origin), **shown)

    def environment(self, environ: Mapping[str, str]) -> None:
        """Take the variables; an unknown one is only worth a word if it looks like a slip of ours."""
        known = {variable: key.name for key in KEYS.values() for variable in reversed(key.variables)}
        for key in KEYS.values():
            variable = next((name for name in key.variables if environ.get(name, "").strip()), None)
            if variable is not None:
                self.value(key.name, environ[variable].strip(), Origin(Source.ENVIRONMENT, variable))
        for variable in environ:
            if variable.startswith("MAESTRO_") and variable not in known and variable not in OTHER_VARIABLES:
                near = get_close_matches(variable, [*known, *OTHER_VARIABLES], n=1, cutoff=0.85)
                if near:
                    self.notice("unknown_variable", key=variable, near=near[0])

    def workspace(self, workspace: Path, trusted: bool) -> None:
        """Take what a workspace may set: harmless keys below the environment, tighter rules on top."""
        path = workspace / WORKSPACE_FILE
        if not path.is_file():
            return
        shown = str(WORKSPACE_FILE)
        if not trusted:
            self.notice("untrusted", place=shown)
            return
        if path.is_symlink() or path.parent.is_symlink():
            self.notice("link", place=shown)
            return
        try:
            tree = _read_yaml(path)
        except NotConfigured as error:
            self.notices.append(Notice(error.key, {name: str(value) for name, value in error.values.items()}))
            return
        origin = Origin(Source.WORKSPACE, shown)
        for given, value in _flat(tree):
            name = _SHORT_IN_WORKSPACE.get(given, given)
            key = KEYS.get(name)
            if key is None:
                self._unknown(name, origin)
            elif key.workspace is InWorkspace.REFUSED:
                self.notice("refused", key=name, place=shown, user_file=str(user_file()))
            elif key.workspace is InWorkspace.TIGHTER:
                self._tighten(key, value, origin)
            elif self._strength(name) < Source.WORKSPACE:
                self.value(name, value, origin)

    def _strength(self, name: str) -> Source:
        return self.origins.get(name, Origin(Source.DEFAULT)).source

    def _tighten(self, key: Key, value: Any, origin: Origin) -> None:
        """``deny`` grows, a budget shrinks; ``mode`` only becomes stricter, and never against the command
        line.
        """
        try:
            read = key.kind.read(value)
        except ValueError:
            self._wrong_type(key, origin)
            return
        if key.name == "deny":
            mine = self.values.get("deny", ())
            self.values["deny"] = (*mine, *(entry for entry in read if entry not in mine))
            self.origins.setdefault("deny", origin)
        elif key.name.startswith("budget."):
            self._tighten_budget(key, read, origin)
        elif MODES.index(read) >= MODES.index(self.values.get("mode", EngineConfig().mode)):
            if read != self.values.get("mode", EngineConfig().mode):
                self.notice("looser", key=key.name, place=origin.place)
        elif self._strength("mode") is not Source.COMMAND:
            self.values["mode"], self.origins["mode"] = read, origin

    def _tighten_budget(self, key: Key, read: float, origin: Origin) -> None:
        mine = self.values.get(key.name)
        if mine is None or read < mine:
            self.values[key.name], self.origins[key.name] = read, origin
        elif read > mine:
            self.notice("looser", key=key.name, place=origin.place)

    def loaded(self, environ: Mapping[str, str], trusted: bool | None) -> Loaded:
        """The merged configuration, with the key that belongs to it."""
        parts: dict[str, dict[str, Any]] = {
            section: {} for section in ("", "llm", "safety", "context", "leases", "budget")
        }
        for name, value in self.values.items():
            path = KEYS[name].field
            assert path is not None
            section, _, leaf = path.rpartition(".")
            parts[section][leaf] = value
        parts["llm"]["api_key"] = self._api_key(environ)
        parts[""]["workers"] = self._workers(parts, environ)
        config = EngineConfig(
            **parts[""],
            budget=Budget(**parts["budget"]),
            llm=ModelSettings(**parts["llm"]),
            safety=Safety(**parts["safety"]),
            context=self._context(parts["context"]),
            leases=Leases(**parts["leases"]),
            trusted=trusted,
        )
        if config.budget.cost is not None and not any(w.llm.price for w in config.model_workers):
            self.notice("cost_without_price", key=_shown("budget.cost", self.origins["budget.cost"]))
        return Loaded(config, tuple(self.notices), self.origins)

    def _workers(
        self, parts: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]
    ) -> tuple[WorkerSettings, ...]:
        """The listed workers. A server that a stronger source names is meant for every job: then they serve
        only those who name them.
        """
        entries = parts[""].get("workers", ())
        if not entries:
            return ()
        origin = self.origins["llm.workers"]
        workers = read_workers(
            entries,
            parts["llm"],
            named=_shown("llm.workers", origin),
            place=_place(origin),
            key_of=partial(key_named, environ),
            note=self.notice,
        )
        if self._strength("llm.endpoint") > origin.source:
            workers = tuple(replace(worker, roles=()) for worker in workers)
        return workers

    def _context(self, values: Mapping[str, Any]) -> ContextLimits:
        """The context's numbers; thresholds out of order are worth one word and count as not set."""
        limits = ContextLimits(**values)
        if limits.in_order:
            return limits
        self.notice("context_order")
        for name in THRESHOLDS:
            self.origins.pop(f"context.{name}", None)
        return ContextLimits(**{name: value for name, value in values.items() if name not in THRESHOLDS})

    def _api_key(self, environ: Mapping[str, str]) -> str:
        """The key from the variable that the stronger source names."""
        named = self.values.get("llm.api_key_env", "")
        mine = key_named(environ, API_KEY)
        if named and (self.origins["llm.api_key_env"].source >= Source.ENVIRONMENT or not mine):
            if key := key_named(environ, named):
                self.origins["llm.api_key"] = Origin(Source.ENVIRONMENT, named)
                return key
            if is_variable_name(named):
                self.notice("key_not_set", variable=named)
            else:
                self.notice("key_pasted")
        if mine:
            self.origins["llm.api_key"] = Origin(Source.ENVIRONMENT, API_KEY)
        return mine


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values; only known sections are opened, so that a hostile nesting costs nothing."""
    for part, value in tree.items():
        name = f"{prefix}{part}"
        if name in SECTIONS and isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif not (name in SECTIONS and value is None):
            yield name, value


def _snake_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Editor settings with snake_case names; with or without the ``maestro`` around them."""
    inner = tree.get("maestro", tree)
    if not isinstance(inner, Mapping):
        return {}

    def named(part: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in part.items():
            snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(name)).lower()
            path = f"{prefix}{snake}"
            found[snake] = (
                named(value, f"{path}.") if path in SECTIONS and isinstance(value, Mapping) else value
            )
        return found

    return named({str(name).removeprefix("maestro."): value for name, value in inner.items()})


def _shown(name: str, origin: Origin) -> str:
    if origin.source is not Source.EDITOR:
        return name
    return "maestro." + re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def _place(origin: Origin) -> str:
    match origin.source:
        case Source.EDITOR:
            return "settings"
        case Source.COMMAND:
            return "--"
        case _:
            return origin.place


def _read_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping, empty if there is no file. Raises ``NotConfigured``."""
    import yaml

    data = {"setting": str(path)}
    try:
        if not path.exists():
            return {}
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            raise NotConfigured("settings.unreadable", path=str(path), data=data)
        tree = yaml.safe_load(path.read_text("utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = str(mark.line + 1) if mark else "1"
        raise NotConfigured("settings.broken", path=str(path), line=line, data=data) from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        raise NotConfigured("settings.unreadable", path=str(path), data=data) from None
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(name, str) for name in tree):
        raise NotConfigured("settings.no_mapping", path=str(path), data=data)
    return tree
