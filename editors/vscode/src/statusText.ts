/** The words of the status bar. Pure. */

import type { ServerState } from "./client";
import type { Counts } from "./jobsModel";
import type { Status } from "./protocol";
import type { Say } from "./words";

/** Which model works where, and whether with a key. */
export function modelText({ model, endpoint, hasKey }: Status["model"], say: Say): string {
  if (endpoint === "") {
    return say("no model server is set");
  }
  return hasKey ? say("{0} at {1}, with an API key", model, endpoint) : say("{0} at {1}", model, endpoint);
}

/** The server's state in words. */
export function stateText(state: ServerState, say: Say): string {
  switch (state) {
    case "stopped":
      return say("Maestro's server is stopped.");
    case "starting":
      return say("Maestro's server is starting…");
    case "running":
      return say("Maestro's server is running.");
    case "missing":
      return say("Maestro's server is not installed.");
    case "failed":
      return say("Maestro's server does not run; its output says why.");
  }
}

/** The text of the status bar. */
export function statusText(state: ServerState, mode: string | undefined, counts: Counts, say: Say): string {
  if (state !== "running") {
    return `$(${state === "starting" ? "loading~spin" : "warning"}) Maestro`;
  }
  const icon = counts.waiting > 0 ? "bell-dot" : counts.running > 0 ? "sync~spin" : "play-circle";
  const parts = [mode === undefined ? "Maestro" : `Maestro: ${mode}`];
  if (counts.running > 0) {
    parts.push(say("{0} running", counts.running));
  }
  if (counts.queued > 0) {
    parts.push(say("{0} queued", counts.queued));
  }
  if (counts.waiting > 0) {
    parts.push(say("{0} waiting for you", counts.waiting));
  }
  return `$(${icon}) ${parts.join(" · ")}`;
}
