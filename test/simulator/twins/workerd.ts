/** The Worker that runs scenarios on workerd: a request for `/{scenario}/{phase}` runs a phase and answers when it is over. */
import unsafe from "workerd:unsafe";
import { errorText, openSocket, pathOfVisit, type Lab } from "./lab.ts";
import { BEGUN, BREAK, CLIENTS, ENDED, LEAVE, note, notes, VISIT } from "./note.ts";
import type { Probes } from "./probes/calls.ts";
import { isVisit, visit } from "./probes/door.ts";
import type * as classes from "./probes/index.ts";
import { scenarios } from "./scenarios/index.ts";

export * from "./probes/index.ts";

type Kind = keyof Probes;
type Env = {
  readonly [K in Kind]: DurableObjectNamespace<InstanceType<(typeof classes)[K]>>;
};

/** How long a line may take that a scenario waits for. */
const LINE_TIMEOUT_MS = 20_000;

export default {
  async fetch(request: Request, env: Env, ctx: ExecutionContext): Promise<Response> {
    if (isVisit(request)) return await visit(request, env, ctx);
    const [, scenario = "", phase] = new URL(request.url).pathname.split("/");
    const run = scenarios[Number(scenario)]?.phases[Number(phase)];
    if (run === undefined) return new Response("no such phase", { status: 404 });
    notes.length = 0;
    note(BEGUN.party, BEGUN.line);
    try {
      await run(labOf(env, scenario));
      return new Response();
    } catch (error) {
      return new Response(errorText(error), { status: 500 });
    } finally {
      note(ENDED.party, ENDED.line);
      // What objects of this scenario still do, and how their sockets end, must not be noted in the next one.
      await unsafe.abortAllDurableObjects();
      await scheduler.wait(10);
    }
  },
};

function labOf(env: Env, scenario: string): Lab {
  const stub = <K extends Kind>(kind: K, name: string = kind): Probes[K] =>
    env[kind].getByName(`${scenario}/${name}`) as unknown as Probes[K];
  return {
    stub,
    note,
    visit: (what) => note(CLIENTS, VISIT + pathOfVisit(scenario, what)),
    breakFrame: () => note(CLIENTS, BREAK),
    leave: () => note(CLIENTS, LEAVE),
    connect: async (kind, path, name) => {
      return await openSocket(env[kind].getByName(`${scenario}/${kind}`), path, name, note);
    },
    until: async (party, line, times = 1) => {
      const deadline = Date.now() + LINE_TIMEOUT_MS;
      const isSame = (noted: (typeof notes)[number]) =>
        noted.party === party && noted.line === line;
      while (notes.filter(isSame).length < times) {
        if (Date.now() > deadline) throw new Error(`${party} has not noted: ${line}`);
        await scheduler.wait(2);
      }
    },
    wait: (ms) => scheduler.wait(ms),
    evict: (kind) =>
      unsafe.evict(env[kind].getByName(`${scenario}/${kind}`), { webSockets: "hibernate" }),
    abortAll: () => unsafe.abortAllDurableObjects(),
  };
}
