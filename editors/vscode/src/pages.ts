/** Read-only documents: both sides of a diff, the whole of a request, a job. They live as long as the window. */

import * as vscode from "vscode";
import { exact } from "./display";
import type { Diff } from "./protocol";

const SCHEME = "maestro";
const KEPT = 200;
/** The share of the height that a diff under a prompt gets: a prompt with all its choices takes about 300 pixels. */
const LOWER = 0.55;

/** One change to show: what was, what is to be; null where there is no file. */
export interface Change {
  /** The file in the workspace. */
  uri: vscode.Uri;
  before: string | null;
  after: string | null;
  /** Whether the file itself is what `after` says, so that it can be shown in its place. */
  asItIs?: boolean;
}

/** The changes of a request. */
export function changesOf(diffs: readonly Diff[]): Change[] {
  return diffs.map(({ uri, before, after }) => ({ uri: vscode.Uri.parse(uri), before, after }));
}

/** The name of one file, or how many there are. */
export function namesOf(changes: readonly Change[]): string {
  const [first] = changes;
  return first !== undefined && changes.length === 1
    ? exact(vscode.workspace.asRelativePath(first.uri, false))
    : vscode.l10n.t("{0} files", changes.length);
}

export class Pages implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly texts = new Map<string, string>();
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  private readonly registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  readonly onDidChange = this.changed.event;

  /** Tabs of pages from before the window was reloaded are closed: what they showed is asked or opened again. */
  constructor() {
    void this.closeWhere((uri) => uri.scheme === SCHEME);
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return (
      this.texts.get(uri.toString()) ??
      vscode.l10n.t("This page was made before the window was reloaded; open it again from the Maestro view.")
    );
  }

  dispose(): void {
    this.registration.dispose();
    this.changed.dispose();
  }

  /**
   * Show a Markdown text as text, not rendered: pictures and links in it come from a model. `below` leaves the
   * focus and the upper part of the window to a prompt.
   */
  async show(id: string, name: string, text: string, below = false): Promise<vscode.Uri> {
    const uri = this.put(id, "page", `/${name}.md`, text);
    const document = await vscode.workspace.openTextDocument(uri);
    const place = below ? { preserveFocus: true, preview: false, viewColumn: await lower() } : { preview: true };
    await vscode.window.showTextDocument(document, place);
    return uri;
  }

  /**
   * Show changes in VS Code's own diff editor, all files in one if there are several. The focus stays. `below`
   * leaves the upper part of the window to a prompt. Gives what `close` takes.
   */
  async diff(id: string, changes: readonly Change[], title: string, below = false): Promise<vscode.Uri[]> {
    const pairs = changes.map(({ uri, before, after, asItIs }) => {
      const left = this.put(id, "before", uri.path, before ?? "");
      const right = asItIs === true ? uri : this.put(id, "after", uri.path, after ?? "");
      return { uri, left, right };
    });
    const [first] = pairs;
    if (first !== undefined && pairs.length === 1) {
      const options: vscode.TextDocumentShowOptions = {
        preview: true,
        preserveFocus: true,
        viewColumn: below ? await lower() : vscode.ViewColumn.Active,
      };
      await vscode.commands.executeCommand("vscode.diff", first.left, first.right, title, options);
    } else if (first !== undefined) {
      await vscode.commands.executeCommand(
        "vscode.changes",
        title,
        pairs.map(({ uri, left, right }) => [uri, left, right]),
      );
    }
    return pairs.map(({ right }) => right);
  }

  /** Close the tabs that show these pages. */
  async close(uris: readonly vscode.Uri[]): Promise<void> {
    const shown = new Set(uris.map(String));
    await this.closeWhere((uri) => shown.has(uri.toString()));
  }

  private async closeWhere(fits: (uri: vscode.Uri) => boolean): Promise<void> {
    const tabs = vscode.window.tabGroups.all
      .flatMap((group) => group.tabs)
      .filter(({ input }) => urisOf(input).some(fits));
    if (tabs.length > 0) {
      await vscode.window.tabGroups.close(tabs, true);
    }
  }

  private put(id: string, side: string, path: string, text: string): vscode.Uri {
    // Both sides have the file's own path, for icon, language and title: another path looks like a renaming.
    const uri = vscode.Uri.from({ scheme: SCHEME, authority: side, path, query: id });
    const key = uri.toString();
    this.texts.delete(key);
    this.texts.set(key, text);
    if (this.texts.size > KEPT) {
      this.texts.delete(this.texts.keys().next().value as string);
    }
    this.changed.fire(uri);
    return uri;
  }
}

/** A group under the one there is; where there are several, the last. */
async function lower(): Promise<vscode.ViewColumn> {
  const { all } = vscode.window.tabGroups;
  if (all.length > 1) {
    return all.length;
  }
  const layout = { orientation: 1, groups: [{ size: 1 - LOWER }, { size: LOWER }] };
  await vscode.commands.executeCommand("vscode.setEditorLayout", layout);
  return vscode.ViewColumn.Two;
}

function urisOf(input: unknown): vscode.Uri[] {
  if (input instanceof vscode.TabInputTextDiff) {
    return [input.modified];
  }
  if (input instanceof vscode.TabInputText) {
    return [input.uri];
  }
  const several = input as { textDiffs?: { modified: vscode.Uri }[] } | undefined; // TabInputTextMultiDiff, newer than 1.91
  return (several?.textDiffs ?? []).map(({ modified }) => modified);
}
