/** Wires the parts together. */

import * as vscode from "vscode";
import { Desk } from "./ask";
import { KEY_SECRET, Server } from "./client";
import { registerCommands } from "./commands";
import { Jobs } from "./jobsModel";
import { JobsView } from "./jobsView";
import { Pages } from "./pages";
import { offerServer } from "./python";
import { Quiet } from "./quiet";
import { remind, Screen } from "./screen";
import { StatusBar } from "./status";
import { reviveScripted } from "./walkthrough";

let running: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Maestro", { log: true });
  const jobs = new Jobs();
  const pages = new Pages();
  const quiet = new Quiet();
  const desk = new Desk(pages, quiet, (jobId, what) => void remind(jobs, jobId, what));
  const server = new Server(context, log, (client) => screen.follow(client, desk));
  const view = new JobsView(jobs);
  const status = new StatusBar(server, jobs);
  const screen = new Screen(server, jobs, view, status);
  const sync = (): Promise<void> => screen.sync();
  running = server;
  context.subscriptions.push(
    log,
    pages,
    desk.letter,
    quiet,
    view,
    status,
    ...registerCommands({ context, server, jobs, desk, quiet, pages, sync }),
    server.onDidChange(sync),
    ...watch(context, server, sync),
  );
  begin(context, server).catch((error: unknown) => log.warn(`${error}`));
}

/** Not waited for by `activate`: until that ends, VS Code runs no command, and an offer may stay unanswered. */
async function begin(context: vscode.ExtensionContext, server: Server): Promise<void> {
  await server.start();
  if (server.state === "missing" && (await offerServer(context, server.log, false))) {
    await server.start();
  }
  if (server.found !== undefined) {
    await reviveScripted(server.found.python);
  }
}

/** The server's end is waited for: what it is doing is written down first. */
export function deactivate(): Promise<void> | undefined {
  return running?.stop();
}

/** What may need another server, or tells the one that runs. */
function watch(context: vscode.ExtensionContext, server: Server, sync: () => Promise<void>): vscode.Disposable[] {
  const again = (): void => void server.start();
  return [
    vscode.workspace.onDidGrantWorkspaceTrust(again),
    vscode.workspace.onDidChangeWorkspaceFolders(again),
    context.secrets.onDidChange(({ key }) => (key === KEY_SECRET ? again() : undefined)),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (
        event.affectsConfiguration("maestro.interpreter") ||
        (event.affectsConfiguration("maestro") && server.state !== "running")
      ) {
        again();
      } else if (event.affectsConfiguration("maestro.mode")) {
        await server.takeMode();
        await sync();
      } else if (event.affectsConfiguration("maestro")) {
        await sync();
      }
    }),
  ];
}
