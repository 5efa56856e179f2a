"""Parents and children in every order of ending, crash, retry and cancel, on the real store."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.core.errors import EngineError, IllegalMove, LeaseLost
from engine.core.jobs import ENDED, Counters, JobStatus, Owner
from engine.core.outcome import PieceRunResult
from engine.core.policy_rules import RuleDraft, RuleKind, rule_to_json
from engine.core.records import Lease, NewJob, NewRequest
from engine.ids import new_id
from engine.store.sqlite import Database
from engine.store.store import Store

OWNER = Owner("w-1", os.getpid(), "s", "b")
WAIT = PieceRunResult(JobStatus.WAITING_SUBTASKS, resume_movement="a", wait_reason="subtasks")
ASKS = PieceRunResult(JobStatus.WAITING_HUMAN, resume_movement="a", wait_reason="question")


@pytest.fixture
def store(tmp_path: Path):  # type: ignore[no-untyped-def]
    opened = Store.open(tmp_path / "store.db")
    yield opened
    opened.close()


def new(**more: object) -> NewJob:
    values: dict[str, object] = {
        "job_id": new_id("j"),
        "instruction": "do",
        "title": "do",
        "language": "en",
        "mode": "ask",
        "piece_name": "p",
        "piece": b"{}",
        "piece_hash": "h",
        "movement": "a",
        "new_task_id": new_id("t"),
    }
    return NewJob(**{**values, **more})  # type: ignore[arg-type]


def claimed(store: Store, now: float = 1.0, only: str | None = None) -> Lease:
    job = store.claim(OWNER, now, 30.0, only)
    assert job is not None
    return Lease(job.job_id, job.task_id, job.fence, job.run)


def grant(scope: str, *, movement: str = "a", tool: str = "Bash") -> NewRequest:
    draft = rule_to_json(RuleDraft(RuleKind.GRANT, name=tool))
    shown = {"title": "Use it", "movement": movement, "ruleDraft": draft, "rule": "use it"}
    return NewRequest(new_id("r"), "tool_request", f"tool:{tool}", shown)


def test_what_was_made_under_a_key_is_not_made_again(store: Store) -> None:
    store.submit(new(), 1.0)
    parent = claimed(store)
    made = [
        store.spawn(parent, new(parent_id=parent.job_id, spawned_by=parent.job_id, spawn_key="k"), 2.0)
        for _ in range(2)
    ]
    assert made[0] == made[1] and len(store.children(parent.job_id)) == 1
    other = store.spawn(parent, new(spawned_by=parent.job_id, spawn_key="other"), 3.0)
    assert other != made[0] and len(store.children(parent.job_id)) == 1
    found = store.spawned(parent.job_id, "k")
    assert found is not None and (found.task_id, found.job_id) == made[0] and not found.new


def test_an_owner_that_lost_its_lease_makes_no_child(store: Store) -> None:
    store.submit(new(), 1.0)
    lease = claimed(store)
    (orphan,) = store.running()
    store.requeue_orphan(orphan, 2.0)
    with pytest.raises(LeaseLost):
        store.spawn(lease, new(parent_id=lease.job_id, spawned_by=lease.job_id, spawn_key="k"), 3.0)
    assert store.children(lease.job_id) == []


def test_cancelling_a_running_parent_cancels_its_children_at_once(store: Store) -> None:
    store.submit(new(), 1.0)
    parent = claimed(store)
    waiting, running, queued = (store.submit(new(parent_id=parent.job_id), 2.0 + n)[1] for n in range(3))
    store.settle(claimed(store), ASKS, 3.0, counters=Counters())
    mine = claimed(store)
    assert mine.job_id == running
    assert store.cancel(parent.job_id, "me", 4.0) is False
    assert store.summary(waiting).status == store.summary(queued).status == "cancelled"
    assert store.cancel_wanted(OWNER) == sorted([parent.job_id, running])


@pytest.mark.parametrize(
    "end", [JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.ABORTED, JobStatus.CANCELLED]
)
def test_whatever_the_end_of_a_parent_its_open_children_end_with_it(store: Store, end: JobStatus) -> None:
    store.submit(new(), 1.0)
    parent = claimed(store)
    _, child = store.submit(new(parent_id=parent.job_id), 2.0)
    store.settle(parent, PieceRunResult(end), 3.0, counters=Counters())
    assert store.summary(child).status == "cancelled"


@pytest.mark.parametrize(
    ("scope", "here", "elsewhere", "child", "stranger"),
    [
        ("once", True, False, False, False),
        ("task", True, True, True, False),
        ("always", True, True, True, True),
    ],
)
def test_a_granted_tool_holds_for_this_movement_this_task_or_always(
    store: Store, scope: str, here: bool, elsewhere: bool, child: bool, stranger: bool
) -> None:
    _, job = store.submit(new(), 1.0)
    lease = claimed(store)
    request = grant(scope)
    store.settle(lease, ASKS, 2.0, counters=Counters(), request=request)
    store.decide(request.request_id, "allow", "me", 3.0, scope=scope, rule_id=new_id("u"))
    of_child, _ = store.submit(new(parent_id=job), 4.0)
    of_stranger, unrelated = store.submit(new(), 5.0)
    mine = store.grants(job, lease.task_id)
    assert ("Bash" in mine.within("a"), "Bash" in mine.within("b")) == (here, elsewhere)
    child_id = store.children(job)[0].job_id
    assert ("Bash" in store.grants(child_id, of_child).anywhere()) is child
    assert ("Bash" in store.grants(unrelated, of_stranger).anywhere()) is stranger
    for rule_view in store.rules():
        store.remove_rule(rule_view.id)
    assert ("Bash" in store.grants(job, lease.task_id).within("a")) is (scope == "once")


def test_a_stale_screen_of_a_crashed_job_is_not_resolved_by_a_captcha(store: Store) -> None:
    _, job = store.submit(new(), 1.0)
    park = PieceRunResult(JobStatus.WAITING_HUMAN, resume_movement="a", wait_reason="captcha")
    request = NewRequest(new_id("r"), "captcha", "captcha:s1", {"title": "?"}, screen_key="s1")
    store.settle(claimed(store), park, 2.0, counters=Counters(), request=request)
    assert store.resume_captcha_jobs("s1", "me", 3.0) == [job]
    claimed(store)
    (orphan,) = store.running()
    store.park_orphan(orphan, NewRequest(new_id("r"), "crashed", "crashed:1", {"title": "Go on?"}), 4.0)
    assert store.resume_captcha_jobs("s1", "me", 5.0) == []
    assert store.summary(job).status == "waiting_human"


def test_allowing_one_captcha_resumes_all_jobs_of_its_screen(store: Store) -> None:
    jobs, requests = [], []
    for number, screen in enumerate(["s1", "s2", "s1"]):
        jobs.append(store.submit(new(), float(number))[1])
        park = PieceRunResult(JobStatus.WAITING_HUMAN, resume_movement="a", wait_reason="captcha")
        requests.append(NewRequest(new_id("r"), "captcha", "captcha", {"title": "?"}, screen_key=screen))
        store.settle(claimed(store), park, 5.0, counters=Counters(), request=requests[-1])
    store.decide(requests[0].request_id, "allow", "me", 9.0)
    assert [store.summary(job).status for job in jobs] == ["queued", "waiting_human", "queued"]
    store.decide(requests[1].request_id, "deny", "me", 9.0)
    assert store.summary(jobs[1]).status == "queued"


class Families(RuleBasedStateMachine):
    """Any order of spawning, ending, asking, waiting, crashing, retrying and cancelling: a parent sleeps only
    while a child is open, wakes once for each sleep, and nobody works for a job that has ended.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="maestro-test-")
        self.store = Store(Database(Path(self.folder.name) / "store.db"))
        self.running: dict[str, Lease] = {}
        self.clock = 0.0
        self.top = self.store.submit(new(), self.now())[1]

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def now(self) -> float:
        self.clock += 1.0
        return self.clock

    def jobs(self) -> list[str]:
        return [job.job_id for job in reversed(self.store.list_jobs())]

    def _lease(self, pick: int) -> Lease:
        return list(self.running.values())[pick % len(self.running)]

    def _settle(self, lease: Lease, end: PieceRunResult, request: NewRequest | None = None) -> None:
        self.running.pop(lease.job_id, None)
        self.store.settle(lease, end, self.now(), counters=Counters(), request=request)

    @rule()
    def claim(self) -> None:
        job = self.store.claim(OWNER, self.now(), 30.0)
        if job is not None:
            self.running[job.job_id] = Lease(job.job_id, job.task_id, job.fence, job.run)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 9), key=st.sampled_from("xyz"))
    def spawn(self, pick: int, key: str) -> None:
        lease = self._lease(pick)
        before = self.store.spawned(lease.job_id, key)
        child = new(parent_id=lease.job_id, spawned_by=lease.job_id, spawn_key=key)
        try:
            made = self.store.spawn(lease, child, self.now())
        except EngineError as error:
            assert error.key in ("job.too_deep", "job.too_many_children")
            return
        after = self.store.spawned(lease.job_id, key)
        assert after is not None and (before is None or before.job_id == after.job_id)
        assert before is not None or made == (child.new_task_id, child.job_id)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 9))
    def wait(self, pick: int) -> None:
        self._settle(self._lease(pick), WAIT)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 9), end=st.sampled_from(["succeeded", "failed", "aborted"]))
    def end(self, pick: int, end: str) -> None:
        self._settle(self._lease(pick), PieceRunResult(JobStatus(end)))

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 9))
    def ask(self, pick: int) -> None:
        self._settle(self._lease(pick), ASKS, NewRequest(new_id("r"), "question", "q", {"title": "Which?"}))

    @rule(pick=st.integers(0, 9))
    def answer(self, pick: int) -> None:
        if opened := self.store.summary(self.top).open_requests:
            self.store.answer(self.top, opened[pick % len(opened)], "x", "me", self.now(), new_id("c"))

    @rule()
    def crash(self) -> None:
        for orphan in self.store.running():
            self.store.requeue_orphan(orphan, self.now())
        self.running.clear()

    @rule(pick=st.integers(0, 30))
    def cancel(self, pick: int) -> None:
        jobs = self.jobs()
        try:
            self.store.cancel(jobs[pick % len(jobs)], "me", self.now())
        except IllegalMove:
            return

    @rule()
    def obey_cancels(self) -> None:
        for job_id in self.store.cancel_wanted(OWNER):
            if job_id in self.running:
                self._settle(self.running[job_id], PieceRunResult(JobStatus.CANCELLED, reason="cancelled"))

    @rule(pick=st.integers(0, 30))
    def retry(self, pick: int) -> None:
        jobs = self.jobs()
        try:
            self.store.retry(jobs[pick % len(jobs)], new_id("j"), self.now())
        except IllegalMove:
            return

    @invariant()
    def sleeping_means_an_open_child(self) -> None:
        for job in self.store.list_jobs():
            waiting = job.status == "waiting_subtasks"
            assert not waiting or self.store.count_open_children(job.job_id) > 0
            moves = [e for e in self.store.job_events(job.job_id) if e["kind"] == "status"]
            slept = sum(e["to"] == "waiting_subtasks" for e in moves)
            woken = sum(e["from"] == "waiting_subtasks" for e in moves)
            assert slept - woken == int(waiting)

    @invariant()
    def nobody_is_left_behind(self) -> None:
        for job in self.store.list_jobs():
            if job.parent_id is None or job.retry_of is not None or JobStatus(job.status) in ENDED:
                continue
            parent = self.store.summary(job.parent_id)
            if JobStatus(parent.status) in ENDED:
                assert job.status == "running"  # its engine is told, and ends it
                assert job.job_id in self.store.cancel_wanted(OWNER)

    @invariant()
    def what_is_asked_below_shows_above(self) -> None:
        for job in self.store.list_jobs():
            if job.parent_id is not None:
                assert set(job.open_requests) <= set(self.store.summary(job.parent_id).open_requests)


TestFamilies = Families.TestCase
TestFamilies.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
