/** What clients change of what others list: many records that stay, some that come and go, and groups that are removed as a whole. */
import type { Content, ListingOperation, ListingOutcome } from "../../checks/listing-calls.ts";
import type { Random } from "../../kernel/random.ts";
import { bytesOf } from "../records/commands.ts";
import { isBuffer } from "../records/choice.ts";
import type { CallName, NamedCall, ResultOf } from "./ways.ts";

/** Of all keys, consumers and names of semaphores, and of no other workload's. */
export const PREFIX = "listings:";

/** The last group is removed as a whole now and then; the others seldom. */
const GROUPS = ["a", "b", "c"] as const;
const RECORDS = { least: 10, most: 400 };
/** Most changes are of the first records of a group. */
const BUSY_SHARE = 0.6;
const BUSY_PART = 0.2;
/** Some keys are long: few rows of theirs fit a fragment. */
const LONG_EVERY = 5;
const LONG = { least: 40, most: 220 };
export const SEMAPHORES = 4;
const MAXIMUM = 1_000_000;
/** Longer than any run. */
const LONG_TTL_MS = 30 * 86_400_000;
const TTL_MS = { least: 100, most: 200_000 };
const LEASE_MS = { least: 200, most: 600_000 };
/** Leases that a client may release. */
const LEASES_KEPT = 50;
const NS_PER_MS = 1_000_000n;

/** The keys that the clients of a run use. */
export class Stock {
  readonly #records: number;
  readonly #generations = new Map<string, number>();

  constructor(random: Random) {
    this.#records = Math.round(random.skewed(RECORDS.least, RECORDS.most));
  }

  key(random: Random): string {
    const isBusy = random.chance(BUSY_SHARE);
    const index = random.int(isBusy ? Math.ceil(this.#records * BUSY_PART) : this.#records);
    const isLong = index % LONG_EVERY === 0;
    const name = isLong ? "x".repeat(LONG.least + ((index * 37) % (LONG.most - LONG.least))) : "";
    return `${this.prefix(random)}${name}${index}`;
  }

  /** Of all records of a group. */
  prefix(random: Random): string {
    return this.#prefixOf(random.pick(GROUPS));
  }

  removedPrefix(random: Random): string {
    return random.chance(0.8) ? this.#prefixOf(GROUPS.at(-1)!) : this.prefix(random);
  }

  semaphore(random: Random): string {
    return `${PREFIX}s${random.int(SEMAPHORES)}`;
  }

  /** It is not known what was removed of a group: another takes its place. */
  leave(prefix: string): void {
    const group = prefix.charAt(PREFIX.length);
    if (prefix === this.#prefixOf(group)) {
      this.#generations.set(group, (this.#generations.get(group) ?? 0) + 1);
    }
  }

  #prefixOf(group: string): string {
    return `${PREFIX}${group}${this.#generations.get(group) ?? 0}.`;
  }
}

/** What is sent, and what its result says. */
export interface Change {
  readonly operation: ListingOperation;
  readonly call: NamedCall;
  outcomeOf(result: unknown): ListingOutcome;
}

function changeOf<Name extends CallName>(
  operation: ListingOperation,
  name: Name,
  given: NamedCall<Name>["given"],
  outcomeOf: (result: ResultOf<Name>) => ListingOutcome,
): Change {
  return {
    operation,
    call: { name, given } as unknown as NamedCall,
    outcomeOf: outcomeOf as (result: unknown) => ListingOutcome,
  };
}

/** Chooses changes for one client. */
export class Chooser {
  readonly #random: Random;
  readonly #stock: Stock;
  readonly #client: number;
  /** True time, in ms. */
  readonly #nowMs: () => number;
  #made = 0;
  readonly #leases: string[] = [];

  constructor(random: Random, stock: Stock, client: number, nowMs: () => number) {
    this.#random = random;
    this.#stock = stock;
    this.#client = client;
    this.#nowMs = nowMs;
  }

  next(): Change {
    const at = this.#random.next();
    if (at < 0.62) return this.#write();
    if (at < 0.74) return this.#purge();
    if (at < 0.82) return this.#restore();
    if (at < 0.88) return this.#restorePair();
    if (at < 0.95) return this.#acquire();
    if (at < 0.985) return this.#release();
    return this.#removeAll();
  }

  #write(): Change {
    const key = this.#stock.key(this.#random);
    const content = this.#content(key);
    const random = this.#random;
    const isLong = random.chance(0.7);
    const ttlMs = Math.round(isLong ? LONG_TTL_MS : random.skewed(TTL_MS.least, TTL_MS.most));
    const operation = { type: "write", collection: "records", key, content, ttlMs } as const;
    if (content.kind === "counter") {
      const options = { quota: content.quota, ttlMs };
      return changeOf(operation, "insert", [bytesOf(key), options], (isNew) =>
        isNew ? "written" : "present",
      );
    }
    const value = bytesOf(content.value);
    return changeOf(operation, "set", [bytesOf(key), value, { ttlMs }], () => "written");
  }

  #purge(): Change {
    const key = this.#stock.key(this.#random);
    const operation = { type: "remove", collection: "records", key } as const;
    return changeOf(operation, "purge", [bytesOf(key)], (isRemoved) =>
      isRemoved ? "removed" : "absent",
    );
  }

  /** A record of another server, which ends after the run whatever its shard's clock says. */
  #restore(): Change {
    const key = this.#stock.key(this.#random);
    const content = this.#content(key);
    const policy = this.#random.chance(0.5) ? "keep" : "replace";
    const value = content.kind === "buffer" ? { value: bytesOf(content.value) } : {};
    const record = { ...content, ...value, key: bytesOf(key), ...this.#end() };
    return changeOf(
      { type: "write", collection: "records", key, content, ttlMs: Infinity },
      "restore",
      [record as Parameters<typeof changeOf<"restore">>[2][0], { policy }],
      (result) => (result === "restored" ? "written" : "present"),
    );
  }

  #restorePair(): Change {
    const random = this.#random;
    const [consumer, resource] = [`${PREFIX}u${random.int(40)}`, `r${random.int(4)}`];
    const content = { kind: "counter", quota: this.#number() } as const;
    const key = `${consumer}/${resource}`;
    const pair = [bytesOf(consumer), bytesOf(resource)] as const;
    const policy = random.chance(0.5) ? "keep" : "replace";
    return changeOf(
      { type: "write", collection: "pairs", key, content, ttlMs: Infinity },
      "restore",
      [{ ...content, key: pair, ...this.#end() }, { policy }],
      (result) => (result === "restored" ? "written" : "present"),
    );
  }

  #end(): { readonly unit: "s"; readonly expiresAtNs: bigint } {
    return { unit: "s", expiresAtNs: BigInt(Math.ceil(this.#nowMs()) + LONG_TTL_MS) * NS_PER_MS };
  }

  #acquire(): Change {
    const random = this.#random;
    const name = this.#stock.semaphore(random);
    const leaseId = uuidOf(random);
    const ttlMs = Math.round(random.skewed(LEASE_MS.least, LEASE_MS.most));
    const key = `${name}/${leaseId}`;
    this.#leases.push(key);
    if (this.#leases.length > LEASES_KEPT) this.#leases.shift();
    return changeOf(
      { type: "write", collection: "leases", key, content: null, ttlMs },
      "acquire",
      [name, { maximum: MAXIMUM, ttlMs, leaseId }],
      (lease) => (lease === null ? "present" : "written"),
    );
  }

  #release(): Change {
    if (this.#leases.length === 0) return this.#acquire();
    const [key] = this.#leases.splice(this.#random.int(this.#leases.length), 1);
    const at = key!.lastIndexOf("/");
    const operation = { type: "remove", collection: "leases", key: key! } as const;
    return changeOf(operation, "release", [key!.slice(0, at), key!.slice(at + 1)], (isReleased) =>
      isReleased ? "removed" : "absent",
    );
  }

  #removeAll(): Change {
    const prefix = this.#stock.removedPrefix(this.#random);
    const operation = { type: "remove all", prefix } as const;
    return changeOf(operation, "removeAll", [prefix], () => "removed");
  }

  #content(key: string): Content {
    const number = this.#number();
    if (!isBuffer(key)) return { kind: "counter", quota: number };
    const random = this.#random;
    const text = `${number}.`;
    const bytes = Math.round(random.skewed(1, random.chance(0.05) ? 4096 : 64));
    return { kind: "buffer", value: text.padEnd(bytes, ".") };
  }

  /** That no other call of the run has. */
  #number(): bigint {
    return BigInt(this.#client) * 1_000_000n + BigInt(++this.#made);
  }
}

function uuidOf(random: Random): string {
  const hex = Buffer.from(random.bytes(16)).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
}
