/** Stubs: where the deployment says that objects live, all of them are asked for there. */
import { describe, expect, it } from "vitest";
import type { Environment } from "../../src/base/environment.ts";
import { directoryStub, groupStub, hubStub, shardStub } from "../../src/base/stubs.ts";

/** Namespaces of objects that tell how they were asked. */
function environment(variables: Readonly<Record<string, string>>): Environment {
  const objects = (path: string): object => ({
    jurisdiction: (name: string) => objects(`${path} in ${name}`),
    getByName: (name: string, options: object = {}) =>
      `${path}: ${name} ${JSON.stringify(options)}`,
  });
  const names = ["SHARD", "HUB", "CHANNEL", "DIRECTORY"];
  return {
    ...variables,
    ...Object.fromEntries(names.map((name) => [name, objects(name)])),
  };
}

function asked(variables: Readonly<Record<string, string>>): unknown[] {
  const env = environment(variables);
  return [
    shardStub(env, "ns/0"),
    hubStub(env, "ns/XXX/0"),
    directoryStub(env, "ns"),
    groupStub(env, "ns", 7),
  ];
}

describe("objects", () => {
  it("objects live anywhere by default", () => {
    expect(asked({})).toEqual([
      "SHARD: ns/0 {}",
      "HUB: ns/XXX/0 {}",
      "DIRECTORY: ns {}",
      "CHANNEL: ns/group/7 {}",
    ]);
  });

  it("all objects live in the named jurisdiction", () => {
    expect(asked({ JURISDICTION: "eu" })).toEqual([
      "SHARD in eu: ns/0 {}",
      "HUB in eu: ns/XXX/0 {}",
      "DIRECTORY in eu: ns {}",
      "CHANNEL in eu: ns/group/7 {}",
    ]);
  });

  it("objects of classes without a binding are found among the exports of the Worker", async () => {
    expect(await shardStub({}, "unbound/0").hasData()).toBe(false);
  });

  it("shards are created near the named location", () => {
    expect(asked({ LOCATION_HINT: "weur" })[0]).toBe('SHARD: ns/0 {"locationHint":"weur"}');
  });
});
