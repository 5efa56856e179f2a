"""Piece files in an editor: findings while one types, in the reader's language, and fixes that mend."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maestro_lsp.documents import Change, offset_at, split_lines, units
from maestro_lsp.documents import Place as At
from maestro_lsp.documents import apply_changes as applied
from maestro_lsp.features.pieces import is_piece_file
from tests.lsp.driver import PLAIN, Editor, Place, editor
from tests.lsp.pieces import TWO

SHIPPED = Path(__file__).parents[2] / "pieces"
PUBLISH = "textDocument/publishDiagnostics"
ERROR, WARNING, INFO = 1, 2, 3

SOUND = TWO.replace("name: two", "name: demo", 1)
MISTYPED = SOUND.replace("next: implement", "next: implment")

ABLE: dict[str, Any] = {
    **PLAIN,
    "textDocument": {
        "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix"]}}}
    },
}


def with_(**more: Any) -> dict[str, Any]:
    """The capabilities of a client with code actions and something more."""
    return {**ABLE, **more}


@dataclass
class Buffer:
    """An open file of an editor, of which the disk need not know."""

    it: Editor
    path: Path
    version: int = 0

    @property
    def uri(self) -> str:
        return self.path.as_uri()

    def open(self, text: str) -> None:
        self.version += 1
        document = {"uri": self.uri, "languageId": "yaml", "version": self.version, "text": text}
        self.it.client.notify("textDocument/didOpen", {"textDocument": document})

    def change(self, *changes: dict[str, Any]) -> None:
        self.version += 1
        document = {"uri": self.uri, "version": self.version}
        self.it.client.notify(
            "textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)}
        )

    def close(self) -> None:
        self.it.client.notify("textDocument/didClose", {"textDocument": {"uri": self.uri}})

    async def told(self) -> list[dict[str, Any]]:
        """The diagnostics of the newest version."""
        found = await self.it.seen(PUBLISH, lambda p: p["uri"] == self.uri and p["version"] == self.version)
        diagnostics: list[dict[str, Any]] = found["params"]["diagnostics"]
        return diagnostics

    async def cleared(self) -> None:
        """Wait for diagnostics that are taken back, which have no version."""
        found = await self.it.seen(PUBLISH, lambda p: p["uri"] == self.uri and "version" not in p)
        assert found["params"]["diagnostics"] == []

    async def codes(self) -> list[str]:
        return [found["code"] for found in await self.told()]

    async def actions(
        self, where: dict[str, Any], only: list[str] | None = None, found: list[Any] | None = None
    ) -> list[Any]:
        context = {"diagnostics": found or [], **({} if only is None else {"only": only})}
        params = {"textDocument": {"uri": self.uri}, "range": where, "context": context}
        actions: list[Any] = await self.it.client.request("textDocument/codeAction", params)
        return actions

    def heard(self) -> list[Any]:
        """All that was ever published about it."""
        return [params for params in self.it.client.received(PUBLISH) if params["uri"] == self.uri]


def piece_path(place: Place, name: str = "demo.yaml") -> Path:
    folder = place.workspace / ".maestro" / "pieces"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


@asynccontextmanager
async def open_piece(place: Place, text: str, **how: Any) -> AsyncIterator[Buffer]:
    """A piece that is open in an editor and not on disk."""
    async with editor(place, **how) as it:
        buffer = Buffer(it, piece_path(place))
        buffer.open(text)
        yield buffer
        assert it.client.received("window/showMessage") == []


def whole(text: str) -> dict[str, Any]:
    return {"text": text}


def range_of(text: str, word: str, encoding: str = "utf-16") -> dict[str, Any]:
    """Where the first ``word`` stands, as a client counts."""
    before = text[: text.index(word)]
    line, start = before.count("\n"), units(before.rpartition("\n")[2], encoding)
    return {
        "start": {"line": line, "character": start},
        "end": {"line": line, "character": start + units(word, encoding)},
    }


def edited(text: str, edit: dict[str, Any], encoding: str = "utf-16") -> str:
    start, end = (At(**edit["range"][end]) for end in ("start", "end"))
    return applied(text, [Change(edit["newText"], start, end)], encoding)


# -- what is told


@pytest.mark.slow
async def test_a_fault_is_told_with_its_place_what_it_is_and_its_mend(place: Place) -> None:
    async with open_piece(place, MISTYPED) as piece:
        assert await piece.told() == [
            {
                "range": range_of(MISTYPED, "implment"),
                "severity": ERROR,
                "code": "unknown_movement",
                "source": "maestro",
                "message": "There is no movement “implment”. Did you mean “implement”? "
                "There are: plan, implement.",
                "data": {"fix": "implement"},
            }
        ]
        assert not piece.path.exists(), "unsaved text counts"


@pytest.mark.slow
async def test_each_severity_is_its_own_and_a_finding_without_a_mend_has_no_data(place: Place) -> None:
    text = SOUND.replace("max_movements: 5", "max_movements: 0\nzebra: 1")
    text = text.replace("- name: plan", "- name: verify").replace("movement: plan", "movement: verify")
    async with open_piece(place, text) as piece:
        found = await piece.told()
        assert [(f["code"], f["severity"], "data" in f) for f in found] == [
            ("not_count", ERROR, False),
            ("unknown_key", WARNING, False),
            ("verify_by_name", INFO, False),
        ]


@pytest.mark.slow
async def test_a_japanese_reader_is_told_in_japanese(place: Place) -> None:
    async with open_piece(place, MISTYPED, locale="ja-JP", capabilities=ABLE) as piece:
        [found] = await piece.told()
        assert found["message"].startswith("ムーブメント「implment」はありません。")
        [action] = await piece.actions(found["range"])
        assert action["title"] == "「implement」に置き換える"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_places_are_counted_as_the_client_counts(place: Place, encoding: str) -> None:
    rule = "      - {condition: 計画𝒙👍, next: implment}\n"
    text = SOUND.replace("      - condition: The plan is made.\n        next: implement\n", rule)
    able = with_(general={"positionEncodings": [encoding]})
    async with open_piece(place, text, capabilities=able) as piece:
        [found] = await piece.told()
        assert found["range"] == range_of(text, "implment", encoding)
        [action] = await piece.actions(found["range"])
        [edit] = action["edit"]["changes"][piece.uri]
        assert edited(text, edit, encoding) == text.replace("implment", "implement")


@pytest.mark.slow
async def test_mending_a_fault_clears_it_and_closing_the_file_clears_all(place: Place) -> None:
    async with open_piece(place, MISTYPED) as piece:
        assert await piece.codes() == ["unknown_movement"]
        piece.change({"range": range_of(MISTYPED, "implment"), "text": "implement"})
        assert await piece.told() == []
        piece.change(whole(MISTYPED.replace("edit: false", "edit: no")))
        assert await piece.codes() == ["not_boolean", "unknown_movement"]
        piece.close()
        await piece.cleared()
        piece.open(MISTYPED)
        assert await piece.codes() == ["unknown_movement"]


@pytest.mark.slow
@pytest.mark.parametrize("trusted", [False, None])
async def test_an_untrusted_workspace_gets_them_too(place: Place, trusted: bool | None) -> None:
    options = {} if trusted is None else {"trusted": trusted}
    async with open_piece(place, MISTYPED, initializationOptions=options) as piece:
        assert await piece.codes() == ["unknown_movement"]


@pytest.mark.slow
async def test_a_server_without_a_workspace_has_them_for_every_piece_folder(place: Place) -> None:
    async with editor(place, rootUri=None) as it:
        piece = Buffer(it, piece_path(place))
        piece.open(MISTYPED)
        assert await piece.codes() == ["unknown_movement"]


# -- while one types


@pytest.mark.slow
async def test_a_piece_typed_line_by_line_never_brings_more_than_findings(place: Place) -> None:
    lines = SOUND.splitlines(keepends=True)
    async with open_piece(place, "") as piece:
        assert await piece.codes() == ["empty_file"]
        for count in range(1, len(lines)):
            piece.change(whole("".join(lines[:count])))
            await piece.told()
        piece.change(whole(SOUND))
        assert await piece.told() == []


NO_YAML = {
    "nothing closed": ("name: [a, {b: 'c\n", "yaml_unclosed"),
    "a tab": ("\tname: demo\n", "yaml_tab"),
    "binary": ("\x00\x01\x7fELF\x02" * 20_000, "bad_character"),
    "half a character": ("name: \ud83d\n", "bad_character"),
    "an alias inside itself": ("&a [*a, *a]", "recursive_alias"),
    "deep": ("a: [" + "[" * 5_000, "too_deep"),
    "3 MB of lines": ("name: x\n" * 400_000, "too_large"),
    "3 MB in a line": ("x" * 3_000_000, "too_large"),
    "odd line ends": ("\u2028\x85: 漢\r\r\n:", "yaml_indent"),
}


@pytest.mark.slow
async def test_text_that_is_no_yaml_is_one_finding(place: Place) -> None:
    async with open_piece(place, SOUND) as piece:
        assert await piece.told() == []
        for name, (text, code) in NO_YAML.items():
            piece.change(whole(text))
            assert (name, await piece.codes()) == (name, [code])
            piece.change(whole(MISTYPED))
            assert (name, await piece.codes()) == (name, ["unknown_movement"])


@pytest.mark.slow
async def test_a_file_that_is_closed_while_it_is_checked_keeps_no_findings(place: Place) -> None:
    slow = "movements:\n" + "  - {a: b, c: d}\n" * 3_000  # takes far longer than a round trip
    async with open_piece(place, SOUND, capabilities=ABLE) as piece:
        assert await piece.told() == []
        shut = Buffer(piece.it, piece_path(place, "shut.yaml"))
        shut.open(slow)
        assert await shut.actions(range_of(slow, "movements"), ["refactor"]) == []
        shut.close()
        piece.change(whole(MISTYPED))
        assert await piece.codes() == ["unknown_movement"]
        assert [params["diagnostics"] for params in shut.heard()][-1:] in ([], [[]])


@pytest.mark.slow
async def test_of_300_quick_changes_only_the_last_text_counts_and_the_server_stays_quick(
    place: Place,
) -> None:
    async with open_piece(place, SOUND) as piece:
        assert await piece.told() == []
        await piece.it.command("status")
        word = range_of(SOUND, "next: implement")
        at = {"start": word["end"], "end": word["end"]}
        for count in range(150):
            piece.change({"range": at, "text": "x"})
            piece.change(
                {"range": {"start": at["start"], "end": _after(at)}, "text": "y" if count == 149 else ""}
            )
        began = time.monotonic()
        await piece.it.command("status")
        took = time.monotonic() - began
        [found] = await piece.told()
        assert "“implementy”" in found["message"] and piece.version == 301
        assert took < 1.0, "a request behind 300 changes"
        await piece.it.command("status")  # nothing is on its way any more
        versions = [params["version"] for params in piece.heard()]
        assert versions == sorted(set(versions)) and versions[-1] == 301
        assert piece.heard()[-1]["diagnostics"] == [found]


def _after(at: dict[str, Any]) -> dict[str, int]:
    return {**at["start"], "character": at["start"]["character"] + 1}


# -- quick fixes


MENDABLE = [
    ("next: implement", "next: implment"),
    ("initial_movement: plan", "initial_movement: Plan"),
    ("name: demo", "name: other"),
    ("name: demo", "name: DEMO"),
    ("edit: false", "edit: no"),
    ("max_movements: 5", "max_movements: '5'"),
    ("persona: You plan.", "persona: You plan.\n    defalt_next: ABORT"),
    ("allowed_tools: [Read]", "allowed_tools: [Raed]"),
    ("allowed_tools: [Read]", "allowed_tools: Read, Grep"),
    ("rules: []", "rules:"),
]
"""What is sound in the piece, and what a person wrote in its place."""


@pytest.mark.slow
async def test_a_quick_fix_leaves_a_clean_file(place: Place) -> None:
    async with open_piece(place, SOUND, capabilities=ABLE) as piece:
        for sound, faulty in MENDABLE:
            assert sound in SOUND
            piece.change(whole(SOUND.replace(sound, faulty, 1)))
            [found] = await piece.told()
            [action] = await piece.actions(found["range"], found=[found])
            assert (action["kind"], action["isPreferred"]) == ("quickfix", True)
            assert action["diagnostics"] == [found]
            assert action["title"] == f"Replace with “{found['data']['fix'].strip()}”"
            [edit] = action["edit"]["changes"][piece.uri]
            piece.change({"range": edit["range"], "text": edit["newText"]})
            assert (faulty, await piece.told()) == (faulty, [])


@pytest.mark.slow
async def test_a_client_that_knows_versions_gets_the_edit_for_this_version_only(place: Place) -> None:
    able = with_(workspace={"workspaceEdit": {"documentChanges": True}})
    async with open_piece(place, SOUND, capabilities=able) as piece:
        piece.change(whole(MISTYPED))
        where = range_of(MISTYPED, "implment")
        [action] = await piece.actions(where)
        assert action["edit"] == {
            "documentChanges": [
                {
                    "textDocument": {"uri": piece.uri, "version": 2},
                    "edits": [{"range": where, "newText": "implement"}],
                }
            ]
        }


@pytest.mark.slow
async def test_a_fix_is_offered_at_its_place_and_for_those_who_ask_for_fixes(place: Place) -> None:
    text = MISTYPED.replace("edit: false", "edit: no")
    async with open_piece(place, text, capabilities=ABLE) as piece:
        rule, edit = range_of(text, "implment"), range_of(text, "no\n")
        everything = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}

        async def titles(where: dict[str, Any], only: list[str] | None = None) -> list[str]:
            return [action["title"] for action in await piece.actions(where, only)]

        a_rule, an_edit = "Replace with “implement”", "Replace with “false”"
        assert await titles(rule) == [a_rule] and await titles(edit) == [an_edit]
        assert await titles(everything) == [an_edit, a_rule]
        assert await titles({"start": rule["end"], "end": rule["end"]}) == [a_rule], "the caret behind it"
        assert await titles(range_of(text, "persona")) == []
        assert await titles(rule, ["quickfix"]) == [a_rule] and await titles(rule, [""]) == [a_rule]
        assert await titles(rule, ["refactor", "source.fixAll"]) == []
        piece.close()
        assert await titles(rule) == [], "closed"


@pytest.mark.slow
async def test_a_client_without_code_actions_is_sent_none(place: Place) -> None:
    async with open_piece(place, MISTYPED) as piece:
        assert piece.it.initialized["capabilities"]["codeActionProvider"] == {"codeActionKinds": ["quickfix"]}
        assert await piece.actions(range_of(MISTYPED, "implment")) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["build: it", "build #2"])
async def test_a_fix_that_would_not_mend_is_not_offered(place: Place, name: str) -> None:
    """Without quotes YAML reads such a name otherwise."""
    text = SOUND.replace("name: implement", f'name: "{name}"').replace("next: implement", f'next: "{name}x"')
    async with open_piece(place, text, capabilities=ABLE) as piece:
        [found] = await piece.told()
        actions = await piece.actions(found["range"])
        for action in actions:  # a validator that quotes it may offer it
            [edit] = action["edit"]["changes"][piece.uri]
            piece.change({"range": edit["range"], "text": edit["newText"]})
            assert await piece.told() == []
        assert actions == [] or found["data"]["fix"] != name


# -- which files


@pytest.mark.slow
async def test_pieces_are_known_by_where_they_lie(place: Place, tmp_path: Path) -> None:
    shop, mine = place.workspace, tmp_path / "mine"
    place.env |= {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)}
    piece_path(place)
    linked = tmp_path / "by-another-name"
    linked.symlink_to(shop)
    pieces = [
        piece_path(place),
        piece_path(place, "other.yml"),
        shop / "packages" / "cart" / ".maestro" / "pieces" / "demo.yaml",
        linked / ".maestro" / "pieces" / "linked.yaml",
        tmp_path / "config" / "maestro-lsp" / "pieces" / "demo.yaml",
        mine / "demo.yaml",
        SHIPPED / "demo.yaml",
    ]
    others = [
        shop / "demo.yaml",
        piece_path(place, ".hidden.yaml"),
        piece_path(place, "notes.md"),
        shop / ".maestro" / "pieces" / "deeper" / "demo.yaml",
        shop / "pieces" / "demo.yaml",
        tmp_path / "elsewhere" / ".maestro" / "pieces" / "demo.yaml",
    ]
    options = {"trusted": False, "settings": {"pieces_dirs": ["~/mine", "~nobody-at-all/pieces"]}}
    async with editor(place, initializationOptions=options) as it:
        for path in others:
            Buffer(it, path).open("name: 'x")
        for path in pieces:
            piece = Buffer(it, path)
            piece.open("name: 'x")
            assert await piece.codes() == ["yaml_unclosed"], path
        it.client.notify(
            "textDocument/didOpen",
            {"textDocument": {"uri": "untitled:x.yaml", "languageId": "yaml", "version": 1, "text": "["}},
        )
        last = Buffer(it, piece_path(place, "last.yaml"))
        last.open("name: 'x")
        await last.told()
        uris = [params["uri"] for params in it.client.received(PUBLISH)]
        assert uris == [path.as_uri() for path in [*pieces, last.path]]


@pytest.mark.slow
async def test_a_folder_that_is_configured_later_makes_its_open_files_pieces(
    place: Place, tmp_path: Path
) -> None:
    async with editor(place) as it:
        piece = Buffer(it, tmp_path / "mine" / "demo.yaml")
        piece.open(MISTYPED)

        def configure(*folders: str) -> None:
            it.client.notify(
                "workspace/didChangeConfiguration",
                {"settings": {"maestro": {"pieces_dirs": list(folders)}}},
            )

        configure(str(tmp_path / "mine"))
        assert await piece.codes() == ["unknown_movement"]
        configure()
        await piece.cleared()


@pytest.mark.parametrize(
    ("path", "is_piece"),
    [
        ("shop/.maestro/pieces/a.yaml", True),
        ("shop/.maestro/pieces/a.yml", True),
        ("shop/.maestro/pieces/a.json", False),
        ("shop/.maestro/pieces/.a.yaml", False),
        ("shop/pieces/a.yaml", False),
        ("outside/.maestro/pieces/a.yaml", False),
        ("mine/a.yaml", True),
        ("mine/deeper/a.yaml", False),
        ("link-to-mine/a.yaml", True),
    ],
)
def test_a_file_is_a_piece_by_its_folder_and_its_ending(tmp_path: Path, path: str, is_piece: bool) -> None:
    workspace, mine = tmp_path / "shop", tmp_path / "mine"
    workspace.mkdir()
    mine.mkdir()
    (tmp_path / "link-to-mine").symlink_to(mine)
    assert is_piece_file(tmp_path / path, workspace, {mine}) is is_piece


# -- columns


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@given(
    text=st.lists(st.sampled_from(["a", "é", "漢", "👍", "\ud83d", "\n", "\r\n", "\r", "\u2028"])).map(
        "".join
    )
)
@settings(max_examples=200, deadline=None)
def test_a_column_in_units_is_the_place_the_server_reads_back(encoding: str, text: str) -> None:
    start, ends = 0, [*re.findall("\r\n|\n|\r", text), ""]
    for number, (line, end) in enumerate(zip(split_lines(text), ends, strict=True)):
        for column in range(len(line) + 1):
            place = At(number, units(line[:column], encoding))
            assert offset_at(text, place, encoding) == start + column
        start += len(line) + len(end)
