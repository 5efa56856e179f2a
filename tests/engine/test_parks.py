"""Every park that asks the person: allowed, declined, asked again after a restart in other words, settled
twice, settled after a cancel. The tools for browser and captcha are stand-ins; their rows, keys and screens
are not.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.core.errors import AlreadySettled
from engine.core.jobs import Counters, JobStatus, Owner
from engine.core.outcome import WAITING_HUMAN_BROWSER, PieceRunResult
from engine.core.packages import LOOKED_FOR, Install, NoInstall, plan_install
from engine.core.piece import piece_to_json
from engine.core.records import Lease, NewJob, NewRequest
from engine.core.tooling import (
    Effect,
    Outcome,
    Prepared,
    RequestDraft,
    Signal,
    ToolResult,
    ToolSpec,
    argument_schema,
)
from engine.ids import new_id
from engine.llm.scripted import ScriptReply, call
from engine.paths import store_path
from engine.ports import ToolContext
from engine.service import Extras
from engine.store.sqlite import Database
from engine.store.store import Store
from engine.tools.asking import declined
from tests.engine.families import done, prompt_of, task_of
from tests.engine.rig import Rig, rig

PIECE = """
name: asker
description: asks for things
max_movements: 4
initial_movement: work
movements:
  - name: work
    edit: true
    persona: You work.
    instruction: Work.
    allowed_tools:
      [Read, RequestPackage, SpinOffTask, SpawnSubTask, WaitSubTask, BrowseWeb, RequestCaptchaHelp]
    rules: []
"""


class BrowseArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the stand-in for BrowseWeb."""

    url: str
    why: str = ""


class CaptchaArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the stand-in for RequestCaptchaHelp; a real one knows its screen."""

    screen: str
    why: str = ""


async def look(ctx: ToolContext, args: Any) -> Prepared:
    return Prepared(title="a page")


async def browse(ctx: ToolContext, args: BrowseArgs, prepared: Prepared) -> Outcome:
    origin = "/".join(args.url.split("/")[:3])
    decision = await ctx.decided(f"login:{origin}")
    if decision is None:
        draft = RequestDraft(f"login:{origin}", f"Log in to {origin}", args.why)
        return Signal(WAITING_HUMAN_BROWSER, wait_reason="browser_login", request=draft)
    return ToolResult("the page") if decision.decision == "allow" else declined(ctx, decision)


async def captcha(ctx: ToolContext, args: CaptchaArgs, prepared: Prepared) -> Outcome:
    decision = await ctx.decided(f"captcha:{args.screen}")
    if decision is None:
        draft = RequestDraft(
            f"captcha:{args.screen}", "Show that you are there", args.why, screen_key=args.screen
        )
        return Signal(WAITING_HUMAN_BROWSER, wait_reason="captcha", request=draft)
    return ToolResult("the page") if decision.decision == "allow" else declined(ctx, decision)


EXTRAS = Extras(
    tools=(
        ToolSpec(
            "BrowseWeb", "x", BrowseArgs, Effect.CONTROL, browse, look, schema=argument_schema(BrowseArgs)
        ),
        ToolSpec(
            "RequestCaptchaHelp",
            "x",
            CaptchaArgs,
            Effect.CONTROL,
            captcha,
            look,
            schema=argument_schema(CaptchaArgs),
        ),
    )
)


@dataclass(frozen=True)
class Park:
    """A tool that parks: the same request in two wordings, and what the model is told in the end."""

    tool: str
    reason: str
    first: dict[str, str]
    again: dict[str, str]
    allowed: str
    once_more: str
    done: Callable[[Path], int] = field(default=lambda workspace: 1)


def installs(workspace: Path) -> int:
    log = workspace / "installs.txt"
    return len(log.read_text().splitlines()) if log.exists() else 0


def spun_off(workspace: Path) -> int:
    store = Store.open(store_path(workspace.parent / "other"))
    try:
        return len(store.list_jobs())
    finally:
        store.close()


PARKS = [
    Park(
        "RequestTool",
        "tool_request",
        {"tool": "Bash", "reason": "to run the tests"},
        {"tool": " Bash", "reason": "I would like to run something"},
        "Bash is permitted here",
        "Bash is permitted here",
    ),
    Park(
        "RequestPackage",
        "package_request",
        {"package": "Some_Package", "manager": "pip", "reason": "to draw"},
        {"package": "Some_Package", "manager": "PIP", "reason": "for drawing"},
        "exit status 0",
        "Installed already",
        installs,
    ),
    Park(
        "SpinOffTask",
        "spawn_request",
        {"instruction": "mend the docs", "workspace": "../other", "piece": "general"},
        {"instruction": "please do mend these docs!", "workspace": "../work/../other/"},
        "“mend the docs” waits in",
        "started already",
        spun_off,
    ),
    Park(
        "BrowseWeb",
        "browser_login",
        {"url": "https://example.org/a", "why": "to read"},
        {"url": "https://example.org/b?c", "why": "reading"},
        "the page",
        "the page",
    ),
    Park(
        "RequestCaptchaHelp",
        "captcha",
        {"screen": "s1", "why": "to read"},
        {"screen": "s1", "why": "reading"},
        "the page",
        "the page",
    ),
]
EVERY = pytest.mark.parametrize("park", PARKS, ids=[park.tool for park in PARKS])


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another workspace beside the rig's, and a state folder that is ours."""
    monkeypatch.setenv("MAESTRO_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "other").mkdir()
    return tmp_path


def make_environment(workspace: Path) -> None:
    """A virtual environment whose python notes what it was told to install."""
    python = workspace / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@" >> installs.txt\n')
    python.chmod(0o755)


def asking(park: Park) -> Callable[[Any], ScriptReply]:
    """Asks; when the prompt says that it is decided, asks in other words, twice; then ends with what it was
    told.
    """

    def script(request: Any) -> ScriptReply:
        results = request.results(park.tool)
        if request.contains("Already decided by the person") and len(results) < 2:
            return ScriptReply(calls=((park.tool, park.again),))
        if results:
            return done("\n---\n".join(result.text for result in results))
        return ScriptReply(calls=((park.tool, park.first),))

    return script


def engine(folders: Path, park: Park, **more: Any):  # type: ignore[no-untyped-def]
    return rig(folders, asking(park), pieces={"asker": PIECE}, extras=EXTRAS, **more)


async def parked(it: Rig, park: Park) -> tuple[str, str]:
    make_environment(it.workspace)
    job = await it.start("go", piece="asker")
    request = await it.open_request(job)
    detail = await it.client.show(job)
    assert (detail.status, detail.wait_reason, detail.resume_movement) == (
        "waiting_human",
        park.reason,
        "work",
    )
    assert request.reason == park.reason and request.tool == park.tool
    return job, request.request_id


@EVERY
async def test_allowed_it_is_done_once_and_not_asked_again(folders: Path, park: Park) -> None:
    async with engine(folders, park) as it:
        job, request = await parked(it, park)
        before = park.done(it.workspace) if park.done in (installs, spun_off) else 0
        assert before == 0
        await it.client.decide(request, "allow")
        end = await it.until(job, lambda d: d.status == "succeeded")
        first, second = (end.result or "").split("\n---\n")
        assert park.allowed in first and park.once_more in second
        assert len(end.requests) == 1 and park.done(it.workspace) == 1


@EVERY
async def test_declined_it_is_said_with_the_note_and_not_asked_again(folders: Path, park: Park) -> None:
    async with engine(folders, park) as it:
        job, request = await parked(it, park)
        await it.client.decide(request, "deny", note="use what is there")
        end = await it.until(job, lambda d: d.status == "succeeded")
        for said in (end.result or "").split("\n---\n"):
            assert "declined" in said and "use what is there" in said
        assert len(end.requests) == 1
        assert park.done not in (installs, spun_off) or park.done(it.workspace) == 0
        assert "use what is there" in prompt_of(it.bodies()[-1])


@EVERY
@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_asked_again_after_a_restart_in_other_words(folders: Path, park: Park, decision: str) -> None:
    async with engine(folders, park) as it:
        job, request = await parked(it, park)
        await it.stop()
        await it.client.decide(request, decision)
        assert (await it.client.show(job)).status == "queued"
        await it.engine()
        end = await it.until(job, lambda d: d.status == "succeeded")
        assert len(end.requests) == 1
        assert (park.allowed in (end.result or "")) is (decision == "allow")
        if park.done in (installs, spun_off):
            assert park.done(it.workspace) == int(decision == "allow")


@EVERY
async def test_the_first_decision_wins_and_a_late_one_learns_of_it(folders: Path, park: Park) -> None:
    async with engine(folders, park) as it:
        job, request = await parked(it, park)
        await it.client.decide(request, "deny")
        for decision in ("allow", "deny"):
            with pytest.raises(AlreadySettled) as late:
                await it.client.decide(request, decision)
            assert late.value.data["decision"] == "deny"
        end = await it.until(job, lambda d: d.status == "succeeded")
        assert "declined" in (end.result or "")


@EVERY
async def test_a_decision_after_the_cancel_changes_nothing(folders: Path, park: Park) -> None:
    async with engine(folders, park) as it:
        job, request = await parked(it, park)
        await it.client.cancel(job)
        with pytest.raises(AlreadySettled) as late:
            await it.client.decide(request, "allow", scope="always")
        assert late.value.data["decision"] == "withdrawn"
        assert (await it.client.show(job)).status == "cancelled"
        assert await it.client.rules() == [] and await it.client.open_requests() == []
        assert park.done not in (installs, spun_off) or park.done(it.workspace) == 0


# --- what is shown ----------------------------------------------------------------------------------


async def test_the_card_of_a_package_shows_the_exact_command_and_only_that_is_run(folders: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if request.results("RequestPackage"):
            return done(request.last_result("RequestPackage"))
        package = "requests==9" if request.contains("Already decided") else "requests"
        return call("RequestPackage", package=package, manager="pip", reason="to fetch")

    command = ".venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check requests"
    async with rig(folders, script, pieces={"asker": PIECE}) as it:
        make_environment(it.workspace)
        job = await it.start("go", piece="asker")
        request = await it.open_request(job)
        assert request.title == f"Install requests: {command}"
        assert request.arguments == {"package": "requests", "manager": "pip", "command": command}
        assert request.rule is None, "a package is never allowed for good"
        await it.client.decide(request.request_id, "allow")
        end = await it.until(job, lambda d: d.status == "succeeded")
        assert "allowed exactly this" in (end.result or "") and command in (end.result or "")
        assert installs(it.workspace) == 0


async def test_an_installation_is_journalled_as_a_command_and_told_after_a_resume(folders: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if request.contains("The person answered: go on"):
            return done()
        if request.results("RequestPackage"):
            return call("complete", status="needs_user_input", result="Installed. Go on?")
        return call("RequestPackage", package="requests", manager="pip", reason="to fetch")

    async with rig(folders, script, pieces={"asker": PIECE}) as it:
        make_environment(it.workspace)
        job = await it.start("go", piece="asker")
        await it.client.decide((await it.open_request(job)).request_id, "allow")
        await it.until(job, lambda d: d.wait_reason == "question")
        await it.client.answer(job, "go on")
        await it.until(job, lambda d: d.status == "succeeded")
        told = prompt_of(it.bodies()[-1])
        assert "Already done in this movement" in told and "RequestPackage" in told and "exit 0" in told


async def test_a_package_that_could_not_be_installed_is_not_tried_again(folders: Path) -> None:
    park = next(park for park in PARKS if park.tool == "RequestPackage")
    async with engine(folders, park) as it:
        make_environment(it.workspace)
        (it.workspace / ".venv" / "bin" / "python").write_text(
            '#!/bin/sh\necho "$@" >> installs.txt\nexit 3\n'
        )
        job = await it.start("go", piece="asker")
        await it.client.decide((await it.open_request(job)).request_id, "allow")
        first, second = ((await it.until(job, lambda d: d.status == "succeeded")).result or "").split(
            "\n---\n"
        )
        assert "exit status 3" in first and "tried already" in second and "exit 3" in second
        assert installs(it.workspace) == 1


@pytest.mark.parametrize(
    ("mode", "edit", "said"),
    [("plan", "true", "mode is plan"), ("edits", "false", "edit: false")],
)
async def test_nothing_is_installed_where_nothing_may_change(
    folders: Path, mode: str, edit: str, said: str
) -> None:
    piece = PIECE.replace("edit: true", f"edit: {edit}")
    park = next(park for park in PARKS if park.tool == "RequestPackage")
    async with rig(folders, asking(park), pieces={"asker": piece}, extras=EXTRAS, mode=mode) as it:
        job = await it.start("go", piece="asker")
        end = await it.until_rest(job)
        assert end.status == "succeeded" and said in (end.result or "") and end.requests == []


async def test_an_installation_needs_the_sandbox_that_is_required(folders: Path) -> None:
    park = next(park for park in PARKS if park.tool == "RequestPackage")
    async with engine(folders, park, sandbox="require") as it:
        job, request = await parked(it, park)
        await it.client.decide(request, "allow")
        end = await it.until(job, lambda d: d.status == "succeeded")
        level = it.service.worker.kit.commands.level if it.service and it.service.worker else ""
        assert ("Denied by policy" in (end.result or "")) is (level != "A")


EVERYTHING = frozenset(LOOKED_FOR)


@pytest.mark.parametrize(
    ("manager", "package", "command"),
    [
        (
            "pip",
            "requests",
            ".venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check requests",
        ),
        ("uv", "pytest[a]==8.1", "/bin/x add --no-cache pytest[a]==8.1"),
        ("npm", "@types/node@^20", "/bin/x install --no-audit --no-fund @types/node@^20"),
        ("Cargo", "serde@1.0", "/bin/x add serde@1.0"),
        ("go", "github.com/a/b/v2@v2.1.0", "/bin/x get github.com/a/b/v2@v2.1.0"),
        ("gem", "rack", "/bin/x add rack"),
    ],
)
def test_the_command_of_each_manager(manager: str, package: str, command: str) -> None:
    plan = plan_install(manager, package, EVERYTHING, "/bin/x")
    assert isinstance(plan, Install) and " ".join(plan.argv) == command


@pytest.mark.parametrize("manager", ["apt", "apt-get", "brew", "dnf", "pipx", "conda", "", "sh"])
def test_nothing_is_installed_into_the_system(manager: str) -> None:
    plan = plan_install(manager, "requests", EVERYTHING, "/bin/x")
    assert isinstance(plan, NoInstall) and plan.key == "package.manager"


@pytest.mark.parametrize("manager", ["pip", "uv", "npm", "cargo", "go", "gem"])
@pytest.mark.parametrize(
    "package",
    [
        "",
        "-r x",
        "--index-url=http://x",
        "-e.",
        ".",
        "..",
        "../x",
        "/etc/x",
        "a b",
        "a;b",
        "a&&b",
        "$(x)",
        "`x`",
        "a|b",
        "a\nb",
        "http://x.org/a.whl",
        "git+https://x.org/a",
        "x @ https://x.org/a",
        "file:x",
        "./x",
        "x.org/../y",
        "a'b",
        'a"b',
        "ａ",
        "a" * 300,
    ],
)
def test_a_name_is_a_name(manager: str, package: str) -> None:
    assert isinstance(plan_install(manager, package, EVERYTHING, "/bin/x"), NoInstall)


@pytest.mark.parametrize("manager", ["pip", "uv", "npm", "cargo", "go", "gem"])
def test_without_a_project_there_is_nothing_to_install_into(manager: str) -> None:
    package = "example.org/x" if manager == "go" else "x"
    plan = plan_install(manager, package, (), "/bin/x")
    assert isinstance(plan, NoInstall) and plan.key == f"package.no_project_{manager}"
    if manager != "pip":
        missing = plan_install(manager, package, EVERYTHING, None)
        assert isinstance(missing, NoInstall) and missing.key == "package.no_program"


# --- tasks of their own -----------------------------------------------------------------------------


async def test_a_task_of_its_own_in_this_workspace_needs_no_leave_and_is_made_once(folders: Path) -> None:
    def script(request: Any) -> ScriptReply:
        if task_of(request) != "go":
            return done("mended")
        results = request.results("SpinOffTask")
        if len(results) == 2:
            return done("\n---\n".join(r.text for r in results))
        return call("SpinOffTask", instruction=("mend it", " Mend  it ")[len(results)], piece="asker")

    async with rig(folders, script, pieces={"asker": PIECE}) as it:
        job = await it.start("go", piece="asker")
        end = await it.until(job, lambda d: d.status == "succeeded")
        first, second = (end.result or "").split("\n---\n")
        assert "separate task" in first and "exists already" in second
        jobs = {j.title: j for j in await it.client.list_jobs()}
        assert len(jobs) == 2 and jobs["mend it"].parent_id is None
        await it.until(jobs["mend it"].job_id, lambda d: d.status == "succeeded")


async def test_an_allowed_task_elsewhere_is_in_that_workspaces_store_as_it_was_shown(folders: Path) -> None:
    park = next(park for park in PARKS if park.tool == "SpinOffTask")
    async with engine(folders, park) as it:
        job, request_id = await parked(it, park)
        request = await it.client.request(request_id)
        other = os.path.realpath(folders / "other")
        assert request.title == f"Start a task in {other}" and request.detail == "mend the docs"
        assert request.rule is None
        assert not (folders / "other" / ".maestro").exists()
        await it.client.decide(request_id, "allow")
        await it.until(job, lambda d: d.status == "succeeded")
    store = Store.open(store_path(folders / "other"))
    (made,) = store.list_jobs()
    detail = store.detail(made.job_id)
    assert (detail.instruction, detail.status, detail.piece) == ("mend the docs", "queued", "general")
    assert store.meta("workspace") == other
    assert (folders / "other" / ".maestro" / "tasks" / detail.task_id / "input").is_dir()
    store.close()


@pytest.mark.parametrize(
    ("workspace", "said"),
    [
        ("../nowhere", "not a folder"),
        ("/", "too wide"),
        (".maestro", "overlaps"),
        ("..", "holds"),
        ("../link-back/.maestro", "overlaps"),
    ],
)
async def test_where_no_task_can_be_started_nobody_is_asked(folders: Path, workspace: str, said: str) -> None:
    def script(request: Any) -> ScriptReply:
        if request.results("SpinOffTask"):
            return done(request.last_result("SpinOffTask"))
        return call("SpinOffTask", instruction="x", workspace=workspace)

    async with rig(folders, script, pieces={"asker": PIECE}) as it:
        (folders / "link-back").symlink_to(it.workspace)
        job = await it.start("go", piece="asker")
        end = await it.until_rest(job)
        assert end.status == "succeeded" and said in (end.result or "") and end.requests == []


# --- screens ----------------------------------------------------------------------------------------


async def test_a_solved_captcha_resumes_its_screen_and_a_login_resumes_one(folders: Path) -> None:
    def script(request: Any) -> ScriptReply:
        tool, _, what = task_of(request).partition(" ")
        if request.results(tool):
            return done(request.last_result(tool))
        argument = {"screen": what} if tool == "RequestCaptchaHelp" else {"url": what}
        return ScriptReply(calls=((tool, argument),))

    async with rig(folders, script, pieces={"asker": PIECE}, extras=EXTRAS) as it:
        captcha, login = "RequestCaptchaHelp", "BrowseWeb"
        asked = [
            f"{captcha} s1",
            f"{captcha} s2",
            f"{captcha} s1",
            f"{login} https://a.org",
            f"{login} https://a.org",
        ]
        jobs = [await it.start(text, piece="asker") for text in asked]
        for job in jobs:
            await it.until(job, lambda d: d.status == "waiting_human")
        assert await it.client.resolve_screen("s1") == [jobs[0], jobs[2]]
        for job in (jobs[0], jobs[2]):
            assert (await it.until(job, lambda d: d.status == "succeeded")).result == "the page"
        assert await it.client.resolve_screen("s1") == []
        await it.client.decide((await it.open_request(jobs[3])).request_id, "allow")
        await it.until(jobs[3], lambda d: d.status == "succeeded")
        assert [(await it.client.show(job)).status for job in (jobs[1], jobs[4])] == ["waiting_human"] * 2


# --- a thousand -------------------------------------------------------------------------------------


def park_many(store: Store, piece: Any, count: int) -> dict[str, list[str]]:
    """Jobs parked for each reason, in turn; the ids by reason. Parents wait for a child that asks."""
    owner = Owner("w-then", os.getpid(), "s", "b")
    found: dict[str, list[str]] = {
        reason: [] for reason in ("question", "captcha", "tool_request", "subtasks")
    }

    def settle(job_id: str, end: PieceRunResult, request: NewRequest | None) -> None:
        job = store.claim(owner, 2.0, 30.0, job_id)
        assert job is not None and job.job_id == job_id
        lease = Lease(job.job_id, job.task_id, job.fence, job.run)
        store.settle(lease, end, 3.0, counters=Counters(), request=request)

    def submit(parent: str | None = None) -> str:
        title = "wait" if parent is None else "child"
        return store.submit(
            NewJob(
                new_id("j"), title, title, "en", "edits", "asker", piece_to_json(piece), "h", "work",
                new_task_id=new_id("t"), parent_id=parent,
            ),
            1.0 if parent is None else 1.5,
        )[1]  # fmt: skip

    def ask(job_id: str, reason: str) -> None:
        end = PieceRunResult(JobStatus.WAITING_HUMAN, resume_movement="work", wait_reason=reason)
        screen = f"s{len(found['captcha']) % 10}" if reason == "captcha" else None
        request = NewRequest(
            new_id("r"), reason, reason, {"title": reason, "movement": "work"}, screen_key=screen
        )
        settle(job_id, end, request)

    for number in range(count):
        reason = list(found)[number % len(found)]
        job = submit()
        if reason == "subtasks":
            child = submit(job)
            waits = PieceRunResult(JobStatus.WAITING_SUBTASKS, resume_movement="work", wait_reason="subtasks")
            settle(job, waits, None)
            ask(child, "question")
        else:
            ask(job, reason)
        found[reason].append(job)
    return found


async def test_a_thousand_parked_jobs_hold_nothing_and_the_right_ones_wake(folders: Path) -> None:
    async with rig(
        folders, lambda request: done("woken"), pieces={"asker": PIECE}, start_engine=False, max_concurrency=2
    ) as it:

        async def settled_engine() -> tuple[int, int, int]:
            """Start an engine, see it work a job to its end, and count what it holds afterwards."""
            await it.engine()
            job = await it.start("warm up", piece="asker")
            await it.until(job, lambda d: d.status == "succeeded")
            return await held()

        await settled_engine()
        idle = await held()
        await it.stop()
        piece = (await it.client.load_piece("asker")).piece
        jobs = await asyncio.to_thread(park_all, it.client.store_file, piece)
        counts = await it.client.counts()
        assert (counts["waiting_human"], counts["waiting_subtasks"]) == (1_000, 250)
        now = await settled_engine()
        assert all(a <= b for a, b in zip(now, idle, strict=True)), (
            "a parked job holds no thread, task or connection"
        )

        woken = set(jobs["question"][:3] + jobs["subtasks"][:2] + jobs["tool_request"][:1])
        for job in jobs["question"][:3] + jobs["subtasks"][:2]:
            await it.client.answer(job, "yes")
        request = (await it.client.show(jobs["tool_request"][0])).open_requests[0]
        await it.client.decide(request, "allow")
        woken |= set(await it.client.resolve_screen("s3"))
        assert len(woken) == 6 + 25
        for job in woken:
            await it.until(job, lambda d: d.status == "succeeded", within=30)
        counts = await it.client.counts()
        assert counts == {
            "succeeded": 2 + len(woken) + 2,
            "waiting_human": 1_000 - 29 - 2,
            "waiting_subtasks": 248,
        }


class Unsynced(Database):
    """A database that does not wait for the disk: filling it is no part of what is tested."""

    @contextmanager
    def tx(self, *, durable: bool = False) -> Iterator[None]:
        with super().tx():
            yield


def park_all(store_file: Path, piece: Any) -> dict[str, list[str]]:
    store = Store(Unsynced(store_file))
    try:
        return park_many(store, piece, 1_000)
    finally:
        store.close()


async def held() -> tuple[int, int, int]:
    """Tasks of this loop, threads (but the pool for file work, which all share), open files and sockets, once
    nothing of the last job is left.
    """
    found = [0, 0, 0]
    for _ in range(20):  # the end of a task, and of a connection, is seen a few turns later
        await asyncio.sleep(0.02)
        found = [
            len(asyncio.all_tasks()),
            sum(not t.name.startswith("asyncio") for t in threading.enumerate()),
            sum(1 for _ in opened_files()),
        ]
    return found[0], found[1], found[2]


def opened_files() -> Iterator[Path]:
    """This process's open files and sockets, where the platform lists them."""
    listing = Path("/proc/self/fd")
    return listing.iterdir() if listing.is_dir() else iter(())
