// A faulty piece file, then a task on one file, in the light theme: an edit is denied with a note, and the model
// goes on with the note. At the end the task is written down, its piece is looked at, and what it changed is put
// back, but for what somebody changed since.
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { flow, given } from "./window.mjs";

await flow("denied", async (w) => {
  await w.open(given.workspace);
  await w.quickOpen("broken.yaml");
  await w.page.locator(".editor-instance .squiggly-error").first().waitFor();
  await w.command("View: Toggle Problems");
  await w.sees(".markers-panel .monaco-list-row", "implment");
  await w.picture("piece");
  await w.command("View: Toggle Problems");
  await w.command("View: Close All Editors");

  await w.openFile("price.py");
  await w.command("Maestro: Start Task on This File");
  await w.asks("Start a task on price.py");
  await w.row("broken").waitFor();
  await w.choose("code");
  await w.asks("Start a task on price.py · code");
  await w.answer("Make the failing test pass");

  await w.asks("Bash: python3 -m unittest");
  await w.choose("Always allow");
  await w.asks("Round up or down?");
  await w.choose("up");

  await w.asks("Edit price.py", "Deny with a note");
  await w.sees(".tab", "price.py: now ↔ proposed");
  await w.choose("Show all of it");
  await w.sees(".view-lines", "Arguments of the call");
  await w.asks("Edit price.py", "Deny with a note");
  await w.tabs(["price.py", "price.py: now ↔ proposed", "Details.md"]);
  await w.picture("details");
  await w.choose("Deny with a note");
  await w.asks("Deny with a note", "What should the model do instead of “Edit price.py");
  await w.picture("note");
  await w.answer("Round down, customers must not pay more");

  await w.asks("Edit price.py", "Allow for this task");
  await w.sees(".editor.modified .view-lines", "return price * (100 + rate) // 100");
  await w.tabs(["price.py", "price.py: now ↔ proposed"]);
  await w.picture("again");
  await w.choose("Allow for this task");
  await w.toast("Done: Rounded down", "Open Changed Files");
  await w.sees(".monaco-editor .view-lines", "test_fractions_are_rounded_down");
  await w.sees(".tab", "2 files: before the job ↔ after it");
  await w.picture("changes");

  await w.command("Maestro: Export Task as Markdown");
  await w.sees(".view-lines", "# Make the failing test pass");
  await w.picture("export");
  await w.command("Maestro: Show Piece Graph");
  await w.asks("Show Piece Graph", "Choose a piece");
  await w.choose("code");
  await w.page.locator("iframe.webview").first().waitFor();
  const inner = w.page.frameLocator("iframe.webview").first().frameLocator("iframe");
  await w.until("a picture of the piece", () =>
    inner.locator('img[alt="code"]').evaluate((picture) => picture.complete && picture.naturalHeight > 100),
  );
  await w.picture("graph");

  appendFileSync(join(given.workspace, "test_price.py"), "# mine\n");
  await w.command("Maestro: Put Back a Job's Changes");
  await w.dialog("price.py: is as it was", "Put Back");
  await w.toast("Put back: 1. Left as they are: test_price.py (changed since the job left it)");
  await w.picture("reverted");
});
