/** What a single connection does between the loads: makes the shared counters, and compares all keys. */
import { STATUS_SUCCESS } from "../../src/wire/throttr/requests.ts";
import { describeAnswer, describeOperation } from "../../test/support/models/record.ts";
import type { MsSpan } from "../../test/support/models/span.ts";
import type { Client } from "./client.ts";
import type { OwnKey, Read } from "./own-key.ts";
import { answerOf, operationOf } from "./record.ts";
import type { SharedCounter } from "./shared-counter.ts";
import { span } from "./time.ts";
import { CrashViolation } from "./violation.ts";
import { ownKeysOf, type Work } from "./work.ts";

export interface Verdict {
  readonly verifiedKeys: number;
  readonly violations: readonly string[];
}

const READS = ["query", "get"] as const;
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
  const sentMs = Date.now();
  const found = await readKeys(
    client,
    [...own, ...shared].map(({ bytes }) => bytes),
  );
  const at = span(sentMs, Date.now());
  const violations = [
    ...own.map((key, index) => settleOwn(key, found[index]!, at)),
    ...shared.map((counter, index) => settleShared(counter, found[own.length + index]!)),
  ].filter((violation) => violation !== null);
  return { verifiedKeys: found.length, violations };
}

function settleOwn(key: OwnKey, reads: readonly Read[], at: MsSpan): string | null {
  if (key.settle(reads, at)) return null;
  return `key ${key.name}: expected\n${key.describeStates(at)}\n  found: ${textOf(reads)}`;
}

function settleShared(counter: SharedCounter, reads: readonly Read[]): string | null {
  const quotas = reads.flatMap(({ answer }) => answer.record?.quota ?? []);
  if (quotas.length === 1 && counter.settle(quotas[0]!)) return null;
  return `key ${counter.name}: expected ${counter.min} to ${counter.max}, found: ${textOf(reads)}`;
}

const textOf = (reads: readonly Read[]): string =>
  reads
    .map(({ operation, answer }) => `${describeOperation(operation)}: ${describeAnswer(answer)}`)
    .join("; ");

/** Asks for each key as a counter and as a buffer: what was found, in the order of the keys. */
async function readKeys(client: Client, keys: readonly Uint8Array[]): Promise<Read[][]> {
  const found = keys.map((): Read[] => []);
  const { protocol } = client;
  keys.forEach((key, index) => {
    for (const type of READS) {
      const request = { type, key };
      const operation = operationOf(request, protocol)!;
      client.request(request, (reply) => {
        found[index]!.push({ operation, answer: answerOf(protocol, type, reply) });
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
