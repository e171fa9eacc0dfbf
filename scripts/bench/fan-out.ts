/**
 * Fan-out: one publisher and a thousand subscribers over four Hubs, beside an object that sends each
 * message to all of its sockets.
 *
 * Over WebSocket, which is how subscribers reach a deployment, and straight to the runtime: the proxy of
 * `wrangler dev` takes longer over a push than the server does. A TCP door would be measured rather than
 * a Hub, too: it is a call into the Worker per push and connection.
 */
import type { FanOutLoad, FanOutMeasurement } from "./fan-out-load.ts";
import type { HttpTarget, Lab } from "./lab.ts";
import type { Options } from "./options.ts";
import { median } from "./percentile.ts";

export interface FanOutFigures {
  readonly subscribers: number;
  readonly payloadBytes: number;
  /** Connections of each Hub, the publisher among them. */
  readonly hubs: readonly number[];
  /** False: through the proxy of `wrangler dev`, where the system does not tell how to go round it. */
  readonly isDirect: boolean;
  readonly cells: readonly FanOutCell[];
}

export interface FanOutCell {
  /** Publishes under way. */
  readonly depth: number;
  readonly server: FanOutMeasurement;
  readonly bare: FanOutMeasurement;
}

const SUBSCRIBERS = 1000;
const PAYLOAD_BYTES = 16;
const HUBS = 4;
/** The publisher is a connection as well. */
const HUB_CONNECTIONS_MAX = Math.ceil((SUBSCRIBERS + 1) / HUBS);
const DEPTHS = [1, 32, 1024];
const QUICK_DEPTHS = [1, 32];
const EMPTY_TIMEOUT_MS = 10_000;
const ASK_INTERVAL_MS = 50;

export async function measureFanOut(lab: Lab, options: Options): Promise<FanOutFigures> {
  const server = await lab.startThrottr("fan-out", {
    HUBS_MAX: String(HUBS),
    HUB_CONNECTIONS_MAX: String(HUB_CONNECTIONS_MAX),
  });
  const bare = await lab.startBroadcast();
  const fanOut = new FanOut(lab, server, bare, options);
  await fanOut.measure("throttr", QUICK_DEPTHS[0]!);
  await fanOut.measure("broadcast", QUICK_DEPTHS[0]!);
  const cells: FanOutCell[] = [];
  for (const depth of options.isQuick ? QUICK_DEPTHS : DEPTHS) {
    cells.push(await fanOut.measureCell(depth));
  }
  await server.kill();
  await bare.kill();
  const { hubs } = cells[0]!.server;
  const { isDirect } = fanOut;
  return { subscribers: SUBSCRIBERS, payloadBytes: PAYLOAD_BYTES, hubs, isDirect, cells };
}

class FanOut {
  readonly #lab: Lab;
  readonly #server: HttpTarget;
  readonly #options: Options;
  readonly #serverPort: number;
  readonly #barePort: number;
  readonly isDirect: boolean;

  constructor(lab: Lab, server: HttpTarget, bare: HttpTarget, options: Options) {
    this.#lab = lab;
    this.#server = server;
    this.#options = options;
    const ports = [server, bare].map((target) => target.runtime()?.httpPort() ?? null);
    this.isDirect = ports.every((port) => port !== null);
    this.#serverPort = this.isDirect ? ports[0]! : server.httpPort;
    this.#barePort = this.isDirect ? ports[1]! : bare.httpPort;
  }

  /** In turns, since a machine's speed drifts. */
  async measureCell(depth: number): Promise<FanOutCell> {
    const server: FanOutMeasurement[] = [];
    const bare: FanOutMeasurement[] = [];
    for (let round = 0; round < this.#options.rounds; round++) {
      server.push(await this.measure("throttr", depth));
      bare.push(await this.measure("broadcast", depth));
    }
    return { depth, server: medianOf(server), bare: medianOf(bare) };
  }

  async measure(server: FanOutLoad["server"], depth: number): Promise<FanOutMeasurement> {
    const isThrottr = server === "throttr";
    const { warmUpMs, durationMs } = this.#options;
    const load: FanOutLoad = {
      server,
      port: isThrottr ? this.#serverPort : this.#barePort,
      httpPort: isThrottr ? this.#server.httpPort : null,
      subscribers: SUBSCRIBERS,
      depth,
      payloadBytes: PAYLOAD_BYTES,
      warmUpMs,
      durationMs,
    };
    if (isThrottr) await this.#untilEmpty();
    const measurement = await this.#lab.generate<FanOutMeasurement>(
      "fan-out-load.ts",
      load,
      warmUpMs + durationMs,
    );
    if (isThrottr) assertSpread(measurement.hubs);
    return measurement;
  }

  /** Waits until the Hubs have seen that the last load's connections are gone. */
  async #untilEmpty(): Promise<void> {
    const deadlineMs = performance.now() + EMPTY_TIMEOUT_MS;
    for (;;) {
      const response = await fetch(`http://127.0.0.1:${this.#server.httpPort}/bench/hubs`);
      if (((await response.json()) as number[]).length === 0) return;
      if (performance.now() > deadlineMs) throw new Error("connections that ended are still there");
      await new Promise((resolve) => setTimeout(resolve, ASK_INTERVAL_MS));
    }
  }
}

function assertSpread(hubs: readonly number[]): void {
  const connections = hubs.reduce((sum, some) => sum + some, 0);
  if (hubs.length === HUBS && connections === SUBSCRIBERS + 1) return;
  throw new Error(`connections by Hub: ${hubs.join(", ")}`);
}

function medianOf(measurements: readonly FanOutMeasurement[]): FanOutMeasurement {
  const of = (read: (measurement: FanOutMeasurement) => number): number =>
    median(measurements.map(read));
  return {
    deliveriesPerS: of(({ deliveriesPerS }) => deliveriesPerS),
    p50Ms: of(({ p50Ms }) => p50Ms),
    p99Ms: of(({ p99Ms }) => p99Ms),
    generatorShare: of(({ generatorShare }) => generatorShare),
    hubs: measurements[0]!.hubs,
  };
}
