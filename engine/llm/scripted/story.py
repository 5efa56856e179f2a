"""The story that the demo's scripted model plays, and the server that plays it.

The model's replies are the only thing in the demo that is not real. They follow from the request alone, so an
engine that was killed and started again, or an editor connected to ``maestro-lsp demo --serve``, gets what it
would have got.
"""

from __future__ import annotations

from engine.llm.scripted.script import ScriptReply, ScriptRequest
from engine.llm.scripted.server import ScriptedServer, ServerOptions
from engine.llm.scripted.story_choice import choice_reply
from engine.llm.scripted.story_code import code_reply
from engine.llm.scripted.story_look import chat_reply, general_reply
from engine.llm.scripted.story_reading import scene_of
from engine.llm.scripted.story_steps import end
from engine.llm.scripted.story_texts import words

_PLAYED = {
    "plan": code_reply,
    "implement": code_reply,
    "verify": code_reply,
    "work": general_reply,
    "answer": chat_reply,
}


class Story:
    """The script for the shipped pieces ``code``, ``general`` and ``chat``; a polite word for the rest."""

    def reply(self, request: ScriptRequest) -> ScriptReply:
        """The reply to ``request``."""
        if (choice := choice_reply(request)) is not None:
            return choice
        scene = scene_of(request)
        if scene is not None and scene.movement in _PLAYED:
            return _PLAYED[scene.movement](scene)
        japanese = any("\u3040" <= char <= "\u30ff" for char in request.last_user)
        hello = words("ja" if japanese else "en", "other")("hello")
        return end(hello) if "complete" in request.tool_names else ScriptReply(text=hello)


def story_server(port: int = 0, delay: float = 0.0) -> ScriptedServer:
    """The scripted model on 127.0.0.1 (``port`` 0: any free one).

    ``delay`` is in seconds, for every few characters that are streamed.
    """
    return ScriptedServer(Story(), port, ServerOptions(delay=delay))
