/** Draws that stand between limiters and their server: counted ones, and wrong ones. */
import type { LimitBackend } from "../../../src/ratelimit/backend.ts";

/** A backend with other draws. */
export function withDraws(
  backend: LimitBackend,
  draws: Required<Pick<LimitBackend, "draw" | "drawMany">>,
): LimitBackend {
  return {
    limit: (request) => backend.limit(request),
    limitMany: (requests) => backend.limitMany(requests),
    peek: (request) => backend.peek(request),
    refund: (request) => backend.refund(request),
    reset: (request) => backend.reset(request),
    ...draws,
  };
}
