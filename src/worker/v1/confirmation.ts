/** The name of a namespace in a body, as a confirmation of what cannot be undone. */
import { ThrottrError } from "../../wire/edge/error.ts";
import { shown } from "../../wire/ratelimit/error.ts";
import type { Caller } from "../caller.ts";

/**
 * Checks that a body names the caller's own namespace. A flush cannot be undone, and a script with the wrong token would
 * flush another namespace.
 *
 * @throws ThrottrError `namespace_mismatch`
 */
export function assertNamespace({ namespace }: { namespace: string }, { access }: Caller): void {
  if (namespace === access.namespace) return;
  throw new ThrottrError(
    "namespace_mismatch",
    `namespace: expected ${access.namespace}, the caller's, got ${shown(namespace)}; nothing was changed`,
  );
}
