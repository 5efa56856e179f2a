/** Free words of the person: one line in a box, or as many as they like in an editor. */

import * as vscode from "vscode";
import { deliberate } from "./askModel";
import { inert, unlinked } from "./display";

const { t } = vscode.l10n;

/** What was typed; "editor" if the person wants more room; undefined if the box was closed or left empty. */
export type Typed = { text: string } | "editor" | undefined;

export interface Box {
  title: string;
  prompt: string;
  /** Whether the answer may also be written in an editor. */
  roomy: boolean;
  /** Told how to bring the box to the front again. */
  opened: (show: () => void) => void;
}

/** The button that leads from a prompt to an editor. */
export function moreRoom(): vscode.QuickInputButton {
  return { iconPath: new vscode.ThemeIcon("edit"), tooltip: t("Write several lines…") };
}

/** One line. An Enter in the first half second was meant for something else and is no answer. */
export function typedLine({ title, prompt, roomy, opened }: Box, token: vscode.CancellationToken): Promise<Typed> {
  const box = vscode.window.createInputBox();
  box.title = title;
  box.prompt = inert(prompt);
  box.ignoreFocusOut = true;
  box.buttons = roomy ? [moreRoom()] : [];
  opened(() => box.show());
  const shown = Date.now();
  const listening: vscode.Disposable[] = [box];
  return new Promise<Typed>((resolve) => {
    listening.push(
      box.onDidAccept(() => {
        if (deliberate(Date.now(), shown, 0)) {
          resolve(box.value.trim() === "" ? undefined : { text: box.value });
        }
      }),
      box.onDidTriggerButton(() => resolve("editor")),
      box.onDidHide(() => resolve(undefined)),
      token.onCancellationRequested(() => resolve(undefined)),
    );
    box.show();
  }).finally(() => listening.forEach((one) => one.dispose()));
}

/** An answer in an editor of its own. It is sent by a command; a closed editor sends nothing. */
export class Letter implements vscode.Disposable {
  private document: vscode.TextDocument | undefined;
  private finish: ((text: string | undefined) => void) | undefined;

  /** The words; undefined if the editor was closed, or the question settled elsewhere: then it stays as it is. */
  async write(question: string, token: vscode.CancellationToken): Promise<string | undefined> {
    const document = await vscode.workspace.openTextDocument({ language: "markdown", content: "" });
    await vscode.window.showTextDocument(document, { preview: false });
    const done = new Promise<string | undefined>((resolve) => (this.finish = resolve));
    const listening = [
      vscode.workspace.onDidCloseTextDocument((closed) => (closed === document ? this.finish?.(undefined) : undefined)),
      token.onCancellationRequested(() => this.finish?.(undefined)),
    ];
    this.document = document;
    await vscode.commands.executeCommand("setContext", "maestro.ui.writing", true);
    void this.offer(question);
    try {
      return await done;
    } finally {
      this.document = this.finish = undefined;
      listening.forEach((one) => one.dispose());
      await vscode.commands.executeCommand("setContext", "maestro.ui.writing", false);
    }
  }

  /** Send what is written, and close its editor. Throws if nothing is written. */
  async send(): Promise<void> {
    const { document, finish } = this;
    if (document === undefined || finish === undefined) {
      throw new Error(t("No answer is being written."));
    }
    const text = document.getText().trim();
    if (text === "") {
      throw new Error(t("Write your answer first."));
    }
    this.finish = undefined; // that its editor closes now is not a change of mind
    await vscode.window.showTextDocument(document);
    await vscode.commands.executeCommand("workbench.action.revertAndCloseActiveEditor");
    finish(text);
  }

  dispose(): void {
    this.finish?.(undefined);
  }

  private async offer(question: string): Promise<void> {
    const { document } = this;
    const send = t("Send Answer");
    const text = t("Your answer to “{0}”: write it here, then send it by the button above the text.", question);
    if ((await vscode.window.showInformationMessage(unlinked(text), send)) === send && document === this.document) {
      await vscode.commands.executeCommand("maestro.ui.sendAnswer");
    }
  }
}
