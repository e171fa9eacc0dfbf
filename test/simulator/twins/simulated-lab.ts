/** Runs scenarios in the simulator: a deployment of the probes, where nothing goes wrong but what the scenario asks for. */
import { inMacrotask } from "../kernel/drain.ts";
import { Random } from "../kernel/random.ts";
import { Trace } from "../kernel/trace.ts";
import { VirtualTime } from "../kernel/virtual-time.ts";
import { Cluster } from "../platform/cluster.ts";
import { Door } from "../platform/door.ts";
import { calm } from "../platform/faults.ts";
import type { Isolate } from "../platform/isolate.ts";
import { LifeOver } from "../platform/life.ts";
import { ByteStream } from "../platform/net/byte-stream.ts";
import { ClientWebSocket, type Dial } from "../platform/net/client-web-socket.ts";
import { exchange } from "../platform/net/exchange.ts";
import { SimRequest, type SimResponse } from "../platform/net/messages.ts";
import { INTERNAL } from "../platform/net/network.ts";
import type { Program } from "../platform/program.ts";
import { bundle } from "../platform/realm.ts";
import { RunningLife } from "../platform/running-life.ts";
import { openSocket, pathOfVisit, type Lab, type Scenario, type Transcript } from "./lab.ts";
import { KILLED, NOTE, type Noted } from "./note.ts";
import type { Probes, Visit } from "./probes/calls.ts";

const ENTRY = "test/simulator/twins/probes/index.ts";

/** The classes of the probes, each bound by its own name. */
const CLASSES: readonly (keyof Probes)[] = [
  "Bell",
  "Ear",
  "FaultyStarter",
  "Holder",
  "Host",
  "SlowStarter",
  "ThrowingStarter",
  "Writer",
];

/** A scenario that has not ended by then waits for something that never happens. */
const PHASE_MS_MAX = 60_000;
const ABORTED = "Application called abortAllDurableObjects().";

export async function bundleProbes(): Promise<Program> {
  return await bundle(ENTRY);
}

/** Runs a scenario with the latencies of a seed. */
export async function runSimulated(
  probes: Program,
  scenario: Scenario,
  seed: number,
): Promise<Transcript> {
  return await inMacrotask(() => {
    const deployment = new SimulatedDeployment(probes, seed);
    for (const phase of scenario.phases) deployment.run(phase);
    return deployment.transcript;
  });
}

/** A client of the probes' door. */
interface Client {
  breakFrame(): void;
  leave(): void;
}

function socketClient(life: RunningLife, dial: Dial, url: string): Client {
  const socket = new ClientWebSocket(life, dial, url);
  return {
    breakFrame: () => {
      socket.breaksFrame = () => true;
      socket.send("");
    },
    leave: () => socket.terminate(),
  };
}

function httpClient(send: Dial, url: string): Client {
  const gone = new AbortController();
  // Some of its body; the rest never comes.
  const body = new ByteStream();
  body.enqueue(new Uint8Array(1));
  send(new SimRequest(url, { method: "POST", body, signal: gone.signal })).catch(() => {});
  return { breakFrame: () => {}, leave: () => gone.abort() };
}

class SimulatedDeployment {
  readonly transcript: Record<string, string[]> = {};
  readonly #time: VirtualTime;
  readonly #cluster: Cluster;

  constructor(probes: Program, seed: number) {
    const random = new Random(seed);
    this.#time = new VirtualTime(() => {
      const { site } = this.#cluster;
      site.running?.endTurn();
      site.running = null;
    });
    const trace = new Trace(this.#time, (line) => this.#read(line));
    this.#cluster = new Cluster({
      time: this.#time,
      trace,
      random,
      faults: calm(random.fork("calm")),
      release: { name: "probes", program: probes },
      bindings: Object.fromEntries(CLASSES.map((name) => [name, name])),
      variables: {},
      machines: 1,
    });
  }

  /** Runs a phase until it has ended, or the machine was killed. */
  run(phase: (lab: Lab) => Promise<void>): void {
    const driver = this.#cluster.newIsolate(this.#cluster.machines[0]!);
    let outcome: { readonly error: Error | null } | null = null;
    driver.later(0, "scenario", () => {
      phase(this.#labOf(driver)).then(
        () => (outcome = { error: null }),
        (error: unknown) => (outcome = { error: error as Error }),
      );
    });
    this.#time.runUntil(this.#time.nowMs + PHASE_MS_MAX, () => outcome !== null || driver.isOver);
    if (driver.isOver) return;
    if (outcome === null) throw new Error("the scenario has not ended");
    const { error } = outcome as { readonly error: Error | null };
    if (error !== null) throw error;
  }

  #labOf(driver: Isolate): Lab {
    const objects = this.#cluster.environment(driver) as Record<
      string,
      { getByName(name: string): never }
    >;
    const wait = async (ms: number): Promise<void> => {
      await driver.settled(ms, "wait", () => {});
    };
    let client: Client | null = null;
    return {
      stub: (kind, name = kind) => objects[kind]!.getByName(`0/${name}`),
      connect: async (kind, path, name) => {
        return await openSocket(objects[kind]!.getByName(`0/${kind}`), path, name, (party, line) =>
          this.#note({ party, line }),
        );
      },
      visit: (what) => {
        client = this.#visit(what);
      },
      breakFrame: () => client!.breakFrame(),
      leave: () => client!.leave(),
      note: (party, line) => this.#note({ party, line }),
      until: async (party, line, times = 1) => {
        const isNoted = () =>
          (this.transcript[party] ?? []).filter((noted) => noted === line).length >= times;
        while (!isNoted()) await wait(1);
      },
      wait,
      evict: async (kind) => {
        const { life } = this.#cluster.object(kind, `0/${kind}`);
        if (life === null) throw new Error(`${kind} does not run`);
        while (!life.isIdle) await wait(1);
        life.evict();
      },
      abortAll: async () => {
        for (const { life } of this.#cluster.objects) life?.break(ABORTED);
        await wait(0);
      },
    };
  }

  #visit(what: Visit): Client {
    const { site, machines } = this.#cluster;
    const life = new RunningLife(site, machines[0]!, "client", "client");
    const door = new Door(this.#cluster, this.#cluster.newIsolate(machines[0]!));
    const send = (request: SimRequest): Promise<SimResponse> =>
      exchange(site.network, life, door, request, { latencyMs: INTERNAL });
    const url = `http://twins${pathOfVisit("0", what)}`;
    return what === "socket" ? socketClient(life, send, url) : httpClient(send, url);
  }

  /** Lines of the console are in the trace. */
  #read(line: string): void {
    const at = line.indexOf(`console.log ${NOTE}`);
    if (at < 0) return;
    const noted = JSON.parse(line.slice(at + `console.log ${NOTE}`.length)) as Noted;
    if (noted.line !== KILLED) return this.#note(noted);
    this.#cluster.endMachine(this.#cluster.machines[0]!);
    throw new LifeOver(noted.party);
  }

  #note({ party, line }: Noted): void {
    (this.transcript[party] ??= []).push(line);
  }
}
