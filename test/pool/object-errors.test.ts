/** What crosses of an error from one object to another: the code is read from it, not from the text. */
import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { shardStub } from "../../src/base/stubs.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";

afterEach(async () => {
  await reset();
});

it("an error that a shard throws keeps its code as a property, though not its class", async () => {
  const call = shardStub(env as unknown as Env, "errors/0").apply(new Uint8Array(16));
  const error: unknown = await call.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(Error);
  expect(error).not.toBeInstanceOf(ThrottrError);
  expect(error).toMatchObject({ code: "batch_version", remote: true });
  const known = ThrottrError.from(error);
  expect([known.code, known.message]).toEqual(["batch_version", (error as Error).message]);
  expect(known.message).toMatch(/^batch_version: expected a batch of version \d/);
});
