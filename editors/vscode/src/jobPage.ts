/** A job as a Markdown document. Pure. */

import { fenced } from "./askModel";
import { exact, lines, plain } from "./display";
import { costWord, jobTitle, stateWord } from "./jobsModel";
import type { JobDetail } from "./protocol";
import type { Say } from "./words";

/** What was asked, what came of it, what was said and where it has been. `when` shows a time. */
export function jobPage(job: JobDetail, say: Say, when: (iso: string) => string): string {
  const facts = [job.piece, stateWord(job, say), costWord(job, say), say("mode {0}", job.mode)]
    .filter(Boolean)
    .join(" · ");
  const parts = [`# ${jobTitle(job)}`, `${facts}  \n\`${job.taskId}\` \`${job.jobId}\``];
  if (job.result != null && job.result !== "") {
    parts.push(`## ${say("Result")}`, lines(job.result));
  }
  parts.push(`## ${say("Instruction")}`, lines(job.instruction));
  const open = job.requests.filter((request) => request.settled == null);
  if (open.length > 0) {
    parts.push(`## ${say("Waiting for you")}`, ...open.map((request) => `- ${exact(request.title)}`));
  }
  if (job.movements.length > 0) {
    parts.push(`## ${say("Movements")}`, job.movements.map((movement) => movementLine(movement, say, when)).join("\n"));
  }
  const settled = job.requests.filter((request) => request.settled != null);
  if (settled.length > 0) {
    parts.push(`## ${say("Answers and decisions")}`, settled.map((request) => settledLine(request, when)).join("\n"));
  }
  if (job.comments.length > 0) {
    parts.push(`## ${say("Conversation")}`);
    for (const { author, at, text } of job.comments) {
      parts.push(`**${plain(author)}** · ${when(at)}`, fenced(text, ""));
    }
  }
  return `${parts.join("\n\n")}\n`;
}

function movementLine(
  movement: JobDetail["movements"][number],
  say: Say,
  when: (iso: string) => string,
): string {
  const summary = movement.summary == null ? "" : `: ${plain(movement.summary)}`;
  const next = movement.next == null ? "" : ` → ${movement.next}`;
  const notes = [
    movement.forced ? say("entered because the context was full") : "",
    movement.reusedPct == null ? "" : say("{0} % cached", Math.round(movement.reusedPct)),
  ].filter((note) => note !== "");
  const beside = notes.length === 0 ? "" : ` (${notes.join(", ")})`;
  return `- ${when(movement.startedAt)} **${movement.name}**${beside}${next}${summary}`;
}

function settledLine(request: JobDetail["requests"][number], when: (iso: string) => string): string {
  const { settled } = request;
  const said = settled?.text ?? [settled?.decision, settled?.note].filter(Boolean).join(": ");
  return `- ${when(settled?.at ?? request.createdAt)} ${exact(request.title)} → **${plain(said)}**`;
}
