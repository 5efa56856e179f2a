// Runs the tests of the modules that know nothing of VS Code, on plain Node.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");
const out = join(here, "dist", "test");
rmSync(out, { recursive: true, force: true });
await build({
  absWorkingDir: here,
  entryPoints: readdirSync(join(here, "test"))
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => join("test", name)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  target: "node20",
  format: "esm",
  sourcemap: "inline",
  logLevel: "warning",
});
const files = readdirSync(out).map((name) => join(out, name));
const ran = spawnSync(process.execPath, ["--test", "--enable-source-maps", ...files], { stdio: "inherit", cwd: here });
process.exitCode = ran.status ?? 1;
