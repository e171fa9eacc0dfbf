/** What the doors keep of pages that they refuse. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it, vi } from "vitest";
import type { Settings } from "../../src/base/settings.ts";
import { assertOrigin } from "../../src/worker/web-pages.ts";

it("of origins that were logged once, an isolate keeps little, however long they are", () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const heapBytes = (): number => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const settings = { CORS_ORIGINS: "" } as Settings;
  const beforeBytes = heapBytes();
  for (let i = 0; i < 100; i++) {
    const origin = `https://${i}.${"a".repeat(400_000)}`;
    expect(() => assertOrigin(origin, "http://localhost/", settings)).toThrow("origin_not_allowed");
  }
  expect(warn).toHaveBeenCalledTimes(100);
  warn.mockRestore();
  expect(heapBytes() - beforeBytes).toBeLessThan(10e6);
});
