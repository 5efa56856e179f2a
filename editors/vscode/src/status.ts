/** What stands in the status bar: the mode, and how many jobs run and wait. */

import * as vscode from "vscode";
import type { Server, ServerState } from "./client";
import type { Jobs } from "./jobsModel";
import type { Status } from "./protocol";
import { modelText, stateText, statusText } from "./statusText";

const { t } = vscode.l10n;
/** What a click does where the server does not run. */
const REPAIR: Partial<Record<ServerState, string>> = {
  missing: "maestro.ui.setUpServer",
  failed: "maestro.ui.showOutput",
};

export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("maestro.status", vscode.StatusBarAlignment.Left, 50);
  private readonly language = vscode.languages.createLanguageStatusItem("maestro.server", [{ scheme: "file" }]);
  private status: Status | undefined;

  constructor(
    private readonly server: Server,
    private readonly jobs: Jobs,
  ) {
    this.item.name = "Maestro";
    this.language.name = "Maestro";
    this.language.command = { command: "maestro.ui.restartServer", title: t("Restart") };
  }

  /** What the server last said of itself; undefined while it does not run. */
  take(status: Status | undefined): void {
    this.status = status;
    this.refresh();
  }

  /** Draw it as things are now. */
  refresh(): void {
    const { state } = this.server;
    if (state === "stopped") {
      this.item.hide();
      return;
    }
    const counts = this.jobs.counts();
    const running = state === "running";
    this.item.text = statusText(state, this.status?.mode, counts, t);
    this.item.tooltip = this.tooltip();
    this.item.command = running ? (counts.waiting > 0 ? "maestro.ui.answer" : "maestro.ui.showJobs") : REPAIR[state];
    const color = state === "failed" ? "error" : running && counts.waiting > 0 ? "warning" : undefined;
    this.item.backgroundColor = color && new vscode.ThemeColor(`statusBarItem.${color}Background`);
    this.item.show();
    this.drawLanguage(state);
  }

  dispose(): void {
    this.item.dispose();
    this.language.dispose();
  }

  private drawLanguage(state: ServerState): void {
    const { found } = this.server;
    this.language.busy = state === "starting";
    this.language.text = state === "running" ? `maestro-lsp ${this.status?.server.version ?? ""}` : stateText(state, t);
    this.language.detail = found === undefined ? "" : `${found.python} (${found.source})`;
    this.language.severity =
      state === "failed" || state === "missing"
        ? vscode.LanguageStatusSeverity.Error
        : vscode.LanguageStatusSeverity.Information;
  }

  private tooltip(): string {
    const { status } = this;
    const { found } = this.server;
    const model = status === undefined ? "" : modelText(status.model, t);
    return [
      stateText(this.server.state, t),
      model,
      status?.trusted === false ? t("This workspace is not trusted: everything but reading is asked.") : "",
      found === undefined ? "" : `maestro-lsp ${found.version}: ${found.python} (${found.source})`,
    ]
      .filter((line) => line !== "")
      .join("\n");
  }
}
