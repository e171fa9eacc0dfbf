/** What the command line prints, of results and of failures, and what it exits with. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import { Writable } from "node:stream";
import { describe, expect, it, vi } from "vitest";
import { endWithReader, outliveReaders } from "../../src/cli/closed-output.ts";
import { Clients } from "../../src/cli/connection.ts";
import { ExitCode } from "../../src/cli/exit-code.ts";
import { failureOf, UsageError } from "../../src/cli/failure.ts";
import type { Run } from "../../src/cli/invocation.ts";
import { usageListing } from "../../src/cli/commands/figures.ts";
import { printRows } from "../../src/cli/listing.ts";
import { completeLanguage } from "../../src/cli/node-20.ts";
import { jsonOf, Output } from "../../src/cli/output.ts";
import { readProfiles } from "../../src/cli/profiles.ts";
import { carryOut } from "../../src/cli/program.ts";
import { Rates } from "../../src/cli/rates.ts";
import { tableOf, type Column } from "../../src/cli/table.ts";
import { decodeUsages } from "../../src/cli/usage.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { FragmentWriter } from "../../src/wire/throttr/fragments.ts";
import type { InfoFigures } from "../../src/wire/throttr/info.ts";
import { fakeHost, type FakeHost, type FakeHostOptions } from "../support/cli/host.ts";

const encoder = new TextEncoder();

async function run(
  args: readonly string[],
  options: FakeHostOptions = {},
): Promise<{ exitCode: number; printed: FakeHost["printed"] }> {
  const host = fakeHost(options);
  const run: Run = {
    host,
    clients: new Clients(),
    flags: {},
    signal: new AbortController().signal,
    renewSignal: () => new AbortController().signal,
    isPrompt: false,
    exitCode: ExitCode.done,
  };
  return { exitCode: await carryOut(args, run), printed: host.printed };
}

describe("output", () => {
  it("bigints are written as decimal text", () => {
    expect(jsonOf({ quota: 2n ** 64n - 1n, none: undefined })).toBe(
      '{"quota":"18446744073709551615"}',
    );
  });

  it("output has colours on terminals only, and not with NO_COLOR", () => {
    const green = (options: FakeHostOptions) => new Output(fakeHost(options), false).good("x");
    expect(green({ isTerminal: true })).toBe("\u001b[32mx\u001b[39m");
    expect(green({ isTerminal: true, environment: { NO_COLOR: "1" } })).toBe("x");
    expect(green({ isTerminal: true, environment: { TERM: "dumb" } })).toBe("x");
    expect(green({ isTerminal: true, environment: { NO_COLOR: "" } })).not.toBe("x");
    expect(green({})).toBe("x");
  });

  it("on a terminal a long key leaves the figures of all records in their lines; a pipe gets it whole", async () => {
    const usage = { reads: 0, readsPerMinute: 0, writes: 12_345, writesPerMinute: 0 };
    const rows = ["k", "k".repeat(255)].map((key) => ({ key: encoder.encode(key), usage }));
    const linesOf = async (isTerminal: boolean): Promise<string[]> => {
      const host = fakeHost({ isTerminal, environment: { NO_COLOR: "1" } });
      const output = new Output(host, false);
      await printRows(output, usageListing(output), rows);
      return host.printed.out.trimEnd().split("\n");
    };
    const shown = await linesOf(true);
    expect(shown.map(({ length }) => length <= 80)).toEqual([true, true, true]);
    expect(shown[2]).toMatch(/^k{39}… +0 +0 +12345 +0$/);
    expect((await linesOf(false))[2]).toMatch(/^k{255} +0 +0 +12345 +0$/);
  });

  it("tables are aligned, without trailing spaces", () => {
    const columns: readonly Column<[string, number]>[] = [
      ["KEY", ([key]) => key],
      ["N", ([, count]) => count, "right"],
    ];
    const output = new Output(fakeHost(), false);
    const rows: [string, number][] = [
      ["a", 1],
      ["long", 100],
    ];
    expect(tableOf(output, columns, rows)).toBe("KEY     N\na       1\nlong  100");
    expect(tableOf(output, columns, rows, false)).toBe("a       1\nlong  100");
  });
});

describe("failures", () => {
  it.each([
    [new ThrottrError("token_revoked", "gone"), "token_revoked", "gone", ExitCode.server],
    [new ThrottrError("timeout", "late"), "timeout", "late", ExitCode.connection],
    [new ThrottrError("outcome_unknown", "lost"), "outcome_unknown", "lost", ExitCode.connection],
    [new ThrottrError("ttl_invalid", "ttlMs: no"), "ttl_invalid", "ttlMs: no", ExitCode.usage],
    [new ThrottrError("quota_name_invalid", "no"), "quota_name_invalid", "no", ExitCode.usage],
    [new ThrottrError("reply_too_large", "24 MiB"), "reply_too_large", "24 MiB", ExitCode.server],
    [new ThrottrError("of_a_later_release", "?"), "of_a_later_release", "?", ExitCode.server],
    [new ThrottrError("aborted", "stop"), "aborted", "stop", ExitCode.interrupted],
    [new UsageError("profile_unknown", "none"), "profile_unknown", "none", ExitCode.usage],
  ])("a failure is shown with its exit code: %s", (error, code, message, exitCode) => {
    expect(failureOf(error)).toEqual({ code, message, exitCode });
  });

  it("a missing token is asked for by what the command line takes it from", () => {
    const error = new ThrottrError("token_missing", "send a token as Authorization: Bearer");
    expect(failureOf(error)).toEqual({
      code: "token_missing",
      message: "the server needs a token: give one with --token, THROTTR_TOKEN or a profile",
      exitCode: ExitCode.server,
    });
  });

  it("a missing namespace is asked for by the option of the command line", () => {
    const error = new ThrottrError("namespace_missing", "name one behind it, as TOKEN~NAME");
    expect(failureOf(error)).toEqual({
      code: "namespace_missing",
      message: "the token is for all namespaces: name one with --namespace",
      exitCode: ExitCode.server,
    });
  });

  it("a failed connection is shown with its reason", () => {
    const refused = Object.assign(new Error(""), { code: "ECONNREFUSED" });
    const cause = new TypeError("fetch failed", { cause: refused });
    const error = new ThrottrError("connection_failed", "TypeError: fetch failed", { cause });
    expect(failureOf(error).message).toBe("TypeError: fetch failed: ECONNREFUSED");
  });

  it("a fault of the command line itself is shown with its place in the code", () => {
    const { code, message, exitCode } = failureOf(new TypeError("x is not a function"));
    expect([code, exitCode]).toEqual(["internal", ExitCode.fault]);
    expect(message).toContain("cli-output.test.ts");
  });
});

it("the command line runs on Node 20", async () => {
  const before = Object.getOwnPropertyDescriptor(Promise, "withResolvers")!;
  try {
    Object.assign(Promise, { withResolvers: undefined });
    completeLanguage();
    const { promise, resolve } = Promise.withResolvers<number>();
    resolve(1);
    expect(await promise).toBe(1);
    const { promise: failing, reject } = Promise.withResolvers<number>();
    reject(new Error("no"));
    await expect(failing).rejects.toThrow("no");
  } finally {
    Object.defineProperty(Promise, "withResolvers", before);
  }
});

it("a quota name that is refused before anything is sent exits with 2", async () => {
  const line = ["limit", "api", "ada", "--strategy", "fixed_window", "--quota", "bad name=10/1m"];
  const { exitCode, printed } = await run(line);
  expect(printed.err).toMatch(/^throttr-edge: quota_name_invalid: /);
  expect(exitCode).toBe(ExitCode.usage);
});

describe("a reader that goes away", () => {
  /** An output whose first write fails. */
  const failingOutput = (code: string): Writable =>
    new Writable({
      write: (_chunk, _encoding, done) => done(Object.assign(new Error(code), { code })),
    });
  /** An output whose reader closes the pipe before the first line. */
  const closedPipe = (): Writable => failingOutput("EPIPE");

  /** Resolves when a stream was destroyed; unlike `once`, it does not listen for its error. */
  const closed = (stream: Writable): Promise<void> =>
    new Promise((resolve) => stream.once("close", resolve));

  it("an output that can't be written ends a command as a failure", async () => {
    const exit = vi.spyOn(process, "exit").mockImplementation((() => {}) as () => never);
    const told = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const stdout = failingOutput("ENOSPC");
    endWithReader({ stdout, stderr: closedPipe() });
    stdout.write("a");
    await once(stdout, "error");
    expect(exit).toHaveBeenCalledWith(ExitCode.usage);
    expect(told).toHaveBeenCalledWith("throttr-edge: file_unwritable: standard output: ENOSPC\n");
    vi.restoreAllMocks();
  });

  it("a reader that goes away ends a command as if it were done", async () => {
    const exit = vi.spyOn(process, "exit").mockImplementation((() => {}) as () => never);
    const stdout = closedPipe();
    endWithReader({ stdout, stderr: closedPipe() });
    stdout.write("a");
    await once(stdout, "error");
    expect(exit.mock.calls).toEqual([[ExitCode.done]]);
    exit.mockRestore();
  });

  it("a reader of standard error that goes away does not end a command", async () => {
    const exit = vi.spyOn(process, "exit").mockImplementation((() => {}) as () => never);
    const stderr = closedPipe();
    endWithReader({ stdout: closedPipe(), stderr });
    stderr.write("a");
    // An error without a listener would end the process of the tests.
    await closed(stderr);
    expect(exit).not.toHaveBeenCalled();
    exit.mockRestore();
  });

  it("a reader that goes away does not end a server, on either stream", async () => {
    const exit = vi.spyOn(process, "exit").mockImplementation((() => {}) as () => never);
    const [stdout, stderr] = [closedPipe(), closedPipe()];
    endWithReader({ stdout, stderr });
    outliveReaders({ stdout, stderr });
    stdout.write("a");
    stderr.write("a");
    // An error without a listener would end the process of the tests.
    await Promise.all([stdout, stderr].map(closed));
    expect(exit).not.toHaveBeenCalled();
    exit.mockRestore();
  });
});

describe("usage", () => {
  it.each([
    [["bogus"], "unknown command 'bogus'"],
    [["help", "bogus"], "unknown command 'bogus'"],
    [["get"], "missing required argument 'key'"],
    [["get", "a", "b"], "too many arguments"],
    [["get", "a", "--what"], "unknown option '--what'"],
    [["increment"], "missing required argument 'key'"],
    [["increment", "--tll", "1h"], "(Did you mean --ttl?)"],
    [["increment", "a", "--tll", "1h"], "unknown option '--tll'"],
    [["increment", "a"], "required option '--ttl <duration>' not specified"],
    [["profile", "add", "--tokn", "x"], "(Did you mean --token?)"],
    [["token", "--ns", "a", "--ttl", "86400"], "for 86400 seconds write 86400s"],
    [["token", "--ns", "a", "--ttl", "1.5s"], "Expected whole seconds"],
    [["token", "--ns", "a", "--ttl", "0"], "Expected whole seconds, at least 1s"],
    [["insert", "a", "--ttl", "1h"], "required option '--quota <n>' not specified"],
    [["insert", "a", "--quota", "-1", "--ttl", "1h"], "0 to 18446744073709551615"],
    [["set", "a", "b", "--ttl", "1 hour"], "Expected a duration such as"],
    [["set", "a", "b", "--ttl", "1h", "--hex", "--base64"], "cannot be used with"],
    [["update", "a", "double", "1"], "patch, increase, decrease"],
    [["limit", "a", "b", "--strategy", "gcra"], "needs --burst"],
    [["purge"], "either keys or --prefix"],
    [["purge", "a", "--prefix", "b"], "either keys or --prefix"],
    [["ttl", "a", "--increase"], "duration"],
    [["purge", "--prefix", "a"], "--yes"],
    [["token", "--ns", "a"], "TOKEN_SECRET"],
    [["token", "--ns", "a", "--scopes", "all"], "got all"],
    [["list", "--namespace", "a b"], "Expected 1 to 64 letters"],
    [["list", "--token", "a\nb"], "token: expected ASCII characters without line breaks"],
    [["subscribe", "a", "--token", "a\nb"], "token: expected ASCII characters without line breaks"],
    [["limits", "--token", "a\nb"], "token: expected ASCII characters without line breaks"],
    [["token", "--ns", "a", "--key-prefix", ""], "an empty prefix would allow everything"],
    [["token", "--ns", "a", "--channel-prefix", ""], "an empty prefix would allow everything"],
    [
      ["token", "revoke", "--id", "a", "--expires-at", "1795000000"],
      "for 1795000000 seconds write 1795000000000",
    ],
    [["token", "revoke", "--all-before", "1795000000"], "for 1795000000 seconds write"],
    [
      ["token", "revoke", "--id", "a", "--expires-at", "2026-01-01T00:00:00Z"],
      "--expires-at: 2026-01-01T00:00:00.000Z is more than a day ago",
    ],
    [["serve", "--drain-timeout", "25d"], "0ms to 24d"],
    [["gateway", "--host", "", "--url", "http://127.0.0.1:1"], "expected an address or a name"],
    [["get", "zz", "--hex"], "hexadecimal"],
    [["get", "a", "--timeout", "0"], "1ms to 24d"],
    [["get", "a", "--url", "ftp://a"], "http, https, ws or wss"],
  ])("%j is refused on standard error with exit code 2", async (args, message) => {
    const { exitCode, printed } = await run(args);
    expect(exitCode).toBe(ExitCode.usage);
    expect(printed.err).toContain(message);
    expect(printed.out).toBe("");
    const asJson = await run([...args, "--json"]);
    expect(asJson.exitCode).toBe(ExitCode.usage);
    expect(JSON.parse(asJson.printed.err)).toMatchObject({
      error: { message: expect.stringContaining(message) as string, exitCode: 2 },
    });
  });

  it("a profile is not added with a token that no header can carry", async () => {
    const folder = mkdtempSync(join(tmpdir(), "throttr-profiles-"));
    const environment = { XDG_CONFIG_HOME: folder };
    const add = ["profile", "add", "a", "--url", "http://a", "--token", "a\nb"];
    const { exitCode, printed } = await run(add, { environment });
    expect(exitCode).toBe(ExitCode.usage);
    expect(printed.err).toContain("token: expected ASCII characters without line breaks");
    expect(readProfiles(environment).profiles).toEqual({});
    rmSync(folder, { recursive: true });
  });

  it.each([
    [["bogus"], "throttr-edge --help"],
    [["get"], "throttr-edge get --help"],
    [["--json", "get", "a", "--what"], null],
    [["--url", "http://a", "get", "a", "--what"], "throttr-edge get --help"],
    [["increment", "a"], "throttr-edge increment --help"],
    [["insert", "a", "--quota", "-1", "--ttl", "1h"], "throttr-edge insert --help"],
    [["profile", "ad"], "throttr-edge profile --help"],
    [["profile", "add", "--tokn", "x"], "throttr-edge profile add --help"],
    [["completion", "tcsh"], "throttr-edge completion --help"],
  ])("%j points to the help of the command", async (args, command) => {
    const { printed } = await run(args);
    if (command === null) expect(printed.err).not.toContain("--help");
    else expect(printed.err.split("\n").at(-2)).toBe(`See ${command}`);
  });

  it("the help lists commands in groups", async () => {
    const { printed } = await run(["--help"]);
    const headings = printed.out.match(/^[A-Z][a-z ]+:$/gm);
    expect(headings).toEqual([
      "Options:",
      "Records:",
      "Rate limits:",
      "Semaphores:",
      "Channels:",
      "Figures:",
      "Server:",
      "This command line:",
    ]);
    const [, records] = /^Records:\n([^]*?)\n\n/m.exec(printed.out)!;
    expect(records!.match(/^ {2}(\w+)/gm)).toContain("  increment");
    expect(printed.out).not.toMatch(/^ {2}complete /m);
  });

  it("the help names each default once", async () => {
    const { printed } = await run(["--help"]);
    const names = [...printed.out.matchAll(/^ {2}(\w+) .*\S {2,}\S/gm)].map(([, name]) => name!);
    expect(names).toEqual(expect.arrayContaining(["increment", "bench", "serve", "completion"]));
    for (const name of names) {
      const help = (await run([name, "--help"])).printed.out.replaceAll(/\s+/g, " ");
      expect([name, /\(default: [^)]*\) \(default/.exec(help)]).toEqual([name, null]);
    }
  });

  it("the word version prints the version, as the flag does", async () => {
    const { printed } = await run(["version"]);
    expect(printed.out).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect((await run(["--version"])).printed.out).toBe(printed.out);
    const asJson = await run(["version", "--json"]);
    expect(JSON.parse(asJson.printed.out)).toEqual({ version: printed.out.trim() });
  });

  it.each([
    [["incr"], ["increment"]],
    [["comp"], ["completion"]],
    [["profile", "a"], ["add"]],
    [["update", "key", "in"], ["increase"]],
    [["bench", "--type", "li"], ["limit"]],
    [["increment", "--idem"], ["--idempotency-key"]],
    [["get", ""], []],
    [["acquire", "a", "--maximum", "1", "--", "l"], []],
  ])("shells get the completions of %j", async (words, hits) => {
    const { exitCode, printed } = await run(["complete", "--", ...words]);
    expect(exitCode).toBe(ExitCode.done);
    expect(printed.out.split("\n").slice(0, -1)).toEqual(hits);
  });

  it("requested help is printed on standard output, other help on standard error", async () => {
    const help = await run(["--help"]);
    expect([help.exitCode, help.printed.err]).toEqual([ExitCode.done, ""]);
    expect(help.printed.out).toContain("Usage: throttr-edge");
    const nothing = await run([]);
    expect([nothing.exitCode, nothing.printed.out]).toEqual([ExitCode.usage, ""]);
    expect(nothing.printed.err).toContain("Usage: throttr-edge");
  });

  it("options of connections may stand before and behind the name of a command", async () => {
    for (const args of [
      ["--url", "ftp://before", "get", "a"],
      ["get", "a", "--url", "ftp://before"],
      ["--url", "http://x", "get", "a", "--url", "ftp://before"],
    ]) {
      expect((await run(args)).printed.err).toContain("ftp://before");
    }
  });

  it("escape sequences of a stranger are not written to the terminal", async () => {
    const { printed } = await run(["profile", "use", "\u001b[2J"]);
    expect(printed.err).toContain("\\u001b[2J");
    expect(printed.err).not.toContain("\u001b");
  });
});

describe("existing profiles", () => {
  it("replacing a profile is reported, and its token does not go to another address", async () => {
    const folder = mkdtempSync(join(tmpdir(), "throttr-cli-"));
    const options = { environment: { XDG_CONFIG_HOME: folder } };
    const add = (...args: string[]) => run(["profile", "add", "work", "--url", ...args], options);
    try {
      const added = await add("https://a", "--token", "old");
      expect(added.printed.out).toMatch(/^added to /);
      const replaced = await add("https://b");
      expect(replaced.printed.out).toMatch(/^replaced in /);
      expect(replaced.printed.err).toContain("work had a token and has none now");
      expect(readProfiles(options.environment).profiles).toEqual({ work: { url: "https://b" } });
      const { printed } = await add("https://c", "--token", "new", "--json");
      expect(JSON.parse(printed.out)).toMatchObject({ hasToken: true, isReplaced: true });
      expect(printed.err).toBe("");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe("the answer to STATS", () => {
  const rowsOf = (keys: readonly string[]): Uint8Array => {
    const writer = new FragmentWriter(33);
    for (const [i, key] of keys.entries()) {
      const bytes = encoder.encode(key);
      if (writer.isFullFor(bytes.length)) writer.cut();
      const at = writer.add(bytes, 0, bytes.length);
      writer.rows.setUint8(at, bytes.length);
      for (const figure of [0, 1, 2, 3]) {
        writer.rows.setBigUint64(at + 1 + 8 * figure, BigInt(10 * i + figure), true);
      }
    }
    if (keys.length > 0) writer.cut();
    const bytes = new Uint8Array(8 + writer.out.length);
    new DataView(bytes.buffer).setBigUint64(0, BigInt(writer.nextIndex - 1), true);
    bytes.set(writer.out.bytes.subarray(0, writer.out.length), 8);
    return bytes;
  };

  it("an answer to STATS is read over many fragments", () => {
    const keys = Array.from({ length: 200 }, (_, i) => `key:${"x".repeat(i)}`);
    const usages = decodeUsages(rowsOf(keys));
    expect(usages.map(({ key }) => new TextDecoder().decode(key))).toEqual(keys);
    expect(usages[7]!.usage).toEqual({
      readsPerMinute: 70,
      writesPerMinute: 71,
      reads: 72,
      writes: 73,
    });
    expect(decodeUsages(rowsOf([]))).toEqual([]);
  });

  it("an answer to STATS that is cut off or too long is refused", () => {
    const bytes = rowsOf(["a", "bc"]);
    for (let length = 0; length < bytes.length; length++) {
      expect(() => decodeUsages(bytes.subarray(0, length))).toThrow("reply_invalid");
    }
    const longer = new Uint8Array(bytes.length + 1);
    longer.set(bytes);
    expect(() => decodeUsages(longer)).toThrow("reply_invalid");
  });
});

describe("rates", () => {
  const figures = (requests: number, requestsPerMinute = 0) =>
    ({ requests, requestsPerMinute }) as InfoFigures;
  const key = encoder.encode("a");
  const usage = (reads: number, writes: number) => ({
    key,
    usage: { reads, writes, readsPerMinute: 60, writesPerMinute: 120 },
  });

  it("rates are those between two looks", () => {
    const rates = new Rates();
    expect(rates.add(0, figures(100, 600), [usage(10, 5)])).toMatchObject({
      requestsPerSecond: 10,
      records: [{ readsPerSecond: 1, writesPerSecond: 2 }],
    });
    expect(rates.add(2000, figures(140), [usage(30, 5)])).toMatchObject({
      requestsPerSecond: 20,
      records: [{ readsPerSecond: 10, writesPerSecond: 0 }],
    });
  });

  it("rates count records from 0 that have started again, and no requests where their sum went down", () => {
    const rates = new Rates();
    rates.add(0, figures(100), [usage(10, 5)]);
    expect(rates.add(1000, figures(7), [usage(3, 5)])).toMatchObject({
      requestsPerSecond: 0,
      records: [{ readsPerSecond: 3, writesPerSecond: 0 }],
    });
  });
});
