/** Files that are put back as they were before a job, in words. Pure. */

import { clip, exact, plain } from "./display";
import type { FileChanged, Reverted } from "./protocol";
import type { Say } from "./words";

const PATH_LIMIT = 80;

/** What putting back does to a file that a job changed: the opposite of what the job did. */
export function revertLine({ path, status, currentMatches, renamedFrom }: FileChanged, say: Say): string {
  const shown = clip(exact(path), PATH_LIMIT);
  if (!currentMatches) {
    return say("{0}: stays, it was changed since", shown);
  }
  if (renamedFrom != null) {
    return say("{0}: is called {1} again", shown, clip(exact(renamedFrom), PATH_LIMIT));
  }
  switch (status) {
    case "added":
      return say("{0}: is deleted", shown);
    case "deleted":
      return say("{0}: comes back", shown);
    default:
      return say("{0}: is as it was", shown);
  }
}

/** A file that was left as it is, and why. */
export function keptLine({ path, text }: Reverted["kept"][number], say: Say): string {
  return say("{0} ({1})", clip(exact(path), PATH_LIMIT), plain(text));
}
