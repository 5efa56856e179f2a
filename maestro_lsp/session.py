"""One client, one workspace: what the server knows of the editor, and the engine it speaks to on its behalf.

The store is opened beside ``initialize``, never in it: a slow disk must not hold up an editor's start.
Commands wait for it. Whatever is wrong with workspace, configuration or store is kept, told once, and
answered to every command; what needs no store works on.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lsprotocol import types

from engine import (
    BadArgument,
    Client,
    EngineConfig,
    EngineError,
    JobStatus,
    NotConfigured,
    Request,
    catalogue,
    explain,
    language_of_locale,
    refuse_workspace,
    state_dir,
)
from maestro_lsp.bridge import Bridge
from maestro_lsp.convert import path_of
from maestro_lsp.documents import Documents
from maestro_lsp.faults import os_fault
from maestro_lsp.ground.rpc import ClientError
from maestro_lsp.host import Background, EngineHost
from maestro_lsp.protocol import SECTION
from maestro_lsp.repairs import RepairedServer
from maestro_lsp.settings import load_config

logger = logging.getLogger(__name__)

GRACE_SECONDS = 2.0
"""How long a job that was queued elsewhere is left to the engine there."""

PULL_SECONDS = 3.0
"""How long a client may take to say its settings before work begins without them."""


class Listener(Protocol):
    """Who puts requests before the person: ``features.requests``."""

    def offered(self, request: Request) -> None: ...

    def settled(self, request_id: str) -> None: ...

    def withdrawn(self, job_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a client announced that it can do; a client that is not asked may answer nonsense."""

    progress: bool = False
    documents: bool = False
    configuration: bool = False
    approve: bool = False
    input: bool = False
    quick_fixes: bool = False
    versioned_edits: bool = False


def abilities_of(sent: types.ClientCapabilities) -> Abilities:
    """The abilities in the capabilities of ``initialize``."""
    window, workspace, experimental = sent.window, sent.workspace, sent.experimental
    ours = experimental.get(SECTION) if isinstance(experimental, Mapping) else None
    ours = ours if isinstance(ours, Mapping) else {}
    actions = sent.text_document and sent.text_document.code_action
    return Abilities(
        progress=bool(window and window.work_done_progress),
        documents=bool(window and window.show_document and window.show_document.support),
        configuration=bool(workspace and workspace.configuration),
        approve=bool(ours.get("approve")),
        input=bool(ours.get("input")),
        quick_fixes=bool(actions and actions.code_action_literal_support),
        versioned_edits=bool(workspace and (edits := workspace.workspace_edit) and edits.document_changes),
    )


class Session:
    """The state of a server from ``initialize`` to its end."""

    def __init__(self, server: RepairedServer) -> None:
        self.server = server
        self.documents = Documents()
        self.background = Background()
        self.language = "en"
        self.by = "client"
        self.can = Abilities()
        self.listener: Listener | None = None
        self.workspace: Path | None = None
        self.configured: Callable[[], None] = lambda: None
        self._settings: Mapping[str, Any] = {}
        self._overrides: dict[str, Any] = {}
        self._told: set[str] = set()
        self._fault: EngineError | None = None
        self._opened = asyncio.Event()
        self._client: Client | None = None
        self._bridge: Bridge | None = None
        self._host: EngineHost | None = None

    # -- what features use

    def say(self, key: str, /, **values: object) -> str:
        """A text of the catalogue in the client's language. Raises ``KeyError`` for an unknown key."""
        return catalogue(self.language)(key, **values)

    def show(self, kind: types.MessageType, text: str) -> None:
        """``window/showMessage``."""
        self.server.client_notify("window/showMessage", {"type": kind.value, "message": text})

    def show_once(self, kind: types.MessageType, text: str) -> None:
        """`show`, but the same text only once in a session."""
        if text not in self._told:
            self._told.add(text)
            self.show(kind, text)

    async def opened(self) -> None:
        """Wait until workspace, configuration and store were tried."""
        await self._opened.wait()

    @property
    def config(self) -> EngineConfig:
        """What is configured; the defaults where there is no client."""
        return EngineConfig() if self._client is None else self._client.config

    async def client(self) -> Client:
        """The engine's client, once its store is open. Raises what keeps it from being usable."""
        await self._opened.wait()
        if self._fault is not None:
            raise self._fault
        assert self._client is not None
        return self._client

    @property
    def bridge(self) -> Bridge:
        """What follows the store; there once `client` has returned."""
        assert self._bridge is not None
        return self._bridge

    @property
    def host(self) -> EngineHost:
        """The engine process; there once `client` has returned."""
        assert self._host is not None
        return self._host

    def acted(self, job_id: str) -> None:
        """The person acted on a job through this client: it follows the job, and the engine looks at it."""
        self.bridge.watches.touched(job_id)
        self.host.wake()

    async def reconfigure(self, **overrides: Any) -> None:
        """Read the configuration anew; ``overrides`` are what this session was told. It holds for new jobs at
        once, and for the engine as soon as nothing runs (``trusted`` False: at once).
        """
        self._overrides |= overrides
        client = self._client
        if client is None:
            return
        faulty = self._fault is not None
        await self._load(client)
        if self._host is not None:
            self._host.configured(at_once=overrides.get("trusted") is False)
            if faulty and self._fault is None:
                self._host.wake_if_needed()

    def new_settings(self, settings: object) -> None:
        """``workspace/didChangeConfiguration``: pulled again if the client can, else from the payload."""
        if self.can.configuration:
            self.background.spawn(self._pull_again())
        elif isinstance(settings, Mapping):
            self._settings = _section(settings)
            self.background.spawn(self.reconfigure())

    # -- life

    def initialize(self, params: types.InitializeParams) -> None:
        """Take what the client says of itself, and begin to open its workspace."""
        environment = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG")
        self.language = language_of_locale(params.locale or environment)
        self.by = params.client_info.name if params.client_info else "client"
        self.can = abilities_of(params.capabilities)
        general = params.capabilities.general
        known = [str(getattr(e, "value", e)) for e in (general and general.position_encodings) or ()]
        self.documents.encoding = next((e for e in known if e in ("utf-8", "utf-16", "utf-32")), "utf-16")
        options = params.initialization_options
        if isinstance(options, Mapping):
            self._settings = _section(options.get("settings"))
            self._overrides = {"mode": options.get("mode")}
            if isinstance(options.get("trusted"), bool):
                self._overrides["trusted"] = options["trusted"]
        self.background.spawn(self._open(params))

    async def begin(self) -> None:
        """``initialized``: tell what is wrong, or follow the store and go on with what lies there."""
        await self._opened.wait()
        if self._fault is not None:
            self.show_once(types.MessageType.Warning, explain(self._fault, self.language))
        if self._bridge is None or self._host is None:
            return
        self.background.spawn(self._bridge.run())
        if self.can.configuration:
            await self._pull_again()
        self._host.wake_if_needed()

    async def close(self) -> None:
        """End in order: the engine first, for it takes longest."""
        if self._host is not None:
            await self._host.stop()
        await self.background.close()
        if self._bridge is not None:
            await self._bridge.close()
        if self._client is not None:
            await self._client.close()

    # -- what the bridge hands on

    def offered(self, request: Request) -> None:
        """A request is open."""
        if self.listener is not None:
            self.listener.offered(request)

    def settled(self, request_id: str) -> None:
        """A request was settled."""
        if self.listener is not None:
            self.listener.settled(request_id)

    def withdrawn(self, job_id: str) -> None:
        """A job asks no more."""
        if self.listener is not None:
            self.listener.withdrawn(job_id)

    def moved(self, source: str | None, target: str) -> None:
        """A job moved. Queued by whomever, it is worked on: by the engine of the client that did it, where it
        may be watched as it streams, else by ours. Off the engine, an engine that is out of date may go.
        """
        if target == JobStatus.QUEUED:
            self.host.wake_if_needed(after=GRACE_SECONDS)
        if source == JobStatus.RUNNING:
            self.host.at_rest()

    # -- inside

    async def _open(self, params: types.InitializeParams) -> None:
        try:
            self.workspace = _workspace(params)
            client = Client(self.workspace, EngineConfig(), by=self.by)
            await client.open()
            self._client = client
            self._bridge = Bridge(client, self.server, self, self.say, self.can.progress)
            self._host = EngineHost(
                client, self.documents, self._bridge.live, self._engine_failed, self._may_work
            )
            await self._bridge.prepare()
            await self._load(client)
        except EngineError as error:
            logger.error("%s", error)
            self._fault = error
        except Exception as error:
            self._fault = os_fault(error) or EngineError("lsp.internal")
            logger.error("no workspace: %s", error, exc_info=self._fault.key == "lsp.internal")
        finally:
            self._opened.set()

    async def _load(self, client: Client) -> None:
        """Merge the configuration into the client. A file that cannot be read is a fault until it is mended:
        half a configuration must not run.
        """
        try:
            stored = await client.trusted()
            loaded = await asyncio.to_thread(
                load_config,
                workspace=client.workspace,
                overrides=self._overrides,
                editor=self._settings,
                trusted=stored,
            )
        except EngineError as error:
            self._fault = error
            return
        self._fault = None
        client.config = loaded.config
        self.configured()
        for notice in loaded.warnings:
            self.show_once(types.MessageType.Warning, notice.text(self.language))

    async def _pull_again(self) -> None:
        """``workspace/configuration``; a client that does not answer in time has no settings for us."""
        client = self._client
        if client is None:
            return
        item = {"scopeUri": client.workspace.as_uri(), "section": SECTION}
        try:
            async with asyncio.timeout(PULL_SECONDS):
                answer = await self.server.client_request("workspace/configuration", {"items": [item]})
        except (ClientError, TimeoutError) as error:
            logger.warning("no settings from the client: %s", type(error).__name__)
            return
        found = answer[0] if isinstance(answer, list) and answer else None
        if isinstance(found, Mapping):
            self._settings = found
            await self.reconfigure()

    def _may_work(self) -> bool:
        return self._fault is None

    def _engine_failed(self, key: str, values: dict[str, str]) -> None:
        try:
            text = self.say(key, **values)
        except (KeyError, ValueError, IndexError):
            text = self.say("lsp.engine_failed", why=key)
        self.show_once(types.MessageType.Error, text)


def _workspace(params: types.InitializeParams) -> Path:
    """The folder to work on. Raises ``NotConfigured``: no folder, one of another machine, or one too wide."""
    uri = next((folder.uri for folder in params.workspace_folders or ()), params.root_uri) or None
    if uri is None and not params.root_path:
        data = {"setting": "rootUri", "mend": "rootUri | workspaceFolders"}
        raise NotConfigured("lsp.no_workspace", data=data)
    path = Path(params.root_path) if uri is None and params.root_path else path_of(uri or "")
    if path is None:
        data = {"setting": "rootUri", "mend": "file:///…"}
        raise NotConfigured("lsp.workspace_not_local", data=data, uri=uri)
    try:
        refuse_workspace(path, state_dir())
    except BadArgument as error:
        raise NotConfigured(error.key, data={"setting": "rootUri", **error.data}, **error.values) from None
    return Path(os.path.realpath(path))


def _section(settings: object) -> Mapping[str, Any]:
    """The settings of ours, whether a client sends the section or the tree around it."""
    if not isinstance(settings, Mapping):
        return {}
    inner = settings.get(SECTION)
    return inner if isinstance(inner, Mapping) else settings
