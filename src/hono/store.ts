/** The store of hono-rate-limiter, so that its users need change but one line. */
import {
  ThrottrStore as Store,
  type ThrottrStoreOptions,
} from "../adapters/express-rate-limit/store.ts";

const PREFIX = "hrl:";

/**
 * A `Store` of hono-rate-limiter 0.5: that of `throttr-edge/express-rate-limit`, with `hrl:` as the prefix unless given.
 *
 * @example
 * import { rateLimiter } from "hono-rate-limiter";
 * import { ThrottrStore } from "throttr-edge/hono";
 *
 * app.use(
 *   rateLimiter({
 *     windowMs: 60_000,
 *     limit: 100,
 *     keyGenerator: (c) => c.req.header("cf-connecting-ip") ?? "unknown",
 *     store: new ThrottrStore({ throttr }),
 *   }),
 * );
 */
export class ThrottrStore extends Store {
  /** @throws RateLimitError `configuration_invalid`, ThrottrError `option_invalid` */
  constructor(options: ThrottrStoreOptions) {
    super(options, PREFIX);
  }
}
