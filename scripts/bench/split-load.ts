/**
 * Load generator for a split: UPDATEs of random counters with a fixed number under way, before, while and after a shard splits
 * that this process tells to.
 *
 * Takes a `SplitLoad` as JSON in its first argument and prints a `SplitMeasurement` as JSON.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { updateFrame } from "./frames.ts";
import { counterKey } from "./million.ts";
import { percentile } from "./percentile.ts";
import { splitAndWait } from "./split-calls.ts";

export interface SplitLoad {
  readonly port: number;
  readonly httpPort: number;
  /** Counters of `million.ts` that there are. */
  readonly counters: number;
  readonly depth: number;
  readonly warmUpMs: number;
  /** Before the split, and after it. */
  readonly quietMs: number;
}

export interface SplitPhase {
  readonly opsPerS: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** The longest time that a request took. */
  readonly longestMs: number;
}

export interface SplitMeasurement {
  readonly before: SplitPhase;
  readonly during: SplitPhase;
  readonly after: SplitPhase;
  /** From the call that begins the split until the new shard serves its range. */
  readonly splitMs: number;
}

/** Frames that are sent in turn; keys are spread over all counters, and so over both parts. */
const FRAMES = 16_384;
const STRIDE = 7919;

/** Replies of a stretch of time. */
class Phase {
  readonly #startMs = performance.now();
  readonly #latenciesMs: number[] = [];
  #replies = 0;

  add(replies: number, latencyMs: number): void {
    this.#replies += replies;
    this.#latenciesMs.push(latencyMs);
  }

  end(): SplitPhase {
    const tookMs = performance.now() - this.#startMs;
    const ascending = this.#latenciesMs.toSorted((a, b) => a - b);
    return {
      opsPerS: (this.#replies / tookMs) * 1000,
      p50Ms: percentile(ascending, 0.5),
      p99Ms: percentile(ascending, 0.99),
      longestMs: ascending.at(-1) ?? NaN,
    };
  }
}

async function measure(load: SplitLoad): Promise<SplitMeasurement> {
  const { port, httpPort, counters, depth } = load;
  const frames = Array.from({ length: FRAMES }, (_, i) =>
    updateFrame(counterKey((i * STRIDE) % counters), i % 2 === 0),
  );
  const bytes = Buffer.concat(frames);
  const frameBytes = frames[0]!.length;
  const socket = connect(port, "127.0.0.1").setNoDelay(true);
  await once(socket, "connect");
  let sent = 0;
  let phase = new Phase();
  /** Requests that left together, the oldest first. */
  const groups: { left: number; readonly sentAtMs: number }[] = [];
  const send = (count: number): void => {
    groups.push({ left: count, sentAtMs: performance.now() });
    while (count > 0) {
      const from = sent % FRAMES;
      const some = Math.min(count, FRAMES - from);
      socket.write(bytes.subarray(from * frameBytes, (from + some) * frameBytes));
      sent += some;
      count -= some;
    }
  };
  socket.on("data", (replies: Buffer) => {
    // A refusal would be a split that callers see.
    if (replies.includes(0)) throw new Error("a request was refused");
    const nowMs = performance.now();
    for (let left = replies.length; left > 0;) {
      const group = groups[0]!;
      const some = Math.min(left, group.left);
      phase.add(some, nowMs - group.sentAtMs);
      left -= some;
      group.left -= some;
      if (group.left === 0) groups.shift();
    }
    send(replies.length);
  });
  socket.on("close", () => {
    throw new Error("the server closed the connection");
  });
  send(depth);
  await sleep(load.warmUpMs);
  phase = new Phase();
  await sleep(load.quietMs);
  const before = phase.end();
  phase = new Phase();
  const splitMs = await splitAndWait(httpPort);
  const during = phase.end();
  phase = new Phase();
  await sleep(load.quietMs);
  return { before, during, after: phase.end(), splitMs };
}

const measurement = await measure(JSON.parse(process.argv[2]!) as SplitLoad);
process.stdout.write(JSON.stringify(measurement), () => process.exit(0));
