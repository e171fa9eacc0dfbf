/**
 * Load generator: one process, some connections, each with a fixed number of requests under way.
 *
 * Takes a `Load` as JSON in its first argument and prints a `Measurement` as JSON. It knows replies by
 * length or by line ends only, so that the generator costs little beside what it measures.
 */
import { connect, type Socket } from "node:net";
import {
  blockOf,
  KEYS,
  setUpBytes,
  setUpReply,
  type Block,
  type Operation,
  type Protocol,
} from "./frames.ts";
import { percentile } from "./percentile.ts";
import { ReplyCounter } from "./replies.ts";
import { Runtime } from "./runtime.ts";

export interface Load {
  readonly port: number;
  readonly protocol: Protocol;
  /** Nothing that `echo` and `yrmcds` know of. */
  readonly operation: Operation;
  readonly depth: number;
  readonly connections: number;
  readonly warmUpMs: number;
  readonly durationMs: number;
  /** Process whose time on processors is measured, too. */
  readonly runtimePid?: number;
}

export interface Measurement {
  readonly opsPerS: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of the operations, how many were refused: 0 to 1. */
  readonly refusedShare: number;
  /** Operations in a second of the runtime's time on processors, where that was asked for and is known. */
  readonly opsPerProcessorS?: number;
}

class Connection {
  readonly #load: Load;
  readonly #index: number;
  readonly #socket: Socket;
  readonly #block: Block;
  #replies: ReplyCounter;
  #onReplies: (count: number) => void = () => {};
  #sent = 0;
  #received = 0;
  /** One request at a time is timed: when reply number `#sample` arrives. */
  #sample = -1;
  #sampleAtMs = 0;
  latenciesMs: number[] = [];

  constructor(load: Load, index: number) {
    this.#load = load;
    this.#index = index;
    this.#block = blockOf(load.protocol, load.operation, index);
    this.#replies = new ReplyCounter(setUpReply(load.protocol));
    this.#socket = connect(load.port, "127.0.0.1");
    this.#socket.setNoDelay(true);
    this.#socket.on("data", (chunk: Buffer) => {
      const count = this.#replies.count(chunk);
      if (count > 0) this.#onReplies(count);
    });
    this.#socket.on("error", (error) => {
      throw error;
    });
    this.#socket.on("close", () => {
      throw new Error("the server closed a connection");
    });
  }

  /** Makes the keys that the operation needs. */
  async setUp(): Promise<void> {
    await new Promise((resolve) => this.#socket.once("connect", resolve));
    const bytes = setUpBytes(this.#load.protocol, this.#load.operation, this.#index);
    if (bytes.length === 0) return;
    let missing = KEYS;
    await new Promise<void>((resolve) => {
      this.#onReplies = (count) => {
        missing -= count;
        if (missing === 0) resolve();
      };
      this.#socket.write(bytes);
    });
  }

  start(): void {
    this.#replies = new ReplyCounter(this.#block.reply);
    this.#onReplies = (count) => this.#receive(count);
    this.#send(this.#load.depth);
  }

  get received(): number {
    return this.#received;
  }

  get refused(): number {
    return this.#replies.failures;
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
      this.#freshen(from, from + some);
      this.#socket.write(bytes.subarray(from * frameBytes, (from + some) * frameBytes));
      this.#sent += some;
      count -= some;
    }
  }

  /** Gives frames keys that were never used before, if the operation wants that. */
  #freshen(from: number, to: number): void {
    const { bytes, frameBytes, freshAt } = this.#block;
    if (freshAt === null) return;
    let number = this.#sent;
    for (let frame = from; frame < to; frame++) {
      bytes.writeUInt32LE(number++ >>> 0, frame * frameBytes + freshAt);
    }
  }

  #receive(count: number): void {
    this.#received += count;
    if (this.#received > this.#sample) this.latenciesMs.push(performance.now() - this.#sampleAtMs);
    this.#send(count);
  }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

async function measure(load: Load): Promise<Measurement> {
  const connections = Array.from(
    { length: load.connections },
    (_, index) => new Connection(load, index),
  );
  const received = (): number => sum(connections.map((connection) => connection.received));
  const refused = (): number => sum(connections.map((connection) => connection.refused));
  await Promise.all(connections.map((connection) => connection.setUp()));
  for (const connection of connections) connection.start();
  await sleep(load.warmUpMs);
  const before = { received: received(), refused: refused() };
  for (const connection of connections) connection.latenciesMs = [];
  const runtime = load.runtimePid === undefined ? null : new Runtime(load.runtimePid);
  const startProcessorMs = runtime?.processorMs ?? 0;
  const startMs = performance.now();
  await sleep(load.durationMs);
  const tookMs = performance.now() - startMs;
  const processorMs = (runtime?.processorMs ?? 0) - startProcessorMs;
  const operations = received() - before.received;
  const latenciesMs = connections.flatMap((connection) => connection.latenciesMs);
  latenciesMs.sort((a, b) => a - b);
  return {
    opsPerS: (operations / tookMs) * 1000,
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
    refusedShare: (refused() - before.refused) / Math.max(1, operations),
    ...(processorMs > 0 && { opsPerProcessorS: (operations / processorMs) * 1000 }),
  };
}

const measurement = await measure(JSON.parse(process.argv[2]!) as Load);
process.stdout.write(JSON.stringify(measurement), () => process.exit(0));
