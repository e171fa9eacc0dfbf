/** A store for Keyv: `throttr-edge/keyv`. */
export type { RecordBackend } from "../shared/record-store.ts";
export { KeyvThrottr, type KeyvThrottrOptions } from "./store.ts";
