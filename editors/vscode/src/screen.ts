/** Keeps what is on the screen in step with the server: jobs, status bar, questions. */

import * as vscode from "vscode";
import { ShowMessageNotification, State, type LanguageClient } from "vscode-languageclient/node";
import type { Desk } from "./ask";
import type { Server } from "./client";
import { head, unlinked } from "./display";
import { groupOf, type Jobs } from "./jobsModel";
import type { JobsView } from "./jobsView";
import { showMessage } from "./messages";
import * as p from "./protocol";
import type { StatusBar } from "./status";
import { SingleFlight } from "./turns";

const REMINDER_LIMIT = 160;
const REMINDER_MS = 1500;

export class Screen {
  private readonly flight = new SingleFlight(() => this.read());

  constructor(
    private readonly server: Server,
    private readonly jobs: Jobs,
    private readonly view: JobsView,
    private readonly status: StatusBar,
  ) {}

  /** Ask the server for all jobs and its state anew. */
  sync(): Promise<void> {
    return this.flight.run();
  }

  /** Handle what the server sends of itself; before the client is started. */
  follow(client: LanguageClient, desk: Desk): void {
    client.onDidChangeState(({ newState }) => (newState === State.Running ? undefined : desk.withdraw()));
    client.onRequest(p.INPUT, (params: p.InputParams, token: vscode.CancellationToken) =>
      desk.input(params, { token }),
    );
    client.onRequest(p.APPROVE, (request: p.Request, token: vscode.CancellationToken) =>
      desk.approve(request, { token }),
    );
    client.onNotification(
      ShowMessageNotification.type,
      (message) => void showMessage(message, this.jobs, (jobId) => this.changedFiles(jobId)),
    );
    client.onNotification(p.JOB_CHANGED, (job: p.JobSummary) => {
      this.jobs.put(job);
      this.draw();
    });
    client.onNotification(p.EVENT, (event: p.Event) => {
      if (this.jobs.told(event)) {
        this.draw();
      }
    });
  }

  private changedFiles(jobId: string): Promise<boolean> {
    return this.server.execute("maestro.task.changes", { jobId }).then(
      ({ files }) => files.length > 0,
      () => false,
    );
  }

  private async read(): Promise<void> {
    const { server } = this;
    try {
      const running = server.state === "running";
      const [list, status] = running
        ? await Promise.all([server.execute("maestro.task.list", {}), server.execute("maestro.status", {})])
        : [{ jobs: [] }, undefined];
      this.jobs.reset(list.jobs);
      this.status.take(status);
      // Not by the command itself: the walkthrough takes the focus when a step is done, from under a prompt.
      void vscode.commands.executeCommand("setContext", "maestro.ui.hasTask", list.jobs.length > 0);
      void vscode.commands.executeCommand("setContext", "maestro.ui.hasModel", (status?.model.endpoint ?? "") !== "");
    } catch (error) {
      // The server says by itself what keeps its store shut; nothing is to be listed then.
      server.log.warn(`the jobs could not be listed: ${error}`);
      this.jobs.reset([]);
      this.status.take(undefined);
    }
    this.draw();
  }

  private draw(): void {
    this.view.refresh();
    this.status.refresh();
  }
}

/**
 * A prompt was closed without an answer: say once that the job waits, and how to come back to it. Not at once:
 * who closed it may be about to cancel the job, or to answer by another way.
 */
export async function remind(jobs: Jobs, jobId: string, what: string): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, REMINDER_MS));
  if (groupOf(jobs.get(jobId)?.status ?? "cancelled") !== "waiting") {
    return;
  }
  const answer = vscode.l10n.t("Answer…");
  const text = vscode.l10n.t("Still waiting for you: {0}", unlinked(head(what, REMINDER_LIMIT)));
  if ((await vscode.window.showInformationMessage(text, answer)) === answer) {
    await vscode.commands.executeCommand("maestro.ui.answer", { jobId });
  }
}
