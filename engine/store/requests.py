"""Requests to the person, the rules their answers store, and the comments of a task. First answer wins, in
one statement.
"""

from __future__ import annotations

import json
import sqlite3

import msgspec

from engine.core.errors import AlreadySettled, BadArgument, IllegalMove, NotFound
from engine.core.jobs import JobStatus
from engine.core.records import Event, SettledRequest, canonical
from engine.core.views import Request, RuleView, iso
from engine.store.base import StoreBase
from engine.store.rows import request_view, settled_of, settled_request_of

GO_ON = ("interrupted", "crashed", "budget")
"""Wait reasons whose request asks "go on?": allow goes on, deny cancels."""


class RequestsPart(StoreBase):
    """Questions, approvals, rules, comments."""

    def request(self, request_id: str) -> Request:
        """A request as clients see it. Raises ``NotFound``."""
        return request_view(self._request_row(request_id))

    def _request_row(self, request_id: str) -> sqlite3.Row:
        row = self.db.one("request", request_id=request_id)
        if row is None:
            raise NotFound("request.unknown", id=request_id, data={"id": request_id})
        return row

    def open_requests(self) -> list[Request]:
        """All open requests, oldest first."""
        return [request_view(row) for row in self.db.all("open_requests")]

    def approval_of_call(self, job_id: str, call_id: str) -> SettledRequest | None:
        """The approval asked for a call, settled or not."""
        row = self.db.one("approval_of_call", job_id=job_id, call_id=call_id)
        return None if row is None else settled_request_of(row)

    def decided(self, job_id: str, key: str) -> SettledRequest | None:
        """The newest settled request of a job under a key: what a park tool looks for before it parks."""
        row = self.db.one("decided", job_id=job_id, key=key)
        return None if row is None else settled_request_of(row)

    def requests_of_job(self, job_id: str) -> list[SettledRequest]:
        """All requests of a job, oldest first."""
        return [settled_request_of(row) for row in self.db.all("requests_of_job", job_id=job_id)]

    def answer(
        self, job_id: str, request_id: str | None, text: str, by: str, now: float, comment_id: str
    ) -> str:
        """Answer a question of a job or of one of its subtasks, and queue the job that asked; the request's
        id. Without a ``request_id`` it is the job's own question, else the only one among its subtasks.

        Raises ``NotFound``, ``BadArgument`` (empty text, not a question), ``AlreadySettled``, ``IllegalMove``
        (nothing is asked).
        """
        if not text.strip():
            raise BadArgument("answer.empty", data={"path": "text", "expected": "a non-empty string"})
        with self.db.tx(durable=True):
            job = self._job_row(job_id)
            if request_id is None:
                request_id = self._asked(job)
            row = self._request_row(request_id)
            if self.db.one("in_family", job_id=job_id, member=row["job_id"]) is None:
                raise NotFound("request.not_of_job", id=request_id, job=job_id, data={"id": request_id})
            if row["reason"] != "question":
                raise BadArgument(
                    "request.not_a_question",
                    id=request_id,
                    data={"path": "requestId", "expected": "a question"},
                )
            self._answer(row, text, by, now, comment_id)
        return request_id

    def _asked(self, job: sqlite3.Row) -> str:
        """The open question that an answer without a request id is for."""
        own = self.db.one("open_question", job_id=job["job_id"])
        if own is not None:
            return str(own["request_id"])
        below = [row["request_id"] for row in self.db.all("open_questions_below", job_id=job["job_id"])]
        if len(below) == 1:
            return str(below[0])
        if below:
            raise BadArgument(
                "job.several_questions",
                id=job["job_id"],
                requests=", ".join(below),
                data={"path": "requestId", "expected": " | ".join(below)},
            )
        raise IllegalMove(
            "job.no_question", id=job["job_id"], status=job["status"], data={"status": job["status"]}
        )

    def _answer(self, row: sqlite3.Row, text: str, by: str, now: float, comment_id: str) -> None:
        self._settle(row, "answered", by, now, text=text)
        self._comment(comment_id, row["task_id"], row["job_id"], "user", text, now, delivered=True)
        self._event(row["job_id"], now, Event("comment", {"author": "user", "text": text}))
        self._move(row["job_id"], JobStatus.QUEUED, now, resumed_by=row["request_id"])

    def decide(
        self,
        request_id: str,
        decision: str,
        by: str,
        now: float,
        *,
        scope: str = "once",
        network: bool = False,
        note: str = "",
        rule_id: str = "",
    ) -> None:
        """Settle a request with allow or deny and queue its job (or cancel it, for "go on?"); a captcha that
        is solved queues every job that waits for the same screen.

        Raises ``NotFound``, ``BadArgument`` (a question wants an answer), ``AlreadySettled``.
        """
        with self.db.tx(durable=True):
            row = self._request_row(request_id)
            if row["reason"] == "question":
                raise BadArgument(
                    "request.is_a_question",
                    id=request_id,
                    data={"path": "requestId", "expected": "not a question"},
                )
            self._settle(row, decision, by, now, scope=scope, network=network, note=note)
            if decision == "allow" and scope in ("task", "always"):
                self._store_rule(row, scope, by, now, rule_id)
            goes_on = row["reason"] in GO_ON
            screen = self._job_row(row["job_id"])["screen_key"]
            if decision == "allow" and screen is not None and not goes_on:
                self._resume_captcha_jobs(screen, by, now)
            if goes_on and decision == "deny":
                job = self._job_row(row["job_id"])
                self._move(row["job_id"], JobStatus.CANCELLED, now, reason="cancelled")
                self._after_end(row["job_id"], job["parent_id"], JobStatus.CANCELLED, now)
            else:
                # "Go on" is no news for the prompt: an answer that was on its way there still is.
                self._move(row["job_id"], JobStatus.QUEUED, now, resumed_by=None if goes_on else request_id)

    def resume_captcha_jobs(self, key: str, by: str, now: float) -> list[str]:
        """Settle every captcha request of a screen and queue exactly its jobs; their ids."""
        with self.db.tx(durable=True):
            return self._resume_captcha_jobs(key, by, now)

    def _resume_captcha_jobs(self, key: str, by: str, now: float) -> list[str]:
        resumed: list[str] = []
        for waiting in self.db.all("jobs_on_screen", key=key):
            for row in self.db.all("requests_of_job", job_id=waiting["job_id"]):
                if row["decision"] is None and row["reason"] not in GO_ON:
                    self._settle(row, "allow", by, now)
                    self._move(waiting["job_id"], JobStatus.QUEUED, now, resumed_by=row["request_id"])
                    resumed.append(waiting["job_id"])
        return resumed

    def _settle(
        self,
        row: sqlite3.Row,
        decision: str,
        by: str,
        now: float,
        *,
        scope: str | None = None,
        network: bool = False,
        text: str | None = None,
        note: str | None = None,
    ) -> None:
        changed = self.db.run(
            "settle_request",
            request_id=row["request_id"],
            decision=decision,
            scope=scope,
            network=int(network),
            text=text,
            note=note or None,
            by=by,
            now=now,
        )
        if not changed:
            raise _already(row, now)
        body: dict[str, object] = {
            "requestId": row["request_id"],
            "decision": decision,
            "scope": scope or "once",
            "by": by,
        }
        if note:
            body["note"] = note
        self._event(row["job_id"], now, Event("decision", body))

    def _store_rule(self, row: sqlite3.Row, scope: str, by: str, now: float, rule_id: str) -> None:
        shown = json.loads(row["shown"])
        if (draft := shown.get("ruleDraft")) is None:
            return
        self.db.run(
            "insert_rule",
            rule_id=rule_id,
            scope=scope,
            task_id=row["task_id"] if scope == "task" else None,
            rule=canonical(draft),
            text=str(shown.get("rule") or shown.get("title", "")),
            by=by,
            now=now,
        )

    def rules(self, task_id: str | None = None) -> list[RuleView]:
        """Stored rules; with a task, those that apply to it."""
        return [
            RuleView(
                id=row["rule_id"],
                scope=row["scope"],
                text=row["text"],
                task_id=row["task_id"],
                created_at=iso(row["created_at"]),
                by=row["by"],
            )
            for row in self.db.all("rules", task_id=task_id)
        ]

    def remove_rule(self, rule_id: str) -> None:
        """Forget a rule. Raises ``NotFound``."""
        with self.db.tx(durable=True):
            if not self.db.run("delete_rule", rule_id=rule_id):
                raise NotFound("rule.unknown", id=rule_id, data={"id": rule_id})

    def comment(self, task_id: str, text: str, by: str, now: float, comment_id: str) -> bool:
        """The person's comment for a job of the task that has not ended: it answers the question one is
        parked with, else the newest job hears it after its current calls. False if the task is at rest:
        nothing is stored then, for the comment is the instruction of a follow-up.

        Raises ``NotFound`` for an unknown task.
        """
        with self.db.tx(durable=True):
            jobs = self.db.all("jobs_of_task", task_id=task_id)
            if not jobs:
                raise NotFound("task.unknown", id=task_id, data={"id": task_id})
            open_jobs = [row["job_id"] for row in jobs if not self._ended(row["status"])]
            for job_id in open_jobs:
                if (asked := self.db.one("open_question", job_id=job_id)) is not None:
                    self._answer(self._request_row(asked["request_id"]), text, by, now, comment_id)
                    return True
            if not open_jobs:
                return False
            self._comment(comment_id, task_id, open_jobs[-1], "user", text, now, delivered=False)
            self._event(open_jobs[-1], now, Event("comment", {"author": "user", "text": text}))
            return True


def _already(row: sqlite3.Row, now: float) -> AlreadySettled:
    settled = settled_of(row)
    assert settled is not None
    ago = max(0, round(now - row["settled_at"]))
    answered = settled.decision == "answered"
    data = {key: value for key, value in msgspec.to_builtins(settled).items() if value is not None}
    return AlreadySettled(
        "request.answered" if answered else "request.decided",
        ago=ago,
        text=settled.text or "",
        decision=settled.decision,
        by=settled.by or "",
        data={"requestId": row["request_id"], **data},
    )
