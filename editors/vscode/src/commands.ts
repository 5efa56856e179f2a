/** The palette's commands. Their ids are `maestro.ui.*`: the client registers the server's under their own. */

import * as vscode from "vscode";
import { KEY_SECRET } from "./client";
import { tell } from "./failure";
import { cancelJob, comment, exportJob, openFiles, respond, retryJob, revertJob, showJob } from "./jobCommands";
import { ready, type Parts } from "./parts";
import { MODES, type Mode, type StartParams } from "./protocol";
import { pickModel, pickPiece, showGraph } from "./pieces";
import { offerServer } from "./python";
import { chooseModel, openSample, reviveScripted } from "./walkthrough";
import { modeWord } from "./words";

const { t } = vscode.l10n;

type Handler = (parts: Parts, argument: unknown) => Promise<unknown>;

const COMMANDS: Record<string, Handler> = {
  startTask: (parts) => startTask(parts, {}),
  startOnFile,
  startOnSelection,
  showJobs: () => thenable("maestro.ui.jobs.focus"),
  answer: respond,
  decide: respond,
  sendAnswer: ({ desk }) => desk.letter.send(),
  comment,
  cancelJob,
  retryJob,
  revertJob,
  exportJob,
  openFiles,
  showJob,
  showGraph,
  setMode,
  trust: () => thenable("workbench.trust.manage"),
  setApiKey,
  chooseModel: (parts) => chooseModel(() => interpreter(parts)),
  setUpServer,
  openSample: ({ context }) => openSample(context),
  walkthrough: () => thenable("workbench.action.openWalkthrough", "maestro-lsp.maestro#start"),
  showOutput: async ({ server }) => server.log.show(),
  restartServer: ({ server }) => server.restart(),
};

/** They take their turn among the other prompts, so they must not keep those away. */
const ANSWERS = new Set(["answer", "decide", "sendAnswer"]);

/** Register them all; what goes wrong in one is told in a sentence. */
export function registerCommands(parts: Parts): vscode.Disposable[] {
  return Object.entries(COMMANDS).map(([name, handler]) =>
    vscode.commands.registerCommand(`maestro.ui.${name}`, async (argument: unknown) => {
      try {
        await (ANSWERS.has(name) ? handler(parts, argument) : parts.quiet.hold(() => handler(parts, argument)));
      } catch (error) {
        parts.server.log.error(`${name}: ${error}`);
        void tell(error);
      }
    }),
  );
}

async function thenable(command: string, ...args: unknown[]): Promise<unknown> {
  return vscode.commands.executeCommand(command, ...args);
}

// -- the server

/** The Python that has the server, offered to be installed if there is none. */
async function interpreter({ context, server }: Parts): Promise<string | undefined> {
  const found = await server.find();
  return found?.python ?? ((await offerServer(context, server.log, true)) ? (await server.find())?.python : undefined);
}

async function setUpServer(parts: Parts): Promise<void> {
  const found = await parts.server.find();
  if (found === undefined && !(await offerServer(parts.context, parts.server.log, true))) {
    return;
  }
  await parts.server.start();
  const used = parts.server.found ?? (await parts.server.find());
  if (used !== undefined) {
    void vscode.window.showInformationMessage(
      t("Maestro uses maestro-lsp {0} ({1}): {2}", used.version, used.source, used.python),
    );
  }
}

// -- starting

async function startOnFile(parts: Parts, argument: unknown): Promise<void> {
  const uri = argument instanceof vscode.Uri ? argument : vscode.window.activeTextEditor?.document.uri;
  if (uri?.scheme !== "file") {
    throw new Error(t("Open a file of the workspace first: the task is to start on it."));
  }
  await startTask(parts, { files: [uri.toString()] }, vscode.workspace.asRelativePath(uri));
}

async function startOnSelection(parts: Parts): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined || editor.selection.isEmpty) {
    throw new Error(t("Select the text first that the task is to start on."));
  }
  const { document, selection } = editor;
  const name = `${vscode.workspace.asRelativePath(document.uri)}:${selection.start.line + 1}-${selection.end.line + 1}`;
  const files = document.uri.scheme === "file" ? { files: [document.uri.toString()] } : {};
  await startTask(
    parts,
    { ...files, selection: { uri: document.uri.toString(), range: parts.server.range(selection) } },
    name,
  );
}

async function startTask(parts: Parts, on: Omit<StartParams, "instruction">, name?: string): Promise<void> {
  if (!(await ready(parts))) {
    return;
  }
  await reviveScripted(parts.server.found?.python ?? "");
  const title = name === undefined ? t("Start a task") : t("Start a task on {0}", name);
  const piece = await pickPiece(parts, title, true);
  const model = piece === undefined ? undefined : await pickModel(parts, title);
  if (piece === undefined || model === undefined) {
    return;
  }
  const instruction = await vscode.window.showInputBox({
    title: piece === "" ? title : `${title} · ${piece}`,
    prompt: t("What is to be done? A file of the workspace can be named as @path."),
    placeHolder: t("for example: make the failing test pass"),
    ignoreFocusOut: true,
  });
  if (instruction === undefined || instruction.trim() === "") {
    return;
  }
  const chosen = { ...(piece === "" ? {} : { piece }), ...(model === "" ? {} : { model }) };
  await parts.server.execute("maestro.task.start", { instruction, ...on, ...chosen });
  await parts.sync();
}

// -- settings

async function setMode(parts: Parts): Promise<void> {
  if (!(await ready(parts))) {
    return;
  }
  const { mode: now } = await parts.server.execute("maestro.status", {});
  const items = MODES.map((mode) => ({
    label: mode,
    description: mode === now ? t("now") : "",
    detail: modeWord(mode, t),
    mode,
  }));
  const mode: Mode | undefined = (
    await vscode.window.showQuickPick(items, { title: t("What may tasks do without asking?") })
  )?.mode;
  if (mode !== undefined) {
    await parts.server.execute("maestro.mode.set", { mode });
    await vscode.workspace.getConfiguration("maestro").update("mode", mode, vscode.ConfigurationTarget.Global);
    await parts.sync();
  }
}

async function setApiKey({ context, server }: Parts): Promise<void> {
  const key = await vscode.window.showInputBox({
    title: t("API key of the model server"),
    prompt: t("It is kept in VS Code's secret storage. Leave it empty to forget the stored one."),
    password: true,
    ignoreFocusOut: true,
  });
  if (key === undefined) {
    return;
  }
  await (key.trim() === "" ? context.secrets.delete(KEY_SECRET) : context.secrets.store(KEY_SECRET, key.trim()));
  if (server.state === "running") {
    await server.start();
  }
  void vscode.window.showInformationMessage(
    key.trim() === "" ? t("The API key is forgotten.") : t("The API key is stored."),
  );
}
