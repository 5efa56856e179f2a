"""The store: claims under contention, legal moves only, gapless events, safe opening."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from engine.core.errors import AlreadySettled, EngineError, IllegalMove, LeaseLost, NotFound, StoreFault
from engine.core.jobs import ENDED, LEGAL_MOVES, Counters, JobStatus, Owner, TurnState, Usage
from engine.core.model_choice import Wish
from engine.core.outcome import PieceRunResult
from engine.core.records import Intent, Lease, Message, NewJob, NewRequest
from engine.ids import new_id
from engine.store.sqlite import Database, migrations, queries
from engine.store.store import Store

OWNER = Owner("w-1", os.getpid(), "s", "b")


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


def claimed(store: Store, now: float = 1.0) -> Lease:
    job = store.claim(OWNER, now, 30.0)
    assert job is not None
    return Lease(job.job_id, job.task_id, job.fence, job.run)


def question(key: str = "q") -> NewRequest:
    return NewRequest(new_id("r"), "question", key, {"title": "Which?"})


PARK = PieceRunResult(JobStatus.WAITING_HUMAN, resume_movement="a", wait_reason="question")


def test_a_submitted_job_is_claimed_once_in_order(store: Store) -> None:
    _, first = store.submit(new(), 1.0)
    _, second = store.submit(new(), 2.0)
    assert [claimed(store).job_id, claimed(store).job_id] == [first, second]
    assert store.claim(OWNER, 3.0, 30.0) is None


def test_an_engine_for_one_job_takes_only_it_and_its_children(store: Store) -> None:
    store.submit(new(), 1.0)
    _, mine = store.submit(new(), 2.0)
    first = store.claim(OWNER, 3.0, 30.0, mine)
    assert first is not None and first.job_id == mine
    _, child = store.submit(new(parent_id=mine), 4.0)
    second = store.claim(OWNER, 5.0, 30.0, mine)
    assert second is not None and second.job_id == child
    assert store.claim(OWNER, 6.0, 30.0, mine) is None


def test_events_have_no_gaps_and_tell_each_move(store: Store) -> None:
    _, job = store.submit(new(), 1.0)
    lease = claimed(store)
    store.settle(lease, PARK, 2.0, counters=Counters(), request=question())
    store.answer(job, None, "this", "me", 3.0, new_id("c"))
    events = store.job_events(job)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    moves = [(event["from"], event["to"]) for event in events if event["kind"] == "status"]
    assert moves == [
        (None, "queued"),
        ("queued", "running"),
        ("running", "waiting_human"),
        ("waiting_human", "queued"),
    ]


def test_a_fenced_off_owner_writes_nothing(store: Store) -> None:
    store.submit(new(), 1.0)
    old = claimed(store)
    (orphan,) = store.running()
    store.requeue_orphan(orphan, 2.0)
    fresh = claimed(store, 3.0)
    assert fresh.fence > old.fence
    before = store.job_events(old.job_id)
    for write in (
        lambda: store.settle(old, PieceRunResult(JobStatus.SUCCEEDED), 4.0, counters=Counters()),
        lambda: store.append(
            old, 4.0, 1, [Message("user", b"{}")], turn=TurnState(), usage=Usage(), counters=Counters()
        ),
        lambda: store.begin_step(old, Intent("c", 1, 1, "Write", "write", "{}", "d"), 4.0),
        lambda: store.set_brief_fields(old, 4.0, {"goal": "x"}),
        lambda: store.requeue(old, 4.0),
    ):
        with pytest.raises(LeaseLost):
            write()
    assert not store.heartbeat(old, 4.0, 30.0)
    assert store.job_events(old.job_id) == before


def test_two_recoverers_queue_an_orphan_once(store: Store) -> None:
    _, job = store.submit(new(), 1.0)
    claimed(store)
    (orphan,) = store.running()
    store.requeue_orphan(orphan, 2.0)
    store.requeue_orphan(orphan, 2.0)
    assert [e["to"] for e in store.job_events(job) if e["kind"] == "status"] == [
        "queued",
        "running",
        "queued",
    ]


def test_the_first_answer_wins_and_the_second_learns_who_won(store: Store) -> None:
    _, job = store.submit(new(), 1.0)
    request = question()
    store.settle(claimed(store), PARK, 2.0, counters=Counters(), request=request)
    store.answer(job, request.request_id, "up", "nvim", 3.0, new_id("c"))
    with pytest.raises(AlreadySettled) as late:
        store.answer(job, request.request_id, "down", "vscode", 5.0, new_id("c"))
    assert late.value.data == {
        "requestId": request.request_id,
        "decision": "answered",
        "text": "up",
        "by": "nvim",
        "at": "1970-01-01T00:00:03.000Z",
    }
    assert late.value.values["ago"] == 2


def test_a_cancel_wins_over_a_park(store: Store) -> None:
    _, job = store.submit(new(), 1.0)
    lease = claimed(store)
    assert store.cancel(job, "me", 2.0) is False
    assert store.settle(lease, PARK, 3.0, counters=Counters(), request=question()) is JobStatus.CANCELLED
    assert store.open_requests() == []


def test_a_parent_wakes_exactly_once_after_its_last_child(store: Store) -> None:
    _, parent = store.submit(new(), 1.0)
    lease = claimed(store)
    children = [store.submit(new(parent_id=parent), 2.0 + n)[1] for n in range(3)]
    wait = PieceRunResult(JobStatus.WAITING_SUBTASKS, resume_movement="a", wait_reason="subtasks")
    assert store.settle(lease, wait, 3.0, counters=Counters()) is JobStatus.WAITING_SUBTASKS
    ends = [JobStatus.SUCCEEDED, JobStatus.FAILED]
    for status in ends:
        store.settle(claimed(store), PieceRunResult(status), 4.0, counters=Counters())
        assert store.summary(parent).status == "waiting_subtasks"
    store.cancel(children[2], "me", 5.0)
    assert store.summary(parent).status == "queued"
    wakes = [
        e for e in store.job_events(parent) if e["kind"] == "status" and e["to"] == "queued" and e["from"]
    ]
    assert len(wakes) == 1
    assert [(child.status, child.reason) for child in store.children(parent)] == [
        ("succeeded", ""),
        ("failed", ""),
        ("cancelled", "cancelled"),
    ]


def test_parking_on_children_that_are_gone_does_not_park(store: Store) -> None:
    store.submit(new(), 1.0)
    wait = PieceRunResult(JobStatus.WAITING_SUBTASKS, resume_movement="a", wait_reason="subtasks")
    assert store.settle(claimed(store), wait, 3.0, counters=Counters()) is JobStatus.QUEUED


def test_cancelling_a_parent_cancels_its_children(store: Store) -> None:
    _, parent = store.submit(new(), 1.0)
    _, child = store.submit(new(parent_id=parent), 2.0)
    _, grandchild = store.submit(new(parent_id=child), 2.0)
    store.cancel(parent, "me", 3.0)
    assert {store.summary(job).status for job in (parent, child, grandchild)} == {"cancelled"}


def test_families_are_bounded(store: Store) -> None:
    _, job = store.submit(new(), 1.0)
    for _ in range(3):
        _, job = store.submit(new(parent_id=job), 2.0)
    with pytest.raises(EngineError, match="too_deep"):
        store.submit(new(parent_id=job), 3.0)
    with pytest.raises(EngineError, match="too_deep"):
        store.submit(new(spawned_by=job, spawn_key="beside"), 3.0)
    _, top = store.submit(new(), 4.0)
    for number in range(20):
        store.submit(new(parent_id=[top, None][number % 2], spawned_by=top, spawn_key=f"k{number}"), 5.0)
    with pytest.raises(EngineError, match="too_many_children"):
        store.submit(new(spawned_by=top, spawn_key="one more"), 6.0)


def test_childrens_requests_show_on_the_parent(store: Store) -> None:
    _, parent = store.submit(new(), 1.0)
    lease = claimed(store)
    store.submit(new(parent_id=parent), 2.0)
    request = question()
    store.settle(claimed(store), PARK, 3.0, counters=Counters(), request=request)
    assert store.summary(lease.job_id).open_requests == [request.request_id]


def test_a_shared_screen_resumes_all_its_jobs_and_only_them(store: Store) -> None:
    jobs = [store.submit(new(), float(n))[1] for n in range(3)]
    for number, screen in enumerate(["s1", "s2", "s1"]):
        park = PieceRunResult(JobStatus.WAITING_HUMAN, resume_movement="a", wait_reason="captcha")
        request = NewRequest(new_id("r"), "captcha", f"captcha:{screen}", {"title": "?"}, screen_key=screen)
        store.settle(claimed(store), park, 5.0 + number, counters=Counters(), request=request)
    assert store.resume_captcha_jobs("s1", "me", 9.0) == [jobs[0], jobs[2]]
    assert store.summary(jobs[1]).status == "waiting_human"


def test_unknown_things_are_named(store: Store) -> None:
    for read in (store.summary, store.detail, store.request, store.remove_rule, store.job_events):
        with pytest.raises(NotFound):
            read("x")


def test_jobs_that_want_a_full_worker_are_left_in_their_place(store: Store) -> None:
    parent = store.submit(new(model="big"), 1.0)[1]
    plain = store.submit(new(), 2.0)[1]
    child = store.submit(new(parent_id=parent), 3.0)[1]
    assert sorted(store.wishes(4.0), key=str) == sorted([Wish("big"), Wish(), Wish(child=True)], key=str)
    kept = claimed(store, 5.0)
    assert kept.job_id == parent
    store.set_worker(kept, "w1", 5.0)
    store.requeue(kept, 6.0)
    assert Wish("big", had="w1") in store.wishes(7.0)

    def full(wishes: Sequence[Wish]) -> list[Wish]:
        return [wish for wish in wishes if wish in (Wish("big", had="w1"), Wish())]

    first = store.claim(OWNER, 8.0, 30.0, None, full)
    assert first is not None and first.job_id == child
    assert store.claim(OWNER, 8.0, 30.0, None, full) is None
    rest = [store.claim(OWNER, 9.0, 30.0) for _ in range(2)]
    assert [job.job_id for job in rest if job] == [plain, parent]
    assert rest[1] is not None and rest[1].worker == "w1"


def test_claiming_uses_the_queue_index(store: Store) -> None:
    values = {"owner": "w", "pid": 1, "start": "", "boot": "", "lease_until": 1.0, "only": None, "full": "[]"}
    plan = store.db.explain("claim", now=1.0, **values)
    assert "jobs_queued" in plan and "SCAN jobs\n" not in plan


def test_every_named_query_is_well_formed_and_used() -> None:
    sources = "".join(path.read_text() for path in Path("engine/store").glob("*.py"))
    assert [name for name in queries() if f'"{name}"' not in sources] == []


def _work(path: str, results: object) -> None:
    store = Store.open(Path(path))
    taken = []
    owner = Owner(new_id("w"), os.getpid(), "", "")
    while (job := store.claim(owner, 1.0, 30.0)) is not None:
        taken.append(job.job_id)
        store.settle(
            Lease(job.job_id, job.task_id, job.fence, job.run),
            PieceRunResult(JobStatus.SUCCEEDED),
            2.0,
            counters=Counters(),
        )
    results.put(taken)  # type: ignore[attr-defined]
    store.close()


def test_four_processes_never_claim_the_same_job(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store.open(path)
    for _ in range(80):
        store.submit(new(), 1.0)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_work, args=(str(path), results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    taken = [job for _ in workers for job in results.get(timeout=40)]
    for worker in workers:
        worker.join(timeout=20)
    assert len(taken) == 80 and len(set(taken)) == 80
    assert store.counts() == {"succeeded": 80}
    assert store.db.integrity() == "ok"
    store.close()


def test_a_new_store_is_private_and_reopens(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store.db"
    Store.open(path).close()
    assert path.stat().st_mode & 0o077 == 0 and path.parent.stat().st_mode & 0o077 == 0
    Store.open(path).close()


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db").symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(StoreFault, match=r"store\.link"):
        Store.open(tmp_path / "store.db")
    assert not (tmp_path / "elsewhere.db").exists()


def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    Store.open(path).close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 99")
    raw.commit()
    raw.close()
    with pytest.raises(StoreFault, match=r"store\.newer"):
        Store.open(path)


def test_a_store_with_a_foreign_trigger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    Store.open(path).close()
    raw = sqlite3.connect(path)
    raw.execute(
        "CREATE TRIGGER grant_all AFTER INSERT ON requests BEGIN UPDATE requests SET decision = 'allow'; END"
    )
    raw.commit()
    raw.close()
    with pytest.raises(StoreFault, match=r"store\.foreign"):
        Store.open(path)


@pytest.mark.parametrize(
    "content", [b"", b"not a database at all, but long enough to be looked at" * 40], ids=["empty", "garbage"]
)
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    if content:
        with pytest.raises(StoreFault, match=r"store\.corrupt"):
            Store.open(path)
        assert path.read_bytes() == content
    else:
        Store.open(path).close()


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE mine (x)")
    raw.commit()
    raw.close()
    with pytest.raises(StoreFault, match=r"store\.foreign"):
        Store.open(path)


def test_a_failed_migration_leaves_the_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import engine.store.sqlite as module

    path = tmp_path / "store.db"
    Store.open(path).close()
    known = migrations()
    monkeypatch.setattr(
        module, "migrations", lambda: (*known, "CREATE TABLE extra (x) STRICT; CREATE BROKEN;")
    )
    with pytest.raises(StoreFault):
        Database(path)
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA user_version").fetchone()[0] == len(known)
    assert raw.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'").fetchone()[0] == 0
    raw.close()


class Moves(RuleBasedStateMachine):
    """Any order of verbs keeps every job on legal moves, and refused verbs change nothing."""

    jobs = Bundle("jobs")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="maestro-test-")
        self.store = Store(Database(Path(self.folder.name) / "store.db"))
        self.leases: dict[str, Lease] = {}
        self.clock = 0.0

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def now(self) -> float:
        self.clock += 1.0
        return self.clock

    def attempt(self, verb, job: str) -> None:  # type: ignore[no-untyped-def]
        before = self.store.job_events(job)
        try:
            verb()
        except (IllegalMove, LeaseLost, AlreadySettled):
            assert self.store.job_events(job) == before

    @rule(target=jobs)
    def submit(self) -> str:
        return self.store.submit(new(), self.now())[1]

    @rule()
    def claim(self) -> None:
        job = self.store.claim(OWNER, self.now(), 30.0)
        if job is not None:
            self.leases[job.job_id] = Lease(job.job_id, job.task_id, job.fence, job.run)

    @rule(job=jobs, end=st.sampled_from(["succeeded", "failed", "aborted", "cancelled", "park"]))
    def settle(self, job: str, end: str) -> None:
        if job in self.leases:
            result = PARK if end == "park" else PieceRunResult(JobStatus(end))
            request = question() if end == "park" else None
            lease = self.leases[job]
            self.attempt(
                lambda: self.store.settle(lease, result, self.now(), counters=Counters(), request=request),
                job,
            )

    @rule(job=jobs)
    def put_off(self, job: str) -> None:
        if job in self.leases:
            lease, now = self.leases[job], self.now()
            self.attempt(lambda: self.store.put_off(lease, now, now + 2.0, Counters(put_off=1)), job)

    @rule(job=jobs)
    def answer(self, job: str) -> None:
        self.attempt(lambda: self.store.answer(job, None, "x", "me", self.now(), new_id("c")), job)

    @rule(job=jobs)
    def cancel(self, job: str) -> None:
        self.attempt(lambda: self.store.cancel(job, "me", self.now()), job)

    @rule()
    def recover(self) -> None:
        for orphan in self.store.running():
            self.store.requeue_orphan(orphan, self.now())

    @rule(job=jobs)
    def retry(self, job: str) -> None:
        self.attempt(lambda: self.store.retry(job, new_id("j"), self.now()), job)

    @invariant()
    def only_legal_moves(self) -> None:
        for summary in self.store.list_jobs():
            events = self.store.job_events(summary.job_id)
            assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
            moves = [event for event in events if event["kind"] == "status"]
            for earlier, later in pairwise(moves):
                assert earlier["to"] == later["from"]
                assert JobStatus(later["to"]) in LEGAL_MOVES[JobStatus(later["from"])]
            assert summary.status == moves[-1]["to"]
            assert not (JobStatus(summary.status) in ENDED and summary.open_requests)


TestMoves = Moves.TestCase
TestMoves.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
