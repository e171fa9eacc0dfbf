/** What clients ask of records: few keys that many use, many that few use, and some of a client's own; lives short and long. */
import type { ChangeOf, RecordOperation, Ttl } from "../../../support/models/record.ts";
import type { Random } from "../../kernel/random.ts";

const SHARED_MOST = 8;
const MANY = { least: 20, most: 1500 };
const OWN = 4;
/** After so many requests on a shared key, clients go on to another: what they saw of one stays quick to judge. */
const USES_MAX = 48;

/** The keys that all clients of a run use. */
export class Keys {
  readonly #prefix: string;
  readonly #many: number;
  /** How often each shared key was used, those of before included. */
  readonly #uses: number[];

  /** @param prefix that no other workload's keys have */
  constructor(random: Random, prefix: string) {
    this.#prefix = prefix;
    this.#uses = Array.from({ length: 1 + random.int(SHARED_MOST) }, () => 0);
    this.#many = Math.round(random.skewed(MANY.least, MANY.most));
  }

  /** One that all clients use all the time. */
  shared(random: Random): string {
    const index = random.int(this.#uses.length);
    const generation = Math.floor(this.#uses[index]!++ / USES_MAX);
    return `${this.#prefix}s${generation}.${index}`;
  }

  /** One that few clients use, now and then. */
  rare(random: Random): string {
    return `${this.#prefix}m${random.int(this.#many)}`;
  }

  /** One of a client's own. */
  own(random: Random, client: string): string {
    return `${this.#prefix}o${client}.${random.int(OWN)}`;
  }
}

type Choice = (chooser: Chooser, key: string) => RecordOperation;

/** Each with its weight. The last letter of a key says what it most often is: a counter, or a buffer. */
const OF_COUNTERS: readonly (readonly [number, Choice])[] = [
  [6, (chooser, key) => chooser.increment(key)],
  [3, (chooser, key) => chooser.insert(key)],
  [4, (chooser, key) => chooser.change(key)],
  [2, (chooser, key) => chooser.expire(key)],
  [1, (chooser, key) => chooser.purge(key)],
  [4, (chooser, key) => chooser.query(key)],
];
const OF_BUFFERS: readonly (readonly [number, Choice])[] = [
  [4, (chooser, key) => chooser.set(key)],
  [5, (chooser, key) => chooser.compareAndSet(key)],
  [2, (chooser, key) => chooser.expire(key)],
  [1, (chooser, key) => chooser.purge(key)],
  [4, (chooser, key) => chooser.get(key)],
];
/** A request of the other kind. */
const STRANGE_SHARE = 0.03;
const MS = 3;
const HOUR_MS = 3_600_000;
const U64_MAX = (1n << 64n) - 1n;

/** Chooses requests for one client. */
export class Chooser {
  readonly #random: Random;
  readonly #keys: Keys;
  readonly #name: string;
  #made = 0;
  /** The last value that this client knows of a key: what it compares with. */
  readonly #values = new Map<string, string | null>();

  /** @param name of the client, part of its values and keys */
  constructor(random: Random, keys: Keys, name: string) {
    this.#random = random;
    this.#keys = keys;
    this.#name = name;
  }

  next(): RecordOperation {
    const random = this.#random;
    const key = this.#key();
    const isStrange = random.chance(STRANGE_SHARE);
    const choices = isBuffer(key) === isStrange ? OF_COUNTERS : OF_BUFFERS;
    return weighted(random, choices)(this, key);
  }

  #key(): string {
    const random = this.#random;
    const share = random.next();
    if (share < 0.45) return this.#keys.shared(random);
    return share < 0.75 ? this.#keys.rare(random) : this.#keys.own(random, this.#name);
  }

  /** A value that was seen, or one that was sent and may be there. */
  noteValue(key: string, value: string | null): void {
    this.#values.set(key, value);
  }

  increment(key: string): RecordOperation {
    return { key, dialect: "edge", name: "increment", by: this.#amount(), ttl: this.#ttl() };
  }

  insert(key: string): RecordOperation {
    const quota = this.#random.chance(0.02) ? U64_MAX : BigInt(this.#random.int(1000));
    return { key, dialect: this.#dialect(), name: "insert", quota, ttl: this.#ttl() };
  }

  change(key: string): RecordOperation {
    const change = this.#random.pick<ChangeOf>(["increase", "increase", "decrease", "patch"]);
    return { key, dialect: this.#dialect(), name: "change", change, amount: this.#amount() };
  }

  expire(key: string): RecordOperation {
    const change = this.#random.pick<ChangeOf>(["patch", "patch", "increase", "decrease"]);
    const dialect = this.#dialect();
    const amount = Number(this.#ttl().count);
    if (dialect === "throttr") return { key, dialect, name: "expire", change, amount };
    return { key, dialect, name: "expire", change, amount, unit: MS };
  }

  purge(key: string): RecordOperation {
    return { key, dialect: this.#dialect(), name: "purge" };
  }

  query(key: string): RecordOperation {
    return { key, dialect: this.#dialect(), name: "query" };
  }

  get(key: string): RecordOperation {
    return { key, dialect: this.#dialect(), name: "get" };
  }

  set(key: string): RecordOperation {
    return { key, dialect: this.#dialect(), name: "set", value: this.#value(), ttl: this.#ttl() };
  }

  compareAndSet(key: string): RecordOperation {
    const isKnown = this.#values.has(key) && !this.#random.chance(0.1);
    const expected = isKnown ? this.#values.get(key)! : null;
    const value = this.#random.chance(0.1) ? null : this.#value();
    return { key, dialect: "edge", name: "compareAndSet", expected, value, ttl: this.#ttl() };
  }

  #dialect(): "edge" | "throttr" {
    return this.#random.chance(0.4) ? "throttr" : "edge";
  }

  #amount(): bigint {
    const random = this.#random;
    if (random.chance(0.01)) return U64_MAX - BigInt(random.int(10));
    return BigInt(random.int(random.chance(0.5) ? 3 : 100));
  }

  /** Most are long. Others end in the middle of what follows. */
  #ttl(): Ttl {
    const random = this.#random;
    if (random.chance(0.6)) return { count: HOUR_MS * (1 + random.int(24)), unit: MS };
    return { count: Math.ceil(random.skewed(1, 120_000)), unit: MS };
  }

  /** Told apart from all others, so that each read says which write it saw. */
  #value(): string {
    const random = this.#random;
    const text = `${this.#name}.${++this.#made}`;
    return random.chance(0.1) ? text.padEnd(Math.round(random.skewed(16, 4096)), ".") : text;
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
