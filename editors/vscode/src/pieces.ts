/** Pieces and models to choose from, and a piece as a picture. */

import * as vscode from "vscode";
import { label } from "./display";
import { graphPage } from "./graphPage";
import { pieceWords } from "./jobsModel";
import { ready, type Parts } from "./parts";

const { t } = vscode.l10n;

/** The name of a piece, empty for "let Maestro choose" (`any`); undefined if the list was closed. */
export async function pickPiece({ server }: Parts, title: string, any: boolean): Promise<string | undefined> {
  const { pieces } = await server.execute("maestro.piece.list", {});
  const items = pieces.map((piece) => {
    const faulty = piece.problems.some(({ severity }) => severity === "error");
    const [first, rest] = pieceWords(piece.description);
    const source = piece.source === "shipped" ? "" : ` (${piece.source})`;
    return {
      label: `$(${faulty ? "error" : "symbol-event"}) ${piece.name}`,
      description: `${label(first)}${source}`,
      detail: label(rest),
      name: piece.name,
    };
  });
  const open = {
    label: `$(sparkle) ${t("Let Maestro choose")}`,
    detail: t("The model picks the piece that fits your instruction."),
    name: "",
  };
  const placeHolder = any ? t("Choose a piece: how the task is worked on") : t("Choose a piece");
  const options = { title, placeHolder, matchOnDetail: true, ignoreFocusOut: true };
  return (await vscode.window.showQuickPick(any ? [open, ...items] : items, options))?.name;
}

/** The id of a model worker, empty for "as the roles say"; asked only where there are several. */
export async function pickModel({ server }: Parts, title: string): Promise<string | undefined> {
  const { workers } = await server.execute("maestro.model.list", {});
  if (workers.length < 2) {
    return "";
  }
  const items = workers.map(({ id, model, endpoint, roles }) => ({
    label: `$(server) ${label(id)}`,
    description: label(roles.length === 0 ? model : `${model} (${roles.join(", ")})`),
    detail: label(endpoint),
    id,
  }));
  const open = {
    label: `$(sparkle) ${t("Let Maestro choose")}`,
    detail: t("The model server whose role fits the task."),
    id: "",
  };
  const options = { title, placeHolder: t("Choose a model"), ignoreFocusOut: true };
  return (await vscode.window.showQuickPick<typeof open>([open, ...items], options))?.id;
}

/** A piece as a picture: of the row of a job its piece, else of one that the person picks. */
export async function showGraph(parts: Parts, argument: unknown): Promise<void> {
  const jobId = (argument as { jobId?: string } | undefined)?.jobId;
  const known = jobId === undefined ? undefined : parts.jobs.get(jobId)?.piece;
  if (known == null && !(await ready(parts))) {
    return;
  }
  const piece = known ?? (await pickPiece(parts, t("Show Piece Graph"), false));
  if (piece === undefined) {
    return;
  }
  const { svg } = await parts.server.execute("maestro.piece.graph", { piece });
  const panel = vscode.window.createWebviewPanel("maestro.graph", piece, vscode.ViewColumn.Active);
  panel.webview.html = graphPage(piece, svg);
}
