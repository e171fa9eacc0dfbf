/** A driver for unstorage: `throttr-edge/unstorage`. */
export type { RecordBackend } from "../shared/record-store.ts";
export type { WatchCallback, WatchEvent } from "./changes.ts";
export {
  throttrDriver,
  type DriverBackend,
  type ThrottrDriver,
  type ThrottrDriverOptions,
} from "./driver.ts";
