/** Files of exports: any records, any cuts, any damage; and the way from one engine to another. */
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, inject, it, vi } from "vitest";
import { exportAll, ExportFile } from "../../src/cli/transfer/export.ts";
import { readExport } from "../../src/cli/transfer/export-reader.ts";
import { ExportWriter } from "../../src/cli/transfer/export-writer.ts";
import {
  type Entry,
  entryLine,
  isLease,
  LINE_BYTES_MAX,
  readLine,
} from "../../src/cli/transfer/format.ts";
import { importFile, importStream, survey } from "../../src/cli/transfer/import.ts";
import { linesOf } from "../../src/cli/transfer/lines.ts";
import { ProgressFile } from "../../src/cli/transfer/progress-file.ts";
import { noRestoreCounts, Restorer } from "../../src/cli/transfer/restorer.ts";
import { EdgeSource } from "../../src/cli/transfer/source.ts";
import { UsageError } from "../../src/cli/failure.ts";
import { ThrottrClient } from "../../src/client/client.ts";
import { Engine } from "../../src/engine/engine.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import type { ExportedLease, StoredLease } from "../../src/wire/edge/lease-transfer.ts";
import type { ExportedRecord, StoredRecord } from "../../src/wire/edge/transfer.ts";
import { imagesOf } from "../support/commands/disk.ts";
import { EngineTransport, type Fate } from "../support/client/engine-transport.ts";
import {
  bytesOf,
  concat,
  EXPORT_LEASES,
  RESTORE_LEASE,
  uuidOfNumber,
} from "../support/frames/index.ts";
import { U64_MAX } from "../support/models/values.ts";
import { runs } from "../support/runs.ts";
import { textArbitrary } from "../support/text/strings.ts";

const seed = inject("seed");
const NOW_MS = Date.now();
const END_NS = BigInt(NOW_MS + 3_600_000) * 1_000_000n;
const NOTHING = new Uint8Array(0);
const LEASE_ID = uuidOfNumber(6);
const LEASE: StoredLease = {
  name: "gpu",
  leaseId: LEASE_ID,
  resources: 2,
  expiresAtMs: NOW_MS + 60_000,
};
const QUIET = { update: () => {}, stop: () => {} };

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "throttr-transfer-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
const freshFile = (): string => join(folder, `${files++}.jsonl`);

const encoder = new TextEncoder();
const anyBytes = (maxLength: number): fc.Arbitrary<Uint8Array> =>
  fc.oneof(
    fc.uint8Array({ maxLength }),
    textArbitrary({ maxLength: Math.floor(maxLength / 4) }).map((text) =>
      encoder.encode(text.toWellFormed()),
    ),
    fc
      .constantFrom(
        "",
        "\ufeff",
        "\ufeffa",
        '"',
        "\\",
        "\n",
        "\r\n",
        "\t",
        "\0",
        "\x7f",
        "\x85",
        "\u2028",
        "😀",
        "{}",
      )
      .map((text) => encoder.encode(text)),
  );
const quota = fc.oneof(fc.constantFrom(0n, 1n, U64_MAX), fc.bigInt({ min: 0n, max: U64_MAX }));
const end = {
  unit: fc.constantFrom("ns", "us", "ms", "s", "min", "h"),
  expiresAtNs: fc.bigInt({ min: END_NS, max: U64_MAX }),
} as const;
const counter = fc.record({ key: anyBytes(255), kind: fc.constant("counter"), quota, ...end });
const buffer = fc.record({
  key: anyBytes(255),
  kind: fc.constant("buffer"),
  value: anyBytes(400),
  ...end,
});
const pair = fc.record({
  key: fc.tuple(anyBytes(255), anyBytes(255)),
  kind: fc.constant("counter"),
  quota,
  ...end,
  unit: fc.constantFrom("ns", "ms", "s"),
});
const recordArbitrary = fc.oneof(counter, buffer, pair) as fc.Arbitrary<ExportedRecord>;
const keyName = ({ key }: StoredRecord): string => JSON.stringify(key);
const leaseArbitrary: fc.Arbitrary<ExportedLease> = fc.record({
  name: anyBytes(255).filter(({ length }) => length > 0),
  leaseId: fc.uuid(),
  resources: fc.oneof(fc.constantFrom(1, 2 ** 32 - 1), fc.integer({ min: 1, max: 9 })),
  expiresAtMs: fc.integer({ min: NOW_MS + 1, max: NOW_MS + 86_400_000 }),
});
const leasesArbitrary = fc.uniqueArray(leaseArbitrary, {
  maxLength: 8,
  selector: ({ name }) => JSON.stringify(name),
});
const recordsArbitrary = fc.uniqueArray(recordArbitrary, { maxLength: 25, selector: keyName });

async function* chunksOf(
  bytes: Uint8Array,
  sizes: readonly number[] = [],
): AsyncGenerator<Uint8Array> {
  let at = 0;
  for (const size of sizes) {
    yield bytes.subarray(at, at + size);
    at += size;
  }
  yield bytes.subarray(at);
}

/** An export of records, and perhaps of leases, as a file has it. */
async function fileOf(
  records: readonly Entry[],
  hasLeases = records.some(isLease),
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  const writer = new ExportWriter(async (bytes) => {
    parts.push(bytes.slice());
  });
  const source = { source: "http://here", namespace: null, prefix: NOTHING };
  await writer.header({ startedAtMs: NOW_MS, ...source, hasLeases });
  for (const record of records) await writer.entries([record]);
  await writer.trailer(NOW_MS + 1);
  return concat(parts);
}

/** The records of a file, as far as they can be read. */
async function recordsOf(bytes: Uint8Array, isTornAllowed = false, sizes: readonly number[] = []) {
  const records: Entry[] = [];
  const reader = await readExport(chunksOf(bytes, sizes), isTornAllowed, (record) => {
    records.push(record);
    return null;
  });
  return { records, reader };
}

async function codeOf(run: Promise<unknown>): Promise<string> {
  try {
    await run;
    return "";
  } catch (error) {
    return error instanceof UsageError || error instanceof ThrottrError
      ? error.code
      : String(error);
  }
}

describe("lines of a file", () => {
  it("a line describes exactly its record, in printable characters", () => {
    const property = fc.property(fc.oneof(recordArbitrary, leaseArbitrary), (record) => {
      const line = entryLine(record);
      expect(line.endsWith("\n")).toBe(true);
      // oxlint-disable-next-line eslint/no-control-regex
      expect(line.slice(0, -1)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
      const read = readLine(encoder.encode(line.slice(0, -1)));
      expect(read).toEqual(record);
    });
    fc.assert(property, { seed, numRuns: runs(2000) });
  });

  it("a line is as the documentation shows it", () => {
    const ends = { unit: "ms", expiresAtNs: 1_700_000_000_000_000_001n } as const;
    const lines = [
      { key: "views", kind: "counter", quota: U64_MAX, ...ends },
      { key: Uint8Array.of(0xff), kind: "buffer", value: "text\n", ...ends },
      { key: "api:ada", kind: "buffer", value: Uint8Array.of(0, 1), ...ends },
      { key: ["consumer", "resource"], kind: "counter", quota: 0, ...ends },
      { key: ["consumer", Uint8Array.of(0x80)], kind: "counter", quota: 0, ...ends },
      { name: "gpu", leaseId: LEASE_ID, resources: 2, expiresAtMs: 1_700_000_000_000 },
      { name: Uint8Array.of(0xff), leaseId: LEASE_ID, resources: 2, expiresAtMs: 1 },
    ].map((record) => entryLine(record as Entry).trimEnd());
    const tail = '"unit":"ms","expiresAtNs":"1700000000000000001"}';
    expect(lines).toEqual([
      `{"key":"views","quota":"18446744073709551615",${tail}`,
      `{"keyBase64":"/w==","value":"text\\n",${tail}`,
      `{"key":"api:ada","valueBase64":"AAE=",${tail}`,
      `{"pair":["consumer","resource"],"quota":"0",${tail}`,
      `{"pairBase64":["Y29uc3VtZXI=","gA=="],"quota":"0",${tail}`,
      `{"semaphore":"gpu","leaseId":"${LEASE_ID}","resources":2,"expiresAtMs":1700000000000}`,
      `{"semaphoreBase64":"/w==","leaseId":"${LEASE_ID}","resources":2,"expiresAtMs":1}`,
    ]);
  });

  const tail = '"unit":"s","expiresAtNs":"1"';
  it.each([
    ["", "expected JSON"],
    ["nonsense", "expected JSON"],
    ["null", "Invalid type"],
    ["[]", "unit"],
    [`{"key":"k","quota":"1","unit":"s"}`, "expiresAtNs"],
    [`{"key":"k",${tail}}`, "one of quota"],
    [`{"key":"k","quota":"1","value":"",${tail}}`, "one of quota"],
    [`{"key":"k","value":"","valueBase64":"",${tail}}`, "expected text or base64"],
    [`{"key":"k","keyBase64":"aw==","quota":"1",${tail}}`, "one of key"],
    [`{"quota":"1",${tail}}`, "one of key"],
    [`{"pair":["a"],"quota":"1",${tail}}`, "pair"],
    [`{"pair":["a","b","c"],"quota":"1",${tail}}`, "pair"],
    [`{"pair":["a","b"],"value":"1",${tail}}`, "counters only"],
    [`{"key":"k","quota":1,${tail}}`, "quota"],
    [`{"key":"k","quota":"-1",${tail}}`, "quota: expected decimal"],
    [`{"key":"k","quota":"01",${tail}}`, "quota: expected decimal"],
    [`{"key":"k","quota":"18446744073709551616",${tail}}`, "quota: expected at most"],
    [`{"key":"k","valueBase64":"@",${tail}}`, "valueBase64: expected base64"],
    [`{"key":"k","valueBase64":"AA",${tail}}`, "valueBase64: expected base64"],
    [`{"key":"\\ud800","quota":"1",${tail}}`, "key: half"],
    [`{"key":"k","quota":"1","other":1,${tail}}`, "other"],
    [`{"key":"k","quota":"1","unit":"days","expiresAtNs":"1"}`, "unit"],
    [`{"end":true}`, "records"],
    [`{"semaphore":"a","leaseId":"b","resources":1,"expiresAtMs":1}`, "leaseId: expected a UUID"],
    [`{"leaseId":"${LEASE_ID}","resources":1,"expiresAtMs":1}`, "one of semaphore"],
    [`{"semaphore":"a","leaseId":"${LEASE_ID}","resources":0,"expiresAtMs":1}`, "resources"],
    [
      `{"semaphore":"a","leaseId":"${LEASE_ID}","resources":4294967296,"expiresAtMs":1}`,
      "resources",
    ],
    [`{"semaphore":"a","leaseId":"${LEASE_ID}","resources":1,"expiresAtMs":-1}`, "expiresAtMs"],
    [`{"semaphore":"a","leaseId":"${LEASE_ID}","resources":1,"expiresAtMs":1,"x":1}`, "x"],
    [`{"end":false,"key":"k","quota":"1",${tail}}`, "end"],
  ])("a line is refused: %s", (line, expected) => {
    expect(() => readLine(encoder.encode(line))).toThrow(expected);
  });
});

describe("streams of lines", () => {
  it("the lines of a stream are the same however it is cut", async () => {
    const property = fc.asyncProperty(
      fc.array(fc.string({ unit: fc.constantFrom("a", "b", "\n"), maxLength: 12 }), {
        maxLength: 8,
      }),
      async (pieces) => {
        const text = pieces.join("");
        const bytes = pieces.map((piece) => encoder.encode(piece));
        const found: string[] = [];
        let endsAt = 0;
        for await (const lines of linesOf(
          chunksOf(
            concat(bytes),
            bytes.map(({ length }) => length),
          ),
        )) {
          for (const line of lines) {
            found.push(new TextDecoder().decode(line.bytes) + (line.isWhole ? "\n" : ""));
            endsAt = line.endsAt;
          }
        }
        expect(found.join("")).toBe(text);
        expect(found.every((line) => /^[^\n]+$|^[^\n]*\n$/.test(line))).toBe(true);
        expect(endsAt).toBe(text.length);
      },
    );
    await fc.assert(property, { seed, numRuns: runs(500) });
  });

  it("the lines of a stream take no more memory than a line may have", async () => {
    let sent = 0;
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (;;) {
        sent += 1 << 20;
        yield new Uint8Array(1 << 20).fill(0x61);
      }
    }
    expect(await codeOf(readExport(endless(), true))).toBe("file_invalid");
    expect(sent).toBeLessThanOrEqual(LINE_BYTES_MAX + (2 << 20));
  });
});

describe("a file", () => {
  it("a file is read with all records and its counts, however its bytes come", async () => {
    const property = fc.asyncProperty(
      recordsArbitrary,
      leasesArbitrary,
      fc.array(fc.nat(200), { maxLength: 20 }),
      async (records, leases, sizes) => {
        const entries = [...records, ...leases];
        const { records: found, reader } = await recordsOf(await fileOf(entries), false, sizes);
        expect(found).toEqual(entries);
        expect(reader.header).toEqual({
          startedAtMs: NOW_MS,
          source: "http://here",
          namespace: null,
          prefix: NOTHING,
          hasLeases: leases.length > 0,
        });
        expect(reader.trailer).toMatchObject({
          records: records.length,
          counters: records.filter(({ kind }) => kind === "counter").length,
          buffers: records.filter(({ kind }) => kind === "buffer").length,
          pairs: records.filter(({ key }) => Array.isArray(key)).length,
        });
        // A file without leases is one that earlier releases read.
        expect(reader.trailer!.leases).toBe(leases.length === 0 ? undefined : leases.length);
      },
    );
    await fc.assert(property, { seed, numRuns: runs(200) });
  });

  it("a file cut anywhere is told from a complete one, and its complete lines are read", async () => {
    const records = fc.sample(recordArbitrary, { seed, numRuns: 6 });
    const bytes = await fileOf(records);
    const ends: number[] = [];
    bytes.forEach((byte, at) => {
      if (byte === 0x0a) ends.push(at + 1);
    });
    for (let length = 0; length < bytes.length; length++) {
      const cut = bytes.slice(0, length);
      const code = await codeOf(recordsOf(cut));
      expect(code).toBe(length < ends[0]! ? "file_invalid" : "file_truncated");
      const { records: found, reader } = await recordsOf(cut, true);
      const wholeLines = ends.filter((end) => end <= length).length;
      expect(found).toEqual(records.slice(0, Math.max(0, wholeLines - 1)));
      expect(reader.endsAt).toBe(wholeLines === 0 ? 0 : ends[wholeLines - 1]);
      expect(reader.isEmpty).toBe(wholeLines === 0);
    }
  });

  it("a file changed anywhere is told from the one that was written", async () => {
    const records = fc.sample(recordArbitrary, { seed, numRuns: 6 });
    const bytes = await fileOf(records);
    const text = new TextDecoder().decode(bytes);
    const trailerAt = text.lastIndexOf('{"end"');
    const digits = text.slice(trailerAt).match(/"sha256":"\w+"/)!;
    const property = fc.asyncProperty(
      fc.nat(bytes.length - 1),
      fc.integer({ min: 1, max: 255 }),
      async (at, by) => {
        const changed = bytes.slice();
        changed[at] = changed[at]! ^ by;
        // Of the trailer, only what it says of the file is checked, and the case of digits is not.
        const byteAt = encoder.encode(text.slice(0, trailerAt)).length;
        const isOther = at >= byteAt && !(at >= byteAt + digits.index! && by !== 0x20);
        fc.pre(!isOther);
        expect(await codeOf(recordsOf(changed))).toMatch(/^file_(damaged|invalid|truncated)$/);
      },
    );
    await fc.assert(property, { seed, numRuns: runs(1000) });
  });

  it("a file of another format, or with lines behind the trailer, is refused", async () => {
    const bytes = await fileOf([]);
    for (const [text, code] of [
      ["", "file_invalid"],
      ["\n", "file_invalid"],
      ["{}\n", "file_invalid"],
      ['{"format":"other","version":1,"startedAtMs":1,"source":""}\n', "file_invalid"],
      [
        '{"format":"throttr-edge-export","version":3,"startedAtMs":1,"source":""}\n',
        "file_invalid",
      ],
      // Releases that write version 1 know no leases.
      [
        `{"format":"throttr-edge-export","version":1,"startedAtMs":1,"source":""}\n${entryLine(LEASE)}`,
        "file_invalid",
      ],
      [new TextDecoder().decode(await fileOf([LEASE])).replace(',"leases":1', ""), "file_damaged"],
      [
        new TextDecoder().decode(await fileOf([LEASE])).replace(',"leases":1', ',"leases":2'),
        "file_damaged",
      ],
      [`${new TextDecoder().decode(bytes)}{}\n`, "file_invalid"],
      [`${new TextDecoder().decode(bytes)}x`, "file_truncated"],
      ["\ufeff" + new TextDecoder().decode(bytes), "file_invalid"],
    ] as const) {
      expect([text, await codeOf(recordsOf(encoder.encode(text)))]).toEqual([text, code]);
    }
    expect(await codeOf(survey(chunksOf(NOTHING), true))).toBe("file_invalid");
  });
});

const engineOf = (bytesMax = 64 << 20): Engine =>
  new Engine({ hashKey: { low: seed, high: 1 }, bytesMax, isCounting: false });

function started(engine = engineOf(), fateOf?: (message: number) => Fate) {
  const transport = new EngineTransport(engine, NOW_MS, fateOf);
  const client = new ThrottrClient(transport, { backoffBaseMs: 1, backoffMaxMs: 2 });
  return { engine, transport, client };
}

async function hold(client: ThrottrClient, leases: readonly StoredLease[]): Promise<void> {
  for (const lease of leases) expect(await client.restoreLease(lease)).toBe("restored");
}

/** That many counters, each with a key of its own. */
function counters(count: number): StoredRecord[] {
  const some = fc.uniqueArray(counter, { minLength: count, maxLength: count, selector: keyName });
  return fc.sample(some, { seed, numRuns: 1 })[0]!;
}

async function fill(client: ThrottrClient, records: readonly StoredRecord[]): Promise<void> {
  await Promise.all(records.map((record) => client.restore(record)));
}

const sourceOf = (
  client: ThrottrClient,
  prefix: Uint8Array = NOTHING,
  file?: ExportFile,
  hasLeases = false,
  namespace: string | null = null,
) =>
  new EdgeSource({
    client,
    call: {},
    name: "http://here",
    prefix,
    namespace: () => Promise.resolve(namespace),
    after: file?.found?.last ?? null,
    hasLeases,
  });

/** Exports into a file, or goes on with one. */
async function exportInto(
  name: string,
  client: ThrottrClient,
  isResumed = false,
  prefix = NOTHING,
  hasLeases = false,
) {
  const file = isResumed
    ? await ExportFile.resume(name, false)
    : await ExportFile.create(name, false);
  try {
    if (file.isComplete) return null;
    const source = sourceOf(client, prefix, file, hasLeases);
    return await exportAll(source, file.write, file.found, QUIET);
  } finally {
    await file.close();
  }
}

function restorerOf(
  client: ThrottrClient,
  policy: "keep" | "replace" = "keep",
  onDone = async () => {},
) {
  return new Restorer({ client, call: {}, policy, counts: noRestoreCounts(), onDone });
}

describe("an export and an import", () => {
  it("an import puts back all records of an export", async () => {
    const property = fc.asyncProperty(recordsArbitrary, async (records) => {
      const [from, to] = [started(), started()];
      await fill(from.client, records);
      const name = freshFile();
      expect(await exportInto(name, from.client)).toMatchObject({
        records: records.length,
        resumed: 0,
      });
      const bytes = readFileSync(name);
      const surveyed = await survey(chunksOf(bytes), false);
      expect(surveyed).toMatchObject({ expired: 0, bytes: bytes.length });
      const restorer = restorerOf(to.client);
      await importFile(name, { line: 0, endsAt: 0 }, surveyed, restorer);
      expect(restorer.counts).toEqual({ ...noRestoreCounts(), restored: records.length });
      expect(imagesOf(to.engine)).toEqual(imagesOf(from.engine));
      await importStream(chunksOf(bytes), false, restorer);
      expect(restorer.counts).toMatchObject({ restored: records.length, kept: records.length });
    });
    await fc.assert(property, { seed, numRuns: runs(100) });
  });

  it("an interrupted export continues from any place, and ends with the same file", async () => {
    const records = fc.sample(recordArbitrary, { seed, numRuns: 8 });
    const { client } = started();
    await fill(client, records);
    const whole = freshFile();
    await exportInto(whole, client);
    const bytes = readFileSync(whole);
    const expected = (await recordsOf(bytes)).records;
    // A prime step comes by every place of a line, with few runs too.
    const step = inject("runs") < 1 ? 13 : 1;
    for (let length = 0; length <= bytes.length; length += step + (length % 7)) {
      const name = freshFile();
      writeFileSync(name, bytes.subarray(0, length));
      await exportInto(name, client, true);
      const found = await recordsOf(readFileSync(name));
      expect(found.records).toEqual(expected);
      expect(found.reader.trailer!.records).toBe(expected.length);
      rmSync(name);
    }
  });

  it("an export says its namespace, and is not continued in another one that is known", async () => {
    const { client } = started();
    await fill(client, counters(3));
    const name = freshFile();
    const exportOf = async (namespace: string | null, file: ExportFile): Promise<string> => {
      const source = sourceOf(client, NOTHING, file, false, namespace);
      const code = await codeOf(exportAll(source, file.write, file.found, QUIET));
      await file.close();
      return code;
    };
    expect(await exportOf("shop", await ExportFile.create(name, false))).toBe("");
    const bytes = readFileSync(name);
    expect((await recordsOf(bytes)).reader.header.namespace).toBe("shop");
    for (const [namespace, code] of [
      ["books", "resume_mismatch"],
      ["shop", ""],
      [null, ""],
    ] as const) {
      writeFileSync(name, bytes.subarray(0, bytes.lastIndexOf("\n{")));
      expect(await exportOf(namespace, await ExportFile.resume(name, false))).toBe(code);
    }
  });

  it("an interrupted export leaves nothing of a torn line, however long it was", async () => {
    const { client } = started();
    await fill(client, counters(2));
    const name = freshFile();
    await exportInto(name, client);
    const [header] = readFileSync(name, "utf8").split("\n");
    writeFileSync(name, `${header}\n{"key":"${"x".repeat(10_000)}`);
    expect(await exportInto(name, client, true)).toMatchObject({ records: 2, resumed: 0 });
    expect((await recordsOf(readFileSync(name))).records).toHaveLength(2);
  });

  it("an export leaves a complete file as it is, and does not continue one of another export", async () => {
    const { client } = started();
    await fill(client, fc.sample(recordArbitrary, { seed, numRuns: 3 }));
    const name = freshFile();
    await exportInto(name, client);
    const bytes = readFileSync(name, "utf8");
    expect(await exportInto(name, client, true)).toBeNull();
    expect(readFileSync(name, "utf8")).toBe(bytes);
    expect(await codeOf(exportInto(name, client))).toBe("file_exists");
    writeFileSync(name, `${bytes.split("\n").slice(0, 2).join("\n")}\n`);
    expect(await codeOf(exportInto(name, client, true, bytesOf("p")))).toBe("resume_mismatch");
    writeFileSync(
      name,
      bytes.replace("http://here", "http://there").split("\n").slice(0, 1).join("") + "\n",
    );
    expect(await codeOf(exportInto(name, client, true))).toBe("resume_mismatch");
    writeFileSync(name, "something else\n");
    expect(await codeOf(exportInto(name, client, true))).toBe("file_invalid");
    expect(readFileSync(name, "utf8")).toBe("something else\n");
    expect(await codeOf(ExportFile.create(join(folder, "none", "x"), false))).toBe(
      "file_unwritable",
    );
  });

  it("an export goes into a pipe with a name", async () => {
    const { client } = started();
    await fill(client, counters(5));
    const name = freshFile();
    execFileSync("mkfifo", [name]);
    const received = readFile(name);
    const file = await ExportFile.create(name, true);
    await exportAll(sourceOf(client), file.write, null, QUIET);
    await file.complete();
    expect((await recordsOf(await received)).reader.trailer).toMatchObject({ records: 5 });
  });

  describe("an existing file", () => {
    const OLD = "what was there\n";

    /** A file, what is written beside it, and a namespace of a few records. */
    async function old() {
      const { client } = started();
      const records = counters(5);
      await fill(client, records);
      const name = freshFile();
      writeFileSync(name, OLD);
      return { client, name, draft: `${name}.partial` };
    }

    /** Begins to write over it, and is ended behind the first record. */
    async function interrupted(client: ThrottrClient, name: string): Promise<void> {
      const whole = freshFile();
      await exportInto(whole, client);
      const lines = readFileSync(whole, "utf8").split("\n");
      const file = await ExportFile.create(name, true);
      await file.write(encoder.encode(`${lines.slice(0, 2).join("\n")}\n{"torn`));
      await file.close();
    }

    it("an export leaves the existing file until it is complete", async () => {
      const { client, name, draft } = await old();
      const file = await ExportFile.create(name, true);
      await exportAll(sourceOf(client), file.write, null, QUIET);
      expect(readFileSync(name, "utf8")).toBe(OLD);
      await file.complete();
      await file.close();
      expect((await recordsOf(readFileSync(name))).reader.trailer).not.toBeNull();
      expect(existsSync(draft)).toBe(false);
    });

    it("an export that fails at once leaves the existing file", async () => {
      const { name, draft } = await old();
      const { client } = started(engineOf(), () => "unsent");
      const file = await ExportFile.create(name, true);
      const run = exportAll(sourceOf(client), file.write, null, QUIET);
      expect(await codeOf(run)).toBe("connection_failed");
      await file.close();
      expect(readFileSync(name, "utf8")).toBe(OLD);
      expect(existsSync(draft)).toBe(false);
    });

    it("an interrupted export leaves the existing file, and can be continued", async () => {
      const { client, name, draft } = await old();
      await interrupted(client, name);
      expect(readFileSync(name, "utf8")).toBe(OLD);
      const file = await ExportFile.resume(name, false);
      const source = sourceOf(client, NOTHING, file);
      const result = await exportAll(source, file.write, file.found, QUIET);
      expect(result.resumed).toBe(1);
      expect(readFileSync(name, "utf8")).toBe(OLD);
      await file.complete();
      expect((await recordsOf(readFileSync(name))).reader.trailer!.records).toBe(result.records);
      expect(existsSync(draft)).toBe(false);
    });

    it("an export replaces an existing file also when only that step was missing", async () => {
      const { client, name, draft } = await old();
      await exportInto(draft, client);
      const file = await ExportFile.resume(name, false);
      expect(file.isComplete).toBe(true);
      await file.complete();
      expect((await recordsOf(readFileSync(name))).reader.trailer).not.toBeNull();
      expect(existsSync(draft)).toBe(false);
    });

    it("an export that is forced and resumed continues a draft, and replaces a file without one", async () => {
      const { client, name, draft } = await old();
      await interrupted(client, name);
      const continued = await ExportFile.resume(name, true);
      expect(continued.found!.counts.records).toBe(1);
      await continued.close();
      rmSync(draft);
      // It may be complete, and still be that of last week.
      rmSync(name);
      await exportInto(name, client);
      const anew = await ExportFile.resume(name, true);
      expect(anew).toMatchObject({ name: draft, replaces: name, found: null });
      await anew.close();
    });

    it("no new export begins beside one that can be continued", async () => {
      const { client, name } = await old();
      await interrupted(client, name);
      rmSync(name);
      expect(await codeOf(ExportFile.create(name, false))).toBe("file_exists");
    });

    it("an export replaces the target of a link, and not a device", async () => {
      const { client, name } = await old();
      const link = freshFile();
      symlinkSync(name, link);
      const file = await ExportFile.create(link, true);
      await exportAll(sourceOf(client), file.write, null, QUIET);
      await file.complete();
      expect(readFileSync(name, "utf8")).not.toBe(OLD);
      expect(readFileSync(link, "utf8")).toBe(readFileSync(name, "utf8"));
      const device = await ExportFile.create("/dev/null", true);
      expect([device.name, device.replaces]).toEqual(["/dev/null", null]);
      await device.write(encoder.encode("x"));
      await device.close();
      expect(existsSync("/dev/null")).toBe(true);
    });
  });

  it("an export of a prefix leaves other records where they are", async () => {
    const { client } = started();
    const ends = { unit: "s", expiresAtNs: END_NS } as const;
    const keys = ["a:1", "b:1", ["a:2", "x"], ["b", "a:"]] as const;
    await fill(
      client,
      keys.map((key) => ({ key, kind: "counter", quota: 1n, ...ends })),
    );
    const name = freshFile();
    await exportInto(name, client, false, bytesOf("a:"));
    const { records } = await recordsOf(readFileSync(name));
    expect(records.map((record) => (record as StoredRecord).key)).toEqual([
      bytesOf("a:1"),
      [bytesOf("a:2"), bytesOf("x")],
    ]);
  });
});

describe("records of an import", () => {
  const records = Array.from({ length: 1750 }, (_, i): StoredRecord => ({
    key: `key:${i}`,
    kind: "counter",
    quota: BigInt(i),
    unit: "s",
    expiresAtNs: END_NS,
  }));

  /** Lets timers ring at once: those of attempts grow to seconds. */
  async function withoutWaiting<T>(run: () => Promise<T>): Promise<T> {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    vi.setTimerTickMode("nextTimerAsync");
    try {
      return await run();
    } finally {
      vi.useRealTimers();
    }
  }

  async function restored(fateOf: (message: number) => Fate, policy: "keep" | "replace" = "keep") {
    const to = started(engineOf(), fateOf);
    const places: number[] = [];
    const restorer: Restorer = restorerOf(to.client, policy, async () => {
      places.push(restorer.done!.line);
    });
    const code = await codeOf(importStream(chunksOf(await fileOf(records)), false, restorer));
    return { ...to, restorer, places, code };
  }

  it("an import sends many records in a message, and reports its progress", async () => {
    const { transport, restorer, places, code, engine } = await restored(() => "through");
    expect(code).toBe("");
    expect(transport.messages).toBe(4);
    expect(places).toEqual([501, 1001, 1501, 1751]);
    expect(restorer.counts.restored).toBe(1750);
    expect(engine.figures.records).toBe(1750);
  });

  it("an import repeats messages that were lost, on the way there or back", async () => {
    const fates: Fate[] = ["lost", "unsent", "lost", "unsent", "through", "lost"];
    const { restorer, code, engine } = await restored((message) => fates[message] ?? "through");
    expect(code).toBe("");
    const { restored: fresh, kept } = restorer.counts;
    // Those whose answer was lost are there already.
    expect(fresh + kept).toBe(1750);
    expect(kept).toBeGreaterThan(0);
    expect(engine.figures.records).toBe(1750);
    const replaced = await restored((message) => fates[message] ?? "through", "replace");
    expect(replaced.restorer.counts.restored).toBe(1750);
  });

  it("an import ends when all further messages would fail, and reports its progress", async () => {
    const refused = new ThrottrError("token_expired", "it is");
    const { restorer, code, places } = await restored((message) =>
      message === 2 ? refused : "through",
    );
    expect(code).toBe("token_expired");
    expect(places).toEqual([501, 1001]);
    expect(restorer.done).toMatchObject({ line: 1001 });
    const gone = await withoutWaiting(() => restored(() => "unsent"));
    expect(gone.code).toBe("connection_failed");
    expect(gone.restorer.done).toBeNull();
  });

  it("an interrupted import does not wait for the end of its pause before another attempt", async () => {
    const interruption = new AbortController();
    const { signal } = interruption;
    let attempts = 0;
    const restore = (): Promise<never> => {
      attempts++;
      return Promise.reject(new ThrottrError(signal.aborted ? "aborted" : "connection_failed", ""));
    };
    const client = { restore } as unknown as ThrottrClient;
    const onDone = (): Promise<void> => Promise.resolve();
    const call = { signal };
    const counts = noRestoreCounts();
    const restorer = new Restorer({ client, call, policy: "keep", counts, onDone });
    const [record] = counters(1);
    void restorer.add(record!, { line: 2, endsAt: 1 });
    const ended = restorer.end();
    ended.catch(() => {});
    // The fourth pause is one of 1.6 s.
    await vi.waitFor(() => expect(attempts).toBe(4), 10_000);
    const interruptedMs = performance.now();
    interruption.abort();
    await expect(ended).rejects.toMatchObject({ code: "aborted" });
    expect(performance.now() - interruptedMs).toBeLessThan(800);
  });

  it("an import sends records one by one when one of them fails, and names it", async () => {
    const to = started(engineOf(1 << 20));
    const restorer = restorerOf(to.client);
    const large = Array.from({ length: 300 }, (_, i): StoredRecord => ({
      key: `large:${i}`,
      kind: "buffer",
      value: new Uint8Array(8000),
      unit: "s",
      expiresAtNs: END_NS,
    }));
    const bad: StoredRecord = { ...records[0]!, key: new Uint8Array(256) };
    await importStream(chunksOf(await fileOf([bad, ...large])), false, restorer);
    const { restored, failed } = restorer.counts;
    expect(failed["key_invalid"]).toBe(1);
    expect(failed["shard_full"]).toBeGreaterThan(100);
    expect(restored + failed["shard_full"]!).toBe(300);
    expect(restorer.failures).toHaveLength(20);
    expect(restorer.failures[0]).toMatchObject({ line: 2, code: "key_invalid" });
  });

  it("an import keeps or replaces existing records, and counts the expired ones", async () => {
    const property = fc.asyncProperty(fc.constantFrom("keep", "replace"), async (policy) => {
      const to = started();
      const [first, second] = [records[0]!, records[1]!];
      await fill(to.client, [{ ...first, kind: "buffer", value: "mine" } as StoredRecord]);
      const restorer = restorerOf(to.client, policy);
      const file = await fileOf([first, second, { ...records[2]!, expiresAtNs: 1n }]);
      expect(await survey(chunksOf(file), false)).toMatchObject({ expired: 1 });
      await importStream(chunksOf(file), false, restorer);
      const isKept = policy === "keep";
      expect(restorer.counts).toEqual({
        ...noRestoreCounts(),
        restored: isKept ? 1 : 2,
        kept: isKept ? 1 : 0,
        expired: 1,
      });
      const value = to.client.get("key:0");
      if (isKept) expect((await value)!.value).toEqual(bytesOf("mine"));
      else await expect(value).rejects.toThrow("kind_mismatch");
    });
    await fc.assert(property, { seed, numRuns: 4 });
  });

  it("an import of a stream without a trailer puts the records back, and reports that", async () => {
    const file = await fileOf(records);
    const cut = file.slice(0, file.length - 10);
    const to = started();
    const restorer = restorerOf(to.client);
    expect(await codeOf(importStream(chunksOf(cut), false, restorer))).toBe("file_truncated");
    const partial = started();
    await importStream(chunksOf(cut), true, restorerOf(partial.client));
    expect(partial.engine.figures.records).toBe(1750);
  });
});

describe("leases", () => {
  const leasesIn = async (client: ThrottrClient): Promise<readonly ExportedLease[]> =>
    (await client.exportLeases()).leases;

  it("an import puts back all leases of an export, behind the records", async () => {
    const property = fc.asyncProperty(
      recordsArbitrary,
      leasesArbitrary,
      async (records, leases) => {
        const [from, to] = [started(), started()];
        await fill(from.client, records);
        await hold(from.client, leases);
        const name = freshFile();
        expect(await exportInto(name, from.client, false, NOTHING, true)).toMatchObject({
          records: records.length,
          leases: leases.length,
        });
        const bytes = readFileSync(name);
        const surveyed = await survey(chunksOf(bytes), false);
        expect(surveyed.counts).toMatchObject({ records: records.length, leases: leases.length });
        const restorer = restorerOf(to.client);
        await importFile(name, { line: 0, endsAt: 0 }, surveyed, restorer);
        const count = records.length + leases.length;
        expect(restorer.counts).toEqual({ ...noRestoreCounts(), restored: count });
        expect(await leasesIn(to.client)).toEqual(await leasesIn(from.client));
        expect(await leasesIn(to.client)).toHaveLength(leases.length);
        await importStream(chunksOf(bytes), false, restorer);
        expect(restorer.counts).toMatchObject({ restored: count, kept: count });
      },
    );
    await fc.assert(property, { seed, numRuns: runs(100) });
  });

  it("an interrupted export with leases continues from any place, and ends with the same entries", async () => {
    const { client } = started();
    await fill(client, fc.sample(recordArbitrary, { seed, numRuns: 4 }));
    // Of semaphores of their own: two of one could hold more than there may be.
    const five = fc.uniqueArray(leaseArbitrary, {
      minLength: 5,
      maxLength: 5,
      selector: ({ name }) => JSON.stringify(name),
    });
    await hold(client, fc.sample(five, { seed, numRuns: 1 })[0]!);
    const whole = freshFile();
    await exportInto(whole, client, false, NOTHING, true);
    const bytes = readFileSync(whole);
    const expected = (await recordsOf(bytes)).records;
    expect(expected.filter(isLease)).toHaveLength(5);
    const step = inject("runs") < 1 ? 13 : 1;
    for (let length = 0; length <= bytes.length; length += step + (length % 7)) {
      const name = freshFile();
      writeFileSync(name, bytes.subarray(0, length));
      await exportInto(name, client, true, NOTHING, true);
      expect((await recordsOf(readFileSync(name))).records).toEqual(expected);
      rmSync(name);
    }
  });

  it("an export with leases does not continue one without them, nor the other way round", async () => {
    const { client } = started();
    await fill(client, counters(3));
    for (const hasLeases of [true, false]) {
      const name = freshFile();
      const [header, record] = new TextDecoder()
        .decode(await fileOf(counters(1), hasLeases))
        .split("\n");
      writeFileSync(name, `${header}\n${record}\n`);
      const resumed = exportInto(name, client, true, NOTHING, !hasLeases);
      expect(await codeOf(resumed)).toBe("resume_mismatch");
    }
  });

  it("an export without leases has the version that earlier releases read, and says what it lacks", async () => {
    const { client } = started();
    await hold(client, [LEASE]);
    const [plain, withLeases] = [freshFile(), freshFile()];
    await exportInto(plain, client);
    await exportInto(withLeases, client, false, NOTHING, true);
    const headers = [plain, withLeases].map(
      (name) => JSON.parse(readFileSync(name, "utf8").split("\n")[0]!) as object,
    );
    expect(headers[0]).toMatchObject({ version: 1, leftOut: ["semaphores"] });
    expect(headers[1]).toMatchObject({ version: 2, leftOut: ["semaphores of connections"] });
    expect(readFileSync(plain, "utf8")).not.toContain(LEASE_ID);
    expect(readFileSync(plain, "utf8")).not.toContain('"leases"');
  });

  it("an export has only leases whose names begin with the prefix", async () => {
    const { client } = started();
    await hold(
      client,
      ["a:1", "b:1"].map((name) => ({ ...LEASE, name })),
    );
    const name = freshFile();
    await exportInto(name, client, false, bytesOf("a:"), true);
    const { records } = await recordsOf(readFileSync(name));
    expect(records).toEqual([{ ...LEASE, name: bytesOf("a:1") }]);
  });

  it("an export with leases from an earlier release writes nothing, and says what to do", async () => {
    const { client, transport } = started();
    transport.unknown = [EXPORT_LEASES];
    await fill(client, counters(3));
    const name = freshFile();
    await expect(exportInto(name, client, false, NOTHING, true)).rejects.toThrow(
      "request_type_unknown: the server cannot export leases: update it to 0.5, or leave out --leases",
    );
    expect(() => readFileSync(name)).toThrow("ENOENT");
  });

  it("an import of leases into an earlier release restores nothing from a file, and says what to do", async () => {
    const records = counters(3);
    const file = await fileOf([...records, LEASE]);
    const name = freshFile();
    writeFileSync(name, file);
    const message = "request_type_unknown: the server cannot restore leases: update it to 0.5";
    const [whole, piped] = [started(), started()];
    whole.transport.unknown = [RESTORE_LEASE];
    piped.transport.unknown = [RESTORE_LEASE];
    const surveyed = await survey(chunksOf(file), false);
    const restorer = restorerOf(whole.client);
    await expect(importFile(name, { line: 0, endsAt: 0 }, surveyed, restorer)).rejects.toThrow(
      message,
    );
    expect(whole.engine.figures.records).toBe(0);
    // A pipe is read only once: what comes before the leases may be there.
    const stream = importStream(chunksOf(file), false, restorerOf(piped.client));
    await expect(stream).rejects.toThrow(message);
    // A file without leases goes into such a server as before.
    const plain = restorerOf(whole.client);
    await importStream(chunksOf(await fileOf(records)), false, plain);
    expect(plain.counts.restored).toBe(new Set(records.map(keyName)).size);
  });

  it("an import keeps or replaces existing leases, and counts those that have ended or are refused", async () => {
    for (const policy of ["keep", "replace"] as const) {
      const to = started();
      await hold(to.client, [{ ...LEASE, resources: 7 }]);
      const file = await fileOf([
        LEASE,
        { ...LEASE, name: "other" },
        { ...LEASE, name: "ended", expiresAtMs: 1 },
        { ...LEASE, name: "late", expiresAtMs: NOW_MS + 3 * 86_400_000 },
        { ...LEASE, name: "x".repeat(256) },
      ]);
      expect(await survey(chunksOf(file), false)).toMatchObject({ expired: 1 });
      const restorer = restorerOf(to.client, policy);
      await importStream(chunksOf(file), false, restorer);
      const isKept = policy === "keep";
      expect(restorer.counts).toEqual({
        restored: isKept ? 1 : 2,
        kept: isKept ? 1 : 0,
        expired: 1,
        failed: { expires_at_ms_invalid: 1, name_invalid: 1 },
      });
      expect(await to.client.inspectSemaphore("gpu")).toMatchObject({
        consumption: isKept ? 7 : 2,
      });
    }
  });
});

describe("the progress of an import", () => {
  const identity = { sha256: "a", target: "http://here", policy: "keep" } as const;
  const progress = {
    ...identity,
    line: 501,
    endsAt: 12_345,
    restored: 3,
    kept: 2,
    expired: 1,
    failed: { shard_full: 4 },
  };

  it("the progress of an import is read as written, and only for that import", async () => {
    const name = freshFile();
    const file = new ProgressFile(name, () => {});
    expect(await file.read(identity)).toBeNull();
    await file.write(progress, true);
    expect(await file.read(identity)).toMatchObject(progress);
    for (const other of [
      { sha256: "b" },
      { target: "http://there" },
      { policy: "replace" as const },
    ]) {
      expect(await codeOf(file.read({ ...identity, ...other }))).toBe("resume_mismatch");
    }
    appendFileSync(`${name}.progress`, "}");
    expect(await codeOf(file.read(identity))).toBe("progress_invalid");
    await file.remove();
    await file.remove();
    expect(await file.read(identity)).toBeNull();
  });

  it("progress that is there and can't be read is refused, with the file and what to do", async () => {
    const name = freshFile();
    const file = new ProgressFile(name, () => {});
    // Root may read any file, but none may read a folder.
    mkdirSync(`${name}.progress`);
    await expect(file.read(identity)).rejects.toMatchObject({
      code: "file_unreadable",
      message: expect.stringMatching(/\.progress.*leave out --resume to start over/) as string,
    });
  });

  it("an import continues behind any line, without leaving out or repeating one", async () => {
    const records = counters(9);
    const bytes = await fileOf(records);
    const name = freshFile();
    writeFileSync(name, bytes);
    const surveyed = await survey(chunksOf(bytes), false);
    let line = 0;
    for (let at = 0; at < bytes.length; at++) {
      if (bytes[at] !== 0x0a) continue;
      line++;
      const to = started();
      const restorer = restorerOf(to.client);
      await importFile(name, { line, endsAt: at + 1 }, surveyed, restorer);
      const left = records.slice(Math.max(0, line - 1));
      const { restored, kept } = restorer.counts;
      expect(restored + kept).toBe(left.length);
      const expected = started();
      await fill(expected.client, left);
      expect(imagesOf(to.engine)).toEqual(imagesOf(expected.engine));
    }
  });
});

describe("transfer operations", () => {
  const record = { key: "k", kind: "counter", quota: 1n, unit: "s", expiresAtNs: 1n } as const;
  const bad = (fields: object): StoredRecord =>
    ({ ...record, ...fields }) as unknown as StoredRecord;

  it.each<[string, StoredRecord, object?]>([
    ["key_invalid", bad({ key: "x".repeat(256) })],
    ["key_invalid", bad({ key: "\ud800" })],
    ["key_invalid", bad({ key: 1 })],
    ["key_invalid", bad({ key: ["a"] })],
    ["key_invalid", bad({ key: ["a", "b", "c"] })],
    ["key_invalid", bad({ key: ["a", "x".repeat(256)] })],
    ["kind_invalid", bad({ kind: "other" })],
    ["kind_invalid", bad({ kind: undefined })],
    ["kind_invalid", bad({ key: ["a", "b"], kind: "buffer", value: "" })],
    ["quota_invalid", bad({ quota: -1n })],
    ["quota_invalid", bad({ quota: U64_MAX + 1n })],
    ["quota_invalid", bad({ quota: 1.5 })],
    ["value_invalid", bad({ kind: "buffer" })],
    ["value_invalid", bad({ kind: "buffer", value: new Uint8Array(1_800_001) })],
    ["unit_invalid", bad({ unit: "days" })],
    ["unit_invalid", bad({ unit: undefined })],
    ["unit_invalid", bad({ key: ["a", "b"], unit: "us" })],
    ["unit_invalid", bad({ key: ["a", "b"], unit: "h" })],
    ["expires_at_ns_invalid: expiresAtNs", bad({ expiresAtNs: -1n })],
    ["expires_at_ns_invalid", bad({ expiresAtNs: U64_MAX + 1n })],
    ["policy_invalid", record, { policy: "other" }],
    ["policy_invalid", record, { policy: "toString" }],
  ])("an invalid record is refused: %s (%#)", (code, wrong, options) => {
    expect(() => operations.restore(wrong, options)).toThrow(`${code}: `);
  });

  it.each<[string, object]>([
    ["limit_invalid", { limit: 0 }],
    ["limit_invalid", { limit: 10_001 }],
    ["limit_invalid", { limit: 1.5 }],
    ["bytes_max_invalid", { bytesMax: 0 }],
    ["bytes_max_invalid", { bytesMax: (1 << 20) + 1 }],
    ["prefix_invalid", { prefix: "x".repeat(256) }],
    ["after_invalid: cursor", { cursor: "x".repeat(256) }],
    ["after_invalid: cursor", { cursor: null }],
    ["after_invalid: cursor", { cursor: ["a", "b"] }],
    ["after_invalid: cursor", { cursor: "a", pairs: true }],
    ["key_invalid", { cursor: ["a"], pairs: true }],
  ])("an invalid page is refused: %s (%#)", (code, options) => {
    expect(() => operations.exportPage(options)).toThrow(`${code}: `);
  });

  it("only operations that read are repeated", () => {
    expect(operations.exportPage().isRepeatable).toBe(true);
    expect(operations.restore(record).isRepeatable).toBe(false);
    expect(operations.restore({ ...record, key: ["a", "b"] }).isRepeatable).toBe(false);
  });
});
