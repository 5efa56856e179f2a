// Compares src/protocol.ts with the schemas of the wire: `npm run check:protocol [-- schema.json]`.
//
// The schemas become TypeScript, and the compiler says where the two differ. What the server sends must be all
// that the extension reads (it may be more); what the extension sends must be what the server takes; and neither
// may have a field here that the server does not know. Every kind of event is named here, shown or not.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");
const root = join(here, "..", "..");
const schema = JSON.parse(process.argv[2] === undefined ? printed() : readFileSync(process.argv[2], "utf8"));

function printed() {
  const own = join(root, ".venv", "bin", "python");
  const python = process.env.MAESTRO_BUILD_PYTHON ?? (existsSync(own) ? own : "python3");
  return execFileSync(python, ["-I", "-m", "maestro_lsp", "schema", "--protocol"], { encoding: "utf8" });
}

const nameOf = (ref) => ref.slice("#/$defs/".length).replaceAll(/[^\w]/g, "_");
const key = (name) => JSON.stringify(name);

/** A schema as TypeScript. `sent` by the server: a field with a default is there all the same. */
function type(node, sent) {
  if (node.$ref !== undefined) {
    return `${sent ? "Sent" : "Taken"}.${nameOf(node.$ref)}`;
  }
  if (node.anyOf !== undefined) {
    return node.anyOf.map((part) => type(part, sent)).join(" | ");
  }
  if (node.enum !== undefined) {
    return node.enum.map((value) => JSON.stringify(value)).join(" | ");
  }
  switch (node.type) {
    case "object":
      return node.properties === undefined ? dictionary(node, sent) : body(node, sent);
    case "array":
      return `(${type(node.items ?? {}, sent)})[]`;
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return node.type;
    default:
      return "unknown";
  }
}

function dictionary(node, sent) {
  const values = node.additionalProperties;
  return `Record<string, ${typeof values === "object" ? type(values, sent) : "any"}>`;
}

function body(node, sent) {
  const required = new Set(node.required ?? []);
  const fields = Object.entries(node.properties).map(([name, value]) => {
    const there = required.has(name) || (sent && "default" in value && value.default !== null);
    return `  ${key(name)}${there ? "" : "?"}: ${type(value, sent)};`;
  });
  return `{\n${fields.join("\n")}\n}`;
}

const definitions = (sent) =>
  Object.entries(schema.$defs)
    .map(([name, node]) => `  export type ${nameOf(`#/$defs/${name}`)} = ${type(node, sent)};`)
    .join("\n");
const members = (entries) => entries.map(([name, text]) => `  ${key(name)}: ${text};`).join("\n");
const pair = (params, result) => `{ params: ${params}; result: ${result} }`;

const source = `// Made by scripts/protocol.mjs from \`maestro-lsp schema --protocol\`.
import type * as p from "../../src/protocol";

export namespace Sent {
${definitions(true)}
}
export namespace Taken {
${definitions(false)}
}
interface Commands {
${members(Object.entries(schema.commands).map(([name, one]) => [name, pair(type(one.params, false), type(one.result, true))]))}
}
interface Notifications {
${members(Object.entries(schema.notifications).map(([name, one]) => [name, type(one, true)]))}
}
interface Requests {
${members(Object.entries(schema.requests).map(([name, one]) => [name, pair(type(one.params, true), type(one.result, false))]))}
}

/** Nothing but the keys of \`Known\`, at every depth: any other becomes \`never\`, which no value is. */
type Only<Value, Known> = Value extends readonly (infer V)[]
  ? Known extends readonly (infer K)[] ? Only<V, K>[] : never
  : Value extends object
    ? Known extends object ? { [Key in keyof Value]: Key extends keyof Known ? Only<Value[Key], NonNullable<Known[Key]>> : never } : never
    : Value;

/** The parts of a union by their kind; \`Stored\` are the server's. */
type Kinds = { [Kind in p.Event["kind"]]: [Extract<p.Event, { kind: Kind }>, Known<Extract<Notifications["maestro/event"], { kind: Kind }>>] };
type Known<Event> = [Event] extends [never] ? "the server has no such kind" : Event;

declare function takes<Wanted>(value: Wanted): void;
declare const mine: { commands: p.Commands; requests: p.Requests; protocol: typeof p.PROTOCOL_VERSION; kinds: { [K in keyof Kinds]: Kinds[K][0] } };
declare const server: { commands: Commands; notifications: Notifications; requests: Requests; kinds: { [K in keyof Kinds]: Kinds[K][1] } };

takes<${schema.protocol}>(mine.protocol);
takes<p.Event["kind"]>(undefined as never as Notifications["maestro/event"]["kind"]);
`;

const names = [...readFileSync(join(here, "src", "protocol.ts"), "utf8").matchAll(/^ {2}"(maestro\.[\w.]+)":/gm)].map(
  (found) => found[1],
);
const kinds = [...readFileSync(join(here, "src", "protocol.ts"), "utf8").matchAll(/\{\s*kind: "(\w+)"/g)].map(
  (found) => found[1],
);
const checks = [
  ...names.map((name) => {
    const at = `[${key(name)}]`;
    return `takes<Commands${at}["params"]>(mine.commands${at}.params);
takes<Only<p.Commands${at}["params"], Commands${at}["params"]>>(mine.commands${at}.params);
takes<p.Commands${at}["result"]>(server.commands${at}.result);
takes<Only<p.Commands${at}["result"], Commands${at}["result"]>>(mine.commands${at}.result);`;
  }),
  ...kinds.map(
    (kind) => `takes<Kinds[${key(kind)}][0]>(server.kinds[${key(kind)}]);
takes<Only<Kinds[${key(kind)}][0], Kinds[${key(kind)}][1]>>(mine.kinds[${key(kind)}]);`,
  ),
  `takes<p.JobSummary>(server.notifications["maestro/jobChanged"]);`,
  ...["maestro/approve", "maestro/input"].map(
    (name) => `takes<p.Requests[${key(name)}]["params"]>(server.requests[${key(name)}].params);
takes<Only<p.Requests[${key(name)}]["params"], Requests[${key(name)}]["params"]>>(mine.requests[${key(name)}].params);
takes<Requests[${key(name)}]["result"]>(mine.requests[${key(name)}].result);
takes<Only<NonNullable<p.Requests[${key(name)}]["result"]>, NonNullable<Requests[${key(name)}]["result"]>> | null>(mine.requests[${key(name)}].result);`,
  ),
];

const folder = join(here, "dist", "check");
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "protocol.ts"), `${source}\n${checks.join("\n")}\n`);
const project = {
  extends: "../../tsconfig.json",
  include: ["protocol.ts"],
  compilerOptions: { noUnusedLocals: false },
};
writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(project));

const ran = spawnSync(process.execPath, [join(here, "node_modules", "typescript", "bin", "tsc"), "-p", folder], {
  encoding: "utf8",
  cwd: here,
});
process.stdout.write(ran.stdout + ran.stderr);
if (ran.status !== 0) {
  console.error("src/protocol.ts is not what `maestro-lsp schema --protocol` prints; see above.");
  process.exitCode = 1;
} else {
  console.log(`${names.length} commands, ${kinds.length} kinds of events, 2 requests: as the server's schemas say.`);
}
