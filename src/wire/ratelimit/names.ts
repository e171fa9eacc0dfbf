/**
 * Names of the results of a decision, limit by limit. Source: rate limit reference, "Algorithms".
 *
 * A decision on the wire has results without names: both sides find the names in the configuration.
 */
import type { RateLimitConfiguration } from "./configuration.ts";

/** What has one limit only. */
const DEFAULT_NAME = "default";
const PRIMARY_PREFIX = "primary_";
const SECONDARY_PREFIX = "secondary_";

/**
 * The names of the results that a decision shows, in its order: those of quotas are theirs, a composite
 * has `primary_…` before `secondary_…`, all else has the one `default`.
 */
export function resultNames(configuration: RateLimitConfiguration): readonly string[] {
  switch (configuration.strategy) {
    case "fixed_window":
      return configuration.quotas.map(({ name }) => name);
    case "composite":
      return [
        ...resultNames(configuration.primary).map((name) => PRIMARY_PREFIX + name),
        ...resultNames(configuration.secondary).map((name) => SECONDARY_PREFIX + name),
      ];
    default:
      return [DEFAULT_NAME];
  }
}
