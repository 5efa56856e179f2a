/** Finds the Python whose packages hold the server; else offers to make one of the extension's own. */

import { join } from "node:path";
import * as vscode from "vscode";
import {
  bundledWheel,
  ENVIRONMENT,
  InstallFailed,
  isNewEnough,
  makeEnvironment,
  onPath,
  pythonOf,
  resolveProgram,
  serverVersion,
  sweepEnvironments,
} from "./interpreter";

export interface Found {
  python: string;
  version: string;
  /** In words: where this Python was found. */
  source: string;
}

interface Candidate {
  python: string;
  source: string;
}

const { t } = vscode.l10n;
const BASES = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"];

/** The interpreter with the server, or undefined. An interpreter that was set by hand is never passed over. */
export async function findServer(
  context: vscode.ExtensionContext,
  log: vscode.LogOutputChannel,
): Promise<Found | undefined> {
  const written = vscode.workspace.getConfiguration("maestro").get("interpreter", "").trim();
  if (written !== "") {
    const python = await resolveProgram(written);
    return python === undefined ? undefined : check({ python, source: t("setting maestro.interpreter") }, log);
  }
  for (const candidate of await candidates(context)) {
    const found = await check(candidate, log);
    if (found !== undefined) {
      return found;
    }
  }
  return undefined;
}

async function check(candidate: Candidate, log: vscode.LogOutputChannel): Promise<Found | undefined> {
  const version = await serverVersion(candidate.python);
  if (version === undefined) {
    log.info(`no maestro-lsp in ${candidate.python} (${candidate.source})`);
    return undefined;
  }
  log.info(`maestro-lsp ${version} of ${candidate.python} (${candidate.source})`);
  return { ...candidate, version };
}

async function candidates(context: vscode.ExtensionContext): Promise<Candidate[]> {
  const found: Candidate[] = [];
  const selected = await selectedInterpreter();
  if (selected !== undefined) {
    found.push({ python: selected, source: t("the Python extension") });
  }
  for (const name of ["python3", "python"]) {
    const python = await onPath(name);
    if (python !== undefined && !found.some((other) => other.python === python)) {
      found.push({ python, source: "PATH" });
    }
  }
  const folder = await privateFolder(context);
  return folder === undefined
    ? found
    : [...found, { python: pythonOf(folder), source: t("Maestro's own environment") }];
}

/** The server runs: if it does so in an environment of the extension's own, those of older versions may go. */
export async function sweep(
  context: vscode.ExtensionContext,
  { python }: Found,
  log: vscode.LogOutputChannel,
): Promise<void> {
  const folder = await privateFolder(context);
  if (folder !== undefined && python === pythonOf(folder)) {
    for (const gone of await sweepEnvironments(folder, Date.now())) {
      log.info(`removed ${gone}, which no server used any more`);
    }
  }
}

/** What the person chose in the Python extension. It may lie in the workspace, so it wants a trusted one. */
async function selectedInterpreter(): Promise<string | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>("ms-python.python");
  if (extension === undefined || !vscode.workspace.isTrusted) {
    return undefined;
  }
  try {
    const { environments } = await extension.activate();
    const path = environments.getActiveEnvironmentPath(vscode.workspace.workspaceFolders?.[0]?.uri);
    return (await environments.resolveEnvironment(path))?.executable.uri?.fsPath;
  } catch {
    return undefined; // another extension's fault must not keep this one from looking further
  }
}

interface PythonApi {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): unknown;
    resolveEnvironment(path: unknown): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
  };
}

function wheelsFolder(context: vscode.ExtensionContext): string {
  return context.asAbsolutePath(join("dist", "wheels"));
}

/** Where the extension's own environment is: one for each version of the server. */
async function privateFolder(context: vscode.ExtensionContext): Promise<string | undefined> {
  const wheel = await bundledWheel(wheelsFolder(context));
  return wheel && join(context.globalStorageUri.fsPath, `${ENVIRONMENT}${wheel.version}`);
}

/**
 * Ask whether to make the extension's own environment, and make it. `modal` where the person just asked for
 * something that needs it. True if the server is there now.
 */
export async function offerServer(
  context: vscode.ExtensionContext,
  log: vscode.LogOutputChannel,
  modal: boolean,
): Promise<boolean> {
  const folder = await privateFolder(context);
  const install = t("Install");
  const choose = t("Choose an Interpreter…");
  const written = vscode.workspace.getConfiguration("maestro").get("interpreter", "").trim();
  const missing =
    written === ""
      ? t("Maestro needs its server, and no Python here has it.")
      : t("Maestro's server is not in the interpreter that is set: {0}.", written);
  const offer =
    folder &&
    t(
      "Shall Maestro install it into an environment of its own ({0})? The libraries it needs are downloaded from your Python package index.",
      folder,
    );
  const buttons = folder === undefined ? [choose] : [install, choose];
  const text = modal ? missing : [missing, offer].filter(Boolean).join(" ");
  const answer = await (modal
    ? vscode.window.showInformationMessage(
        text,
        { modal, ...(offer === undefined ? {} : { detail: offer }) },
        ...buttons,
      )
    : vscode.window.showInformationMessage(text, ...buttons));
  if (answer === choose) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "@id:maestro.interpreter");
  }
  if (answer !== install || folder === undefined) {
    return false;
  }
  installing ??= installed(context, log, folder).finally(() => (installing = undefined));
  return installing;
}

/** The installation under way: a second one would clear the folder that the first one fills. */
let installing: Promise<boolean> | undefined;

async function installed(
  context: vscode.ExtensionContext,
  log: vscode.LogOutputChannel,
  folder: string,
): Promise<boolean> {
  const base = await basePython();
  if (base === undefined) {
    void vscode.window.showErrorMessage(
      t("Maestro needs Python 3.11 or newer, and there is none on PATH. Install it, or set maestro.interpreter."),
    );
    return false;
  }
  const options = { location: vscode.ProgressLocation.Notification, title: t("Maestro's server") };
  try {
    await vscode.window.withProgress(options, (progress) =>
      makeEnvironment(base, folder, wheelsFolder(context), (step) => {
        log.info(`${step}: ${folder}`);
        progress.report({ message: stepWord(step) });
      }),
    );
  } catch (error) {
    await tellFailure(error, log);
    return false;
  }
  await vscode.workspace
    .getConfiguration("maestro")
    .update("interpreter", undefined, vscode.ConfigurationTarget.Global);
  return true;
}

function stepWord(step: InstallFailed["step"]): string {
  switch (step) {
    case "venv":
      return t("making the environment…");
    case "libraries":
      return t("installing libraries…");
    case "server":
      return t("installing the server…");
  }
}

async function tellFailure(error: unknown, log: vscode.LogOutputChannel): Promise<void> {
  if (!(error instanceof InstallFailed)) {
    throw error;
  }
  log.error(`${error.step}: ${error.said}`);
  const text =
    error.step === "venv"
      ? t("Python could not make an environment. On Debian and Ubuntu install python3-venv, then try again.")
      : t("The server could not be installed; the output says why. The libraries come from your Python package index.");
  const show = t("Show Output");
  if ((await vscode.window.showErrorMessage(text, show)) === show) {
    log.show();
  }
}

/** A Python to make the environment with. */
async function basePython(): Promise<string | undefined> {
  const selected = await selectedInterpreter();
  const named = await Promise.all(BASES.map(onPath));
  for (const python of [selected, ...named]) {
    if (python !== undefined && (await isNewEnough(python))) {
      return python;
    }
  }
  return undefined;
}
