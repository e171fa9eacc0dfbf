/** The recorded exchanges over every door. */
import { reset } from "cloudflare:test";
import { afterEach, describe, expect, inject, it } from "vitest";
import { hex, unhex } from "../support/frames/index.ts";
import { DOORS, post, type Door } from "../support/pool/doors.ts";

interface Exchange {
  size: string;
  scenario: string;
  step: number;
  /** A connection, or a connection and `.push`: what arrives there unasked. */
  conn: string;
  name: string;
  request_hex: string;
  response_hex: string;
  volatile: [offset: number, length: number, what: string][];
  sleep_before_ms?: number;
}

/** What a body of HTTP can't do, by scenario. */
const NOT_OVER_HTTP: Readonly<Record<string, string>> = {
  framing: "cuts frames, which a body can't",
  pubsub: "needs connections",
  pipeline_outstanding_1000: "needs a connection",
};
/** SUBSCRIBE, UNSUBSCRIBE, WHOAMI. */
const NEEDS_CONNECTION = /^(11|12|18)/;

const TTL_SLACK = 3;
const ID_BYTES = 16;

const scenarios = Map.groupBy(
  inject("throttrVectors")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Exchange),
  ({ size, scenario }) => `${size} ${scenario}`,
);

afterEach(async () => {
  await reset();
});

it("there are recorded exchanges to compare with", () => {
  expect(scenarios.size).toBeGreaterThan(0);
});

describe.each(Object.entries(DOORS))("vectors over %s", (doorName, open) => {
  for (const [title, steps] of scenarios) {
    const { size, scenario } = steps[0]!;
    if (doorName === "HTTP" && scenario in NOT_OVER_HTTP) {
      it.skip(`${title}: ${NOT_OVER_HTTP[scenario]}`, () => {});
      continue;
    }
    it(title, async () => {
      const doors = new Doors(steps, open);
      await doors.open(size);
      for (const step of steps) {
        if (doorName === "HTTP" && NEEDS_CONNECTION.test(step.request_hex)) {
          const response = await post("7.3", size, unhex(step.request_hex));
          expect(await response.json()).toMatchObject({ status: 400, code: "needs_connection" });
        } else {
          expectReply(doors, step, await doors.reply(step));
        }
      }
      await doors.close();
    });
  }
});

class Doors {
  readonly #open: (dialect: string, size: string) => Promise<Door>;
  readonly #names: readonly string[];
  readonly #doors = new Map<string, Door>();
  /** Recorded connection ids and the live ones that stand for them. */
  readonly #ids = new Map<string, string>();

  constructor(steps: readonly Exchange[], open: (dialect: string, size: string) => Promise<Door>) {
    this.#names = [...new Set(steps.map(({ conn }) => conn.split(".")[0]!))];
    this.#open = open;
  }

  async open(size: string): Promise<void> {
    for (const name of this.#names) this.#doors.set(name, await this.#open("7.3", size));
  }

  async close(): Promise<void> {
    for (const door of this.#doors.values()) await door.close();
  }

  /** What a step gets back. */
  async reply(step: Exchange): Promise<Uint8Array> {
    if (step.sleep_before_ms !== undefined) await scheduler.wait(step.sleep_before_ms);
    if (step.name.includes("closed connection")) await this.#closeOne("C");
    const expected = unhex(step.response_hex);
    const door = this.#doors.get(step.conn.split(".")[0]!)!;
    const reply = await door.exchange(unhex(this.withLiveIds(step.request_hex)), expected.length);
    if (step.name.startsWith("WHOAMI")) this.#learnId(expected, reply);
    return reply;
  }

  async #closeOne(name: string): Promise<void> {
    await this.#doors.get(name)!.close();
    this.#doors.delete(name);
    await scheduler.wait(50);
  }

  #learnId(recorded: Uint8Array, live: Uint8Array): void {
    const id = (reply: Uint8Array): string => hex(reply.subarray(1, 1 + ID_BYTES));
    this.#ids.set(id(recorded), id(live));
  }

  /** Puts live ids where recorded ones stand: as bytes, as hex text, as hex text in capitals. */
  withLiveIds(bytes: string): string {
    const asText = (text: string): string => hex(new TextEncoder().encode(text));
    let out = bytes;
    for (const [recorded, live] of this.#ids) {
      out = out
        .replaceAll(recorded, live)
        .replaceAll(asText(recorded), asText(live))
        .replaceAll(asText(recorded.toUpperCase()), asText(live.toUpperCase()));
    }
    return out;
  }
}

function expectReply(doors: Doors, step: Exchange, reply: Uint8Array): void {
  const expected = unhex(doors.withLiveIds(step.response_hex));
  const masked = reply.slice();
  for (const [offset, length, what] of step.volatile) {
    if (what === "ttl") {
      const difference = uint(reply, offset, length) - uint(expected, offset, length);
      expect(Math.abs(difference), `${step.name}: ttl`).toBeLessThanOrEqual(TTL_SLACK);
    }
    masked.set(expected.subarray(offset, offset + length), offset);
  }
  expect(hex(masked), `step ${step.step}: ${step.name}`).toBe(hex(expected));
}

function uint(bytes: Uint8Array, at: number, width: number): number {
  let value = 0;
  for (let i = width - 1; i >= 0; i--) value = value * 256 + (bytes[at + i] ?? 0);
  return value;
}
