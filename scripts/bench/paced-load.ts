/**
 * Load generator for rate limits at a steady rate: sends a Worker a fixed number of checks a second, over several
 * WebSockets in turn, and reads the usage that the platform would have billed.
 *
 * Takes a `PacedLoad` as JSON in its first argument and prints a `PacedMeasurement` as JSON. A Worker that is too slow gets
 * fewer checks, as the number of unanswered ones is bounded.
 */
import { WebSocketClient } from "./web-socket.ts";
import {
  ANSWER_BYTES,
  METER_PATH,
  NUMBER_BYTES,
  pathOf,
  type CheckLoad,
  type MeterFigures,
} from "./workers/check-load.ts";

export interface PacedLoad {
  readonly port: number;
  /** Where the meter is read. */
  readonly meterPort: number;
  /** Calls of one check each. */
  readonly ask: CheckLoad;
  /** Requests of the Worker that take turns. */
  readonly sockets: number;
  /** Checks a second. */
  readonly perS: number;
  readonly warmUpMs: number;
  readonly durationMs: number;
}

export interface PacedMeasurement {
  readonly checks: number;
  readonly checksPerS: number;
  /** Of the checks that were measured. */
  readonly meter: MeterFigures;
}

const TICK_MS = 1;
const UNDER_WAY_MAX = 512;

/** Checks under way, spread over the sockets. */
class Pace {
  readonly #perS: number;
  readonly #sockets: readonly WebSocketClient[];
  #sent = 0;
  #dueFromMs = performance.now();
  #answerBytes = 0;
  #timer: NodeJS.Timeout | null = null;

  private constructor(perS: number, sockets: readonly WebSocketClient[]) {
    this.#perS = perS;
    this.#sockets = sockets;
  }

  static async open({ port, ask, sockets, perS }: PacedLoad): Promise<Pace> {
    let pace: Pace | null = null;
    const opened: WebSocketClient[] = [];
    for (let i = 0; i < sockets; i++) {
      opened.push(
        await WebSocketClient.open(port, pathOf(ask), (bytes) => pace!.#receive(bytes.length)),
      );
    }
    pace = new Pace(perS, opened);
    return pace;
  }

  /** Checks that were answered. Each answer has as many bytes, so their numbers need not be read. */
  get answered(): number {
    return Math.floor(this.#answerBytes / ANSWER_BYTES);
  }

  start(): void {
    this.#dueFromMs = performance.now();
    this.#timer = setInterval(() => this.#sendDue(), TICK_MS);
  }

  stop(): void {
    clearInterval(this.#timer!);
  }

  #sendDue(): void {
    const nowMs = performance.now();
    const due = Math.floor(((nowMs - this.#dueFromMs) / 1000) * this.#perS);
    const until = Math.min(due, this.answered + UNDER_WAY_MAX);
    while (this.#sent < until) {
      const message = Buffer.alloc(NUMBER_BYTES);
      this.#sockets[this.#sent++ % this.#sockets.length]!.send(message);
    }
  }

  #receive(bytes: number): void {
    this.#answerBytes += bytes;
  }
}

async function readMeter(port: number): Promise<MeterFigures> {
  const response = await fetch(`http://127.0.0.1:${port}${METER_PATH}`);
  return (await response.json()) as MeterFigures;
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function measure(load: PacedLoad): Promise<PacedMeasurement> {
  const pace = await Pace.open(load);
  pace.start();
  await sleep(load.warmUpMs);
  const before = { answered: pace.answered, atMs: performance.now() };
  const meterBefore = await readMeter(load.meterPort);
  await sleep(load.durationMs);
  const after = { answered: pace.answered, atMs: performance.now() };
  const meterAfter = await readMeter(load.meterPort);
  pace.stop();
  const checks = after.answered - before.answered;
  return {
    checks,
    checksPerS: (checks / (after.atMs - before.atMs)) * 1000,
    meter: {
      requests: meterAfter.requests - meterBefore.requests,
      rowsWritten: meterAfter.rowsWritten - meterBefore.rowsWritten,
    },
  };
}

const measurement = await measure(JSON.parse(process.argv[2]!) as PacedLoad);
process.stdout.write(JSON.stringify(measurement), () => process.exit(0));
