/**
 * Asks once for all keys, over one door, and checks the answer when all of it has come.
 *
 * Takes a `ListLoad` as JSON in its first argument and prints a `ListMeasurement` as JSON.
 */
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { COUNTERS, counterKey, KEY_BYTES } from "./million.ts";

export interface ListLoad {
  /** `redis`: KEYS, which gives names only. */
  readonly door: "tcp" | "http" | "redis";
  readonly port: number;
}

export interface ListMeasurement {
  /** From sending the request. */
  readonly firstByteMs: number;
  readonly tookMs: number;
  readonly bytes: number;
  readonly keys: number;
  /** None in what Redis answers. */
  readonly fragments: number;
  /** Rows and keys of the largest fragment. */
  readonly fragmentBytesMax: number;
}

interface Answer {
  readonly firstByteMs: number;
  readonly tookMs: number;
  readonly bytes: Buffer;
}

const LIST = Buffer.of(0x07);
const REDIS_KEYS = "*2\r\n$4\r\nKEYS\r\n$1\r\n*\r\n";
const REDIS_HEAD = `*${COUNTERS}\r\n`;
/** A name as Redis answers it: its length, and itself. */
const REDIS_ROW_BYTES = `$${KEY_BYTES}\r\n`.length + KEY_BYTES + 2;
const HTTP_OK = 200;
const STATUS_SUCCESS = 1;
/** Status, count of fragments. */
const HEAD_BYTES = 9;
/** Index and count of rows. */
const FRAGMENT_HEADER_BYTES = 16;
/** In uint16: key size, type, TTL type, time point, bytes used. */
const ROW_BYTES = 13;

/** Gathers chunks as they come. */
class Gathering {
  readonly #startMs = performance.now();
  readonly #chunks: Buffer[] = [];
  #firstByteMs = NaN;
  #tookMs = NaN;
  bytes = 0;

  add(chunk: Buffer): void {
    this.#tookMs = performance.now() - this.#startMs;
    if (this.#chunks.length === 0) this.#firstByteMs = this.#tookMs;
    this.#chunks.push(chunk);
    this.bytes += chunk.length;
  }

  end(): Answer {
    const bytes = Buffer.concat(this.#chunks);
    return { firstByteMs: this.#firstByteMs, tookMs: this.#tookMs, bytes };
  }
}

/** The server closes the connection when it has answered all before the client's end. */
async function askTcp(port: number): Promise<Answer> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  const gathering = new Gathering();
  socket.on("data", (chunk: Buffer) => gathering.add(chunk));
  socket.end(LIST);
  await once(socket, "end");
  return gathering.end();
}

async function askHttp(port: number): Promise<Answer> {
  const gathering = new Gathering();
  const asked = request({ host: "127.0.0.1", port, path: "/throttr/7.3/uint16", method: "POST" });
  asked.end(LIST);
  const [response] = (await once(asked, "response")) as [IncomingMessage];
  response.on("data", (chunk: Buffer) => gathering.add(chunk));
  await once(response, "end");
  if (response.statusCode !== HTTP_OK) throw new Error(`HTTP status ${response.statusCode}`);
  return gathering.end();
}

async function askRedis(port: number): Promise<Answer> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  const gathering = new Gathering();
  const expectedBytes = REDIS_HEAD.length + COUNTERS * REDIS_ROW_BYTES;
  const answered = new Promise<void>((resolve) => {
    socket.on("data", (chunk: Buffer) => {
      gathering.add(chunk);
      if (gathering.bytes >= expectedBytes) resolve();
    });
  });
  socket.write(REDIS_KEYS);
  await answered;
  socket.destroy();
  return gathering.end();
}

type Contents = Pick<ListMeasurement, "keys" | "fragments" | "fragmentBytesMax">;

/** Reads a whole LIST; throws when it is not exactly the counters, each once. */
function readList(answer: Buffer): Contents {
  const seen = new Uint8Array(COUNTERS);
  if (answer[0] !== STATUS_SUCCESS) throw new Error(`status ${answer[0]}`);
  const fragments = Number(answer.readBigUInt64LE(1));
  let keys = 0;
  let fragmentBytesMax = 0;
  let at = HEAD_BYTES;
  for (let index = 1; index <= fragments; index++) {
    assertEqual("index of a fragment", Number(answer.readBigUInt64LE(at)), index);
    const rows = Number(answer.readBigUInt64LE(at + 8));
    const rowsAt = at + FRAGMENT_HEADER_BYTES;
    at = rowsAt + rows * ROW_BYTES;
    for (let row = 0; row < rows; row++) {
      assertEqual("size of a key", answer[rowsAt + row * ROW_BYTES]!, KEY_BYTES);
      markSeen(seen, answer, at);
      at += KEY_BYTES;
    }
    keys += rows;
    fragmentBytesMax = Math.max(fragmentBytesMax, at - rowsAt);
  }
  assertEqual("bytes of the answer", answer.length, at);
  return { keys, fragments, fragmentBytesMax };
}

/** Reads what Redis answers; as `readList`. */
function readRedis(answer: Buffer): Contents {
  const seen = new Uint8Array(COUNTERS);
  let keys = 0;
  for (
    let end = REDIS_HEAD.length + REDIS_ROW_BYTES;
    end <= answer.length;
    end += REDIS_ROW_BYTES
  ) {
    markSeen(seen, answer, end - 2 - KEY_BYTES);
    keys++;
  }
  return { keys, fragments: 0, fragmentBytesMax: 0 };
}

const DIGIT_ZERO = 0x30;
const DIGIT_NINE = 0x39;

function markSeen(seen: Uint8Array, bytes: Buffer, at: number): void {
  let index = 0;
  for (let i = 0; i < KEY_BYTES; i++) {
    const byte = bytes[at + i]!;
    if (byte >= DIGIT_ZERO && byte <= DIGIT_NINE) index = index * 10 + byte - DIGIT_ZERO;
  }
  const text = bytes.toString("latin1", at, at + KEY_BYTES);
  if (text !== counterKey(index).toString("latin1")) throw new Error(`an unknown key: ${text}`);
  if (seen[index] !== 0) throw new Error(`a key came twice: ${text}`);
  seen[index] = 1;
}

function assertEqual(what: string, found: number, expected: number): void {
  if (found !== expected) throw new Error(`${what}: ${expected} was expected, not ${found}`);
}

async function measure({ door, port }: ListLoad): Promise<ListMeasurement> {
  const ask = { tcp: askTcp, http: askHttp, redis: askRedis }[door];
  const { bytes, ...times } = await ask(port);
  const contents = door === "redis" ? readRedis(bytes) : readList(bytes);
  assertEqual("count of keys", contents.keys, COUNTERS);
  return { ...times, bytes: bytes.length, ...contents };
}

const measurement = await measure(JSON.parse(process.argv[2]!) as ListLoad);
process.stdout.write(JSON.stringify(measurement), () => process.exit(0));
