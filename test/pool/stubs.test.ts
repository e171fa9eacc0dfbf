/** Stubs: where the deployment says that objects live, all of them are asked for there. */
import { afterEach, describe, expect, it } from "vitest";
import type { ShardCalls } from "../../src/base/calls/shard.ts";
import { deploy, EMBEDDED, STAND_ALONE } from "../../src/base/deployment.ts";
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

function asked(env: Environment): unknown[] {
  return [
    shardStub(env, "ns/0"),
    hubStub(env, "ns/XXX/0"),
    directoryStub(env, "ns"),
    groupStub(env, "ns", 7),
  ];
}

describe("objects", () => {
  it("objects live anywhere by default", () => {
    expect(asked(environment({}))).toEqual([
      "SHARD: ns/0 {}",
      "HUB: ns/XXX/0 {}",
      "DIRECTORY: ns {}",
      "CHANNEL: ns/group/7 {}",
    ]);
  });

  it.each(["eu", "us", "fedramp", "fedramp-high"])(
    "all objects live in the jurisdiction %s where it is named",
    (name) => {
      expect(asked(environment({ JURISDICTION: name }))).toEqual([
        `SHARD in ${name}: ns/0 {}`,
        `HUB in ${name}: ns/XXX/0 {}`,
        `DIRECTORY in ${name}: ns {}`,
        `CHANNEL in ${name}: ns/group/7 {}`,
      ]);
    },
  );

  it("objects of classes without a binding are found among the exports of the Worker", async () => {
    expect(await shardStub({}, "unbound/0").hasData()).toBe(false);
  });

  describe("in the Worker of another project", () => {
    afterEach(() => deploy(STAND_ALONE));

    it("variables and bindings are found by their prefix alone", () => {
      deploy(EMBEDDED);
      const named = Object.fromEntries(
        Object.entries(environment({ JURISDICTION: "eu" })).map(([name, value]) => [
          `THROTTR_${name}`,
          value as unknown,
        ]),
      );
      expect(asked({ ...named, SHARD: null, JURISDICTION: "fedramp" })[0]).toEqual(
        "SHARD in eu: ns/0 {}",
      );
    });

    it("classes that are exported under other names are found by these", async () => {
      deploy({ ...EMBEDDED, classes: { Channel: "Shard" } });
      const renamed = groupStub({}, "renamed", 0) as unknown as DurableObjectStub<ShardCalls>;
      expect(await renamed.hasData()).toBe(false);
    });

    it("a class that the Worker lacks is refused with the lines to add", () => {
      deploy({ ...EMBEDDED, classes: { Hub: "ThrottrHub" } });
      expect(() => hubStub({}, "ns/XXX/0")).toThrow(
        "class_missing: the Worker lacks the class Hub: its main module needs the line " +
          'export { Hub as ThrottrHub } from "throttr-edge/worker", and "exports" of its wrangler.jsonc ' +
          'the line "ThrottrHub": { "type": "durable-object", "storage": "sqlite" }; ' +
          "or run npx throttr-edge init",
      );
    });

    it("all classes that the Worker lacks are named at once, with the lines to add", () => {
      deploy({ ...EMBEDDED, classes: { Hub: "ThrottrHub", Directory: "ThrottrDirectory" } });
      const object = '{ "type": "durable-object", "storage": "sqlite" }';
      expect(() => directoryStub({}, "ns")).toThrow(
        "class_missing: the Worker lacks the classes Hub, Directory: its main module needs the line " +
          'export { Hub as ThrottrHub, Directory as ThrottrDirectory } from "throttr-edge/worker", ' +
          `and "exports" of its wrangler.jsonc the lines "ThrottrHub": ${object}, "ThrottrDirectory": ${object}; ` +
          "or run npx throttr-edge init",
      );
    });
  });

  it("shards are created near the named location", () => {
    expect(asked(environment({ LOCATION_HINT: "weur" }))[0]).toBe(
      'SHARD: ns/0 {"locationHint":"weur"}',
    );
  });
});
