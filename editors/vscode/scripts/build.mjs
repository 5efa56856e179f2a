// Bundles the extension into dist/extension.js, and lays beside it what the vsix carries.
import { build } from "esbuild";
import { cp, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");
const root = join(here, "..", "..");

const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  bundle: true,
  minify: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  external: ["vscode"],
  metafile: true,
  logLevel: "warning",
});

await rm(join(here, "dist", "sample"), { recursive: true, force: true });
await cp(join(root, "maestro_lsp", "demo", "sample"), join(here, "dist", "sample"), {
  recursive: true,
  filter: (source) => !source.includes("__pycache__"),
});
await cp(join(root, "LICENSE"), join(here, "LICENSE"));
// VS Code shows no pictures from inside a vsix, and the repository's are not in it.
const readme = await readFile(join(here, "README.md"), "utf8");
await writeFile(join(here, "dist", "README.md"), readme.replaceAll(/!\[[^\]]*\]\([^)]*\)\n\n?/g, ""));
await writeFile(join(here, "THIRD_PARTY_NOTICES.txt"), await notices(metafile));

// The licences of the packages that were bundled.
async function notices({ inputs }) {
  const names = new Set(
    Object.keys(inputs).flatMap((file) => /(?:.*\/)?node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[0] ?? []),
  );
  const parts = await Promise.all([...names].sort().map(notice));
  return `The extension contains these packages.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

async function notice(folder) {
  const { name, version, license } = JSON.parse(await readFile(join(here, folder, "package.json"), "utf8"));
  for (const file of ["LICENSE", "LICENSE.md", "License.txt", "LICENSE.txt", "license.txt"]) {
    const text = await readFile(join(here, folder, file), "utf8").catch(() => undefined);
    if (text !== undefined) {
      return `${name} ${version} (${license})\n\n${text.trim()}\n`;
    }
  }
  throw new Error(`${name} has no licence file`);
}
