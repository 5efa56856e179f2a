/** The settings of `package.json` as the server takes them. Pure, but for what it is handed. */

/** What the engine reads; the extension's own settings (interpreter, trace) are not among them. */
export const ENGINE_KEYS = [
  "mode",
  "language",
  "piece",
  "deny",
  "maxConcurrency",
  "llm.endpoint",
  "llm.model",
  "llm.apiKeyEnv",
  "llm.contextTokens",
  "llm.maxTokens",
  "llm.temperature",
  "llm.timeoutMinutes",
] as const;

export interface Tree {
  [name: string]: unknown;
}

/**
 * The settings the person made, nested: `{llm: {endpoint: …}}`. What is at its default (null, empty) is left
 * out, so that `config.yaml` and the environment count where the editor says nothing.
 */
export function engineSettings(read: (key: string) => unknown): Tree {
  const tree: Tree = {};
  for (const key of ENGINE_KEYS) {
    const value = read(key);
    if (value == null || value === "" || (Array.isArray(value) && value.length === 0)) {
      continue;
    }
    const [first, second] = key.split(".") as [string, string?];
    if (second === undefined) {
      tree[first] = value;
    } else {
      ((tree[first] ??= {}) as Tree)[second] = value;
    }
  }
  return tree;
}

export interface InitializationOptions {
  trusted: boolean;
  mode?: string;
  settings: Tree;
}

/** `initializationOptions`; VS Code's word on trust holds for this session, whatever was stored before. */
export function initializationOptions(trusted: boolean, settings: Tree): InitializationOptions {
  const mode = settings["mode"];
  return typeof mode === "string" ? { trusted, mode, settings } : { trusted, settings };
}
