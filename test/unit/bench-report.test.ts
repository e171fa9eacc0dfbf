/** What `npm run bench` prints and draws: Markdown tables, charts, and the command that repeats a run. */
import { expect, it } from "vitest";
import { throughputChart } from "../../scripts/bench/charts.ts";
import { table } from "../../scripts/bench/markdown.ts";
import type { Cell } from "../../scripts/bench/matrix.ts";
import { readOptions } from "../../scripts/bench/options.ts";
import { localText, pricesText } from "../../scripts/bench/report-local.ts";

it("a table of the benchmark lines its figures up to the right", () => {
  expect(
    table(
      ["door", "keys/s"],
      [
        ["TCP", "1,234,567"],
        ["HTTP", "5"],
      ],
    ),
  ).toBe(
    [
      "| door |    keys/s |",
      "| ---- | --------: |",
      "| TCP  | 1,234,567 |",
      "| HTTP |         5 |",
    ].join("\n"),
  );
});

it("a document of the benchmark names the command that measures the same", () => {
  const { command, writeTo } = readOptions([
    "--quick",
    "--write",
    "docs/performance.md",
    "--rounds",
    "5",
  ]);
  expect(writeTo).toBe("docs/performance.md");
  expect(command).toBe("npm run bench -- --quick --rounds 5");
  expect(readOptions(["--write=x.md"]).command).toBe("npm run bench");
});

it("the throughput chart has a line for each server that was measured", () => {
  const measurement = { opsPerS: 1000, p50Ms: 1, p99Ms: 2, refusedShare: 0 };
  const cellAt = (depth: number): Cell => ({
    operation: "UPDATE",
    depth,
    connections: 1,
    shards: 1,
    server: measurement,
    echo: measurement,
    redis: measurement,
    redisAlways: null,
  });
  const svg = throughputChart([cellAt(1), cellAt(32)]);
  expect(svg).toMatch(/^<svg /);
  const names = ["Throttr Edge, durable", "echo object", "Redis, everysec", "Redis, always"];
  expect(names.filter((name) => svg.includes(name))).toEqual(names.slice(0, 3));
});

it("the benchmark says of Redis that it was not measured where it is not installed", () => {
  const measurement = {
    checksPerS: 1000,
    p50Ms: 1,
    p99Ms: 2,
    refusedShare: 0,
    processorUs: null,
  };
  const way = {
    way: "map",
    lone: measurement,
    loneTimesCounter: 2,
    many: measurement,
    timesCounter: 3,
    timesMap: 1,
  } as const;
  const text = localText({
    depth: 32,
    message: measurement,
    ways: [way],
    prices: [],
  });
  expect(text).toMatch(/^\| Redis, Lua token bucket +\| +not measured \| +- \|/m);
  expect(text).toMatch(/^\| `Map` of token buckets +\| +1\.000 \| +2\.000 \| +2\.0 \| +1,000 \|/m);
});

it("the benchmark gives the rate that was reached where the server is too slow for the one asked for", () => {
  const bill = { requests: 1e6, rows: 5e5, dollars: 0.65, gbS: 1, gbSDollars: 0 };
  const text = pricesText([
    { way: "limit", askedPerS: 1000, checksPerS: 1000.4, ...bill },
    { way: "limit", askedPerS: 10_000, checksPerS: 4000, ...bill },
  ]);
  const rows = text.split("\n").filter((line) => line.startsWith("| exact"));
  expect(rows.map((row) => row.split("|").map((field) => field.trim())[2])).toEqual([
    "1,000",
    "4,000 of 10,000",
  ]);
});

it("the benchmark says from how many decisions a second on local decisions pay, by the hottest key measured", () => {
  const bill = { rows: 210, dollars: 0.1, gbS: 1, gbSDollars: 0 };
  const text = pricesText([
    { way: "local", askedPerS: 10, checksPerS: 10, requests: 300_000, ...bill },
    { way: "local", askedPerS: 10_000, checksPerS: 10_000, requests: 210, ...bill },
  ]);
  expect(text).toContain("an isolate sends 2.1 messages a second for a hot key");
  expect(text).toContain("from about 3 decisions a second on a key");
});
