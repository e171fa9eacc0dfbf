/**
 * Lets a namespace grow from its first shard to many by itself, under writes through all doors, and looks whether any client
 * notices: each write must succeed, and LIST must have each key once at the end.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Shards } from "../../src/wire/shards.ts";
import { listedKeys } from "./listed-keys.ts";
import { WRITERS, type Written } from "./writers.ts";

export interface Growing {
  readonly tcpPort: number;
  readonly url: string;
  /** Shards at which the writers stop. */
  readonly shards: number;
  /** Told while it grows. */
  readonly onShards?: (shards: Shards["shards"]) => void;
}

export interface Growth {
  readonly tookMs: number;
  /** Of the namespace at the end. */
  readonly shards: Shards["shards"];
  readonly written: Readonly<Record<keyof typeof WRITERS, Written>>;
  /** Keys that LIST had. */
  readonly listed: number;
}

const POLL_MS = 250;

/** @throws Error when a write fails, or LIST lacks a key, has one twice, or has one that no client wrote */
export async function grow({ tcpPort, url, shards, onShards }: Growing): Promise<Growth> {
  const startMs = performance.now();
  const stop = new AbortController();
  const writing = {
    tcp: WRITERS.tcp(String(tcpPort), stop.signal),
    http: WRITERS.http(url, stop.signal),
    client: WRITERS.client(url, stop.signal),
  };
  const failed = Promise.all(Object.values(writing)).then(() => {});
  failed.catch(() => stop.abort());
  while (!stop.signal.aborted) {
    const rows = await shardsOf(url);
    onShards?.(rows);
    if (rows.length >= shards) break;
    await sleep(POLL_MS);
  }
  stop.abort();
  await failed;
  const tookMs = performance.now() - startMs;
  const written = {
    tcp: await writing.tcp,
    http: await writing.http,
    client: await writing.client,
  };
  const keys = Object.values(written).flatMap((door) => door.keys);
  const listed = await listedKeys(url);
  assertSame(keys, listed);
  return { tookMs, shards: await shardsOf(url), written, listed: listed.length };
}

async function shardsOf(url: string): Promise<Shards["shards"]> {
  const response = await fetch(`${url}/v1/shards`);
  if (!response.ok) throw new Error(`/v1/shards: ${response.status} ${await response.text()}`);
  return ((await response.json()) as Shards).shards;
}

function assertSame(keys: readonly string[], listed: readonly string[]): void {
  const once = new Set(listed);
  if (once.size !== listed.length) throw new Error("LIST has a key twice");
  const missing = keys.filter((key) => !once.delete(key));
  if (missing.length > 0)
    throw new Error(`LIST lacks ${missing.length} keys, such as ${missing[0]}`);
  const [unknown] = once;
  if (unknown !== undefined) throw new Error(`LIST has a key that was not written: ${unknown}`);
}
