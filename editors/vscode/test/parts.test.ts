import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import {
  bundledWheel,
  InstallFailed,
  isNewEnough,
  makeEnvironment,
  onPath,
  resolveProgram,
  serverVersion,
  sweepEnvironments,
} from "../src/interpreter";
import { endpointOf, localServers, modelsAt } from "../src/models";
import { ENGINE_KEYS, engineSettings, initializationOptions } from "../src/settings";
import { SingleFlight, Turns } from "../src/turns";
import { HERE, json } from "./helpers";

const folder = mkdtempSync(join(tmpdir(), "maestro-"));
after(() => rmSync(folder, { recursive: true, force: true }));

// -- settings

test("only what the person set goes to the server, nested as the engine reads it", () => {
  const set: Record<string, unknown> = {
    mode: "ask",
    "llm.endpoint": "http://127.0.0.1:1/v1",
    "llm.maxTokens": null,
    piece: "",
    deny: [],
    "llm.temperature": 0,
  };
  assert.deepEqual(
    engineSettings((key) => set[key]),
    { mode: "ask", llm: { endpoint: "http://127.0.0.1:1/v1", temperature: 0 } },
  );
});

test("the mode is said where one is set", () => {
  assert.deepEqual(initializationOptions(true, {}), { trusted: true, settings: {} });
  assert.deepEqual(initializationOptions(false, { mode: "plan" }), {
    trusted: false,
    mode: "plan",
    settings: { mode: "plan" },
  });
});

interface Property {
  scope?: string;
  description?: string;
  markdownDescription?: string;
  default?: unknown;
}
interface Contributes {
  configuration: { properties: Record<string, Property> };
  commands: { command: string; title: string }[];
}
const manifest = json("package.json");
const contributes = manifest["contributes"] as Contributes;

test("the settings of package.json are those of the engine, and two of the extension's own", () =>
  assert.deepEqual(
    Object.keys(contributes.configuration.properties).sort(),
    [...ENGINE_KEYS, "interpreter", "trace.server"].map((key) => `maestro.${key}`).sort(),
  ));

for (const key of ["llm.endpoint", "llm.apiKeyEnv", "interpreter", "mode", "deny", "maxConcurrency"]) {
  test(`a workspace cannot set maestro.${key}`, () =>
    assert.equal(contributes.configuration.properties[`maestro.${key}`]?.scope, "machine"));
}

test("what a workspace may set does not count in an untrusted one", () => {
  const open = Object.entries(contributes.configuration.properties).filter(
    ([name, { scope }]) => scope !== "machine" && name !== "maestro.trace.server",
  );
  const { untrustedWorkspaces } = manifest["capabilities"] as {
    untrustedWorkspaces: { restrictedConfigurations: string[] };
  };
  assert.deepEqual(open.map(([name]) => name).sort(), [...untrustedWorkspaces.restrictedConfigurations].sort());
});

// -- words

const sources = readdirSync(join(HERE, "src")).map((name) => readFileSync(join(HERE, "src", name), "utf8"));

test("every text of the extension has its Japanese, with the same places for values, and there is none too many", () => {
  const used = new Set(
    sources.flatMap((source) =>
      [...source.matchAll(/(?<![\w.])(?:t|say|vscode\.l10n\.t)\(\s*("(?:[^"\\]|\\.)*")/g)].map(
        (found) => JSON.parse(found[1] ?? "") as string,
      ),
    ),
  );
  const bundle = json("l10n", "bundle.l10n.ja.json") as Record<string, string>;
  assert.deepEqual(Object.keys(bundle).sort(), [...used].sort());
  for (const [english, japanese] of Object.entries(bundle)) {
    assert.deepEqual((japanese.match(/\{\d\}/g) ?? []).sort(), (english.match(/\{\d\}/g) ?? []).sort(), english);
  }
});

test("every text of package.json is there in both languages", () => {
  const keys = [...readFileSync(join(HERE, "package.json"), "utf8").matchAll(/"%([\w.]+)%"/g)].map(
    (found) => found[1] as string,
  );
  for (const file of ["package.nls.json", "package.nls.ja.json"]) {
    assert.deepEqual(Object.keys(json(file)).sort(), [...new Set(keys)].sort(), file);
  }
});

test("links of the texts lead to commands that exist", () => {
  const ids = new Set(contributes.commands.map(({ command }) => command));
  for (const file of ["package.nls.json", "package.nls.ja.json"]) {
    for (const [, id] of readFileSync(join(HERE, file), "utf8").matchAll(/command:(maestro[\w.]+)/g)) {
      assert.ok(ids.has(id ?? ""), `${file}: ${id}`);
    }
  }
});

test("palette commands have ids that no server command has, and each has its handler", () => {
  const table =
    /const COMMANDS[^=]*= \{([\s\S]*?)\n\};/.exec(readFileSync(join(HERE, "src", "commands.ts"), "utf8"))?.[1] ?? "";
  const handled = [...table.matchAll(/^ {2}(\w+)[:,]/gm)].map((found) => `maestro.ui.${found[1]}`);
  assert.deepEqual(contributes.commands.map(({ command }) => command).sort(), handled.sort());
});

// -- turns

test("turns come one after the other, in order, also after one that failed", async () => {
  const turns = new Turns();
  const seen: string[] = [];
  const step = (name: string) => async (): Promise<void> => {
    seen.push(`${name} begins`);
    await new Promise(setImmediate);
    seen.push(`${name} ends`);
    if (name === "a") {
      throw new Error("a failed");
    }
  };
  const all = await Promise.allSettled([turns.take(step("a")), turns.take(step("b"))]);
  assert.deepEqual(seen, ["a begins", "a ends", "b begins", "b ends"]);
  assert.deepEqual(
    all.map(({ status }) => status),
    ["rejected", "fulfilled"],
  );
});

test("calls while one runs share one more run", async () => {
  let runs = 0;
  let open = 0;
  const flight = new SingleFlight(async () => {
    assert.equal((open += 1), 1, "two at a time");
    runs += 1;
    await new Promise(setImmediate);
    open -= 1;
  });
  await Promise.all([flight.run(), flight.run(), flight.run()]);
  assert.equal(runs, 2);
  await flight.run();
  assert.equal(runs, 3);
});

test("a wish that comes between a run and the next is met by the next", async () => {
  let open = 0;
  let runs = 0;
  const flight = new SingleFlight(async () => {
    assert.equal((open += 1), 1, "two at a time");
    runs += 1;
    await new Promise(setImmediate);
    open -= 1;
  });
  const again = flight.run().then(() => flight.run());
  await Promise.all([again, flight.run()]);
  assert.equal(runs, 2);
});

// -- model servers

async function served(status: number, body: unknown): Promise<{ endpoint: string; port: number; end: () => void }> {
  const server = createServer((_, answer) =>
    answer.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body)),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { endpoint: `http://127.0.0.1:${port}/v1`, port, end: () => server.close() };
}

test("a model server of this machine is found with its models", async () => {
  const { port, endpoint, end } = await served(200, { data: [{ id: "qwen3-coder" }, { id: 7 }, null] });
  assert.deepEqual(await localServers([{ name: "Ollama", port }]), [
    { name: "Ollama", endpoint, models: ["qwen3-coder"] },
  ]);
  end();
});

test("what is no model server is none: an error, another page, nobody there", async () => {
  const refusing = await served(500, { data: [{ id: "x" }] });
  const other = await served(200, { hello: "world" });
  assert.equal(await modelsAt(refusing.endpoint), undefined);
  assert.deepEqual(await modelsAt(other.endpoint), []);
  refusing.end();
  other.end();
  assert.equal(await modelsAt("http://127.0.0.1:9/v1"), undefined);
});

test("an endpoint is a web address, without the slash at its end", () => {
  assert.equal(endpointOf(" https://llm.example.com/v1/ "), "https://llm.example.com/v1");
  assert.equal(endpointOf("localhost:8080"), undefined);
  assert.equal(endpointOf("file:///etc"), undefined);
});

// -- interpreters

function program(name: string, script: string): string {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

test("the server's version is what its command says; a Python without it has none", async () => {
  assert.equal(
    await serverVersion(program("with", 'test "$1 $2 $3" = "-I -m maestro_lsp" && echo "maestro-lsp 0.1.0"')),
    "0.1.0",
  );
  assert.equal(await serverVersion(program("without", "echo No module named maestro_lsp >&2; exit 1")), undefined);
  assert.equal(await serverVersion(join(folder, "nothing")), undefined);
});

test("Python 3.11 is the oldest that will do", async () => {
  assert.equal(await isNewEnough(program("old", "echo 3 10")), false);
  assert.equal(await isNewEnough(program("new", "echo 3 11")), true);
  assert.equal(await isNewEnough(program("none", "exit 1")), false);
});

test("the interpreter in the setting: a path, a name on PATH, and nothing relative to the workspace", async () => {
  const path = program("python-of-mine", "exit 0");
  const before = process.env["PATH"];
  process.env["PATH"] = `relative:${folder}`;
  assert.equal(await resolveProgram(path), path);
  assert.equal(await resolveProgram("python-of-mine"), path);
  assert.equal(await resolveProgram("./python-of-mine"), undefined);
  assert.equal(await resolveProgram(join(folder, "missing")), undefined);
  assert.equal(await onPath("not-there"), undefined);
  process.env["PATH"] = before;
});

test("the wheel in the extension is found by its name", async () => {
  assert.equal(await bundledWheel(join(folder, "no-such-folder")), undefined);
  writeFileSync(join(folder, "maestro_lsp-1.2.3-py3-none-any.whl"), "");
  assert.deepEqual(await bundledWheel(folder), {
    file: join(folder, "maestro_lsp-1.2.3-py3-none-any.whl"),
    version: "1.2.3",
  });
});

test("an installation that fails says at which step, and leaves no environment behind", async () => {
  const environment = join(folder, "environment");
  const steps: string[] = [];
  const base = program(
    "base",
    `mkdir -p "$4/bin"; printf '#!/bin/sh\\necho no network; exit 1\\n' > "$4/bin/python"; chmod +x "$4/bin/python"`,
  );
  await assert.rejects(
    makeEnvironment(base, environment, folder, (step) => steps.push(step)),
    (error) => error instanceof InstallFailed && error.step === "libraries" && error.said.includes("no network"),
  );
  assert.deepEqual(steps, ["venv", "libraries"]);
  assert.throws(() => execFileSync("ls", [environment], { stdio: "ignore" }));
});

test("environments of earlier versions go when nothing used them for a week; what else lies there stays", async () => {
  const storage = join(folder, "storage");
  const day = 24 * 60 * 60;
  const now = Date.now() / 1000;
  for (const [name, age] of Object.entries({ "server-1": 9, "server-2": 3, "server-3": 30, settings: 30 })) {
    mkdirSync(join(storage, name), { recursive: true });
    writeFileSync(join(storage, name, "python"), "");
    utimesSync(join(storage, name), now - age * day, now - age * day);
  }
  const used = join(storage, "server-3");
  assert.deepEqual(await sweepEnvironments(used, now * 1000), [join(storage, "server-1")]);
  assert.deepEqual(readdirSync(storage).sort(), ["server-2", "server-3", "settings"]);
  assert.deepEqual(await sweepEnvironments(used, (now + 5 * day) * 1000), [join(storage, "server-2")]);
  assert.deepEqual(await sweepEnvironments(join(folder, "nowhere", "server-1"), now), []);
});
