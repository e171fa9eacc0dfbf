/** What clients ask of records: few keys that many use, many that few use, and some of a client's own; lives short and long. */
import {
  valueMax,
  type ChangeOf,
  type RecordOperation,
  type Ttl,
} from "../../../support/models/record.ts";
import type { Random } from "../../kernel/random.ts";
import type { Speech } from "./speech.ts";

const SHARED_MOST = 8;
const RARE = { least: 20, most: 1500 };
const OWN = 4;
/**
 * Clients leave a key and use a new one in its place after this many requests on it, or this many of unknown outcome. So the
 * history of each key is short, and quick to judge.
 */
const USES_MAX = 48;
const UNKNOWN_MAX = 6;

/** One of the keys that is in use, and those that were in its place before. */
interface Place {
  generation: number;
  uses: number;
  unknown: number;
}

/** The keys that the clients of a run use. */
export class Keys {
  readonly #prefix: string;
  readonly #shared: number;
  readonly #rare: number;
  readonly #places = new Map<string, Place>();
  #made = 0;

  /** @param prefix that no other workload's keys have */
  constructor(random: Random, prefix: string) {
    this.#prefix = prefix;
    this.#shared = 1 + random.int(SHARED_MOST);
    this.#rare = Math.round(random.skewed(RARE.least, RARE.most));
  }

  /** One that all clients use all the time. */
  shared(random: Random): string {
    return this.#use(`s${random.int(this.#shared)}`);
  }

  /** One that few clients use, now and then. */
  rare(random: Random): string {
    return this.#use(`m${random.int(this.#rare)}`);
  }

  /** One that nobody has used before. */
  fresh(client: string): string {
    return `${this.#prefix}${++this.#made}.late${client}.0`;
  }

  /** One of a client's own. */
  own(random: Random, client: string): string {
    return this.#use(`o${client}.${random.int(OWN)}`);
  }

  /** It is not known what became of a request on a key. */
  noteUnknown(key: string): void {
    const name = key.slice(key.indexOf(".") + 1);
    const place = this.#places.get(name);
    if (place !== undefined) place.unknown++;
  }

  #use(name: string): string {
    let place = this.#places.get(name);
    if (place === undefined) {
      place = { generation: 0, uses: 0, unknown: 0 };
      this.#places.set(name, place);
    }
    if (place.uses >= USES_MAX || place.unknown >= UNKNOWN_MAX) {
      place.generation++;
      place.uses = 0;
      place.unknown = 0;
    }
    place.uses++;
    return `${this.#prefix}${place.generation}.${name}`;
  }
}

type Choice = (chooser: Chooser, key: string) => RecordOperation;

/** Each with its weight. The last letter of a key says what it most often is: a counter, or a buffer. */
const FRAMES_OF_COUNTERS: readonly (readonly [number, Choice])[] = [
  [3, (chooser, key) => chooser.insert(key)],
  [4, (chooser, key) => chooser.change(key)],
  [2, (chooser, key) => chooser.expire(key)],
  [1, (chooser, key) => chooser.purge(key)],
  [4, (chooser, key) => chooser.query(key)],
];
const FRAMES_OF_BUFFERS: readonly (readonly [number, Choice])[] = [
  [4, (chooser, key) => chooser.set(key)],
  [2, (chooser, key) => chooser.expire(key)],
  [1, (chooser, key) => chooser.purge(key)],
  [4, (chooser, key) => chooser.get(key)],
];
/** With those that commands alone have. */
const OF_COUNTERS: typeof FRAMES_OF_COUNTERS = [
  [6, (chooser, key) => chooser.increment(key)],
  ...FRAMES_OF_COUNTERS,
];
const OF_BUFFERS: typeof FRAMES_OF_BUFFERS = [
  [5, (chooser, key) => chooser.compareAndSet(key)],
  ...FRAMES_OF_BUFFERS,
];
const SHARED_SHARE = 0.45;
const MANY_SHARED_SHARE = 0.1;
/** A request of the other kind. */
const STRANGE_SHARE = 0.03;
const MS = 3;
const SECONDS = 4;
const HOURS = 6;
const HOUR_MS = 3_600_000;

/** Chooses requests for one client. */
export class Chooser {
  readonly #random: Random;
  readonly #keys: Keys;
  readonly #name: string;
  readonly #speech: Speech;
  /** The largest number that its requests can say. */
  readonly #most: bigint;
  #made = 0;
  /** The last value that this client knows of a key: what it compares with. */
  readonly #values = new Map<string, string | null>();

  /** @param name of the client, part of its values and keys */
  constructor(random: Random, keys: Keys, name: string, speech: Speech) {
    this.#random = random;
    this.#speech = speech;
    this.#most = valueMax(speech.protocol.valueSize);
    this.#keys = keys;
    this.#name = name;
  }

  /** @param isOfMany a message of many requests has few on each key */
  next(isOfMany: boolean): RecordOperation {
    const random = this.#random;
    const key = this.#key(isOfMany ? MANY_SHARED_SHARE : SHARED_SHARE);
    const isStrange = random.chance(STRANGE_SHARE);
    return weighted(random, this.#choicesOf(isBuffer(key) !== isStrange))(this, key);
  }

  #choicesOf(areOfBuffers: boolean): typeof FRAMES_OF_COUNTERS {
    const { dialects } = this.#speech;
    if (dialects.includes("edge")) return areOfBuffers ? OF_BUFFERS : OF_COUNTERS;
    return areOfBuffers && !dialects.includes("pairs") ? FRAMES_OF_BUFFERS : FRAMES_OF_COUNTERS;
  }

  #key(sharedShare: number): string {
    const random = this.#random;
    if (random.chance(sharedShare)) return this.#keys.shared(random);
    return random.chance(0.6) ? this.#keys.rare(random) : this.#keys.own(random, this.#name);
  }

  /** It is not known what became of a request on a key. */
  noteUnknown(key: string): void {
    this.#keys.noteUnknown(key);
  }

  /** A value that was seen, or one that was sent and may be there. */
  noteValue(key: string, value: string | null): void {
    this.#values.set(key, value);
  }

  /** A write that must never be seen. */
  late(): RecordOperation {
    const { protocol } = this.#speech;
    const ttl =
      protocol.valueSize < 4 ? { count: 24, unit: HOURS } : { count: 24 * HOUR_MS, unit: MS };
    return { ...this.#asked(this.#keys.fresh(this.#name)), name: "insert", quota: 1n, ttl };
  }

  increment(key: string): RecordOperation {
    return { key, dialect: "edge", name: "increment", by: this.#amount(), ttl: this.#ttl() };
  }

  insert(key: string): RecordOperation {
    const random = this.#random;
    const isMost = random.chance(0.02);
    const quota = isMost ? this.#most : this.#atMost(random.int(1000));
    return { ...this.#asked(key), name: "insert", quota, ttl: this.#ttl() };
  }

  change(key: string): RecordOperation {
    const change = this.#random.pick<ChangeOf>(["increase", "increase", "decrease", "patch"]);
    return { ...this.#asked(key), name: "change", change, amount: this.#amount() };
  }

  expire(key: string): RecordOperation {
    const change = this.#random.pick<ChangeOf>(["patch", "patch", "increase", "decrease"]);
    const asked = this.#asked(key);
    const amount = Number(this.#ttl().count);
    if (asked.dialect === "edge") return { ...asked, name: "expire", change, amount, unit: MS };
    return { ...asked, name: "expire", change, amount };
  }

  purge(key: string): RecordOperation {
    return { ...this.#asked(key), name: "purge" };
  }

  query(key: string): RecordOperation {
    return { ...this.#asked(key), name: "query" };
  }

  get(key: string): RecordOperation {
    return { ...this.#asked(key), name: "get" };
  }

  set(key: string): RecordOperation {
    return { ...this.#asked(key), name: "set", value: this.#value(), ttl: this.#ttl() };
  }

  compareAndSet(key: string): RecordOperation {
    const isKnown = this.#values.has(key) && !this.#random.chance(0.1);
    const expected = isKnown ? this.#values.get(key)! : null;
    const value = this.#random.chance(0.1) ? null : this.#value();
    return { key, dialect: "edge", name: "compareAndSet", expected, value, ttl: this.#ttl() };
  }

  #asked(key: string): Pick<RecordOperation, "key" | "dialect" | "valueBytes"> {
    const { dialects, protocol } = this.#speech;
    const [first, other = first] = dialects;
    const dialect = this.#random.chance(0.4) ? other! : first!;
    return protocol.valueSize === 8
      ? { key, dialect }
      : { key, dialect, valueBytes: protocol.valueSize };
  }

  #amount(): bigint {
    const random = this.#random;
    if (random.chance(0.01)) return this.#most - BigInt(random.int(10));
    return BigInt(random.int(random.chance(0.5) ? 3 : 100));
  }

  #atMost(quota: number): bigint {
    return BigInt(quota) > this.#most ? this.#most : BigInt(quota);
  }

  /** Most are long. Others end in the middle of what follows. A small number of milliseconds is too short for either. */
  #ttl(): Ttl {
    const random = this.#random;
    const bytes = this.#speech.protocol.valueSize;
    if (random.chance(0.6)) {
      const hours = 1 + random.int(24);
      return bytes < 4 ? { count: hours, unit: HOURS } : { count: HOUR_MS * hours, unit: MS };
    }
    const ms = Math.ceil(random.skewed(1, 120_000));
    return bytes < 4 ? { count: Math.ceil(ms / 1000), unit: SECONDS } : { count: ms, unit: MS };
  }

  /** Told apart from all others, so that each read says which write it saw. */
  #value(): string {
    const random = this.#random;
    const text = `${this.#name}.${++this.#made}`;
    if (!random.chance(0.1)) return text;
    return text.padEnd(Number(this.#atMost(Math.round(random.skewed(16, 4096)))), ".");
  }
}

/** By the last digit, so that listings have both kinds. */
export const isBuffer = (key: string): boolean => key.charCodeAt(key.length - 1) % 2 === 1;

function weighted<T>(random: Random, choices: readonly (readonly [number, T])[]): T {
  let at = random.between(
    0,
    choices.reduce((sum, [weight]) => sum + weight, 0),
  );
  return (choices.find(([weight]) => (at -= weight) < 0) ?? choices[0]!)[1];
}
