/** A storage for @nestjs/throttler: `throttr-edge/nestjs`. */
export {
  ThrottrStorage,
  type HitsBackend,
  type ThrottlerHits,
  type ThrottrStorageOptions,
} from "./storage.ts";
