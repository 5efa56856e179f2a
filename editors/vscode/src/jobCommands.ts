/** Commands on a job: of a row of the view, else of one that the person picks. */

import * as vscode from "vscode";
import { fileName } from "./ask";
import { kindOf, settledWord } from "./askModel";
import { head, label, plain, unlinked } from "./display";
import { jobPage } from "./jobPage";
import { groupOf, jobLine, jobTitle } from "./jobsModel";
import type { Row } from "./jobsView";
import { namesOf, type Change } from "./pages";
import { ready, type Parts } from "./parts";
import type { FileChanged, JobSummary, Request, Reverted } from "./protocol";
import { keptLine, revertLine } from "./revertModel";

const { t } = vscode.l10n;
/** Files that a message names, and that a dialog lists. */
const NAMED = 5;
const LISTED = 20;

// -- answering

export async function respond(parts: Parts, argument: unknown): Promise<void> {
  const waits = (one: JobSummary): boolean => groupOf(one.status) === "waiting";
  // Held only while they choose: the answer itself takes its turn among the other prompts.
  const job = await parts.quiet.hold(() => theJob(parts, argument, waits, t("Nothing waits for you.")));
  if (job === undefined) {
    return;
  }
  // What the jobs below it ask is asked of a parent, too.
  const asking = [job.jobId, ...parts.jobs.waitingBelow(job.jobId).map(({ jobId }) => jobId)];
  const shown = await Promise.all(asking.map((jobId) => parts.server.execute("maestro.task.show", { jobId })));
  const requests = shown.flatMap((one) => one.requests);
  const open = requests.filter(({ settled }) => settled == null);
  const request = open.length > 1 ? await parts.quiet.hold(() => pickRequest(open)) : open[0];
  if (request === undefined) {
    const last = requests.at(-1)?.settled;
    void vscode.window.showInformationMessage(last == null ? t("Nothing waits for you.") : unlinked(settledWord(last, t)));
    return;
  }
  if (!parts.desk.raise(request.requestId)) {
    await settle(parts, request);
  }
}

async function settle({ server, desk }: Parts, request: Request): Promise<void> {
  const { requestId, jobId } = request;
  if (kindOf(request.reason) === "question") {
    const params = { requestId, jobId, prompt: request.title, options: request.options ?? null };
    await desk.input(params, {
      deliver: ({ text }) => server.execute("maestro.task.answer", { jobId, requestId, text }),
    });
  } else {
    await desk.approve(request, {
      deliver: (answer) => server.execute("maestro.request.decide", { requestId, ...answer }),
    });
  }
}

async function pickRequest(open: readonly Request[]): Promise<Request | undefined> {
  const items = open.map((request) => ({ label: label(head(plain(request.title), 100)), request }));
  return (await vscode.window.showQuickPick(items, { title: t("What do you want to answer?") }))?.request;
}

// -- other things to do with a job

export async function comment(parts: Parts, argument: unknown): Promise<void> {
  const job = await theJob(parts, argument, () => true, t("There are no jobs in this workspace."));
  const text =
    job &&
    (await vscode.window.showInputBox({
      title: jobTitle(job),
      prompt: t("Your comment: a running task reads it, an ended one goes on with it."),
      ignoreFocusOut: true,
    }));
  if (job === undefined || text === undefined || text.trim() === "") {
    return;
  }
  await parts.server.execute("maestro.task.comment", { taskId: job.taskId, text });
  await parts.sync();
}

export async function cancelJob(parts: Parts, argument: unknown): Promise<void> {
  const job = await theJob(parts, argument, (one) => groupOf(one.status) !== "ended", t("No job is at work."));
  const yes = t("Cancel the Job");
  const sure =
    job &&
    (await vscode.window.showWarningMessage(
      t("Cancel “{0}”?", jobTitle(job)),
      { modal: true, detail: t("What it has changed so far stays. It can be retried.") },
      yes,
    ));
  if (job !== undefined && sure === yes) {
    await parts.server.execute("maestro.task.cancel", { jobId: job.jobId });
  }
}

export async function retryJob(parts: Parts, argument: unknown): Promise<void> {
  const failed = (job: JobSummary): boolean => ["failed", "aborted", "cancelled"].includes(job.status);
  const job = await theJob(parts, argument, failed, t("There is no job that failed, stopped or was cancelled."));
  if (job !== undefined) {
    await parts.server.execute("maestro.task.retry", { jobId: job.jobId });
    await parts.sync();
  }
}

/** Puts back what a job changed, after a look at which files those are; what stays, and why, is told. */
export async function revertJob(parts: Parts, argument: unknown): Promise<void> {
  const rests = (one: JobSummary): boolean => groupOf(one.status) === "ended" || groupOf(one.status) === "waiting";
  const job = await theJob(parts, argument, rests, t("No job has ended or waits."));
  if (job === undefined) {
    return;
  }
  const files = await changedFiles(parts, job);
  if (files.length === 0) {
    return;
  }
  const yes = t("Put Back");
  const rule = t("Files that you or somebody else changed since stay as they are.");
  const detail = `${listed(files.map((file) => revertLine(file, t)))}\n\n${rule}`;
  const question = t("Put back what “{0}” changed?", jobTitle(job));
  if ((await vscode.window.showWarningMessage(question, { modal: true, detail }, yes)) === yes) {
    const done = await parts.server.execute("maestro.task.revert", { jobId: job.jobId });
    // What its commands left by the way (caches) is not listed, and goes, too.
    const count = files.filter(({ path }) => done.reverted.includes(path)).length;
    await tellReverted(parts, job, count, done.kept);
  }
}

async function tellReverted({ pages }: Parts, job: JobSummary, count: number, kept: Reverted["kept"]): Promise<void> {
  if (kept.length === 0) {
    void vscode.window.showInformationMessage(t("Put back: {0}", count));
    return;
  }
  const named = kept.slice(0, NAMED).map((one) => keptLine(one, t));
  const more = kept.length > named.length ? ` … ${kept.length - named.length}` : "";
  const text = unlinked(t("Put back: {0}. Left as they are: {1}", count, named.join(", ") + more));
  const all = t("Show All");
  if ((await vscode.window.showWarningMessage(text, ...(more === "" ? [] : [all]))) === all) {
    const page = kept.map((one) => `- ${keptLine(one, t)}`).join("\n");
    await pages.show(job.jobId, fileName(t("Left as they are")), `${page}\n`);
  }
}

/** Writes a task down as Markdown, into its `output` folder, and opens it: as text, for a model wrote in it. */
export async function exportJob(parts: Parts, argument: unknown): Promise<void> {
  const job = await theJob(parts, argument, () => true, t("There are no jobs in this workspace."));
  if (job !== undefined) {
    const { uri } = await parts.server.execute("maestro.task.export", { jobId: job.jobId, format: "md" });
    await vscode.window.showTextDocument(vscode.Uri.parse(uri), { preview: true });
  }
}

/** What a job changed; that it changed nothing is told. */
async function changedFiles({ server }: Parts, job: JobSummary): Promise<readonly FileChanged[]> {
  const { files } = await server.execute("maestro.task.changes", { jobId: job.jobId });
  if (files.length === 0) {
    void vscode.window.showInformationMessage(unlinked(t("“{0}” has changed no files.", jobTitle(job))));
  }
  return files;
}

/** A list for a dialog, which does not scroll. */
function listed(rows: readonly string[]): string {
  const shown = rows.slice(0, LISTED);
  const more = rows.length > shown.length ? [`… ${rows.length - shown.length}`] : [];
  return [...shown, ...more].join("\n");
}

export async function openFiles(parts: Parts, argument: unknown): Promise<void> {
  const job = await theJob(parts, argument, () => true, t("There are no jobs in this workspace."));
  if (job === undefined) {
    return;
  }
  const files = await changedFiles(parts, job);
  if (files.length === 0) {
    return;
  }
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri ?? vscode.Uri.file("/");
  const changes = files.map(({ path, status, before, after, binary, currentMatches }): Change => {
    const asItIs = status !== "deleted" && (binary || currentMatches);
    return { uri: vscode.Uri.joinPath(folder, path), before: before ?? null, after: after ?? null, asItIs };
  });
  await parts.pages.diff(job.jobId, changes, t("{0}: before the job ↔ after it", namesOf(changes)));
}

export async function showJob(parts: Parts, argument: unknown): Promise<void> {
  const job = await theJob(parts, argument, () => true, t("There are no jobs in this workspace."));
  if (job !== undefined) {
    const detail = await parts.server.execute("maestro.task.show", { jobId: job.jobId });
    const when = (iso: string): string => new Date(iso).toLocaleTimeString(vscode.env.language);
    await parts.pages.show(job.jobId, fileName(job.title), jobPage(detail, t, when));
  }
}

/** The job of a row of the view, else one that the person picks of those that fit; the only one at once. */
async function theJob(
  parts: Parts,
  argument: unknown,
  fits: (job: JobSummary) => boolean,
  none: string,
): Promise<JobSummary | undefined> {
  const jobId = (argument as Partial<Extract<Row, { jobId: string }>> | undefined)?.jobId;
  if (jobId !== undefined) {
    return parts.jobs.get(jobId);
  }
  if (!(await ready(parts))) {
    return undefined;
  }
  const found = parts.jobs.all().filter(fits);
  if (found.length < 2) {
    if (found.length === 0) {
      void vscode.window.showInformationMessage(none);
    }
    return found[0];
  }
  const items = found.map((job) => ({ label: label(jobTitle(job)), detail: label(jobLine(job, t)), job }));
  return (await vscode.window.showQuickPick(items, { title: t("Which job?"), matchOnDetail: true }))?.job;
}
