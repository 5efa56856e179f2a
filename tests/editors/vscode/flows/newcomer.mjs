// From the vsix to a finished demo task, as the extension's README tells it: no server, no model, no folder.
import { flow } from "./window.mjs";

const STEP = ".getting-started-step";

await flow("newcomer", async (w) => {
  await w.open();
  await w.command("Maestro: First Steps");
  await w.sees(".gettingStartedContainer", "First steps with Maestro");
  await w.sees(STEP, "If none of your Pythons has it");
  await w.picture("steps");

  await w.click(`${STEP} .monaco-button`, "Set Up the Server");
  await w.dialog("no Python here has it", "Install");
  await w.until(
    "the server",
    () => w.page.locator(".notification-toast", { hasText: "Maestro uses maestro-lsp" }).isVisible(),
    60_000,
  );
  await w.toast("Maestro's own environment");
  await w.page
    .locator(`${STEP}.expanded, ${STEP}`, { hasText: "Set up the server" })
    .locator(".codicon-getting-started-step-checked.complete")
    .first()
    .waitFor();
  await w.picture("server");

  await w.click(`${STEP}`, "Choose a model");
  await w.page.waitForTimeout(800); // the page takes the focus when a step has opened
  await w.click(`${STEP} .monaco-button`, "Choose a Model");
  await w.asks("Which model is to work?", "Scripted model", "Another endpoint");
  await w.picture("model");
  await w.choose("Scripted model");
  await w.toast("Tasks use scripted at http://127.0.0.1:");
  await w
    .sees(".terminal-tabs-entry, .single-terminal-tab", "Maestro: scripted model")
    .catch(() => w.sees(".panel", "scripted model"));
  await w.picture("scripted");

  await w.command("Maestro: Open the Sample Project");
  await w.asks("Where it is to be written");
  await w.page.keyboard.press("Enter");
  await w.page.waitForSelector(".explorer-folders-view .monaco-list-row");
  await w.sees(".explorer-folders-view .monaco-list-row", "test_price.py");

  await w.page.locator('.tab[aria-label^="Welcome"]').first().waitFor(); // the steps come along into the new window
  await w.command("View: Close All Editors");
  await w.tabs([]);
  await w.command("Maestro: Start Task");
  await w.choose("code");
  await w.asks("What is to be done?");
  await w.answer("Make the failing test pass");
  await w.asks("Bash: python3 -m unittest");
  await w.choose("Always allow");
  await w.asks("Round up or down?");
  await w.choose("down");
  await w.toast("Done: Rounded down");
  await w.status("Maestro: edits");
  await w.picture("done");
});
