/** The leases of a client: the calls behind them, the handle of a held one, and what ends when the client is closed. */
/// <reference lib="esnext.disposable" preserve="true" />
import type { Text } from "../../wire/edge/argument.ts";
import type { AcquireOptions, Lease, RenewOptions } from "../../wire/edge/semaphores.ts";
import type { CallOptions } from "../calls/call.ts";
import type { Signal } from "../platform.ts";

/** The calls that acquire, renew and release a lease. */
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
 * Resources held of a semaphore. The client renews the lease until it is released.
 *
 * @example
 * await using lease = await throttr.semaphore("gpu", 4).acquire();
 * if (lease === null) return busy();
 * await render({ signal: lease.signal });
 */
export interface HeldLease {
  /** A UUID. */
  readonly leaseId: string;
  /** Name of the semaphore. */
  readonly name: Text;
  readonly resources: number;
  /**
   * Aborted when the lease is lost: the server says that it has ended, it could not be renewed within its TTL, or the
   * client was closed. From then on other callers may hold the resources. Its reason is a ThrottrError `lease_lost`.
   */
  readonly signal: Signal;
  /** False once the lease is released or lost. */
  readonly isHeld: boolean;
  /**
   * Releases the lease; false when it had ended before. When the call fails, the lease ends by itself at the end of its
   * TTL.
   */
  release(): Promise<boolean>;
  /** Like `release()`, but does not reject. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** A lease that is held, or a wait for one. */
export interface Closable {
  close(): void;
}

export class Leases {
  readonly #open = new Set<Closable>();
  #isClosed = false;

  /** What is added behind `close` is closed at once: the answer to an acquire may have come just before. */
  add(one: Closable): void {
    if (this.#isClosed) one.close();
    else this.#open.add(one);
  }

  delete(one: Closable): void {
    this.#open.delete(one);
  }

  close(): void {
    this.#isClosed = true;
    for (const one of this.#open) one.close();
  }
}
