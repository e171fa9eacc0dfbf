/** What a connection asks next of a key: a mix that fits what the model says is there. */
import type { Request } from "../../src/wire/throttr/encode.ts";
import type { Protocol } from "../../src/wire/throttr/protocol.ts";
import { Attribute, Change } from "../../src/wire/throttr/requests.ts";
import { leftAt, unitMs, valueMax, type RecordState } from "../../test/support/models/record.ts";
import type { MsSpan } from "../../test/support/models/span.ts";
import type { OwnKey } from "./own-key.ts";
import type { Random } from "./random.ts";
import { elapsed } from "./time.ts";

const HOUR_MS = 3_600_000;
/** TTLs are long: none may come to its end while a run lasts. */
const TTL_HOURS_MIN = 48;
const TTL_HOURS_MAX = 240;
/** What a decrease leaves. */
const LEFT_HOURS_MIN = 24;
/** Changes of a TTL are far larger than what is uncertain about an expiry. */
const CHANGE_HOURS_MIN = 2;
const CHANGE_HOURS_MAX = 20;

/** TTL types in which `TTL_HOURS_MAX` fit a value size, and which a read shows without saturation. */
const TTL_TYPES: Readonly<Record<number, readonly number[]>> = {
  4: [3, 4, 5, 6],
  8: [1, 2, 3, 4, 5, 6],
};

type Living = Exclude<RecordState, null>;
type Counter = Extract<Living, { kind: "counter" }>;

type Weights = readonly (readonly [weight: number, choose: () => Request])[];

/** The next request on a key of the connection's own. */
export function chooseRequest(
  random: Random,
  protocol: Protocol,
  key: OwnKey,
  at: MsSpan,
): Request {
  const choice = new Choice(random, protocol, key, at);
  const { state } = key;
  if (state === null) return choice.ofAbsent();
  return state.kind === "counter" ? choice.ofCounter(state) : choice.ofBuffer(state);
}

class Choice {
  readonly #random: Random;
  readonly #protocol: Protocol;
  readonly #key: OwnKey;
  readonly #at: MsSpan;

  constructor(random: Random, protocol: Protocol, key: OwnKey, at: MsSpan) {
    this.#random = random;
    this.#protocol = protocol;
    this.#key = key;
    this.#at = at;
  }

  ofAbsent(): Request {
    return this.#weighted([
      [55, () => this.#insert()],
      [35, () => this.#set()],
      [2, () => this.#update(Attribute.quota, Change.increase, 1n)],
      [2, () => this.#update(Attribute.ttl, Change.patch, 1n)],
      [2, () => this.#plain("purge")],
      [2, () => this.#plain("query")],
      [2, () => this.#plain("get")],
    ]);
  }

  ofCounter(state: Counter): Request {
    return this.#weighted([
      [60, () => this.#updateQuota(state)],
      [20, () => this.#updateTtl(state)],
      [6, () => this.#plain("purge")],
      [8, () => this.#plain("query")],
      [2, () => this.#insert()],
      [2, () => this.#set()],
      [1, () => this.#plain("get")],
      [1, () => this.#update(this.#random.pick([Attribute.quota, Attribute.ttl, 2]), 3, 1n)],
    ]);
  }

  ofBuffer(state: Living): Request {
    return this.#weighted([
      [50, () => this.#set()],
      [20, () => this.#updateTtl(state)],
      [12, () => this.#plain("purge")],
      [10, () => this.#plain("get")],
      [3, () => this.#insert()],
      [3, () => this.#update(Attribute.quota, Change.patch, 1n)],
      [2, () => this.#plain("query")],
    ]);
  }

  #weighted(weights: Weights): Request {
    let left = this.#random.between(1, 100);
    for (const [weight, choose] of weights) {
      left -= weight;
      if (left <= 0) return choose();
    }
    throw new RangeError("the weights must give 100");
  }

  #plain(type: "query" | "purge" | "get"): Request {
    return { type, key: this.#key.bytes };
  }

  #update(attribute: number, change: number, value: bigint): Request {
    return { type: "update", key: this.#key.bytes, attribute, change, value };
  }

  #insert(): Request {
    return { type: "insert", key: this.#key.bytes, quota: this.#quota(), ...this.#ttl() };
  }

  #set(): Request {
    const value = this.#random.bytes(this.#random.between(0, this.#key.valueBytesMax));
    return { type: "set", key: this.#key.bytes, value, ...this.#ttl() };
  }

  #quota(): bigint {
    if (this.#random.chance(80)) return BigInt(this.#random.between(0, 1000));
    return this.#random.u64() & this.#valueMax;
  }

  #ttl(): { ttlType: number; ttl: bigint } {
    // A type that does not exist, and a record that expires at once: both leave nothing.
    if (this.#random.chance(1)) return { ttlType: this.#random.pick([0, 7]), ttl: 1n };
    const ttlType = this.#random.pick(TTL_TYPES[this.#protocol.valueSize]!);
    if (this.#random.chance(1)) return { ttlType, ttl: 0n };
    return { ttlType, ttl: this.#hours(ttlType, TTL_HOURS_MIN, TTL_HOURS_MAX) };
  }

  /** Any of the three changes; those that leave the range are refused and must change nothing. */
  #updateQuota({ quota }: Counter): Request {
    const change = this.#random.pick([Change.patch, Change.increase, Change.decrease]);
    const isSmall = change === Change.decrease && quota < 1000n && this.#random.chance(90);
    const value = isSmall ? BigInt(this.#random.between(0, Number(quota))) : this.#quota();
    return this.#update(Attribute.quota, change, value);
  }

  #updateTtl({ unit, end }: Living): Request {
    const { ttl } = Attribute;
    if (this.#random.chance(3)) return this.#update(ttl, Change.patch, 0n);
    if (this.#random.chance(2)) return this.#update(ttl, Change.patch, this.#valueMax);
    if (this.#random.chance(30)) {
      return this.#update(ttl, Change.patch, this.#hours(unit, TTL_HOURS_MIN, TTL_HOURS_MAX));
    }
    const left = leftAt(end, this.#at, elapsed);
    const beyond = Math.ceil((left.toMs + HOUR_MS) / unitMs(unit));
    if (this.#random.chance(2) && beyond <= Number(this.#valueMax)) {
      return this.#update(ttl, Change.decrease, BigInt(beyond));
    }
    const value = this.#hours(unit, CHANGE_HOURS_MIN, CHANGE_HOURS_MAX);
    const canDecrease = left.fromMs - Number(value) * unitMs(unit) > LEFT_HOURS_MIN * HOUR_MS;
    const isDecrease = canDecrease && this.#random.chance(60);
    return this.#update(ttl, isDecrease ? Change.decrease : Change.increase, value);
  }

  /** A random duration in a unit. */
  #hours(unit: number, min: number, max: number): bigint {
    return BigInt(Math.round((this.#random.between(min, max) * HOUR_MS) / unitMs(unit)));
  }

  /** The largest number that a field of the door's value size can say. */
  get #valueMax(): bigint {
    return valueMax(this.#protocol.valueSize);
  }
}
