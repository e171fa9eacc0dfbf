/** Each call ends within a time that follows from timeouts and faults; one that takes longer, or never ends, is a violation. */
import { describe, expect, it } from "vitest";
import { CallTimes } from "../../simulator/call-times.ts";
import { boundOf, type CallWay } from "../../simulator/checks/call-bounds.ts";

function timesWith(hasFaults: boolean): { times: CallTimes; wait: (ms: number) => void } {
  let nowMs = 0;
  const times = new CallTimes(() => nowMs, { hasFaults });
  return { times, wait: (ms) => (nowMs += ms) };
}

describe("times of calls", () => {
  it.each<[CallWay, boolean, number]>([
    ["limiter", true, 5000],
    ["client", true, 10_000],
    ["client", false, 5000],
    ["http", false, 5000],
    ["connection", true, 200_000],
  ])("may be what is promised: over %s, with faults %s, %d ms", (way, hasFaults, ms) => {
    const { times, wait } = timesWith(hasFaults);
    const end = times.begin(way, "a call");
    wait(ms);
    end();
    expect(times.violations).toEqual([]);
  });

  it.each<[CallWay, boolean, number]>([
    ["limiter", true, 5100],
    ["client", true, 10_100],
    ["http", false, 7000],
    ["connection", true, 300_000],
  ])("may not be longer: over %s, with faults %s, %d ms", (way, hasFaults, ms) => {
    const { times, wait } = timesWith(hasFaults);
    const end = times.begin(way, "a call");
    wait(ms);
    end();
    expect(times.violations).toMatchObject([{ promise: "Progress", subject: `${way} a call` }]);
  });

  it("are shorter for all calls than the twenty minutes that a run lasts", () => {
    expect(boundOf("connection", { hasFaults: true })).toBeLessThan(300_000);
  });

  it("of calls that have not ended count up to the end of the run", () => {
    const { times, wait } = timesWith(true);
    times.begin("http", "POST /throttr/edge");
    wait(1_200_000);
    expect(times.violations).toEqual([]);
    times.judgeOpen();
    expect(times.violations).toHaveLength(1);
  });

  it("end with calls that fail", async () => {
    const { times, wait } = timesWith(true);
    await expect(times.of("client", "set", Promise.reject(new Error("lost")))).rejects.toThrow(
      "lost",
    );
    wait(1_200_000);
    times.judgeOpen();
    expect(times.violations).toEqual([]);
  });
});
