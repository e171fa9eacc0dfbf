/** The checker of alarms: it counts the rings of each object in any minute. */
import { expect, it } from "vitest";
import { AlarmCounts, RINGS_MAX, RINGS_PER_START } from "../../simulator/checks/alarms.ts";

const rung = (object: string, count: number, everyMs: number, counts = new AlarmCounts()) => {
  for (let i = 0; i < count; i++) counts.note(object, i * everyMs);
  return counts;
};

it("an alarm that rings once a second, however long, is one that an object has reason for", () => {
  const counts = rung("shard 0", 1000, 1000);
  expect(counts.mostOf("shard 0")).toBe(60);
  expect(counts.violations()).toEqual([]);
});

it("an alarm that rings again and again within a minute is a violation, also where it ends at last", () => {
  const counts = rung("shard 1", 10, 600_000, rung("shard 0", RINGS_MAX + 1, 10));
  counts.note("shard 0", 900_000);
  expect(counts.violations()).toMatchObject([{ promise: "Alarms", subject: "shard 0" }]);
  expect(counts.most).toBe(RINGS_MAX + 1);
});

it("an object that starts within the minute may ring until it knows the clock of the platform's alarms", () => {
  const ringing = (starts: number, rings: number) => {
    const counts = new AlarmCounts();
    for (let i = 0; i < starts; i++) counts.noteStart("shard 0", i);
    for (let i = 0; i < rings; i++) counts.note("shard 0", 100 + i);
    return counts.violations();
  };
  expect(ringing(10, RINGS_MAX + 10 * RINGS_PER_START)).toEqual([]);
  expect(ringing(10, RINGS_MAX + 10 * RINGS_PER_START + 1)).toHaveLength(1);
});

it("starts of an earlier minute are no reason for rings", () => {
  const counts = new AlarmCounts();
  for (let i = 0; i < 10; i++) counts.noteStart("shard 0", i);
  for (let i = 0; i <= RINGS_MAX; i++) counts.note("shard 0", 70_000 + i);
  expect(counts.violations()).toHaveLength(1);
});
