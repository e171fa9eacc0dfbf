/**
 * LIMIT_ALL: several limits, all of which are charged, or none.
 *
 * Limits of one shard are one step of its engine. Over several shards each charges its part under an id, all at once;
 * where one refuses, or its answer stays out, the others are told to give back what they charged under the id. So for one
 * round trip other callers may be refused by a charge that does not last. A door that ends in between leaves charges
 * standing: too much may be refused then, and never too much allowed.
 */
import { missingRight, missingRightError, type Access } from "../base/access.ts";
import { presentMs } from "../base/clock.ts";
import { refusalOf } from "../base/failure.ts";
import { inTime, withTimeout } from "../base/in-time.ts";
import { shardName } from "../base/names.ts";
import { isUnknownMethod } from "../base/unknown-method.ts";
import { readEntries, type LimitEntry } from "../engine/limit-all-entries.ts";
import { Refusal } from "../engine/refusal.ts";
import type { ByteWriter } from "../wire/bytes.ts";
import { Command, REPLY_HEADER_BYTES } from "../wire/edge/command.ts";
import { decisionBytes, readDecision } from "../wire/edge/decision.ts";
import { EDGE } from "../wire/edge/operation.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { layoutsOf, STATUS_SUCCESS } from "../wire/throttr/requests.ts";
import { check, readParts } from "./scans.ts";
import type { ShardGroup } from "./shard-group.ts";

/** How long a shard's answer to a charge is waited for where others have charged: they hold units back meanwhile. */
const CHARGE_MS = 5000;

/** What one shard has of a LIMIT_ALL. */
interface Part {
  readonly shard: number;
  readonly entries: readonly LimitEntry[];
  /** The entries, as a body of their own. */
  readonly body: Uint8Array;
}

/** The answer of a shard. */
interface Answer {
  /** All of the part was charged. */
  readonly isCharged: boolean;
  /** Decisions, in the order of the part's entries. */
  readonly decisions: readonly Uint8Array[];
}

/**
 * Writes the answer to a LIMIT_ALL.
 *
 * @param newId 16 bytes that no other call has
 * @throws Refusal when nothing was charged; what a shard throws, when that is unknown
 */
export async function limitAll(
  shards: ShardGroup,
  frame: Uint8Array,
  access: Access,
  out: ByteWriter,
  newId: () => Uint8Array = randomId,
): Promise<void> {
  const { prefix, body } = readParts(frame, 1);
  check(prefix.length === 0, "key", "no bytes", prefix.length);
  const entries = readEntries(body);
  assertAllowed(entries, access);
  const parts = partsOf(shards, entries);
  const answers =
    parts.length === 1
      ? [await charge(shards, parts[0]!, null)]
      : await chargeTogether(shards, parts, newId());
  const decisions = new Map(
    parts.flatMap((part, i) => part.entries.map((entry, j) => [entry, answers[i]!.decisions[j]!])),
  );
  for (const entry of entries) out.copy(decisions.get(entry)!);
}

/** The frame has no key to see the rights by: each entry needs those of a LIMIT. */
function assertAllowed(entries: readonly LimitEntry[], access: Access): void {
  const layout = layoutsOf(EDGE)[Command.limit]!;
  for (const { bytes, keyAt, keyBytes } of entries) {
    const missing = missingRight(access, layout, bytes, keyAt, keyBytes);
    if (missing !== null) throw new Refusal(missingRightError(missing, layout, access).message);
  }
}

function partsOf({ map }: ShardGroup, entries: readonly LimitEntry[]): Part[] {
  const groups = Map.groupBy(entries, ({ bytes, keyAt, keyBytes }) =>
    map.shardOf(Keyspace.throttr, bytes, keyAt, keyBytes),
  );
  return [...groups].map(([shard, own]) => ({ shard, entries: own, body: bodyOf(own) }));
}

function bodyOf(entries: readonly LimitEntry[]): Uint8Array {
  const body = new Uint8Array(entries.reduce((sum, { at, end }) => sum + end - at, 1));
  body[0] = entries.length;
  let to = 1;
  for (const { bytes, at, end } of entries) {
    body.set(bytes.subarray(at, end), to);
    to += end - at;
  }
  return body;
}

/** @throws Refusal when the shard charged nothing */
async function charge(
  { placement, stub }: ShardGroup,
  { shard, entries, body }: Part,
  id: Uint8Array | null,
): Promise<Answer> {
  try {
    return readAnswer(await stub(shard).limitAll(placement, body, id, presentMs()), entries);
  } catch (error) {
    if (isUnknownMethod(error)) throw new Refusal(OLD_SHARD);
    throw error;
  }
}

/**
 * Charges the parts of several shards. Where not all is charged, what others have charged is given back before anything is
 * answered.
 *
 * @throws what the first shard threw that failed
 */
async function chargeTogether(
  shards: ShardGroup,
  parts: readonly Part[],
  id: Uint8Array,
): Promise<Answer[]> {
  const outcomes = await Promise.allSettled(
    parts.map((part) => withTimeout(charge(shards, part, id), CHARGE_MS)),
  );
  const answers = outcomes.flatMap((outcome) =>
    outcome.status === "fulfilled" ? [outcome.value] : [],
  );
  if (answers.length === parts.length && answers.every(({ isCharged }) => isCharged)) {
    return answers;
  }
  const open = parts.filter((_, i) => mayBeCharged(outcomes[i]!));
  await Promise.all(open.map((part) => cancel(shards, part, id)));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  return answers;
}

function mayBeCharged(outcome: PromiseSettledResult<Answer>): boolean {
  if (outcome.status === "fulfilled") return outcome.value.isCharged;
  return !(outcome.reason instanceof Refusal) && refusalOf(outcome.reason) === null;
}

/** A cancel that fails is logged: its charge stays, and nothing is allowed that should not be. */
async function cancel(
  { map, placement, stub }: ShardGroup,
  { shard, body }: Part,
  id: Uint8Array,
): Promise<void> {
  const name = shardName.format(map.namespace, shard);
  await inTime(stub(shard).cancelLimits(placement, body, id), name, "cancel_failed");
}

/** @throws Refusal when the shard says that it charged nothing, and why */
function readAnswer(reply: Uint8Array, entries: readonly LimitEntry[]): Answer {
  const body = reply.subarray(REPLY_HEADER_BYTES);
  if (reply[0] !== STATUS_SUCCESS) throw new Refusal(new TextDecoder().decode(body));
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  let at = 0;
  let isCharged = true;
  const decisions = entries.map(({ isShadow }) => {
    const end = at + decisionBytes(view, at);
    if (!isShadow && !readDecision(view, at).allowed) isCharged = false;
    const decision = body.subarray(at, end);
    at = end;
    return decision;
  });
  return { isCharged, decisions };
}

const randomId = (): Uint8Array => crypto.getRandomValues(new Uint8Array(16));

const OLD_SHARD =
  "request_type_unknown: a shard still runs a release before 0.5.0, which cannot charge limits together; nothing was charged";
