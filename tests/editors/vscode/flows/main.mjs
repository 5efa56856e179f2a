// The main job: palette, question in free text, approval after its diff, a reload while parked, done.
import { flow, given } from "./window.mjs";

await flow("main", async (w) => {
  await w.open(given.workspace);
  await w.command("Maestro: Start Task");
  await w.asks("Start a task", "Choose a piece", "Let Maestro choose");
  await w.picture("piece");
  await w.choose("code");
  await w.asks("Start a task · code", "What is to be done?");
  await w.answer("Make the failing test pass");

  await w.asks("approval · code › plan", "Bash: python3 -m unittest", "edit: false", "Allow once", "Deny with a note");
  await w.notCut(".quick-input-list .monaco-list-row .quick-input-list-label-meta");
  await w.status("Maestro: ask · 1 waiting for you");
  await w.picture("command");
  await w.choose("Allow once");

  await w.asks("Maestro asks", "Round up or down?", "up", "down");
  await w.picture("question");
  await w.answer("down, to whole yen");

  await w.asks("approval · code › implement", "Edit price.py", "every change", "Allow for this task");
  await w.sees(".editor.modified .view-lines", "return price * (100 + rate) // 100");
  await w.sees(".editor.original .view-lines", "return price * (100 + rate) / 100");
  await w.sees(".tab", "price.py: now ↔ proposed");
  await w.apart(".quick-input-widget", ".monaco-diff-editor");
  await w.nothingChosen();
  await w.picture("diff");
  await w.choose("Allow once");

  await w.asks("Edit test_price.py");
  await w.sees(".editor.modified .view-lines", "test_fractions_are_rounded_down");
  await w.reload();
  await w.asks("approval · code › implement", "Edit test_price.py");
  await w.sees(".editor.modified .view-lines", "test_fractions_are_rounded_down");
  await w.tabs(["test_price.py: now ↔ proposed"]);
  await w.status("1 waiting for you");
  await w.picture("reloaded");
  await w.choose("Allow once");

  await w.asks("Bash: python3 -m unittest", "Bash: exactly python3 -m unittest");
  await w.page.keyboard.press("Escape");
  await w.toast("Still waiting for you: Bash: python3 -m unittest");
  await w.command("Maestro: Show Jobs");
  await w.sees(".pane-body .monaco-list-row", "waiting for your decision");
  await w.sees(".pane-body .monaco-list-row", "code › implement");
  await w.picture("jobs");
  await w.toast("Still waiting for you", "Answer…");
  await w.asks("Bash: python3 -m unittest");
  await w.choose("Allow for this task");
  await w.asks("approval · code › verify", "Bash: python3 -m unittest");
  await w.choose("Allow once");

  await w.toast("Done: Rounded down", "Show Job");
  await w.status("Maestro: ask");
  await w.sees(".view-lines", "## Result");
  await w.sees(".pane-body .monaco-list-row", "Ended");
  await w.picture("done");
  await w.tabs(["Make the failing test pass.md"]);
});
