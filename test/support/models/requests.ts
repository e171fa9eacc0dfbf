/** Requests on one key that dialects 7.1, 7.3 and edge have in common, as models and frame builders take them. */
export interface ModelProtocol {
  dialect: string;
  valueSize: number;
}

/** Keys have one character a byte. */
export type ModelRequest =
  | { type: "insert"; key: string; quota: bigint; ttlType: number; ttl: bigint }
  | { type: "query" | "purge" | "get"; key: string }
  | { type: "update"; key: string; attribute: number; change: number; value: bigint }
  | { type: "set"; key: string; ttlType: number; ttl: bigint; value: Uint8Array };
