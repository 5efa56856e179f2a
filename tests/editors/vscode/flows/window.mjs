// A VS Code window in Chromium, and what a person does and sees there.
import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const require = createRequire(`${process.env.NODE_PATH}/`);
const { chromium } = require("playwright-core");

export const given = JSON.parse(process.env.MAESTRO_FLOW);

const WITHIN = 20_000;
const QUIET_MS = 600; // an Enter that comes sooner after a prompt is not taken for an answer (askModel.ts)
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Play a flow in a fresh browser; on failure a picture of what was there, and exit status 1. */
export async function flow(name, steps, { width = 1280, height = 800, cookies = [] } = {}) {
  const profile = mkdtempSync(join(tmpdir(), "maestro-chromium-"));
  const options = { executablePath: given.browser, headless: true, args: FLAGS, viewport: { width, height } };
  const context = await chromium.launchPersistentContext(profile, options);
  const page = context.pages()[0] ?? (await context.newPage());
  const window = new Window(page, name);
  page.setDefaultTimeout(WITHIN);
  try {
    await context.addCookies(cookies.map((cookie) => ({ url: given.url, ...cookie })));
    await steps(window);
  } catch (error) {
    await window.picture("failed").catch(() => undefined);
    console.error(error);
    console.error(
      `on the screen: ${(await page.innerText("body").catch(() => "")).replace(/\s+/g, " ").slice(0, 3000)}`,
    );
    process.exitCode = 1;
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
}

export class Window {
  constructor(page, name) {
    this.page = page;
    this.name = name;
    this.begun = Date.now();
  }

  say(text) {
    console.log(`${((Date.now() - this.begun) / 1000).toFixed(1).padStart(6)} s  ${text}`);
  }

  /** Open a folder; without one, the window that holds none. */
  async open(folder) {
    await this.page.goto(
      folder === undefined ? `${given.url}/?ew=true` : `${given.url}/?folder=${encodeURIComponent(folder)}`,
    );
    await this.page.waitForSelector(".monaco-workbench .statusbar");
    if (folder !== undefined) {
      await this.page.waitForSelector(".explorer-folders-view .monaco-list-row");
    }
    this.say(`open: ${folder ?? "no folder"}`);
  }

  /** Open a file by its name, wherever it lies. */
  async quickOpen(name) {
    const row = this.row(name).first();
    await this.until(`the file ${name}`, async () => {
      await this.page.keyboard.press("Control+p");
      await this.page.locator(".quick-input-widget input.input").fill(name);
      return row.click({ timeout: 2000 }).then(
        () => true,
        () => this.page.keyboard.press("Escape").then(() => false),
      );
    });
    await this.page.locator(`.tab[aria-label^="${name}"]`).first().waitFor();
    this.say(`file: ${name}`);
  }

  /** Open a file of the workspace from the explorer. */
  async openFile(name) {
    await this.page.locator(".explorer-folders-view .monaco-list-row", { hasText: name }).first().click();
    await this.page.locator(`.tab[aria-label^="${name}"]`).first().waitFor();
    await this.page.locator(".editor-instance .view-lines").first().waitFor();
    await this.page.locator(".editor-instance .view-lines").first().click();
    this.say(`file: ${name}`);
  }

  /** Load the window anew, as "Developer: Reload Window" does. */
  async reload() {
    await this.page.reload();
    await this.page.waitForSelector(".explorer-folders-view .monaco-list-row, .pane-body");
    this.say("reloaded");
  }

  /** Run a command of the palette by its whole title. An extension's are there a moment after the window. */
  async command(title) {
    const input = this.page.locator(".quick-input-widget input.input");
    const row = this.page
      .locator(".quick-input-list .monaco-list-row", { has: this.page.getByText(title, { exact: true }) })
      .first();
    await this.until(`the command “${title}”`, async () => {
      await this.page.keyboard.press("F1");
      await input.waitFor({ state: "visible" });
      await input.fill(`>${title}`);
      // The palette closes by itself when something else takes the focus while the window is still starting.
      const done = await row.click({ timeout: 1500 }).then(
        () => true,
        () => false,
      );
      if (!done) {
        await this.page.keyboard.press("Escape");
      }
      return done;
    });
    this.say(`command: ${title}`);
  }

  /** A row of the quick pick that holds this text. */
  row(text) {
    return this.page.locator(".quick-input-list .monaco-list-row", {
      has: this.page.locator(".label-name", { hasText: text }),
    });
  }

  /** The open quick pick or input box shows this text somewhere above its rows, or in them. */
  async asks(...texts) {
    const widget = this.page.locator(".quick-input-widget");
    for (const text of texts) {
      await this.until(`a prompt with “${text}”`, async () => {
        const shown = (await widget.isVisible()) ? await widget.innerText() : "";
        const placeholder = (await widget.isVisible())
          ? await widget.locator("input.input").getAttribute("placeholder")
          : "";
        return normal(`${shown} ${placeholder ?? ""}`).includes(normal(text));
      });
    }
    this.say(`asks: ${texts.join(" | ")}`);
  }

  /** Nothing is chosen before the person chooses: an Enter meant for something else allows nothing. */
  async nothingChosen() {
    const chosen = await this.page.locator(".quick-input-list .monaco-list-row.focused").count();
    if (chosen !== 0) {
      throw new Error("the prompt opens with a choice already made");
    }
  }

  /** Choose a row of the quick pick by the keyboard: type nothing, go down to it, Enter. */
  async choose(text) {
    const row = this.row(text).first();
    await row.waitFor();
    for (let step = 0; step < 20; step++) {
      const focused = this.page.locator(".quick-input-list .monaco-list-row.focused .label-name");
      const name = (await focused.count()) === 0 ? "" : await focused.first().innerText();
      if (normal(name).includes(normal(text))) {
        await this.page.waitForTimeout(QUIET_MS);
        await this.page.keyboard.press("Enter");
        this.say(`chose: ${text}`);
        return;
      }
      await this.page.keyboard.press("ArrowDown");
      await this.page.waitForTimeout(30);
    }
    throw new Error(`the keyboard does not reach “${text}”`);
  }

  /** Type into the prompt that has the focus, and Enter. */
  async answer(text) {
    await this.page.locator(".quick-input-widget input.input:focus").waitFor();
    await this.page.keyboard.type(text);
    await this.page.waitForTimeout(QUIET_MS);
    await this.page.keyboard.press("Enter");
    this.say(`typed: ${text}`);
  }

  /** Press a button in the title of the prompt. */
  async button(title) {
    await this.page.locator(`.quick-input-titlebar .action-label[aria-label="${title}"]`).click();
    this.say(`button: ${title}`);
  }

  /** Type lines into the editor that has the focus. */
  async write(...lines) {
    await this.page.locator(".editor-instance .monaco-editor.focused").first().waitFor();
    await this.page.keyboard.insertText(lines.join("\n"));
    this.say(`wrote: ${lines.join(" / ")}`);
  }

  async gone(what = ".quick-input-widget") {
    await this.page.locator(what).waitFor({ state: "hidden" });
  }

  /** The status bar shows this text in Maestro's item. */
  async status(text) {
    await this.until(`status bar with “${text}”`, async () => (await this.statusText()).includes(text));
    this.say(`status bar: ${await this.statusText()}`);
  }

  async statusText() {
    const item = this.page
      .locator('.statusbar-item[id="maestro-lsp.maestro.maestro.status"], .statusbar-item[id*="maestro.status"]')
      .first();
    return (await item.count()) > 0 ? normal(await item.innerText()) : "";
  }

  /** Click a button of a toast that says this. */
  async toast(text, button) {
    const toast = this.page.locator(".notification-toast", { hasText: text }).first();
    await toast.waitFor();
    this.say(`toast: ${normal(await toast.innerText())}`);
    if (button !== undefined) {
      await toast.locator(".monaco-button", { hasText: button }).click();
      await this.page.mouse.move(640, 400);
    }
  }

  /** Press a button of the modal dialog that says this. */
  async dialog(text, button) {
    const dialog = this.page.locator(".monaco-dialog-box", { hasText: text });
    await dialog.waitFor();
    this.say(`dialog: ${normal(await dialog.innerText())}`);
    await dialog.locator(".monaco-button", { hasText: button }).click();
  }

  async click(selector, text) {
    await this.page
      .locator(selector, text === undefined ? {} : { hasText: text })
      .first()
      .click();
    await this.page.mouse.move(640, 400);
  }

  /** Exactly these tabs are open. */
  async tabs(titles) {
    const shown = () =>
      this.page.locator(".tabs-container .tab").evaluateAll((tabs) => tabs.map((tab) => tab.ariaLabel ?? ""));
    const same = (found) =>
      found.length === titles.length && titles.every((title, index) => normal(found[index]).startsWith(title));
    await this.until(`the tabs ${titles.join(", ")}`, async () => same(await shown())).catch(async (error) => {
      throw new Error(`${error.message}; there are: ${(await shown()).join(" | ")}`);
    });
  }

  /** Two parts of the window do not cover each other. */
  async apart(one, other) {
    const [a, b] = await Promise.all([one, other].map((selector) => this.page.locator(selector).first().boundingBox()));
    if (!(a.y + a.height <= b.y || b.y + b.height <= a.y || a.x + a.width <= b.x || b.x + b.width <= a.x)) {
      throw new Error(`${one} ${JSON.stringify(a)} covers ${other} ${JSON.stringify(b)}`);
    }
  }

  /** Some text is in the part of the window that a selector names. */
  async sees(selector, text) {
    await this.until(`“${text}” in ${selector}`, async () => {
      const found = await this.page.locator(selector).allInnerTexts();
      return found.some((one) => normal(one).includes(normal(text)));
    });
    this.say(`sees: ${text}`);
  }

  async until(what, holds, within = WITHIN) {
    const end = Date.now() + within;
    while (!(await holds())) {
      if (Date.now() > end) {
        throw new Error(`not within ${within / 1000} s: ${what}`);
      }
      await this.page.waitForTimeout(50);
    }
  }

  /** No text of the prompt is cut off at its right, but for rows that end in an ellipsis by design. */
  async notCut(selector) {
    const cut = await this.page
      .locator(selector)
      .evaluateAll((nodes) =>
        nodes.filter((node) => node.scrollWidth > node.clientWidth + 1).map((node) => node.textContent),
      );
    if (cut.length > 0) {
      throw new Error(`cut off in ${selector}: ${cut.join(" | ")}`);
    }
  }

  /** A picture of the window, taken when nothing moves any more; the mouse is out of the way, or over a place. */
  async picture(name, hovering) {
    await (hovering === undefined ? this.page.mouse.move(640, 400) : this.page.locator(hovering).hover());
    const busy = async () => /Activating Extensions/.test(normal(await this.page.locator(".statusbar").innerText()));
    await this.until("extensions at rest", async () => !(await busy()), 8000).catch(() => undefined);
    await this.page.waitForTimeout(350);
    const path = join(given.pictures, `${this.name}-${name}.png`);
    await this.page.screenshot({ path });
    this.say(`picture: ${path}`);
  }
}

/** One space for any white space: labels hold no-break spaces. */
export function normal(text) {
  return text.replace(/[\s\u00a0]+/g, " ").trim();
}
