// Builds the server's wheel from this repository into dist/wheels, with the hashes of its libraries.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");
const root = join(here, "..", "..");
const wheels = join(here, "dist", "wheels");
const own = [join(root, ".venv", "bin", "python"), join(root, ".venv", "Scripts", "python.exe")].find(existsSync);
const python = process.env.MAESTRO_BUILD_PYTHON ?? own ?? "python3";

await rm(wheels, { recursive: true, force: true });
await mkdir(wheels, { recursive: true });
await cp(join(root, "requirements", "runtime.txt"), join(wheels, "requirements.txt"));

// With the build tool at hand (dev.py installs it, pinned) nothing is fetched.
const atHand = spawnSync(python, ["-I", "-c", "import hatchling"]).status === 0;
const options = atHand ? ["--no-build-isolation", "--no-index"] : [];
const made = spawnSync(
  python,
  [
    "-I",
    "-m",
    "pip",
    "--disable-pip-version-check",
    "wheel",
    "--quiet",
    "--no-deps",
    ...options,
    "--wheel-dir",
    wheels,
    root,
  ],
  { stdio: "inherit" },
);
process.exitCode = made.status ?? 1;
