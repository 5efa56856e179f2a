"""The scripted model as the classifier: it goes by the keywords, which a real model takes as hints."""

from __future__ import annotations

import re

from engine.llm.scripted.script import ScriptReply, ScriptRequest

_ASKED = re.compile(r"^## (?:The task to judge|判断するタスク)$", re.MULTILINE)
_HITS = re.compile(
    r"^- (?P<piece>[a-z0-9-]+): .*\((?:in this task|このタスクに含まれる語): (?P<hits>.*)\)$", re.MULTILINE
)


def choice_reply(request: ScriptRequest) -> ScriptReply | None:
    """The name of the piece with the most keywords in the task, else ``general``; None if this request does
    not ask for a piece.
    """
    if request.tool_names or not _ASKED.search(request.last_user):
        return None
    pieces = _ASKED.split(request.last_user)[0]
    hits = {found["piece"]: found["hits"].count(",") + 1 for found in _HITS.finditer(pieces)}
    return ScriptReply(text=max(hits, key=lambda name: hits[name], default="general"))
