/**
 * Load generator for fan-out: one process, one publisher, many subscribers, each on a WebSocket.
 *
 * Takes a `FanOutLoad` as JSON in its first argument and prints a `FanOutMeasurement` as JSON. It counts
 * bytes, and looks at one message of each chunk only, so that it costs little beside what it measures.
 */
import { percentile } from "./percentile.ts";
import { WebSocketClient } from "./web-socket.ts";

export interface FanOutLoad {
  /** `broadcast`: the bare object, which sends on what it gets and needs no SUBSCRIBE. */
  readonly server: "throttr" | "broadcast";
  readonly port: number;
  /** HTTP port of a server that tells connections by Hub; null where there are none. */
  readonly httpPort: number | null;
  readonly subscribers: number;
  /** Publishes under way; one is until its last subscriber has it. */
  readonly depth: number;
  readonly payloadBytes: number;
  readonly warmUpMs: number;
  readonly durationMs: number;
}

export interface FanOutMeasurement {
  readonly deliveriesPerS: number;
  /** From publish to delivery. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of one processor's time, how much the generator took: near 1, it is what was measured. */
  readonly generatorShare: number;
  /** Connections of each Hub, this load's publisher among them; none where there are no Hubs. */
  readonly hubs: readonly number[];
}

const CHANNEL = Buffer.from("bench");
const SUBSCRIBE = 0x11;
const PUBLISH = 0x13;
const EVENT = 0x19;
const STATUS_SUCCESS = 1;
/** Type, channel size, payload size in uint16. */
const HEADER_BYTES = 4;
/** A payload begins with the number of its message, u32. */
const NUMBER_AT = HEADER_BYTES + CHANNEL.length;
const PATH = "/throttr/7.3/uint16";
/** Connections that are opened at once. */
const OPENED_AT_ONCE = 50;
/** Of many deliveries, those of every 16th message are timed. */
const TIMED_EACH = 16;

/** A PUBLISH and the push that comes of it have the same bytes but the first. */
function publishFrame(type: number, payloadBytes: number): Buffer {
  const frame = Buffer.alloc(NUMBER_AT + payloadBytes);
  frame[0] = type;
  frame[1] = CHANNEL.length;
  frame.writeUInt16LE(payloadBytes, 2);
  CHANNEL.copy(frame, HEADER_BYTES);
  return frame;
}

class FanOut {
  readonly #load: FanOutLoad;
  readonly #frame: Buffer;
  /** By message, of those under way: subscribers that do not have it yet, and when it was sent. */
  readonly #missing: Int32Array;
  readonly #sentAtMs: Float64Array;
  readonly #timedEach: number;
  #publisher: WebSocketClient | null = null;
  #isPublisherReady = false;
  #sent = 0;
  deliveries = 0;
  latenciesMs: number[] = [];

  constructor(load: FanOutLoad) {
    this.#load = load;
    const type = load.server === "throttr" ? PUBLISH : EVENT;
    this.#frame = publishFrame(type, load.payloadBytes);
    this.#missing = new Int32Array(load.depth);
    this.#sentAtMs = new Float64Array(load.depth);
    this.#timedEach = load.depth === 1 ? 1 : TIMED_EACH;
  }

  async setUp(): Promise<void> {
    const { port, subscribers } = this.#load;
    this.#publisher = await WebSocketClient.open(port, PATH, (bytes) => this.#onPublisher(bytes));
    for (let from = 0; from < subscribers; from += OPENED_AT_ONCE) {
      const some = Math.min(OPENED_AT_ONCE, subscribers - from);
      await Promise.all(Array.from({ length: some }, () => this.#subscribe()));
    }
    this.#isPublisherReady = true;
  }

  start(): void {
    this.#publish(this.#load.depth);
  }

  /** Opens a connection that is subscribed. */
  async #subscribe(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let received = -1;
    const socket = await WebSocketClient.open(this.#load.port, PATH, (bytes) => {
      if (received >= 0) {
        this.#receive(bytes, received);
        received += bytes.length;
        return;
      }
      received = bytes.length - 1;
      if (bytes[0] === STATUS_SUCCESS && received === 0) resolve();
      else reject(new Error(`a subscriber was answered ${bytes.toString("hex")}`));
    });
    if (this.#load.server === "throttr") {
      socket.send(Buffer.concat([Buffer.of(SUBSCRIBE, CHANNEL.length), CHANNEL]));
    }
    await promise;
  }

  /** Statuses of PUBLISH; the bare object sends the publisher what it sends all. */
  #onPublisher(bytes: Buffer): void {
    if (this.#load.server !== "throttr" || !this.#isPublisherReady) return;
    if (bytes.includes(0)) throw new Error("a publish reached nobody");
  }

  /** @param before bytes of messages that the subscriber had received */
  #receive(bytes: Buffer, before: number): void {
    const frameBytes = this.#frame.length;
    const first = Math.floor(before / frameBytes);
    const end = Math.floor((before + bytes.length) / frameBytes);
    if (end === first) return;
    this.#assertIs(bytes, (end - 1) * frameBytes - before, end - 1);
    const nowMs = performance.now();
    let completed = 0;
    for (let number = first; number < end; number++) {
      const place = number % this.#load.depth;
      if (number % this.#timedEach === 0) {
        this.latenciesMs.push(nowMs - this.#sentAtMs[place]!);
      }
      if (--this.#missing[place]! === 0) completed++;
    }
    this.deliveries += end - first;
    if (completed > 0) this.#publish(completed);
  }

  /** Checks the number of a message, if all of it is in the chunk. */
  #assertIs(bytes: Buffer, at: number, number: number): void {
    if (at < 0) return;
    const found = bytes.readUInt32LE(at + NUMBER_AT);
    if (bytes[at] !== EVENT || found !== number) {
      throw new Error(`message ${number} was expected, message ${found} arrived`);
    }
  }

  #publish(count: number): void {
    const { depth, subscribers } = this.#load;
    const nowMs = performance.now();
    const frames: Buffer[] = [];
    for (let i = 0; i < count; i++, this.#sent++) {
      const frame = Buffer.from(this.#frame);
      frame.writeUInt32LE(this.#sent, NUMBER_AT);
      frames.push(frame);
      this.#missing[this.#sent % depth] = subscribers;
      this.#sentAtMs[this.#sent % depth] = nowMs;
    }
    this.#publisher!.send(Buffer.concat(frames));
  }
}

async function readHubs(httpPort: number | null): Promise<number[]> {
  if (httpPort === null) return [];
  const response = await fetch(`http://127.0.0.1:${httpPort}/bench/hubs`);
  return (await response.json()) as number[];
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function measure(load: FanOutLoad): Promise<FanOutMeasurement> {
  const fanOut = new FanOut(load);
  await fanOut.setUp();
  const hubs = await readHubs(load.httpPort);
  fanOut.start();
  await sleep(load.warmUpMs);
  const before = fanOut.deliveries;
  fanOut.latenciesMs = [];
  const startMs = performance.now();
  const startUsage = process.cpuUsage();
  await sleep(load.durationMs);
  const tookMs = performance.now() - startMs;
  const { user, system } = process.cpuUsage(startUsage);
  const deliveries = fanOut.deliveries - before;
  const latenciesMs = Float64Array.from(fanOut.latenciesMs).toSorted();
  return {
    deliveriesPerS: (deliveries / tookMs) * 1000,
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
    generatorShare: (user + system) / 1000 / tookMs,
    hubs,
  };
}

const measurement = await measure(JSON.parse(process.argv[2]!) as FanOutLoad);
process.stdout.write(JSON.stringify(measurement), () => process.exit(0));
