"""The scripted model with the pieces ``general`` and ``chat``: it looks, and says that it only looks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.core.truncate import cut
from engine.llm.scripted.script import ScriptReply
from engine.llm.scripted.story_reading import Scene, View, note_of, paths_in, view_of
from engine.llm.scripted.story_steps import Call, end, read
from engine.llm.scripted.story_texts import Words, words

_READ_AT_ONCE = 5
_SHOWN_FILES = 8
_CODE = re.compile(r"\b(?:fix|bug|refactor|implement|failing)\b|修正|直し|バグ|実装|失敗", re.IGNORECASE)
_WRITE = re.compile(r"\b(?:write|create|make|add|generate)\b|書い|書き|作っ|作成|まとめ", re.IGNORECASE)
_TARGET = re.compile(r"[\w./-]+\.(?:md|txt|rst)\b", re.ASCII)
_HIT = re.compile(r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+):(?P<text>.*)$", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}|[\u4e00-\u9fff々]{1,8}|[\u30a1-\u30faー]{2,}")
_COMMON = re.compile(
    r"a|about|and|any|are|can|code|computed|does|defined|do|done|explain|files?|find|for|from|function|get|has"
    r"|have|here|how|in|is|it|line|me|of|on|or|please|project|show|tell|that|the|there|this|to|used|was|what"
    r"|when|where|which|who|why|will|with|workspace|you|何|何処|場所|教|説明|質問|定義|行|中|人|見",
    re.IGNORECASE,
)


def general_reply(scene: Scene) -> ScriptReply:
    """The reply in the piece ``general``."""
    say = words(scene.language, "general")
    if _CODE.search(scene.instruction):
        return end(say("not_mine"))
    look = _read_some(scene, say)
    if look is not None:
        return look
    views = _views(scene)
    if not views:
        return end(say("nothing"))
    lines = [
        say("line", path=path, said=_first_words(view), count=len(view.lines or {}))
        for path, view in views.items()
    ]
    if not _WRITE.search(scene.instruction):
        return end(say("answer", lines="\n".join(lines)), "success")
    target = next(iter(_TARGET.findall(scene.instruction)), "OVERVIEW.md")
    writes = scene.of("Write")
    if not writes:
        text = say("overview", root=_root(scene), lines="\n".join(lines)) + "\n"
        return say.do("write", ("Write", {"file_path": target, "content": text}), path=target)
    if note_of(writes[-1]) is not None:
        return end(say("declined", path=target))
    if not re.match(r"Made |Changed |`", writes[-1].text):
        return end(writes[-1].text.partition("\n")[0])
    return end(say("done", path=target, count=len(views)), "success")


def _root(scene: Scene) -> str:
    return scene.root.rstrip("/").rpartition("/")[2] or "workspace"


def _read_some(scene: Scene, say: Words) -> ScriptReply | None:
    globs = scene.of("Glob")
    if not globs:
        return say.do("look", ("Glob", {"pattern": "**/*"}))
    target = next(iter(_TARGET.findall(scene.instruction)), "OVERVIEW.md")
    paths = sorted(paths_in(globs[-1].text), key=lambda path: (path != target, path.count("/"), path))
    unread = [path for path in paths[:_READ_AT_ONCE] if view_of(path, scene.results).lines is None]
    if unread and not scene.of("Read"):
        return say.do("read", *map(read, unread))
    return None


def _views(scene: Scene) -> dict[str, View]:
    paths = dict.fromkeys(str(result.arguments.get("file_path")) for result in scene.of("Read"))
    return {path: view for path in paths if (view := view_of(path, scene.results)).lines}


def _first_words(view: View) -> str:
    texts = (line.strip().strip("#\"'/*;- ") for _, line in sorted((view.lines or {}).items()))
    return cut(next((text for text in texts if text), "…"), 80)


# --- chat -----------------------------------------------------------------------------------------------


def chat_reply(scene: Scene) -> ScriptReply:
    """The reply in the piece ``chat``: where something is."""
    say = words(scene.language, "chat")
    wanted = _wanted(scene.instruction)
    if not wanted:
        return end(say("hello"), "success")
    shown = ", ".join(f"`{word}`" for word in wanted)
    greps = scene.of("Grep")
    if not greps:
        return say.do("search", _grep(wanted), words=shown)
    hits = [(hit["path"], int(hit["line"]), hit["text"]) for hit in _HIT.finditer(greps[-1].text)]
    if not hits:
        globs = scene.of("Glob")
        if not globs:
            return ScriptReply(calls=(("Glob", {"pattern": "**/*"}),))
        files = ", ".join(f"`{path}`" for path in paths_in(globs[-1].text)[:_SHOWN_FILES])
        return end(say("absent", words=shown, files=files or "-"), "success")
    path, line, _ = max(hits, key=lambda hit: _worth(hit[2], wanted))
    if not scene.of("Read"):
        return say.do("read", read(path, offset=max(1, line - 2), limit=8))
    code = view_of(path, scene.results).text.strip("\n")
    return end(say("found", place=f"`{path}:{line}`", code=code, count=len(hits), words=shown), "success")


def _wanted(instruction: str) -> list[str]:
    found = [word for word in _WORD.findall(instruction) if not _COMMON.fullmatch(word)]
    return list(dict.fromkeys(found))[:4]


def _grep(wanted: Sequence[str]) -> Call:
    return "Grep", {"pattern": f"(?i){'|'.join(map(re.escape, wanted))}", "output_mode": "content"}


def _worth(text: str, wanted: Sequence[str]) -> tuple[int, bool]:
    """How many of the words a line holds, a definition before a mention."""
    folded = text.casefold()
    return sum(word.casefold() in folded for word in wanted), bool(re.match(r"\s*(?:def|class)\b", text))
