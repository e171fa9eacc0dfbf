/** The way of messages to connections by their ids. */
import { describe, expect, it, vi } from "vitest";
import { makeConnectionId, ownChannel } from "../../src/base/connection-id.ts";
import type { Environment } from "../../src/base/environment.ts";
import { OwnChannels } from "../../src/dispatch/own-channels.ts";
import { binaryBytes, ByteWriter, joinBytes } from "../../src/wire/bytes.ts";
import { forEachPublication, writePublication } from "../../src/wire/channel-batch.ts";

const CHANNEL = ownChannel(
  makeConnectionId({ location: "XXX", index: 0 }, new Uint8Array(16).fill(7)),
);

const decoder = new TextDecoder();

function publicationOf(text: string, channel = CHANNEL): Uint8Array {
  const out = new ByteWriter(64);
  const payload = binaryBytes(text);
  const name = { bytes: binaryBytes(channel), at: 0, length: channel.length };
  writePublication(out, name, payload, 0, payload.length);
  return out.take();
}

function textsOf(publications: Uint8Array): string[] {
  const texts: string[] = [];
  forEachPublication(publications, (_channel, at, length) => {
    texts.push(decoder.decode(publications.subarray(at, at + length)));
  });
  return texts;
}

/** A platform where each call takes less time than the one before, so that calls under way overtake each other. */
function fastGrowing(namespace: string) {
  const received: string[] = [];
  let delayMs = 160;
  const wait = async (): Promise<void> => {
    delayMs = Math.max(0, delayMs - 20);
    await new Promise((resolve) => setTimeout(resolve, delayMs));
  };
  const hub = {
    deliverToOwners: async (publications: Uint8Array) => {
      await wait();
      const texts = textsOf(publications);
      received.push(...texts);
      return Uint32Array.from(texts, () => 1);
    },
  };
  const directory = {
    hubs: async () => {
      await wait();
      return [`${namespace}/XXX/0`];
    },
  };
  const env = { HUB: { getByName: () => hub }, DIRECTORY: { getByName: () => directory } };
  return { received, ownChannels: new OwnChannels(env as unknown as Environment, namespace) };
}

describe("messages to connections by their ids", () => {
  it("publications to one connection arrive in their order, also while its Hub is looked up", async () => {
    const { received, ownChannels } = fastGrowing("looked-up");
    const texts = ["first", "second", "third"];
    const published = texts.map(
      async (text) => await ownChannels.publish(publicationOf(text), 1, null).delivered,
    );
    expect(await Promise.all(published)).toEqual(texts.map(() => Uint32Array.of(1)));
    expect(received).toEqual(texts);
  });

  it("publications to a Hub that is known arrive in their order", async () => {
    const { received, ownChannels } = fastGrowing("known");
    await ownChannels.publish(publicationOf("before"), 1, null).delivered;
    const texts = ["first", "second", "third"];
    await Promise.all(
      texts.map(async (text) => await ownChannels.publish(publicationOf(text), 1, null).delivered),
    );
    expect(received).toEqual(["before", ...texts]);
  });

  it("batches of one run arrive in their order, also where the first one waits for another Hub to be looked up", async () => {
    const { received, ownChannels } = fastGrowing("two-hubs");
    await ownChannels.publish(publicationOf("before"), 1, null).delivered;
    const elsewhere = ownChannel(
      makeConnectionId({ location: "YYY", index: 3 }, new Uint8Array(16)),
    );
    const both = joinBytes([publicationOf("lost", elsewhere), publicationOf("first")]);
    const first = ownChannels.publish(both, 2, null);
    const second = ownChannels.publish(publicationOf("second"), 1, first.sent);
    expect([...(await first.delivered), ...(await second.delivered)]).toEqual([0, 1, 1]);
    expect(received).toEqual(["before", "first", "second"]);
  });

  it("small publications that wait for a Hub count with what they take in memory", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const gate = Promise.withResolvers<void>();
    const hub = {
      deliverToOwners: async (publications: Uint8Array) => {
        await gate.promise;
        return Uint32Array.from(textsOf(publications), () => 1);
      },
    };
    const directory = { hubs: async () => ["hanging/XXX/0"] };
    const env = { HUB: { getByName: () => hub }, DIRECTORY: { getByName: () => directory } };
    const ownChannels = new OwnChannels(env as unknown as Environment, "hanging");
    // 3 MB in all, and 10 MB with about 800 bytes for each: at most 8 MiB wait. The platform allows 10,000 timers at once.
    const bytes = publicationOf("m".repeat(300));
    const published = Array.from({ length: 9000 }, () => ownChannels.publish(bytes, 1, null));
    await Promise.all(published.map(({ sent }) => sent));
    gate.resolve();
    await Promise.all(published.map(async ({ delivered }) => await delivered));
    const lost = warn.mock.calls.filter(([line]) => String(line).includes("hub_slow"));
    expect(lost.length).toBeGreaterThan(0);
    expect(lost.length).toBeLessThan(2000);
    warn.mockRestore();
  });
});
