/**
 * Semaphores as plain maps, and the protocol's frames as text has them, written from the reference. It
 * shares no code with what is tested.
 */
import { ModelSemaphores, type ModelEntry } from "./semaphores.ts";

interface ModelLease {
  name: string;
  amount: number;
  endsAtMs: number;
}

const TEXTS: Readonly<Record<number, string>> = {
  0x01: "Not found",
  0x04: "Invalid arguments",
  0x21: "Resource not available",
  0x22: "Not acquired",
  0x81: "Unknown command",
  0x82: "OutOfMemory",
};

const keyOf = (id: string, name: string): string => JSON.stringify([id, name]);

/** Status, and on success the body of the reply. */
type Answer = readonly [status: number, body?: number[]];

export class SemaphoreModel {
  #semaphores: ModelSemaphores;
  /** By connection and name. */
  #holdings = new Map<string, Map<string, number>>();
  /** By id and name. */
  #leases = new Map<string, ModelLease>();
  #nowMs = 0;

  constructor(intervalMs: number) {
    this.#semaphores = new ModelSemaphores(intervalMs);
  }

  clone(): SemaphoreModel {
    const copy = new SemaphoreModel(1);
    copy.#nowMs = this.#nowMs;
    copy.#semaphores = this.#semaphores.clone();
    for (const [connection, held] of this.#holdings) copy.#holdings.set(connection, new Map(held));
    for (const [id, lease] of this.#leases) copy.#leases.set(id, { ...lease });
    return copy;
  }

  /** Moves the clock: leases end, the earliest first. */
  advance(nowMs: number): void {
    this.#nowMs = Math.max(this.#nowMs, nowMs);
    const ended = [...this.#leases].filter(([, lease]) => lease.endsAtMs <= this.#nowMs);
    for (const [id, lease] of ended.toSorted(([, a], [, b]) => a.endsAtMs - b.endsAtMs)) {
      this.#leases.delete(id);
      this.#semaphores.decrease(lease.name, lease.amount, lease.endsAtMs);
    }
  }

  /** The reply to a frame of a connection; null for Stats and Dump. */
  answer(connection: string, frame: Uint8Array, nowMs: number): number[] | null {
    this.advance(nowMs);
    const view = new DataView(frame.buffer, frame.byteOffset, frame.length);
    const opcode = view.getUint8(1);
    const isRequest = view.getUint8(0) === 0x90;
    if (isRequest && (opcode === 0x10 || opcode === 0x11)) return null;
    const [status, body = []] = isRequest
      ? this.#execute(connection, opcode, frame.slice(12))
      : [0x04];
    const told = status === 0 ? body : Array.from(TEXTS[status]!, (c) => c.charCodeAt(0));
    const shown = status === 0x81 ? 0x12 : opcode;
    return [0x91, shown, status, 0, ...u32(told.length), ...frame.slice(8, 12), ...told];
  }

  #execute(connection: string, opcode: number, body: Uint8Array): Answer {
    if (opcode === 0x00) return [0];
    const fixed = { 0x01: 2, 0x02: 10, 0x03: 6 }[opcode];
    if (fixed === undefined) return [0x81];
    if (body.length < fixed) return [0x04];
    const view = new DataView(body.buffer, body.byteOffset, body.length);
    if (opcode === 0x02) {
      if (view.getUint32(0) === 0 || view.getUint32(4) < view.getUint32(0)) return [0x04];
    }
    const nameBytes = view.getUint16(fixed - 2);
    if (nameBytes === 0 || nameBytes > body.length - fixed) return [0x04];
    const name = textOf(body.slice(fixed, fixed + nameBytes));
    if (opcode === 0x01) {
      const consumption = this.#semaphores.find(name, this.#nowMs)?.consumption;
      return consumption === undefined ? [0x01] : [0, u32(consumption)];
    }
    const resources = view.getUint32(0);
    const held = this.#holdings.get(connection) ?? new Map<string, number>();
    const amount = held.get(name) ?? 0;
    if (opcode === 0x02) {
      if (!this.#semaphores.increase(name, resources, view.getUint32(4), this.#nowMs))
        return [0x21];
      held.set(name, amount + resources);
      this.#holdings.set(connection, held);
      return [0, u32(resources)];
    }
    if (!this.#semaphores.has(name)) return [0x01];
    if (amount === 0 || resources > amount) return [0x22];
    if (resources === amount) held.delete(name);
    else held.set(name, amount - resources);
    this.#semaphores.decrease(name, resources, this.#nowMs);
    return [0];
  }

  close(connection: string, nowMs: number): void {
    this.advance(nowMs);
    for (const [name, amount] of this.#holdings.get(connection) ?? []) {
      this.#semaphores.decrease(name, amount, this.#nowMs);
    }
    this.#holdings.delete(connection);
  }

  /** Status and end of the lease. */
  acquireLease(
    id: string,
    bytes: Uint8Array,
    resources: number,
    maximum: number,
    ttlMs: number,
    nowMs: number,
  ): [status: number, endsAtMs: number | null] {
    this.advance(nowMs);
    if (resources === 0 || maximum < resources || bytes.length === 0) return [0x04, null];
    const name = textOf(bytes);
    const endsAtMs = this.#nowMs + ttlMs;
    const lease = this.#leases.get(keyOf(id, name));
    if (lease !== undefined) {
      if (lease.amount !== resources) return [0x04, null];
    } else if (!this.#semaphores.increase(name, resources, maximum, this.#nowMs)) {
      return [0x21, null];
    }
    this.#leases.set(keyOf(id, name), { name, amount: resources, endsAtMs });
    return [0, endsAtMs];
  }

  renew(id: string, name: string, ttlMs: number, nowMs: number): number | null {
    this.advance(nowMs);
    const lease = this.#leases.get(keyOf(id, name));
    if (lease === undefined) return null;
    lease.endsAtMs = this.#nowMs + ttlMs;
    return lease.endsAtMs;
  }

  releaseLease(id: string, name: string, nowMs: number): boolean {
    this.advance(nowMs);
    const lease = this.#leases.get(keyOf(id, name));
    if (lease === undefined) return false;
    this.#leases.delete(keyOf(id, name));
    this.#semaphores.decrease(lease.name, lease.amount, this.#nowMs);
    return true;
  }

  nextLeaseEnd(nowMs: number): number | null {
    this.advance(nowMs);
    const ends = [...this.#leases.values()].map(({ endsAtMs }) => endsAtMs);
    return ends.length === 0 ? null : Math.min(...ends);
  }

  /** Collects, and returns how many semaphores went. */
  collect(nowMs: number): number {
    this.advance(nowMs);
    return this.#semaphores.collect(this.#nowMs);
  }

  /** What Dump tells, by name. */
  dump(nowMs: number): Map<string, ModelEntry> {
    this.advance(nowMs);
    return this.#semaphores.entries(this.#nowMs);
  }

  /** Connections that hold anything. */
  get connections(): string[] {
    return [...this.#holdings]
      .filter(([, held]) => held.size > 0)
      .map(([connection]) => connection);
  }

  get holdings(): number {
    const held = [...this.#holdings.values()].reduce((sum, { size }) => sum + size, 0);
    return held + this.#leases.size;
  }
}

/** A text for each byte string: what maps take as a key. */
export function textOf(bytes: Uint8Array): string {
  return new TextDecoder("latin1").decode(bytes);
}

function u32(value: number): number[] {
  return [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];
}
