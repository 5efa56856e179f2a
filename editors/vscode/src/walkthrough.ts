/** From nothing to a first run: a model server of this machine, else the scripted model, and a sample to try. */

import { copyFile, mkdir, readdir } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import * as vscode from "vscode";
import { label, unlinked } from "./display";
import { endpointOf, localServers, modelsAt } from "./models";

const { t } = vscode.l10n;
const SCRIPTED_MS = 20_000;
/** What the scripted model calls itself. */
const SCRIPTED = "scripted";

type Item = vscode.QuickPickItem & { choice?: { endpoint: string; model: string } | "scripted" | "other" };

/** Let the person choose a model, and store it. `interpreter` gives the Python that can serve the scripted one. */
export async function chooseModel(interpreter: () => Promise<string | undefined>): Promise<void> {
  const looking = { location: vscode.ProgressLocation.Window, title: t("Looking for model servers on this machine…") };
  const servers = await vscode.window.withProgress(looking, () => localServers());
  const found: Item[] = servers.flatMap(({ name, endpoint, models }) =>
    models.map((model) => ({
      label: `$(server) ${label(model)}`,
      description: `${name} · ${endpoint}`,
      choice: { endpoint, model },
    })),
  );
  const items: Item[] = [
    { label: t("On this machine"), kind: vscode.QuickPickItemKind.Separator },
    ...found,
    {
      label: `$(book) ${t("Scripted model")}`,
      detail: t("Plays the demo: no key, no network, no real model."),
      choice: "scripted",
    },
    { label: t("Elsewhere"), kind: vscode.QuickPickItemKind.Separator },
    {
      label: `$(globe) ${t("Another endpoint…")}`,
      detail: t("Any server with an OpenAI-compatible API."),
      choice: "other",
    },
  ];
  const placeHolder =
    found.length > 0
      ? t("Choose a model")
      : t("No model server answers on this machine (Ollama, llama-server, LM Studio)");
  const choice = (
    await vscode.window.showQuickPick(items, { title: t("Which model is to work?"), placeHolder, ignoreFocusOut: true })
  )?.choice;
  const model = choice === "scripted" ? await serveScripted(interpreter) : choice === "other" ? await typed() : choice;
  if (model !== undefined) {
    await store(model);
  }
}

async function store({ endpoint, model }: { endpoint: string; model: string }): Promise<void> {
  const settings = vscode.workspace.getConfiguration("maestro");
  await settings.update("llm.endpoint", endpoint, vscode.ConfigurationTarget.Global);
  await settings.update("llm.model", model, vscode.ConfigurationTarget.Global);
  await vscode.commands.executeCommand("setContext", "maestro.ui.hasModel", true);
  void vscode.window.showInformationMessage(unlinked(t("Tasks use {0} at {1} from now on.", model, endpoint)));
}

async function typed(): Promise<{ endpoint: string; model: string } | undefined> {
  const written = await vscode.window.showInputBox({
    title: t("Another endpoint"),
    prompt: t("The base URL of the server, up to and with /v1"),
    placeHolder: "https://llm.example.com/v1",
    ignoreFocusOut: true,
    validateInput: (value) =>
      endpointOf(value) === undefined ? t("A URL that begins with http:// or https://") : undefined,
  });
  const endpoint = written === undefined ? undefined : endpointOf(written);
  if (endpoint === undefined) {
    return undefined;
  }
  const models = await modelsAt(endpoint, 5000);
  const title = t("Which model of {0}?", endpoint);
  const model =
    models !== undefined && models.length > 0
      ? await vscode.window.showQuickPick(models, { title, ignoreFocusOut: true })
      : await vscode.window.showInputBox({
          title,
          prompt: t("The model's name there. A key is set by “Maestro: Set API Key”."),
          ignoreFocusOut: true,
        });
  return model === undefined || model.trim() === "" ? undefined : { endpoint, model: model.trim() };
}

// -- the scripted model

async function serveScripted(
  interpreter: () => Promise<string | undefined>,
): Promise<{ endpoint: string; model: string } | undefined> {
  const python = await interpreter();
  return python === undefined ? undefined : serve(python, await freePort(), true);
}

/** The scripted model in a terminal, which ends with its window. Throws if it does not come up. */
async function serve(python: string, port: number, show: boolean): Promise<{ endpoint: string; model: string }> {
  const endpoint = `http://127.0.0.1:${port}/v1`;
  const terminal = vscode.window.createTerminal({
    name: t("Maestro: scripted model"),
    iconPath: new vscode.ThemeIcon("book"),
    shellPath: python,
    shellArgs: [
      "-I",
      "-m",
      "maestro_lsp",
      "demo",
      "--serve",
      "--port",
      String(port),
      "--lang",
      vscode.env.language.startsWith("ja") ? "ja" : "en",
    ],
    cwd: homedir(),
    isTransient: true,
  });
  if (show) {
    terminal.show(true);
  }
  const waiting = { location: vscode.ProgressLocation.Window, title: t("The scripted model is starting…") };
  const models = await vscode.window.withProgress(waiting, () => answering(endpoint));
  if (models?.[0] === undefined) {
    throw new Error(t("The scripted model did not start; its terminal says why."));
  }
  return { endpoint, model: models[0] };
}

let reviving: Promise<void> | undefined;

/** Start the scripted model again, if it is what the person chose and it went with another window. */
export function reviveScripted(python: string): Promise<void> {
  reviving ??= revive(python).finally(() => (reviving = undefined));
  return reviving;
}

async function revive(python: string): Promise<void> {
  const settings = vscode.workspace.getConfiguration("maestro");
  const endpoint = settings.get("llm.endpoint", "");
  const port = /^http:\/\/127\.0\.0\.1:(\d+)\/v1$/.exec(endpoint)?.[1];
  if (settings.get("llm.model") === SCRIPTED && port !== undefined && (await modelsAt(endpoint)) === undefined) {
    await serve(python, Number(port), false);
  }
}

/** The models of an endpoint as soon as it answers; undefined if it does not. */
async function answering(endpoint: string): Promise<string[] | undefined> {
  const end = Date.now() + SCRIPTED_MS;
  for (;;) {
    const models = await modelsAt(endpoint);
    if (models !== undefined || Date.now() > end) {
      return models;
    }
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

// -- the sample

/** Write the demo's sample project where the person says, and open it. */
export async function openSample(context: vscode.ExtensionContext): Promise<void> {
  const folder = await vscode.window.showInputBox({
    title: t("Open the sample project"),
    prompt: t("Where it is to be written. It has one failing test."),
    value: join(homedir(), "maestro-sample"),
    ignoreFocusOut: true,
  });
  if (folder === undefined || folder.trim() === "") {
    return;
  }
  const source = context.asAbsolutePath(join("dist", "sample"));
  const there = await readdir(folder).catch((): string[] => []);
  const names = (await readdir(source)).map((file) => [file, file.replace(/\.txt$/, "")] as const);
  // Never over what is there: a sample that was worked on stays as it is.
  if (there.length > 0 && !names.every(([, name]) => there.includes(name))) {
    throw new Error(t("{0} is not empty; name a folder that does not exist yet.", folder));
  }
  await mkdir(folder, { recursive: true });
  await Promise.all(
    names
      .filter(([, name]) => !there.includes(name))
      .map(([file, name]) => copyFile(join(source, file), join(folder, name))),
  );
  await vscode.commands.executeCommand("vscode.openFolder", vscode.Uri.file(folder));
}
