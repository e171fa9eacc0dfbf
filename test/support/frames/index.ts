/**
 * Every frame that tests send, and readers of the replies. Hex stands in a test only where the bytes
 * themselves are its point.
 *
 * `insert`, `set`, `acquire` and so on are commands of the edge dialect. Requests of dialect 7.3 with values
 * of a size are methods: `U16.insert("a", 5)`. The yrmcds protocol has verbs of the same names, so it is
 * a namespace here, `yrmcds.acquire("a", 1, 4)`; tests that speak it alone import `./yrmcds.ts`.
 */
export * from "./batch.ts";
export * from "./bytes.ts";
export * from "./commands.ts";
export * from "./fragments.ts";
export * from "./leases.ts";
export * from "./pairs.ts";
export * from "./throttr.ts";
export * from "./transfer.ts";
export * as yrmcds from "./yrmcds.ts";
