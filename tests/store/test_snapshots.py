"""What a job changed, as it is kept: the first state before, the last one after, the bytes by their hash."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from engine.core.manifest import DIR, UNSURE
from engine.core.records import Snapshot
from engine.core.tooling import FileChange
from engine.ids import new_id
from engine.store.store import Store
from engine.workspace import Contents, bytes_hash
from tests.store.test_store import new

A, B, C, D = (bytes_hash(text) for text in (b"a", b"b", b"c", b"d"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "store.db")
    yield opened
    opened.close()


def a_job(store: Store) -> str:
    _, job = store.submit(new(job_id=new_id("j"), new_task_id=new_id("t")), 1.0)
    return job


def change(before: str | None, after: str | None, why: str = "") -> FileChange:
    return FileChange("f", None, after, before_hash=before, why=why)


@pytest.mark.parametrize(
    ("changes", "before", "after", "why"),
    [
        ([(A, B)], A, B, ""),
        ([(A, B), (B, C)], A, C, ""),
        ([(A, B), (A, B)], A, B, ""),
        ([(None, B), (B, None)], None, None, ""),
        ([(A, B), (C, D)], A, D, UNSURE),
        ([(A, B), (C, D), (D, B)], A, B, UNSURE),
        ([(A, B), (None, D)], A, D, UNSURE),
        ([(None, DIR), (DIR, None), (None, DIR)], None, DIR, ""),
    ],
)
def test_the_first_before_and_the_last_after_win_and_a_gap_between_is_somebody_elses(
    store: Store, changes: Sequence[tuple[str | None, str | None]], before: str, after: str, why: str
) -> None:
    job = a_job(store)
    for number, (old, now) in enumerate(changes):
        store.note_changes(job, [change(old, now)], 2.0 + number)
    [row] = store.snapshots(job)
    assert (row.before_hash, row.after_hash, row.why) == (before, after, why)


def test_an_unsure_change_is_kept_but_takes_no_known_one_away(store: Store) -> None:
    job, other = a_job(store), a_job(store)
    store.note_changes(job, [change(A, B, UNSURE)], 2.0)
    store.note_changes(other, [change(A, B)], 2.0)
    store.note_changes(other, [change(B, C, UNSURE)], 3.0)
    assert [(row.after_hash, row.why) for row in store.snapshots(job)] == [(B, UNSURE)]
    assert [(row.after_hash, row.why) for row in store.snapshots(other)] == [(B, "")]


def test_what_was_put_back_begins_anew_with_the_next_change(store: Store) -> None:
    job = a_job(store)
    store.note_changes(job, [change(A, B)], 2.0)
    store.mark_reverted(job, ["f"], 3.0, {"files": ["f"], "count": 1, "kept": 0})
    assert store.snapshots(job)[0].reverted and store.changed_files(job) == []
    assert store.job_events(job)[-1]["kind"] == "reverted"
    store.note_changes(job, [change(C, D)], 4.0)
    [row] = store.snapshots(job)
    assert (row.before_hash, row.after_hash, row.why, row.reverted) == (C, D, "", False)
    assert store.changed_files(job) == ["f"]


def test_what_was_put_back_while_a_command_went_on_keeps_its_first_before(store: Store) -> None:
    """The command's look from before the revert (at 2.5) is older than what is there now."""
    job = a_job(store)
    store.note_changes(job, [change(A, B)], 2.0)
    store.mark_reverted(job, ["f"], 3.0, {})
    assert store.put_back_since(job, 2.5) == {"f": A} and store.put_back_since(job, 3.5) == {}
    store.note_changes(job, [change(B, C)], 4.0, since=2.5)
    [row] = store.snapshots(job)
    assert (row.before_hash, row.after_hash, row.why, row.reverted) == (A, C, "", False)


def test_what_other_jobs_left_since_is_told_by_path(store: Store) -> None:
    mine, theirs = a_job(store), a_job(store)
    store.note_changes(theirs, [change(A, B)], 2.0)
    store.note_changes(theirs, [FileChange("g", None, C, before_hash=A)], 9.0)
    store.note_changes(mine, [change(A, D)], 9.0)
    assert store.changed_by_others(mine, 5.0) == {"g": {C}}
    store.mark_reverted(theirs, ["f"], 10.0, {})
    assert store.changed_by_others(mine, 5.0) == {"g": {C}, "f": {A}}


def test_that_question_reads_no_bytes_of_other_rows(store: Store, tmp_path: Path) -> None:
    plan = store.db.explain("changed_by_others", job_id="j", since=1.0)
    assert "SCAN" not in plan and "snapshots_at" in plan, plan


def test_a_row_of_an_older_version_tells_the_hash_of_its_bytes(store: Store) -> None:
    job = a_job(store)
    with store.db.tx():
        store.db._db.execute(
            "INSERT INTO snapshots (job_id, path, before, mode, after_hash, at)"
            " VALUES (?, 'f', ?, 420, ?, 1)",
            (job, b"a", B),
        )
    assert store.snapshots(job) == [Snapshot("f", b"a", 420, A, B, None)]


def test_bytes_are_kept_once_by_their_hash_and_only_for_the_person(tmp_path: Path) -> None:
    contents = Contents(tmp_path / "state" / "contents.db")
    assert contents.get(A) is None and not (tmp_path / "state").exists()
    assert [contents.put(b"a"), contents.put(b"a"), contents.put(b"b" * 5000)][:2] == [A, A]
    contents.commit()
    contents.close()
    other = Contents(tmp_path / "state" / "contents.db")
    assert (other.get(A), other.get(bytes_hash(b"b" * 5000)), other.get(C)) == (b"a", b"b" * 5000, None)
    other.close()
    for path in (tmp_path / "state").iterdir():
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_what_nothing_refers_to_is_swept_after_a_day(tmp_path: Path) -> None:
    contents = Contents(tmp_path / "contents.db")
    contents.put(b"a")
    contents.put(b"b")
    contents.commit()
    assert contents.sweep({A}) == 0, "a new row may be about to refer to it"
    assert contents.sweep({A}, time.time() + 100_000) == 1
    assert (contents.get(A), contents.get(B)) == (b"a", None)
    contents.close()


@pytest.mark.parametrize("damage", [b"no database at all, but long enough to be looked at" * 50, b""])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "contents.db"
    file.write_bytes(damage)
    contents = Contents(file)
    assert contents.get(A) is None
    assert contents.put(b"a") == A
    contents.commit()
    assert contents.get(A) == b"a"
    contents.close()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / "contents.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        Contents(tmp_path / "contents.db").put(b"a")
    assert (tmp_path / "elsewhere").read_bytes() == b""
