/** The body of a command as models read it, and of its reply as they expect it. */
import type { StoredDecision } from "../../../src/engine/ratelimit/limiter.ts";
import { f64 } from "../frames/bytes.ts";
import { uint, uintOf, unitNs } from "./values.ts";

/** A reply: its bytes, null where any byte will do; or the codes that it may be refused with. */
export type Expected =
  { readonly bytes: readonly (number | null)[] } | { readonly codes: readonly string[] };

/** A command is refused, with any of these codes. */
export class Refused extends Error {
  readonly codes: readonly string[];
  constructor(...codes: string[]) {
    super(codes.join());
    this.codes = codes;
  }
}

export interface Ttl {
  unit: number;
  count: bigint;
}

/** Reads the fields of a body. */
export class Body {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  take(count: number): number[] {
    if (count > this.left) throw new Refused("body_invalid");
    const from = this.#at;
    this.#at += count;
    return [...this.#bytes.subarray(from, this.#at)];
  }

  u8(): number {
    return this.take(1)[0]!;
  }

  u32(): number {
    return Number(uintOf(this.take(4)));
  }

  u64(): bigint {
    return uintOf(this.take(8));
  }

  f64(): number {
    return new DataView(Uint8Array.from(this.take(8)).buffer).getFloat64(0, true);
  }

  ttl(): Ttl {
    return { unit: this.u8(), count: this.u64() };
  }

  rest(): number[] {
    return this.take(this.left);
  }

  end(): void {
    if (this.left > 0) throw new Refused("body_invalid");
  }

  /** @param isMismatch it may be refused for the kind of the record, too */
  assertTtl({ unit, count }: Ttl, isMismatch = false): void {
    const codes = [
      ...(unitNs(unit) === 0n ? ["unit_invalid"] : []),
      ...(count === 0n ? ["ttl_invalid"] : []),
      ...(isMismatch ? ["kind_mismatch"] : []),
    ];
    if (codes.length > 0) throw new Refused(...codes);
  }
}

/** A decision as the text of its format has it. */
export function decisionBytes(decision: StoredDecision): number[] {
  const { quotas, retryAfterNs, resetNs } = decision;
  const quotaBytes = (
    quota: Pick<StoredDecision, "allowed" | "limit" | "remaining" | "resetNs">,
  ) => [
    (quota.allowed ? 1 : 0) | (quota.resetNs === null ? 2 : 0),
    ...f64(quota.limit),
    ...f64(quota.remaining),
    ...uint(quota.resetNs ?? 0n, 8),
  ];
  return [
    ...quotaBytes(decision),
    ...uint(resetNs === null ? 0n : retryAfterNs!, 8),
    quotas.length,
    ...quotas.flatMap(quotaBytes),
  ];
}
