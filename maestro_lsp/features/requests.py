"""Questions and approvals, put before the person one at a time.

The store is the authority: what is asked here is a copy, and nothing waits for it. A prompt that is
dismissed, that fails, or that is answered late or with a title nobody offered, has no effect, and its request
stays open; a request that was settled elsewhere makes way for the next at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from lsprotocol.types import MessageType

from engine import AlreadySettled, EngineError, IllegalMove, Request, explain, to_wire
from maestro_lsp.display import MESSAGE_LIMIT, action, clip, exact, head, plain, subject, told
from maestro_lsp.features.pages import Pages
from maestro_lsp.ground.rpc import ClientError, ClientMethodNotFound, chosen_title
from maestro_lsp.protocol import APPROVE, INPUT
from maestro_lsp.session import Session
from maestro_lsp.shapes import ApproveAnswer, InputAnswer, InputParams

logger = logging.getLogger(__name__)

OPTION_LIMIT = 80
AGAIN_SECONDS = 3.0
MAX_OPTIONS = 20

Button = str
"""The last part of a catalogue key ``lsp.button.…``."""

QUESTION: tuple[Button, ...] = ("answer", "later")
APPROVAL: tuple[Button, ...] = ("allow_once", "allow_task", "allow_always", "deny", "details")
GO_ON: tuple[Button, ...] = ("go_on", "stop", "later")
BROWSER: tuple[Button, ...] = ("done", "cannot", "later")

BUTTONS: dict[str, tuple[Button, ...]] = {
    "question": QUESTION,
    "interrupted": GO_ON,
    "crashed": GO_ON,
    "budget": GO_ON,
    "browser_login": BROWSER,
    "captcha": BROWSER,
}
"""The buttons of a wait reason; any other is an approval."""

DECISIONS: dict[Button, tuple[str, str]] = {
    "allow_once": ("allow", "once"),
    "allow_task": ("allow", "task"),
    "allow_always": ("allow", "always"),
    "deny": ("deny", "once"),
    "go_on": ("allow", "once"),
    "stop": ("deny", "once"),
    "done": ("allow", "once"),
    "cannot": ("deny", "once"),
}
"""What a button decides: (decision, scope)."""

STORING = frozenset({"allow_task", "allow_always"})
"""Buttons that are there only if the request says what rule they would store."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A question's answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A request's decision."""

    decision: str
    scope: str = "once"
    network: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """Open a document: ``answer`` (to write in) or ``details`` (to read, and be asked again)."""

    button: Button


Choice = Answer | Verdict | Page | None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as ``window/showMessageRequest`` shows it; ``choices`` by the titles offered."""

    kind: MessageType
    message: str
    choices: dict[str, Choice]


def prompt_of(request: Request, say: Any, title: str) -> Prompt:
    """The message and buttons of a request. ``say`` is the catalogue, ``title`` what is asked."""
    buttons = BUTTONS.get(request.reason, APPROVAL)
    question = buttons is QUESTION
    about = subject(request.task_id, request.piece if question else request.movement)
    key = "lsp.question" if question else "lsp.go_on" if buttons is not APPROVAL else "lsp.approve"
    room = MESSAGE_LIMIT - len(say(key, subject=about, title=""))
    if buttons is not APPROVAL:
        shown = clip(plain(title), room)
    else:
        shown = clip(exact(action(request) if title == request.title else title), room)
    choices = _options(request, say) if question else {}
    for button in buttons:
        if button not in STORING or request.rule is not None:
            choices[say(f"lsp.button.{button}")] = _choice(button)
    kind = MessageType.Info if question else MessageType.Warning
    return Prompt(kind, say(key, subject=about, title=shown), choices)


def _options(request: Request, say: Any) -> dict[str, Choice]:
    """The model's options as buttons, less those that pose as one of ours; they can still be written."""
    ours = {"", *(say(f"lsp.button.{button}") for button in (*QUESTION, *DECISIONS, "details"))}
    choices: dict[str, Choice] = {}
    for option in (request.options or ())[:MAX_OPTIONS]:
        title = head(plain(option), OPTION_LIMIT)
        if title not in ours:
            choices.setdefault(title, Answer(option))
    return choices


def _choice(button: Button) -> Choice:
    if button in DECISIONS:
        decision, scope = DECISIONS[button]
        return Verdict(decision, scope)
    return None if button == "later" else Page(button)


class Desk:
    """The person's desk: requests in the order they came, one before the person at a time."""

    def __init__(self, session: Session, pages: Pages) -> None:
        self._session = session
        self._pages = pages
        self._waiting: deque[Request] = deque()
        self._seen: set[str] = set()
        self._open: tuple[Request, asyncio.Task[Any]] | None = None
        self._work: asyncio.Task[None] | None = None

    # -- what the bridge says

    def offered(self, request: Request) -> None:
        """A request is open: ask when its turn comes, once."""
        if request.request_id in self._seen or request.settled is not None:
            return
        self._seen.add(request.request_id)
        self._waiting.append(request)
        if self._work is None or self._work.done():
            self._work = self._session.background.spawn(self._ask_all())

    def settled(self, request_id: str) -> None:
        """A request was settled, by whomever."""
        self._drop(lambda request: request.request_id == request_id)

    def withdrawn(self, job_id: str) -> None:
        """A job waits no more."""
        self._drop(lambda request: request.job_id == job_id)

    def _drop(self, gone: Callable[[Request], bool]) -> None:
        """Take requests away; one that turns out to be open after all may be offered again."""
        self._seen -= {request.request_id for request in self._waiting if gone(request)}
        self._waiting = deque(request for request in self._waiting if not gone(request))
        if self._open is not None and gone(self._open[0]):
            self._seen.discard(self._open[0].request_id)
            self._open[1].cancel()

    # -- asking

    async def _ask_all(self) -> None:
        while self._waiting:
            request = self._waiting.popleft()
            asking = asyncio.create_task(self._ask(request))
            self._open = (request, asking)
            try:
                await asyncio.wait([asking])
                await self._apply(request, None if asking.cancelled() else asking.result())
            except asyncio.CancelledError:
                asking.cancel()
                raise
            except Exception:
                logger.exception("request %s could not be shown", request.request_id)
            finally:
                self._open = None

    async def _ask(self, request: Request) -> Choice:
        """One way to ask, the client's best; an error is no answer."""
        session = self._session
        question = request.reason == "question"
        try:
            if question and session.can.input:
                return await self._by_input(request)
            if not question and session.can.approve:
                return await self._by_approve(request)
        except ClientMethodNotFound:
            logger.warning("the client announced a request that it does not know")
        except ClientError as error:
            logger.info("request %s was not answered: %s", request.request_id, type(error).__name__)
            return None
        try:
            return await self._by_message(request)
        except ClientError as error:
            logger.info("request %s was not answered: %s", request.request_id, type(error).__name__)
            return None

    async def _by_message(self, request: Request) -> Choice:
        prompt = prompt_of(request, self._session.say, self.title(request))
        actions = [{"title": title} for title in prompt.choices]
        params = {"type": prompt.kind.value, "message": prompt.message, "actions": actions}
        answer = await self._session.server.client_request("window/showMessageRequest", params)
        return prompt.choices.get(chosen_title(answer) or "")

    async def _by_input(self, request: Request) -> Choice:
        params = InputParams(
            request_id=request.request_id,
            job_id=request.job_id,
            prompt=self.title(request),
            options=request.options,
            multiline=True,
        )
        answer = await self._session.server.client_request(INPUT, to_wire(params))
        found = _read(answer, InputAnswer)
        return None if found is None or not found.text.strip() else Answer(found.text)

    async def _by_approve(self, request: Request) -> Choice:
        answer = await self._session.server.client_request(APPROVE, to_wire(self._told(request)))
        found = _read(answer, ApproveAnswer)
        return (
            None if found is None else Verdict(found.decision, found.scope, found.network, found.note or "")
        )

    # -- acting

    async def _apply(self, request: Request, choice: Choice) -> None:
        session = self._session
        client = await session.client()
        try:
            match choice:
                case Answer(text):
                    await client.answer(request.job_id, text, request.request_id)
                    session.acted(request.job_id)
                case Verdict(decision, scope, network, note):
                    await client.decide(request.request_id, decision, scope=scope, network=network, note=note)
                    session.acted(request.job_id)
                case Page("answer"):
                    await self._pages.open_answer(request, self.title(request))
                case Page():
                    await self._pages.open_details(self._told(request))
                    self._waiting.appendleft(request)
                case None:
                    return
        except (AlreadySettled, IllegalMove):
            logger.info("request %s was settled before", request.request_id)
        except EngineError as error:
            logger.error("request %s could not be settled: %s", request.request_id, error)
            session.show(MessageType.Error, explain(error, session.language))
            session.background.spawn(self._offer_again(request.request_id))

    async def _offer_again(self, request_id: str) -> None:
        """Ask once more what the person answered in vain (the disk was full), but not in a hurry."""
        await asyncio.sleep(AGAIN_SECONDS)
        client = await self._session.client()
        self._seen.discard(request_id)
        self.offered(await client.request(request_id))

    # -- words

    def title(self, request: Request) -> str:
        """What is asked, in the client's language where it is ours to say."""
        return self._told(request).title

    def _told(self, request: Request) -> Request:
        return told(request, self._session.say)


def _read(answer: object, kind: type[Any]) -> Any:
    """An answer of the client, None if it is null or of no known shape."""
    try:
        return None if answer is None else msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        logger.warning("the client's answer is of no known shape: %s", error)
        return None
