/** What the client knows of the edge dialect by itself, beside the table of layouts that the server reads. */
import { describe, expect, it } from "vitest";
import type { Call } from "../../src/client/calls/call.ts";
import { messagesOf } from "../../src/client/calls/message.ts";
import { messageFrame, readMessageFrame } from "../../src/wire/edge/message-frame.ts";
import { EDGE } from "../../src/wire/edge/protocol.ts";
import { layoutsOf, RequestType, Target } from "../../src/wire/throttr/requests.ts";
import { frameLength } from "../../src/wire/throttr/scanner.ts";

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const layouts = layoutsOf(EDGE);
/** Types of requests that a client sends in messages: not those of a connection. */
const SENT = layouts.flatMap((layout, type) =>
  layout !== undefined && layout.target < Target.connection ? [type] : [],
);
const ALONE = layouts.flatMap((layout, type) =>
  layout?.target === Target.namespace && type >= 0x20 ? [type] : [],
);

const callOf = (type: number): Call =>
  ({ operation: { type, frame: new Uint8Array(1) } }) as unknown as Call;
const sizesOf = (types: readonly number[]): number[] =>
  messagesOf(types.map(callOf)).map((message) => message.length);

describe("messages of the client", () => {
  it.each([...ALONE, RequestType.info])(
    "a request on the whole namespace is a run of its own: type %i",
    (type) => {
      expect(sizesOf(Array.from({ length: 250 }, () => type))).toEqual([100, 100, 50]);
    },
  );

  it.each(SENT)("requests of one target are one run: type %i", (type) => {
    expect(sizesOf(Array.from({ length: 250 }, () => type))).toEqual([250]);
  });

  it("requests on keys of different types are one run, and publications another", () => {
    const [first, ...others] = SENT.filter((type) => layouts[type]!.target === Target.shard);
    const mixed = others.flatMap((type) => Array.from({ length: 20 }, () => [first!, type]).flat());
    expect(sizesOf(mixed)).toEqual([mixed.length]);
    const turns = Array.from({ length: 150 }, () => [first!, RequestType.publish]).flat();
    expect(sizesOf(turns)).toEqual([100, 100, 100]);
  });
});

describe("frames with a message", () => {
  it.each([RequestType.publish, RequestType.event])(
    "a frame of type %i is as the table of layouts has it",
    (type) => {
      const frame = messageFrame(type, bytesOf("news"), bytesOf("hello"));
      expect(frameLength(layouts, frame, 0, frame.length, Infinity)).toBe(frame.length);
      const { keyAt, keySizeAt } = layouts[type]!;
      expect(frame.subarray(keyAt, keyAt + frame[keySizeAt]!)).toEqual(bytesOf("news"));
      expect(readMessageFrame(frame, 0)).toEqual({
        channel: bytesOf("news"),
        payload: bytesOf("hello"),
        end: frame.length,
      });
    },
  );

  it("a frame that is cut anywhere is not complete", () => {
    const frame = messageFrame(RequestType.event, bytesOf("news"), bytesOf("hello"));
    for (let end = 0; end < frame.length; end++) {
      expect(readMessageFrame(frame.subarray(0, end), 0)).toBeNull();
    }
  });
});
