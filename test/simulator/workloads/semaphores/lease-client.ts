/**
 * The package's client, with all its calls on leases noted: those of the caller, and those that it makes by itself to renew a lease,
 * to ask for one again, and to release one of which it does not know whether it holds it.
 */
import type { HeldLease } from "../../../../src/client/semaphore/leases.ts";
import type { ThrottrClient } from "../../../../src/client/client.ts";
import { ThrottrError } from "../../../../src/wire/edge/error.ts";
import * as operations from "../../../../src/wire/edge/operations.ts";
import type { Lease } from "../../../../src/wire/edge/semaphores.ts";
import type { Hold, Renewal } from "../../checks/holds.ts";
import type { Moment } from "../../checks/history.ts";
import type {
  SemaphoreCall,
  SemaphoreOperation,
  SemaphoreOutcome,
} from "../../checks/semaphore-calls.ts";
import type { Client } from "../client.ts";
import { openOf } from "../limits/outcome.ts";
import { clientOf } from "../package.ts";
import { isOpenForMany } from "../ports.ts";
import type { Calls } from "./calls.ts";

type LeaseOperation = Exclude<
  Extract<SemaphoreOperation, { leaseId: string }>,
  { type: "restore lease" }
>;

/** A call of the client: it may be sent several times. */
interface Asked {
  readonly frame: Buffer;
  isSent: boolean;
  /** As it was sent last. */
  call: SemaphoreCall;
}

export class LeaseClient {
  readonly throttr: ThrottrClient;
  readonly #client: Client;
  readonly #calls: Calls;
  readonly #holds: Hold[];
  readonly #asked = new Set<Asked>();
  /** What ends the notes of the leases that callers have. */
  readonly #held = new Set<() => boolean>();
  readonly #renewals = new Map<string, Renewal[]>();

  /** @param holds gets the leases that were held */
  constructor(client: Client, calls: Calls, holds: Hold[]) {
    const { world, life, random } = client;
    this.#client = client;
    this.#calls = calls;
    this.#holds = holds;
    const onMessage = (message: Uint8Array): void => this.#noteMessage(Buffer.from(message));
    this.throttr = clientOf(world, life, random, { onMessage });
    this.#noteCalls(this.throttr);
  }

  /**
   * Notes a lease that a caller has.
   *
   * @returns what the caller calls when it asks no longer whether the lease is held; it says whether it was all the while
   */
  hold(lease: HeldLease, name: string, ttlMs: number): () => boolean {
    const { number: client, life } = this.#client;
    const { suspensions } = life;
    const { leaseId, signal } = lease;
    const from = this.#now();
    let isOpen = true;
    const end = (isLost: boolean, isHeld: boolean): void => {
      isOpen = false;
      this.#held.delete(letGo);
      const renewals = this.#renewals.get(leaseId) ?? [];
      const to = this.#now();
      this.#holds.push({
        client,
        name,
        leaseId,
        ttlMs,
        from,
        to,
        isLost,
        isHeld,
        renewals,
        suspensions,
      });
    };
    const letGo = (): boolean => {
      const wasHeld = isOpen && lease.isHeld;
      // A lease that is found to be lost just now has been noted by its signal.
      if (isOpen) end(false, wasHeld);
      return wasHeld;
    };
    this.#held.add(letGo);
    signal.addEventListener("abort", () => {
      if (isOpen) end(true, false);
    });
    return letGo;
  }

  /** Holds nothing any more: what it held ends by itself. */
  async close(): Promise<void> {
    for (const letGo of this.#held) letGo();
    await this.throttr.close();
  }

  #now(): Moment {
    return this.#client.world.moments.now();
  }

  /** The calls that the client makes by itself are calls of its methods, too. */
  #noteCalls(throttr: ThrottrClient): void {
    const acquire = throttr.acquire.bind(throttr);
    const renew = throttr.renew.bind(throttr);
    const release = throttr.release.bind(throttr);
    throttr.acquire = async (given, options) => {
      const { leaseId, resources = 1, maximum, ttlMs } = options;
      const name = given as string;
      const lease = { name, leaseId: leaseId!, resources, maximum, ttlMs };
      const ask = async (): Promise<Lease | null> => await acquire(given, options);
      return await this.#renewal({ type: "acquire lease", ...lease }, ask, "unavailable");
    };
    throttr.renew = async (given, leaseId, renewal, options) => {
      const operation = {
        type: "renew lease",
        name: given as string,
        leaseId,
        ...renewal,
      } as const;
      const ask = async (): Promise<Lease | null> => await renew(given, leaseId, renewal, options);
      return await this.#renewal(operation, ask, "absent");
    };
    throttr.release = async (given, leaseId, options) => {
      const operation = { type: "release lease", name: given as string, leaseId } as const;
      const ask = async (): Promise<boolean> => await release(given, leaseId, options);
      return await this.#note(operation, ask, (isReleased) => (isReleased ? "released" : "absent"));
    };
  }

  async #renewal(
    operation: LeaseOperation,
    ask: () => Promise<Lease | null>,
    none: "unavailable" | "absent",
  ): Promise<Lease | null> {
    const renewal: Renewal = { sent: this.#now(), answered: null, outcome: "unknown" };
    const known = this.#renewals.get(operation.leaseId) ?? [];
    // Attempts before the lease was acquired say nothing of it.
    const before = operation.type === "renew lease" ? known : [];
    this.#renewals.set(operation.leaseId, [...before, renewal]);
    const lease = await this.#note(operation, ask, (answer) =>
      answer === null ? none : { endsAtMs: answer.expiresAtMs },
    );
    renewal.answered = this.#now();
    renewal.outcome = lease === null ? "ended" : "held";
    return lease;
  }

  /** Notes a call, and what its client makes of the answer. */
  async #note<Result>(
    operation: LeaseOperation,
    ask: () => Promise<Result>,
    outcomeOf: (result: Result) => SemaphoreOutcome,
  ): Promise<Result> {
    const call = this.#calls.begin("client", null, operation);
    const asked: Asked = { frame: Buffer.from(frameOf(operation)), isSent: false, call };
    this.#asked.add(asked);
    try {
      const { world, life } = this.#client;
      const result = await world.times.of("client", operation.type, ask(), life);
      this.#calls.end(asked.call, outcomeOf(result));
      return result;
    } catch (error) {
      this.#client.world.failures.noteCall(`${operation.type} of a client`, error, "leases");
      const isOpen = isOpenForMany(ThrottrError.from(error).code);
      this.#calls.end(asked.call, isOpen ? "unknown" : openOf(error));
      throw error;
    } finally {
      this.#asked.delete(asked);
    }
  }

  /** What is sent again is a call of its own: the one before may take effect later. */
  #noteMessage(message: Buffer): void {
    for (const asked of this.#asked) {
      if (!message.includes(asked.frame)) continue;
      if (asked.isSent) {
        const { operation } = asked.call;
        this.#calls.end(asked.call, "unknown");
        asked.call = this.#calls.begin("client", null, operation);
      }
      asked.isSent = true;
    }
  }
}

function frameOf(operation: LeaseOperation): Uint8Array {
  const { name, leaseId } = operation;
  switch (operation.type) {
    case "acquire lease":
      return operations.acquire(name, operation).frame;
    case "renew lease":
      return operations.renew(name, leaseId, operation).frame;
    case "release lease":
      return operations.release(name, leaseId).frame;
  }
}
