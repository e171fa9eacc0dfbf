/** What a run says of the ways to decide, and of their prices. */
import { count } from "./format.ts";
import type { LimitsMeasurement } from "./limits-load.ts";
import { PRICES } from "./limits-price.ts";
import type { PricedWay, RatePrice } from "./local-prices.ts";
import { WAYS, type LocalFigures, type Way, type WayFigures } from "./local.ts";
import { list, section, table } from "./markdown.ts";

const WAY_NAMES: Readonly<Record<Way, string>> = {
  limit: "exact, service binding",
  embedded: "exact, inside the Worker",
  relaxed: "relaxed, service binding",
  relaxedEmbedded: "relaxed, inside the Worker",
  local: "`local`, service binding",
  localEmbedded: "`local`, inside the Worker",
  limitMany: "`limitMany` of 32, service binding",
  localMany: "`local`, `limitMany` of 32",
  map: "`Map` of token buckets",
  counter: "own counter object, SQL",
  put: "own counter object, get and put",
  empty: "empty call to an object",
  redis: "Redis, Lua token bucket",
};

export function localText(figures: LocalFigures): string {
  const { ways, message, depth, prices } = figures;
  const rows = [...WAYS, "redis" as const].map((way) => {
    const measured = ways.find((its) => its.way === way);
    return measured === undefined ? notMeasured(way) : wayFields(measured);
  });
  return section(
    "Ways to decide",
    list([
      '`limiter.limit` of one isolate on one hot key, whose token bucket grants every check. Exact: each decision is on disk before it is answered; relaxed: `durability: "relaxed"`; `local`: units that were drawn ahead.',
      "Server, objects and caller share a process and a thread here, and the ways are measured in turns.",
      "The `Map` decides in the isolate's memory, for this isolate alone. The own counter objects are those of the platform's documentation: one for each key, which writes a row per call. Redis: a script over TCP from outside, with an append-only file synced every second.",
      "p50 and p99, in milliseconds, are of one call at a time, asked for by a message from outside, which takes " +
        `${message.p50Ms.toFixed(3)} ms (p50) by itself: it is nearly all of a decision in memory.`,
      `Decisions a second are with ${depth} calls under way, and loops of decisions in the Worker. us: processor time of a decision, caller included. ` +
        "x counter: decisions a second over those of the counter in SQL in the same round; x `Map`: decisions in a second of processor time over those of the `Map` (medians of the rounds).",
    ]),
    table(WAY_TITLES, rows),
    pricesText(prices),
  );
}

const WAY_TITLES = [
  "way",
  "p50",
  "p99",
  "lone x counter",
  "decisions/s",
  "us",
  "x counter",
  "x `Map`",
];

function wayFields(figures: WayFigures): string[] {
  const { way, lone, many, loneTimesCounter, timesCounter, timesMap } = figures;
  return [
    WAY_NAMES[way],
    lone.p50Ms.toFixed(3),
    lone.p99Ms.toFixed(3),
    times(loneTimesCounter),
    count(many.checksPerS),
    processorText(many),
    times(timesCounter),
    timesMap === null ? "-" : times(timesMap),
  ];
}

function notMeasured(way: Way): string[] {
  return [WAY_NAMES[way], "not measured", ...WAY_TITLES.slice(2).map(() => "-")];
}

/** Two digits that count. */
function short(value: number): string {
  return value >= 10 ? count(value) : value.toPrecision(2);
}

function times(ratio: number): string {
  return ratio < 0.01 ? "< 0.01" : short(ratio);
}

function processorText({ processorUs }: LimitsMeasurement): string {
  return processorUs === null ? "-" : short(processorUs);
}

const PRICED_NAMES: Readonly<Record<PricedWay, string>> = {
  limit: "exact",
  relaxed: "relaxed",
  local: "`local`",
};

/** Seconds of 30 days, in millions: dollars a month are dollars per million times a rate times this. */
const MEGASECONDS_PER_MONTH = 2.592;

export function pricesText(prices: readonly RatePrice[]): string {
  const { dollarsPerMillionRequests, dollarsPerMillionRows } = PRICES;
  return [
    "### What a million decisions on a hot key cost",
    list([
      "Requests to objects and rows written per million decisions of one isolate at a steady rate, counted by the objects, alarms and cuts of the journal included.",
      `List prices: $${dollarsPerMillionRequests.toFixed(2)} per million requests, $${dollarsPerMillionRows.toFixed(2)} per million rows. ` +
        "The caller's own request ($0.30 per million) is the same in all rows and left out; so is the duration of the shard, which is awake in all of them.",
      "A counter object of one's own costs 1,000,000 requests and 1,000,000 rows at each rate: $1.15.",
    ]),
    table(PRICE_TITLES, prices.map(priceFields)),
    ...conclusions(prices),
  ].join("\n\n");
}

/** What follows from the prices: from when on local decisions pay. */
function conclusions(prices: readonly RatePrice[]): string[] {
  const hottest = prices.findLast(({ way }) => way === "local");
  if (hottest === undefined) return [];
  const messagesPerS = (hottest.requests / 1e6) * hottest.checksPerS;
  return [
    `With \`local\` an isolate sends ${messagesPerS.toFixed(1)} messages a second for a hot key, however hot it is. So it pays ` +
      `from about ${Math.ceil(messagesPerS)} decisions a second on a key in one isolate. A quieter key costs as much as with an ` +
      "exact limit: a message for each decision. Relaxed decisions save rows alone, of which a shard writes at most 20 a second for them.",
  ];
}

const PRICE_TITLES = [
  "way",
  "decisions/s on the key",
  "requests",
  "rows",
  "dollars per million",
  "dollars a month",
];

function priceFields(price: RatePrice): string[] {
  const { way, askedPerS, checksPerS, requests, rows, dollars } = price;
  // A server that is too slow for a rate gives the figures of the rate that it reached.
  const isReached = checksPerS > askedPerS * REACHED_SHARE;
  return [
    PRICED_NAMES[way],
    isReached ? count(askedPerS) : `${count(checksPerS)} of ${count(askedPerS)}`,
    count(requests),
    count(rows),
    short(dollars),
    short(dollars * checksPerS * MEGASECONDS_PER_MONTH),
  ];
}

const REACHED_SHARE = 0.95;
