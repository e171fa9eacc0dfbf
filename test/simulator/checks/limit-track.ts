/** What happened to one limit, as far as calls tell: charges, gifts and figures, each at some moment of a span of true time. */
import type { LimitResult } from "../../../src/wire/edge/limit.ts";
import type { MsSpan } from "../../support/models/span.ts";

/** Units that left a limit. */
export interface Charge {
  /** When it was made, in true time. */
  readonly span: MsSpan;
  /** Units that a client was granted for certain. */
  readonly least: number;
  /** Units that it may have taken. */
  readonly most: number;
  /** What it has taken once its span is over, where a part came back within: `most` unless given. */
  readonly mostAfter?: number;
  readonly result: LimitResult | null;
  readonly by: string;
}

/** Units that came back. */
export interface Gift {
  readonly span: MsSpan;
  readonly units: number;
  /** More may be granted for it; else a charge that was never granted is taken back. */
  readonly isFreeOfCharge: boolean;
  /** When the charge was made that it takes back, in true time, where that is known to be without it. */
  readonly charged?: MsSpan;
}

/** What a limit said is left, after a charge of its own. */
export interface Figure {
  readonly span: MsSpan;
  /** What was charged: 0 where it refused, and for a look. */
  readonly cost: number;
  /** What was asked for: 1 for a look. */
  readonly asked: number;
  readonly result: LimitResult;
  readonly by: string;
}

/** All that happened to a limit. */
export interface LimitTrack {
  readonly charges: Charge[];
  readonly gifts: Gift[];
  readonly figures: Figure[];
  /** From then on something else may change what is left, in true time: allowances, relaxed calls, debts. */
  exactUntilMs: number;
}

/** Doubles and whole units are rounded. */
export const ROUNDING = 1e-6;

export const emptyTrack = (): LimitTrack => ({
  charges: [],
  gifts: [],
  figures: [],
  exactUntilMs: Infinity,
});

/** Something that these checks leave out begins to change what is left. */
export function noteInexact(track: LimitTrack, fromMs: number): void {
  track.exactUntilMs = Math.min(track.exactUntilMs, fromMs);
}

/** Figures that follow from charges and gifts alone. */
export const exactFigures = ({ figures, exactUntilMs }: LimitTrack): Figure[] =>
  figures.filter(({ span }) => span.toMs < exactUntilMs);

/** Gifts but those that had come back within a span with their charge, which then is as if it had never had these units. */
export const giftsBeyond = (gifts: readonly Gift[], within: MsSpan): Gift[] =>
  gifts.filter(
    ({ span, charged }) =>
      charged === undefined || !isInside(charged, within) || !isInside(span, within),
  );

const isInside = (span: MsSpan, { fromMs, toMs }: MsSpan): boolean =>
  span.fromMs > fromMs && span.toMs < toMs;

/** @param most units of a fresh limit: no gift restores more, and a reset is a gift, too */
export function givenWithin(
  gifts: readonly Gift[],
  { fromMs, toMs }: MsSpan,
  most: number,
): number {
  let units = 0;
  for (const { span, units: given } of gifts) {
    if (span.fromMs <= toMs && span.toMs >= fromMs) units += Math.min(given, most);
  }
  return units;
}
