/**
 * Charges limits of one or several shards: all of them, or none.
 *
 * Limits of one shard are one step of its engine. Over several shards each charges its part under an id, all at once;
 * if one refuses or does not answer in time, the door tells the others to give back what they charged under the id. So for
 * one round trip, a charge that is then given back may refuse other callers. A door that ends in between leaves its charges in
 * place: the limits then refuse too much, and never allow too much.
 */
import { hasMoved, refusalOf } from "../base/failure.ts";
import { inTime, withTimeout } from "../base/in-time.ts";
import { isUnknownMethod } from "../base/unknown-method.ts";
import type { LimitEntry } from "../engine/limit-all-entries.ts";
import { Refusal } from "../engine/refusal.ts";
import { MOVES_MAX } from "../engine/sizes.ts";
import { REPLY_HEADER_BYTES } from "../wire/edge/command.ts";
import { decisionBytes, readDecision } from "../wire/edge/decision.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { STATUS_SUCCESS } from "../wire/throttr/requests.ts";

/** How long a shard's answer to a charge is waited for where others have charged: they hold units back meanwhile. */
const CHARGE_MS = 5000;

/** The shards, as far as limits are charged together: see `ShardCalls`. A number names each. */
export interface ChargingShards {
  /** The shard that owns a key, as far as that is known. */
  shardOf(keyspace: number, bytes: Uint8Array, at: number, length: number): number;
  /** Name of its object, for the log. */
  nameOf(shard: number): string;
  /** A shard does not own what it was asked for: learns who does. */
  learn(shard: number): Promise<void>;
  limitAll(shard: number, body: Uint8Array, id: Uint8Array | null): Promise<Uint8Array>;
  cancelLimits(shard: number, body: Uint8Array, id: Uint8Array): Promise<void>;
}

/** What one shard has of the limits. */
interface Part {
  readonly shard: number;
  readonly entries: readonly LimitEntry[];
  /** The entries, as a body of their own. */
  readonly body: Uint8Array;
}

/** What names a charge over several shards. */
interface ChargeId {
  readonly bytes: Uint8Array;
  /** It was given back: a part must not be charged any more. */
  isCancelled: boolean;
  /** A shard has split, so that several charge a part: the outcome of the part does not say what each of them has done. */
  isDivided: boolean;
}

/** The answer of a shard. */
interface Answer {
  /** All of the part was charged. */
  readonly isCharged: boolean;
  /** Decisions, in the order of the part's entries. */
  readonly decisions: readonly Uint8Array[];
}

/**
 * Charges all entries, or none, and returns their decisions in order.
 *
 * @param newId 16 bytes that no other call has
 * @throws Refusal when nothing was charged; what a shard throws, when that is unknown
 */
export async function chargeTogether(
  shards: ChargingShards,
  entries: readonly LimitEntry[],
  newId: () => Uint8Array,
): Promise<Uint8Array[]> {
  for (let moves = 0; ; moves++) {
    const parts = partsOf(shards, entries);
    try {
      const answers =
        parts.length === 1
          ? [await charge(shards, parts[0]!, null)]
          : await chargeParts(shards, parts, {
              bytes: newId(),
              isCancelled: false,
              isDivided: false,
            });
      return decisionsOf(entries, parts, answers);
    } catch (error) {
      if (parts.length > 1 || moves >= MOVES_MAX || !hasMoved(error)) throw error;
      await shards.learn(parts[0]!.shard);
    }
  }
}

/** The decisions of parts, in the order of entries. */
function decisionsOf(
  entries: readonly LimitEntry[],
  parts: readonly Part[],
  answers: readonly Answer[],
): Uint8Array[] {
  const decisions = new Map(
    parts.flatMap((part, i) => part.entries.map((entry, j) => [entry, answers[i]!.decisions[j]!])),
  );
  return entries.map((entry) => decisions.get(entry)!);
}

function partsOf(shards: ChargingShards, entries: readonly LimitEntry[]): Part[] {
  const groups = new Map<number, LimitEntry[]>();
  for (const entry of entries) {
    const shard = shards.shardOf(Keyspace.throttr, entry.bytes, entry.keyAt, entry.keyBytes);
    groups.set(shard, [...(groups.get(shard) ?? []), entry]);
  }
  return [...groups].map(([shard, own]) => ({
    shard,
    entries: own,
    body: bodyOf(own),
  }));
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
  shards: ChargingShards,
  { shard, entries, body }: Part,
  id: Uint8Array | null,
): Promise<Answer> {
  try {
    return readAnswer(await shards.limitAll(shard, body, id), entries);
  } catch (error) {
    if (isUnknownMethod(error)) throw new Refusal(OLD_SHARD);
    throw error;
  }
}

/**
 * Charges the parts of several shards. Where not all is charged, what others have charged is given back before anything is
 * answered.
 *
 * @throws what a shard threw
 */
async function chargeParts(
  shards: ChargingShards,
  parts: readonly Part[],
  id: ChargeId,
): Promise<Answer[]> {
  const outcomes = await Promise.allSettled(
    parts.map((part) => withTimeout(chargePart(shards, part, id, 0), CHARGE_MS)),
  );
  const answers = outcomes.flatMap((outcome) =>
    outcome.status === "fulfilled" ? [outcome.value] : [],
  );
  if (answers.length === parts.length && answers.every(({ isCharged }) => isCharged)) {
    return answers;
  }
  id.isCancelled = true;
  const open = parts.filter((_, i) => id.isDivided || mayBeCharged(outcomes[i]!));
  await Promise.all(open.map((part) => cancel(shards, part, id)));
  const failures = outcomes.filter(({ status }) => status === "rejected");
  // What is unknown of one shard is unknown of the call, whatever another one says.
  const failure = failures.find(mayBeCharged) ?? failures[0];
  if (failure?.status === "rejected") throw failure.reason;
  return answers;
}

function mayBeCharged(outcome: PromiseSettledResult<Answer>): boolean {
  if (outcome.status === "fulfilled") return outcome.value.isCharged;
  return !(outcome.reason instanceof Refusal) && refusalOf(outcome.reason) === null;
}

/** Charges a part of the limits; where its shard has split meanwhile, at those that have the keys now. */
async function chargePart(
  shards: ChargingShards,
  part: Part,
  id: ChargeId,
  moves: number,
): Promise<Answer> {
  try {
    return await charge(shards, part, id.bytes);
  } catch (error) {
    if (moves >= MOVES_MAX || !hasMoved(error)) throw error;
    await shards.learn(part.shard);
    // Given back meanwhile: a charge that comes after its cancel would stay.
    if (id.isCancelled) throw error;
  }
  const own = partsOf(shards, part.entries);
  if (own.length > 1) id.isDivided = true;
  const answers = await Promise.all(own.map((each) => chargePart(shards, each, id, moves + 1)));
  const decisions = decisionsOf(part.entries, own, answers);
  return { isCharged: answers.every(({ isCharged }) => isCharged), decisions };
}

/** A cancel that fails is logged: its charge stays, and nothing is allowed that should not be. */
async function cancel(
  shards: ChargingShards,
  { shard, entries }: Part,
  id: ChargeId,
): Promise<void> {
  await inTime(cancelEntries(shards, entries, id, 0), shards.nameOf(shard), "cancel_failed");
}

/**
 * Cancels limits where they were charged, or may still arrive: at the shards that have their keys now. The shard that they
 * were first sent to may have split since, and takes a cancel of keys that it has given away for that of a charge to come.
 */
async function cancelEntries(
  shards: ChargingShards,
  entries: readonly LimitEntry[],
  id: ChargeId,
  moves: number,
): Promise<void> {
  const own = partsOf(shards, entries);
  await Promise.all(
    own.map(async (part) => {
      try {
        await shards.cancelLimits(part.shard, part.body, id.bytes);
      } catch (error) {
        if (moves >= MOVES_MAX || !hasMoved(error)) throw error;
        await shards.learn(part.shard);
        await cancelEntries(shards, part.entries, id, moves + 1);
      }
    }),
  );
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

const OLD_SHARD =
  "request_type_unknown: a shard still runs a release before 0.5.0, which cannot charge limits together; what other shards have charged is given back";
