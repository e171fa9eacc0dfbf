/**
 * What happened in a run: charges at the shard, by its own clock, and what isolates admitted, in true time. At the end it
 * says what broke the promise.
 *
 * The promise: dated back to its charge, at most a life earlier, each admission is part of a sequence that the strategy
 * itself admits. Units of a charge that its isolate has not given back count as spent, whether they were or not: lost
 * units were charged, too.
 */
import { Command } from "../../../src/wire/edge/command.ts";
import type { RateLimitConfiguration } from "../../../src/wire/ratelimit/configuration.ts";
import type { HeardFrame, HeardReply } from "./frames.ts";
import { judgeOf, lifeMsMaxOf, windowMsLeft, type Judge, type JudgedCharge } from "./judges.ts";

/** Machines go no more than this much faster or slower than another. */
export const DRIFT_MAX = 1e-4;

/** Commands at which the shard compares the state of their key with the one that it left. */
const COMPARING: readonly number[] = [Command.draw, Command.limit, Command.refund];

/** Units that were charged at once. */
interface Charge {
  readonly kind: "charge";
  readonly atNs: bigint;
  readonly state: string | null;
  readonly sender: number;
  readonly units: number;
  /** Units of them that the charge itself admits. */
  readonly cost: number;
  /** When the others must be spent, in true time. */
  readonly endMs: number;
  /** When the isolate had them. */
  deliveredMs: number;
  /** Units that the isolate has said it will not spend; null before it has said anything. */
  returned: number | null;
  isUndone: boolean;
}

/** The units of a draw that its isolate has not spent came back to the shard. */
interface Return {
  readonly kind: "return";
  readonly charge: Charge;
  isUndone: boolean;
}

/** Units that were given back to the state by a caller who had been granted them. */
interface Refund {
  readonly kind: "refund";
  readonly atNs: bigint;
  readonly units: number;
  isUndone: boolean;
}

/**
 * The state was replaced: what was charged before says nothing of what is charged after. If a replacement writes the state
 * that the last decision has left, nothing has changed: that state has the charges that it had.
 */
interface Replacement {
  readonly kind: "replacement";
  readonly state: string | null;
  readonly left: LeftState;
  isUndone: boolean;
}

/** What the last decision has left. All replacements until the next decision share it. */
interface LeftState {
  readonly state: string | null;
}

export type KeyEvent = Charge | Return | Refund | Replacement;

/** What an isolate granted. */
interface Admission {
  readonly atMs: number;
  /** When its clock was read last. */
  readonly readAtMs: number;
  readonly units: number;
  /** Decided without asking. */
  readonly isLocal: boolean;
}

/** What a message did. */
export interface Effects {
  readonly made: KeyEvent[];
  /** What its replies say: also a charge that an earlier message with the same idempotency key has made. */
  readonly shown: KeyEvent[];
}

/** A message as the shard has applied it. */
export interface Applied {
  readonly sender: number;
  readonly frames: readonly HeardFrame[];
  readonly replies: readonly HeardReply[];
  readonly trueMs: number;
  readonly atNs: bigint;
  /** By key, for strategies whose judge needs it. */
  readonly states: ReadonlyMap<string, string | null>;
  /** The state before a frame that replaces it, which is a batch of its own; else null. */
  readonly replaced: string | null;
}

export class History {
  readonly #configuration: RateLimitConfiguration;
  readonly #lifeMsMax: number;
  readonly #events = new Map<string, KeyEvent[]>();
  readonly #admissions = new Map<string, Admission[]>();
  /** By their numbers. */
  readonly #draws = new Map<number, Charge>();
  readonly #once = new Map<string, Charge>();
  /** By key: states that were replaced, until the next decision. */
  readonly #left = new Map<string, LeftState>();
  /** A charge that the message that is being noted has asked for once more. */
  readonly #repeated = new Set<KeyEvent>();
  /** Draws that limiters have asked for, and those that were sent and applied. */
  drawsAsked = 0;
  #drawsSent = 0;
  #drawsApplied = 0;
  /** What went wrong beside the promise. */
  readonly faults: string[] = [];

  constructor(configuration: RateLimitConfiguration) {
    this.#configuration = configuration;
    this.#lifeMsMax = lifeMsMaxOf(configuration);
  }

  /** An isolate has sent a message: what it gives back is no longer its own. */
  noteSent(frames: readonly HeardFrame[]): void {
    for (const { type, returns } of frames) {
      if (type === Command.draw) this.#drawsSent++;
      for (const { draw, units } of returns) {
        const charge = this.#draws.get(draw);
        // A return counts once, so one that comes again says nothing.
        if (charge !== undefined) charge.returned ??= units;
      }
    }
  }

  /** The shard has applied a message. */
  noteApplied(applied: Applied): Effects {
    const effects: Effects = { made: [], shown: [] };
    for (const [i, frame] of applied.frames.entries()) {
      // What a draw brings back is there for what it charges.
      this.#noteReturns(frame, effects);
      const event = this.#eventOf(frame, applied.replies[i]!, applied);
      if (event === null) continue;
      effects.shown.push(event);
      if (this.#repeated.delete(event)) continue;
      effects.made.push(event);
      listOf(this.#events, frame.key).push(event);
    }
    return effects;
  }

  #noteReturns({ key, returns }: HeardFrame, { made }: Effects): void {
    for (const { draw } of returns) {
      const charge = this.#draws.get(draw);
      if (charge === undefined) continue;
      const event: Return = { kind: "return", charge, isUndone: false };
      made.push(event);
      listOf(this.#events, key).push(event);
    }
  }

  /** The shard has restarted, and does not know what its last decisions have left. */
  noteRestart(): void {
    this.#left.clear();
  }

  #eventOf(frame: HeardFrame, reply: HeardReply, applied: Applied): KeyEvent | null {
    if (frame.type === Command.draw) this.#drawsApplied++;
    if (!reply.isSuccess) return null;
    const { atNs } = applied;
    if (COMPARING.includes(frame.type)) this.#left.delete(frame.key);
    switch (frame.type) {
      case Command.draw:
        return reply.units === 0 ? null : this.#noteDraw(frame, reply, applied);
      case Command.limit:
        return reply.isAllowed ? this.#noteLimit(frame, applied) : null;
      case Command.refund:
        return { kind: "refund", atNs, units: frame.cost, isUndone: false };
      case Command.purge:
        return this.#noteReplacement(frame, null, applied);
      case Command.set:
        return this.#noteReplacement(frame, frame.value, applied);
      default:
        return null;
    }
  }

  #noteReplacement({ key }: HeardFrame, state: string | null, { replaced }: Applied): Replacement {
    let left = this.#left.get(key);
    if (left === undefined) this.#left.set(key, (left = { state: replaced }));
    return { kind: "replacement", state, left, isUndone: false };
  }

  #noteDraw(frame: HeardFrame, { units, draw, isAllowed }: HeardReply, applied: Applied): Charge {
    const charge = this.#chargeOf(frame, units, isAllowed ? frame.cost : 0, applied);
    this.#draws.set(draw, charge);
    return charge;
  }

  /** A repeated call is charged once. */
  #noteLimit(frame: HeardFrame, applied: Applied): Charge {
    const once = frame.idempotencyKey;
    const before = once === null ? undefined : this.#once.get(once);
    if (before !== undefined && !before.isUndone) {
      this.#repeated.add(before);
      return before;
    }
    const charge = this.#chargeOf(frame, frame.cost, frame.cost, applied);
    if (once !== null) this.#once.set(once, charge);
    return charge;
  }

  #chargeOf(
    { key, leaseMs }: HeardFrame,
    units: number,
    cost: number,
    { atNs, trueMs, sender, states }: Applied,
  ): Charge {
    const state = states.get(key) ?? null;
    const left = windowMsLeft(this.#configuration, { atNs, state });
    const lifeMs = Math.min(leaseMs, this.#lifeMsMax, left);
    const endMs = trueMs + lifeMs * (1 + 2 * DRIFT_MAX);
    return {
      kind: "charge",
      atNs,
      state,
      sender,
      units,
      cost,
      endMs,
      deliveredMs: Infinity,
      returned: null,
      isUndone: false,
    };
  }

  noteAdmitted(sender: number, key: string, admission: Admission): void {
    listOf(this.#admissions, `${sender} ${key}`).push(admission);
  }

  /** What broke the promise; null when all is well. */
  violation(): string | null {
    const [fault] = this.faults;
    if (fault !== undefined) return fault;
    if (this.#drawsApplied > this.#drawsSent || this.#drawsSent > this.drawsAsked) {
      return `${this.drawsAsked} draws, sent ${this.#drawsSent} times, applied ${this.#drawsApplied} times`;
    }
    for (const [key, events] of this.#events) {
      const violation = this.#chargesViolation(events) ?? this.#admissionsViolation(key, events);
      if (violation !== null) return `${key}: ${violation}`;
    }
    return null;
  }

  /** The shard's side: what could ever be spent is what the strategy admits. */
  #chargesViolation(events: readonly KeyEvent[]): string | null {
    let judge = judgeOf(this.#configuration, null);
    // Before the first of replacements in a row: the state, and its judge.
    let [left, leftJudge]: [LeftState | null, Judge] = [null, judge];
    const judged = new Map<Charge, { readonly by: Judge; readonly as: JudgedCharge }>();
    for (const event of events) {
      if (event.isUndone) continue;
      if (event.kind === "replacement") {
        if (event.left !== left) [left, leftJudge] = [event.left, judge];
        const isSame = event.state === left.state;
        judge = isSame ? leftJudge : judgeOf(this.#configuration, event.state);
      } else if (event.kind === "refund") {
        judge.refund(event.atNs, event.units);
      } else if (event.kind === "return") {
        const charge = judged.get(event.charge);
        if (charge?.by === judge) judge.giveBack(charge.as);
        // A return counts once.
        judged.delete(event.charge);
      } else {
        const { atNs, state, returned } = event;
        const units = Math.max(event.cost, event.units - (returned ?? 0));
        const charge = { atNs, units, out: event.units - units, state };
        judged.set(event, { by: judge, as: charge });
        const violation = judge.charge(charge);
        if (violation !== null) return `at ${atNs}: ${violation}`;
      }
    }
    return null;
  }

  /** The side of isolates: what each admitted was charged for it, and not too long before. */
  #admissionsViolation(key: string, events: readonly KeyEvent[]): string | null {
    const charges = events.filter((event) => event.kind === "charge");
    for (const [id, admissions] of this.#admissions) {
      const [sender, of] = id.split(" ");
      if (of !== key) continue;
      const own = charges.filter((charge) => charge.sender === Number(sender));
      admissions.sort((a, b) => a.atMs - b.atMs);
      const asked = admissions.filter(({ isLocal }) => !isLocal);
      const violation =
        costsViolation(own, asked) ??
        allowancesViolation(
          own,
          admissions.filter(({ isLocal }) => isLocal),
        );
      if (violation !== null) return `isolate ${sender}: ${violation}`;
    }
    return null;
  }
}

function listOf<Item>(lists: Map<string, Item[]>, id: string): Item[] {
  let list = lists.get(id);
  if (list === undefined) lists.set(id, (list = []));
  return list;
}

const sumOf = (figures: readonly number[]): number => figures.reduce((sum, at) => sum + at, 0);

/** Of calls that the shard has decided. */
function costsViolation(
  charges: readonly Charge[],
  admissions: readonly Admission[],
): string | null {
  const delivered = charges.filter(({ deliveredMs }) => deliveredMs < Infinity);
  const charged = sumOf(delivered.map(({ cost }) => cost));
  const admitted = sumOf(admissions.map(({ units }) => units));
  return admitted > charged ? `admitted ${admitted} where the shard said ${charged}` : null;
}

interface Supply {
  readonly deliveredMs: number;
  readonly endMs: number;
  left: number;
}

/**
 * Of calls that were decided from an allowance: each unit is matched with one that had been delivered and had not ended,
 * those that end first being used up first. If that fails, no other way of matching succeeds.
 */
function allowancesViolation(
  charges: readonly Charge[],
  admissions: readonly Admission[],
): string | null {
  const coming: Supply[] = [];
  for (const { deliveredMs, endMs, units, cost, returned } of charges) {
    const left = units - cost - (returned ?? 0);
    if (left < 0) return `gave back ${returned} of ${units - cost}`;
    if (left > 0 && deliveredMs < Infinity) coming.push({ deliveredMs, endMs, left });
  }
  coming.sort((a, b) => a.deliveredMs - b.deliveredMs);
  let supplies: Supply[] = [];
  let next = 0;
  for (const { atMs, readAtMs, units } of admissions) {
    const before = next;
    while (next < coming.length && coming[next]!.deliveredMs <= atMs)
      supplies.push(coming[next++]!);
    if (next > before) supplies.sort((a, b) => a.endMs - b.endMs);
    // An event that computes for a while has the time of its start: what it spends then is so much older.
    supplies = supplies.filter(({ left, endMs }) => left > 0 && endMs >= readAtMs);
    let missing = units;
    for (const supply of supplies) {
      const taken = Math.min(missing, supply.left);
      supply.left -= taken;
      missing -= taken;
      if (missing === 0) break;
    }
    if (missing > 0) return `${missing} of ${units} units at ${atMs} without an allowance`;
  }
  return null;
}
