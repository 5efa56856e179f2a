"""Where pieces are looked for, what shadows what, and what a mistake says."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.errors import FaultyPiece, NotFound, NotTrusted
from engine.core.piece import collect_piece_transition_targets, conversation_into, is_verify, piece_hash
from engine.core.toolnames import BUILTIN_NAMES
from engine.loader import PieceDirs, check_text, default_dirs, list_pieces, load_piece, shipped_folder
from engine.yaml_tree import MAX_BYTES

TOOLS = frozenset({"Read", "Write", "Edit", "Glob", "Grep", "Bash"})
POSIX = os.name == "posix"


def text_of(name: str, description: str = "d") -> str:
    return (
        f"name: {name}\ndescription: {description}\nmax_movements: 3\ninitial_movement: a\nmovements:\n"
        "  - {name: a, edit: true, persona: p, instruction: i, allowed_tools: [], rules: []}\n"
    )


Put = Callable[..., Path]


@pytest.fixture
def dirs(tmp_path: Path) -> PieceDirs:
    """A trusted workspace, two folders of the person, and the shipped pieces of a made-up product."""
    return PieceDirs(tmp_path / "ws", True, (tmp_path / "user", tmp_path / "more"), tmp_path / "shipped")


@pytest.fixture
def put(tmp_path: Path) -> Put:
    places = {"workspace": "ws/.maestro/pieces", "user": "user", "more": "more", "shipped": "shipped"}

    def write(place: str, name: str, text: str | bytes | None = None) -> Path:
        path = tmp_path / places[place] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = text_of(path.stem, place) if text is None else text
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_the_first_hit_wins_and_shadowing_is_shown(dirs: PieceDirs, put: Put) -> None:
    for place in ("shipped", "more", "user", "workspace"):
        put(place, "general.yaml")
    put("more", "mine.yml")
    assert [(e.name, e.source, e.shadows, e.description) for e in list_pieces(dirs)] == [
        ("general", "workspace", ("user", "user", "shipped"), "workspace"),
        ("mine", "user", (), "more"),
    ]
    assert load_piece("general", dirs).piece.description == "workspace"


def test_an_earlier_folder_of_the_person_wins(dirs: PieceDirs, put: Put) -> None:
    put("more", "mine.yaml")
    put("user", "mine.yaml")
    assert load_piece("mine", dirs).piece.description == "user"


def test_a_workspace_that_is_not_trusted_is_not_looked_at(dirs: PieceDirs, put: Put) -> None:
    put("workspace", "general.yaml")
    put("workspace", "own.yaml")
    put("shipped", "general.yaml")
    untrusted = PieceDirs(dirs.workspace, False, dirs.user, dirs.shipped)
    assert [(e.name, e.source, e.shadows) for e in list_pieces(untrusted)] == [("general", "shipped", ())]
    assert load_piece("general", untrusted).source == "shipped"
    with pytest.raises(NotTrusted) as caught:
        load_piece("own", untrusted)
    assert caught.value.key == "piece.not_trusted"
    with pytest.raises(NotTrusted):
        load_piece(str(put("workspace", "own.yaml")), untrusted)


def test_a_loaded_piece_carries_what_the_job_stores(dirs: PieceDirs, put: Put) -> None:
    path = put("user", "mine.yaml", "# note\n" + text_of("mine"))
    loaded = load_piece("mine", dirs)
    assert (loaded.path, loaded.source, loaded.yaml_bytes) == (path, "user", path.read_bytes())
    assert loaded.hash == piece_hash(loaded.piece)
    put("user", "mine.yaml", text_of("mine"))
    assert load_piece("mine", dirs).hash == loaded.hash, "a comment does not change what the piece means"


def test_an_unknown_piece_names_the_known_ones_and_the_nearest(dirs: PieceDirs, put: Put) -> None:
    put("shipped", "general.yaml")
    put("user", "review.yaml")
    with pytest.raises(NotFound) as caught:
        load_piece("genral", dirs)
    assert caught.value.key == "piece.not_found_near"
    assert caught.value.data == {"id": "genral", "known": ["general", "review"], "near": "general"}
    assert caught.value.values == {"name": "genral", "near": "general", "known": "general, review"}
    with pytest.raises(NotFound) as caught:
        load_piece("zzz", dirs)
    assert caught.value.data == {"id": "zzz", "known": ["general", "review"]}
    assert (caught.value.code, caught.value.exit_status) == (4001, 2)


def test_a_name_never_becomes_a_path(dirs: PieceDirs, put: Put) -> None:
    put("user", "mine.yaml")
    for name in ("", ".", "..", "~", "*", "mine\0", "mine\n", "あ" * 3000):
        with pytest.raises(NotFound):
            load_piece(name, dirs)


def test_a_piece_may_be_given_as_a_file(dirs: PieceDirs, tmp_path: Path) -> None:
    path = tmp_path / "over there" / "odd.yaml"
    path.parent.mkdir()
    path.write_text(text_of("odd"))
    loaded = load_piece(str(path), dirs)
    assert (loaded.piece.name, loaded.source, loaded.path) == ("odd", "file", path)


@pytest.mark.parametrize("name", ["none.yaml", "no/such", "a\0b.yaml", "x" * 5000 + ".yaml"])
def test_a_file_that_is_not_there_is_said_to_be_missing(dirs: PieceDirs, name: str) -> None:
    with pytest.raises(NotFound) as caught:
        load_piece(name, dirs)
    assert caught.value.key == "piece.no_such_file"


def test_a_faulty_piece_is_refused_with_its_problems_in_the_units_of_the_protocol(
    dirs: PieceDirs, put: Put
) -> None:
    text = (
        text_of("mine")
        .replace("description: d", "description: '🎈'")
        .replace("persona: p", "persona: 🎈, zebra: 1")
    )
    path = put("user", "mine.yaml", text.replace("edit: true", "edit: yes"))
    with pytest.raises(FaultyPiece) as caught:
        load_piece("mine", dirs)
    error = caught.value
    assert error.values == {"path": str(path), "count": "1", "line": "6", "column": "21"}
    assert error.data == {
        "path": str(path),
        "problems": [
            {
                "severity": "error",
                "code": "not_boolean",
                "range": {"start": {"line": 5, "character": 20}, "end": {"line": 5, "character": 23}},
                "key": "piece.not_boolean",
                "values": {"name": "edit"},
                "fix": "true",
            },
            {
                "severity": "warning",
                "code": "unknown_key",
                "range": {"start": {"line": 5, "character": 38}, "end": {"line": 5, "character": 43}},
                "key": "piece.unknown_key",
                "values": {"name": "zebra"},
            },
        ],
    }


def test_a_broken_piece_is_listed_with_its_problems_and_still_shadows(dirs: PieceDirs, put: Put) -> None:
    put("user", "general.yaml", "a: b: c")
    put("shipped", "general.yaml")
    (entry,) = list_pieces(dirs)
    assert (entry.source, entry.shadows, entry.description) == ("user", ("shipped",), "")
    assert [p.code for p in entry.problems] == ["yaml_colon"]
    with pytest.raises(FaultyPiece):
        load_piece("general", dirs)


def test_a_piece_is_found_by_its_file_s_name_and_a_differing_name_is_a_warning(
    dirs: PieceDirs, put: Put
) -> None:
    put("user", "mine.yaml", text_of("other"))
    loaded = load_piece("mine", dirs)
    assert [p.code for p in loaded.problems] == ["name_differs"]
    with pytest.raises(NotFound):
        load_piece("other", dirs)


def test_other_files_are_no_pieces(dirs: PieceDirs, put: Put) -> None:
    for name in ("notes.md", ".hidden.yaml", "mine.yaml.bak", "json.json"):
        put("user", name, text_of("x"))
    assert list_pieces(dirs) == []


def test_folders_that_are_not_there_hold_no_pieces(tmp_path: Path) -> None:
    assert list_pieces(PieceDirs(tmp_path / "a", True, (tmp_path / "b",), tmp_path / "c")) == []
    assert list_pieces(PieceDirs()) == []


def code_of(dirs: PieceDirs, name: str = "mine") -> str:
    with pytest.raises(FaultyPiece) as caught:
        load_piece(name, dirs)
    return str(caught.value.data["problems"][0]["code"])  # type: ignore[index]


def test_a_file_over_the_cap_is_refused(dirs: PieceDirs, put: Put) -> None:
    put("user", "mine.yaml", text_of("mine") + "#" * MAX_BYTES)
    assert code_of(dirs) == "too_large"


def test_a_folder_in_the_place_of_a_piece_is_refused(dirs: PieceDirs, tmp_path: Path) -> None:
    (tmp_path / "user" / "mine.yaml").mkdir(parents=True)
    assert code_of(dirs) == "not_regular"


if POSIX:  # a file system without pipes and free links has nothing to show here

    def test_a_pipe_in_the_place_of_a_piece_is_refused_and_not_waited_for(
        dirs: PieceDirs, tmp_path: Path
    ) -> None:
        (tmp_path / "user").mkdir()
        os.mkfifo(tmp_path / "user" / "mine.yaml")
        assert code_of(dirs) == "not_regular"

    def test_a_link_out_of_the_workspace_is_not_followed(dirs: PieceDirs, put: Put, tmp_path: Path) -> None:
        target = tmp_path / "secret.yaml"
        target.write_text(text_of("mine"))
        put("workspace", "other.yaml").with_name("mine.yaml").symlink_to(target)
        assert code_of(dirs) == "link_outside"

    def test_a_pieces_folder_that_is_a_link_out_of_the_workspace_is_not_followed(
        dirs: PieceDirs, put: Put, tmp_path: Path
    ) -> None:
        put("more", "mine.yaml")
        (tmp_path / "ws" / ".maestro").mkdir(parents=True)
        (tmp_path / "ws" / ".maestro" / "pieces").symlink_to(tmp_path / "more")
        assert code_of(dirs) == "link_outside"

    def test_a_link_inside_the_workspace_and_links_of_the_person_are_followed(
        dirs: PieceDirs, put: Put, tmp_path: Path
    ) -> None:
        put("workspace", "other.yaml").with_name("mine.yaml").symlink_to("other.yaml")
        assert load_piece("mine", dirs).piece.name == "other"
        (tmp_path / "user").mkdir()
        (tmp_path / "user" / "dots.yaml").symlink_to(put("more", "else.yaml"))
        assert load_piece("dots", dirs).source == "user"

    def test_a_dead_link_and_a_ring_of_links_are_unreadable(dirs: PieceDirs, tmp_path: Path) -> None:
        (tmp_path / "user").mkdir()
        (tmp_path / "user" / "mine.yaml").symlink_to("nowhere")
        (tmp_path / "user" / "ring.yaml").symlink_to("ring.yaml")
        assert (code_of(dirs), code_of(dirs, "ring")) == ("unreadable", "unreadable")
        assert [e.name for e in list_pieces(dirs)] == ["mine", "ring"]


def test_the_usual_places_are_the_config_folder_the_configured_ones_and_the_shipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    dirs = default_dirs(tmp_path / "ws", True, [tmp_path / "mine"])
    assert dirs.user[0].parts[-2:] == ("maestro-lsp", "pieces")
    assert dirs.user[1:] == (tmp_path / "mine",)
    assert dirs.shipped == shipped_folder()


SHIPPED = PieceDirs(shipped=shipped_folder())


def test_the_shipped_pieces_have_no_problems() -> None:
    entries = list_pieces(SHIPPED, BUILTIN_NAMES)
    assert {entry.name for entry in entries} == {
        "chat",
        "code",
        "general",
        "parallel",
        "piece-builder",
        "research",
        "review",
    }
    assert [(entry.name, entry.problems) for entry in entries if entry.problems] == []


def test_the_shipped_files_validate_as_open_documents_too() -> None:
    for path in shipped_folder().glob("*.yaml"):
        assert check_text(path.read_text(encoding="utf-8"), str(path), BUILTIN_NAMES).problems == ()


def test_general_is_one_movement_with_all_tools_that_ends_by_complete() -> None:
    piece = load_piece("general", SHIPPED, BUILTIN_NAMES).piece
    (work,) = piece.movements
    assert (work.edit, work.rules, set(work.allowed_tools)) == (True, (), TOOLS | {"GitCommit"})
    assert collect_piece_transition_targets(piece) == ()


def test_chat_is_one_movement_that_only_reads() -> None:
    (answer,) = load_piece("chat", SHIPPED, TOOLS).piece.movements
    assert (answer.edit, answer.rules) == (False, ())
    assert TOOLS & set(answer.allowed_tools) == {"Read", "Glob", "Grep"}


def test_code_plans_then_implements_and_verifies_in_turn() -> None:
    piece = load_piece("code", SHIPPED, TOOLS).piece
    plan, implement, verify = piece.movements
    assert (piece.initial_movement, plan.name, implement.name, verify.name) == (
        "plan",
        "plan",
        "implement",
        "verify",
    )
    assert [rule.next for rule in plan.rules] == ["implement"]
    assert "verify" in [rule.next for rule in implement.rules]
    assert [rule.next for rule in verify.rules] == ["implement"]
    assert (plan.edit, implement.edit, verify.edit) == (False, True, False)
    assert is_verify(verify) and not is_verify(plan) and not is_verify(implement)
    assert (conversation_into(piece, implement), conversation_into(piece, verify)) == ("continue", "restart")
    assert all(movement.default_next and movement.max_consecutive_revisits for movement in piece.movements)
    assert verify.allowed_commands is not None
    assert {"pytest", "python -m pytest", "npm test", "cargo test", "go test"} <= set(verify.allowed_commands)
