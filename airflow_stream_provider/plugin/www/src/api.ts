/** The server's answers. Addresses are relative to the page's base: Airflow may live below a path. */
import { parse } from "./texts";

const SECONDS = 30;

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const address = (path: string) => new URL(path, document.baseURI);

async function ask(url: URL, how: RequestInit): Promise<unknown> {
  let found: Response;
  try {
    found = await fetch(url, {
      ...how,
      credentials: "same-origin",
      signal: AbortSignal.any([AbortSignal.timeout(SECONDS * 1000), ...(how.signal ? [how.signal] : [])]),
    });
  } catch (error) {
    if (how.signal?.aborted) throw error;
    throw new Refused(0, "Airflow's API server does not answer.");
  }
  if (found.status === 401) {
    const login = address("api/v2/auth/login");
    login.searchParams.set("next", location.href);
    location.replace(login);
    throw new Refused(401, "You are not logged in.");
  }
  const text = await found.text();
  if (found.ok) return parse(text);
  throw new Refused(found.status, detail(text) || `Airflow's API server answers ${found.status}.`);
}

function detail(text: string): string {
  try {
    const { detail } = parse(text) as { detail?: unknown };
    return typeof detail === "string" ? detail : "";
  } catch {
    return "";
  }
}

/** Read `streams/api/WHAT`. */
export async function read<T>(what: string, params: Record<string, string | number>, signal?: AbortSignal): Promise<T> {
  const url = address(`streams/api/${what}`);
  for (const [name, value] of Object.entries(params)) url.searchParams.set(name, String(value));
  return (await ask(url, { ...(signal && { signal }), headers: { Accept: "application/json" } })) as T;
}

/** Trigger the DAG of a stream's form, as its form in Airflow does. Return where the run is shown. */
export async function act(dag: string, conf: Record<string, unknown>): Promise<string> {
  const name = encodeURIComponent(dag);
  try {
    const run = await ask(address(`api/v2/dags/${name}/dagRuns`), {
      method: "POST",
      headers: { Accept: "application/json", "Content-Type": "application/json" },
      body: JSON.stringify({ logical_date: null, conf }),
    });
    return `/dags/${name}/runs/${encodeURIComponent((run as { dag_run_id: string }).dag_run_id)}`;
  } catch (error) {
    if (error instanceof Refused && error.status === 403) throw new Refused(403, `You may not trigger DAG ${dag}.`);
    throw error;
  }
}
