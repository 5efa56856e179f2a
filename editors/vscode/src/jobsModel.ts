/** The jobs as a list shows them. Pure: it renders what the server says and decides no status. */

import { head, plain } from "./display";
import type { JobSummary } from "./protocol";
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

  /** A job entered a movement; unknown jobs come with their next summary. */
  entered(jobId: string, movement: string): void {
    const known = this.byId.get(jobId);
    if (known !== undefined) {
      this.set({ ...known, movement });
    }
  }

  /** A model call of a job was counted. */
  used(jobId: string, call: { promptTokens: number; completionTokens: number; cachedTokens: number }): void {
    const known = this.byId.get(jobId);
    if (known !== undefined) {
      const usage = {
        ...known.usage,
        promptTokens: known.usage.promptTokens + call.promptTokens,
        completionTokens: known.usage.completionTokens + call.completionTokens,
        cachedTokens: known.usage.cachedTokens + call.cachedTokens,
        calls: known.usage.calls + 1,
      };
      this.set({ ...known, usage });
    }
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

/** What a person can do with a job: the parts of a tree item's `contextValue`, `;job;question;active;`. */
export function abilities(job: JobSummary): string {
  const group = groupOf(job.status);
  const parts = ["job"];
  if (group === "waiting") {
    parts.push(job.waitReason === "question" ? "question" : "decision");
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
  const why = job.status === "succeeded" || job.status === "cancelled" ? "" : reasonWord(job.reason, say);
  return why === "" ? statusWord(job.status, say) : `${statusWord(job.status, say)}: ${why}`;
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
