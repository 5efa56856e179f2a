/** Model servers on this machine. Knows nothing of VS Code. */

export interface ModelServer {
  name: string;
  endpoint: string;
  models: string[];
}

/** What usually listens where, without being configured. */
export const LOCAL_SERVERS: readonly { name: string; port: number }[] = [
  { name: "Ollama", port: 11434 },
  { name: "llama-server", port: 8080 },
  { name: "LM Studio", port: 1234 },
];

/** The models that an OpenAI-compatible server lists; undefined if none answers there in time. */
export async function modelsAt(endpoint: string, timeout: number = 1500): Promise<string[] | undefined> {
  try {
    const answer = await fetch(`${endpoint}/models`, { signal: AbortSignal.timeout(timeout), redirect: "error" });
    const body = (await answer.json()) as { data?: unknown };
    const found = Array.isArray(body.data) ? body.data : [];
    return answer.ok
      ? found.map((model) => (model as { id?: unknown } | null)?.id).filter((id) => typeof id === "string")
      : undefined;
  } catch {
    return undefined; // nobody there, or no model server
  }
}

/** The servers that answer on this machine. */
export async function localServers(known: typeof LOCAL_SERVERS = LOCAL_SERVERS): Promise<ModelServer[]> {
  const asked = known.map(async ({ name, port }) => {
    const endpoint = `http://127.0.0.1:${port}/v1`;
    return { name, endpoint, models: await modelsAt(endpoint) };
  });
  return (await Promise.all(asked)).filter((server): server is ModelServer => server.models !== undefined);
}

/** An endpoint as it was typed, up to and with its path, without the slash at the end; undefined if it is none. */
export function endpointOf(typed: string): string | undefined {
  try {
    const url = new URL(typed.trim());
    return url.protocol === "http:" || url.protocol === "https:" ? url.href.replace(/\/+$/, "") : undefined;
  } catch {
    return undefined;
  }
}
