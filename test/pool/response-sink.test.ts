/** The body that is made of replies: in order, whoever asks for room when. */
import { describe, expect, it } from "vitest";
import { statusOf } from "../../src/wire/edge/codes.ts";
import { ResponseSink } from "../../src/worker/response-sink.ts";

const openSink = (
  signal = new AbortController().signal,
  stallTimeoutMs = 30_000,
  bodyBytes = 0,
): ResponseSink =>
  new ResponseSink({ signal, bodyBytes, stallTimeoutMs, assertAccess: async () => {} });

const part = (value: number, length = 100_000): Uint8Array => new Uint8Array(length).fill(value);

describe("response sink", () => {
  it("a response begins at once when all replies are there", async () => {
    const sink = openSink();
    sink.reply(part(1, 2), false);
    sink.reply(part(2, 1), true);
    expect(await (await sink.response).bytes()).toEqual(Uint8Array.of(1, 1, 2));
  });

  it("a response keeps the order of replies that come while others are being written", async () => {
    const sink = openSink();
    sink.reply(part(1), false);
    sink.reply(part(2), false);
    const rooms = [sink.room()];
    for (const value of [3, 5, 7]) {
      sink.reply(part(value), false);
      sink.reply(part(value + 1), false);
      rooms.push(sink.room());
    }
    sink.reply(part(9), true);
    const body = await (await sink.response).bytes();
    expect(body.length).toBe(900_000);
    for (let i = 0; i < 9; i++) expect(body[i * 100_000]).toBe(i + 1);
    await Promise.all(rooms);
  });

  it("a response is rejected with an unknown outcome when a shard fails before anything was sent", async () => {
    const sink = openSink();
    sink.fail(new Error("reset"));
    await expect(sink.response).rejects.toMatchObject({ code: "outcome_unknown" });
    expect(statusOf("outcome_unknown")).toBe(503);
  });

  it("a response ends in an error when a shard fails later", async () => {
    const sink = openSink();
    sink.reply(part(1), false);
    const room = sink.room().catch(() => {});
    const response = await sink.response;
    sink.fail(new Error("reset"));
    await expect(response.arrayBuffer()).rejects.toThrow("reset");
    await room;
  });

  it("a response whose client has gone has room, and no reader", async () => {
    const client = new AbortController();
    const sink = openSink(client.signal);
    sink.reply(part(1), false);
    const room = sink.room();
    await (await sink.response).body!.cancel();
    client.abort();
    await room;
    expect(sink.hasReader).toBe(false);
    sink.reply(part(2), false);
    await sink.room();
    expect(sink.heldBytes).toBe(0);
    sink.reply(part(3), true);
    await sink.ended;
  });

  it("a response gives up a client that reads nothing of a streamed body", async () => {
    const sink = openSink(undefined, 1);
    sink.reply(part(1), false);
    const room = sink.room();
    const response = await sink.response;
    await room;
    expect(sink.hasReader).toBe(false);
    expect(sink.heldBytes).toBe(0);
    await expect(response.arrayBuffer()).rejects.toThrow("Network connection lost");
  });

  it("slow responses are given up when responses hold more than 32 MiB in all", async () => {
    const sinks = Array.from({ length: 40 }, () => openSink());
    const rooms = sinks.map(async (sink) => {
      sink.reply(part(1, 1 << 20), false);
      await sink.room();
    });
    await Promise.all(sinks.map(({ response }) => response));
    await Promise.any(rooms);
    await expect
      .poll(() => sinks.reduce((sum, { heldBytes }) => sum + heldBytes, 0), { timeout: 10_000 })
      .toBeLessThanOrEqual(32 << 20);
    expect(sinks.some(({ hasReader }) => hasReader)).toBe(true);
    for (const { response } of sinks) await (await response).body!.cancel();
    await Promise.all(rooms);
  });

  it("bodies count until they are executed, and only clients with unread replies are given up", async () => {
    const open = (): ResponseSink => openSink(undefined, 30_000, 6_300_000);
    const read = open();
    read.reply(part(1), false);
    const readRoom = read.room();
    const reader = (await read.response).body!.getReader();
    for (let bytes = 0; bytes < 100_000;) bytes += (await reader.read()).value!.length;
    await readRoom;
    const executed = Array.from({ length: 5 }, open);
    for (const sink of executed) sink.reply(part(1), true);
    const waiting = Array.from({ length: 5 }, open);
    const rooms = waiting.map(async (sink) => {
      sink.reply(part(1), false);
      await sink.room();
    });
    await Promise.any(rooms);
    expect(waiting.filter(({ hasReader }) => hasReader)).toHaveLength(4);
    expect(read.hasReader).toBe(true);
    await reader.cancel();
    for (const { response } of executed) {
      expect((await (await response).bytes()).length).toBe(100_000);
    }
    for (const { response } of waiting) await (await response).body!.cancel();
    await Promise.all(rooms);
  });
});
