/**
 * Load generator: one process, some connections, each with a fixed number of requests under way.
 *
 * Takes a `Load` as JSON in its first argument and prints a `Measurement` as JSON. It knows replies by
 * length or by line ends only, so that the generator costs little beside what it measures.
 */
import { connect, type Socket } from "node:net";
import { blockOf, type Block, type Operation, type Protocol } from "./frames.ts";

export interface Load {
  readonly port: number;
  readonly protocol: Protocol;
  readonly operation: Operation;
  readonly depth: number;
  readonly connections: number;
  readonly warmUpMs: number;
  readonly durationMs: number;
}

export interface Measurement {
  readonly opsPerS: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

class Connection {
  readonly #socket: Socket;
  readonly #block: Block;
  readonly #depth: number;
  #sent = 0;
  #received = 0;
  #partialBytes = 0;
  /** One request at a time is timed: when reply number `#sample` arrives. */
  #sample = -1;
  #sampleAtMs = 0;
  latenciesMs: number[] = [];

  constructor(load: Load, index: number) {
    this.#block = blockOf(load.protocol, load.operation, index);
    this.#depth = load.depth;
    this.#socket = connect(load.port, "127.0.0.1");
    this.#socket.setNoDelay(true);
    this.#socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    this.#socket.on("error", (error) => {
      throw error;
    });
    this.#socket.on("close", () => {
      throw new Error("the server closed a connection");
    });
  }

  start(): Promise<void> {
    return new Promise((resolve) => {
      this.#socket.once("connect", () => {
        this.#send(this.#depth);
        resolve();
      });
    });
  }

  get received(): number {
    return this.#received;
  }

  #send(count: number): void {
    if (this.#sample < this.#received) {
      this.#sample = this.#sent + count - 1;
      this.#sampleAtMs = performance.now();
    }
    const { bytes, frames, frameBytes } = this.#block;
    while (count > 0) {
      const from = this.#sent % frames;
      const some = Math.min(count, frames - from);
      this.#socket.write(bytes.subarray(from * frameBytes, (from + some) * frameBytes));
      this.#sent += some;
      count -= some;
    }
  }

  #receive(chunk: Buffer): void {
    const { replyBytes, replyLines } = this.#block;
    let count: number;
    if (replyLines > 0) {
      let lines = this.#partialBytes;
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++;
      count = Math.floor(lines / replyLines);
      this.#partialBytes = lines % replyLines;
    } else {
      const bytes = this.#partialBytes + chunk.length;
      count = Math.floor(bytes / replyBytes);
      this.#partialBytes = bytes % replyBytes;
    }
    if (count === 0) return;
    this.#received += count;
    if (this.#received > this.#sample) this.latenciesMs.push(performance.now() - this.#sampleAtMs);
    this.#send(count);
  }
}

async function measure(load: Load): Promise<Measurement> {
  const connections = Array.from({ length: load.connections }, (_, index) => new Connection(load, index));
  await Promise.all(connections.map((connection) => connection.start()));
  await new Promise((resolve) => setTimeout(resolve, load.warmUpMs));
  const before = connections.reduce((sum, { received }) => sum + received, 0);
  for (const connection of connections) connection.latenciesMs = [];
  const startMs = performance.now();
  await new Promise((resolve) => setTimeout(resolve, load.durationMs));
  const tookMs = performance.now() - startMs;
  const after = connections.reduce((sum, { received }) => sum + received, 0);
  const latencies = connections.flatMap((connection) => connection.latenciesMs).sort((a, b) => a - b);
  const percentile = (share: number): number => latencies[Math.floor(latencies.length * share)] ?? NaN;
  return { opsPerS: ((after - before) / tookMs) * 1000, p50Ms: percentile(0.5), p99Ms: percentile(0.99) };
}

const measurement = await measure(JSON.parse(process.argv[2]!) as Load);
process.stdout.write(JSON.stringify(measurement), () => process.exit(0));
