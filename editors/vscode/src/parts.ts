/** What the commands work with. */

import * as vscode from "vscode";
import type { Desk } from "./ask";
import type { Server } from "./client";
import type { Jobs } from "./jobsModel";
import type { Pages } from "./pages";
import { offerServer } from "./python";
import type { Quiet } from "./quiet";

const { t } = vscode.l10n;

export interface Parts {
  context: vscode.ExtensionContext;
  server: Server;
  jobs: Jobs;
  desk: Desk;
  quiet: Quiet;
  pages: Pages;
  /** Ask the server for all jobs and its state anew. */
  sync: () => Promise<void>;
}

/** Whether the server runs now; offers what is missing. */
export async function ready({ context, server, sync }: Parts): Promise<boolean> {
  if (vscode.workspace.workspaceFolders === undefined) {
    const open = t("Open Folder…");
    const text = t("Maestro works on a folder, and none is open.");
    if ((await vscode.window.showInformationMessage(text, open)) === open) {
      await vscode.commands.executeCommand("workbench.action.files.openFolder");
    }
    return false;
  }
  if (server.state === "running" || (await server.start())) {
    return true;
  }
  if (server.state === "missing" && (await offerServer(context, server.log, true)) && (await server.start())) {
    await sync();
    return true;
  }
  if (server.state === "failed") {
    throw new Error(t("Maestro's server does not run; its output says why."));
  }
  return false;
}
