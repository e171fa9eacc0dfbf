/** Refuses batches of a deployment that spreads keys in another way than the data of the namespace was spread. */
import { variableName } from "../../base/deployment.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Placement } from "../../wire/batch.ts";

/** Where it is written how data comes under another secret. */
const MOVING = "docs/moving.md#another-shard-secret-or-jurisdiction";

/**
 * For callers of releases before 0.5.0, and for those that know no ranges.
 *
 * @throws ThrottrError `shards_mismatch`
 */
export function assertSamePlacement(inForce: Placement, asked: Placement): void {
  if (inForce.shards !== asked.shards) {
    const variable = variableName("SHARDS");
    throw new ThrottrError(
      "shards_mismatch",
      `the data of this namespace was written with ${variable}=${inForce.shards}, ` +
        `and this caller, of a release before 0.5, has ${variable}=${asked.shards}: update it, or set it to ${inForce.shards}`,
    );
  }
  assertSameSeed(inForce, asked);
}

type Seeded = Pick<Placement, "fingerprint">;

/** @throws ThrottrError `shards_mismatch` */
export function assertSameSeed(inForce: Seeded, asked: Seeded): void {
  if (inForce.fingerprint !== asked.fingerprint) {
    throw new ThrottrError(
      "shards_mismatch",
      `the data of this namespace was written with another ${variableName("SHARD_SECRET")}: set it back, or move the data: ${MOVING}`,
    );
  }
}
