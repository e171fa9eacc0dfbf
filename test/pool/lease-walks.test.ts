/** Leases that are exported and put back elsewhere, while shards split and leases end: each is held, once, until its end. */
import fc from "fast-check";
import { expect, inject, it } from "vitest";
import { exportLeases } from "../../src/dispatch/exports.ts";
import { Engine } from "../../src/engine/engine.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { PageReader } from "../../src/wire/page.ts";
import { CIRCLE } from "../../src/wire/range.ts";
import { finish } from "../support/engine/steps.ts";
import {
  acquire,
  bytesOf,
  commandReplies,
  type CommandReply,
  edgeBatch,
  exportLeasesFrame,
  idOf,
  inspect,
  KEEP,
  leaseKey,
  type LeaseRow,
  leaseRows,
  partsOf,
  RESTORED,
  restoreLease,
  EXPIRED,
  ttlMs,
} from "../support/frames/index.ts";
import { SplitNamespace } from "../support/pool/split-namespace.ts";

const seed = inject("seed");
const START_MS = 1_700_000_000_000;
const MS_NS = 1_000_000n;
const NAMES = ["a", "ab", "b", "gpu", "jobs", "x".repeat(255)];

/** What was sent, to which semaphore, and when. */
interface Sent {
  readonly name: string;
  readonly frame: Uint8Array;
  readonly atMs: number;
}

/** Shards with semaphores. Where one splits, its parts are made of what it was sent. */
class LeaseNamespace {
  readonly shards: SplitNamespace;
  nowMs = START_MS;
  readonly #sent: Sent[] = [];

  constructor(initial: number) {
    this.shards = new SplitNamespace(initial, (isOwn) => {
      const engine = new Engine({
        hashKey: { low: seed, high: initial },
        bytesMax: 8 << 20,
        isCounting: false,
      });
      const own = this.#sent.filter(({ name }) => isOwn(Keyspace.semaphores, name));
      for (const { frame, atMs } of own) engine.apply(edgeBatch([frame]), atMs);
      engine.advance(this.nowMs);
      return engine;
    });
  }

  send(name: string, frame: Uint8Array): CommandReply {
    this.#sent.push({ name, frame, atMs: this.nowMs });
    const answer = this.#engineOf(name).apply(edgeBatch([frame]), this.nowMs);
    return commandReplies(partsOf(answer)[0]!.replies)[0]!;
  }

  /** Who holds a semaphore, and how much is in use. */
  stateOf(name: string): { holders: unknown[]; consumption: number } {
    const { body } = this.send(name, inspect(name));
    const query = { keyspace: Keyspace.holdings, prefix: bytesOf(name), prefixes: [] };
    const page = new PageReader(finish(this.#engineOf(name).scan.page(query, null, 1000)));
    const holders: unknown[] = [];
    while (page.next()) {
      const { view, rowAt } = page;
      holders.push([
        String(page.key()),
        view.getUint32(rowAt, true),
        view.getBigUint64(rowAt + 4, true),
      ]);
    }
    const consumption = body[0] === 0 ? 0 : new DataView(body.buffer).getUint32(1, true);
    return { holders, consumption };
  }

  async page(limit: number, after: string | null) {
    for (const engine of this.shards.engines) engine.advance(this.nowMs);
    const frame = exportLeasesFrame({ limit, after });
    return leaseRows(await this.shards.answer(exportLeases, frame));
  }

  #engineOf(name: string): Engine {
    return this.shards.engineOf(Keyspace.semaphores, name);
  }
}

const acquired = fc.record({
  name: fc.constantFrom(...NAMES),
  // Few of them, so that one ID often holds several semaphores.
  id: fc.nat(6),
  resources: fc.integer({ min: 1, max: 5 }),
  ttlMs: fc.integer({ min: 1, max: 2000 }),
});
const gaps = fc.array(fc.nat(60), { minLength: 1, maxLength: 12 });

it("leases that are moved to another number of shards are held there as they were, at any moment", async () => {
  const property = fc.asyncProperty(
    fc.array(acquired, { maxLength: 40 }),
    fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 5 })),
    fc.integer({ min: 1, max: 9 }),
    fc.array(fc.nat(CIRCLE - 1), { maxLength: 8 }),
    gaps,
    async (leases, [from, to], limit, splits, pauses) => {
      const [source, target] = [new LeaseNamespace(from), new LeaseNamespace(to)];
      let paused = 0;
      const pause = (): void => {
        source.nowMs += pauses[paused++ % pauses.length]!;
        target.nowMs = source.nowMs;
      };
      for (const { name, id, resources, ttlMs: ms } of leases) {
        source.send(name, acquire(name, idOf(id), resources, 99, ttlMs(ms)));
      }
      // Both split meanwhile.
      source.shards.before = () => {
        const at = splits.pop();
        if (at === undefined) return;
        source.shards.split(at);
        target.shards.split(CIRCLE - 1 - at);
      };
      const exported: LeaseRow[] = [];
      for (let after: string | null = null; ;) {
        const { isLast, rows } = await source.page(limit, after);
        exported.push(...rows);
        pause();
        if (isLast) break;
        after = leaseKey(rows.at(-1)!);
      }
      const keys = exported.map(leaseKey);
      expect(new Set(keys).size).toBe(keys.length);
      for (const lease of exported) {
        const { body } = target.send(lease.name, restoreLease(lease, KEEP));
        const isOver = lease.endsNs <= BigInt(target.nowMs) * MS_NS;
        expect(body[0]).toBe(isOver ? EXPIRED : RESTORED);
        if (exported.length < 10) pause();
      }
      // From the end of the import on, until all have ended.
      const endMs = START_MS + 2100;
      for (; source.nowMs <= endMs; source.nowMs += 1 + (pauses[paused++ % pauses.length]! % 97)) {
        target.nowMs = source.nowMs;
        for (const name of NAMES) expect(target.stateOf(name)).toEqual(source.stateOf(name));
      }
      expect(NAMES.map((name) => target.stateOf(name).consumption)).toEqual(NAMES.map(() => 0));
    },
  );
  await fc.assert(property, { seed, numRuns: 25 });
});
