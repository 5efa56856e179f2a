/** The view of the jobs: by state, children below their parents. */

import * as vscode from "vscode";
import {
  abilities,
  belowWord,
  GROUPS,
  groupOf,
  groupTitle,
  jobFacts,
  jobIcon,
  jobLine,
  jobTitle,
  stateWord,
  type Group,
  type Jobs,
} from "./jobsModel";
import type { JobSummary } from "./protocol";

const { t } = vscode.l10n;
const QUIET_MS = 100;

/** A row: a group, a job by its id, or a fact about a job. */
export type Row = { group: Group } | { jobId: string; fact?: string };

export class JobsView implements vscode.TreeDataProvider<Row>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<Row | undefined>();
  private readonly view: vscode.TreeView<Row>;
  private timer: NodeJS.Timeout | undefined;
  readonly onDidChangeTreeData = this.changed.event;

  constructor(private readonly jobs: Jobs) {
    this.view = vscode.window.createTreeView("maestro.ui.jobs", { treeDataProvider: this, showCollapseAll: false });
  }

  /** The jobs changed: draw them again, soon and once. */
  refresh(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      const { waiting } = this.jobs.counts();
      this.view.badge = waiting === 0 ? undefined : { value: waiting, tooltip: t("{0} waiting for you", waiting) };
      this.changed.fire(undefined);
    }, QUIET_MS);
  }

  getChildren(row?: Row): Row[] {
    if (row === undefined) {
      return GROUPS.filter((group) => this.jobs.roots(group).length > 0).map((group) => ({ group }));
    }
    if ("group" in row) {
      return this.jobs.roots(row.group).map(({ jobId }) => ({ jobId }));
    }
    const job = row.fact === undefined ? this.jobs.get(row.jobId) : undefined;
    const facts = job === undefined ? [] : this.facts(job).map((fact) => ({ jobId: row.jobId, fact }));
    return job === undefined ? [] : [...facts, ...this.jobs.children(job.jobId).map(({ jobId }) => ({ jobId }))];
  }

  getTreeItem(row: Row): vscode.TreeItem {
    if ("group" in row) {
      const item = new vscode.TreeItem(groupTitle(row.group, t), vscode.TreeItemCollapsibleState.Expanded);
      item.id = row.group;
      item.description = String(this.jobs.roots(row.group).length);
      return item;
    }
    const job = this.jobs.get(row.jobId);
    if (job === undefined) {
      return new vscode.TreeItem(row.jobId);
    }
    return row.fact === undefined ? this.item(job) : this.factItem(job, row.fact);
  }

  /** The rows under a job: those about itself, and what the jobs below it ask the person. */
  private facts(job: JobSummary): string[] {
    return [belowWord(this.jobs.waitingBelow(job.jobId), t), ...jobFacts(job, t)].filter((fact) => fact !== "");
  }

  private item(job: JobSummary): vscode.TreeItem {
    const ended = groupOf(job.status) === "ended";
    const state = ended ? vscode.TreeItemCollapsibleState.Collapsed : vscode.TreeItemCollapsibleState.Expanded;
    const item = new vscode.TreeItem(jobTitle(job), state);
    const { icon, color } = jobIcon(job.status);
    item.id = `${groupOf(job.status)}/${job.jobId}`; // another group, another item: it opens or closes anew
    item.description = groupOf(job.status) === "active" ? stateWord(job, t) : "";
    item.tooltip = tooltip(job);
    item.iconPath = new vscode.ThemeIcon(icon, color === undefined ? undefined : new vscode.ThemeColor(color));
    item.contextValue = abilities(job, this.jobs.waitingBelow(job.jobId));
    item.accessibilityInformation = { label: `${jobTitle(job)}, ${jobLine(job, t)}` };
    item.command = { command: "maestro.ui.showJob", title: t("Show Job"), arguments: [row(job)] };
    return item;
  }

  private factItem(job: JobSummary, fact: string): vscode.TreeItem {
    const item = new vscode.TreeItem({ label: "" });
    const below = this.jobs.waitingBelow(job.jobId);
    item.description = fact;
    item.id = `${job.jobId}/${fact}`;
    item.accessibilityInformation = { label: fact };
    item.contextValue = abilities(job, below).replace(";job;", ";fact;");
    if ((groupOf(job.status) === "waiting" && fact === stateWord(job, t)) || fact === belowWord(below, t)) {
      item.command = { command: "maestro.ui.answer", title: t("Answer…"), arguments: [row(job)] };
    }
    return item;
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.view.dispose();
    this.changed.dispose();
  }
}

function row(job: JobSummary): Row {
  return { jobId: job.jobId };
}

function tooltip(job: JobSummary): string {
  const { contextRatio, calls } = job.usage;
  const cost =
    calls === 0 ? "" : [t("{0} calls", calls), t("{0} % of the context", Math.round(contextRatio * 100))].join(", ");
  return [jobTitle(job), jobLine(job, t), cost, new Date(job.createdAt).toLocaleString(vscode.env.language)]
    .filter((line) => line !== "")
    .join("\n");
}
