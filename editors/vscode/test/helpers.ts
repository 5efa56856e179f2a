/** What tests share: a plain translation, and jobs and requests with only what matters spelt out. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { JobSummary, Request } from "../src/protocol";

export const HERE = process.cwd(); // scripts/test.mjs runs the tests in the extension's folder

export const say = (message: string, ...values: (string | number)[]): string =>
  message.replace(/\{(\d)\}/g, (_, index: string) => String(values[Number(index)]));

export function job(more: Partial<JobSummary> = {}): JobSummary {
  return {
    jobId: "j-1",
    taskId: "t-1",
    title: "Make the failing test pass",
    piece: "code",
    movement: "plan",
    status: "running",
    forced: false,
    openRequests: [],
    createdAt: "2026-12-01T09:00:00Z",
    updatedAt: "2026-12-01T09:00:01Z",
    usage: { promptTokens: 0, completionTokens: 0, cachedTokens: 0, reusedPct: null, contextRatio: 0, calls: 0 },
    ...more,
  };
}

export function request(more: Partial<Request> = {}): Request {
  return {
    requestId: "r-1",
    jobId: "j-1",
    taskId: "t-1",
    reason: "approval",
    title: "Edit src/price.py (+2 −1)",
    detail: "",
    why: "Mode ask asks about every change.",
    createdAt: "2026-12-01T09:00:00Z",
    ...more,
  };
}

export function json(...path: string[]): Record<string, unknown> {
  return JSON.parse(readFileSync(join(HERE, ...path), "utf8")) as Record<string, unknown>;
}
