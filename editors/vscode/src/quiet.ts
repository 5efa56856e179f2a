/** Whether the person is busy: a prompt that comes up must not take what they type for an answer. */

import * as vscode from "vscode";

const TYPING_MS = 1000;
const LOOK_MS = 100;

export class Quiet implements vscode.Disposable {
  private typed = 0;
  private holders = 0;
  private readonly listening = [
    vscode.workspace.onDidChangeTextDocument(({ document }) => {
      if (document === vscode.window.activeTextEditor?.document && document.uri.scheme !== "output") {
        this.typed = Date.now();
      }
    }),
    vscode.window.onDidChangeTextEditorSelection(({ kind }) => {
      if (kind === vscode.TextEditorSelectionChangeKind.Keyboard) {
        this.typed = Date.now();
      }
    }),
  ];

  /** Keep other prompts away while one of the person's own commands has a prompt open. */
  async hold<T>(step: () => Promise<T>): Promise<T> {
    this.holders += 1;
    try {
      return await step();
    } finally {
      this.holders -= 1;
    }
  }

  /**
   * Wait for a moment in which the person neither types into a file nor answers another prompt of ours; not
   * longer than until `hurry` says so.
   */
  async wait(token: vscode.CancellationToken, hurry: () => boolean): Promise<void> {
    const busy = (): boolean => this.holders > 0 || Date.now() - this.typed < TYPING_MS;
    while (!token.isCancellationRequested && !hurry() && busy()) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  dispose(): void {
    this.listening.forEach((one) => one.dispose());
  }
}
