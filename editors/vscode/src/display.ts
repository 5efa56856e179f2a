/**
 * How outside text is shown: on one line, nothing hidden, nothing that VS Code takes for markup.
 *
 * What a model or a file says can pose as something else: line breaks, bidirectional marks, look-alike letters,
 * and in VS Code `$(name)`, which labels draw as an icon: the command `echo $(trash)` would be shown without its
 * end. An approval is read before it is believed, so it is escaped without loss.
 */

const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\ufe00-\ufe0f\u{e0000}-\u{e0fff}]/u;
const ODD =
  /[^\S ]|[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\ufe00-\ufe0f\u{e0000}-\u{e0fff}]/gu;
const WORD = /[\p{L}\p{N}_]+/gu;
const LOOK_ALIKE = /[\u0370-\u03ff\u0400-\u052f\uff21-\uff3a\uff41-\uff5a]/gu;
const NAMED: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Text of an approval on one line, without loss: hidden, bidirectional and look-alike characters by code point. */
export function exact(text: string): string {
  return text
    .replaceAll("\\", "\\\\")
    .replace(WORD, mixed)
    .replace(ODD, escaped)
    .replace(/ {4,}/g, (run) => ` \\u{20}×${run.length} `);
}

/** Prose on one line: white space as one space, hidden characters gone. For words that only inform. */
export function plain(text: string): string {
  return [...text.trim().replace(/\s+/gu, " ")]
    .filter((c) => !HIDDEN.test(c) || c === "\u200d" || c === "\ufe0f")
    .join("");
}

/** Text of several lines with its hidden characters shown, for a document. */
export function lines(text: string): string {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(ODD, (c) => (c === "\n" || c === "\t" || !HIDDEN.test(c) ? c : escaped(c)));
}

/** A label in which nothing is drawn as an icon. */
export function label(text: string): string {
  return text.replace(/\$\(/g, "\\$(");
}

/** A message in which nothing is a link: VS Code draws `[text](command:…)` as one that runs the command. */
export function unlinked(text: string): string {
  return text.replaceAll("](", "]\u2060("); // a word joiner, which is not seen
}

/** The words of a prompt, which draws icons and links. */
export function inert(text: string): string {
  return unlinked(label(text));
}

/** The beginning of a text, with an ellipsis if it is cut. `limit` counts UTF-16 units and is kept. */
export function head(text: string, limit: number): string {
  if (text.length <= limit) {
    return text;
  }
  const cut = text.slice(0, limit - 1).replace(/[\ud800-\udbff]$/, "");
  return `${cut.trimEnd()}…`;
}

/** A text with no more than `limit` characters: its head and its end, and how many were left out between. */
export function clip(text: string, limit: number): string {
  if (text.length <= limit) {
    return text;
  }
  const note = ` …(${text.length - limit + 24})… `;
  const room = limit - note.length;
  const first = Math.floor((room * 2) / 3);
  const begin = text.slice(0, first).replace(/[\ud800-\udbff]$/, "");
  const end = text.slice(text.length - (room - first)).replace(/^[\udc00-\udfff]/, "");
  return begin + note + end;
}

function escaped(character: string): string {
  return NAMED[character] ?? `\\u{${character.codePointAt(0)?.toString(16)}}`;
}

function mixed(word: string): string {
  return /[A-Za-z]/.test(word) ? word.replace(LOOK_ALIKE, escaped) : word;
}
