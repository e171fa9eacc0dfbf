/** A store of express-rate-limit: `throttr-edge/express-rate-limit`. */
export {
  ThrottrStore,
  type ClientHits,
  type CounterBackend,
  type ThrottrStoreOptions,
} from "./store.ts";
