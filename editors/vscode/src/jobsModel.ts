/** The jobs as a list shows them. Pure: it renders what the server says and decides no status. */

import { head, plain } from "./display";
import type { Event, JobSummary } from "./protocol";
import { reasonWord, statusWord, waitWord, type Say } from "./words";

export type Group = "waiting" | "active" | "ended";
export const GROUPS: readonly Group[] = ["waiting", "active", "ended"];

const GROUP_OF: Record<string, Group> = {
  waiting_human: "waiting",
  queued: "active",
  running: "active",
  waiting_subtasks: "active",
  succeeded: "ended",
  failed: "ended",
  aborted: "ended",
  cancelled: "ended",
};

/** The group of a status; a status of a later server counts as active, so that it is seen. */
export function groupOf(status: string): Group {
  return GROUP_OF[status] ?? "active";
}

/** Titles of the groups. */
export function groupTitle(group: Group, say: Say): string {
  switch (group) {
    case "waiting":
      return say("Waiting for you");
    case "active":
      return say("At work");
    case "ended":
      return say("Ended");
  }
}

export interface Counts {
  running: number;
  queued: number;
  waiting: number;
}

/** All jobs of the workspace that the server told of. */
export class Jobs {
  private readonly byId = new Map<string, JobSummary>();
  private sorted: JobSummary[] | undefined;

  /** Take the whole list anew. */
  reset(jobs: readonly JobSummary[]): void {
    this.byId.clear();
    jobs.forEach((job) => this.set(job));
    this.sorted = undefined;
  }

  /** Take one job as it is now; what is older than what is known is dropped. */
  put(job: JobSummary): void {
    const known = this.byId.get(job.jobId);
    if (known === undefined || known.updatedAt <= job.updatedAt) {
      this.set(job);
    }
  }

  /**
   * Take what an event tells of its job; whether the list shows anything of it. A job that is not known comes
   * with its next summary. What is not here is on the job's page (`maestro.task.show`) or asked by the server.
   */
  told(event: Event): boolean {
    const known = this.byId.get(event.jobId);
    const next = known && after(known, event);
    if (next !== undefined) {
      this.set(next);
    }
    return next !== undefined;
  }

  get(jobId: string): JobSummary | undefined {
    return this.byId.get(jobId);
  }

  private set(job: JobSummary): void {
    this.byId.set(job.jobId, job);
    this.sorted = undefined;
  }

  /** All jobs, newest first. Sorted once for every row that a drawing of the view asks for. */
  all(): readonly JobSummary[] {
    this.sorted ??= [...this.byId.values()].sort(
      (a, b) => compare(b.createdAt, a.createdAt) || compare(b.jobId, a.jobId),
    );
    return this.sorted;
  }

  /** Jobs of a group that stand on their own: a child whose parent is known stands below it. */
  roots(group: Group): JobSummary[] {
    return this.all().filter((job) => groupOf(job.status) === group && this.parent(job) === undefined);
  }

  /** The jobs that a job started, oldest first. */
  children(jobId: string): JobSummary[] {
    return this.all()
      .filter((job) => job.parentId === jobId && this.parent(job) !== undefined)
      .reverse();
  }

  /** The jobs below a job, at any depth, that wait for the person: what they ask is asked of the parent, too. */
  waitingBelow(jobId: string): JobSummary[] {
    return this.children(jobId).flatMap((child) => [
      ...(groupOf(child.status) === "waiting" ? [child] : []),
      ...this.waitingBelow(child.jobId),
    ]);
  }

  /** The job that a job stands below, if it is known. */
  parent(job: JobSummary): JobSummary | undefined {
    return job.parentId == null || job.parentId === job.jobId ? undefined : this.byId.get(job.parentId);
  }

  counts(): Counts {
    const found: Counts = { running: 0, queued: 0, waiting: 0 };
    for (const job of this.byId.values()) {
      if (job.status === "running") {
        found.running += 1;
      } else if (job.status === "queued") {
        found.queued += 1;
      } else if (groupOf(job.status) === "waiting") {
        found.waiting += 1;
      }
    }
    return found;
  }
}

/** A job after an event; undefined if the event changes nothing that a list shows. */
function after(known: JobSummary, event: Event): JobSummary | undefined {
  switch (event.kind) {
    case "movement":
      return { ...known, movement: event.name };
    case "piece":
      return { ...known, piece: event.piece };
    case "context":
      return { ...known, usage: { ...known.usage, contextRatio: event.ratio } };
    case "usage": {
      const usage = {
        ...known.usage,
        promptTokens: known.usage.promptTokens + event.promptTokens,
        completionTokens: known.usage.completionTokens + event.completionTokens,
        cachedTokens: known.usage.cachedTokens + event.cachedTokens,
        calls: known.usage.calls + 1,
      };
      return { ...known, usage };
    }
    case "status": // `maestro/jobChanged` tells it with the whole summary
    case "transition": // so does the movement that follows
    case "request":
    case "decision":
    case "text":
    case "reasoning":
    case "tool_call":
    case "tool_output":
    case "tool_result":
    case "cache":
    case "cache_break":
    case "reverted":
    case "comment":
    case "error":
      return undefined;
    default:
      return ofLater(event);
  }
}

/** What a later server adds is not shown; the compiler says if a kind of this one was forgotten above. */
function ofLater(_: never): undefined {
  return undefined;
}

/** The newest job of the task that a message of the server begins with: `[maestro t-…9XYZ · code] …`. */
export function taskOf(message: string, jobs: readonly JobSummary[]): JobSummary | undefined {
  const end = /^\[maestro \w-…(\w+)/.exec(message)?.[1];
  return end === undefined ? undefined : jobs.find(({ taskId }) => taskId.endsWith(end));
}

/** A piece's description in two lines: its first words up to a stop, and the rest. */
export function pieceWords(description: string): [string, string] {
  const text = plain(description);
  const stop = /^(.{8,60}?)(?:[:：。]\s*|\.\s+)(.+)$/u.exec(text);
  return stop?.[1] !== undefined && stop[2] !== undefined ? [stop[1], stop[2]] : ["", text];
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * What a person can do with a job: the parts of a tree item's `contextValue`, `;job;question;active;`. `below` are
 * the jobs below it that wait for the person.
 */
export function abilities(job: JobSummary, below: readonly JobSummary[] = []): string {
  const group = groupOf(job.status);
  const parts = ["job"];
  const waits = group === "waiting" ? job : below[0];
  if (waits !== undefined) {
    parts.push(waits.waitReason === "question" ? "question" : "decision");
  }
  parts.push(group === "ended" ? "ended" : "active");
  if (job.status === "failed" || job.status === "aborted" || job.status === "cancelled") {
    parts.push("retry");
  }
  return `;${parts.join(";")};`;
}

/** A job's title on one line. */
export function jobTitle(job: Pick<JobSummary, "title" | "taskId">): string {
  return head(plain(job.title), 100) || job.taskId;
}

/** What the jobs below a job wait for, in words; empty if none waits for the person. */
export function belowWord(below: readonly JobSummary[], say: Say): string {
  const [first] = below;
  if (first === undefined) {
    return "";
  }
  const what = waitWord(first.waitReason, say);
  return below.length === 1 ? say("a subtask: {0}", what) : say("{0} subtasks wait for you", below.length);
}

/** Everything about a job in one line. */
export function jobLine(job: JobSummary, say: Say): string {
  return [stateWord(job, say), placeWord(job), costWord(job, say)].filter((part) => part !== "").join(" · ");
}

/** What stands below a job's title, a row each: its state, where it is, what it cost. */
export function jobFacts(job: JobSummary, say: Say): string[] {
  const state = groupOf(job.status) === "active" ? "" : stateWord(job, say);
  return [state, placeWord(job), costWord(job, say)].filter((part) => part !== "");
}

/** Piece and movement; of a job that has ended the piece. */
export function placeWord(job: JobSummary): string {
  const movement = groupOf(job.status) === "ended" ? null : (job.resumeMovement ?? job.movement);
  return [job.piece, movement].filter((part) => part != null).join(" › ");
}

/** The state in words: of a parked job what it waits for, of one that ended without success why. */
export function stateWord(job: JobSummary, say: Say): string {
  if (groupOf(job.status) === "waiting") {
    return waitWord(job.waitReason, say);
  }
  if (groupOf(job.status) === "ended" && job.status !== "cancelled" && job.forced) {
    return `${statusWord(job.status, say)}: ${say("stopped at the context limit")}`;
  }
  if (job.status === "queued" && job.reason === "rate_limited") {
    return job.notBefore == null
      ? say("queued: the model server is busy")
      : say("queued: the model server is busy, goes on at {0}", clock(job.notBefore));
  }
  const why = job.status === "succeeded" || job.status === "cancelled" ? "" : reasonWord(job.reason, say);
  return why === "" ? statusWord(job.status, say) : `${statusWord(job.status, say)}: ${why}`;
}

/** The time of the day of a moment, to the second, as in this place of the world. */
export function clock(iso: string): string {
  const at = new Date(iso);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

/** What a job cost: tokens of prompts and replies, and how much of it came from a cache; empty before its first call. */
export function costWord(job: JobSummary, say: Say): string {
  const { promptTokens, completionTokens, reusedPct } = job.usage;
  const tokens = promptTokens + completionTokens;
  const cost = tokens === 0 ? "" : say("{0} tokens", short(tokens));
  return cost === "" || reusedPct === null ? cost : `${cost}, ${say("{0} % cached", Math.round(reusedPct))}`;
}

/** 950, 12.3k, 4.1M. */
export function short(count: number): string {
  if (count < 1000) {
    return String(count);
  }
  const [value, unit] = count < 999_950 ? [count / 1000, "k"] : [count / 1_000_000, "M"];
  return `${value < 99.95 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)}${unit}`;
}

/** The icon of a job and its theme colour; only what runs turns. */
export function jobIcon(status: string): { icon: string; color?: string } {
  switch (status) {
    case "queued":
      return { icon: "clock" };
    case "running":
      return { icon: "sync~spin" };
    case "waiting_human":
      return { icon: "bell-dot", color: "notificationsWarningIcon.foreground" };
    case "waiting_subtasks":
      return { icon: "type-hierarchy-sub" };
    case "succeeded":
      return { icon: "pass", color: "testing.iconPassed" };
    case "failed":
      return { icon: "error", color: "testing.iconFailed" };
    case "aborted":
      return { icon: "warning", color: "notificationsWarningIcon.foreground" };
    case "cancelled":
      return { icon: "circle-slash" };
    default:
      return { icon: "question" };
  }
}
