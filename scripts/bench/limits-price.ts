/** What a million checks cost on the platform, from what it has counted. */
import type { MeterFigures } from "./workers/check-load.ts";

/** List prices of Durable Objects on the paid plan, beyond what it includes. */
export const PRICES = {
  dollarsPerMillionRequests: 0.15,
  dollarsPerMillionRows: 1,
  dollarsPerMillionGbS: 12.5,
  /** What an object is billed for while it is awake. */
  objectGb: 0.128,
} as const;

/** Per million checks. */
export interface Bill {
  readonly requests: number;
  readonly rows: number;
  /** For requests and rows. */
  readonly dollars: number;
  /** Duration at most: as if all objects that could be at work were all the while. */
  readonly gbS: number;
  readonly gbSDollars: number;
}

/** @param objects that are at work at once, at most */
export function billOf(
  { requests, rowsWritten }: MeterFigures,
  checks: number,
  checksPerS: number,
  objects: number,
): Bill {
  const requestsPerCheck = requests / checks;
  const rowsPerCheck = rowsWritten / checks;
  const gbS = (PRICES.objectGb * objects * 1e6) / checksPerS;
  return {
    requests: requestsPerCheck * 1e6,
    rows: rowsPerCheck * 1e6,
    dollars:
      requestsPerCheck * PRICES.dollarsPerMillionRequests +
      rowsPerCheck * PRICES.dollarsPerMillionRows,
    gbS,
    gbSDollars: (gbS / 1e6) * PRICES.dollarsPerMillionGbS,
  };
}
