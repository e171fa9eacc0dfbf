/**
 * Semaphores and their leases as plain maps, and the commands on them, written from the text of the
 * format. It shares no code with the engine.
 */
import { Refused, type Expected } from "./body.ts";
import { ModelSemaphores, type ModelEntry } from "./semaphores.ts";
import { uint, unitNs } from "./values.ts";

interface ModelLease {
  /** One character a byte. */
  readonly id: string;
  readonly name: string;
  readonly resources: number;
  readonly endsAtMs: number;
}

export interface ModelHolder {
  readonly id: string;
  readonly resources: number;
  readonly endsAtMs: number;
}

const [ACQUIRE, RENEW, RELEASE, SEMAPHORE, RESTORE] = [0x2d, 0x2e, 0x2f, 0x30, 0x3b];
const [KEPT, RESTORED, EXPIRED] = [0, 1, 2];
const REPLACE = 1;
const U32_MAX = 2 ** 32 - 1;
const DAY_MS = 24n * 3_600_000n;

export class LeaseModel {
  #semaphores: ModelSemaphores;
  /** By id and name: 16 characters, and the others. */
  #leases = new Map<string, ModelLease>();
  #nowMs = 0;

  constructor(intervalMs: number) {
    this.#semaphores = new ModelSemaphores(intervalMs);
  }

  clone(): LeaseModel {
    const copy = new LeaseModel(1);
    copy.#semaphores = this.#semaphores.clone();
    copy.#leases = new Map(this.#leases);
    copy.#nowMs = this.#nowMs;
    return copy;
  }

  /** Time never goes back. Leases end, the earliest first. */
  advance(nowMs: number): void {
    this.#nowMs = Math.max(this.#nowMs, nowMs);
    const ended = [...this.#leases].filter(([, { endsAtMs }]) => endsAtMs <= this.#nowMs);
    for (const [key, { endsAtMs }] of ended.toSorted(([, a], [, b]) => a.endsAtMs - b.endsAtMs)) {
      this.#giveBack(key, endsAtMs);
    }
  }

  /** The reply to a command, whatever its bytes are behind a header that is right. */
  command(frame: Uint8Array): Expected {
    try {
      return { bytes: this.#execute(frame) };
    } catch (error) {
      if (error instanceof Refused) return { codes: error.codes };
      throw error;
    }
  }

  /** What there is of semaphores, in the order of names. */
  get semaphores(): ({ name: string } & ModelEntry)[] {
    return [...this.#semaphores.entries(this.#nowMs)]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, state]) => ({ name, ...state }));
  }

  /** Who holds a semaphore, in the order of ids. */
  holders(name: string): ModelHolder[] {
    return [...this.#leases.values()]
      .filter((lease) => lease.name === name)
      .map(({ id, resources, endsAtMs }) => ({ id, resources, endsAtMs }))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }

  #execute(frame: Uint8Array): number[] {
    const [type, flags, nameBytes] = [frame[0]!, frame[1]!, frame[2]!];
    const name = String.fromCharCode(...frame.subarray(7, 7 + nameBytes));
    const body = frame.slice(7 + nameBytes);
    if (flags !== 0) throw new Refused("flags_invalid");
    const lengths = { [ACQUIRE]: 33, [RENEW]: 25, [RELEASE]: 16, [SEMAPHORE]: 0, [RESTORE]: 29 };
    const length = lengths[type];
    if (body.length !== length) throw new Refused("body_invalid");
    if (name === "") throw new Refused("name_invalid");
    if (type === SEMAPHORE) {
      const state = this.#semaphores.find(name, this.#nowMs);
      if (state === undefined) return [0];
      return [1, ...u32(state.consumption), ...u32(state.maximum)];
    }
    const view = new DataView(body.buffer);
    if (type === RESTORE) return [this.#restore(name, body, view)];
    const id = String.fromCharCode(...body.subarray(0, 16));
    if (type === ACQUIRE) {
      const resources = view.getUint32(16, true);
      const maximum = view.getUint32(20, true);
      if (resources === 0) throw new Refused("resources_invalid");
      if (maximum < resources) throw new Refused("maximum_invalid");
      return this.#acquire(name, id, resources, maximum, ttlMsAt(view, 24));
    }
    const lease = this.#leases.get(id + name);
    if (type === RENEW) {
      const ttlMs = ttlMsAt(view, 16);
      return lease === undefined ? [0] : this.#hold(lease, ttlMs);
    }
    if (lease === undefined) return [0];
    this.#giveBack(id + name, this.#nowMs);
    return [1];
  }

  #acquire(name: string, id: string, resources: number, maximum: number, ttlMs: number): number[] {
    const lease = this.#leases.get(id + name);
    if (lease !== undefined) {
      if (lease.resources !== resources) throw new Refused("lease_conflict");
      return this.#hold(lease, ttlMs);
    }
    if (!this.#semaphores.increase(name, resources, maximum, this.#nowMs)) return [0];
    return this.#hold({ id, name, resources, endsAtMs: 0 }, ttlMs);
  }

  /** What becomes of a lease that is put back, whatever is in use. */
  #restore(name: string, body: Uint8Array, view: DataView): number {
    const policy = view.getUint8(0);
    if (policy > REPLACE) throw new Refused("policy_invalid");
    const id = String.fromCharCode(...body.subarray(1, 17));
    const resources = view.getUint32(17, true);
    if (resources === 0) throw new Refused("resources_invalid");
    const endsAtMs = (view.getBigUint64(21, true) + 999_999n) / 1_000_000n;
    const leftMs = endsAtMs - BigInt(this.#nowMs);
    if (leftMs > 2n * DAY_MS) throw new Refused("expires_at_ms_invalid");
    if (leftMs <= 0n) return EXPIRED;
    const held = this.#leases.get(id + name);
    if (held !== undefined && policy !== REPLACE) return KEPT;
    const inUse = this.#semaphores.find(name, this.#nowMs)?.consumption ?? 0;
    const others = inUse - (held?.resources ?? 0);
    if (others + resources > U32_MAX) throw new Refused("resources_invalid");
    // The most that was in use is that of the moments before and after.
    if (resources < (held?.resources ?? 0)) {
      this.#semaphores.decrease(name, held!.resources - resources, this.#nowMs);
    } else {
      this.#semaphores.increase(name, resources - (held?.resources ?? 0), U32_MAX, this.#nowMs);
    }
    this.#leases.set(id + name, { id, name, resources, endsAtMs: Number(endsAtMs) });
    return RESTORED;
  }

  /** All leases, in the order of ids and then of names. */
  get leases(): (ModelHolder & { readonly name: string })[] {
    return [...this.#leases.values()].toSorted((a, b) => (a.id + a.name < b.id + b.name ? -1 : 1));
  }

  #hold(lease: ModelLease, ttlMs: number): number[] {
    const endsAtMs = this.#nowMs + ttlMs;
    this.#leases.set(lease.id + lease.name, { ...lease, endsAtMs });
    const [end, left] = [endsAtMs, ttlMs].map((ms) => uint(BigInt(ms) * 1_000_000n, 8));
    return [1, ...u32(lease.resources), ...end!, ...left!];
  }

  #giveBack(key: string, atMs: number): void {
    const { name, resources } = this.#leases.get(key)!;
    this.#leases.delete(key);
    this.#semaphores.decrease(name, resources, atMs);
  }
}

function ttlMsAt(view: DataView, at: number): number {
  const unit = unitNs(view.getUint8(at));
  if (unit === 0n) throw new Refused("unit_invalid");
  const ns = view.getBigUint64(at + 1, true) * unit;
  const ms = (ns + 999_999n) / 1_000_000n;
  if (ms < 1n || ms > DAY_MS) throw new Refused("ttl_invalid");
  return Number(ms);
}

const u32 = (value: number): number[] => uint(BigInt(value), 4);
