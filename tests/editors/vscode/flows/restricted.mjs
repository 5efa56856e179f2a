// A workspace that nobody trusts: everything but reading is asked, whatever the mode says.
import { flow, given } from "./window.mjs";

await flow("restricted", async (w) => {
  await w.open(given.workspace);
  await w.sees(".statusbar", "Restricted Mode");
  await w.command("Maestro: Start Task");
  await w.choose("general");
  await w.asks("What is to be done?");
  await w.answer("Write an overview of this project");
  await w.asks("approval · general", "not trusted");
  await w.sees(".editor.modified .view-lines", "price.py");
  await w.picture("asks");
  await w.choose("Deny");
  await w.toast("You declined OVERVIEW.md");

  await w.command("Maestro: Retry Job");
  await w.asks("approval · general", "OVERVIEW.md");
  await w.command("Maestro: Cancel Job");
  await w.dialog("Cancel “Write an overview of this project”?", "Cancel the Job");
  await w.command("Maestro: Show Jobs");
  await w.sees(".pane-body .monaco-list-row", "Ended2");
  await w.until("nobody waits", async () => !(await w.statusText()).includes("waiting"));

  await w.command("Maestro: Set Mode");
  await w.asks("What may tasks do without asking?", "edits", "now", "Reads and plans; changes nothing.");
  await w.picture("mode");
  await w.choose("plan");
  await w.status("Maestro: plan");

  await w.command("View: Show Explorer");
  await w.openFile("README.md");
  await w.page.keyboard.press("Control+a");
  await w.command("Maestro: Start Task on Selection");
  await w.asks("Start a task on README.md:1-");
  await w.choose("chat");
  await w.asks("README.md:1-", "What is to be done?");
  await w.answer("Where are prices rounded?");
  await w.toast("Done:");
  await w.command("Maestro: Comment");
  await w.choose("Where are prices rounded?");
  await w.asks("Where are prices rounded?", "an ended one goes on with it");
  await w.answer("And where is the receipt printed?");
  await w.command("Maestro: Show Jobs");
  await w.sees(".pane-body .monaco-list-row", "Ended4");
  await w.picture("jobs");

  await w.command("Maestro: Set API Key");
  await w.asks("API key of the model server", "secret storage");
  await w.answer("sk-not-to-be-seen");
  await w.toast("The API key is stored.");
  await w.status("Maestro: plan");
  await w.page.locator(".statusbar-item[id*='maestro.status'] a").hover();
  await w.sees(".workbench-hover-container, .monaco-hover", "with an API key");
  await w.picture("status", ".statusbar-item[id*='maestro.status'] a");
  await w.command("Maestro: Trust This Workspace");
  await w.sees(".workspace-trust-editor", "Restricted Mode");
});
