/** What a single connection does between the loads: makes the shared counters, and compares all keys. */
import { STATUS_SUCCESS } from "../../src/wire/throttr/requests.ts";
import type { Client } from "./client.ts";
import { ABSENT } from "./model.ts";
import { describe, observeGet, observeQuery, type Observation } from "./observation.ts";
import type { OwnKey } from "./own-key.ts";
import type { SharedCounter } from "./shared-counter.ts";
import { nowNs, span } from "./span.ts";
import { CrashViolation } from "./violation.ts";
import { ownKeysOf, type Work } from "./work.ts";

export interface Verdict {
  readonly verifiedKeys: number;
  readonly violations: readonly string[];
}

const READS = [
  ["query", observeQuery],
  ["get", observeGet],
] as const;
const TTL_TYPE_HOURS = 6;
/** More than any run takes. */
const SHARED_TTL_HOURS = 10_000n;

/**
 * Creates the shared counters, with 0 in them.
 *
 * @throws CrashViolation when one can't be created
 */
export async function createShared(
  client: Client,
  shared: readonly SharedCounter[],
): Promise<void> {
  let created = 0;
  for (const { bytes: key } of shared) {
    const ttl = { ttlType: TTL_TYPE_HOURS, ttl: SHARED_TTL_HOURS };
    client.request({ type: "insert", key, quota: 0n, ...ttl }, ([status]) => {
      created += status === STATUS_SUCCESS ? 1 : 0;
    });
  }
  await answers(client);
  if (created < shared.length) {
    throw new CrashViolation("the shared counters could not be created");
  }
}

/** Reads the keys of all connections, and settles each on what was found. */
export async function verify(client: Client, works: readonly Work[]): Promise<Verdict> {
  const own = works.flatMap(ownKeysOf);
  const shared = [...new Set(works.flatMap((work) => work.shared))];
  const found = await readKeys(
    client,
    [...own, ...shared].map(({ bytes }) => bytes),
  );
  const violations = [
    ...own.map((key, index) => settleOwn(key, found[index]!)),
    ...shared.map((counter, index) => settleShared(counter, found[own.length + index]!)),
  ].filter((violation) => violation !== null);
  return { verifiedKeys: found.length, violations };
}

function settleOwn(key: OwnKey, found: readonly Observation[]): string | null {
  const now = nowNs();
  const problem = (text: string): string =>
    `key ${key.name}: expected\n${key.describeStates(now)}\n  found: ${text}`;
  if (found.length > 1) return problem("a counter and a buffer at once");
  const only = found[0] ?? ABSENT;
  return key.settle(only) ? null : problem(describe(only, now));
}

function settleShared(counter: SharedCounter, found: readonly Observation[]): string | null {
  const [only] = found;
  if (only?.kind === "counter" && counter.settle(only.quota)) return null;
  const text = only === undefined ? "absent" : describe(only, nowNs());
  return `key ${counter.name}: expected ${counter.min} to ${counter.max}, found: ${text}`;
}

/** Asks for each key as a counter and as a buffer: what was found, in the order of the keys. */
async function readKeys(client: Client, keys: readonly Uint8Array[]): Promise<Observation[][]> {
  const found = keys.map((): Observation[] => []);
  const sentNs = nowNs();
  keys.forEach((key, index) => {
    for (const [type, observe] of READS) {
      client.request({ type, key }, (reply) => {
        const observation = observe(client.protocol, reply, span(sentNs, nowNs()));
        if (observation !== null) found[index]!.push(observation);
      });
    }
  });
  await answers(client);
  return found;
}

/** Sends the requests that were added; resolves when all are answered. */
async function answers(client: Client): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    client.onReplies = () => {
      if (client.inFlight === 0) resolve();
    };
    void client.ended.then(() =>
      reject(new CrashViolation("the server closed the connection before it had answered")),
    );
    client.flush();
  });
}
