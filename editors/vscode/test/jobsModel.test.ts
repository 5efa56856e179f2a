import assert from "node:assert/strict";
import { test } from "node:test";
import {
  abilities,
  costWord,
  groupOf,
  jobFacts,
  jobIcon,
  jobLine,
  Jobs,
  jobTitle,
  pieceWords,
  short,
  stateWord,
  taskOf,
} from "../src/jobsModel";
import { jobPage } from "../src/jobPage";
import type { JobSummary } from "../src/protocol";
import { statusText } from "../src/statusText";
import { job, request, say } from "./helpers";

const GROUPS: Record<string, string> = {
  queued: "active",
  running: "active",
  waiting_human: "waiting",
  waiting_subtasks: "active",
  succeeded: "ended",
  failed: "ended",
  aborted: "ended",
  cancelled: "ended",
  hibernating: "active",
};
for (const [status, group] of Object.entries(GROUPS)) {
  test(`a job that is ${status} stands under ${group}`, () => assert.equal(groupOf(status), group));
}

test("only a job that runs has an icon that turns", () =>
  assert.deepEqual(
    Object.keys(GROUPS).filter((status) => jobIcon(status).icon.endsWith("~spin")),
    ["running"],
  ));

const ABILITIES: [Partial<JobSummary>, string][] = [
  [{ status: "running" }, ";job;active;"],
  [{ status: "waiting_human", waitReason: "question" }, ";job;question;active;"],
  [{ status: "waiting_human", waitReason: "approval" }, ";job;decision;active;"],
  [{ status: "waiting_human", waitReason: "interrupted" }, ";job;decision;active;"],
  [{ status: "succeeded" }, ";job;ended;"],
  [{ status: "failed" }, ";job;ended;retry;"],
  [{ status: "aborted" }, ";job;ended;retry;"],
  [{ status: "cancelled" }, ";job;ended;retry;"],
];
for (const [more, expected] of ABILITIES) {
  test(`what can be done with ${JSON.stringify(more)}: ${expected}`, () =>
    assert.equal(abilities(job(more)), expected));
}

test("a job says what it waits for, where it is, and what it cost", () => {
  const usage = {
    promptTokens: 48_211,
    completionTokens: 912,
    cachedTokens: 44_870,
    reusedPct: 93.1,
    contextRatio: 0.14,
    calls: 12,
  };
  const parked = job({
    status: "waiting_human",
    waitReason: "approval",
    movement: "plan",
    resumeMovement: "implement",
    usage,
  });
  assert.deepEqual(jobFacts(parked, say), [
    "waiting for your decision",
    "code › implement",
    "49.1k tokens, 93 % cached",
  ]);
  assert.equal(jobLine(parked, say), "waiting for your decision · code › implement · 49.1k tokens, 93 % cached");
  assert.deepEqual(jobFacts(job(), say), ["code › plan"]);
  assert.deepEqual(jobFacts(job({ piece: null, movement: null }), say), []);
});

test("a job that ended without success says why", () => {
  assert.equal(stateWord(job({ status: "failed", reason: "provider_error" }), say), "failed: the model server failed");
  assert.equal(stateWord(job({ status: "failed", reason: "a_reason_of_tomorrow" }), say), "failed");
  assert.equal(stateWord(job({ status: "succeeded", reason: null }), say), "done");
  assert.equal(stateWord(job({ status: "succeeded", reason: null, forced: true }), say), "done: stopped at the context limit");
});

test("a title is one line, and a job without one is named by its task", () => {
  assert.equal(jobTitle(job({ title: "Make\n the test pass" })), "Make the test pass");
  assert.equal(jobTitle(job({ title: " " })), "t-1");
});

test("tokens are short, and a job without a call cost nothing yet", () => {
  assert.deepEqual([0, 999, 1000, 12_345, 99_949, 123_456, 999_949, 999_950, 4_100_000].map(short), [
    "0",
    "999",
    "1k",
    "12.3k",
    "99.9k",
    "123k",
    "1000k",
    "1M",
    "4.1M",
  ]);
  assert.equal(costWord(job(), say), "");
});

function jobsOf(...all: JobSummary[]): Jobs {
  const jobs = new Jobs();
  jobs.reset(all);
  return jobs;
}

test("children stand below their parents, whatever their state; without the parent they stand alone", () => {
  const parent = job({ jobId: "p", status: "waiting_subtasks" });
  const child = job({ jobId: "c", parentId: "p", status: "succeeded" });
  const orphan = job({ jobId: "o", parentId: "gone", status: "succeeded" });
  const jobs = jobsOf(parent, child, orphan);
  assert.deepEqual(
    jobs.children("p").map(({ jobId }) => jobId),
    ["c"],
  );
  assert.deepEqual(
    jobs.roots("active").map(({ jobId }) => jobId),
    ["p"],
  );
  assert.deepEqual(
    jobs.roots("ended").map(({ jobId }) => jobId),
    ["o"],
  );
});

test("jobs are listed newest first", () => {
  const at = (jobId: string, minute: number): JobSummary => job({ jobId, createdAt: `2026-12-01T09:0${minute}:00Z` });
  const jobs = jobsOf(at("b", 2), at("a", 1), at("c", 3));
  assert.deepEqual(
    jobs.all().map(({ jobId }) => jobId),
    ["c", "b", "a"],
  );
  jobs.put(at("d", 4));
  jobs.put(at("b", 2));
  assert.deepEqual(
    jobs.all().map(({ jobId }) => jobId),
    ["d", "c", "b", "a"],
  );
});

test("the order is found once for all rows of a drawing, and anew after a change", () => {
  const jobs = jobsOf(job());
  const order = jobs.all();
  jobs.children("j-1");
  assert.equal(jobs.all(), order);
  jobs.entered("j-1", "verify");
  assert.equal(jobs.all()[0]?.movement, "verify");
});

test("news that is older than what is known changes nothing", () => {
  const jobs = jobsOf(job({ status: "succeeded", updatedAt: "2026-12-01T09:05:00Z" }));
  jobs.put(job({ status: "running", updatedAt: "2026-12-01T09:04:00Z" }));
  assert.equal(jobs.get("j-1")?.status, "succeeded");
});

test("movements and model calls of a job are counted as they come; those of an unknown job wait for its summary", () => {
  const jobs = jobsOf(job());
  jobs.entered("j-1", "implement");
  jobs.used("j-1", { promptTokens: 1000, completionTokens: 50, cachedTokens: 900 });
  jobs.entered("j-2", "plan");
  jobs.used("j-2", { promptTokens: 1, completionTokens: 1, cachedTokens: 0 });
  assert.equal(jobs.get("j-1")?.movement, "implement");
  assert.deepEqual(jobs.get("j-1")?.usage, {
    ...job().usage,
    promptTokens: 1000,
    completionTokens: 50,
    cachedTokens: 900,
    calls: 1,
  });
  assert.equal(jobs.get("j-2"), undefined);
});

const STATUS: [Parameters<typeof statusText>[0], string | undefined, [number, number, number], string][] = [
  ["running", "ask", [0, 0, 0], "$(play-circle) Maestro: ask"],
  ["running", "edits", [2, 1, 0], "$(sync~spin) Maestro: edits · 2 running · 1 queued"],
  ["running", "ask", [1, 0, 1], "$(bell-dot) Maestro: ask · 1 running · 1 waiting for you"],
  ["running", undefined, [0, 0, 0], "$(play-circle) Maestro"],
  ["starting", "ask", [0, 0, 0], "$(loading~spin) Maestro"],
  ["missing", undefined, [0, 0, 0], "$(warning) Maestro"],
  ["failed", undefined, [0, 0, 1], "$(warning) Maestro"],
];
for (const [state, mode, [running, queued, waiting], text] of STATUS) {
  test(`the status bar: ${text}`, () => assert.equal(statusText(state, mode, { running, queued, waiting }, say), text));
}

test("a message of the server leads to the newest job of its task", () => {
  const jobs = [
    job({ jobId: "new", taskId: "t-01ABC9XYZ" }),
    job({ jobId: "old", taskId: "t-01ABC9XYZ" }),
    job({ jobId: "other", taskId: "t-01ABCAAAA" }),
  ];
  assert.equal(taskOf("[maestro t-…9XYZ · code] Done: all green.", jobs)?.jobId, "new");
  assert.equal(taskOf("[maestro t-…QQQQ] Done", jobs), undefined);
  assert.equal(taskOf("The setting maestro.mod is unknown.", jobs), undefined);
});

test("a piece's description is told in two lines", () => {
  assert.deepEqual(pieceWords("Changes code and proves it: fixes a bug.\nPlans."), [
    "Changes code and proves it",
    "fixes a bug. Plans.",
  ]);
  assert.deepEqual(pieceWords("コードを変更して確かめる。計画し、実装する。"), [
    "コードを変更して確かめる",
    "計画し、実装する。",
  ]);
  assert.deepEqual(pieceWords("Short"), ["", "Short"]);
});

test("a job's page tells what came of it, where it has been, and what was decided", () => {
  const page = jobPage(
    {
      ...job({ status: "succeeded" }),
      instruction: "Make the failing test pass",
      mode: "ask",
      result: "The test passes.\n- price.py",
      requests: [
        request({ settled: { decision: "deny", note: "no", at: "09:02" } }),
        request({
          requestId: "r-2",
          reason: "question",
          title: "Up?",
          settled: { decision: "answered", text: "down", at: "09:03" },
        }),
      ],
      comments: [{ author: "user", at: "09:04", text: "```\nThanks" }],
      movements: [
        {
          name: "plan",
          visit: 1,
          run: 1,
          startedAt: "09:01",
          endedAt: "09:02",
          next: "implement",
          summary: "Cause: a fraction",
          iterations: 3,
        },
      ],
      brief: { goal: "", done: "", open: "", clarifications: "" },
    },
    say,
    (iso) => iso,
  );
  for (const part of [
    "## Result\n\nThe test passes.\n- price.py",
    "- 09:01 **plan** → implement: Cause: a fraction",
    "- 09:02 Edit src/price.py (+2 −1) → **deny: no**",
    "- 09:03 Up? → **down**",
    "````\n```\nThanks\n````",
  ]) {
    assert.ok(page.includes(part), `${part}\n---\n${page}`);
  }
});
