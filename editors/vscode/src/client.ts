/** The language server and its one client: found, started, restarted one at a time, and spoken to. */

import * as vscode from "vscode";
import {
  LanguageClient,
  RevealOutputChannelOn,
  State,
  type LanguageClientOptions,
  type StaticFeature,
} from "vscode-languageclient/node";
import * as p from "./protocol";
import { findServer, sweep, type Found } from "./python";
import { engineSettings, initializationOptions } from "./settings";
import { SingleFlight } from "./turns";

export type ServerState = "stopped" | "starting" | "running" | "missing" | "failed";

/** Everything that decides how the server is started; two equal ones need no restart. */
interface Launch {
  found: Found;
  folder: vscode.WorkspaceFolder;
  key: string | undefined;
  trusted: boolean;
}

/** A client for a launch, with its handlers; `Server` starts and stops it. */
type Prepare = (client: LanguageClient) => void;

export const KEY_SECRET = "maestro.apiKey";

/** Tells the server which of its own requests this client knows. */
const ABILITIES: StaticFeature = {
  fillClientCapabilities(capabilities) {
    capabilities.experimental = { ...(capabilities.experimental as object), maestro: { approve: true, input: true } };
  },
  initialize: () => undefined,
  getState: () => ({ kind: "static" }),
  clear: () => undefined,
};

export class Server implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<ServerState>();
  private readonly flight = new SingleFlight(() => this.launch());
  private client: LanguageClient | undefined;
  private launched: string | undefined;
  private forced = false;
  state: ServerState = "stopped";
  found: Found | undefined;

  /** Fires when the state changes, and when the client was connected anew. */
  readonly onDidChange = this.changed.event;

  constructor(
    private readonly context: vscode.ExtensionContext,
    readonly log: vscode.LogOutputChannel,
    private readonly prepare: Prepare,
  ) {}

  /** Start the server, or restart it if anything that it is started with has changed; true if it runs. */
  async start(): Promise<boolean> {
    await this.flight.run();
    return this.state === "running";
  }

  /** Restart it in any case. */
  restart(): Promise<boolean> {
    this.forced = true;
    return this.start();
  }

  /** Run a command of the server. Throws `Failure`'s sources: a `ResponseError`, or that it does not run. */
  async execute<C extends p.CommandName>(command: C, params: p.ParamsOf<C>): Promise<p.ResultOf<C>> {
    if (this.client === undefined || this.state !== "running") {
      throw new Error(vscode.l10n.t("Maestro's server is not running."));
    }
    return this.client.sendRequest<p.ResultOf<C>>("workspace/executeCommand", { command, arguments: [params] });
  }

  /** Look for the interpreter that has the server, without starting it. */
  async find(): Promise<Found | undefined> {
    this.found = await findServer(this.context, this.log);
    void vscode.commands.executeCommand("setContext", "maestro.ui.hasServer", this.found !== undefined);
    return this.found;
  }

  /** The mode was set in the settings: it holds for new jobs at once. */
  async takeMode(): Promise<void> {
    const { mode } = currentSettings();
    await (p.MODES.includes(mode as p.Mode)
      ? this.execute("maestro.mode.set", { mode: mode as p.Mode })
      : this.restart());
  }

  /** Server coordinates of a selection. */
  range(selection: vscode.Range): { start: p.Position; end: p.Position } {
    const { start, end } = selection; // VS Code negotiates utf-16, its own units
    return {
      start: { line: start.line, character: start.character },
      end: { line: end.line, character: end.character },
    };
  }

  dispose(): void {
    this.changed.dispose();
    void this.stop();
  }

  /** Stop the server and wait for its end. */
  async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.launched = undefined;
    // One that is still starting, or that failed, cannot be stopped; disposing it ends its process.
    await (client?.state === State.Running ? client.dispose(5000) : client?.dispose())?.catch((error: unknown) =>
      this.log.warn(`the server did not stop in order: ${error}`),
    );
  }

  private async launch(): Promise<void> {
    const folder = vscode.workspace.workspaceFolders?.[0];
    if (folder === undefined) {
      return;
    }
    const found = await this.find();
    if (found === undefined) {
      await this.stop();
      this.become("missing");
      return;
    }
    const launch: Launch = {
      found,
      folder,
      key: await this.context.secrets.get(KEY_SECRET),
      trusted: vscode.workspace.isTrusted,
    };
    const value = JSON.stringify([
      found.python,
      found.version,
      folder.uri.toString(),
      launch.key,
      launch.trusted,
    ]);
    if (value === this.launched && !this.forced && this.state === "running") {
      return;
    }
    this.forced = false;
    await this.stop();
    this.become("starting");
    await this.begin(launch, value);
  }

  private async begin(launch: Launch, value: string): Promise<void> {
    const client = this.made(launch);
    this.client = client;
    this.prepare(client);
    client.onDidChangeState(({ newState }) => {
      if (this.client === client && newState !== State.Starting) {
        this.become(newState === State.Running ? "running" : "failed");
      }
    });
    try {
      await client.start();
      this.launched = value;
      this.checkProtocol(client);
      void sweep(this.context, launch.found, this.log);
    } catch (error) {
      this.log.error(`the server did not start: ${error}`);
      if (this.client === client) {
        this.become("failed");
      }
    }
  }

  private checkProtocol(client: LanguageClient): void {
    const said: unknown = client.initializeResult?.capabilities.experimental?.maestro?.protocol;
    if (said !== p.PROTOCOL_VERSION) {
      const text = vscode.l10n.t(
        "Maestro's server and this extension are of different versions; update the older one. Some commands may fail.",
      );
      void vscode.window.showWarningMessage(text);
    }
  }

  private made(launch: Launch): LanguageClient {
    const key = launch.key === undefined ? {} : { MAESTRO_API_KEY: launch.key };
    const options: LanguageClientOptions = {
      documentSelector: [{ scheme: "file" }, { scheme: "untitled" }],
      workspaceFolder: launch.folder,
      // Read anew whenever the client restarts a server that crashed: the mode may be stricter by then.
      initializationOptions: () => initializationOptions(launch.trusted, currentSettings()),
      outputChannel: this.log,
      synchronize: { configurationSection: p.SECTION },
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationFailedHandler: () => false,
      middleware: {
        workspace: {
          // The server asks for the whole section; it gets what the person set, and none of the extension's own.
          configuration: (params, token, next) =>
            params.items.every((item) => item.section === p.SECTION)
              ? params.items.map(currentSettings)
              : next(params, token),
        },
      },
    };
    const server = {
      command: launch.found.python,
      args: ["-I", "-m", "maestro_lsp", "--stdio"],
      options: { cwd: launch.folder.uri.fsPath, env: { ...process.env, ...key } },
    };
    const client = new LanguageClient("maestro", "Maestro", server, options);
    client.registerFeature(ABILITIES);
    return client;
  }

  private become(state: ServerState): void {
    this.state = state;
    void vscode.commands.executeCommand("setContext", "maestro.ui.server", state);
    this.changed.fire(state);
  }
}

/** The settings that the person made, of those that the engine reads. */
export function currentSettings(): ReturnType<typeof engineSettings> {
  const settings = vscode.workspace.getConfiguration(p.SECTION);
  return engineSettings((key) => settings.get(key));
}
