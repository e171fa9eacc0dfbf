/** What doors, groups of channels and Hubs tell each other of many channels at once. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { ByteWriter } from "../../src/wire/bytes.ts";
import {
  beginDelivery,
  endDelivery,
  forEachChange,
  forEachDelivery,
  forEachPublication,
  messagesAt,
  writeChange,
  writePublication,
} from "../../src/wire/channel-batch.ts";
import { writeMessage } from "../../src/wire/messages.ts";
import { runs as runsOf } from "../support/runs.ts";

const seed = inject("seed");
const runs = { seed, numRuns: runsOf(200) };

/** Few different names, so that some follow themselves; some begin like others. */
const name = fc.oneof(
  fc.constantFrom("", "a", "ab", "abc", "\0", "\xff\x80"),
  fc.uint8Array({ maxLength: 255 }).map((bytes) => String.fromCharCode(...bytes)),
);
const payload = fc.uint8Array({ maxLength: 300 });
const bytesOf = (channel: string): Uint8Array =>
  Uint8Array.from(channel, (character) => character.charCodeAt(0));

describe("messages about many channels", () => {
  it("publications are read in the order they were written in, whatever the names", () => {
    const property = fc.property(fc.array(fc.tuple(name, payload)), (published) => {
      const out = new ByteWriter(1);
      for (const [channel, bytes] of published) {
        const at = { bytes: bytesOf(channel), at: 0, length: channel.length };
        writePublication(out, at, bytes, 0, bytes.length);
      }
      const publications = out.take();
      const seen: [string, Uint8Array][] = [];
      forEachPublication(publications, (channel, at, length) => {
        seen.push([channel, publications.slice(at, at + length)]);
      });
      expect(seen).toEqual(published);
    });
    fc.assert(property, runs);
  });

  it("deliveries keep names, numbers and messages apart", () => {
    const number = fc.option(fc.integer({ min: 0, max: 2 ** 52 }));
    const delivery = fc.tuple(name, number, fc.array(payload, { maxLength: 4 }));
    const property = fc.property(fc.array(delivery), (deliveries) => {
      const parts = deliveries.map(([channel, sequence, payloads]) => {
        const out = new ByteWriter(1);
        beginDelivery(out, bytesOf(channel));
        for (const bytes of payloads) writeMessage(out, bytes, 0, bytes.length);
        endDelivery(out, channel.length, sequence);
        return out.take();
      });
      const seen: unknown[] = [];
      forEachDelivery(Buffer.concat(parts), (channel, sequence, messages) => {
        seen.push([channel, sequence, Uint8Array.from(messages)]);
      });
      expect(seen).toEqual(
        deliveries.map(([channel, sequence], i) => [
          channel,
          sequence,
          parts[i]!.slice(messagesAt(channel.length)),
        ]),
      );
    });
    fc.assert(property, runs);
  });

  it("joins and leaves are read in the order they were written in", () => {
    const property = fc.property(fc.array(fc.tuple(name, fc.boolean())), (changes) => {
      const out = new ByteWriter(1);
      for (const [channel, isJoin] of changes) writeChange(out, isJoin, bytesOf(channel));
      const seen: [string, boolean][] = [];
      forEachChange(out.take(), (channel, isJoin) => seen.push([channel, isJoin]));
      expect(seen).toEqual(changes);
    });
    fc.assert(property, runs);
  });
});
