/**
 * Holds as users of the package do: for as long as a function runs, by a lease that the client renews, and by calls. Now and then it
 * closes its client without releasing anything.
 */
import type { HeldLease } from "../../../../src/client/semaphore/leases.ts";
import type { SemaphoreOptions } from "../../../../src/client/semaphore/semaphore.ts";
import type { Hold } from "../../checks/holds.ts";
import type { History } from "../../checks/history.ts";
import type { SemaphoreOperation, SemaphoreOutcome } from "../../checks/semaphore-calls.ts";
import { pause, type Client } from "../client.ts";
import { Calls } from "./calls.ts";
import { leaseIdOf, maximumOf, nameOf, NAMES } from "./choice.ts";
import { LeaseClient } from "./lease-client.ts";

/** The client takes no shorter TTL. */
const TTL_MS = { least: 1000, most: 60_000 };
/** How long it holds, in TTLs: mostly shorter than one, sometimes for several renewals. */
const HELD_TTLS = { least: 0.01, most: 4 };
const WAIT_MS = { least: 10, most: 20_000 };
const AT_ONCE_MOST = 3;
const CLOSE_SHARE = 0.02;

/** What a lease is to be. */
interface Wanted {
  readonly name: string;
  readonly resources: number;
  readonly maximum: number;
  readonly ttlMs: number;
}

export class PackageHolder {
  readonly #client: Client;
  readonly #calls: Calls;
  readonly #holds: Hold[];
  readonly #underWay = new Set<Promise<void>>();

  constructor(
    client: Client,
    history: History<SemaphoreOperation, SemaphoreOutcome>,
    holds: Hold[],
  ) {
    this.#client = client;
    this.#calls = new Calls(client.world, history, client.number);
    this.#holds = holds;
  }

  async work(): Promise<void> {
    const { world, random, most } = this.#client;
    let leases = this.#open();
    while (this.#calls.made < most && !world.isClosing) {
      await pause(this.#client);
      if (random.chance(CLOSE_SHARE)) {
        await leases.close();
        leases = this.#open();
      }
      while (this.#underWay.size >= AT_ONCE_MOST) await Promise.race(this.#underWay);
      const work = this.#work(leases).finally(() => this.#underWay.delete(work));
      this.#underWay.add(work);
      if (random.chance(0.5)) await work;
    }
    await Promise.all(this.#underWay);
    await leases.close();
  }

  #open(): LeaseClient {
    return new LeaseClient(this.#client, this.#calls, this.#holds);
  }

  /** Holds once, in one of the ways. A call that fails has been noted. */
  async #work(leases: LeaseClient): Promise<void> {
    const { random } = this.#client;
    const resources = 1 + random.int(3);
    const wanted = {
      name: nameOf(random.int(NAMES)),
      resources,
      maximum: maximumOf(random, resources),
      ttlMs: Math.round(random.skewed(TTL_MS.least, TTL_MS.most)),
    };
    const way = random.next();
    try {
      if (way < 0.45) await this.#holdWhile(leases, wanted);
      else if (way < 0.8) await this.#holdByHandle(leases, wanted);
      else await this.#holdByCalls(leases, wanted);
    } catch (error) {
      this.#client.world.failures.noteCall("a semaphore of a client", error, "holds");
    }
  }

  /** Holds while a function runs. What that gives is refused where the lease was lost before. */
  async #holdWhile(leases: LeaseClient, wanted: Wanted): Promise<void> {
    const { name, maximum, ttlMs } = wanted;
    const semaphore = leases.throttr.semaphore(name, maximum);
    const wasHeld = await semaphore.with(
      async (lease) => {
        const letGo = leases.hold(lease, name, ttlMs);
        await this.#rest(lease, ttlMs);
        return letGo();
      },
      { ...holdOf(wanted), waitMs: this.#waitMs() },
    );
    if (!wasHeld) throw new Error(`with() of ${name} resolved though its lease was lost`);
  }

  async #holdByHandle(leases: LeaseClient, wanted: Wanted): Promise<void> {
    const { name, maximum, ttlMs } = wanted;
    const { random } = this.#client;
    const semaphore = leases.throttr.semaphore(name, maximum, holdOf(wanted));
    const isPatient = random.chance(0.4);
    const lease = await semaphore.acquire(isPatient ? { waitMs: this.#waitMs() } : {});
    if (lease === null) return;
    const letGo = leases.hold(lease, name, ttlMs);
    await this.#rest(lease, ttlMs);
    letGo();
    await lease.release();
  }

  /** By an ID of its own: it may acquire again what it holds, and release what it no longer does. */
  async #holdByCalls({ throttr }: LeaseClient, wanted: Wanted): Promise<void> {
    const { life, random } = this.#client;
    const { name, resources, maximum, ttlMs } = wanted;
    const leaseId = leaseIdOf(random);
    const acquire = async (): Promise<boolean> =>
      (await throttr.acquire(name, { leaseId, resources, maximum, ttlMs })) !== null;
    const rest = async (): Promise<void> => {
      await life.settled(ttlMs * random.skewed(HELD_TTLS.least, 1.2), "hold", () => {});
    };
    if (!(await acquire())) return;
    await rest();
    await (random.chance(0.4) ? acquire() : throttr.renew(name, leaseId, { ttlMs }));
    await rest();
    if (random.chance(0.7)) await throttr.release(name, leaseId);
  }

  #waitMs(): number {
    return Math.round(this.#client.random.skewed(WAIT_MS.least, WAIT_MS.most));
  }

  /** Works while it holds a lease. Some work ends when the lease is lost. */
  async #rest({ signal }: HeldLease, ttlMs: number): Promise<void> {
    const { life, random } = this.#client;
    const ms = ttlMs * random.skewed(HELD_TTLS.least, HELD_TTLS.most);
    const done = life.settled(ms, "hold", () => {});
    if (random.chance(0.5)) return await done;
    const lost = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    await Promise.race([done, lost]);
  }
}

const holdOf = ({ resources, ttlMs }: Wanted): SemaphoreOptions => ({ resources, ttlMs });
