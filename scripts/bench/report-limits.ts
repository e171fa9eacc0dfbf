/** What a run says of rate limits. */
import { count, percent } from "./format.ts";
import type { LimitsMeasurement } from "./limits-load.ts";
import { PRICES } from "./limits-price.ts";
import type { LimitsBill, LimitsCell, LimitsEngineFigures, LimitsFigures } from "./limits.ts";
import { list, section, table } from "./markdown.ts";
import { BUCKET } from "./workers/check-load.ts";

export function limitsText(figures: LimitsFigures): string {
  const { isDirect, message, cells, bills, engine } = figures;
  const lone = cells.filter(({ depth }) => depth === 1);
  return section(
    "Rate limits over a service binding",
    list([
      `Token buckets (burst ${count(BUCKET.burst)}, rate ${BUCKET.ratePerS.toLocaleString("en-US")}/s) that grant every ` +
        "check, and so write it.",
      "Counter: a Durable Object for each key, called through a binding, which writes a row per call. " +
        "Bare: the two calls that a check takes, with nothing in them.",
      "Redis: a script over TCP, with an append-only file synced every second and a connection for each check under way. " +
        "On many keys the key is random.",
      "A message from outside asks for each call, " +
        `${isDirect ? "straight to the runtime" : "through the proxy of wrangler"}: it takes ` +
        `${message.p50Ms.toFixed(3)} ms (p50) and ${processorText(message.processorUs)} us by itself.`,
      "us: processor time per check, of the runtime and so of the calling Worker too. An object that was not called for " +
        "10 s sleeps, here as on the platform: most of many counters are woken first.",
    ]),
    table(RATE_TITLES, cells.map(rateFields)),
    "One call under way, in milliseconds:",
    table(TIME_TITLES, lone.map(timeFields)),
    billsText(bills),
    engineText(engine),
  );
}

type Measured = LimitsMeasurement | null;

const RATE_TITLES = [
  "keys",
  "checks in a call",
  "calls under way",
  "shards",
  "checks/s",
  "us",
  "counter/s",
  "us",
  "x counter",
  "bare/s",
  "us",
  "x bare",
  "Redis/s",
  "x Redis",
];

function rateFields(cell: LimitsCell): string[] {
  const { keys, checks, depth, shards, server, counter, bare, redis } = cell;
  const rate = (measured: Measured): string => text(measured, (its) => count(its.checksPerS));
  const processor = (measured: Measured): string =>
    text(measured, (its) => processorText(its.processorUs));
  const times = (measured: Measured): string =>
    text(measured, (its) => (server.checksPerS / its.checksPerS).toFixed(2));
  return [
    ...[keys, checks, depth, shards].map(count),
    rate(server) + refusedText(cell),
    processor(server),
    rate(counter),
    processor(counter),
    times(counter),
    rate(bare),
    processor(bare),
    times(bare),
    rate(redis),
    times(redis),
  ];
}

const TIME_TITLES = [
  "keys",
  "checks in a call",
  "shards",
  "p50",
  "p99",
  "counter p50",
  "p99",
  "p50 x counter",
  "bare p50",
  "p99",
  "Redis p50",
  "p99",
];

function timeFields({ keys, checks, shards, server, ...others }: LimitsCell): string[] {
  const { counter, bare, redis } = others;
  const times = (measured: Measured): string[] => [
    text(measured, (its) => its.p50Ms.toFixed(3)),
    text(measured, (its) => its.p99Ms.toFixed(3)),
  ];
  return [
    ...[keys, checks, shards].map(count),
    ...times(server),
    ...times(counter),
    text(counter, (its) => (server.p50Ms / its.p50Ms).toFixed(2)),
    ...times(bare),
    ...(checks === 1 ? times(redis) : times(null)),
  ];
}

function text(measured: Measured, format: (its: LimitsMeasurement) => string): string {
  return measured === null ? "-" : format(measured);
}

function processorText(microseconds: number | null): string {
  return microseconds === null ? "-" : microseconds.toFixed(microseconds < 100 ? 1 : 0);
}

function refusedText({ server }: LimitsCell): string {
  return server.refusedShare > 0 ? ` (${percent(server.refusedShare)} refused)` : "";
}

function billsText(bills: readonly LimitsBill[]): string {
  const { dollarsPerMillionRequests, dollarsPerMillionRows, dollarsPerMillionGbS } = PRICES;
  return [
    "### What a million checks cost",
    list([
      "Requests to objects and rows written, as the platform counts them, with cuts of the journal and alarms. How many " +
        "rows there are depends on how many checks arrive while a commit is under way.",
      `List prices: $${dollarsPerMillionRequests.toFixed(2)} per million requests and ` +
        `$${dollarsPerMillionRows.toFixed(2)} per million rows. The caller's own request ($0.30 per million) and processor ` +
        "time of Workers come on top; a call over a service binding is not a request.",
      `Duration at most: all objects at work all the time, ${PRICES.objectGb * 1000} MB each, at ` +
        `$${dollarsPerMillionGbS.toFixed(2)} per million GB-s.`,
    ]),
    table(BILL_TITLES, bills.map(billFields)),
  ].join("\n\n");
}

const BILL_TITLES = [
  "method",
  "checks in a call",
  "calls under way",
  "shards",
  "requests",
  "rows",
  "dollars",
  "GB-s at most",
  "dollars",
];

/** How a bill's checks were asked for. */
export function methodOf({ shards, checks }: LimitsBill): string {
  if (shards === null) return "an object per key";
  return checks === 1 ? "limit" : "limitMany";
}

function billFields(bill: LimitsBill): string[] {
  const { checks, depth, shards, requests, rows, dollars, gbS, gbSDollars } = bill;
  return [
    methodOf(bill),
    count(checks),
    count(depth),
    shards === null ? "-" : String(shards),
    count(requests),
    count(rows),
    dollars.toFixed(4),
    count(gbS),
    gbSDollars.toFixed(4),
  ];
}

function engineText({ keys, depth, strategies }: LimitsEngineFigures): string {
  return [
    "### The engine alone",
    `Nanoseconds of processor time per check, over ${count(keys)} keys, with ${count(depth)} checks in a batch; the ` +
      "rows to store are made, too.",
    table(
      ["strategy", "encode", "apply", "read", "checks/s"],
      strategies.map(({ strategy, encodeNs, applyNs, readNs }) => [
        strategy,
        ...[encodeNs, applyNs, readNs, 1e9 / applyNs].map(count),
      ]),
    ),
  ].join("\n\n");
}
