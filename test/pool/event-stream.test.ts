/** The stream of a listener whose Hub has ended it: what waits must not stay in memory for a client that does not read. */
import { describe, expect, it, vi } from "vitest";
import { bridgeMessage } from "../../src/wire/bridge.ts";
import { eventRecords } from "../../src/wire/events.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { writeMessage } from "../../src/wire/messages.ts";
import { EventStream } from "../../src/worker/event-stream.ts";
import { bytesOf } from "../support/frames/index.ts";

const STALL_TIMEOUT_MS = 200;
/** The Hub's close codes: the client does not read; the token has expired. */
const UNREAD = 1013;
const EXPIRED = 1008;

/** A push of one message, as a Hub sends it to a bridge. */
function push(text: string): Uint8Array {
  const out = new ByteWriter();
  writeMessage(out, bytesOf(text), 0, text.length);
  return bridgeMessage(0, eventRecords(1, out.take()));
}

/** A stream that its Hub has ended with messages waiting, and the client's reader. */
async function endedStream(
  code: number,
  texts: readonly string[],
): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const { 0: hub, 1: worker } = new WebSocketPair();
  const closed = Promise.withResolvers<void>();
  worker.addEventListener("close", () => closed.resolve());
  const { response } = new EventStream(worker, STALL_TIMEOUT_MS);
  hub.accept();
  for (const text of texts) hub.send(push(text));
  hub.close(code);
  await closed.promise;
  return (response.body as ReadableStream<Uint8Array>).getReader();
}

/** All that a reader gets until the end of the stream. */
async function restOf(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += decoder.decode(value, { stream: true });
  }
}

describe("a listener over HTTP whose Hub has ended it", () => {
  it("fails at once, without a read, because of what it left unread", async () => {
    const reader = await endedStream(UNREAD, ["1", "2"]);
    await expect(reader.closed).rejects.toThrow("unread");
  });

  it("gets what waits for it, if it goes on reading", async () => {
    const reader = await endedStream(EXPIRED, ["1", "2"]);
    expect(await restOf(reader)).toMatch(/data: 1\n\n[^]*data: 2\n\n$/);
  });

  it("fails if it reads nothing for STALL_TIMEOUT_MS while something waits", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const reader = await endedStream(EXPIRED, ["1", "2"]);
    await expect(reader.closed).rejects.toThrow("stalled");
    expect(warn.mock.calls.map(([line]) => JSON.parse(line as string))).toContainEqual(
      expect.objectContaining({ event: "http_stalled" }),
    );
  });

  it("is not given up while it reads slowly", async () => {
    const reader = await endedStream(EXPIRED, ["1", "2", "3", "4"]);
    for (let i = 0; i < 3; i++) {
      await scheduler.wait(STALL_TIMEOUT_MS / 2);
      expect((await reader.read()).done).toBe(false);
    }
    expect(await restOf(reader)).toMatch(/data: 4\n\n$/);
  });
});
