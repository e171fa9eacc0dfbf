/** `throttr-edge`, as people and scripts use it, against a server. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { stripVTControlCharacters } from "node:util";
import * as v from "valibot";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
import { startThrottr, type TestServer } from "throttr-edge/testing";
import { HALVING_MS } from "../../src/engine/key-sketch.ts";
import {
  cli,
  startAtTerminal,
  startCli,
  type Ended,
  type RunOptions,
} from "../support/cli/process.ts";

const SECRET = "cli-secret";

let server: TestServer;
let folder: string;
let environment: Record<string, string>;

beforeAll(async () => {
  server = await startThrottr();
  folder = mkdtempSync(join(tmpdir(), "throttr-cli-"));
  environment = {
    THROTTR_URL: server.url,
    XDG_CONFIG_HOME: join(folder, "config"),
    XDG_STATE_HOME: join(folder, "state"),
  };
});

afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

beforeEach(() => server.flush());

/** Runs a command line against the server. */
async function run(line: string | readonly string[], options: RunOptions = {}): Promise<Ended> {
  const args = typeof line === "string" ? line.split(" ").filter(Boolean) : line;
  return await cli(args, { ...options, environment: { ...environment, ...options.environment } });
}

/** Runs it with `--json`, and gives what it prints, checked. */
async function json<Schema extends v.GenericSchema>(
  line: string | readonly string[],
  schema: Schema,
  exitCode = 0,
  options: RunOptions = {},
): Promise<v.InferOutput<Schema>> {
  const args = typeof line === "string" ? line.split(" ").filter(Boolean) : line;
  const ended = await run([args[0]!, "--json", ...args.slice(1)], options);
  expect(ended).toMatchObject({ exitCode, err: "" });
  expect(ended.out.endsWith("\n")).toBe(true);
  expect(ended.out.split("\n")).toHaveLength(2);
  return v.parse(schema, JSON.parse(ended.out));
}

async function jsonLines<Schema extends v.GenericSchema>(
  line: string,
  schema: Schema,
): Promise<v.InferOutput<Schema>[]> {
  const { exitCode, out, err } = await run(`${line} --json`);
  expect({ exitCode, err }).toEqual({ exitCode: 0, err: "" });
  return out
    .split("\n")
    .filter(Boolean)
    .map((text) => v.parse(schema, JSON.parse(text)));
}

const encoding = v.picklist(["text", "base64"]);
const u64 = v.pipe(v.string(), v.regex(/^\d{1,20}$/));
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const rate = v.pipe(v.number(), v.minValue(0));
const keyed = { key: v.string(), keyEncoding: encoding };
const lifetime = { ttlMs: count, expiresAtMs: count };
const absent = v.strictObject({ ...keyed, found: v.literal(false) });
const counter = v.strictObject({ ...keyed, found: v.literal(true), quota: u64, ...lifetime });
const changed = v.strictObject({ ...counter.entries, applied: v.boolean() });
const buffer = v.strictObject({
  ...keyed,
  found: v.literal(true),
  value: v.string(),
  valueEncoding: encoding,
  bytes: count,
  ...lifetime,
});
const error = v.strictObject({
  error: v.strictObject({ code: v.string(), message: v.string(), exitCode: count }),
});

describe("counters", () => {
  const inserted = v.strictObject({ ...keyed, inserted: v.boolean() });

  it("counters are created, read and changed", async () => {
    const max = "18446744073709551615";
    expect(await json(`insert a --quota ${max} --ttl 1h`, inserted)).toEqual({
      key: "a",
      keyEncoding: "text",
      inserted: true,
    });
    expect((await json("insert a --quota 1 --ttl 1h", inserted, 1)).inserted).toBe(false);
    const read = await json("query a", counter);
    expect(read.quota).toBe(max);
    expect(read.ttlMs).toBeGreaterThan(3_590_000);
    expect(await json("update a increase 1", changed, 1)).toMatchObject({ applied: false });
    expect(await json("update a decrease 5", changed)).toMatchObject({
      applied: true,
      quota: "18446744073709551610",
    });
    expect((await json("update a patch 7", changed)).quota).toBe("7");
    await json("query b", absent, 1);
    await json("update b increase 1", absent, 1);
  });

  it("increment creates a counter, and is applied once with an idempotency key", async () => {
    const schema = v.strictObject({ ...keyed, quota: u64 });
    const line = "increment v --by 3 --ttl 1m --idempotency-key once";
    expect((await json(line, schema)).quota).toBe("3");
    expect((await json(line, schema)).quota).toBe("3");
    expect((await json("increment v --ttl 1m", schema)).quota).toBe("4");
  });

  it("counters are shown in a form for people", async () => {
    expect(await run("insert a --quota 5 --ttl 1h")).toMatchObject({
      exitCode: 0,
      out: "inserted\n",
    });
    expect((await run("insert a --quota 5 --ttl 1h")).out).toBe("the key already has a record\n");
    const { out } = await run("query a");
    expect(out).toMatch(/^quota    5\nttl      59m \d+s\nexpires  20\d\d-.*Z\n$/);
    expect((await run("update a increase 2")).out).toMatch(/^quota {4}7\n/);
    expect((await run("update a decrease 9")).out).toBe("not applied: the quota is 7\n");
    expect((await run("increment a --ttl 1m")).out).toBe("8\n");
    expect(await run("query nothing")).toEqual({
      exitCode: 1,
      out: "",
      err: "no such record\n",
    });
  });
});

describe("buffers", () => {
  const set = v.strictObject({ ...keyed, applied: v.literal(true), bytes: count });

  it("buffers are set from arguments and standard input, and read back to the byte", async () => {
    expect((await json(["set", "p", "wörld\n", "--ttl", "1h"], set)).bytes).toBe(7);
    expect(await json("get p", buffer)).toMatchObject({ value: "wörld\n", valueEncoding: "text" });
    const bytes = Uint8Array.of(0, 255, 10, 13);
    for (const line of ["set b --ttl 1h", "set b - --ttl 1h"]) {
      await json(line, set, 0, { input: bytes });
      expect(await json("get b", buffer)).toMatchObject({
        value: "AP8KDQ==",
        valueEncoding: "base64",
        bytes: 4,
      });
    }
    expect((await server.client.get("b"))!.value).toEqual(bytes);
    expect((await run("get b")).out).toBe("base64:AP8KDQ==\n");
    await json(["set", "text", "--ttl", "1m"], set, 0, { input: "a\nb" });
    expect(await run("get text --raw")).toEqual({ exitCode: 0, out: "a\nb", err: "" });
  });

  it("buffers may have binary keys and values", async () => {
    await json("set 00ff 0a0b --hex --ttl 1h", set);
    const read = await json("get AP8= --base64", buffer);
    expect(read).toMatchObject({ key: "AP8=", keyEncoding: "base64", value: "\n\u000b" });
    expect((await server.client.get(Uint8Array.of(0, 255)))!.value).toEqual(Uint8Array.of(10, 11));
  });

  it("buffers are compared and set", async () => {
    const compared = v.variant("applied", [
      v.strictObject({ ...keyed, applied: v.literal(true) }),
      v.strictObject({
        ...keyed,
        applied: v.literal(false),
        current: v.nullable(v.string()),
        currentEncoding: v.optional(encoding),
      }),
    ]);
    await json("set a one --ttl 1h --if-absent", compared);
    expect(await json("set a two --ttl 1h --if-absent", compared, 1)).toMatchObject({
      current: "one",
    });
    await json("set a two --ttl 1h --expect one", compared);
    expect(await json("set none two --ttl 1h --expect one", compared, 1)).toMatchObject({
      current: null,
    });
    expect((await run("set a three --ttl 1h --expect one")).out).toBe("not set: it holds two\n");
  });

  it("buffers and counters are told apart", async () => {
    await run("insert c --quota 1 --ttl 1h");
    const { exitCode, err } = await run("get c --json");
    expect(exitCode).toBe(3);
    expect(v.parse(error, JSON.parse(err)).error.code).toBe("kind_mismatch");
  });

  it("output of a buffer moves no cursor", async () => {
    await server.client.set("evil", "\u001b[2Jx\ny", { ttlMs: 60_000 });
    expect((await run("get evil")).out).toBe("\\u001b[2Jx\ny\n");
  });
});

describe("records", () => {
  it("an empty key is shown to people", async () => {
    await server.client.insert("", { quota: 1, ttlMs: 60_000 });
    const cell = expect.stringMatching(/^\(empty\) /m) as string;
    expect((await run("list")).out).toEqual(cell);
    expect((await run("stat")).out).toEqual(cell);
    expect((await run(["purge", ""])).out).toBe("purged  (empty)\n");
  });

  const listed = v.strictObject({
    ...keyed,
    kind: v.picklist(["counter", "buffer"]),
    quota: v.nullable(u64),
    bytes: v.nullable(count),
    expiresAtMs: count,
  });

  it("records are listed over pages, under a prefix, up to a limit", async () => {
    const names = Array.from({ length: 1203 }, (_, i) => `k${String(i).padStart(4, "0")}`);
    await Promise.all(
      names.map((name) => server.client.insert(name, { quota: 1n, ttlMs: 600_000 })),
    );
    await server.client.set("other", "abc", { ttlMs: 600_000 });
    const all = await jsonLines("list", listed);
    expect(all.map(({ key }) => key)).toEqual([...names, "other"]);
    expect(all.at(-1)).toMatchObject({ kind: "buffer", quota: null, bytes: 3 });
    expect(await jsonLines("list --prefix k --limit 1001", listed)).toHaveLength(1001);
    expect(await jsonLines("list --prefix none", listed)).toEqual([]);
    const { out, err } = await run("list --prefix k --limit 2");
    expect(out).toMatch(
      /^KEY {4}KIND {5}QUOTA, BYTES {2}EXPIRES\nk0000 {2}counter {13}1 {2}20.*Z\nk0001 .*Z\n$/,
    );
    expect(err).toBe("2 records\n");
    const whole = await run("list");
    expect(whole.out.match(/^KEY /gm)).toHaveLength(1);
  });

  it("a list stops when its reader has gone", async () => {
    await Promise.all(
      Array.from({ length: 500 }, (_, i) =>
        server.client.insert(`k${i}`, { quota: 1n, ttlMs: 600_000 }),
      ),
    );
    const line = `"${process.execPath}" dist/cli.js list --json | head -n 1`;
    const env = { ...process.env, ...environment };
    const { stdout: out, stderr: err } = spawnSync("sh", ["-c", line], { env, encoding: "utf8" });
    expect(err).toBe("");
    expect(JSON.parse(out)).toMatchObject({ key: "k0" });
  });

  it("a list does not need a reader of its remarks", async () => {
    await server.client.insert("k0", { quota: 1n, ttlMs: 600_000 });
    const env = { ...process.env, ...environment };
    const listing = spawn(process.execPath, ["dist/cli.js", "list"], { env });
    listing.stderr.destroy();
    const exited = once(listing, "exit");
    expect(await text(listing.stdout)).toContain("k0");
    expect(await exited).toEqual([0, null]);
  });

  it("a list that can't be printed is an error in JSON, too", async () => {
    await server.client.insert("k0", { quota: 1n, ttlMs: 600_000 });
    const line = `"${process.execPath}" dist/cli.js list --json > /dev/full`;
    const env = { ...process.env, ...environment };
    const { status, stderr } = spawnSync("sh", ["-c", line], { env, encoding: "utf8" });
    expect(status).toBe(2);
    expect(v.parse(error, JSON.parse(stderr)).error.code).toBe("file_unwritable");
  });

  it("records live as long as their TTL says", async () => {
    const schema = v.strictObject({ ...keyed, found: v.literal(true), ...lifetime });
    await run("insert c --quota 1 --ttl 1h");
    await run(["set", "b", "x", "--ttl", "1h"]);
    for (const key of ["c", "b"]) {
      expect((await json(`ttl ${key}`, schema)).ttlMs).toBeGreaterThan(3_590_000);
      expect((await json(`ttl ${key} 30s`, schema)).ttlMs).toBeLessThanOrEqual(30_000);
      expect((await json(`ttl ${key} 1h --increase`, schema)).ttlMs).toBeGreaterThan(3_600_000);
      expect((await json(`ttl ${key} 1h --decrease`, schema)).ttlMs).toBeLessThanOrEqual(30_000);
    }
    expect((await run("ttl c")).out).toMatch(/^ttl {6}\d+s\nexpires {2}20.*Z\n$/);
    await json("ttl none", absent, 1);
    await json("ttl none 1h", absent, 1);
  });

  it("records are purged by key, or by prefix", async () => {
    const purged = v.strictObject({ ...keyed, purged: v.boolean() });
    await run("insert a --quota 1 --ttl 1h");
    await run("insert p1 --quota 1 --ttl 1h");
    await run("insert p2 --quota 1 --ttl 1h");
    expect((await json("purge a", purged)).purged).toBe(true);
    expect((await json("purge a", purged, 1)).purged).toBe(false);
    const mixed = await run("purge p1 none");
    expect(mixed).toMatchObject({ exitCode: 1, out: "purged  p1\nabsent  none\n" });
    const unsure = await run("purge --prefix p");
    expect(unsure).toMatchObject({ exitCode: 2, out: "" });
    expect(unsure.err).toContain("Use --yes to confirm.");
    expect(await server.client.query("p2")).not.toBeNull();
    const removed = v.strictObject({
      prefix: v.string(),
      prefixEncoding: encoding,
      removed: count,
    });
    expect((await json("purge --prefix p --yes", removed)).removed).toBe(1);
  });
});

/** The counts of keys are halved every five minutes: not between the calls of a test. */
async function farFromHalving(): Promise<void> {
  const leftMs = HALVING_MS - (Date.now() % HALVING_MS);
  if (leftMs < 20_000) await new Promise((resolve) => setTimeout(resolve, leftMs + 100));
}

describe("figures", () => {
  it("info shows the figures of the namespace", async () => {
    await run("insert a --quota 1 --ttl 1h");
    const figure = v.strictObject({ total: count, perMinute: count });
    const schema = v.object({
      version: v.string(),
      keys: count,
      requests: count,
      requestsByType: v.record(v.string(), figure),
    });
    const before = await json("info", schema);
    await run("increment hits --by 2 --ttl 1h");
    const figures = await json("info", schema);
    expect(figures.keys).toBe(2);
    // Totals begin with the namespace, whatever other tests have removed from it.
    const increments = before.requestsByType["increment"]!.total + 1;
    expect(figures.requestsByType).toMatchObject({
      increment: { total: increments },
      other: { total: 0 },
    });
    const { out } = await run("info");
    expect(out).toMatch(new RegExp(`^increment +${increments} +\\d+$`, "m"));
    expect(out).toMatch(/^version +\d/);
    expect(out).toMatch(/^keys +2: counters 2, buffers 0$/m);
    expect(out).toMatch(/^info +\d+ +\d+$/m);
  });

  it("stats shows the figures of records, the busiest first", async () => {
    const usage = { reads: count, writes: count, readsPerMinute: count, writesPerMinute: count };
    await run("insert idle --quota 1 --ttl 1h");
    await run("insert busy --quota 1 --ttl 1h");
    for (let i = 0; i < 3; i++) await server.client.query("busy");
    const one = v.strictObject({ ...keyed, found: v.literal(true), ...usage });
    expect(await json("stat busy", one)).toMatchObject({ reads: 3, writes: 1 });
    await json("stat none", absent, 1);
    const all = await jsonLines("stat", v.strictObject({ ...keyed, ...usage }));
    expect(all.map(({ key }) => key)).toEqual(["busy", "idle"]);
    const { out, err } = await run("stat --limit 1");
    expect(out).toMatch(/^KEY .*\nbusy +3 +3 +1 +1\n$/);
    expect(err).toBe("1 of 2 records\n");
  });

  it("decisions of limits are shown by limiter, and of one limiter with its keys", async () => {
    await farFromHalving();
    const bucket = "--strategy token_bucket --burst 1 --rate 0.001";
    for (const who of ["ada", "ada", "ada", "bob"]) await run(`limit api ${who} ${bucket}`);
    await run(`limit login ada ${bucket}`);
    const rates = v.strictObject({ total: count, perMinute: count });
    const outcomes = { allowed: rates, refused: rates, errors: rates, local: rates };
    const key = { key: v.string(), count, countErrorMax: count };
    const named = v.strictObject({ name: v.string(), ...key });
    const common = { atMs: count, unreachableShards: v.array(count) };
    const all = v.strictObject({
      ...common,
      limits: v.array(v.strictObject({ name: v.string(), ...outcomes })),
      others: v.null(),
      hottest: v.array(named),
      mostRefused: v.array(named),
    });
    const { limits } = await json("limits", all);
    expect(limits).toMatchObject([
      { name: "api", allowed: { total: 2 }, refused: { total: 2 } },
      { name: "login", allowed: { total: 1 } },
    ]);
    const table = await run("limits");
    expect(table.out).toMatch(
      /^LIMITER +ALLOWED +A MINUTE +REFUSED +A MINUTE +ERRORS +A MINUTE +LOCAL +A MINUTE\n/,
    );
    expect(table.out).toMatch(/\napi +2 +2 +2 +2 +0 +0 +0 +0\n/);
    const one = await run("limits api");
    expect(one.out).toMatch(/^limiter +api\nallowed +2, 2 a minute\nrefused +2, 2 a minute\n/);
    expect(one.out).toMatch(/\nHOTTEST +COUNT +ERROR\nada +3 +0\nbob +1 +0\n/);
    expect(one.out).toMatch(/\nMOST REFUSED +COUNT +ERROR\nada +2 +0\n$/);
    expect(await run("limits nobody")).toMatchObject({
      exitCode: 3,
      err: expect.stringContaining("limit_absent"),
    });
    const views = await jsonLines(
      "top --top 1 --count 2 --interval 100ms",
      v.strictObject({ atMs: count, hottest: v.array(named), mostRefused: v.array(named) }),
    );
    expect(views.map(({ hottest }) => hottest)).toMatchObject(
      views.map(() => [{ name: "api", key: "ada", count: 3 }]),
    );
    expect((await run("top --count 1")).out).toMatch(
      /\nHOTTEST +LIMITER +COUNT +ERROR\nada +api +3/,
    );
    const endless = startCli(["limits", "--watch", "--interval", "100ms"], { environment });
    await endless.printed("LIMITER");
    endless.signal("SIGINT");
    expect((await endless.ended).exitCode).toBe(130);
  });

  it("figures are watched", async () => {
    await run("insert a --quota 1 --ttl 1h");
    const schema = v.strictObject({
      atSeconds: count,
      keys: count,
      connections: count,
      subscriptions: count,
      requests: count,
      requestsPerSecond: rate,
      records: v.array(
        v.strictObject({
          ...keyed,
          reads: count,
          writes: count,
          readsPerSecond: rate,
          writesPerSecond: rate,
        }),
      ),
    });
    const samples = await jsonLines("monitor --count 2 --interval 100ms", schema);
    expect(samples.map(({ records }) => records.map(({ key }) => key))).toEqual([["a"], ["a"]]);
    const { out } = await run("monitor --count 1");
    expect(out).toMatch(/^time .*\nrequests .*\nkeys +1\n/);
    expect(out).toMatch(/\nKEY +READS\/S +WRITES\/S +READS +WRITES\na /);
    const endless = startCli(["monitor", "--interval", "100ms"], { environment });
    await endless.printed("KEY");
    endless.signal("SIGINT");
    expect((await endless.ended).exitCode).toBe(130);
  });
});

describe("limits", () => {
  const quota = v.strictObject({
    allowed: v.boolean(),
    limit: v.number(),
    remaining: v.number(),
    reset: v.nullable(count),
  });
  const result = v.strictObject({
    name: v.string(),
    key: v.string(),
    success: v.boolean(),
    limit: v.number(),
    remaining: v.number(),
    reset: v.nullable(count),
    retryAfterMs: v.nullable(v.number()),
    reason: v.optional(v.string()),
    quotas: v.record(v.string(), quota),
  });

  it.each([
    "--strategy token_bucket --burst 2 --rate 0.001",
    "--strategy leaky_bucket --burst 2 --rate 0.001",
    "--strategy gcra --burst 2 --rate 0.001",
    "--strategy fixed_window --limit 2 --window 1h",
    "--strategy fixed_window --quota hour=2/1h --quota day=100/1d",
    "--strategy sliding_window --limit 2 --window 1d",
    "--strategy composite --limit 2 --window 1h --secondary gcra --burst 5 --rate 5",
  ])("%s limits are asked, refused, peeked at, refunded and reset", async (strategy) => {
    const ask = (more = "", exitCode = 0) =>
      json(`limit api /a:b ${strategy} ${more}`, result, exitCode);
    expect(await ask()).toMatchObject({ name: "api", key: "/a:b", success: true, remaining: 1 });
    expect((await ask("--peek")).remaining).toBe(1);
    expect((await ask("--cost 1")).remaining).toBe(0);
    const refused = await ask("", 1);
    expect(refused.success).toBe(false);
    expect(refused.retryAfterMs).toBeGreaterThan(0);
    await ask("--peek", 1);
    expect((await ask("--refund")).remaining).toBe(1);
    const forgotten = v.strictObject({ name: v.string(), key: v.string(), reset: v.boolean() });
    await json(`limit api /a:b ${strategy} --reset`, forgotten);
    await json(`limit api /a:b ${strategy} --reset`, forgotten, 1);
    expect(await ask("--cost 9", 1)).toMatchObject({ reason: "cost_exceeds_limit", reset: null });
  });

  const drawn = v.strictObject({
    ...result.entries,
    units: count,
    draw: v.nullable(count),
    lifeMs: v.number(),
    pauseMs: v.number(),
  });

  it("units are drawn, given back once, and refused when there is no room", async () => {
    const strategy = "--strategy fixed_window --limit 100 --window 1h";
    const ask = (more: string, exitCode = 0) =>
      json(`draw api /a:b ${strategy} ${more}`, drawn, exitCode);
    const first = await ask("--wanted 20 --lease 2s");
    expect(first).toMatchObject({ key: "/a:b", success: true, remaining: 80, units: 20 });
    expect(first.lifeMs).toBe(2000);
    const returned = `--cost 0 --return ${first.draw}=15 --granted 5 --refused 1`;
    expect(await ask(returned)).toMatchObject({ units: 0, draw: null, remaining: 95 });
    expect(await ask(returned)).toMatchObject({ units: 0, draw: null, remaining: 95 });
    const refused = await ask("--cost 96", 1);
    expect(refused).toMatchObject({ success: false, units: 0, draw: null });
    expect(refused.pauseMs).toBeGreaterThan(0);
    expect((await run("limits api")).out).toMatch(/\nlocal +12, 12 a minute\n/);
  });

  it("drawn units are shown in a form for people", async () => {
    const line = "draw api ada --strategy token_bucket --burst 8 --rate 1";
    expect((await run(`${line} --wanted 8`)).out).toMatch(
      /^allowed {2}6 of 8 left, reset 20.*Z\ndrew 2 units for 800ms: draw \d+\n$/,
    );
    // At this rate the bucket does not refill between two commands.
    const slow = line.replace("--rate 1", "--rate 0.001");
    expect((await run(`${slow} --cost 0`)).out).toMatch(/^allowed .*\nnothing drawn\n$/);
    expect((await run(`${slow} --cost 8`)).out).toMatch(
      /^refused .*\nnothing drawn, draw again in \d+m?s\n$/,
    );
  });

  it.each([
    ["--return 12", /Expected DRAW=UNITS/],
    ["--lease 10ms", /draw_invalid: leaseMs/],
    ["--cost -1", /cost/],
  ])("a draw with %s is refused, and exits with 2", async (more, message) => {
    const line = "draw api ada --strategy token_bucket --burst 8 --rate 1";
    const { exitCode, err } = await run(`${line} ${more}`);
    expect({ exitCode, err }).toEqual({ exitCode: 2, err: expect.stringMatching(message) });
  });

  it("several limits are charged together, and a refusal names the limit that refused and charges none", async () => {
    const all = v.strictObject({
      success: v.boolean(),
      refusedBy: v.nullable(count),
      retryAfterMs: v.nullable(v.number()),
      results: v.array(result),
    });
    const limits = "user//a=b=2/1h organisation/acme=3/1h service/all=100@10";
    const allowed = await json(`limit-all ${limits}`, all);
    expect(allowed).toMatchObject({ success: true, refusedBy: null, retryAfterMs: 0 });
    expect(allowed.results.map(({ name, key, remaining }) => [name, key, remaining])).toEqual([
      ["user", "/a=b", 1],
      ["organisation", "acme", 2],
      ["service", "all", 99],
    ]);
    await json(`limit-all organisation/acme=3/1h --cost 2`, all);
    const refused = await json(`limit-all ${limits}`, all, 1);
    expect(refused).toMatchObject({ success: false, refusedBy: 1 });
    expect(refused.retryAfterMs).toBeGreaterThan(3_500_000);
    const { out } = await run(`limit-all ${limits}`);
    expect(out).toMatch(
      /^refused {2}by organisation\/acme, retry in .*\nNAME +WHO +ALLOWED +LEFT +LIMIT\n/,
    );
    expect(out).toMatch(/\norganisation +acme +no +0 +3\n/);
    expect(
      (await run("limit user /a=b --strategy fixed_window --limit 2 --window 1h")).out,
    ).toMatch(/^allowed {2}0 of 2 left/);
  });

  it("several limits may be sliding windows and buckets of another strategy", async () => {
    const line = "limit-all user/ada=2/1h service/all=5@1 --windows sliding_window --buckets gcra";
    expect((await run(line)).out).toMatch(/^allowed\nNAME .*\nuser +ada +yes +1 +2\n/);
    const strategy = "--strategy sliding_window --limit 2 --window 1h";
    expect((await run(`limit user ada ${strategy} --peek`)).out).toMatch(/^allowed {2}1 of 2 left/);
    const bucket = "--strategy gcra --burst 5 --rate 1";
    expect((await run(`limit service all ${bucket}`)).exitCode).toBe(0);
  });

  it.each(["user", "user/ada", "user/ada=5", "user/ada=5/never", "user/ada=0@1", "/ada=5/1m"])(
    "limits are not asked together about %s, and it exits with 2",
    async (limit) => {
      const { exitCode, err } = await run(`limit-all ${limit}`);
      expect({ exitCode, err }).toMatchObject({
        exitCode: 2,
        err: expect.stringMatching(/Expect/),
      });
    },
  );

  it("an estimate is reserved and settled once, and a second settlement changes nothing", async () => {
    const strategy = "--strategy fixed_window --limit 1000 --window 1h";
    const reserved = v.strictObject({ ...result.entries, id: v.pipe(v.string(), v.uuid()) });
    const settled = v.strictObject({ ...result.entries, settled: count });
    const { id, remaining } = await json(`reserve tokens /a:b ${strategy} --cost 800`, reserved);
    expect(remaining).toBe(200);
    const refused = await run(`reserve tokens /a:b ${strategy} --cost 800`);
    expect(refused).toMatchObject({ exitCode: 1, out: expect.stringMatching(/^refused .*\n$/) });
    const settle = (cost: number) =>
      json(`settle tokens /a:b ${id} ${strategy} --cost ${cost}`, settled);
    expect(await settle(523)).toMatchObject({ settled: 523, remaining: 477 });
    expect(await settle(900)).toMatchObject({ settled: 523, remaining: 477 });
  });

  it("a reservation that is settled with 0 is released, and one that is unknown exits with 3", async () => {
    const strategy = "--strategy token_bucket --burst 10 --rate 0.001";
    const { out } = await run(`reserve jobs ada ${strategy} --cost 4 --ttl 5m`);
    expect(out).toMatch(
      /^allowed {2}6 of 10 left.*\nreservation [\da-f-]{36}, to be settled within 5m\n$/,
    );
    const [id] = /[\da-f-]{36}/.exec(out)!;
    expect((await run(`settle jobs ada ${id} ${strategy} --cost 0`)).out).toBe(
      "settled with 0: 10 of 10 left\n",
    );
    const unknown = await run(`settle jobs ada ${crypto.randomUUID()} ${strategy} --cost 0`);
    expect(unknown).toMatchObject({
      exitCode: 3,
      err: expect.stringContaining("reservation_ended"),
    });
  });

  it("limits of the command line are those of the library", async () => {
    const strategy = tokenBucket({ burst: 3, rate: 0.001 });
    const limiter = new RateLimiter({ throttr: server.client, name: "api", strategy });
    await limiter.limit("ünï");
    const line = "limit api ünï --strategy token_bucket --burst 3 --rate 0.001 --peek";
    expect((await json(line, result)).remaining).toBe(2);
  });

  it("limits are shown in a form for people", async () => {
    const line = "limit api ada --strategy fixed_window --quota a=1/1h --quota b=5/1d";
    const { out } = await run(line);
    expect(out).toMatch(
      /^allowed {2}0 of 1 left, reset 20.*Z\nQUOTA +ALLOWED +LEFT +LIMIT +RESET\n/,
    );
    expect(out).toMatch(/\nb +yes +4 +5 +20/);
    expect((await run(line)).out).toMatch(/^refused {2}0 of 1 left, retry in (1h|59m 59s)\n/);
    expect((await run(`${line} --cost 9`)).out).toContain("the cost is above the limit's capacity");
  });
});

describe("semaphores", () => {
  const uuid = v.pipe(v.string(), v.uuid());
  const named = { name: v.string(), nameEncoding: encoding };
  const lease = { leaseId: uuid, resources: count, ...lifetime };
  const acquired = v.strictObject({ ...named, acquired: v.literal(true), ...lease });
  const full = v.strictObject({ ...named, acquired: v.literal(false) });

  /** A semaphore of each test's own: what is held is not flushed. */
  let name: string;
  let names = 0;
  beforeEach(() => {
    name = `semaphore-${names++}`;
  });

  const holders = async (): Promise<number> => (await server.client.holders(name)).holders.length;

  it("semaphores are held by leases, which are renewed and released", async () => {
    const held = await json(`acquire ${name} --maximum 3 --resources 2`, acquired);
    expect(held).toMatchObject({ name, resources: 2 });
    expect(held.ttlMs).toBeGreaterThan(29_000);
    await json(`acquire ${name} --maximum 3 --resources 2`, full, 1);
    await json(`acquire ${name} --maximum 3 --resources 2 --conflict-exit-code 75`, full, 75);
    const same = `acquire ${name} --maximum 3 --resources 2 --ttl 1h --lease-id ${held.leaseId}`;
    expect((await json(same, acquired)).leaseId).toBe(held.leaseId);
    const renewed = v.strictObject({ ...named, renewed: v.literal(true), ...lease });
    const renewal = await json(`renew ${name} ${held.leaseId} --ttl 2h`, renewed);
    expect(renewal.ttlMs).toBeGreaterThan(7_190_000);
    const state = v.strictObject({
      ...named,
      found: v.literal(true),
      consumption: count,
      mostHeld: count,
      maximum: count,
    });
    expect(await json(`semaphore ${name}`, state)).toMatchObject({ consumption: 2, mostHeld: 2 });
    const row = v.strictObject({ ...named, consumption: count, mostHeld: count, maximum: count });
    expect(await jsonLines(`semaphores --prefix ${name}`, row)).toMatchObject([{ consumption: 2 }]);
    const holder = v.strictObject({
      kind: v.picklist(["connection", "lease"]),
      id: uuid,
      resources: count,
      expiresAtMs: v.nullable(count),
    });
    expect(await jsonLines(`holders ${name}`, holder)).toMatchObject([
      { kind: "lease", id: held.leaseId, resources: 2, expiresAtMs: renewal.expiresAtMs },
    ]);
    const released = v.strictObject({ ...named, leaseId: uuid, released: v.boolean() });
    await json(`release ${name} ${held.leaseId}`, released);
    await json(`release ${name} ${held.leaseId}`, released, 1);
    const gone = v.strictObject({ ...named, renewed: v.literal(false), leaseId: uuid });
    await json(`renew ${name} ${held.leaseId}`, gone, 1);
    await json("semaphore never-there", v.strictObject({ ...named, found: v.literal(false) }), 1);
    expect((await run(`renew ${name} nonsense`)).exitCode).toBe(2);
  });

  it("semaphores are shown in a form for people", async () => {
    const { out } = await run(`acquire ${name} --maximum 1`);
    expect(out).toMatch(
      /^lease {6}[\da-f-]{36}\nresources {2}1\nttl {8}(30|29)s\nexpires {4}20.*Z\n$/,
    );
    expect((await run(`acquire ${name} --maximum 1`)).out).toBe("no room for 1 of 1\n");
    expect((await run(`semaphores --prefix ${name}`)).out).toMatch(
      /^NAME +IN USE +MOST HELD\n.* 1 +1\n$/,
    );
    expect((await run(`semaphore ${name}`)).out).toBe("in use     1\nmost held  1\n");
    const listed = (await run(`holders ${name}`)).out;
    expect(listed).toMatch(/^KIND +ID +HOLDS +EXPIRES\nlease +[\da-f-]{36} +1 +20/);
    const id = /[\da-f-]{36}/.exec(listed)![0];
    expect((await run(`release ${name} ${id}`)).out).toBe("released\n");
    expect((await run(`release ${name} ${id}`)).out).toBe("no such lease\n");
  });

  it("a semaphore is held while a command runs, and the command's output and exit code are all there is", async () => {
    const script = `echo "$THROTTR_LEASE_ID"; cat; exit 7`;
    const args = ["acquire", name, "--maximum", "1", "--", "sh", "-c", script];
    const { exitCode, out, err } = await run(args, { input: "from outside" });
    expect([exitCode, err]).toEqual([7, ""]);
    expect(out).toMatch(/^[\da-f-]{36}\nfrom outside$/);
    expect(await holders()).toBe(0);
  });

  it("a lease is renewed while its command runs longer", async () => {
    const running = startCli(
      ["acquire", name, "--maximum", "1", "--ttl", "2s", "--", "sh", "-c", "sleep 6; echo done"],
      { environment },
    );
    while ((await holders()) === 0);
    await new Promise((resolve) => setTimeout(resolve, 4000));
    expect(await holders()).toBe(1);
    expect(await running.ended).toEqual({ exitCode: 0, out: "done\n", err: "" });
    expect(await holders()).toBe(0);
  });

  it("the next command runs when there is room, and not before", async () => {
    const script = "echo $$ >> $0; sleep 0.5; echo $$ >> $0";
    const file = join(folder, "turns");
    const line = [
      "acquire",
      name,
      "--maximum",
      "1",
      "--wait",
      "1m",
      "--",
      "sh",
      "-c",
      script,
      file,
    ];
    const all = await Promise.all([1, 2, 3].map(() => run(line)));
    expect(all.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0]);
    const turns = readFileSync(file, "utf8").trim().split("\n");
    expect(turns).toHaveLength(6);
    for (const at of [0, 2, 4]) expect(turns[at]).toBe(turns[at + 1]);
    const first = startCli(["acquire", name, "--maximum", "1", "--", "sleep", "2"], {
      environment,
    });
    while ((await holders()) === 0);
    const refused = await run([
      "acquire",
      name,
      "--maximum",
      "1",
      "--json",
      "--",
      "touch",
      `${file}2`,
    ]);
    expect(refused).toMatchObject({ exitCode: 1, out: "" });
    expect(v.parse(error, JSON.parse(refused.err)).error.code).toBe("semaphore_unavailable");
    expect(existsSync(`${file}2`)).toBe(false);
    first.signal("SIGTERM");
    expect((await first.ended).exitCode).toBe(128 + 15);
    expect(await holders()).toBe(0);
  });

  it("a command with a lease gets each signal once", async () => {
    const script = `let n = 0;
      process.on("SIGINT", () => {
        console.log("caught " + ++n);
        if (n === 6) process.exit(3);
      });
      setInterval(() => {}, 1000);
      console.log("ready");`;
    const args = ["acquire", name, "--maximum", "1", "--", process.execPath, "-e", script];
    const running = startCli(args, { environment });
    const rounds = [1, 2, 3, 4, 5, 6];
    await running.printed("ready");
    for (const round of rounds) {
      running.signal("SIGINT");
      await running.printed(`caught ${round}`);
    }
    const caught = rounds.map((round) => `caught ${round}\n`);
    expect(await running.ended).toMatchObject({ exitCode: 3, out: `ready\n${caught.join("")}` });
    expect(await holders()).toBe(0);
    const typed = startAtTerminal(args, environment);
    await typed.printed("ready");
    for (const round of rounds) {
      typed.type("\u0003");
      await typed.printed(`caught ${round}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    const { exitCode, out } = await typed.ended;
    expect(exitCode).toBe(3);
    expect(out.replaceAll("\r\n", "\n")).toBe(
      `ready\n${caught.map((line) => `^C${line}`).join("")}`,
    );
    expect(await holders()).toBe(0);
  });

  it("a command gets SIGHUP, and has its lease until it ends", async () => {
    const script = `process.on("SIGHUP", () => {
        console.log("hung up");
        setTimeout(() => process.exit(3), 1500);
      });
      setInterval(() => {}, 1000);
      console.log("ready");`;
    const args = ["acquire", name, "--maximum", "1", "--", process.execPath, "-e", script];
    const running = startCli(args, { environment });
    await running.printed("ready");
    running.signal("SIGHUP");
    await running.printed("hung up");
    expect(await holders()).toBe(1);
    expect((await running.ended).exitCode).toBe(3);
    expect(await holders()).toBe(0);
  });

  it("a command whose lease is lost is ended", async () => {
    const script = "trap 'echo ended; exit 0' TERM; echo ready; while :; do sleep 0.1; done";
    const running = startCli(
      ["acquire", name, "--maximum", "1", "--ttl", "1s", "--json", "--", "sh", "-c", script],
      { environment },
    );
    await running.printed("ready");
    const [holder] = (await server.client.holders(name)).holders;
    await server.client.release(name, holder!.id);
    const { exitCode, out, err } = await running.ended;
    expect([exitCode, out]).toEqual([4, "ready\nended\n"]);
    expect(v.parse(error, JSON.parse(err)).error.code).toBe("lease_lost");
  });

  it("a command that cannot run is reported as shells do it", async () => {
    const nothing = await run(["acquire", name, "--maximum", "1", "--", "no-such-program"]);
    expect([nothing.exitCode, nothing.err]).toEqual([
      127,
      expect.stringContaining("no-such-program"),
    ]);
    expect((await run(["acquire", name, "--maximum", "1", "--", folder])).exitCode).toBe(126);
    expect(await holders()).toBe(0);
  });
});

describe("channels", () => {
  const published = v.strictObject({
    channel: v.string(),
    channelEncoding: encoding,
    bytes: count,
    delivered: v.boolean(),
  });

  it.each(["http", "ws"])("channels carry messages over %s", async (scheme) => {
    const url = server.url.replace("http", scheme);
    const listener = startCli(
      ["subscribe", "news", "other", "--json", "--count", "3", "--url", url],
      {
        environment,
      },
    );
    await listener.printed('"subscribed","channel":"news"');
    await listener.printed('"subscribed","channel":"other"');
    expect(await json(`publish news hello --url ${url}`, published)).toMatchObject({
      delivered: true,
      bytes: 5,
    });
    await json("publish other -", published, 0, { input: Uint8Array.of(255) });
    await run(["publish", "news", "ünï\n"]);
    const { exitCode, out } = await listener.ended;
    expect(exitCode).toBe(0);
    const message = v.strictObject({
      event: v.literal("message"),
      channel: v.string(),
      channelEncoding: encoding,
      payload: v.string(),
      payloadEncoding: encoding,
      missed: count,
    });
    const messages = out
      .split("\n")
      .filter((line) => line.includes('"message"'))
      .map((line) => v.parse(message, JSON.parse(line)));
    expect(messages.map(({ channel, payload }) => [channel, payload])).toEqual([
      ["news", "hello"],
      ["other", "/w=="],
      ["news", "ünï\n"],
    ]);
  });

  it("channels carry each line of standard input", async () => {
    const listener = startCli(["subscribe", "log", "--raw", "--count", "3"], { environment });
    const schema = v.strictObject({
      channel: v.string(),
      channelEncoding: encoding,
      published: count,
      delivered: count,
    });
    await listener.noted("subscribed to log");
    expect(await json("publish log --lines", schema, 0, { input: "a\nb\r\n\n" })).toMatchObject({
      published: 3,
      delivered: 3,
    });
    expect(await listener.ended).toMatchObject({ exitCode: 0, out: "a\nb\n\n" });
  });

  it("messages are shown to people until Ctrl-C", async () => {
    const listener = startCli(["subscribe", "news"], { environment });
    await listener.noted("subscribed to news");
    expect((await run(["publish", "news", "a\u001b[2J"])).out).toBe("delivered\n");
    await listener.printed("news  a\\u001b[2J\n");
    listener.signal("SIGINT");
    expect((await listener.ended).exitCode).toBe(130);
    expect((await run("publish nobody x")).out).toBe("published; the channel has no subscribers\n");
  });

  it("a subscription ends with SIGTERM, too", async () => {
    const listener = startCli(["subscribe", "news", "--json"], { environment });
    await listener.printed("subscribed");
    listener.signal("SIGTERM");
    expect((await listener.ended).exitCode).toBe(143);
  });
});

describe("a load", () => {
  const latency = v.strictObject({
    min: rate,
    mean: rate,
    p50: rate,
    p90: rate,
    p99: rate,
    p999: rate,
    max: rate,
  });
  const schema = v.strictObject({
    type: v.string(),
    connections: count,
    depth: count,
    requests: count,
    refused: count,
    durationMs: count,
    requestsPerSecond: count,
    latencyMs: latency,
    bytesSent: count,
    bytesReceived: count,
  });

  it.each(["update", "query", "insert", "set", "get"])(
    "a load of %s is what the server counted, and leaves nothing",
    async (type) => {
      const before = (await server.client.info()).requestsByType[type]!.total;
      const line = `bench --type ${type} --requests 2000 --connections 3 --depth 7 --keys 50`;
      const measured = await json(line, schema);
      const after = (await server.client.info()).requestsByType[type]!.total;
      expect(measured).toMatchObject({
        type,
        connections: 3,
        depth: 7,
        requests: 2000,
        refused: 0,
      });
      const setUp = type === "set" ? 50 : 0;
      expect(after - before - setUp).toBe(2000);
      const { min, p50, p99, max } = measured.latencyMs;
      expect([min, p50, p99, max].toSorted((a, b) => a - b)).toEqual([min, p50, p99, max]);
      // As many as are under way share the time that there is.
      const { requests, durationMs, latencyMs } = measured;
      const underWay = (requests * latencyMs.mean) / durationMs;
      expect(underWay).toBeGreaterThan(10);
      expect(underWay).toBeLessThan(22);
      expect((await server.client.list()).records).toEqual([]);
    },
  );

  it.each(["increment", "limit", "acquire", "publish"])(
    "a load of %s is granted and answered as often as it was sent, and leaves nothing",
    async (type) => {
      const before = (await server.client.info()).requests;
      const line = `bench --type ${type} --requests 1000 --connections 3 --depth 7`;
      await json(line, schema);
      const measured = await json(line, schema);
      expect(measured).toMatchObject({ type, requests: 1000, refused: 0 });
      expect((await server.client.info()).requests - before).toBeGreaterThanOrEqual(2000);
      expect((await server.client.list()).records).toEqual([]);
      const { semaphores } = await server.client.semaphores({ prefix: "bench:" });
      expect(semaphores.filter(({ consumption }) => consumption > 0)).toEqual([]);
      // The server itself remembers them for a day: a second load adds none.
      expect(semaphores.length).toBeLessThanOrEqual(16);
    },
  );

  it("a load runs for the given time, and its result is shown", async () => {
    const { out, err } = await run("bench --duration 600ms --warm-up 100ms --type query");
    expect(out).toMatch(/^requests +\d+ in \d+ms\nrate +\d+ a second\n/);
    expect(out).toMatch(/^p99.9 +\d+\.\d{3} ms$/m);
    expect(err).toContain("query, 4 connections, 64 under way on each, 600ms");
  });

  it("an interrupted load shows what it measured, and removes its records", async () => {
    const endless = startCli(["bench", "--duration", "1h", "--json"], { environment });
    while ((await server.client.info()).connections === 0);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    endless.signal("SIGINT");
    const { exitCode, out } = await endless.ended;
    expect(exitCode).toBe(130);
    expect(v.parse(schema, JSON.parse(out)).requests).toBeGreaterThan(0);
    expect((await server.client.list()).records).toEqual([]);
  });
});

describe("tokens and profiles", () => {
  let closed: TestServer;

  beforeAll(async () => {
    closed = await startThrottr({ variables: { ACCESS: "token", TOKEN_SECRET: SECRET } });
  });

  afterAll(() => closed.close());

  async function mint(line: string): Promise<string> {
    const { exitCode, out } = await run(`token ${line}`, { environment: { TOKEN_SECRET: SECRET } });
    expect(exitCode).toBe(0);
    return out.trim();
  }

  it("tokens are refused or accepted by the server", async () => {
    const url = { THROTTR_URL: closed.url };
    const refused = await run("query a --json", { environment: url });
    expect(refused.exitCode).toBe(3);
    expect(v.parse(error, JSON.parse(refused.err)).error).toMatchObject({
      code: "token_missing",
      exitCode: 3,
    });
    const token = await mint("--ns app --scopes read --ttl 1m");
    const withToken = { environment: { ...url, THROTTR_TOKEN: token } };
    expect((await run("query a", withToken)).exitCode).toBe(1);
    const unscoped = await run("insert a --quota 1 --ttl 1m", withToken);
    expect(unscoped.exitCode).toBe(3);
    expect(unscoped.err).toMatch(/^throttr-edge: scope_missing: /);
    const other = await run("query a --token nonsense", withToken);
    expect([other.exitCode, other.err.split(": ")[1]]).toEqual([3, "token_invalid"]);
    for (const scheme of ["http", "ws"]) {
      const at = closed.url.replace("http", scheme);
      expect((await run(["query", "a", "--token", token, "--url", at])).exitCode).toBe(1);
    }
  });

  it("tokens have claims that the server accepts", async () => {
    const token = await mint("--ns app --scopes read,write --key-prefix user: --channel-prefix c");
    const withToken = { environment: { THROTTR_URL: closed.url, THROTTR_TOKEN: token } };
    expect((await run("insert user:1 --quota 1 --ttl 1m", withToken)).exitCode).toBe(0);
    expect((await run("insert other --quota 1 --ttl 1m", withToken)).err).toContain(
      "prefix_missing",
    );
    const minted = v.strictObject({
      token: v.string(),
      ns: v.string(),
      scopes: v.array(v.string()),
      iat: count,
      exp: count,
      jti: v.pipe(v.string(), v.regex(/^[\w-]{16}$/)),
    });
    const options = { environment: { TOKEN_SECRET: SECRET } };
    const { iat, exp } = await json("token --ns a.b-c_d --ttl 90s", minted, 0, options);
    expect(exp - iat).toBe(90);
  });

  it("profiles keep tokens, and do not show them", async () => {
    const token = await mint("--ns app --scopes read --ttl 1h");
    const nowhere = { environment: { THROTTR_URL: "" } };
    const entry = v.strictObject({
      name: v.string(),
      url: v.string(),
      hasToken: v.boolean(),
      isCurrent: v.boolean(),
    });
    const file = join(folder, "config", "throttr-edge", "profiles.json");
    const options = { ...nowhere, input: `${token}\n` };
    const add = ["profile", "add", "closed", "--url", closed.url, "--token", "-", "--json"];
    const added = await run(add, options);
    expect(v.parse(entry, JSON.parse(added.out))).toMatchObject({
      hasToken: true,
      isCurrent: true,
    });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await run(["profile", "add", "open", "--url", server.url], nowhere);
    // The server that refuses without a token takes the profile's.
    expect((await run("query a", nowhere)).exitCode).toBe(1);
    await run("profile use open", nowhere);
    const listed = (await run("profile list --json", nowhere)).out.trim().split("\n");
    expect(listed.map((line) => v.parse(entry, JSON.parse(line)))).toEqual([
      { name: "closed", url: closed.url, hasToken: true, isCurrent: false },
      { name: "open", url: server.url, hasToken: false, isCurrent: true },
    ]);
    const shown = await run("profile list", nowhere);
    expect(shown.out).toMatch(/^\* +open +http.* no$/m);
    expect((await run("query a --profile closed", nowhere)).exitCode).toBe(1);
    expect((await run("profile remove closed", nowhere)).exitCode).toBe(0);
    const gone = await run("query a --profile closed --json", nowhere);
    expect(v.parse(error, JSON.parse(gone.err)).error.code).toBe("profile_unknown");
    for (const { out, err } of [added, shown, gone]) expect(out + err).not.toContain(token);
  });
});

describe("the file", () => {
  it("the built file runs under every installed Node", async () => {
    const { PATH = "" } = process.env;
    const nodes = PATH.split(":").map((place) => join(place, "node"));
    const versions = new Map<string, string>();
    for (const node of [process.execPath, ...nodes.filter((path) => existsSync(path))]) {
      versions.set(spawnSync(node, ["--version"], { encoding: "utf8" }).stdout.trim(), node);
    }
    const line = ["bench", "--requests", "100", "--json"];
    for (const [version, node] of versions) {
      if (Number(/\d+/.exec(version)?.[0]) < 20) continue;
      const { exitCode, out, err } = await run(line, { node });
      expect({ version, exitCode, err }).toEqual({ version, exitCode: 0, err: "" });
      expect(JSON.parse(out)).toMatchObject({ requests: 100 });
    }
  });
});

describe("health", () => {
  it("health shows the time of the answer, without a token", async () => {
    const { exitCode, out } = await run("health");
    expect(exitCode).toBe(0);
    expect(out).toMatch(/^status +ok\ntook +\d+ ms\n/);
    const asJson = await run(
      `health --json --url ${server.url.replace("http", "ws")}/throttr/edge`,
    );
    expect(JSON.parse(asJson.out)).toMatchObject({ status: "ok" });
  });

  it("health of a server without access settings says so, with exit code 3", async () => {
    const shut = await startThrottr({ variables: { ACCESS: "token" } });
    const { exitCode, err } = await run(`health --json --url ${shut.url}`);
    expect(exitCode).toBe(3);
    expect(v.parse(error, JSON.parse(err)).error.code).toBe("access_not_configured");
    await shut.close();
  });

  it("health of a closed port exits with 4", async () => {
    const { exitCode, err } = await run("health --url http://127.0.0.1:2");
    expect([exitCode, err]).toEqual([
      4,
      expect.stringMatching(/connection_failed: .*ECONNREFUSED/),
    ]);
    const other = createHttpServer((_, response) => response.end("<html>")).listen(0, "127.0.0.1");
    await new Promise((resolve) => other.once("listening", resolve));
    const { port } = other.address() as AddressInfo;
    const foreign = await run(`health --url http://127.0.0.1:${port}`);
    expect([foreign.exitCode, foreign.err]).toEqual([
      3,
      expect.stringContaining("did not answer as a Throttr server"),
    ]);
    other.close();
  });
});

describe("clock", () => {
  it("clock shows how far each shard's time is ahead, and sets all of them back", async () => {
    const told = JSON.parse((await run("clock --json")).out) as object;
    expect(told).toEqual({ shards: [{ index: 0, shard: "0", lagMs: 0 }] });
    const { exitCode, out } = await run("clock --reset --json");
    expect(exitCode).toBe(0);
    expect(JSON.parse(out)).toEqual({
      shards: [{ index: 0, shard: "0", setBackMs: 0 }],
    });
    expect((await run("clock")).out).toMatch(/^shard +ahead by\n0 +0 ms\n/);
  });
});

describe("completion", () => {
  it("bash completes commands, options and choices", async () => {
    const { out: script } = await run("completion bash");
    const bin = join(folder, "bin");
    mkdirSync(bin, { recursive: true });
    const cliPath = join(import.meta.dirname, "../../dist/cli.js");
    const program = `#!/bin/sh\nexec '${process.execPath}' '${cliPath}' "$@"\n`;
    writeFileSync(join(bin, "throttr-edge"), program, { mode: 0o755 });
    const completed = (...words: string[]): string[] => {
      const list = words.map((word) => `'${word}'`).join(" ");
      const line = `${script}\nCOMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _throttr_edge; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const env = { ...process.env, ...environment, PATH: `${bin}:${process.env.PATH ?? ""}` };
      const { stdout, stderr } = spawnSync("bash", ["-c", line], { env, encoding: "utf8" });
      expect(stderr).toBe("");
      return stdout.split("\n").filter(Boolean);
    };
    expect(completed("throttr-edge", "sem")).toEqual(["semaphore", "semaphores"]);
    expect(completed("throttr-edge", "update", "k", "")).toEqual(["decrease", "increase", "patch"]);
    expect(completed("throttr-edge", "increment", "k", "--tt")).toEqual(["--ttl"]);
    expect(completed("throttr-edge", "get", "k")).toEqual([]);
  });

  it.each(["zsh", "fish"])("there is a completion script for %s", async (shell) => {
    const { exitCode, out } = await run(`completion ${shell}`);
    expect(exitCode).toBe(0);
    expect(out).toContain("throttr-edge complete -- ");
  });
});

describe("failures", () => {
  it("a read that could not be sent does not have an unknown outcome", async () => {
    for (const line of ["query a", "list", "increment a --ttl 1m"]) {
      const { exitCode, err } = await run(`${line} --url http://127.0.0.1:1`);
      expect([exitCode, err]).toEqual([4, expect.stringMatching(/connection_failed: .*bad port/)]);
    }
  });

  it("a failed connection exits with 4", async () => {
    for (const url of ["http://127.0.0.1:2", "ws://127.0.0.1:2"]) {
      const { exitCode, err, out } = await run(["info", "--json", "--url", url]);
      expect([exitCode, out]).toEqual([4, ""]);
      const { code, message } = v.parse(error, JSON.parse(err)).error;
      expect(code).toBe("connection_failed");
      expect(message).toContain("ECONNREFUSED");
    }
  });

  it("a server that does not answer is an exit with 4, in time", async () => {
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await new Promise((resolve) => silent.once("listening", resolve));
    const { port } = silent.address() as AddressInfo;
    for (const line of ["query a", "stat a", "stat", "bench"]) {
      const { exitCode, err } = await run(
        `${line} --timeout 300ms --url http://127.0.0.1:${port} --json`,
      );
      expect([line, exitCode]).toEqual([line, 4]);
      expect(v.parse(error, JSON.parse(err)).error.code).toBe("timeout");
    }
    silent.close();
  });
});

describe("the prompt", () => {
  it("the prompt runs its lines one by one, and exits with the first failure", async () => {
    const input = [
      "# a comment",
      "insert 'two words' --quota 5 --ttl 1h",
      "query 'two words' --json",
      "query none",
      "bogus",
      'get "open',
      "exit",
      "query none",
    ].join("\n");
    const { exitCode, out, err } = await run("repl", { input });
    expect(exitCode).toBe(1);
    expect(out).toMatch(/^inserted\n\{"key":"two words".*\}\n$/);
    expect(err).toBe(
      [
        "no such record",
        "throttr-edge: unknown command 'bogus'",
        'throttr-edge: line_invalid: a quote " is not closed\n',
      ].join("\n"),
    );
  });

  it("the prompt completes, remembers and asks, and Ctrl-C does not end it", async () => {
    await server.client.insert("views", { quota: 41n, ttlMs: 600_000 });
    await server.client.insert("tmp:1", { quota: 1n, ttlMs: 600_000 });
    const terminal = startAtTerminal([], environment);
    const recorded: string[] = [];
    const expectPrinted = async (text: string): Promise<void> => {
      await terminal.printed(text);
      recorded.push(text);
    };
    const prompt = new URL(server.url).host;
    await expectPrinted("Tab completes");
    await expectPrinted(prompt);
    terminal.type("upd\t");
    await expectPrinted("update ");
    terminal.type("vi\t");
    await expectPrinted("views ");
    terminal.type("in\t");
    await expectPrinted("increase ");
    terminal.type("1\r");
    await expectPrinted("42");
    await expectPrinted(prompt);
    // Two lines that come at once.
    terminal.type("insert pasted --quota 7 --ttl 1h\rquery pasted\r");
    await expectPrinted("inserted");
    await expectPrinted("7");
    await expectPrinted(prompt);
    terminal.type("subscribe news\r");
    await expectPrinted("subscribed to news");
    await server.client.publish("news", "hello");
    await expectPrinted("hello");
    terminal.type("\u0003");
    await expectPrinted(prompt);
    terminal.type("half a line\u0003");
    await expectPrinted("^C");
    terminal.type("purge --prefix tmp:\r");
    await expectPrinted("This removes all records under tmp:");
    terminal.type("n");
    await expectPrinted("nothing was changed");
    await expectPrinted(prompt);
    // The line before, and yes this time.
    terminal.type("\u001b[A\r");
    await expectPrinted("This removes all records under tmp:");
    terminal.type("y");
    await expectPrinted("1 removed");
    await expectPrinted(prompt);
    terminal.type("\u0004");
    const { exitCode, out } = await terminal.ended;
    expect(exitCode).toBe(0);
    expect(await server.client.query("tmp:1")).toBeNull();
    const again = startAtTerminal(["repl"], environment);
    await again.printed(prompt);
    again.type("\u001b[A\u001b[A\u001b[A");
    await again.printed("subscribe news");
    again.type("\u0003exit\r");
    expect((await again.ended).exitCode).toBe(0);
    mkdirSync(".wrangler", { recursive: true });
    writeFileSync(".wrangler/cli-session.txt", sessionOf(out));
  });

  it("the prompt has colours, which NO_COLOR turns off", async () => {
    const line = ["insert", "c", "--quota", "1", "--ttl", "1m"];
    const coloured = await startAtTerminal(line, environment).ended;
    expect(coloured.out).toBe("\u001b[32minserted\u001b[39m\r\n");
    const plain = await startAtTerminal(line, { ...environment, NO_COLOR: "1" }).ended;
    expect(plain.out).toBe("the key already has a record\r\n");
  });

  it("the prompt restores the terminal after monitor", async () => {
    const monitor = startAtTerminal(["monitor"], environment);
    await monitor.printed("WRITES/S");
    monitor.type("\u0003");
    const { exitCode, out } = await monitor.ended;
    expect(exitCode).toBe(130);
    expect(out.indexOf("\u001b[?1049h")).toBe(0);
    expect(out.lastIndexOf("\u001b[?1049l")).toBeGreaterThan(out.lastIndexOf("\u001b[J"));
    expect(out).toContain("\u001b[?25h");
    // A line that is longer than the terminal is cut meanwhile: wrapped, it would scroll the view.
    expect(out.indexOf("\u001b[?7l")).toBeGreaterThan(0);
    expect(out.lastIndexOf("\u001b[?7h")).toBeGreaterThan(out.lastIndexOf("\u001b[J"));
  });
});

/** What was on the screen, as text. */
function sessionOf(out: string): string {
  return stripVTControlCharacters(out).replaceAll("\r\n", "\n").replaceAll("\r", "");
}
