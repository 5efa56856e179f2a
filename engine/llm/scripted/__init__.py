"""The scripted model: an OpenAI-compatible server over real HTTP whose replies come from a script. For demo
and tests.
"""

from engine.llm.scripted.script import (
    ByMovement,
    Function,
    Queue,
    Script,
    ScriptExhausted,
    ScriptReply,
    ScriptRequest,
    ScriptResult,
    Sequence,
    call,
    say,
)
from engine.llm.scripted.server import ScriptedServer, ServerOptions
from engine.llm.scripted.threaded import ThreadedServer, serve_in_thread

__all__ = [
    "ByMovement",
    "Function",
    "Queue",
    "Script",
    "ScriptExhausted",
    "ScriptReply",
    "ScriptRequest",
    "ScriptResult",
    "ScriptedServer",
    "Sequence",
    "ServerOptions",
    "ThreadedServer",
    "call",
    "say",
    "serve_in_thread",
]
