/** What the platform does to a run: how long things take, and what goes wrong. A seed decides; `calm` lets nothing go wrong. */
import type { Random } from "../kernel/random.ts";
import type { NetworkFaults } from "./net/link.ts";

/** What becomes of a call to an object. */
export type CallFate =
  | "delivered"
  /** It never arrives; the caller learns of it. */
  | "lost"
  /** It is applied, and its answer never arrives. */
  | "answer lost"
  /** The object refuses it, as it has too much to do. */
  | "overloaded"
  /** The caller ends while it is on its way, and it arrives among those of the caller's next life. */
  | "caller ended";

/** What becomes of the writes of a turn. */
export type CommitFate = "durable" | "failed" | "durable, and reported as failed";

/** Whose life it is. */
export interface Mortal {
  /** The class of an object, `door` or `client`. */
  readonly kind: string;
  /** Whose code it runs; null for a client. */
  readonly release: string | null;
}

export interface Faults extends NetworkFaults {
  /** Whether a client sends a frame that no WebSocket may, in place of its message. */
  breaksFrame(): boolean;
  /** How long a client waits before it answers a close of the server, and sends meanwhile, in ms; 0 to answer at once. */
  leavesCloseMs(): number;
  /** Whether calls leave at once. Else they leave behind their event, when all that it has written is durable. */
  readonly hasEarlyCalls: boolean;
  /** Whether a life crashes at a call to the platform, or before an event. */
  crashesAt(life: Mortal, what: string): boolean;
  /** How long a message is on its way, in ms. */
  latencyMs(link: "object" | "client"): number;
  /**
   * How long others have the processor before a life has its next turn, in ms.
   *
   * @param kind of the life
   */
  turnMs(kind: string): number;
  /** How long the disk takes for a commit, in ms. */
  commitMs(): number;
  /** No commit has taken longer so far. */
  readonly commitMsMost: number;
  callFate(target: string, method: string): CallFate;
  /** @param step what the turn wrote last */
  commitFate(object: string, step: string): CommitFate;
  /** Whether the network parts an object from the rest while a commit of it is under way. */
  partsAt(object: string, step: string): boolean;
  /** A life calls another one, which runs the code of another release. */
  meet(caller: Mortal, callee: Mortal): void;
  /** The client of a request has gone that was not answered. */
  noteGone(what: string): void;
  /** From now on nothing goes wrong. */
  cease(): void;
  /** How much later than asked for an alarm rings, in ms. */
  alarmLateMs(): number;
}

/** A disk without faults commits within that, in ms. */
const CALM_COMMIT_MS = 10;

/** Nothing goes wrong; messages and commits take their time, so that their order is a matter of chance. */
export function calm(random: Random): Faults {
  return {
    hasEarlyCalls: false,
    clientStaysMs: () => Infinity,
    breaksFrame: () => false,
    leavesCloseMs: () => 0,
    noteGone: () => {},
    crashesAt: () => false,
    latencyMs: (link) => random.skewed(0.05, link === "object" ? 5 : 20),
    turnMs: () => 0,
    commitMs: () => random.skewed(0.2, CALM_COMMIT_MS),
    commitMsMost: CALM_COMMIT_MS,
    callFate: () => "delivered",
    commitFate: () => "durable",
    partsAt: () => false,
    meet: () => {},
    cease: () => {},
    alarmLateMs: () => random.skewed(0.1, 5),
  };
}
