/** Routes that show what rate limits have decided: which refuse, for whom, and which keys are hot. */
import { ThrottrError } from "../../wire/edge/error.ts";
import { beginsWithAny, binaryBytes, binaryString } from "../../wire/bytes.ts";
import { checked } from "../../wire/edge/limit.ts";
import type {
  HotKey,
  LimitFigures,
  LimitRates,
  OneLimitFigures,
} from "../../wire/limit-figures.ts";
import { checkName } from "../../wire/ratelimit/keys.ts";
import { mergeKeys, mergeLimits, silentOf, type MergedKey } from "../../dispatch/limit-figures.ts";
import { isSilence } from "../../dispatch/survey.ts";
import type { Access } from "../../base/access.ts";
import { presentMs } from "../../base/clock.ts";
import { askLimitFigures } from "../survey.ts";
import { textFields } from "../text.ts";
import { ok, route } from "./route.ts";
import { limitFiguresAnswer, oneLimitAnswer } from "./schemas/limit-figures.ts";
import type { Caller } from "../caller.ts";

/** Keys of an answer: as many as a shard knows of. */
const KEYS_MAX = 64;

/** What both routes say of rights. */
const PREFIXES =
  "With `keyPrefixes` in the token, only limiters and keys that they allow; the counts of a limiter cover all its keys.";

/** What is merged for one caller. */
interface Asked {
  readonly merged: ReturnType<typeof mergeLimits>;
  /** Those that the caller may see. */
  readonly hottest: readonly MergedKey[];
  readonly mostRefused: readonly MergedKey[];
  readonly atMs: number;
  readonly unreachableShards: readonly number[];
}

async function ask(caller: Caller): Promise<Asked> {
  const answers = await askLimitFigures(caller);
  const shards = answers.flatMap((answer) => (isSilence(answer) ? [] : [answer]));
  const shown = (keys: MergedKey[]) => keys.filter(({ key }) => maySee(caller.access, key));
  return {
    merged: mergeLimits(shards.map(({ counts }) => counts)),
    hottest: shown(mergeKeys(shards.map(({ hottest }) => hottest))),
    mostRefused: shown(mergeKeys(shards.map(({ mostRefused }) => mostRefused))),
    atMs: presentMs(),
    unreachableShards: silentOf(answers),
  };
}

/** A key that the caller could not ask a limit about is not shown either: it may be the name of a person. */
function maySee({ keyPrefixes }: Access, key: Uint8Array): boolean {
  return beginsWithAny(keyPrefixes, key, 0, key.length);
}

/** Whether the caller could ask the limiter about some key: its stored keys begin with the name and a colon. */
function maySeeName({ keyPrefixes }: Access, name: string): boolean {
  const begin = binaryBytes(`${name}:`);
  return (
    keyPrefixes.length === 0 ||
    keyPrefixes.some((prefix) => {
      const length = Math.min(prefix.length, begin.length);
      return begin.subarray(0, length).every((byte, i) => prefix[i] === byte);
    })
  );
}

/** The key as callers of a limit give it: without the name of the limiter. */
function hotKeyOf({ name, key, count, errorMax }: MergedKey): HotKey {
  return { ...textFields("key", key.subarray(name.length + 1)), count, countErrorMax: errorMax };
}

const namedKeyOf = (row: MergedKey) => ({ name: row.name, ...hotKeyOf(row) });

const sumOf = (rates: LimitRates, field: "total" | "perMinute"): number =>
  rates.allowed[field] + rates.refused[field] + rates.errors[field];

/** Most decisions of the last minute first. */
const byActivity = (a: LimitRates & { name: string }, b: LimitRates & { name: string }): number =>
  sumOf(b, "perMinute") - sumOf(a, "perMinute") ||
  sumOf(b, "total") - sumOf(a, "total") ||
  (a.name < b.name ? -1 : 1);

async function figuresOf(caller: Caller): Promise<LimitFigures> {
  const { merged, hottest, mostRefused, atMs, unreachableShards } = await ask(caller);
  const limits = [...merged.byName]
    .filter(([name]) => maySeeName(caller.access, name))
    .map(([name, rates]) => ({ name, ...rates }));
  return {
    atMs,
    limits: limits.toSorted(byActivity),
    others: sumOf(merged.others, "total") === 0 ? null : merged.others,
    hottest: hottest.slice(0, KEYS_MAX).map(namedKeyOf),
    mostRefused: mostRefused.slice(0, KEYS_MAX).map(namedKeyOf),
    unreachableShards,
  };
}

/** @throws ThrottrError `prefix_missing`, `limit_absent` */
async function figuresOfOne(caller: Caller, name: string): Promise<OneLimitFigures> {
  if (!maySeeName(caller.access, name)) {
    throw new ThrottrError(
      "prefix_missing",
      "name: none of the caller's keyPrefixes allows a key of this limiter",
    );
  }
  const { merged, hottest, mostRefused, atMs, unreachableShards } = await ask(caller);
  const rates = merged.byName.get(name);
  if (rates === undefined) {
    throw new ThrottrError(
      "limit_absent",
      `name: no shard that answered has counted a decision of the limiter ${name}`,
    );
  }
  const keysOf = (keys: readonly MergedKey[]): HotKey[] =>
    keys
      .filter((row) => row.name === name)
      .slice(0, KEYS_MAX)
      .map(hotKeyOf);
  return {
    atMs,
    name,
    ...rates,
    hottest: keysOf(hottest),
    mostRefused: keysOf(mostRefused),
    unreachableShards,
  };
}

export const limitFigureRoutes = [
  route({
    method: "GET",
    path: "/v1/limits",
    id: "limitFigures",
    tag: "admin",
    summary: "Show what limits have decided, and the hottest keys",
    description: `Asks every shard once. Totals outlive a shard, except for the last ones before it sleeps or restarts; hot keys and figures per minute begin again with it. With \`METRICS=off\` nothing is counted. ${PREFIXES}`,
    scopes: ["admin"],
    answers: { 200: { description: "The figures. Not a snapshot.", schema: limitFiguresAnswer } },
    example: { url: "/v1/limits" },
    answer: async ({ caller }) => ok(await figuresOf(caller)),
  }),
  route({
    method: "GET",
    path: "/v1/limits/{name}",
    id: "oneLimitFigures",
    tag: "admin",
    summary: "Show what one limiter has decided, and its hottest keys",
    description: `A limiter counts under what its name has before the first colon. Its keys are those among the 64 of a shard. ${PREFIXES}`,
    scopes: ["admin"],
    answers: { 200: { description: "The figures. Not a snapshot.", schema: oneLimitAnswer } },
    errors: ["base_key_invalid", "limit_absent"],
    example: { url: "/v1/limits/api" },
    answer: async ({ caller, path }) => {
      const text = binaryString(path.name, 0, path.name.length);
      const name = checked(() => checkName(text, "name", "base_key_invalid"));
      return ok(await figuresOfOne(caller, name));
    },
  }),
];
