/**
 * Every frame that tests send, and readers of what comes back. Tests import from here alone; hex stands in a
 * test only where the bytes themselves are its point.
 *
 * `insert`, `set`, `acquire` and so on are commands of the edge dialect. Requests of dialect 7.3 with values
 * of a size are methods: `U16.insert("a", 5)`. The yrmcds protocol has verbs of the same names, so it is
 * a namespace: `yrmcds.acquire("a", 1, 4)`.
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
