/**
 * Backup and moving as they are used: 100,000 records of all kinds from one server to another, with
 * `throttr-edge export` and `throttr-edge import` as processes that are killed on the way.
 */
import { spawn } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  configWithPorts,
  ROOT,
  startServer,
  waitUntilReady,
  type Server,
} from "../../scripts/server.ts";
import { http } from "../../src/client/transport/http.ts";
import { ThrottrClient } from "../../src/client/client.ts";
import type { ExportedKey, ExportedRecord } from "../../src/wire/edge/transfer.ts";
import {
  bytesOf,
  concat,
  hex,
  LIST,
  pairFrame,
  parseFragments,
  WHOAMI,
} from "../support/frames/index.ts";

const FROM = { http: 21_700, u64: 21_701, u16: 21_702, old: 21_703 };
const TO = { http: 21_710, u64: 21_711 };
const FROM_URL = `http://127.0.0.1:${FROM.http}`;
const TO_URL = `http://127.0.0.1:${TO.http}`;
const RECORDS = 100_000;
const PAIRS = 5000;
/** Of them, those that expire before they are imported. */
const SHORT = 1000;
const SHORT_MS = 90_000;
const HOUR_MS = 3_600_000;

const folder = mkdtempSync(join(tmpdir(), "throttr-transfer-"));
const from = new ThrottrClient(http(FROM_URL), { timeoutMs: 60_000 });
const to = new ThrottrClient(http(TO_URL), { timeoutMs: 60_000 });
const servers: Server[] = [];
let filledAtMs = 0;

const fileNamed = (name: string): string => join(folder, name);

async function start(name: string, ports: typeof FROM | typeof TO): Promise<void> {
  const config = fileNamed(`${name}.toml`);
  const tcp: Record<number, number> = { 9008: ports.u64 };
  if ("u16" in ports) Object.assign(tcp, { 9002: ports.u16, 9004: ports.old });
  const text = configWithPorts(tcp).replace(`${FROM.old}=7.3/uint32`, `${FROM.old}=7.1/uint64`);
  writeFileSync(config, text);
  servers.push(startServer({ config, port: ports.http, persistTo: fileNamed(name) }));
  await waitUntilReady(ports.http, Object.values(tcp));
}

beforeAll(async () => {
  await start("from", FROM);
  await start("to", TO);
  await fill();
});

afterAll(async () => {
  await from.close();
  await to.close();
  for (const server of servers) await server.kill();
  rmSync(folder, { recursive: true, force: true });
});

/** Key of the record with a number: text, bytes that are none, and what files have to write otherwise. */
function keyOf(i: number): Uint8Array {
  const name = new TextEncoder().encode(`k:${i.toString(36)}`);
  if (i % 10 === 0) return concat([Uint8Array.of(0xff, 0x00), name]);
  if (i % 10 === 1) return concat([new TextEncoder().encode('é"\n\\'), name]);
  return name;
}

/** Records of all kinds, as clients make them. */
async function fill(): Promise<void> {
  const pairs = Array.from({ length: PAIRS }, (_, i) =>
    pairFrame(i, {
      type: "insert",
      pair: [`consumer${i % 100}`, `\xff${i}`],
      quota: BigInt(i),
      ttlType: i % 3,
      ttl: BigInt(HOUR_MS) * [1_000_000n, 1n, 1n][i % 3]!,
    }),
  );
  const response = await fetch(`${FROM_URL}/throttr/2`, { method: "POST", body: concat(pairs) });
  expect((await response.arrayBuffer()).byteLength).toBe(5 * PAIRS);
  const strategy = { strategy: "token_bucket", burst: 10, rate: 0.001 } as const;
  const plain = RECORDS - PAIRS;
  // Those that live shortly come last.
  for (let at = plain - 5000; at >= 0; at -= 5000) {
    const calls = Array.from({ length: 5000 }, async (_, n) => {
      const i = at + n;
      const ttlMs = i < SHORT ? SHORT_MS : HOUR_MS + i * 1000;
      switch (i % 4) {
        case 0:
          return await from.insert(keyOf(i), { quota: 2n ** 64n - 1n - BigInt(i), ttlMs });
        case 1:
          return await from.increment(keyOf(i), { by: i, ttlMs });
        case 2:
          return await from.set(keyOf(i), new Uint8Array(i % 300).fill(i), { ttlMs });
        default:
          return await from.limit({ name: "api", key: `user${i}`, strategy });
      }
    });
    await Promise.all(calls);
  }
  filledAtMs = Date.now();
}

interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function begin(args: readonly string[]) {
  const child = spawn(process.execPath, ["src/cli/main.ts", ...args], {
    cwd: ROOT,
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, XDG_CONFIG_HOME: folder, THROTTR_URL: "", THROTTR_TOKEN: "" },
  });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => err.push(chunk));
  const ended = new Promise<Ran>((resolve) => {
    child.once("close", (code) => {
      resolve({
        code,
        stdout: Buffer.concat(out).toString(),
        stderr: Buffer.concat(err).toString(),
      });
    });
  });
  return { child, ended };
}

/** Runs the command line. */
async function run(args: readonly string[], input = ""): Promise<Ran> {
  const { child, ended } = begin(args);
  child.stdin.end(input);
  return await ended;
}

/** Runs it and kills it once something has happened. */
async function runUntil(args: readonly string[], hasHappened: () => boolean): Promise<void> {
  const { child, ended } = begin(args);
  const timer = setInterval(() => {
    if (hasHappened()) child.kill("SIGKILL");
  }, 2);
  const { code } = await ended;
  clearInterval(timer);
  // It was killed, and has not ended by itself before.
  expect(code).toBeNull();
}

const bytesIn = (name: string): number => (existsSync(name) ? statSync(name).size : 0);
const exportTo = (name: string, ...more: string[]): string[] => [
  "export",
  "--url",
  FROM_URL,
  "--out",
  name,
  "--json",
  ...more,
];
const importFrom = (name: string, ...more: string[]): string[] => [
  "import",
  name,
  "--url",
  TO_URL,
  "--json",
  ...more,
];
const jsonOf = (text: string): Record<string, unknown> =>
  JSON.parse(text) as Record<string, unknown>;

/** The rows of LIST in the order of their keys: each its key, and its bytes as hex. */
async function listOf(port: number): Promise<Map<string, string>> {
  const socket = connect(port, "127.0.0.1");
  const chunks: Buffer[] = [];
  const answer = await new Promise<Buffer>((resolve, reject) => {
    socket.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      // WHOAMI follows LIST: its status and 16 bytes are the end.
      if (chunk.length < 17 && chunks.length < 2) return;
      const all = Buffer.concat(chunks);
      chunks.splice(0, chunks.length, all);
      if (isWholeList(all)) resolve(all.subarray(0, -17));
    });
    socket.once("error", reject);
    socket.write(concat([LIST, WHOAMI]));
  });
  socket.destroy();
  const fragments = parseFragments(answer, { hasStatus: true, rowBytes: 19, hasNames: true });
  const rows = fragments.flatMap(({ rows }) =>
    rows.map(({ name, row }) => [name, hex(row)] as const),
  );
  return new Map(rows.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function isWholeList(bytes: Buffer): boolean {
  if (bytes.length < 9) return false;
  let at = 9;
  for (let left = bytes.readBigUInt64LE(1); left > 0n; left--) {
    if (at + 16 > bytes.length) return false;
    const rowsAt = at + 16;
    const rowsEnd = rowsAt + Number(bytes.readBigUInt64LE(at + 8)) * 19;
    if (rowsEnd > bytes.length) return false;
    at = rowsEnd;
    for (let row = rowsAt; row < rowsEnd; row += 19) at += bytes[row]!;
  }
  return bytes.length >= at + 17;
}

/** All records of a server as text, in the order of their keys. */
async function recordsOf(client: ThrottrClient, pairs: boolean): Promise<string[]> {
  const records: ExportedRecord[] = [];
  for (let cursor: ExportedKey | null | undefined; cursor !== null;) {
    const page = await client.exportPage(cursor === undefined ? { pairs } : { pairs, cursor });
    records.push(...page.records);
    cursor = page.cursor;
  }
  return records.map(textOf).toSorted();
}

const textOf = (record: ExportedRecord): string =>
  JSON.stringify(record, (_, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );

/** What is in one list and not in the other, shortly: whole lists are too long to be shown. */
function difference(one: readonly string[], other: readonly string[]): string[] {
  const others = new Set(other);
  return one.filter((text) => !others.has(text)).slice(0, 5);
}

const isShort = (name: string): boolean => {
  const i = Number.parseInt(/k:(\w+)$/.exec(name)?.[1] ?? "zzzzz", 36);
  return i < SHORT;
};

async function expectSameRecords(): Promise<void> {
  for (const pairs of [false, true]) {
    const [expected, found] = [await recordsOf(from, pairs), await recordsOf(to, pairs)];
    expect(difference(expected, found)).toEqual([]);
    expect(difference(found, expected)).toEqual([]);
    expect(found).toHaveLength(expected.length);
  }
}

const whole = fileNamed("whole.jsonl");
/** LIST of the server that is exported, while all of it lived. */
let before: Map<string, string>;
let expiredCount = 0;

describe("100,000 records of all kinds", () => {
  it("100,000 records are exported", async () => {
    before = await listOf(FROM.u64);
    expect(before.size).toBe(RECORDS - PAIRS);
    const { code, stdout, stderr } = await run(exportTo(whole));
    expect([code, stderr]).toEqual([0, ""]);
    const limits = Math.floor((RECORDS - PAIRS) / 4);
    expect(jsonOf(stdout)).toMatchObject({
      records: RECORDS,
      pairs: PAIRS,
      counters: PAIRS + 2 * limits,
      buffers: 2 * limits,
      resumed: 0,
    });
    expect(Date.now() - filledAtMs).toBeLessThan(SHORT_MS - 5000);
    const again = await run(exportTo(whole));
    expect(again.code).toBe(2);
    expect(jsonOf(again.stderr)).toMatchObject({ error: { code: "file_exists" } });
  });

  it("100,000 records are exported by a process that was killed, and by its successors", async () => {
    const name = fileNamed("resumed.jsonl");
    await runUntil(exportTo(name), () => bytesIn(name) > 1 << 20);
    // As where the machine stops in the middle of a write.
    truncateSync(name, bytesIn(name) - 7);
    const bytes = bytesIn(name);
    await runUntil(exportTo(name, "--resume"), () => bytesIn(name) > bytes + (2 << 20));
    const { code, stdout } = await run(exportTo(name, "--resume"));
    expect(code).toBe(0);
    expect(jsonOf(stdout)).toMatchObject({ records: RECORDS, pairs: PAIRS });
    expect(jsonOf(stdout)["resumed"]).toBeGreaterThan(1000);
    const linesOf = (file: string): string[] =>
      readFileSync(file, "utf8").trimEnd().split("\n").slice(1, -1);
    const lines = linesOf(name);
    expect(new Set(lines).size).toBe(RECORDS);
    expect(difference(lines, linesOf(whole))).toEqual([]);
    expect((await run(exportTo(name, "--resume"))).stdout).toContain(`"resumed":${RECORDS}`);
  });

  it("100,000 records are imported elsewhere except for expired ones, with the same LIST to the byte", async () => {
    const leftMs = filledAtMs + SHORT_MS - Date.now();
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, leftMs) + 100));
    const dry = await run(importFrom(whole, "--dry-run"));
    expect(dry.code).toBe(0);
    const { records, expired } = jsonOf(dry.stdout);
    expect(records).toBe(RECORDS);
    expiredCount = Number(expired);
    // Limits of the first ones live longer.
    expect(expiredCount).toBe((SHORT * 3) / 4);
    expect((await listOf(TO.u64)).size).toBe(0);
    const { code, stdout, stderr } = await run(importFrom(whole));
    expect([code, stderr]).toEqual([0, ""]);
    expect(jsonOf(stdout)).toMatchObject({
      complete: true,
      restored: RECORDS - expiredCount,
      kept: 0,
      expired: expiredCount,
      failed: 0,
    });
    const [there, here] = [await listOf(TO.u64), await listOf(FROM.u64)];
    const expected = [...before].filter(([name]) => !isShort(name) || name.startsWith("api:"));
    expect(there.size).toBe(RECORDS - PAIRS - expiredCount);
    expect([...there].join("\n") === expected.join("\n")).toBe(true);
    expect([...there].join("\n") === [...here].join("\n")).toBe(true);
    await expectSameRecords();
  });

  it("imported records survive a crash of their server", async () => {
    await servers[1]!.kill();
    servers.pop();
    await start("to", TO);
    await expectSameRecords();
  });

  it("an import keeps or replaces existing records", async () => {
    const key = keyOf(2001);
    await to.patch(key, 1n);
    await to.purge(keyOf(2005));
    const kept = await run(importFrom(whole));
    expect(jsonOf(kept.stdout)).toMatchObject({
      restored: 1,
      kept: RECORDS - expiredCount - 1,
      expired: expiredCount,
    });
    expect((await to.query(key))!.quota).toBe(1n);
    const replaced = await run(importFrom(whole, "--policy", "replace"));
    expect(jsonOf(replaced.stdout)).toMatchObject({ restored: RECORDS - expiredCount, kept: 0 });
    await expectSameRecords();
  });

  it("100,000 records are imported by a process that was killed, and by its successor", async () => {
    await to.removeAll("");
    const progress = `${whole}.progress`;
    await runUntil(importFrom(whole), () => existsSync(progress));
    const { line } = jsonOf(readFileSync(progress, "utf8"));
    expect(Number(line)).toBeLessThan(RECORDS);
    const { code, stdout } = await run(importFrom(whole, "--resume"));
    expect(code).toBe(0);
    const { restored, kept, expired } = jsonOf(stdout);
    expect(Number(restored) + Number(kept) + Number(expired)).toBe(RECORDS);
    expect(existsSync(progress)).toBe(false);
    await expectSameRecords();
  });

  it("leases are exported and imported behind the records, and their holders go on at the other server", async () => {
    const acquired = await Promise.all(
      Array.from({ length: 500 }, (_, i) =>
        from.acquire(`job:${i % 50}`, { maximum: 100, resources: 1 + (i % 3), ttlMs: HOUR_MS }),
      ),
    );
    const file = fileNamed("leases.jsonl");
    const plain = await run(exportTo(fileNamed("plain.jsonl"), "--prefix", "job:"));
    expect(jsonOf(plain.stdout)).toMatchObject({ records: 0, leases: 0 });
    const exported = await run(exportTo(file, "--prefix", "job:", "--leases"));
    expect([exported.code, exported.stderr]).toEqual([0, ""]);
    expect(jsonOf(exported.stdout)).toMatchObject({ records: 0, leases: 500 });
    const checked = await run(importFrom(file, "--dry-run"));
    expect(jsonOf(checked.stdout)).toMatchObject({ leases: 500, expired: 0 });
    const imported = await run(importFrom(file));
    expect([imported.code, imported.stderr]).toEqual([0, ""]);
    expect(jsonOf(imported.stdout)).toMatchObject({ restored: 500, kept: 0, failed: 0 });
    for (let i = 0; i < 50; i++) {
      const name = `job:${i}`;
      expect(await to.holders(name)).toEqual(await from.holders(name));
      expect(await to.inspectSemaphore(name)).toEqual(await from.inspectSemaphore(name));
    }
    const { name, leaseId } = acquired[0]!;
    expect(await to.renew(name, leaseId, { ttlMs: 2 * HOUR_MS })).toMatchObject({ resources: 1 });
    expect(await to.release(name, leaseId)).toBe(true);
    const again = await run(importFrom(file, "--policy", "keep"));
    expect(jsonOf(again.stdout)).toMatchObject({ restored: 1, kept: 499 });
  });

  it("an export can be piped into an import", async () => {
    await to.removeAll("");
    const { code, stdout, stderr } = await run(["export", "--url", FROM_URL, "--prefix", "k:1"]);
    expect(code).toBe(0);
    expect(stderr).toContain("records exported");
    const imported = await run(["import", "--url", TO_URL, "--json"], stdout);
    expect(imported.code).toBe(0);
    const { restored } = jsonOf(imported.stdout);
    expect(Number(restored)).toBeGreaterThan(1000);
    expect((await listOf(TO.u64)).size).toBe(restored);
    const cut = await run(["import", "--url", TO_URL, "--json"], stdout.slice(0, -50));
    expect(cut.code).toBe(2);
    expect(jsonOf(cut.stderr)).toMatchObject({ error: { code: "file_truncated" } });
  });
});

describe("a native Throttr server", () => {
  const native = (name: string, port: number, ...more: string[]): string[] =>
    exportTo(name, "--from-native", `127.0.0.1:${port}`, ...more);

  it.each([
    ["7.3", FROM.u64],
    ["7.1", FROM.old],
  ])(
    "a native server of %s is exported with LIST, QUERY and GET, and gives the same records",
    async (dialect, port) => {
      await to.removeAll("");
      const name = fileNamed(`native-${dialect}.jsonl`);
      const { code, stdout, stderr } = await run(
        native(name, port, "--size", "uint64", "--dialect", dialect),
      );
      expect([code, stderr]).toEqual([0, ""]);
      expect(jsonOf(stdout)).toMatchObject({
        records: RECORDS - PAIRS - expiredCount,
        pairs: 0,
        remarks: [],
      });
      expect((await run(importFrom(name))).code).toBe(0);
      const [there, here] = [await listOf(TO.u64), await listOf(FROM.u64)];
      expect([...there].join("\n") === [...here].join("\n")).toBe(true);
      const [expected, found] = [await recordsOf(from, false), await recordsOf(to, false)];
      expect(difference(expected, found)).toEqual([]);
      expect(found).toHaveLength(expected.length);
    },
  );

  it("an export of a native server reports what its value size cannot express", async () => {
    const name = fileNamed("native-uint16.jsonl");
    await from.set("long", new Uint8Array(70_000), { ttlMs: HOUR_MS });
    const { code, stdout } = await run(native(name, FROM.u16, "--size", "uint16"));
    expect(code).toBe(0);
    const remarks = JSON.stringify(jsonOf(stdout)["remarks"]);
    expect(remarks).toMatch(/1 records could not be read: .*uint16/);
    expect(remarks).toMatch(/\d{4,} records have a quota of 65535/);
    expect(readFileSync(name, "utf8")).not.toContain('"key":"long"');
    const other = await run(
      native(fileNamed("other"), FROM.u16, "--size", "uint16", "--prefix", "k:zz"),
    );
    expect(Number(jsonOf(other.stdout)["records"])).toBeLessThan(1000);
  });

  it("an export of a native server that is absent or gone is an error", async () => {
    const gone = await run(native(fileNamed("gone"), 21_799));
    expect(gone.code).toBe(4);
    expect(jsonOf(gone.stderr)).toMatchObject({ error: { code: "connection_failed" } });
    const wrong = await run(native(fileNamed("wrong"), FROM.http, "--timeout", "2s"));
    expect([3, 4]).toContain(wrong.code);
    expect(bytesOf(wrong.stderr).length).toBeLessThan(1000);
  });
});
