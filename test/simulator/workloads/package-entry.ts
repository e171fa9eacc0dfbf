/** What callers import of the package, as one bundle: its modules are shared, as in an application. */
export * as clients from "../../../src/client/index.ts";
export * as limits from "../../../src/ratelimit/index.ts";
