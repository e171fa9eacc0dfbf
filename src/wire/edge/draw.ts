/** The operation DRAW: units of a limit that a caller spends without asking for each. Bytes: `drawn.ts`. */
import type { ByteWriter } from "../bytes.ts";
import { writeConfiguration } from "../ratelimit/binary.ts";
import { integerOf, objectOf } from "./argument.ts";
import { Command } from "./command.ts";
import { readDecision } from "./decision.ts";
import { LEASE_MS, LEASE_MS_MAX, LEASE_MS_MIN, readDrawn } from "./drawn.ts";
import { checked, limitOf, limitResultOf, type LimitResult } from "./limit.ts";
import type { LimitRequest } from "./limits.ts";
import { onKey } from "./on-key.ts";
import { checkReturns, writeReturns, type DrawReturn } from "./returns.ts";
import type { CommandReply, Operation } from "./operation.ts";

export type { DrawReturn } from "./returns.ts";

/** What a caller asks an allowance for. */
export interface DrawRequest extends Pick<LimitRequest, "name" | "key" | "strategy"> {
  /** Units that are needed now: they are granted, or refused as by `limit`. An integer from 0; 1 unless given. */
  readonly cost?: number | undefined;
  /**
   * Units that the caller expects to need while they live, an integer from 0; 0 unless given. It gets at most a quarter of
   * what remains.
   */
  readonly wanted?: number | undefined;
  /** The longest life of the units, in ms, 50 to 10,000; 1,000 unless given. */
  readonly leaseMs?: number | undefined;
  /** Units of earlier draws that are given back, at most 64. */
  readonly returns?: readonly DrawReturn[] | undefined;
  /** Requests that the caller has granted from its units since its last draw, for the figures of the limit. */
  readonly granted?: number | undefined;
  /** Requests that the caller has refused by itself since its last draw. */
  readonly refused?: number | undefined;
}

/** What was drawn. */
export interface DrawResult extends LimitResult {
  /** Units that were charged, those of the cost among them. */
  readonly units: number;
  /** Names the draw, to give back what is not spent; null without units. */
  readonly draw: number | null;
  /** How long the units may be spent, in ms, from the moment at which the request was sent; 0 without units. */
  readonly lifeMs: number;
  /**
   * How long to wait before the next draw, in ms; longer the more callers wait for the same key. After a refusal, and after
   * fewer units than were wanted while others wait; else 0.
   */
  readonly pauseMs: number;
}

const CODE = "draw_invalid";

export function draw(request: DrawRequest): Operation<DrawResult> {
  const {
    cost = 1,
    wanted = 0,
    leaseMs = LEASE_MS,
    returns = [],
    granted = 0,
    refused = 0,
  } = objectOf(request, "request", "name, key and strategy");
  const { configuration, key } = checked(() => limitOf(request));
  checkAmount("cost", cost);
  checkAmount("wanted", wanted);
  integerOf(leaseMs, "leaseMs", LEASE_MS_MIN, LEASE_MS_MAX, CODE);
  checkAmount("granted", granted);
  checkAmount("refused", refused);
  checkReturns(returns);
  const body = (out: ByteWriter): void => {
    out.u16(leaseMs);
    for (const figure of [wanted, cost, granted, refused]) out.f64(figure);
    writeReturns(out, returns);
    writeConfiguration(out, configuration);
  };
  const read = (reply: CommandReply): DrawResult => ({
    ...limitResultOf(configuration, readDecision(reply.view, 0)),
    ...readDrawn(reply.view),
  });
  return onKey(Command.draw, key, {}, read, body);
}

function checkAmount(field: string, amount: number): void {
  integerOf(amount, field, 0, Number.MAX_SAFE_INTEGER, CODE);
}
