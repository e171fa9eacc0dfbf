/** The trace of a simulated run: what its hash depends on. */
import { describe, expect, it } from "vitest";
import { Trace } from "../../simulator/kernel/trace.ts";
import { VirtualTime } from "../../simulator/kernel/virtual-time.ts";

const logged = (...texts: readonly string[]): string => {
  const trace = new Trace(new VirtualTime());
  for (const text of texts) trace.noteLog("console.warn", "isolate 1", text);
  return trace.hash;
};

describe("the hash of a trace", () => {
  it("depends on the text of a log line, but not on the stack in it", () => {
    const line = (error: string, stack: string): string =>
      JSON.stringify({ event: "failed", error, stack, shard: 1 });
    const here = line("Error: lost", 'Error: lost\n    at "here" (/a/b.ts:1:2)');
    expect(logged(here)).toBe(logged(line("Error: lost", "Error: lost\n    at /c/d.ts:3:4")));
    expect(logged(here)).not.toBe(logged(line("Error: late", "Error: lost")));
    expect(logged(here)).not.toBe(logged(here.replace('"shard":1', '"shard":2')));
  });

  it("depends on the order of lines", () => {
    expect(logged("one", "other")).not.toBe(logged("other", "one"));
  });
});
