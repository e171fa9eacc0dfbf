/**
 * Progress: every call, connection and background task ends or goes on. What waits says for what, and each reason has a limit that
 * the product promises (docs/reference.md). A run where something waits and nothing is scheduled any more waits for ever.
 */
import type { Moment, Violation } from "./history.ts";
import { describeMoment } from "./order.ts";

/**
 * Why something waits. `peer`: for a peer that may be silent for ever, such as an idle connection. `answer`: for the server.
 * `unfinished`: for the rest of a frame of more than 1 KiB, or of a body. `unread`: for a TCP peer that does not read. `publish`:
 * for Hubs. `ending`: a connection is about to be closed. `flush`: for the row of a relaxed change. `holder`: for a vanished
 * holder to be found out.
 */
export type WaitReason =
  "peer" | "answer" | "unfinished" | "unread" | "publish" | "ending" | "flush" | "holder";

/** Something that has begun and has not ended. */
export interface Waiting {
  readonly kind: "call" | "connection" | "task";
  /** For messages. */
  readonly name: string;
  readonly reason: WaitReason;
  /** Since when it waits for this reason. */
  readonly since: Moment;
  /** When anything of it last went on: bytes came or went, a step was done. */
  readonly progressed: Moment;
}

export interface ProgressRules {
  /** Of the settings of the run. */
  readonly stallTimeoutMs: number;
  readonly holderTimeoutMs: number;
  /** The longest that a call may take in this run, with all the faults that it may meet one after the other. */
  readonly answerMs: number;
  /** How late faults of the run let timers, alarms and messages be. */
  readonly slackMs: number;
}

interface WaitLimit {
  /** Without any progress. */
  readonly quietMs: number;
  /** In all. */
  readonly totalMs: number;
}

/** A frame that goes on too slowly ends after so many stalls. */
const STALLS_MAX = 4;
const PUBLISH_MS = 2000;
const FLUSH_MS = 50;
const SHOWN = 5;
const PROMISE = "Progress";

function limitOf(reason: WaitReason, rules: ProgressRules): WaitLimit {
  const { stallTimeoutMs, holderTimeoutMs, answerMs, slackMs } = rules;
  const within = (quietMs: number, totalMs = Infinity): WaitLimit => ({
    quietMs: quietMs + slackMs,
    totalMs: totalMs + slackMs,
  });
  switch (reason) {
    case "peer":
      return within(Infinity);
    case "answer":
      return within(answerMs);
    case "unfinished":
      return within(stallTimeoutMs, STALLS_MAX * stallTimeoutMs);
    case "unread":
      return within(stallTimeoutMs);
    case "publish":
      return within(PUBLISH_MS + answerMs);
    case "ending":
      return within(answerMs);
    case "flush":
      return within(FLUSH_MS);
    case "holder":
      return within(holderTimeoutMs, holderTimeoutMs);
  }
}

/**
 * What waits at a moment of a run.
 *
 * @param isAnythingScheduled false when no event is left: whatever waits then, waits for ever
 */
export function checkProgress(
  waiting: readonly Waiting[],
  now: Moment,
  isAnythingScheduled: boolean,
  rules: ProgressRules,
): Violation[] {
  const violations: Violation[] = [];
  const violate = (subject: string, message: string): void => {
    violations.push({ promise: PROMISE, subject, message });
  };
  const stuck = waiting.filter(({ reason }) => reason !== "peer");
  if (!isAnythingScheduled && stuck.length > 0) {
    const names = stuck.slice(0, SHOWN).map(describe).join("; ");
    const more = stuck.length > SHOWN ? ` and ${stuck.length - SHOWN} more` : "";
    violate("the run", `nothing is scheduled any more, but ${stuck.length} wait: ${names}${more}`);
  }
  for (const one of waiting) {
    const { quietMs, totalMs } = limitOf(one.reason, rules);
    const sinceMs = now.ms - one.since.ms;
    const quietForMs = now.ms - Math.max(one.since.ms, one.progressed.ms);
    if (quietForMs > quietMs) {
      violate(
        one.name,
        `${describe(one)}, without progress for ${ms(quietForMs)}, at most ${ms(quietMs)} are promised`,
      );
    } else if (sinceMs > totalMs) {
      violate(
        one.name,
        `${describe(one)}, for ${ms(sinceMs)}, at most ${ms(totalMs)} are promised`,
      );
    }
  }
  return violations;
}

/** What a run has done up to a moment. */
export interface Checkpoint {
  readonly at: Moment;
  /** Calls that were begun, and those that have ended, whatever their outcome. */
  readonly begun: number;
  readonly ended: number;
  /** Requests that have ended: a listing is one call, and has as many as pages. */
  readonly requests: number;
}

/** A run makes progress: while calls are open, a call or a request ends before long. At the end of the run no call is open. */
export function checkRun(
  checkpoints: readonly Checkpoint[],
  { answerMs, slackMs }: ProgressRules,
): Violation[] {
  const violations: Violation[] = [];
  const violate = (message: string): void => {
    violations.push({ promise: PROMISE, subject: "the run", message });
  };
  const quietMs = answerMs + slackMs;
  /** Since when calls are open and none of them has ended. */
  let stalled: Checkpoint | null = null;
  for (const point of checkpoints) {
    const isOpen = point.ended < point.begun;
    if (stalled !== null && (!isOpen || hasEnded(point, stalled))) stalled = null;
    if (isOpen) stalled ??= point;
    if (stalled === null || point.at.ms - stalled.at.ms <= quietMs) continue;
    violate(
      `no call ended from ${describeMoment(stalled.at)} to ${describeMoment(point.at)} (${ms(point.at.ms - stalled.at.ms)}), but ${point.begun - point.ended} are open`,
    );
    return violations;
  }
  const last = checkpoints.at(-1);
  if (last === undefined || last.begun === 0) violate("no call was made");
  else if (last.ended === 0) violate(`none of ${last.begun} calls ended`);
  else if (last.ended < last.begun) violate(`${last.begun - last.ended} calls never ended`);
  return violations;
}

/** Whether a call or a request has ended between two checkpoints. */
const hasEnded = (point: Checkpoint, since: Checkpoint): boolean =>
  point.ended > since.ended || point.requests > since.requests;

function describe({ kind, name, reason, since }: Waiting): string {
  return `${kind} ${name} waits since ${describeMoment(since)} (${reason})`;
}

const ms = (duration: number): string => `${duration.toFixed(0)} ms`;
