/** The words for what jobs are and wait for: the catalogue of `engine/messages/lsp.*.toml`, short enough for a list. */

import type { Mode } from "./protocol";

/** Translates one English text and fills its `{0}`, `{1}`: `vscode.l10n.t`, or a plain one in tests. */
export type Say = (message: string, ...values: (string | number)[]) => string;

/** The state of a job as a person says it; an unknown one as it is. */
export function statusWord(status: string, say: Say): string {
  switch (status) {
    case "queued":
      return say("queued");
    case "running":
      return say("running");
    case "waiting_human":
      return say("waiting for you");
    case "waiting_subtasks":
      return say("waiting for subtasks");
    case "succeeded":
      return say("done");
    case "failed":
      return say("failed");
    case "aborted":
      return say("stopped without success");
    case "cancelled":
      return say("cancelled");
    default:
      return status;
  }
}

/** What a parked job waits for. */
export function waitWord(reason: string | null | undefined, say: Say): string {
  switch (reason) {
    case "question":
      return say("waiting for your answer");
    case "approval":
      return say("waiting for your decision");
    case "browser_login":
      return say("waiting for your login in the browser");
    case "captcha":
      return say("waiting for you to solve a captcha");
    case "tool_request":
      return say("waiting for your decision about a tool");
    case "package_request":
      return say("waiting for your decision about a package");
    case "spawn_request":
      return say("waiting for your decision about a task elsewhere");
    case "interrupted":
      return say("interrupted: go on?");
    case "crashed":
      return say("crashed several times: go on?");
    case "budget":
      return say("at its budget: go on?");
    default:
      return say("waiting for you");
  }
}

/** Why a job ended without success, in a few words; empty if there is nothing to add. */
export function reasonWord(reason: string | null | undefined, say: Say): string {
  switch (reason) {
    case "provider_error":
    case "empty_response":
      return say("the model server failed");
    case "ask_limit_reached":
      return say("too many questions");
    case "aborted_by_model":
      return say("the model gave up");
    case "context_exhausted":
    case "no_default_next":
      return say("the context was full");
    case "internal_error":
      return say("internal error");
    case "max_iterations":
    case "max_movements":
    case "revisit_limit":
    case "repeated_calls":
    case "cycle":
    case "text_only_limit":
    case "truncated_reply":
    case "unknown_tool":
      return say("it went in circles or too long");
    default:
      return "";
  }
}

/** What a mode lets a task do. */
export function modeWord(mode: Mode, say: Say): string {
  switch (mode) {
    case "plan":
      return say("Reads and plans; changes nothing.");
    case "ask":
      return say("Asks before every edit and every command.");
    case "edits":
      return say("Edits files of the workspace; asks before commands.");
    case "all":
      return say("Edits, and runs commands where a sandbox holds them; asks otherwise.");
  }
}
