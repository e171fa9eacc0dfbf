/** The leases of a client: how they are asked for, what is held, and what ends when the client is closed. */
/// <reference lib="esnext.disposable" preserve="true" />
import type { Text } from "../../wire/edge/argument.ts";
import type { AcquireOptions, Lease, RenewOptions } from "../../wire/edge/semaphores.ts";
import type { CallOptions } from "../calls/call.ts";
import type { Signal } from "../platform.ts";

/** The calls of a client that leases are held by. */
export interface LeaseCalls {
  acquire(name: Text, options: AcquireOptions & CallOptions): Promise<Lease | null>;
  renew(
    name: Text,
    leaseId: string,
    renewal: RenewOptions,
    options?: CallOptions,
  ): Promise<Lease | null>;
  release(name: Text, leaseId: string, options?: CallOptions): Promise<boolean>;
}

/**
 * What is held of a semaphore, until it is released: it is renewed all the while.
 *
 * @example
 * await using lease = await throttr.semaphore("gpu", 4).acquire();
 * if (lease === null) return busy();
 * await render({ signal: lease.signal });
 */
export interface HeldLease {
  /** A UUID. */
  readonly leaseId: string;
  /** Of the semaphore. */
  readonly name: Text;
  readonly resources: number;
  /**
   * Aborted when the lease is lost: the server says that it has ended, or nothing was heard of it for so
   * long that it may have, or the client was closed. From then on others may hold what it held. Its reason
   * is a ThrottrError `lease_lost`.
   */
  readonly signal: Signal;
  /** False when it is released, or lost. */
  readonly isHeld: boolean;
  /**
   * Gives it back; false when it had ended before. When that fails, it ends by itself at the end of its
   * TTL.
   */
  release(): Promise<boolean>;
  /** As `release()`, but does not reject. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** A lease that is held, or a wait for one. */
export interface Closable {
  close(): void;
}

export class Leases {
  readonly #open = new Set<Closable>();

  add(one: Closable): void {
    this.#open.add(one);
  }

  delete(one: Closable): void {
    this.#open.delete(one);
  }

  close(): void {
    for (const one of this.#open) one.close();
  }
}
