/** What an isolate knows of revoked tokens: when it asks, for whom a request waits, and what failures do. */
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, inject, it, vi } from "vitest";
import { NO_REVOCATIONS, withToken, type Revocations } from "../../src/engine/revocations.ts";
import { RevocationCopies, type RevocationSource } from "../../src/worker/revocation-copies.ts";
import { runs } from "../support/runs.ts";

const NS = "shop";
const TOKEN = { id: "stolen", issuedAtS: 1_700_000_000 };

/** A Directory, and a clock that only moves when it is told to. */
class World implements RevocationSource {
  now = 1_700_000_000_000;
  list: Revocations = NO_REVOCATIONS;
  reads = 0;
  isBroken = false;
  /** Holds answers back until it resolves. */
  held: Promise<void> = Promise.resolve();
  readonly background: Promise<void>[] = [];

  nowMs(): number {
    return this.now;
  }

  async wait(ms: number): Promise<void> {
    await Promise.resolve();
    this.now += ms;
  }

  waitUntil(work: Promise<void>): void {
    this.background.push(work);
  }

  async read(_: string, version: number): Promise<Revocations | null> {
    this.reads++;
    const { list } = this;
    await this.held;
    if (this.isBroken) throw new Error("the Directory is broken");
    return list.version === version ? null : list;
  }

  revoke(id = TOKEN.id): void {
    this.list = withToken(this.list, { id, expiresAtMs: null }, this.now)!;
  }

  /** All that requests left to do behind them. */
  async settle(): Promise<void> {
    await Promise.all(this.background.splice(0));
  }
}

let logged: string[];

beforeEach(() => {
  logged = [];
  vi.spyOn(console, "error").mockImplementation((line: string) => void logged.push(line));
});

afterEach(() => {
  vi.restoreAllMocks();
});

describe("the copy of a list of revoked tokens", () => {
  it("the first request of an isolate waits for the list, and the next ones ask nothing", async () => {
    const world = new World();
    world.revoke();
    const copies = new RevocationCopies();
    expect(await copies.isRevoked(NS, TOKEN, world)).toBe(true);
    for (let i = 0; i < 100; i++) {
      expect(await copies.isRevoked(NS, { ...TOKEN, id: "other" }, world)).toBe(false);
    }
    expect(world.reads).toBe(1);
    expect(world.background).toEqual([]);
  });

  it("requests that come at once share one call", async () => {
    const world = new World();
    world.revoke();
    const copies = new RevocationCopies();
    const answers = Array.from(
      { length: 50 },
      async () => await copies.isRevoked(NS, TOKEN, world),
    );
    expect(await Promise.all(answers)).toEqual(Array.from({ length: 50 }, () => true));
    expect(world.reads).toBe(1);
  });

  it("a copy is refreshed behind a request after 45 s, and waited for after 60 s", async () => {
    const world = new World();
    const copies = new RevocationCopies();
    expect(await copies.isRevoked(NS, TOKEN, world)).toBe(false);
    world.revoke();
    world.now += 44_999;
    expect(await copies.isRevoked(NS, TOKEN, world)).toBe(false);
    expect(world.reads).toBe(1);
    world.now += 1;
    expect(await copies.isRevoked(NS, TOKEN, world)).toBe(false);
    await world.settle();
    expect(world.reads).toBe(2);
    expect(await copies.isRevoked(NS, TOKEN, world)).toBe(true);

    const idle = new World();
    const other = new RevocationCopies();
    expect(await other.isRevoked(NS, TOKEN, idle)).toBe(false);
    idle.revoke();
    idle.now += 60_000;
    expect(await other.isRevoked(NS, TOKEN, idle)).toBe(true);
  });

  it("the age of a copy counts from the beginning of the call that brought it", async () => {
    const world = new World();
    const copies = new RevocationCopies();
    const held = Promise.withResolvers<void>();
    world.held = held.promise;
    const first = copies.isRevoked(NS, TOKEN, world);
    world.revoke();
    world.now += 1900;
    held.resolve();
    expect(await first).toBe(false);
    world.now += 58_100;
    expect(await copies.isRevoked(NS, TOKEN, world)).toBe(true);
  });

  it("a revoked token is refused 60 s later at the latest, with a call every 45 s at most", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 90_000 }), { minLength: 1, maxLength: 40 }),
        fc.nat(39),
        async (gaps, revokedAt) => {
          const world = new World();
          const copies = new RevocationCopies();
          const startMs = world.now;
          let revokedAtMs = Infinity;
          for (const [i, gap] of gaps.entries()) {
            world.now += gap;
            if (i === revokedAt) {
              world.revoke();
              revokedAtMs = world.now;
            }
            const atMs = world.now;
            const isRevoked = await copies.isRevoked(NS, TOKEN, world);
            if (isRevoked) expect(atMs).toBeGreaterThanOrEqual(revokedAtMs);
            if (atMs >= revokedAtMs + 60_000) expect(isRevoked).toBe(true);
            await world.settle();
          }
          expect(world.reads).toBeLessThanOrEqual(1 + (world.now - startMs) / 45_000);
        },
      ),
      { seed: inject("seed"), numRuns: runs(500) },
    );
  });

  it("a list that can't be read locks no one out, is logged once a minute, and is read again", async () => {
    const world = new World();
    world.isBroken = true;
    world.revoke();
    const copies = new RevocationCopies();
    for (let s = 0; s < 61; s++) {
      expect(await copies.isRevoked(NS, TOKEN, world)).toBe(false);
      await world.settle();
      world.now += 1000;
    }
    expect(world.reads).toBe(13);
    expect(logged).toHaveLength(2);
    expect(logged[0]).toContain("revocations_unread");
    world.isBroken = false;
    world.now += 5000;
    await copies.isRevoked(NS, TOKEN, world);
    await world.settle();
    expect(await copies.isRevoked(NS, TOKEN, world)).toBe(true);
  });

  it("what was known of revoked tokens goes on counting while the list can't be read", async () => {
    const world = new World();
    world.revoke();
    const copies = new RevocationCopies();
    expect(await copies.isRevoked(NS, TOKEN, world)).toBe(true);
    world.isBroken = true;
    for (let minute = 0; minute < 10; minute++) {
      world.now += 60_000;
      expect(await copies.isRevoked(NS, TOKEN, world)).toBe(true);
      await world.settle();
    }
  });

  it("a call that the runtime has ended with its request holds up others for 2 s only", async () => {
    const world = new World();
    const copies = new RevocationCopies();
    world.held = new Promise(() => {});
    void copies.isRevoked(NS, TOKEN, world);
    const startMs = world.now;
    const second = copies.isRevoked(NS, TOKEN, world);
    world.held = Promise.resolve();
    world.revoke();
    expect(await second).toBe(true);
    expect(world.now - startMs).toBe(2000);
  });

  it("an isolate keeps a limited number of copies and IDs, and reads again what it has dropped", async () => {
    const world = new World();
    for (const id of ["a", "b", TOKEN.id]) world.revoke(id);
    const copies = new RevocationCopies(10);
    for (const namespace of ["n1", "n2", "n3", "n4"]) {
      expect(await copies.isRevoked(namespace, TOKEN, world)).toBe(true);
    }
    const { reads } = world;
    expect(await copies.isRevoked("n4", TOKEN, world)).toBe(true);
    expect(world.reads).toBe(reads);
    expect(await copies.isRevoked("n1", TOKEN, world)).toBe(true);
    expect(world.reads).toBe(reads + 1);
  });

  it("a namespace whose list was just changed here is read anew", async () => {
    const world = new World();
    const copies = new RevocationCopies();
    expect(await copies.isRevoked(NS, TOKEN, world)).toBe(false);
    world.revoke();
    copies.expire(NS);
    expect(await copies.isRevoked(NS, TOKEN, world)).toBe(true);
  });
});
