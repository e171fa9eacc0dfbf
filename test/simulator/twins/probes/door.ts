/** The door of the probes: what takes requests of clients, which may go while it works. */
import { note } from "../note.ts";
import type { Visit } from "./calls.ts";
import type { Env } from "./env.ts";

const PATH = /^\/([^/]*)\/visit\/(.*)$/;

export const isVisit = ({ url }: Pick<Request, "url">): boolean => PATH.test(new URL(url).pathname);

/** Long enough for a client to go meanwhile. */
const WORK_MS = 100;
/** Longer than a scenario lasts. */
const PIECE_MS = 10_000;

/** Answers a visit. */
export async function visit(
  request: Request,
  env: Env,
  ctx: Pick<ExecutionContext, "waitUntil">,
): Promise<Response> {
  const [, scenario = "", path = ""] = PATH.exec(new URL(request.url).pathname)!;
  const [kind, how] = (decodeURIComponent(path) as Visit).split(" in ");
  if (kind === "socket") return await env.Host.getByName(`${scenario}/Host`).fetch(request);
  tell(`begins ${kind}`);
  if (kind === "stream") return new Response(slowStream());
  const working = work(kind!, request, env.Ear.getByName(`${scenario}/Ear`));
  if (how === "waitUntil") ctx.waitUntil(working);
  if (kind !== "answer") await working;
  return new Response("answer");
}

const tell = (line: string): void => note("door", line);

async function work(
  kind: string,
  request: Request,
  ear: ReturnType<Env["Ear"]["getByName"]>,
): Promise<void> {
  try {
    if (kind === "signal") listen(request.signal);
    if (kind === "call") await ear.hearSlowly("slow");
    else if (kind === "body") await readAll(request);
    else await scheduler.wait(WORK_MS);
    tell("goes on");
    await ear.hear("afterwards");
  } finally {
    tell("finally");
  }
}

function listen(signal: AbortSignal): void {
  signal.addEventListener("abort", () => {
    tell("hears the signal");
    queueMicrotask(() => tell("microtask"));
  });
}

async function readAll(request: Request): Promise<void> {
  const reader = request.body!.getReader();
  try {
    while (!(await reader.read()).done) tell("reads");
  } catch {
    tell("body fails");
  }
}

function slowStream(): ReadableStream {
  let pieces = 0;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (pieces > 0) await scheduler.wait(PIECE_MS);
      tell(`piece ${++pieces}`);
      controller.enqueue(new Uint8Array(1));
    },
    cancel: () => tell("is cancelled"),
  });
}
