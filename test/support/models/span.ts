/** What is known only to lie between two bounds, both inclusive: a time or a duration, in ms. */
export interface MsSpan {
  readonly fromMs: number;
  readonly toMs: number;
}
