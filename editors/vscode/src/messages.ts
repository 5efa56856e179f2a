/** `window/showMessage` of the server. One about a task leads to its job. */

import * as vscode from "vscode";
import { MessageType, type ShowMessageParams } from "vscode-languageclient/node";
import { unlinked } from "./display";
import { groupOf, taskOf, type Jobs } from "./jobsModel";

/**
 * Show a message as its type says; one that tells a job's end has the way to it. `changed` says whether a job
 * changed files.
 */
export async function showMessage(
  { type, message: said }: ShowMessageParams,
  jobs: Jobs,
  changed: (jobId: string) => Promise<boolean>,
): Promise<void> {
  const show =
    {
      [MessageType.Error]: vscode.window.showErrorMessage,
      [MessageType.Warning]: vscode.window.showWarningMessage,
    }[type as 1 | 2] ?? vscode.window.showInformationMessage;
  const message = unlinked(said);
  const job = taskOf(said, jobs.all());
  if (job === undefined || groupOf(job.status) === "waiting") {
    void show(message);
    return;
  }
  const [open, files] = [vscode.l10n.t("Show Job"), vscode.l10n.t("Open Changed Files")];
  const buttons = (await changed(job.jobId)) ? [open, files] : [open];
  const chosen = await show(message, ...buttons);
  if (chosen !== undefined) {
    const command = chosen === open ? "maestro.ui.showJob" : "maestro.ui.openFiles";
    await vscode.commands.executeCommand(command, { jobId: job.jobId });
  }
}
