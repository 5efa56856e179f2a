import assert from "node:assert/strict";
import { test } from "node:test";
import {
  abilities,
  belowWord,
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
import { graphPage } from "../src/graphPage";
import type { Event, JobSummary } from "../src/protocol";
import { keptLine, revertLine } from "../src/revertModel";
import { statusText } from "../src/statusText";
import { job, request, say } from "./helpers";

const STAMP = { jobId: "j-1", seq: 1, at: "2026-12-01T09:00:01Z" };

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
  jobs.told({ ...STAMP, kind: "movement", name: "verify", visit: 1, forced: false });
  assert.equal(jobs.all()[0]?.movement, "verify");
});

test("news that is older than what is known changes nothing", () => {
  const jobs = jobsOf(job({ status: "succeeded", updatedAt: "2026-12-01T09:05:00Z" }));
  jobs.put(job({ status: "running", updatedAt: "2026-12-01T09:04:00Z" }));
  assert.equal(jobs.get("j-1")?.status, "succeeded");
});

test("events tell a list piece, movement, model calls and context; an unknown job waits for its summary", () => {
  const jobs = jobsOf(job({ piece: null }));
  const call = { promptTokens: 1000, completionTokens: 50, cachedTokens: 900, seconds: 1 };
  assert.ok(jobs.told({ ...STAMP, kind: "piece", piece: "review", by: "classifier" }));
  assert.ok(jobs.told({ ...STAMP, kind: "movement", name: "implement", visit: 1, forced: false }));
  assert.ok(jobs.told({ ...STAMP, kind: "usage", ...call }));
  assert.ok(jobs.told({ ...STAMP, kind: "context", action: "warn", ratio: 0.7 }));
  assert.equal(jobs.told({ ...STAMP, jobId: "j-2", kind: "usage", ...call }), false);
  const { piece, movement, usage } = jobs.get("j-1") ?? job();
  assert.deepEqual([piece, movement], ["review", "implement"]);
  assert.deepEqual([usage.calls, usage.cachedTokens, usage.contextRatio], [1, 900, 0.7]);
  assert.equal(jobs.get("j-2"), undefined);
});

for (const event of [
  { ...STAMP, kind: "cache_break", firstDifference: 40, announced: true, tools: ["Bash"] },
  { ...STAMP, kind: "reverted", files: ["a.py"], count: 1, kept: 0 },
  { ...STAMP, kind: "text", delta: "x" },
  { ...STAMP, kind: "a_kind_of_tomorrow" } as unknown as Event,
] satisfies Event[]) {
  test(`a list shows nothing of the event ${event.kind}`, () => assert.equal(jobsOf(job()).told(event), false));
}

test("what the jobs below a job ask the person is asked of it, too, at any depth", () => {
  const below = (jobId: string, parentId: string, more: Partial<JobSummary> = {}): JobSummary =>
    job({ jobId, parentId, ...more });
  const parent = job({ status: "waiting_subtasks" });
  const jobs = jobsOf(
    parent,
    below("a", "j-1", { status: "waiting_subtasks" }),
    below("b", "a", { status: "waiting_human", waitReason: "question" }),
    below("c", "j-1", { status: "succeeded" }),
  );
  const waiting = jobs.waitingBelow("j-1");
  assert.deepEqual(
    waiting.map(({ jobId }) => jobId),
    ["b"],
  );
  assert.equal(belowWord(waiting, say), "a subtask: waiting for your answer");
  assert.equal(belowWord([...waiting, parent], say), "2 subtasks wait for you");
  assert.equal(belowWord(jobs.waitingBelow("b"), say), "");
  assert.equal(abilities(parent, waiting), ";job;question;active;");
  assert.equal(abilities(parent), ";job;active;");
});

test("a job that a busy model server put off says so, and when it goes on", () => {
  const put = { status: "queued", reason: "rate_limited" } as const;
  const at = new Date(2026, 11, 1, 9, 4, 5);
  assert.equal(
    stateWord(job({ ...put, notBefore: at.toISOString() }), say),
    "queued: the model server is busy, goes on at 09:04:05",
  );
  assert.equal(stateWord(job(put), say), "queued: the model server is busy");
  assert.equal(stateWord(job({ status: "queued", reason: "recovered" }), say), "queued");
});

for (const [more, line] of [
  [{ status: "added" }, "a b.py: is deleted"],
  [{ status: "deleted" }, "a b.py: comes back"],
  [{ status: "modified" }, "a b.py: is as it was"],
  [{ status: "renamed", renamedFrom: "old.py" }, "a b.py: is called old.py again"],
  [{ status: "modified", currentMatches: false }, "a b.py: stays, it was changed since"],
  [{ status: "added", path: "a\u202eb.py" }, "a\\u{202e}b.py: is deleted"],
] as const) {
  test(`before files are put back it is said of each: ${line}`, () =>
    assert.equal(revertLine({ path: "a b.py", binary: false, currentMatches: true, ...more }, say), line));
}

test("a file that was left as it is comes with its reason", () =>
  assert.equal(keptLine({ path: "a.py", reason: "changed", text: "changed since" }, say), "a.py (changed since)"));

test("the picture of a piece is an image in a page that runs and loads nothing", () => {
  const page = graphPage('x"><script>', "<svg>日本</svg>");
  assert.ok(page.includes("default-src 'none'; img-src data:"));
  assert.ok(page.includes('alt="x&#34;&#62;&#60;script&#62;"') && !page.includes("<script"));
  const data = /base64,([^"]+)"/.exec(page)?.[1] ?? "";
  assert.equal(Buffer.from(data, "base64").toString("utf8"), "<svg>日本</svg>");
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
          forced: true,
          reusedPct: 98.6,
        },
      ],
      brief: { goal: "", done: "", open: "", clarifications: "" },
    },
    say,
    (iso) => iso,
  );
  for (const part of [
    "## Result\n\nThe test passes.\n- price.py",
    "- 09:01 **plan** (entered because the context was full, 99 % cached) → implement: Cause: a fraction",
    "- 09:02 Edit src/price.py (+2 −1) → **deny: no**",
    "- 09:03 Up? → **down**",
    "````\n```\nThanks\n````",
  ]) {
    assert.ok(page.includes(part), `${part}\n---\n${page}`);
  }
});
