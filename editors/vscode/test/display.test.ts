import assert from "node:assert/strict";
import { test } from "node:test";
import { clip, exact, head, inert, label, lines, plain, unlinked } from "../src/display";

const EXACT: [string, string, string][] = [
  ["plain text stays", "python3 -m unittest -v", "python3 -m unittest -v"],
  ["Japanese stays", "価格を直す。", "価格を直す。"],
  ["a line break is written out", "ls\nrm -rf .", "ls\\nrm -rf ."],
  ["a backslash is doubled, so that an escape cannot be faked", "ls\\n", "ls\\\\n"],
  ["text that turns around is shown by code point", "a\u202eb", "a\\u{202e}b"],
  ["an invisible character is shown by code point", "r\u200bm", "r\\u{200b}m"],
  ["a Cyrillic letter in a Latin word is shown by code point", "p\u0430ypal", "p\\u{430}ypal"],
  ["a word all in Greek is no look-alike", "λόγος", "λόγος"],
  ["a long run of spaces is counted", `ls${" ".repeat(300)}; rm x`, "ls \\u{20}×300 ; rm x"],
  ["a no-break space is no space", "a\u00a0b", "a\\u{a0}b"],
];

for (const [name, given, shown] of EXACT) {
  test(`what is approved is shown without loss: ${name}`, () => assert.equal(exact(given), shown));
}

test("nothing in a label is drawn as an icon", () =>
  assert.equal(label("echo $(trash) $HOME"), "echo \\$(trash) $HOME"));

const LINK = /\[[^\]]+\]\((?:https?:|command:|file:)[^)\s]+/; // as VS Code finds links in messages and prompts

for (const address of ["command:workbench.action.quit", "https://example.com", "file:///etc/passwd"]) {
  test(`nothing in a message or a prompt is a link: ${address.split(":")[0]}`, () => {
    const text = `Done: [see here](${address} "all of it")`;
    assert.match(text, LINK);
    assert.doesNotMatch(unlinked(text), LINK);
    assert.doesNotMatch(inert(text), LINK);
    assert.equal(unlinked(text).replaceAll("\u2060", ""), text, "what is seen is the text itself");
  });
}

test("nothing in a prompt is drawn as an icon", () => assert.equal(inert("Run $(trash)?"), "Run \\$(trash)?"));

test("prose is put on one line, hidden characters gone", () =>
  assert.equal(plain(" Round\n up\u202e or  down? "), "Round up or down?"));

test("a document keeps its lines and shows what is hidden", () =>
  assert.equal(lines("a\r\n\tb\u200bc"), "a\n\tb\\u{200b}c"));

test("a cut text says how much is missing, keeps its end, and is no longer than allowed", () => {
  const cut = clip(`rm ${"x".repeat(500)} /important`, 80);
  assert.ok(cut.length <= 80, cut);
  assert.match(cut, /^rm x+ …\(\d+\)… .*\/important$/);
});

test("no cut splits a pair of surrogates", () => {
  for (let limit = 30; limit < 60; limit++) {
    assert.doesNotMatch(
      clip("😀".repeat(60), limit),
      /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/,
    );
    assert.ok(head("😀".repeat(60), limit).length <= limit);
    assert.doesNotMatch(head("😀".repeat(60), limit), /[\ud800-\udbff](?![\udc00-\udfff])/);
  }
});
