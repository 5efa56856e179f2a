"""The scripted model at work with the piece ``code``: it mends a failing test whose cause is a fraction.

It looks for the file itself, runs the tests, quotes what they say, asks how to round unless somebody said
so, and writes what was answered. Each reply follows from the request alone.
"""

from __future__ import annotations

import re

from engine.core.truncate import cut
from engine.llm.scripted.script import ScriptReply
from engine.llm.scripted.story_change import Change
from engine.llm.scripted.story_reading import (
    Division,
    Rounding,
    Scene,
    TestRun,
    View,
    divisions,
    measured_in,
    note_of,
    paths_in,
    rounding_in,
    test_run,
    view_of,
)
from engine.llm.scripted.story_steps import TRIES, Call, ask, bash, command_of, end, files_of, read
from engine.llm.scripted.story_texts import Words, words

_READ_AT_ONCE = 6
_NAMED = re.compile(r"[\w./-]+\.py\b")
_ABOUT_ROUNDING = re.compile(r"round|ceil|floor|切り|切捨|切上|四捨", re.IGNORECASE)


def code_reply(scene: Scene) -> ScriptReply:
    """The reply in a movement of the piece ``code``."""
    match scene.movement:
        case "plan":
            return _plan(scene, words(scene.language, "code"))
        case "implement":
            return Change(scene).reply()
        case _:
            return _verify(scene, words(scene.language, "code"))


# --- plan -----------------------------------------------------------------------------------------------


def _plan(scene: Scene, say: Words) -> ScriptReply:
    look = _look(scene, say)
    if look is not None:
        return look
    place, command = _place(scene), command_of(scene)
    if scene.answer and place is not None:
        return _settle(scene, say, place, scene.question)
    runs = scene.of("Bash")
    if not runs:
        return say.do("run", bash(command))
    if note_of(runs[-1]) is not None:
        return end(say("not_seen", command=command))
    run = test_run(runs[-1].text)
    if run is None or run.outcome.startswith("Ran 0"):
        said = next((line for line in reversed(runs[-1].text.splitlines()) if line.strip()), "")
        return end(say("no_tests", command=command, said=cut(said, 200)))
    wanted = _named_rounding(scene)
    if run.passed and (place is None or wanted in (None, place[1].rounding)):
        return end(say("passing", command=command, outcome=run.outcome), "success")
    if place is None or not (run.passed or measured_in(run.raised)):
        return end(say("stuck", command=command, outcome=run.outcome, failing=run.failing, raised=run.raised))
    return _settle(scene, say, place, run.raised)


def _look(scene: Scene, say: Words) -> ScriptReply | None:
    """Find the files and read them to their ends; None when that is done."""
    named = next(iter(_NAMED.findall(scene.instruction)), None)
    globs = scene.of("Glob")
    if named and not scene.of("Read") and not globs:
        return say.do("look_named", read(named), path=named)
    if not globs:
        calls: tuple[Call, ...] = (("Glob", {"pattern": "**/*.py"}), ("Glob", {"pattern": "**/README*"}))
        if named and view_of(named, scene.results).missing:
            return say.do("search", *calls, path=named)
        return say.do("look", *calls)
    paths = sorted({path for result in globs for path in paths_in(result.text)}, key=_interest)[
        :_READ_AT_ONCE
    ]
    if not any(path.endswith(".py") for path in paths):
        return end(say("no_files"))
    unread = [path for path in paths if view_of(path, scene.results).lines is None]
    if unread:
        return say.do("read", *map(read, unread))
    for path in paths:
        if onward := view_of(path, scene.results).onward:
            return say.do("onward", read(path, **{onward[0]: onward[1]}), path=path)
    return None


def _interest(path: str) -> tuple[bool, bool, int, str]:
    """Nearest to the root first, what is hidden or says nothing last."""
    return "/." in f"/{path}", path.endswith("__init__.py"), path.count("/"), path


def _views(scene: Scene) -> dict[str, View]:
    paths = dict.fromkeys(str(result.arguments.get("file_path")) for result in scene.of("Read"))
    return {path: view for path in paths if (view := view_of(path, scene.results)).lines}


def _place(scene: Scene) -> tuple[str, Division] | None:
    """The file and the line that round, or should."""
    for path, view in _views(scene).items():
        if path.endswith(".py") and not _is_test(path):
            for division in divisions(view.lines or {}):
                return path, division
    return None


def _is_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("test") or name.endswith("_test.py")


def _named_rounding(scene: Scene) -> Rounding | None:
    """How the task itself wants a fraction rounded, if it says so."""
    return rounding_in(scene.instruction) if _ABOUT_ROUNDING.search(scene.instruction) else None


def _settle(scene: Scene, say: Words, place: tuple[str, Division], raised: str) -> ScriptReply:
    """Hand the plan on if it is settled how to round, else ask; who may not ask any more assumes."""
    rounding, source = rounding_in(scene.answer), say("source_answer", text=cut(scene.answer, 200))
    if rounding is None:
        rounding, source = _named_rounding(scene), say("source_task")
    if rounding is None and not scene.of("complete"):
        again = say.options("options_again")
        if not scene.answer:
            return ask(say("ask", raised=raised), say.options("options"))
        if again[-1] not in scene.question:
            return ask(say("ask_again", answer=cut(scene.answer, 200)), again)
    if rounding is None:
        rounding, source = Rounding.HALF, say("source_assumed")
    return _hand_on(scene, say, place, say("lesson", how=say.of("how", rounding), source=source), rounding)


def _hand_on(
    scene: Scene, say: Words, place: tuple[str, Division], lesson: str, rounding: Rounding
) -> ScriptReply:
    path, division = place
    seen = measured_in("\n".join([scene.guidance, *(result.text for result in scene.of("Bash"))]))
    summary = say(
        "plan",
        path=path,
        line=division.number,
        code=division.line.strip(),
        measured=f"{seen.call} is {seen.amount}" if seen else "-",
        how=say.of("how", rounding),
        test_path=next(filter(_is_test, _views(scene)), ""),
        command=command_of(scene),
    )
    hop = ("transition", {"next_step": "implement", "summary": summary, "lessons": lesson})
    return say.do("planned", hop, how=say.of("how", rounding))


# --- verify ---------------------------------------------------------------------------------------------


def _verify(scene: Scene, say: Words) -> ScriptReply:
    command = command_of(scene)
    runs = scene.of("Bash")
    run = test_run(runs[-1].text) if runs else None
    declined = bool(runs) and note_of(runs[-1]) is not None
    if run is None and not declined and len(runs) <= TRIES:
        return say.do("check_again" if runs else "verify", bash(command))
    if run is None:
        return end(say("unproven", why=say("not_allowed" if declined else "no_outcome")))
    if not run.passed:
        said = say("failed", command=command, outcome=run.outcome, failing=run.failing, raised=run.raised)
        return ScriptReply(
            calls=(("transition", {"next_step": "implement", "summary": said, "lessons": said}),)
        )
    unread = [path for path in files_of(scene) if path and view_of(path, scene.results).lines is None]
    if unread and not scene.of("Read"):
        return say.do("verify_read", *map(read, unread))
    return end(_outcome(scene, say, command, run), "success")


def _outcome(scene: Scene, say: Words, command: str, run: TestRun) -> str:
    place = _place(scene)
    if place is None or place[1].rounding is None:
        return say("passing", command=command, outcome=run.outcome)
    path, division = place
    assert division.rounding is not None
    name = f"test_fractions_are_rounded_{say.of('name', division.rounding)}"
    pinned = any(f"def {name}(" in view.text for view in _views(scene).values())
    told = {"path": path, "line": division.number, "code": division.line.strip(), "pinned": name}
    key = "done" if pinned else "done_unpinned"
    return say(key, doc=say.of("doc", division.rounding), command=command, outcome=run.outcome, **told)
