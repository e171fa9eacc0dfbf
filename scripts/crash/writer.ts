/**
 * One connection under load: keeps a number of requests under way and checks every reply.
 *
 * Most requests are on keys of its own, whose state it knows; some increase counters that all
 * connections share.
 */
import type { Request } from "../../src/wire/throttr/encode.ts";
import { Attribute, Change, STATUS_SUCCESS } from "../../src/wire/throttr/requests.ts";
import {
  agrees,
  describeAnswer,
  describeOperation,
  describeState,
} from "../../test/support/models/record.ts";
import { chooseRequest } from "./choice.ts";
import type { Client } from "./client.ts";
import type { OwnKey } from "./own-key.ts";
import type { Random } from "./random.ts";
import { answerOf, operationOf, outcomesOf } from "./record.ts";
import type { SharedCounter } from "./shared-counter.ts";
import { elapsed, span } from "./time.ts";
import type { Work } from "./work.ts";

/** A request is executed within this time, or the server is killed before it. */
const REQUEST_MS_MAX = 60_000;
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
    const sentMs = Date.now();
    const at = span(sentMs, sentMs + REQUEST_MS_MAX);
    const { protocol } = this.#client;
    const before = key.state;
    const request = chooseRequest(this.#random, protocol, key, at);
    const operation = operationOf(request, protocol);
    key.sent(operation, at);
    this.#client.request(request, (reply) => {
      key.acknowledged();
      const answer = answerOf(protocol, request.type, reply);
      const outcomes = outcomesOf(before, operation, span(sentMs, Date.now()));
      if (!outcomes.some((outcome) => agrees(outcome.answer, answer))) {
        const asked = operation === null ? describeRequest(request) : describeOperation(operation);
        const expected = outcomes.map((outcome) => describeAnswer(outcome.answer)).join(", or ");
        this.violations.push(
          `key ${key.name}: ${asked} on ${describeState(before, at, elapsed)}: ` +
            `expected ${expected}, found ${describeAnswer(answer)}`,
        );
      } else if (answer.success === true && !isRead(request)) this.acknowledgedWrites++;
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
      const quota = answerOf(protocol, "query", reply).record?.quota;
      if (quota !== undefined && counter.read(quota, min)) return;
      this.violations.push(
        `key ${counter.name}: expected ${min} to ${counter.max}, read ${quota ?? "no counter"}`,
      );
    });
  }
}

const isRead = ({ type }: Request): boolean => type === "query" || type === "get";

/** An UPDATE that the protocol does not have. */
function describeRequest(request: Request): string {
  if (request.type !== "update") return request.type.toUpperCase();
  const { attribute, change, value } = request;
  return `UPDATE, attribute ${attribute}, change ${change}, value ${value}`;
}
