/**
 * A key that one connection alone writes to: every state that it may be found in after a crash.
 *
 * The requests of a connection on one key are executed in the order sent. So after a crash the key is
 * as after its last acknowledged request, or as after any later one that was sent.
 */
import type { Request } from "../../src/wire/throttr/encode.ts";
import { ABSENT, execute, type State } from "./model.ts";
import { combine, describe, type Observation } from "./observation.ts";
import { hull, type Span } from "./span.ts";

export class OwnKey {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Largest value that it is set to, in bytes. */
  readonly valueBytesMax: number;
  /** After the last acknowledged request, and after each later one that was sent. */
  #states: State[] = [ABSENT];

  /** @param keyBytesMin a shorter name is filled up to so many bytes */
  constructor(name: string, keyBytesMin: number, valueBytesMax: number) {
    this.name = name;
    this.bytes = new TextEncoder().encode(name.padEnd(keyBytesMin, "-"));
    this.valueBytesMax = valueBytesMax;
  }

  /** As the next request will find it. */
  get state(): State {
    return this.#states.at(-1)!;
  }

  /** Requests that were sent and not acknowledged. */
  get inDoubt(): number {
    return this.#states.length - 1;
  }

  /** Notes that a request is sent; true when its reply must be success. */
  sent(request: Request, at: Span, valueMax: bigint): boolean {
    const { state, isSuccess } = execute(this.state, request, at, valueMax);
    this.#states.push(state);
    return isSuccess;
  }

  /** Notes that the earliest request in doubt is answered. */
  acknowledged(): void {
    this.#states.shift();
  }

  /** Goes on from what was found after a crash. False when it can't be: then nothing changes. */
  settle(found: Observation): boolean {
    const possible = this.#states
      .map((state) => combine(state, found))
      .filter((state) => state !== null);
    if (possible.length === 0) return false;
    this.#states = [possible.reduce(merge)];
    return true;
  }

  /** What the key may be, for a message. */
  describeStates(nowNs: bigint): string {
    const [acknowledged, ...later] = this.#states.map((state) => describe(state, nowNs));
    const unanswered = later.map(
      (text, index) => `  or, with ${index + 1} not acknowledged: ${text}`,
    );
    return [`  after the acknowledged requests: ${acknowledged}`, ...unanswered].join("\n");
  }
}

/** Two states that both agree with what was found differ in their expiry alone. */
function merge(a: State, b: State): State {
  if (a.kind === "absent" || b.kind === "absent") return a;
  return { ...a, expires: hull(a.expires, b.expires) };
}
