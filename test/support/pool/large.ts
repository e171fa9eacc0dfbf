/** Values so large that their replies take several calls, one on each of the four shards. */
import { expect } from "vitest";
import { Keyspace } from "../../../src/wire/keyspace.ts";
import { InitialShards } from "../shards.ts";
import { bytesOf, HOURS, U32 } from "../frames/index.ts";
import { post } from "./doors.ts";

const SHARDS = 4;

export interface LargeValue {
  readonly key: string;
  readonly value: Uint8Array;
}

/** Sets a value on each shard; the first is small. */
export async function setLargeValues(): Promise<LargeValue[]> {
  const map = new InitialShards("default", SHARDS, "");
  const values = Array.from({ length: SHARDS }, (_, shard) => ({
    key: keyOnShard(map, shard),
    value: new Uint8Array(shard === 0 ? 100 : 1_000_000 - shard).fill(shard + 1),
  }));
  for (const { key, value } of values) {
    const frame = U32.set(key, value, HOURS, 10n);
    expect((await post("7.3", "uint32", frame)).status).toBe(200);
  }
  return values;
}

function keyOnShard(map: InitialShards, shard: number): string {
  for (let i = 0; ; i++) {
    const key = bytesOf(`large:${i}`);
    if (map.shardOf(Keyspace.throttr, key, 0, key.length) === shard) return `large:${i}`;
  }
}

/** Checks that replies to GET are those values, in that order. */
export function expectLargeReplies(replies: Uint8Array, values: readonly LargeValue[]): void {
  const header = 10;
  let at = 0;
  for (const { value } of values) {
    expect(replies[at]).toBe(1);
    expect(new DataView(replies.buffer, replies.byteOffset + at + 6, 4).getUint32(0, true)).toBe(
      value.length,
    );
    expect(replies[at + header]).toBe(value[0]);
    at += header + value.length;
    expect(replies[at - 1]).toBe(value[0]);
  }
  expect(replies.length).toBe(at);
}
