/** Errors of commands, one sentence each, with the way to mend them where there is one. */

import * as vscode from "vscode";
import { unlinked } from "./display";
import { ErrorCode } from "./protocol";

const { t } = vscode.l10n;

interface Mend {
  title: string;
  command: string;
  args?: unknown[];
}

/** Tell the person what went wrong; the server's sentences are in their language already. */
export async function tell(error: unknown): Promise<void> {
  const text = unlinked(error instanceof Error ? error.message : String(error));
  const code = (error as { code?: unknown } | undefined)?.code;
  if (code === ErrorCode.settled || code === ErrorCode.illegalMove) {
    void vscode.window.showInformationMessage(text);
    return;
  }
  const mends = mendsOf(code);
  const chosen = await vscode.window.showErrorMessage(text, ...mends.map(({ title }) => title));
  const mend = mends.find(({ title }) => title === chosen);
  if (mend !== undefined) {
    await vscode.commands.executeCommand(mend.command, ...(mend.args ?? []));
  }
}

function mendsOf(code: unknown): Mend[] {
  switch (code) {
    case ErrorCode.notConfigured:
      return [
        { title: t("Choose a Model…"), command: "maestro.ui.chooseModel" },
        { title: t("Open Settings"), command: "workbench.action.openSettings", args: ["@ext:maestro-lsp.maestro"] },
      ];
    case ErrorCode.notTrusted:
      return [{ title: t("Manage Workspace Trust"), command: "maestro.ui.trust" }];
    case ErrorCode.unknown:
    case ErrorCode.faultyPiece:
      return [];
    default:
      return [{ title: t("Show Output"), command: "maestro.ui.showOutput" }];
  }
}
