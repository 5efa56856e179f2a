import assert from "node:assert/strict";
import { test } from "node:test";
import {
  answerRows,
  choicesOf,
  deliberate,
  detailsOf,
  fenced,
  headingOf,
  isLong,
  kindOf,
  longRule,
  optionsOf,
  settledWord,
} from "../src/askModel";
import { request, say } from "./helpers";

const labels = (more = {}): string[] => choicesOf(request(more), say).map(({ label }) => label);

test("an approval offers once, task, always, both ways to deny, and the whole of it", () =>
  assert.deepEqual(labels({ rule: "Write and Edit: any file" }), [
    "Allow once",
    "Allow for this task",
    "Always allow",
    "Deny",
    "Deny with a note…",
    "Show all of it",
  ]));

test("without a rule nothing is offered that would store one", () => {
  assert.deepEqual(labels(), ["Allow once", "Deny", "Deny with a note…", "Show all of it"]);
  assert.deepEqual(labels({ rule: "" }), labels());
});

test("what a choice answers: allow by scope, deny, or a step before the answer", () => {
  const acts = choicesOf(request({ rule: "r" }), say).map(({ act }) => act);
  assert.deepEqual(acts, [
    { answer: { decision: "allow", scope: "once" } },
    { answer: { decision: "allow", scope: "task" } },
    { answer: { decision: "allow", scope: "always" } },
    { answer: { decision: "deny" } },
    "note",
    "details",
  ]);
});

test("the rows that store something show the rule's text", () => {
  const shown = choicesOf(request({ rule: "Bash: exactly echo $(trash)" }), say);
  assert.deepEqual(shown.map(({ detail }) => detail).slice(1, 3), [
    "Bash: exactly echo \\$(trash)",
    "Bash: exactly echo \\$(trash)",
  ]);
});

test("a rule that no row can hold is shown whole before it is stored, by whichever scope stores it", () => {
  const long = request({ rule: `Bash: exactly ${"x".repeat(200)}` });
  assert.equal(longRule(long, { decision: "allow", scope: "always" }), long.rule);
  assert.equal(longRule(long, { decision: "allow", scope: "task" }), long.rule);
  assert.equal(longRule(long, { decision: "allow", scope: "once" }), undefined);
  assert.equal(longRule(long, { decision: "deny" }), undefined);
  assert.equal(longRule(request({ rule: "Bash: exactly ls" }), { decision: "allow", scope: "always" }), undefined);
});

for (const reason of ["interrupted", "crashed", "budget"]) {
  test(`a job at rest (${reason}) can go on or be cancelled`, () => {
    assert.equal(kindOf(reason), "go_on");
    assert.deepEqual(labels({ reason }), ["Go on", "Cancel the task"]);
  });
}

for (const reason of ["browser_login", "captcha"]) {
  test(`what only a person can do (${reason}) is done or not`, () =>
    assert.deepEqual(labels({ reason }), ["Done", "I cannot"]));
}

for (const [reason, title, once] of [
  ["tool_request", "Maestro asks for a tool", "in this movement"],
  ["package_request", "Maestro asks for a package", "runs exactly this command, with network"],
  ["spawn_request", "Maestro asks for a task elsewhere", "starts exactly this task there"],
] as const) {
  test(`a request of its own kind (${reason}) says what it is, what allowing once means, and shows its words`, () => {
    const asked = request({ reason, detail: "to run the tests" });
    assert.equal(headingOf(asked, say).title, title);
    assert.deepEqual(labels({ reason }), ["Allow once", "Deny", "Deny with a note…", "Show all of it"]);
    assert.equal(choicesOf(asked, say)[0]?.description, once);
    assert.equal(isLong(asked), true);
    assert.equal(isLong(request({ reason })), false);
    assert.ok(detailsOf(asked, say).includes("to run the tests"));
  });
}

test("a tool can be granted for the movement, for the task, or always", () =>
  assert.deepEqual(labels({ reason: "tool_request", rule: "Use Bash" }).slice(0, 3), [
    "Allow once",
    "Allow for this task",
    "Always allow",
  ]));

test("what waits for the person's own hands says which", () => {
  const titles = ["budget", "browser_login", "captcha", "crashed"].map(
    (reason) => headingOf(request({ reason }), say).title,
  );
  assert.deepEqual(titles, [
    "Maestro has used up the task's budget",
    "Maestro needs you to log in",
    "Maestro needs you to solve a captcha",
    "Maestro waits for you",
  ]);
});

test("a reason of a later server is asked about as an approval", () =>
  assert.equal(kindOf("vault_request"), "approval"));

test("the heading names what will happen, and why it is asked", () => {
  const { title, what, why } = headingOf(
    request({ piece: "code", movement: "implement", title: "Bash: ls\nrm x" }),
    say,
  );
  assert.equal(title, "Maestro asks for your approval · code › implement");
  assert.equal(what, "Bash: ls\\nrm x");
  assert.equal(why, "Mode ask asks about every change.");
});

test("what is too long for a prompt is known to be", () => {
  assert.equal(isLong(request()), false);
  assert.equal(isLong(request({ title: `Bash: ${"x".repeat(500)}` })), true);
});

test("the options of a question are each there once and none is empty", () =>
  assert.deepEqual(optionsOf({ options: ["up", " up", "", "down"] }), ["up", "down"]));

const typed = (text: string): string[] => answerRows(["up", "down"], text, say).map((row) => row.text);
test("untyped, a question shows its options", () => assert.deepEqual(typed(""), ["up", "down"]));
test("what is typed is an answer of its own", () =>
  assert.deepEqual(typed("down, to whole yen"), ["down, to whole yen"]));
test("what begins an option offers the option first", () => assert.deepEqual(typed("do"), ["down", "do"]));
test("an option that is typed out is that option", () => assert.deepEqual(typed("up"), ["up"]));
test("an answer in Japanese is as good", () => assert.deepEqual(typed("切り捨て"), ["切り捨て"]));

test("the page of a request holds all of it, and no part can break out of its block", () => {
  const page = detailsOf(
    request({
      title: "Bash: x",
      detail: "```\n# not a heading",
      arguments: { command: "a\u202eb" },
      rule: "Bash: exactly x",
    }),
    say,
  );
  for (const part of [
    "# Bash: x",
    "Why you are asked: Mode ask",
    "What “Always allow” would store: Bash: exactly x",
    '"command": "a\\u{202e}b"',
    "````\n```",
  ]) {
    assert.ok(page.includes(part), part);
  }
  assert.equal(fenced("```", "").split("\n")[0], "````");
});

test("who was first is said with what they answered", () => {
  assert.equal(
    settledWord({ decision: "answered", text: "down", by: "nvim", at: "" }, say),
    "This was answered already by nvim: down",
  );
  assert.equal(settledWord({ decision: "deny", at: "" }, say), "This was answered already: deny");
});

test("an Enter counts only when the prompt has been there, untouched, for a moment", () => {
  assert.equal(deliberate(1000, 900, 0), false);
  assert.equal(deliberate(1600, 1000, 0), true);
  assert.equal(deliberate(2000, 1000, 1900), false);
  assert.equal(deliberate(2500, 1000, 1900), true);
});
