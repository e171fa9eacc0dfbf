/**
 * One connection under load: keeps a number of requests under way and checks every reply.
 *
 * Most requests are on keys of its own, whose state it knows; some increase counters that all
 * connections share.
 */
import type { Request } from "../../src/wire/throttr/encode.ts";
import { Attribute, Change, STATUS_SUCCESS } from "../../src/wire/throttr/requests.ts";
import { chooseRequest } from "./choice.ts";
import type { Client } from "./client.ts";
import type { State } from "./model.ts";
import {
  agrees,
  describe,
  observeGet,
  observeQuery,
  valueMaxOf,
  type Observation,
} from "./observation.ts";
import type { OwnKey } from "./own-key.ts";
import type { Random } from "./random.ts";
import type { SharedCounter } from "./shared-counter.ts";
import { nowNs, span, type Span } from "./span.ts";
import type { Work } from "./work.ts";

/** A request is executed within this time, or the server is killed before it. */
const REQUEST_NS_MAX = 60_000_000_000n;
/** Requests in a hundred that go to the shared counters. */
const SHARED_PERCENT = 15;
const SHARED_READS_PERCENT = 20;
const SHARED_AMOUNT_MAX = 100;
/** Requests in a hundred that go to the hot keys, and to those with large values. */
const HOT_PERCENT = 40;
const LARGE_PERCENT = 3;

export class Writer {
  /** Requests that change something and were acknowledged with success. */
  acknowledgedWrites = 0;
  readonly violations: string[] = [];
  readonly #client: Client;
  readonly #work: Work;
  readonly #random: Random;
  readonly #depth: number;

  /** @param depth requests that it keeps under way */
  constructor(client: Client, work: Work, random: Random, depth: number) {
    this.#client = client;
    this.#work = work;
    this.#random = random;
    this.#depth = depth;
    client.onReplies = () => this.#fill();
  }

  start(): void {
    this.#fill();
  }

  #fill(): void {
    if (this.violations.length > 0) return;
    while (this.#client.inFlight < this.#depth) {
      if (this.#random.chance(SHARED_PERCENT)) this.#askShared();
      else this.#askOwn();
    }
    this.#client.flush();
  }

  #askOwn(): void {
    const key = this.#pickOwn();
    const sentNs = nowNs();
    const at = span(sentNs, sentNs + REQUEST_NS_MAX);
    const { protocol } = this.#client;
    const before = key.state;
    const request = chooseRequest(this.#random, protocol, key, at);
    const isSuccess = key.sent(request, at, valueMaxOf(protocol));
    this.#client.request(request, (reply) => {
      key.acknowledged();
      this.#checkStatus(key.name, request, before, reply, isSuccess);
      if (isSuccess) this.#checkRead(key.name, request, before, reply, span(sentNs, nowNs()));
    });
  }

  #pickOwn(): OwnKey {
    const { hot, cold, large } = this.#work;
    if (this.#random.chance(LARGE_PERCENT)) return this.#random.pick(large);
    return this.#random.pick(this.#random.chance(HOT_PERCENT) ? hot : cold);
  }

  #askShared(): void {
    const counter = this.#random.pick(this.#work.shared);
    if (this.#random.chance(SHARED_READS_PERCENT)) this.#readShared(counter);
    else this.#increaseShared(counter);
  }

  #increaseShared(counter: SharedCounter): void {
    const value = BigInt(this.#random.between(1, SHARED_AMOUNT_MAX));
    const { quota: attribute } = Attribute;
    const { increase: change } = Change;
    counter.sent(value);
    this.#client.request(
      { type: "update", key: counter.bytes, attribute, change, value },
      (reply) => {
        if (reply[0] !== STATUS_SUCCESS) {
          this.violations.push(`key ${counter.name}: an increase was refused`);
          return;
        }
        counter.acknowledged(value);
        this.acknowledgedWrites++;
      },
    );
  }

  #readShared(counter: SharedCounter): void {
    const { min } = counter;
    const { protocol } = this.#client;
    this.#client.request({ type: "query", key: counter.bytes }, (reply) => {
      const found = observeQuery(protocol, reply, span(0n, 0n));
      const quota = found?.kind === "counter" ? found.quota : null;
      if (quota !== null && counter.read(quota, min)) return;
      this.violations.push(
        `key ${counter.name}: expected ${min} to ${counter.max}, read ${quota ?? "no counter"}`,
      );
    });
  }

  #checkStatus(
    name: string,
    request: Request,
    before: State,
    reply: Uint8Array,
    isSuccess: boolean,
  ): void {
    const expected = isSuccess ? 1 : 0;
    if (reply[0] !== expected) {
      this.violations.push(
        `key ${name}: ${describeRequest(request)} on ${describe(before, nowNs())}: ` +
          `expected status ${expected}, found ${reply[0]}`,
      );
    } else if (isSuccess && request.type !== "query" && request.type !== "get") {
      this.acknowledgedWrites++;
    }
  }

  #checkRead(name: string, request: Request, before: State, reply: Uint8Array, at: Span): void {
    const found = observe(this.#client, request, reply, at);
    if (found === null || agrees(before, found)) return;
    const now = nowNs();
    this.violations.push(
      `key ${name}: expected ${describe(before, now)}, read ${describe(found, now)}`,
    );
  }
}

function observe(
  { protocol }: Client,
  request: Request,
  reply: Uint8Array,
  at: Span,
): Observation | null {
  if (request.type === "query") return observeQuery(protocol, reply, at);
  return request.type === "get" ? observeGet(protocol, reply, at) : null;
}

/** A request without its key and value, for a message. */
function describeRequest(request: Request): string {
  const fields = Object.entries(request).filter(([name]) => name !== "key" && name !== "type");
  const texts = fields.map(([name, field]: [string, unknown]) =>
    field instanceof Uint8Array ? `${name} of ${field.length} bytes` : `${name} ${String(field)}`,
  );
  return [request.type.toUpperCase(), ...texts].join(", ");
}
