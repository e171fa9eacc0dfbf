/**
 * Load generator for rate limits: drives the calls of a Worker over a WebSocket, or asks Redis over TCP.
 *
 * Takes a `LimitsLoad` as JSON in its first argument and prints a `LimitsMeasurement` as JSON. A call is
 * under way from the message that asks for it to the message that answers it.
 */
import { connect, type Socket } from "node:net";
import { checkFrames, CHECK_REPLY, REFUSAL } from "./limits-redis.ts";
import { percentile } from "./percentile.ts";
import { ReplyCounter } from "./replies.ts";
import { Runtime } from "./runtime.ts";
import { WebSocketClient } from "./web-socket.ts";
import { ANSWER_BYTES, NUMBER_BYTES, pathOf, type CheckLoad } from "./workers/check-load.ts";

export interface LimitsLoad {
  readonly port: number;
  readonly ask: CheckLoad | RedisChecks;
  /** Calls under way. */
  readonly depth: number;
  readonly span: Span;
  /** Process whose time on processors is measured, too. */
  readonly runtimePid: number | null;
}

export interface RedisChecks {
  readonly check: "redis";
  readonly keys: number;
}

/** What is measured: some time, or some calls. */
type Span = { readonly warmUpMs: number; readonly durationMs: number } | { readonly calls: number };

export interface LimitsMeasurement {
  readonly checksPerS: number;
  /** Of a call. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of the checks, how many were refused: 0 to 1. */
  readonly refusedShare: number;
  /** Time on processors that a check takes of the runtime; null where it is not known. */
  readonly processorUs: number | null;
}

/** Something that asks, with a fixed number of calls under way until no more are to be made. */
abstract class Asker {
  readonly checksPerCall: number;
  callsLeft: number;
  answered = 0;
  answeredAtMs = performance.now();
  refused = 0;
  latenciesMs: number[] = [];
  #ended: () => void = () => {};

  /** @param calls how many there are to be; Infinity: until `callsLeft` says otherwise */
  constructor(checksPerCall: number, calls: number) {
    this.checksPerCall = checksPerCall;
    this.callsLeft = calls;
  }

  protected abstract readonly underWay: number;

  abstract start(depth: number): void;

  /** Resolves when there is no call left, and none under way. */
  async end(): Promise<void> {
    await new Promise<void>((resolve) => (this.#ended = resolve));
  }

  /** Of so many calls, how many are to be made. */
  protected take(calls: number): number {
    const taken = Math.min(calls, this.callsLeft);
    this.callsLeft -= taken;
    return taken;
  }

  protected afterAnswers(nowMs: number): void {
    this.answeredAtMs = nowMs;
    if (this.underWay === 0 && this.callsLeft === 0) this.#ended();
  }
}

/** Calls of a Worker. */
class WorkerCalls extends Asker {
  readonly #answer = Buffer.alloc(ANSWER_BYTES);
  #answerBytes = 0;
  /** By number of the call. */
  #sentAtMs = new Float64Array(0);
  #socket: WebSocketClient | null = null;
  protected underWay = 0;

  static async open(port: number, load: CheckLoad, calls: number): Promise<WorkerCalls> {
    const asker = new WorkerCalls(load.checks, calls);
    asker.#socket = await WebSocketClient.open(port, pathOf(load), (bytes) => asker.#read(bytes));
    return asker;
  }

  start(depth: number): void {
    this.#sentAtMs = new Float64Array(depth);
    this.#send(Array.from({ length: depth }, (_, number) => number));
  }

  #send(numbers: readonly number[]): void {
    const count = this.take(numbers.length);
    if (count === 0) return;
    const message = Buffer.alloc(count * NUMBER_BYTES);
    const nowMs = performance.now();
    for (let i = 0; i < count; i++) {
      message.writeUInt16LE(numbers[i]!, i * NUMBER_BYTES);
      this.#sentAtMs[numbers[i]!] = nowMs;
    }
    this.underWay += count;
    this.#socket!.send(message);
  }

  /** Calls that were answered are made again, all in one message. */
  #read(bytes: Buffer): void {
    const nowMs = performance.now();
    const numbers: number[] = [];
    for (const byte of bytes) {
      this.#answer[this.#answerBytes++] = byte;
      if (this.#answerBytes < ANSWER_BYTES) continue;
      this.#answerBytes = 0;
      const number = this.#answer.readUInt16LE(0);
      this.latenciesMs.push(nowMs - this.#sentAtMs[number]!);
      this.refused += this.#answer.readUInt16LE(NUMBER_BYTES);
      this.answered += this.checksPerCall;
      numbers.push(number);
    }
    this.underWay -= numbers.length;
    this.#send(numbers);
    this.afterAnswers(nowMs);
  }
}

/** Frames of a block that is sent again and again. */
const FRAMES = 8192;

/** One connection to Redis: a call is a check in its pipeline. */
class Pipeline extends Asker {
  readonly #socket: Socket;
  readonly #block: Buffer;
  readonly #frameBytes: number;
  readonly #replies = new ReplyCounter(CHECK_REPLY);
  #sent = 0;
  /** One check at a time is timed: when reply number `#sample` arrives. */
  #sample = -1;
  #sampleAtMs = 0;

  constructor(port: number, { keys }: RedisChecks, calls: number) {
    super(1, calls);
    const frames = checkFrames(FRAMES, keys);
    this.#frameBytes = frames[0]!.length;
    this.#block = Buffer.concat(frames);
    this.#socket = connect(port, "127.0.0.1").setNoDelay(true);
    this.#socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    this.#socket.on("error", (error) => {
      throw error;
    });
  }

  protected get underWay(): number {
    return this.#sent - this.answered;
  }

  start(depth: number): void {
    this.#send(depth);
  }

  #send(calls: number): void {
    const count = this.take(calls);
    if (this.#sample < this.answered) {
      this.#sample = this.#sent + count - 1;
      this.#sampleAtMs = performance.now();
    }
    for (let left = count; left > 0;) {
      const from = this.#sent % FRAMES;
      const some = Math.min(left, FRAMES - from);
      const frameBytes = this.#frameBytes;
      this.#socket.write(this.#block.subarray(from * frameBytes, (from + some) * frameBytes));
      this.#sent += some;
      left -= some;
    }
  }

  #receive(chunk: Buffer): void {
    if (chunk.includes(REFUSAL)) throw new Error("Redis has refused a check");
    const nowMs = performance.now();
    const count = this.#replies.count(chunk);
    this.answered += count;
    if (this.answered > this.#sample) this.latenciesMs.push(nowMs - this.#sampleAtMs);
    this.#send(count);
    this.afterAnswers(nowMs);
  }
}

/** A moment of a run. */
interface Mark {
  readonly atMs: number;
  readonly answered: number;
  readonly refused: number;
  readonly processorMs: number;
}

/** The moment of the last answer. */
function markOf(asker: Asker, runtime: Runtime | null): Mark {
  const { answeredAtMs: atMs, answered, refused } = asker;
  return { atMs, answered, refused, processorMs: runtime?.processorMs ?? 0 };
}

function measurementOf(start: Mark, end: Mark, latenciesMs: readonly number[]): LimitsMeasurement {
  const checks = end.answered - start.answered;
  const processorMs = end.processorMs - start.processorMs;
  const ascending = Float64Array.from(latenciesMs).toSorted();
  return {
    checksPerS: (checks / (end.atMs - start.atMs)) * 1000,
    p50Ms: percentile(ascending, 0.5),
    p99Ms: percentile(ascending, 0.99),
    refusedShare: (end.refused - start.refused) / checks,
    processorUs: processorMs > 0 ? (processorMs / checks) * 1000 : null,
  };
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Calls that are answered while time is taken, at least, however long that takes. */
const ANSWERED_MIN = 8;
const LATE_MS = 10;

async function openAsker({ port, ask, span }: LimitsLoad): Promise<Asker> {
  const calls = "calls" in span ? span.calls : Infinity;
  if (ask.check === "redis") return new Pipeline(port, ask, calls);
  return await WorkerCalls.open(port, ask, calls);
}

async function measure(load: LimitsLoad): Promise<LimitsMeasurement> {
  const { depth, span, runtimePid } = load;
  const runtime = runtimePid === null ? null : new Runtime(runtimePid);
  const asker = await openAsker(load);
  const ended = asker.end();
  const begin = markOf(asker, runtime);
  asker.start(depth);
  if ("calls" in span) {
    await ended;
    return measurementOf(begin, markOf(asker, runtime), asker.latenciesMs);
  }
  await sleep(span.warmUpMs);
  asker.latenciesMs = [];
  const start = markOf(asker, runtime);
  await sleep(span.durationMs);
  const enough = start.answered + ANSWERED_MIN * asker.checksPerCall;
  while (asker.answered < enough) await sleep(LATE_MS);
  const measurement = measurementOf(start, markOf(asker, runtime), asker.latenciesMs);
  // Nothing of it weighs on what is measured next.
  asker.callsLeft = 0;
  await ended;
  return measurement;
}

const measurement = await measure(JSON.parse(process.argv[2]!) as LimitsLoad);
process.stdout.write(JSON.stringify(measurement), () => process.exit(0));
