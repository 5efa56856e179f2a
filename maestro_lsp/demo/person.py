"""The person in front of the demo: answers at the prompt, or, where nobody can, the demo's own answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from maestro_lsp.cli.keyboard import Keyboard
from maestro_lsp.cli.terminal import width
from maestro_lsp.demo.screen import Screen
from maestro_lsp.demo.view import INDENT, Say, row, wrapped

_OWN_OPTION = 1
"""Which option of a question the demo takes itself: the second, so that "the first" is not all it can say."""

_THINKING_S = 1.5


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the offered titles, by its index, or words of the person's own (``index`` None)."""

    index: int | None
    text: str


class Person:
    """Reads answers. ``keyboard`` None: the demo answers itself and says so.

    ``answer``, if given, is the answer to every question of the model.
    """

    def __init__(
        self, screen: Screen, say: Say, keyboard: Keyboard | None, answer: str | None, pause: bool
    ) -> None:
        self._screen = screen
        self._say = say
        self._keyboard = keyboard
        self._answer = answer
        self._pause = pause

    @property
    def present(self) -> bool:
        """Whether somebody can type."""
        return self._keyboard is not None

    async def answer(self, titles: Sequence[str]) -> Choice:
        """An answer to a question: one of the titles, or free words."""
        self._list(titles)
        if self._answer is not None or self._keyboard is None:
            text = self._answer if self._answer is not None else titles[min(_OWN_OPTION, len(titles) - 1)]
            await self._say_for_person(text)
            return Choice(titles.index(text) if text in titles else None, text)
        while True:
            typed = await self._line(self._say("demo.prompt.question"))
            if typed is None:
                return Choice(None, titles[min(_OWN_OPTION, len(titles) - 1)])
            chosen = _number(typed, titles)
            if chosen is not None:
                return chosen
            if typed.strip():
                return Choice(None, typed.strip())

    async def decide(self, titles: Sequence[str], own: int) -> Choice:
        """A decision: one of the titles. ``own`` is the one that the demo takes itself."""
        self._list(titles)
        if self._keyboard is None:
            await self._say_for_person(f"{own + 1}  {titles[own]}")
            return Choice(own, titles[own])
        while True:
            text = await self._line(self._say("demo.prompt.decision"))
            if text is None:
                return Choice(own, titles[own])
            chosen = _number(text, titles)
            if chosen is not None:
                return chosen
            self._screen.show([row(INDENT, (self._say("demo.prompt.number", last=len(titles)), "dim"))])

    async def words(self, prompt: str) -> str:
        """Free words, empty if the input ended."""
        return (await self._line(prompt) or "").strip()

    def _list(self, titles: Sequence[str]) -> None:
        """The titles with their numbers: in one row if they fit, else one below the other."""
        if sum(width(title) + 4 for title in titles) <= self._screen.columns:
            spans = [
                span for at, title in enumerate(titles, 1) for span in ((f"{at}", "cyan bold"), f" {title}  ")
            ]
            self._screen.show([row(INDENT, *spans)])
            return
        rows = []
        for number, title in enumerate(titles, 1):
            first, *rest = wrapped(title, self._screen.columns - 4, indent="")
            rows.append(row(INDENT, (f"{number}", "cyan bold"), "  ", *first[1:]))
            rows += [row(INDENT * 2 + " ", *line[1:]) for line in rest]
        self._screen.show(rows)

    async def _line(self, prompt: str) -> str | None:
        assert self._keyboard is not None
        self._screen.progress(None)
        self._keyboard.forget()
        self._screen.terminal.part(INDENT + self._screen.terminal.styled(f"{prompt} ", "bold"))
        text = await self._keyboard.line()
        if text is None:
            self._screen.terminal.line()
            self._keyboard = None
        return text

    async def _say_for_person(self, text: str) -> None:
        if self._pause:
            await asyncio.sleep(_THINKING_S)
        self._screen.show(
            [row(INDENT, ("› ", "cyan bold"), (text, "bold"), (f"  {self._say('demo.itself')}", "dim"))]
        )


def _number(text: str, titles: Sequence[str]) -> Choice | None:
    word = text.strip()
    if word.isascii() and word.isdigit() and 1 <= int(word) <= len(titles):
        return Choice(int(word) - 1, titles[int(word) - 1])
    return None
