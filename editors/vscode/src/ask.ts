/** Questions and approvals before the person, one at a time. What nobody answers stays open in the store. */

import * as vscode from "vscode";
import {
  answerRows,
  choicesOf,
  deliberate,
  detailsOf,
  headingOf,
  isLong,
  kindOf,
  longRule,
  optionsOf,
  whatOf,
  type Choice,
} from "./askModel";
import { head, inert, plain } from "./display";
import { changesOf, namesOf, type Pages } from "./pages";
import type { ApproveAnswer, InputAnswer, InputParams, Request } from "./protocol";
import type { Quiet } from "./quiet";
import { Turns } from "./turns";
import { Letter, moreRoom, typedLine, type Typed } from "./writing";

const { t } = vscode.l10n;
const PROMPT_SHORT = 70;

/** In VS Code newer than 1.91 a quick pick can hold a sentence of several lines. */
type WithPrompt = { prompt?: string };

interface Picked<T> {
  item: T;
}

/** Gives an answer to the server; where the server itself asked, the answer is the response and nothing is left to do. */
type Deliver<T> = (answer: T) => Promise<unknown>;

/** Who asks: the server, which may withdraw, or the person's own click, whose answer has yet to be delivered. */
export type Asker<T> = { token: vscode.CancellationToken } | { deliver: Deliver<T> };

export class Desk {
  readonly letter = new Letter();
  private readonly turns = new Turns();
  /** The requests that were before the person: asked for by the server and by a click, one comes there once. */
  private readonly asked: string[] = [];
  private clicks = 0;
  private open: { requestId: string; show: () => void } | undefined;
  private withdrawal = new vscode.CancellationTokenSource();

  /** `later` is told of a request that was closed without an answer. */
  constructor(
    private readonly pages: Pages,
    private readonly quiet: Quiet,
    private readonly later: (jobId: string, what: string) => void,
  ) {}

  /** `maestro/input`. */
  input(params: InputParams, asker: Asker<InputAnswer>): Promise<InputAnswer | null> {
    return this.turn(params.requestId, asker, async (token) => {
      const options = optionsOf(params);
      const typed = await (options.length > 0 ? this.pickAnswer(params, options, token) : this.write(params, token));
      const question = head(plain(params.prompt), PROMPT_SHORT);
      const text = typed === "editor" ? await this.letter.write(question, token) : typed?.text;
      if (text === undefined && !token.isCancellationRequested) {
        this.later(params.jobId, plain(params.prompt));
      }
      return text === undefined ? null : { text };
    });
  }

  /** `maestro/approve`. */
  approve(request: Request, asker: Asker<ApproveAnswer>): Promise<ApproveAnswer | null> {
    return this.turn(request.requestId, asker, async (token) => {
      const shown = await this.showWhat(request);
      try {
        const answer = await this.decide(request, shown, token);
        if (answer === undefined && !token.isCancellationRequested) {
          this.later(request.jobId, whatOf(request));
        }
        return answer ?? null;
      } finally {
        await this.pages.close(shown);
      }
    });
  }

  /** Bring the prompt of this request to the front, if it is before the person already. */
  raise(requestId: string): boolean {
    const found = this.open?.requestId === requestId;
    if (found) {
      this.open?.show();
    }
    return found;
  }

  /** The server went away: what it asked it will ask again, and an answer would reach nobody. */
  withdraw(): void {
    this.withdrawal.cancel();
    this.withdrawal.dispose();
    this.withdrawal = new vscode.CancellationTokenSource();
  }

  private turn<T>(
    requestId: string,
    asker: Asker<T>,
    step: (token: vscode.CancellationToken) => Promise<T | null>,
  ): Promise<T | null> {
    const ended = new vscode.CancellationTokenSource();
    const before = this.asked.length;
    const clicks = "deliver" in asker ? 1 : 0;
    this.clicks += clicks;
    const listening =
      "token" in asker
        ? [asker.token, this.withdrawal.token].map((token) => token.onCancellationRequested(() => ended.cancel()))
        : [];
    return this.turns
      .take(async () => {
        if ("token" in asker) {
          // What the server asks can wait; the person's own click cannot, nor what stands before it.
          await this.quiet.wait(ended.token, () => this.clicks > 0);
        }
        const gone = ended.token.isCancellationRequested || ("token" in asker && asker.token.isCancellationRequested);
        if (gone || this.asked.includes(requestId, before)) {
          return null;
        }
        this.open = { requestId, show: () => undefined };
        const answer = await step(ended.token);
        if (answer !== null && "deliver" in asker) {
          await asker.deliver(answer);
        }
        if (!ended.token.isCancellationRequested) {
          this.asked.push(requestId);
        }
        return answer;
      })
      .finally(() => {
        this.open = undefined;
        this.clicks -= clicks;
        listening.forEach((one) => one.dispose());
        ended.dispose();
      });
  }

  // -- questions

  private async pickAnswer(
    params: InputParams,
    options: readonly string[],
    token: vscode.CancellationToken,
  ): Promise<Typed> {
    const pick = vscode.window.createQuickPick<vscode.QuickPickItem & { text: string }>();
    let roomy = false;
    pick.buttons = [moreRoom()];
    pick.onDidTriggerButton(() => {
      roomy = true;
      pick.hide();
    });
    const fill = (typed: string): void => {
      pick.items = answerRows(options, typed, t).map((row) => ({ ...row, alwaysShow: true }));
      pick.activeItems = pick.items.slice(0, 1);
    };
    headings(pick, t("Maestro asks"), plain(params.prompt), t("Choose, or type an answer of your own"));
    pick.onDidChangeValue(fill);
    fill("");
    const picked = await this.picked(pick, false, token);
    return roomy ? "editor" : picked?.item;
  }

  private write(params: InputParams, token: vscode.CancellationToken): Promise<Typed> {
    return this.line(t("Maestro asks"), plain(params.prompt), true, token);
  }

  // -- approvals

  private async showWhat(request: Request): Promise<vscode.Uri[]> {
    const changes = changesOf(request.diff ?? []);
    if (changes.length === 0) {
      return isLong(request) ? [await this.details(request)] : [];
    }
    return this.pages.diff(request.requestId, changes, t("{0}: now ↔ proposed", namesOf(changes)), true);
  }

  /** The decision; pages that are opened meanwhile are added to `shown`. */
  private async decide(
    request: Request,
    shown: vscode.Uri[],
    token: vscode.CancellationToken,
  ): Promise<ApproveAnswer | undefined> {
    for (;;) {
      const choice = await this.choose(request, token);
      if (choice === undefined) {
        return undefined;
      }
      if (choice.act === "details") {
        shown.push(await this.details(request));
      } else if (choice.act === "note") {
        const note = await this.note(request, token);
        if (note !== undefined) {
          return { decision: "deny", note };
        }
      } else if (await this.isSure(request, choice.act.answer)) {
        return choice.act.answer;
      }
    }
  }

  private details(request: Request): Promise<vscode.Uri> {
    return this.pages.show(request.requestId, fileName(t("Details")), detailsOf(request, t), true);
  }

  /** Whether the person wants to store a rule that they have not seen whole. */
  private async isSure(request: Request, answer: ApproveAnswer): Promise<boolean> {
    const detail = longRule(request, answer);
    const store = t("Store");
    return (
      detail === undefined ||
      (await vscode.window.showWarningMessage(t("Store this rule?"), { modal: true, detail }, store)) === store
    );
  }

  private async choose(request: Request, token: vscode.CancellationToken): Promise<Choice | undefined> {
    const pick = vscode.window.createQuickPick<vscode.QuickPickItem & { choice: Choice }>();
    const { title, what, why } = headingOf(request, t);
    headings(pick, title, t("{0} — Why: {1}", what, why), t("Choose, or press Escape to decide later"));
    pick.items = choicesOf(request, t).map((choice) => {
      const { icon, label, act: _, ...rest } = choice;
      return { label: `$(${icon}) ${label}`, ...rest, choice };
    });
    return (await this.picked(pick, kindOf(request.reason) === "approval", token))?.item.choice;
  }

  private async note(request: Request, token: vscode.CancellationToken): Promise<string | undefined> {
    const prompt = t("What should the model do instead of “{0}”?", whatOf(request, PROMPT_SHORT));
    const note = await this.line(t("Deny with a note"), prompt, false, token);
    return note === undefined || note === "editor" ? undefined : note.text.trim();
  }

  // -- both

  private line(title: string, prompt: string, roomy: boolean, token: vscode.CancellationToken): Promise<Typed> {
    const opened = (show: () => void): void => {
      if (this.open !== undefined) {
        this.open.show = show;
      }
    };
    return typedLine({ title, prompt, roomy, opened }, token);
  }

  /** What was picked; undefined if the prompt was closed or the request settled elsewhere. */
  private picked<T extends vscode.QuickPickItem>(
    pick: vscode.QuickPick<T>,
    wary: boolean,
    token: vscode.CancellationToken,
  ): Promise<Picked<T> | undefined> {
    pick.ignoreFocusOut = true; // a look at the diff is no answer
    let typed = 0;
    const shown = Date.now();
    const listening: vscode.Disposable[] = [pick];
    if (this.open !== undefined) {
      this.open.show = () => pick.show();
    }
    return new Promise<Picked<T> | undefined>((resolve) => {
      const answer = (): void => {
        const item = pick.activeItems[0];
        if (item !== undefined && deliberate(Date.now(), shown, wary ? typed : 0)) {
          resolve({ item });
        }
      };
      listening.push(
        pick.onDidChangeValue(() => (typed = Date.now())),
        pick.onDidAccept(answer),
        pick.onDidHide(() => resolve(undefined)),
      );
      listening.push(token.onCancellationRequested(() => resolve(undefined)));
      pick.show();
      if (wary) {
        pick.activeItems = []; // an Enter meant for something else allows nothing
      }
    }).finally(() => listening.forEach((one) => one.dispose()));
  }
}

function headings<T extends vscode.QuickPickItem>(
  pick: vscode.QuickPick<T> & WithPrompt,
  title: string,
  prompt: string,
  placeholder: string,
): void {
  pick.title = title;
  pick.placeholder = "prompt" in pick ? placeholder : prompt;
  pick.prompt = inert(prompt);
}

/** A title as the name of a page. */
export function fileName(title: string): string {
  return (
    head(plain(title), 40)
      .replace(/[^\p{L}\p{N}.-]+/gu, " ")
      .trim() || "maestro"
  );
}
