/**
 * True in Cloudflare's runtime, where timers and promises belong to a request: a timer ends with its request, unless
 * `waitUntil` keeps it, and a request must not await what another one has sent.
 */
export const IS_WORKER =
  (globalThis as { navigator?: { userAgent?: string } }).navigator?.userAgent ===
  "Cloudflare-Workers";
