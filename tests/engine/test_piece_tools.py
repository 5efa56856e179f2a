"""ListPieces, GetPiece, CreatePiece, UpdatePiece: pieces that the model reads and builds, and the person
allows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.views import JobDetail
from engine.llm.scripted import ScriptReply, ScriptRequest
from engine.loader import PieceDirs, load_piece, shipped_folder
from tests.engine.rig import Rig, rig

TOOLS = "[ListPieces, GetPiece, CreatePiece, UpdatePiece, Read]"
BUILDER = f"""
name: builder
description: Builds pieces.
max_movements: 5
initial_movement: build
movements:
  - name: build
    edit: true
    persona: p
    instruction: build
    allowed_tools: {TOOLS}
    rules: []
"""
MINE = """name: mine
description: Sorts the shelf. 棚を整理する。
max_movements: 3
initial_movement: only
triggers: {keywords: [shelf]}
movements:
  - name: only
    edit: false
    persona: p
    instruction: sort
    allowed_tools: [Read]
    rules: []
"""
FAULTY = MINE.replace("max_movements: 3\n", "").replace("[Read]", "[Raed]")
DONE = ScriptReply(calls=(("complete", {"status": "success", "result": "done"}),))


def call(tool: str, **arguments: object) -> ScriptReply:
    return ScriptReply(calls=((tool, arguments),))


def create(name: str = "mine", text: str = MINE) -> ScriptReply:
    return call("CreatePiece", name=name, yaml_content=text)


def update(name: str = "mine", text: str = MINE) -> ScriptReply:
    return call("UpdatePiece", name=name, yaml_content=text)


def results(it: Rig) -> list[str]:
    return [m["content"] for m in it.bodies()[-1]["messages"] if m["role"] == "tool"]


def stored(it: Rig, name: str = "mine") -> Path:
    return it.workspace / ".maestro" / "pieces" / f"{name}.yaml"


async def ended(it: Rig, piece: str = "builder") -> JobDetail:
    detail = await it.until_rest(await it.start(piece=piece))
    assert detail.status == "succeeded", (detail.status, detail.wait_reason, detail.result)
    return detail


async def test_a_piece_is_made_once_the_person_saw_it_and_it_can_be_run_and_reverted(tmp_path: Path) -> None:
    async with rig(tmp_path, [create(), DONE], pieces={"builder": BUILDER}) as it:
        job = await it.start(piece="builder")
        request = await it.open_request(job)
        assert request.reason == "approval" and request.title.startswith(
            "CreatePiece .maestro/pieces/mine.yaml"
        )
        assert request.diff is not None and request.diff[0].before is None and request.diff[0].after == MINE
        assert request.rule is None and "protected" in request.why
        assert not stored(it).exists()
        await it.client.decide(request.request_id, "allow")
        detail = await it.until_rest(job)
        assert detail.status == "succeeded" and stored(it).read_text("utf-8") == MINE
        assert "no faults" in results(it)[0]
        changed = {one.path: one.status for one in await it.client.changes(job)}
        assert changed[".maestro/pieces/mine.yaml"] == "added"
        assert (await it.client.load_piece("mine")).source == "workspace"
        await it.client.revert(job)
        assert not stored(it).exists()


async def test_a_piece_the_person_declines_is_not_made_and_the_note_reaches_the_model(tmp_path: Path) -> None:
    async with rig(tmp_path, [create(), DONE], pieces={"builder": BUILDER}, mode="all") as it:
        job = await it.start(piece="builder")
        await it.client.decide((await it.open_request(job)).request_id, "deny", note="not this one")
        assert (await it.until_rest(job)).status == "succeeded"
        assert "not this one" in results(it)[0] and not stored(it).exists()


async def test_an_update_shows_the_difference_and_wants_the_piece_read_first(tmp_path: Path) -> None:
    new = MINE.replace("sort", "sort by size")
    script = [update(text=new), call("GetPiece", name="mine"), update(text=new), DONE]
    async with rig(tmp_path, script, pieces={"builder": BUILDER, "mine": MINE}) as it:
        job = await it.start(piece="builder")
        request = await it.open_request(job)
        assert request.diff is not None
        assert (request.diff[0].before, request.diff[0].after) == (MINE, new)
        await it.client.decide(request.request_id, "allow")
        assert (await it.until_rest(job)).status == "succeeded"
        unread, read, written = results(it)
        assert "GetPiece first" in unread and MINE in read and "+1 −1" in written
        assert stored(it).read_text("utf-8") == new


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (create("code", MINE.replace("mine", "code")), ["`code` already (shipped)", "another name"]),
        (create("mine"), ["exists already", "UpdatePiece"]),
        (create("Mine"), ["not the name of a piece"]),
        (create("../mine"), ["not the name of a piece"]),
        (create("a.yaml"), ["not the name of a piece"]),
        (create("other"), ["`name:` in the text is `mine`", "must be `other`"]),
        (
            update("code", MINE.replace("mine", "code")),
            ["not a piece of this workspace (shipped)", "CreatePiece"],
        ),
        (update("general", MINE), ["not a piece of this workspace (shipped)"]),
        (update("min"), ["no piece `min`", "Did you mean `mine`?"]),
        (call("GetPiece", name="cod"), ["Did you mean `code`?", "general"]),
        (call("GetPiece", name="/etc/passwd"), ["not the name of a piece"]),
        (call("GetPiece", name="code", offset=9999), ["has only"]),
    ],
)
async def test_what_cannot_be_done_is_answered_with_what_would_be_right(
    tmp_path: Path, step: ScriptReply, says: list[str]
) -> None:
    async with rig(tmp_path, [step, DONE], pieces={"builder": BUILDER, "mine": MINE}) as it:
        await ended(it)
        (result,) = results(it)
        assert [part for part in says if part not in result] == [], result
        folder = it.workspace / ".maestro" / "pieces"
        assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == {
            "builder.yaml": BUILDER,
            "mine.yaml": MINE,
        }


@pytest.mark.parametrize(
    ("instruction", "sentence"),
    [("Build it", "max_movements` is missing"), ("ピースを作って", "`max_movements`")],
)
async def test_a_text_with_errors_is_never_written_and_each_finding_has_its_place_and_fix(
    tmp_path: Path, instruction: str, sentence: str
) -> None:
    async with rig(tmp_path, [create(text=FAULTY), DONE], pieces={"builder": BUILDER}) as it:
        detail = await it.until_rest(await it.start(instruction, piece="builder"))
        assert detail.status == "succeeded"
        (result,) = results(it)
        assert sentence in result and "error at line 1, column 1" in result
        assert "warning at line 10, column 21" in result and "Fix: `Read`" in result
        assert not stored(it).exists()


async def test_warnings_do_not_keep_a_piece_from_being_written_but_are_told(tmp_path: Path) -> None:
    text = MINE.replace("[Read]", "[Raed]")
    async with rig(tmp_path, [create(text=text), DONE], pieces={"builder": BUILDER}) as it:
        job = await it.start(piece="builder")
        await it.client.decide((await it.open_request(job)).request_id, "allow")
        await it.until_rest(job)
        assert "warning at line 11, column 21" in results(it)[0] and stored(it).exists()


async def test_the_list_and_a_piece_of_every_source_can_be_read(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "theirs.yaml").write_text(MINE.replace("mine", "theirs"), "utf-8")
    (own / "broken.yaml").write_text("name: [", "utf-8")
    pieces = {"builder": BUILDER, "code": MINE.replace("mine", "code")}
    script = [
        call("ListPieces"),
        call("GetPiece", name="theirs"),
        call("GetPiece", name="code"),
        call("GetPiece", name="general"),
        call("GetPiece", name="broken"),
        DONE,
    ]
    async with rig(tmp_path, script, pieces=pieces, pieces_dirs=(str(own),)) as it:
        await ended(it)
        listed, theirs, code, general, broken = results(it)
        assert "- code (workspace; hides: shipped): Sorts the shelf. 棚を整理する。" in listed
        assert "- theirs (user): " in listed and "- general (shipped): " in listed
        assert "- broken (user):  [" in listed
        assert "from: user" in theirs and "from: workspace" in code
        assert (shipped_folder() / "general.yaml").read_text("utf-8") in general
        assert "error at line 1, column" in broken and "name: [" in broken


async def test_a_long_piece_is_read_to_its_end_by_following_the_hint(tmp_path: Path) -> None:
    long = MINE + "".join(f"# 注 {number} {'x' * 60}\n" for number in range(3000))

    def script(request: ScriptRequest) -> ScriptReply:
        found = request.results("GetPiece")
        if not found:
            return call("GetPiece", name="long")
        if "offset=" not in found[-1].text:
            return DONE
        return call("GetPiece", name="long", offset=int(found[-1].text.split("offset=")[1].split()[0]))

    async with rig(tmp_path, script, pieces={"builder": BUILDER, "long": long.replace("mine", "long")}) as it:
        await ended(it)
        parts = [
            "".join(line for line in text.splitlines(True) if line[:1] not in "[-") for text in results(it)
        ]
        assert len(parts) > 1
        lines = [line for part in parts for line in part.splitlines() if line.startswith("# 注")]
        assert lines == [line for line in long.splitlines() if line.startswith("# 注")]


async def test_a_movement_that_changes_nothing_writes_no_piece(tmp_path: Path) -> None:
    quiet = BUILDER.replace("edit: true", "edit: false")
    async with rig(tmp_path, [create(), DONE], pieces={"builder": quiet}) as it:
        await ended(it)
        assert "edit: false" in results(it)[0] and not stored(it).exists()


async def test_in_mode_plan_no_piece_is_written(tmp_path: Path) -> None:
    async with rig(tmp_path, [create(), DONE], pieces={"builder": BUILDER}, mode="plan") as it:
        await ended(it)
        assert not stored(it).exists()


async def test_a_piece_stored_while_its_jobs_run_changes_none_of_them(tmp_path: Path) -> None:
    new = BUILDER.replace("instruction: build", "instruction: something else")
    script = [call("GetPiece", name="builder"), update("builder", new), DONE]
    async with rig(tmp_path, script, pieces={"builder": BUILDER}) as it:
        job = await it.start(piece="builder")
        await it.client.decide((await it.open_request(job)).request_id, "allow")
        assert (await it.until_rest(job)).status == "succeeded"
        assert all("something else" not in body["messages"][1]["content"] for body in it.bodies())
        loaded = load_piece("builder", PieceDirs(it.workspace, True))
        assert loaded.piece.movements[0].instruction == "something else"


async def test_pieces_folder_that_leads_out_of_the_workspace_is_not_written(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    own = tmp_path / "own"
    own.mkdir()
    (own / "builder.yaml").write_text(BUILDER, "utf-8")
    async with rig(tmp_path, [create(), DONE], pieces_dirs=(str(own),)) as it:
        folder = it.workspace / ".maestro" / "pieces"
        folder.rmdir()
        folder.symlink_to(outside)
        await ended(it)
        assert "outside the workspace" in results(it)[0] and list(outside.iterdir()) == []


async def test_in_a_workspace_that_is_not_trusted_the_model_is_told_that_its_pieces_do_not_count(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "builder.yaml").write_text(BUILDER, "utf-8")
    script = [call("GetPiece", name="mine"), create("fresh", MINE.replace("mine", "fresh")), DONE]
    async with rig(tmp_path, script, pieces={"mine": MINE}, pieces_dirs=(str(own),), trusted=False) as it:
        job = await it.start(piece="builder")
        await it.client.decide((await it.open_request(job)).request_id, "allow")
        assert (await it.until_rest(job)).status == "succeeded"
        assert all("not trusted" in text for text in results(it))
        assert "mine" not in {entry.name for entry in await it.client.pieces()}


@pytest.mark.parametrize("tool", ["SpawnSubTask", "SpinOffTask"])
async def test_a_piece_that_no_person_allowed_cannot_be_run_by_its_path(tmp_path: Path, tool: str) -> None:
    rogue = tmp_path / "work" / "rogue.yaml"
    script = [
        call("Write", file_path="rogue.yaml", content=MINE.replace("mine", "rogue")),
        call(tool, instruction="sort", piece=str(rogue)),
        DONE,
    ]
    lead = BUILDER.replace(TOOLS, f"[Write, {tool}]")
    async with rig(tmp_path, script, pieces={"builder": lead}) as it:
        await ended(it)
        assert rogue.exists() and "There is no piece" in results(it)[1]
        assert len(await it.client.list_jobs()) == 1
