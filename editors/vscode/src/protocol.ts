/**
 * The wire, as far as this extension speaks it: the one mirror of the server's `protocol.py` and `shapes.py`.
 *
 * `npm run check:protocol` compares every name and type here with the schemas that
 * `maestro-lsp schema --protocol` prints. The server may send more fields than are named here.
 */

/** The protocol's number; the server says its own in `capabilities.experimental.maestro.protocol`. */
export const PROTOCOL_VERSION = 1;

/** The section of the settings. */
export const SECTION = "maestro";

export const JOB_CHANGED = "maestro/jobChanged";
export const EVENT = "maestro/event";
export const APPROVE = "maestro/approve";
export const INPUT = "maestro/input";

export type Mode = "plan" | "ask" | "edits" | "all";
export const MODES: readonly Mode[] = ["plan", "ask", "edits", "all"];

export type Scope = "once" | "task" | "always";

// -- what the server sends

/** Tokens of a job; `reusedPct` is null until the model server told. */
export interface Usage {
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
  reusedPct: number | null;
  contextRatio: number;
  calls: number;
}

/** A job in a list. Times are ISO 8601 UTC; `piece` is null until the classifier chose. */
export interface JobSummary {
  jobId: string;
  taskId: string;
  title: string;
  piece: string | null;
  movement: string | null;
  status: string;
  waitReason?: string | null;
  reason?: string | null;
  forced: boolean;
  resumeMovement?: string | null;
  openRequests: string[];
  createdAt: string;
  updatedAt: string;
  usage: Usage;
  parentId?: string | null;
  retryOf?: string | null;
  /** When a queued job goes on that a busy model server put off. */
  notBefore?: string | null;
}

/** A file before and after an edit that waits for approval; `before` is null for a new file. */
export interface Diff {
  uri: string;
  before: string | null;
  after: string;
}

/** How a request was settled, by whom and when. */
export interface Settled {
  decision: string;
  text?: string | null;
  note?: string | null;
  by?: string | null;
  at: string;
}

/** A request to the person: a question, an approval, or another wait. `rule` is what "always" would store. */
export interface Request {
  requestId: string;
  jobId: string;
  taskId: string;
  reason: string;
  title: string;
  detail: string;
  tool?: string | null;
  arguments?: Record<string, unknown> | null;
  options?: string[] | null;
  diff?: Diff[] | null;
  rule?: string | null;
  why: string;
  movement?: string | null;
  piece?: string | null;
  createdAt: string;
  settled?: Settled | null;
}

/** `maestro/input`. */
export interface InputParams {
  requestId: string;
  jobId: string;
  prompt: string;
  options?: string[] | null;
  multiline?: boolean | null;
}

export interface Comment {
  author: string;
  at: string;
  text: string;
}

/** One stay in a movement; `next` is null while it lasts. */
export interface Movement {
  name: string;
  visit: number;
  run: number;
  startedAt: string;
  endedAt: string | null;
  next: string | null;
  summary: string | null;
  iterations: number;
  /** Entered because the context was full, not because the model chose it. */
  forced: boolean;
  /** How much of the prompt of its first model call came from a cache. */
  reusedPct?: number | null;
}

/** The Mission Brief of a task. */
export interface Brief {
  goal: string;
  done: string;
  open: string;
  clarifications: string;
}

/** Everything about a job but its events. */
export interface JobDetail extends JobSummary {
  instruction: string;
  mode: string;
  result: string | null;
  requests: Request[];
  comments: Comment[];
  movements: Movement[];
  brief: Brief;
}

/** A piece that can be named. */
export interface PieceInfo {
  name: string;
  source: string;
  path: string;
  description: string;
  problems: { severity: string; message: string }[];
}

/** A file a job changed. `currentMatches` is false where somebody changed it since. */
export interface FileChanged {
  path: string;
  status: string;
  before?: string | null;
  after?: string | null;
  binary: boolean;
  currentMatches: boolean;
  renamedFrom?: string | null;
}

/** What `maestro.task.revert` did, and what it left, with the reason in the person's language. */
export interface Reverted {
  reverted: string[];
  kept: { path: string; reason: string; text: string }[];
}

/** A model worker. */
export interface ModelInfo {
  id: string;
  endpoint: string;
  model: string;
  hasKey: boolean;
  roles: string[];
}

/** `maestro.status`; `queue` counts jobs by status. */
export interface Status {
  server: { name: string; version: string; pid: number };
  workspace: string;
  model: { endpoint: string; model: string; hasKey: boolean };
  queue: Record<string, number>;
  sandbox: string;
  trusted: boolean;
  mode: string;
  language: string;
  engine: { pid: number | null };
}

// -- events

interface Stamp {
  jobId: string;
  seq: number;
  at: string;
}

/** `maestro/event`, by its `kind`: all that this server knows, whether they are shown or not (`Jobs.told`). */
export type Event = Stamp &
  (
    | { kind: "status"; from: string | null; to: string; waitReason?: string | null; reason?: string | null }
    | { kind: "piece"; piece: string; by: string; failure?: string | null }
    | { kind: "movement"; name: string; visit: number; forced: boolean }
    | { kind: "text"; delta?: string | null; full?: string | null }
    | { kind: "reasoning"; delta: string }
    | { kind: "tool_call"; callId: string; tool: string; arguments: Record<string, unknown>; title: string }
    | { kind: "tool_output"; callId: string; delta: string }
    | { kind: "tool_result"; callId: string; ok: boolean; brief: string; bytes: number; seconds: number }
    | { kind: "transition"; from: string; to: string; summary: string; lessons?: string | null }
    | { kind: "request"; request: Request }
    | { kind: "decision"; requestId: string; decision: string; scope: string; by: string; note?: string | null }
    | { kind: "context"; action: string; ratio: number }
    | { kind: "cache"; reused: number; total: number; pct: number }
    | { kind: "cache_break"; firstDifference: number; announced: boolean; tools: string[] }
    | { kind: "usage"; promptTokens: number; completionTokens: number; cachedTokens: number; seconds: number }
    | { kind: "reverted"; files: string[]; count: number; kept: number }
    | { kind: "comment"; author: string; text: string }
    | { kind: "error"; code: string; message: string; retryable: boolean }
  );

// -- what this extension sends

export interface Position {
  line: number;
  character: number;
}

export interface StartParams {
  instruction: string;
  piece?: string;
  model?: string;
  files?: string[];
  selection?: { uri: string; range: { start: Position; end: Position } };
}

export interface DecideParams {
  requestId: string;
  decision: "allow" | "deny";
  scope?: Scope;
  note?: string;
}

/** The answer to `maestro/approve`; null is none. */
export interface ApproveAnswer {
  decision: "allow" | "deny";
  scope?: Scope;
  note?: string;
}

/** The answer to `maestro/input`; null is none. */
export interface InputAnswer {
  text: string;
}

/** Commands of `workspace/executeCommand`: the one params object, and the result. */
export interface Commands {
  "maestro.task.start": { params: StartParams; result: { taskId: string; jobId: string } };
  "maestro.task.list": { params: { status?: string[]; limit?: number }; result: { jobs: JobSummary[] } };
  "maestro.task.show": { params: { jobId: string }; result: JobDetail };
  "maestro.task.comment": { params: { taskId: string; text: string }; result: { jobId?: string | null } };
  "maestro.task.answer": { params: { jobId: string; text: string; requestId?: string }; result: object };
  "maestro.request.decide": { params: DecideParams; result: { settled: true } };
  "maestro.task.cancel": { params: { jobId: string }; result: object };
  "maestro.task.retry": { params: { jobId: string }; result: { jobId: string } };
  "maestro.task.changes": { params: { jobId: string }; result: { files: FileChanged[] } };
  "maestro.task.revert": { params: { jobId: string; files?: string[] }; result: Reverted };
  "maestro.task.export": { params: { jobId: string; format?: "md" | "json" }; result: { uri: string } };
  "maestro.piece.list": { params: Record<never, never>; result: { pieces: PieceInfo[] } };
  "maestro.piece.graph": { params: { piece: string }; result: { mermaid: string; svg: string } };
  "maestro.model.list": { params: Record<never, never>; result: { workers: ModelInfo[] } };
  "maestro.mode.set": { params: { mode: Mode; jobId?: string }; result: object };
  "maestro.workspace.trust": { params: { trusted: boolean }; result: object };
  "maestro.status": { params: Record<never, never>; result: Status };
}

export interface Notifications {
  [JOB_CHANGED]: JobSummary;
  [EVENT]: Event;
}

export interface Requests {
  [APPROVE]: { params: Request; result: ApproveAnswer | null };
  [INPUT]: { params: InputParams; result: InputAnswer | null };
}

export type CommandName = keyof Commands;
export type ParamsOf<C extends CommandName> = Commands[C]["params"];
export type ResultOf<C extends CommandName> = Commands[C]["result"];

/** Codes of command errors (`wire.md`, "Errors of commands"). */
export const ErrorCode = {
  unknown: 4001,
  illegalMove: 4002,
  settled: 4003,
  faultyPiece: 4004,
  notConfigured: 4005,
  notTrusted: 4006,
} as const;
