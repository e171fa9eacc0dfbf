/** What a run says on screen of rate limits. */
import { count, percent } from "./format.ts";
import type { LimitsMeasurement } from "./limits-load.ts";
import { PRICES } from "./limits-price.ts";
import type { LimitsBill, LimitsCell, LimitsEngineFigures, LimitsFigures } from "./limits.ts";
import { rowOf } from "./report-parts.ts";
import { BUCKET } from "./workers/check-load.ts";

export function limitsText(figures: LimitsFigures): string {
  const { isDirect, message, cells, bills, engine } = figures;
  const lone = cells.filter(({ depth }) => depth === 1);
  return [
    "rate limits, by a Worker that is bound to the server; token buckets " +
      `(burst ${count(BUCKET.burst)}, rate ${BUCKET.ratePerS.toLocaleString("en-US")}/s) that grant every check, and so write it`,
    "counter: bound to an object for each key, which writes a row per call; bare: the two calls that a check " +
      "takes, with nothing in them;",
    "Redis: a script, append-only file, over TCP, a connection with as many checks under way; on many keys: at random",
    "each call is asked for by a message from outside, " +
      `${isDirect ? "straight to the runtime" : "through the proxy of wrangler"}: ` +
      `${message.p50Ms.toFixed(3)} ms (p50) and ${processorText(message.processorUs)} us are the message's`,
    "us: time on processors per check, of the runtime and so of the calling Worker too; an object that was not asked",
    "for 10 s sleeps, here as on the platform: of many counters, most are woken first",
    rowOf(RATE_TITLES, RATE_WIDTHS),
    ...cells.map((cell) => rowOf(rateFields(cell), RATE_WIDTHS) + refusedText(cell)),
    "one call under way: its time, ms",
    rowOf(TIME_TITLES, TIME_WIDTHS),
    ...lone.map((cell) => rowOf(timeFields(cell), TIME_WIDTHS)),
    ...billsText(bills),
    ...engineText(engine),
  ].join("\n");
}

type Measured = LimitsMeasurement | null;

const RATE_TITLES = [
  "keys",
  "a call",
  "calls",
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
const RATE_WIDTHS = [7, 8, 7, 8, 11, 7, 11, 7, 11, 9, 7, 8, 10, 9];

function rateFields(cell: LimitsCell): string[] {
  const { keys, checks, depth, shards, server, counter, bare, redis } = cell;
  const rate = (measured: Measured): string => text(measured, (its) => count(its.checksPerS));
  const processor = (measured: Measured): string =>
    text(measured, (its) => processorText(its.processorUs));
  const times = (measured: Measured): string =>
    text(measured, (its) => (server.checksPerS / its.checksPerS).toFixed(2));
  return [
    ...[keys, checks, depth, shards].map(count),
    rate(server),
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
  "a call",
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
const TIME_WIDTHS = [7, 8, 8, 9, 9, 13, 9, 15, 10, 9, 11, 9];

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
  return server.refusedShare > 0 ? `  ${percent(server.refusedShare)} refused` : "";
}

function billsText(bills: readonly LimitsBill[]): string[] {
  const { dollarsPerMillionRequests, dollarsPerMillionRows, dollarsPerMillionGbS } = PRICES;
  return [
    "per million checks: requests to objects and rows written, as the platform counts them (cuts of the " +
      "journal and alarms with them),",
    `at list price: $${dollarsPerMillionRequests.toFixed(2)} per million requests, ` +
      `$${dollarsPerMillionRows.toFixed(2)} per million rows. Not in it: the caller's own request, $0.30 per million,`,
    "and processor time of Workers; a call over a service binding is no request. Rows depend on how many checks come",
    "while a commit is on its way.",
    `Duration, at most: all objects at work all the while, ${PRICES.objectGb * 1000} MB each, at ` +
      `$${dollarsPerMillionGbS.toFixed(2)} per million GB-s`,
    rowOf(BILL_TITLES, BILL_WIDTHS),
    ...bills.map((bill) => rowOf(billFields(bill), BILL_WIDTHS)),
  ];
}

const BILL_TITLES = [
  "asked",
  "a call",
  "calls",
  "shards",
  "requests",
  "rows",
  "dollars",
  "GB-s",
  "dollars",
];
const BILL_WIDTHS = [-10, 8, 7, 8, 12, 12, 10, 11, 10];

function billFields(bill: LimitsBill): string[] {
  const { checks, depth, shards, requests, rows, dollars, gbS, gbSDollars } = bill;
  return [
    shards === null ? "counter" : checks === 1 ? "limit" : "limitMany",
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

function engineText({ keys, depth, strategies }: LimitsEngineFigures): string[] {
  return [
    `engine alone: ns of a thread's time on a processor per check; ${count(keys)} keys, ` +
      `${count(depth)} checks a batch, rows taken`,
    rowOf(["strategy", "encode", "apply", "read", "checks/s"], ENGINE_WIDTHS),
    ...strategies.map(({ strategy, encodeNs, applyNs, readNs }) =>
      rowOf([strategy, ...[encodeNs, applyNs, readNs, 1e9 / applyNs].map(count)], ENGINE_WIDTHS),
    ),
  ];
}

const ENGINE_WIDTHS = [-16, 9, 9, 9, 12];
