/** What a request offers the person, and what each choice answers. Pure: `ask.ts` shows it. */

import { clip, exact, head, label, lines, plain } from "./display";
import type { ApproveAnswer, InputParams, Request, Settled } from "./protocol";
import { waitWord, type Say } from "./words";

/** What a choice does: answers, asks for a note first, or shows the whole request and asks again. */
export type Act = { answer: ApproveAnswer } | "note" | "details";

export interface Choice {
  icon: string;
  label: string;
  description?: string;
  detail?: string;
  act: Act;
}

const TITLE_LIMIT = 400;
/** What fits on a row of a quick pick; it is 600 pixels wide at most. */
const ROW_LIMIT = 80;

type Kind = "question" | "approval" | "go_on" | "browser";

const KINDS: Record<string, Kind> = {
  question: "question",
  interrupted: "go_on",
  crashed: "go_on",
  budget: "go_on",
  browser_login: "browser",
  captcha: "browser",
};

/** How a wait reason is asked about; any that is not named is an approval. */
export function kindOf(reason: string): Kind {
  return KINDS[reason] ?? "approval";
}

/** What allowing once means where it is not the one call that is shown. */
function onceWord(reason: string, say: Say): { description?: string } {
  switch (reason) {
    case "tool_request":
      return { description: say("in this movement") };
    case "package_request":
      return { description: say("runs exactly this command, with network") };
    case "spawn_request":
      return { description: say("starts exactly this task there") };
    case "budget":
      return { description: say("until as much again is used up") };
    default:
      return {};
  }
}

/** The choices of a request that is no question, in order. What would be stored is offered only if it is named. */
export function choicesOf(request: Request, say: Say): Choice[] {
  const deny: Choice = { icon: "x", label: say("Deny"), act: { answer: { decision: "deny" } } };
  switch (kindOf(request.reason)) {
    case "go_on":
      return [
        {
          icon: "debug-continue",
          label: say("Go on"),
          ...onceWord(request.reason, say),
          act: { answer: { decision: "allow", scope: "once" } },
        },
        { icon: "debug-stop", label: say("Cancel the task"), act: { answer: { decision: "deny" } } },
      ];
    case "browser":
      return [
        { icon: "check", label: say("Done"), act: { answer: { decision: "allow", scope: "once" } } },
        { icon: "x", label: say("I cannot"), act: { answer: { decision: "deny" } } },
      ];
    default:
      return [
        {
          icon: "check",
          label: say("Allow once"),
          ...onceWord(request.reason, say),
          act: { answer: { decision: "allow", scope: "once" } },
        },
        ...storing(request, say),
        deny,
        {
          icon: "comment",
          label: say("Deny with a note…"),
          description: say("the model reads it and goes on"),
          act: "note",
        },
        { icon: "open-preview", label: say("Show all of it"), act: "details" },
      ];
  }
}

function storing(request: Request, say: Say): Choice[] {
  if (request.rule == null || request.rule === "") {
    return [];
  }
  const detail = clip(label(exact(request.rule)), ROW_LIMIT);
  return [
    {
      icon: "check-all",
      label: say("Allow for this task"),
      description: say("until the task ends"),
      detail,
      act: { answer: { decision: "allow", scope: "task" } },
    },
    {
      icon: "pinned",
      label: say("Always allow"),
      description: say("in this workspace"),
      detail,
      act: { answer: { decision: "allow", scope: "always" } },
    },
  ];
}

/** The rule that an answer would store, if a row could not hold it: it is shown whole before it is stored. */
export function longRule(request: Request, answer: ApproveAnswer): string | undefined {
  const rule = exact(request.rule ?? "");
  return answer.decision === "allow" && answer.scope !== "once" && rule.length > ROW_LIMIT ? rule : undefined;
}

/**
 * Whether what is asked is more than a prompt can show: a long call, or the words that come with the request
 * for a tool, a package or a task elsewhere.
 */
export function isLong(request: Request): boolean {
  const words = request.reason !== "approval" && kindOf(request.reason) === "approval" && request.detail !== "";
  return words || exact(request.title).length > TITLE_LIMIT;
}

/** Exactly what will happen, on one line. */
export function whatOf(request: Request, limit: number = TITLE_LIMIT): string {
  return clip(exact(request.title), limit);
}

export interface Heading {
  /** Whose request it is: piece and movement. */
  title: string;
  /** Exactly what will happen, on one line. */
  what: string;
  /** Why it is asked. */
  why: string;
}

/** The words above a request that is no question. */
export function headingOf(request: Request, say: Say): Heading {
  const place = [request.piece, request.movement].filter((part) => part != null && part !== "").join(" › ");
  const what = kindOf(request.reason) === "approval" ? whatOf(request) : plain(request.title);
  const why = request.why === "" ? waitWord(request.reason, say) : plain(request.why);
  const asks = asksWord(request.reason, say);
  return { title: place === "" ? asks : `${asks} · ${place}`, what, why };
}

function asksWord(reason: string, say: Say): string {
  switch (reason) {
    case "tool_request":
      return say("Maestro asks for a tool");
    case "package_request":
      return say("Maestro asks for a package");
    case "spawn_request":
      return say("Maestro asks for a task elsewhere");
    case "budget":
      return say("Maestro has used up the task's budget");
    case "browser_login":
      return say("Maestro needs you to log in");
    case "captcha":
      return say("Maestro needs you to solve a captcha");
    default:
      return kindOf(reason) === "approval" ? say("Maestro asks for your approval") : say("Maestro waits for you");
  }
}

/** What the words are that come with a request. */
function detailWord(reason: string, say: Say): string {
  switch (reason) {
    case "tool_request":
    case "package_request":
      return say("What the model says");
    case "spawn_request":
      return say("Instruction");
    default:
      return say("Details");
  }
}

/** The options of a question as a list: each once, none empty. */
export function optionsOf(params: Pick<InputParams, "options">): string[] {
  return [...new Set((params.options ?? []).map((option) => option.trim()).filter((option) => option !== ""))];
}

/** The rows under a question for what is typed: the options it fits, and the words themselves as an answer. */
export function answerRows(
  options: readonly string[],
  typed: string,
  say: Say,
): { label: string; description?: string; text: string }[] {
  const own = typed.trim();
  const rows = options.map((text) => ({ label: label(plain(text)), text }));
  if (own === "") {
    return rows;
  }
  const fitting = rows.filter((row) => row.text.toLowerCase().includes(own.toLowerCase()));
  if (options.includes(own)) {
    return fitting;
  }
  const answer = { label: label(plain(own)), description: say("your own words"), text: own };
  return fitting.length > 0 && fitting.length < rows.length ? [...fitting, answer] : [answer, ...fitting];
}

/** The whole request as a document: what exactly would happen, and why it is asked. Markdown. */
export function detailsOf(request: Request, say: Say): string {
  const parts = [`# ${exact(request.title)}`, `${say("Task")}: \`${request.taskId}\`  \n\`${request.requestId}\``];
  if (request.why !== "") {
    parts.push(`${say("Why you are asked")}: ${lines(request.why)}`);
  }
  if (request.rule != null && request.rule !== "") {
    parts.push(`${say("What “Always allow” would store")}: ${lines(request.rule)}`);
  }
  if (request.detail !== "") {
    parts.push(`## ${detailWord(request.reason, say)}`, fenced(request.detail, ""));
  }
  if (request.arguments != null && Object.keys(request.arguments).length > 0) {
    parts.push(`## ${say("Arguments of the call")}`, fenced(JSON.stringify(request.arguments, null, 2), "json"));
  }
  return `${parts.join("\n\n")}\n`;
}

/** A code block that its content cannot end. */
export function fenced(text: string, kind: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map((run) => run[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${kind}\n${lines(text)}\n${fence}`;
}

/** That somebody else was first, in a sentence. */
export function settledWord(settled: Settled, say: Say): string {
  const answer = settled.text ?? settled.note ?? settled.decision;
  return settled.by == null || settled.by === ""
    ? say("This was answered already: {0}", head(plain(answer), 200))
    : say("This was answered already by {1}: {0}", head(plain(answer), 200), settled.by);
}

/**
 * Whether an Enter counts: a prompt that comes up while a person types into a file must not take the end of
 * their line for an approval. `shown` and `typed` are when it came up and was last typed into, in milliseconds.
 */
export function deliberate(now: number, shown: number, typed: number): boolean {
  return now - Math.max(shown, typed) >= QUIET_MS;
}

/** How long a prompt must have been there, untouched, before an Enter counts. */
export const QUIET_MS = 500;
