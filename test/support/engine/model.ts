/**
 * The semantics of counters and buffers as plain maps and bigints, written from the protocol's tables.
 * It shares no code with the engine beside the names of the request types.
 */
export interface ModelProtocol {
  dialect: string;
  valueSize: number;
}

export type ModelRequest =
  | { type: "insert"; key: string; quota: bigint; ttlType: number; ttl: bigint }
  | { type: "query" | "purge" | "get"; key: string }
  | { type: "update"; key: string; attribute: number; change: number; value: bigint }
  | { type: "set"; key: string; ttlType: number; ttl: bigint; value: Uint8Array };

interface Counter {
  kind: "counter";
  quota: bigint;
  unit: bigint;
  ttlType: number;
  expiresNs: bigint;
}

interface Buffer {
  kind: "buffer";
  value: Uint8Array;
  unit: bigint;
  ttlType: number;
  expiresNs: bigint;
}

const UNITS: readonly bigint[] = [
  0n,
  1n,
  1_000n,
  1_000_000n,
  1_000_000_000n,
  60_000_000_000n,
  3_600_000_000_000n,
];
const MAX_U64 = 2n ** 64n - 1n;

export class Model {
  #records = new Map<string, Counter | Buffer>();

  clone(): Model {
    const copy = new Model();
    for (const [key, record] of this.#records) copy.#records.set(key, { ...record });
    return copy;
  }

  /** The reply to a request at a time. */
  execute(protocol: ModelProtocol, request: ModelRequest, nowMs: number): number[] {
    const nowNs = BigInt(nowMs) * 1_000_000n;
    const max = 2n ** BigInt(8 * protocol.valueSize) - 1n;
    const uint = (value: bigint): number[] => {
      const shown = value > max ? max : value;
      return Array.from({ length: protocol.valueSize }, (_, i) =>
        Number((shown >> BigInt(8 * i)) & 255n),
      );
    };
    const ttlOf = (record: Counter | Buffer): number[] => [
      record.ttlType,
      ...uint((record.expiresNs - nowNs - 1n) / record.unit),
    ];
    const found = this.#records.get(request.key);
    const record = found !== undefined && found.expiresNs > nowNs ? found : undefined;
    const status = (success: boolean): number[] => [success ? 1 : 0];
    switch (request.type) {
      case "insert": {
        const unit = UNITS[request.ttlType] ?? 0n;
        if (unit === 0n || record !== undefined) return status(false);
        const { quota, ttlType } = request;
        const expiresNs = clamp(nowNs + request.ttl * unit);
        this.#records.set(request.key, { kind: "counter", quota, unit, ttlType, expiresNs });
        return status(true);
      }
      case "query":
        if (record?.kind !== "counter") return status(false);
        return [1, ...uint(record.quota), ...ttlOf(record)];
      case "purge":
        this.#records.delete(request.key);
        return status(record !== undefined);
      case "get":
        if (record?.kind !== "buffer" || BigInt(record.value.length) > max) return status(false);
        return [1, ...ttlOf(record), ...uint(BigInt(record.value.length)), ...record.value];
      case "set": {
        const unit = UNITS[request.ttlType] ?? 0n;
        if (unit === 0n || record?.kind === "counter") return status(false);
        const { value, ttlType } = request;
        const expiresNs = clamp(nowNs + request.ttl * unit);
        this.#records.set(request.key, { kind: "buffer", value, unit, ttlType, expiresNs });
        return status(true);
      }
      case "update":
        if (record === undefined) return status(false);
        if (request.attribute === 0)
          return status(updateQuota(record, request.change, request.value, max));
        if (request.attribute === 1)
          return status(updateTtl(record, request.change, request.value, nowNs));
        return status(false);
    }
  }
}

function updateQuota(
  record: Counter | Buffer,
  change: number,
  value: bigint,
  max: bigint,
): boolean {
  if (record.kind !== "counter") return false;
  const changed = change === 0 ? value : change === 1 ? record.quota + value : record.quota - value;
  if (change > 2 || changed < 0n || (change === 1 && changed > max)) return false;
  record.quota = changed;
  return true;
}

function updateTtl(
  record: Counter | Buffer,
  change: number,
  value: bigint,
  nowNs: bigint,
): boolean {
  const span = value * record.unit;
  if (change === 0) record.expiresNs = clamp(nowNs + span);
  else if (change === 1) record.expiresNs = clamp(record.expiresNs + span);
  else if (change === 2) record.expiresNs = clamp(record.expiresNs - span);
  else return false;
  return true;
}

function clamp(value: bigint): bigint {
  return value < 0n ? 0n : value > MAX_U64 ? MAX_U64 : value;
}
