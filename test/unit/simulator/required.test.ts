/** The faults that a campaign must have met: for everything that objects ask of each other and of their disks, or a reason why not. */
import { globSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { missingFaults, REQUIRED, UNMET } from "../../simulator/faults/required.ts";
import { stepOf } from "../../simulator/platform/disk/steps.ts";

/** Interfaces of calls, with the class of the objects that answer them. */
const CLASSES: Readonly<Record<string, string>> = {
  ShardCalls: "Shard",
  SplitCalls: "Shard",
  HubCalls: "Hub",
  ChannelCalls: "Channel",
  DirectoryCalls: "Directory",
};

/** `Shard.apply` and so on. */
function callsOfObjects(): string[] {
  return globSync("src/base/calls/*.ts").flatMap((path) => {
    const interfaces = readFileSync(path, "utf8").split(/^export interface /m);
    return interfaces.flatMap((text) => {
      const className = CLASSES[/^\w*/.exec(text)![0]];
      if (className === undefined) return [];
      return [...text.matchAll(/^ {2}(\w+)\(/gm)].map(([, name]) => `${className}.${name}`);
    });
  });
}

/** What objects execute, as steps. */
function statements(): string[] {
  const quoted = /["`]((?:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER) [^"`]*)["`]/g;
  const texts = globSync("src/objects/**/*.ts").flatMap((path) => [
    ...readFileSync(path, "utf8").matchAll(quoted),
  ]);
  return [...new Set(texts.map(([, text]) => stepOf(text!.replaceAll(/_?\$\{[^}]*\}/g, ""))))];
}

/** Two spaces are where a text is put in: what is before and behind it must be there. */
const isKnown = (step: string): boolean =>
  [...REQUIRED, ...Object.keys(UNMET)].some((name) =>
    step.split("  ").every((part) => name.includes(part)),
  );

describe("faults that a campaign must have met", () => {
  it("each call between objects fails in some way, or has a reason why it does not", () => {
    const calls = callsOfObjects();
    expect(calls).toContain("Shard.apply");
    expect(calls.filter((call) => !isKnown(call))).toEqual([]);
  });

  it("a crash comes at each statement, or there is a reason why it does not", () => {
    const steps = statements();
    expect(steps).toContain("UPDATE shard SET generation");
    expect(steps.filter((step) => !isKnown(step))).toEqual([]);
  });

  it("nothing is both required and said not to happen, and no fault is listed twice", () => {
    expect(REQUIRED.filter((fault) => fault in UNMET)).toEqual([]);
    expect(new Set(REQUIRED).size).toBe(REQUIRED.length);
  });

  it("a fault that did not happen is missing", () => {
    const all = new Map(REQUIRED.map((fault) => [fault, 1]));
    expect(missingFaults(all)).toEqual([]);
    all.delete("crash: Shard apply");
    expect(missingFaults(all)).toEqual(["crash: Shard apply"]);
  });
});
