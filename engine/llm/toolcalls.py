"""Which call a fragment of a stream belongs to. Pure.

Servers leave out, repeat or invent ``index`` and ``id``, and some send the name again with every fragment.
The evidence, in the order it is trusted: a name together with finished arguments before it begins a new call;
then the index; then the id; a fragment with none of them goes on with the call being streamed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.llm.arguments import complete, parse_arguments, unsendable


@dataclass(slots=True)
class CallParts:
    """A call while it is gathered. ``given`` is an ``arguments`` that came as an object; else ``pieces`` of
    text. ``extra`` is what the server keeps on the call for itself.
    """

    index: int | None
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    given: object = None
    extra: Mapping[str, Any] | None = None

    @property
    def arguments(self) -> object:
        """What came so far, for ``parse_arguments``."""
        return self.given if self.given is not None else "".join(self.pieces)

    @property
    def finished(self) -> bool:
        """True if the arguments are a whole object."""
        if self.given is not None:
            return True
        return bool(self.pieces) and self.pieces[-1].rstrip()[-1:] in ("}", "") and complete(self.arguments)

    @property
    def blank(self) -> bool:
        """True if nothing at all is known of it."""
        return not self.name and not self.call_id and not self.given and not "".join(self.pieces).strip()


@dataclass(frozen=True, slots=True)
class Fragment:
    """One entry of ``tool_calls``; empty strings mean that the server said nothing."""

    index: int | None
    call_id: str
    name: str
    arguments: object
    extra: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Fragment:
        """From what a server sent, with or without the ``function`` level."""
        function = entry.get("function")
        inner = function if isinstance(function, Mapping) else entry
        index, extra = entry.get("index"), entry.get("extra_content")
        return cls(
            index=_number(index),
            call_id=_text(entry.get("id")),
            name=_text(inner.get("name")),
            arguments=inner.get("arguments", inner.get("parameters")),
            extra=extra if isinstance(extra, Mapping) and extra and not unsendable(extra) else None,
        )


class CallGatherer:
    """Puts the fragments of one reply together; ``calls`` is in the order of arrival. ``known`` are the tools
    offered.
    """

    def __init__(self, known: Collection[str] = ()) -> None:
        self.calls: list[CallParts] = []
        self._known = known
        self._current: CallParts | None = None

    def add(self, entries: object, *, whole: bool) -> None:
        """Takes the ``tool_calls`` of one chunk; ``whole`` says that each entry is a call of its own (a body,
        no stream).
        """
        if isinstance(entries, Mapping):  # one call, not in an array
            entries = [entries]
        if not isinstance(entries, list):
            return
        before = len(self.calls)
        for entry in entries:
            if isinstance(entry, Mapping):
                fragment = Fragment.read(entry)
                opened = len(self.calls) > before
                alone = whole or (opened and bool(fragment.name) and fragment.index is None)
                self._merge(fragment, self._open(fragment) if alone else self._owner(fragment))

    def _owner(self, new: Fragment) -> CallParts:
        same_index = None if new.index is None else self._last(lambda call: call.index == new.index)
        same_id = self._last(lambda call: call.call_id == new.call_id) if new.call_id else None
        owner = same_index or (same_id if not (new.name and new.index is not None) else None)
        if owner is None:
            goes_on = self._current is not None and not new.name and not self._current.finished
            return self._current if goes_on and self._current is not None else self._open(new)
        return self._open(new) if self._begins_another(owner, new) else owner

    def _begins_another(self, owner: CallParts, new: Fragment) -> bool:
        """True if the fragment's index or id lies: it carries a name and cannot be a part of ``owner``."""
        if not new.name or not owner.name:
            return False
        same_id = not new.call_id or new.call_id == owner.call_id
        if new.name == owner.name and same_id and new.arguments in (None, ""):
            return False  # name and id come with every fragment, and this one is the empty last
        if owner.finished:
            again = same_id and new.name == owner.name
            return not (again and parse_arguments(new.arguments) == parse_arguments(owner.arguments))
        return new.name != owner.name and owner.name + new.name not in self._known

    def _open(self, new: Fragment) -> CallParts:
        call = CallParts(new.index)
        self.calls.append(call)
        return call

    def _merge(self, new: Fragment, call: CallParts) -> None:
        self._current = call
        call.call_id = call.call_id or new.call_id
        call.extra = new.extra or call.extra
        if not call.name:
            call.name = new.name
        elif new.name and new.name != call.name and call.name + new.name in self._known:
            call.name += new.name
        if isinstance(new.arguments, str):
            if new.arguments:
                call.pieces.append(new.arguments)
        elif isinstance(new.arguments, Mapping | list | bool):
            call.given = new.arguments
        elif new.arguments is not None:
            call.pieces.append(str(new.arguments))

    def _last(self, wanted: Any) -> CallParts | None:
        return next((call for call in reversed(self.calls) if wanted(call)), None)


def _number(value: object) -> int | None:
    """An index that came as a number, a whole float or digits."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""
