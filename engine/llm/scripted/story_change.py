"""The movement ``implement`` of the story: two edits and a run of the tests, whatever the calls came to."""

from __future__ import annotations

import re
from typing import Any

from engine.core.truncate import cut
from engine.llm.scripted.script import ScriptReply, ScriptResult
from engine.llm.scripted.story_reading import (
    Division,
    Rounding,
    Scene,
    TestRun,
    divisions,
    measured_in,
    note_of,
    rounding_in,
    test_run,
    view_of,
)
from engine.llm.scripted.story_steps import TRIES, ask, bash, command_of, end, files_of, read
from engine.llm.scripted.story_texts import words

_LESSON = re.compile(r"(?:Rounding|端数): (.*)")
_PIN = "def test_fractions_are_rounded_"


class Change:
    """What the conversation and the guidance tell, and the reply that follows from it.

    How to round: as the note of a declined edit says, else as the person answered here, else as planned.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.say = words(scene.language, "code")
        self.path, self.test_path = files_of(scene)
        self.command = command_of(scene)
        self.source = view_of(self.path, scene.results)
        self.tests = view_of(self.test_path, scene.results)
        lessons = _LESSON.findall(scene.guidance)
        said = [*reversed(self.source.notes), scene.answer, *lessons[-1:]]
        self.rounding = next((kind for text in said if (kind := rounding_in(text))), None)

    def reply(self) -> ScriptReply:
        """The next reply."""
        if self.rounding is None or not self.path:
            return self.say.do("lost", ("transition", {"next_step": "plan", "summary": self.say("lost")}))
        if self.say.options("options_declined")[-1] in self.scene.answer:
            return end(self.say("left", path=self.path))
        files = {
            path: view for path, view in ((self.path, self.source), (self.test_path, self.tests)) if path
        }
        unread = [path for path, view in files.items() if view.lines is None and view.tries <= TRIES]
        if unread:
            return self.say.do("reread", *map(read, unread))
        for path, view in files.items():
            if view.onward:
                return self.say.do("onward", read(path, **{view.onward[0]: view.onward[1]}), path=path)
        return self._edit(self.rounding) or self._pin(self.rounding) or self._check(self.rounding)

    def _edit(self, rounding: Rounding) -> ScriptReply | None:
        """The edit of the line that divides; None when it is there."""
        division = next(divisions(self.source.lines or {}), None)
        if division is None or self.source.tries > TRIES:
            said = next((result.text for result in reversed(self.scene.of("Edit", "Read"))), "")
            return end(self.say("refused", said=cut(said.partition("\n")[0], 200)))
        if division.rounding is rounding:
            return None
        if self.source.notes and rounding_in(self.source.notes[-1]) is None:
            if self.scene.of("complete"):
                return end(self.say("left", path=self.path))
            return ask(self.say("declined", path=self.path), self.say.options("options_declined"))
        how = self.say.of("how", rounding)
        key = "edit_note" if self.source.notes else "edit"
        call = ("Edit", self._replacement(division, rounding))
        return self.say.do(key, call, path=self.path, line=division.number, how=how)

    def _replacement(self, division: Division, rounding: Rounding) -> dict[str, Any]:
        """The line, with the docstring above it if there is one: it says from now on how it rounds."""
        above = (self.source.lines or {}).get(division.number - 1, "")
        old, new = division.line, division.rounded(rounding)
        if above.strip().startswith('"""') and above.endswith('"""') and len(above.strip()) > 6:
            plain = above[:-3].rstrip()
            for kind in Rounding:
                plain = plain.removesuffix(self.say.of("doc", kind)).rstrip()
            old = f"{above}\n{old}"
            said = self.say.of("doc", rounding)
            space = "" if not plain[-1].isascii() and not said[0].isascii() else " "
            new = f'{plain}{space}{said}"""\n{new}'
        return {"file_path": self.path, "old_string": old, "new_string": new}

    def _pin(self, rounding: Rounding) -> ScriptReply | None:
        """The edit that pins the decision by a test; None when it is there, was declined, or has no place."""
        lines = sorted((self.tests.lines or {}).items())
        seen = measured_in(self.scene.guidance)
        name = f"{_PIN}{self.say.of('name', rounding)}(self):"
        if seen is None or self.tests.tries or any(name in line for _, line in lines):
            return None
        tests = [at for at, (_, line) in enumerate(lines) if line.lstrip().startswith("def test_")]
        if not tests:
            return None
        earlier = next((at for at in tests if lines[at][1].lstrip().startswith(_PIN)), None)
        first = lines[tests[0]][1]
        indent = first[: len(first) - len(first.lstrip())]
        new = f"{indent}{name}\n{indent}    self.assertEqual({seen.call}, {seen.rounded(rounding)})"
        if earlier is None:
            old, new = first, f"{new}\n\n{first}"
        else:
            old = "\n".join(line for _, line in lines[earlier : earlier + 2])
        return self.say.do(
            "pin", ("Edit", {"file_path": self.test_path, "old_string": old, "new_string": new})
        )

    def _check(self, rounding: Rounding) -> ScriptReply:
        """Run the tests after the last edit, again if a run told nothing, and hand on what they said."""
        runs = self._runs()
        run = test_run(runs[-1].text) if runs else None
        declined = bool(runs) and note_of(runs[-1]) is not None
        if run is None and not declined and len(runs) <= TRIES:
            return self.say.do("check_again" if runs else "check", bash(self.command))
        if run is None:
            return self._hand_on(rounding, None, self.say("not_allowed" if declined else "no_outcome"))
        if not run.passed:
            said = {"outcome": run.outcome, "failing": run.failing, "raised": run.raised}
            return end(self.say("stuck", command=self.command, **said))
        return self._hand_on(rounding, run, "")

    def _runs(self) -> list[ScriptResult]:
        """The test runs after the last edit that was carried out."""
        results = self.scene.results
        edits = [at for at, result in enumerate(results) if result.name == "Edit" and note_of(result) is None]
        return [result for result in results[edits[-1] + 1 if edits else 0 :] if result.name == "Bash"]

    def _hand_on(self, rounding: Rounding, run: TestRun | None, why: str) -> ScriptReply:
        summary = self.say(
            "changed_unseen" if run is None else "changed",
            path=self.path,
            test_path=self.test_path,
            how=self.say.of("how", rounding),
            outcome=run.outcome if run else "",
            why=why,
            command=self.command,
        )
        return ScriptReply(calls=(("transition", {"next_step": "verify", "summary": summary}),))
