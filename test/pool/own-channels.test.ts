/** The way of messages to connections by their ids. */
import { describe, expect, it } from "vitest";
import { makeConnectionId, ownChannel } from "../../src/base/connection-id.ts";
import type { Environment } from "../../src/base/environment.ts";
import { OwnChannels } from "../../src/dispatch/own-channels.ts";
import { binaryBytes, ByteWriter } from "../../src/wire/bytes.ts";
import { forEachPublication, writePublication } from "../../src/wire/channel-batch.ts";

const CHANNEL = ownChannel(
  makeConnectionId({ location: "XXX", index: 0 }, new Uint8Array(16).fill(7)),
);

const decoder = new TextDecoder();

function publicationOf(text: string): Uint8Array {
  const out = new ByteWriter(64);
  const payload = binaryBytes(text);
  const name = { bytes: binaryBytes(CHANNEL), at: 0, length: CHANNEL.length };
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
    const published = texts.map(async (text) => await ownChannels.publish(publicationOf(text), 1));
    expect(await Promise.all(published)).toEqual(texts.map(() => Uint32Array.of(1)));
    expect(received).toEqual(texts);
  });

  it("publications to a Hub that is known arrive in their order", async () => {
    const { received, ownChannels } = fastGrowing("known");
    await ownChannels.publish(publicationOf("before"), 1);
    const texts = ["first", "second", "third"];
    await Promise.all(texts.map(async (text) => await ownChannels.publish(publicationOf(text), 1)));
    expect(received).toEqual(["before", ...texts]);
  });
});
