/** Callers over a binding that leave before they have their answer: what they had sent is executed all the same. */
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, expect, it } from "vitest";
import { http, ThrottrClient } from "throttr-edge/client";
import { throttrWorker } from "throttr-edge/testing";

const HOUR_MS = 3_600_000;
/** Callers at once: so none of their requests is answered before its caller leaves. */
const CALLERS = 5;
/** Requests on the namespace between two writes, each a run of its own. A batch has at most 500 runs. */
const READS = 498;
/** A shard removes them in several steps. */
const RECORDS = 20_000;
/** Operations of a batch, at most. */
const BATCH = 10_000;

/** A Worker that sends a request about keys with a prefix, and leaves when it sees that the request has had an effect. */
const LEAVING = `
const insert = (key) => ["insert", key, { quota: 1, ttlMs: ${HOUR_MS} }];

async function leaveBatch(throttr, prefix) {
  const reads = Array.from({ length: ${READS} }, () => ["info"]);
  throttr.batch([insert(prefix + "first"), ...reads, insert(prefix + "last")]).catch(() => {});
  while ((await throttr.query(prefix + "first")) === null);
}

async function leaveRemoval(throttr, prefix) {
  const { counters } = await throttr.info();
  const url = "http://localhost/v1/records?prefix=" + prefix;
  throttr.fetch(url, { method: "DELETE" }).catch(() => {});
  while ((await throttr.info()).counters === counters) await scheduler.wait(1);
}

export default {
  async fetch(request, { THROTTR: throttr }) {
    const { pathname, searchParams } = new URL(request.url);
    await (pathname === "/batch" ? leaveBatch : leaveRemoval)(throttr, searchParams.get("prefix"));
    return new Response(null, { status: 204 });
  },
};`;

let runtime: Miniflare;
let throttr: ThrottrClient;

beforeAll(async () => {
  const leaving = {
    name: "leaving",
    compatibilityDate: "2026-05-01",
    modules: [{ type: "ESModule" as const, path: "worker.js", contents: LEAVING }],
    serviceBindings: { THROTTR: { name: "throttr-edge", entrypoint: "Throttr" } },
  };
  const server = {
    ...(await throttrWorker()),
    unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
  };
  runtime = new Miniflare(convertV4MiniflareOptions({ workers: [leaving, server] }));
  throttr = new ThrottrClient(http((await runtime.unsafeGetDirectURL("throttr-edge")).href));
});

afterAll(async () => {
  await throttr.close();
  await runtime.dispose();
});

/** Lets callers come and leave, each with a prefix of its own. */
async function leave(request: "batch" | "removal", prefixes: readonly string[]): Promise<void> {
  await Promise.all(
    prefixes.map(async (prefix) => {
      await runtime.dispatchFetch(`http://localhost/${request}?prefix=${prefix}`);
    }),
  );
}

it("the last write of a batch over a service binding is applied, though its caller has left", async () => {
  const prefixes = Array.from({ length: CALLERS }, (_, i) => `batch-${i}:`);
  await leave("batch", prefixes);
  const lastWrites = async (): Promise<number> => {
    const found = await Promise.all(prefixes.map((prefix) => throttr.query(`${prefix}last`)));
    return found.filter((counter) => counter !== null).length;
  };
  await expect.poll(lastWrites).toBe(CALLERS);
});

it("DELETE /v1/records removes the last record, though its client has left", async () => {
  const prefixes = Array.from({ length: CALLERS }, (_, i) => `removal-${i}:`);
  const before = (await throttr.info()).counters;
  for (const prefix of prefixes) {
    for (let from = 0; from < RECORDS; from += BATCH) {
      const insert = (_: unknown, i: number) =>
        ["insert", prefix + String(from + i), { quota: 1, ttlMs: HOUR_MS }] as const;
      await throttr.batch(Array.from({ length: BATCH }, insert));
    }
  }
  await leave("removal", prefixes);
  await expect.poll(async () => (await throttr.info()).counters).toBe(before);
});
