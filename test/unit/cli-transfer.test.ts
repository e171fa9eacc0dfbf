/** `export` and `import` as commands, where they come to nothing: what stays, and what is told. */
import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Clients } from "../../src/cli/connection.ts";
import { ExitCode } from "../../src/cli/exit-code.ts";
import { carryOut } from "../../src/cli/program.ts";
import { ExportWriter } from "../../src/cli/transfer/export-writer.ts";
import { chunksOf, survey } from "../../src/cli/transfer/import.ts";
import { ProgressFile } from "../../src/cli/transfer/progress-file.ts";
import { noRestoreCounts } from "../../src/cli/transfer/restorer.ts";
import { fakeHost } from "../support/cli/host.ts";

const OLD = "what was there\n";
const LATER_NS = BigInt(Date.now() + 3_600_000) * 1_000_000n;

let folder: string;
let name: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "throttr-cli-"));
  name = join(folder, "export.jsonl");
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function run(args: readonly string[]): Promise<{ exitCode: number; err: string }> {
  const host = fakeHost({ environment: { XDG_CONFIG_HOME: folder } });
  const clients = new Clients();
  const signal = new AbortController().signal;
  const exitCode = await carryOut(args, {
    host,
    clients,
    flags: {},
    signal,
    renewSignal: () => signal,
    isPrompt: false,
    exitCode: ExitCode.done,
  });
  await clients.close();
  return { exitCode, err: host.printed.err };
}

/** Runs something beside a server that answers each chunk with some bytes; null says nothing. */
async function beside<Result>(
  answer: Uint8Array | null,
  act: (port: number) => Promise<Result>,
): Promise<Result> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("data", () => void (answer === null ? socket.end() : socket.write(answer)));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  try {
    return await act((server.address() as AddressInfo).port);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

/** An address where nothing listens. */
const nowhere = async (): Promise<string> =>
  await beside(null, async (port) => `http://127.0.0.1:${port}`);

/** An export of one record. */
async function writeExport(): Promise<void> {
  const parts: Uint8Array[] = [];
  const writer = new ExportWriter(async (bytes) => void parts.push(bytes.slice()));
  await writer.header({
    startedAtMs: 1,
    source: "http://here",
    prefix: new Uint8Array(0),
    hasLeases: false,
  });
  await writer.entries([
    { key: "k", kind: "counter", quota: 1n, unit: "s", expiresAtNs: LATER_NS },
  ]);
  await writer.trailer(2);
  writeFileSync(name, Buffer.concat(parts));
}

describe("an export over an existing file", () => {
  beforeEach(() => writeFileSync(name, OLD));

  const left = () => [readdirSync(folder), readFileSync(name, "utf8")];

  it("an export leaves the existing file when there is no server, and asks whether one runs", async () => {
    const url = await nowhere();
    const { exitCode, err } = await run(["export", "-o", name, "--force", "--url", url]);
    expect(exitCode).toBe(ExitCode.connection);
    expect(err).toContain(`connection_failed: is the server running at ${url}? connect ECONN`);
    expect(left()).toEqual([["export.jsonl"], OLD]);
  });

  it("an export leaves the existing file when the address is invalid", async () => {
    const { exitCode } = await run(["export", "-o", name, "--force", "--url", "ftp://a"]);
    expect(exitCode).toBe(ExitCode.usage);
    expect(left()).toEqual([["export.jsonl"], OLD]);
  });

  it.each([
    ["answers something else", Uint8Array.of(0, 1, 2)],
    ["closes the connection", null],
  ])(
    "an export leaves the existing file when a server that does not speak HTTP %s",
    async (_, answer) => {
      const { err } = await beside(
        answer,
        async (port) =>
          await run(["export", "-o", name, "--force", "--url", `http://127.0.0.1:${port}`]),
      );
      expect(err).toMatch(/outcome_unknown: .*http:\/\/127[^ ]+ sent no HTTP answer/);
      expect(left()).toEqual([["export.jsonl"], OLD]);
    },
  );

  it("an export leaves the existing file when a native server stays silent, and asks for the value size", async () => {
    const { exitCode, err } = await beside(Uint8Array.of(1), async (port) => {
      const native = ["--from-native", `127.0.0.1:${port}`, "--size", "uint64"];
      return await run(["export", "-o", name, "--force", "--timeout", "200ms", ...native]);
    });
    expect(exitCode).toBe(ExitCode.connection);
    expect(err).toContain("is uint64 the value size of that server (--size)?");
    expect(left()).toEqual([["export.jsonl"], OLD]);
  });
});

describe("a failed import", () => {
  it("a failed import suggests --resume only when an earlier import has begun", async () => {
    await writeExport();
    const begun = join(folder, "begun.jsonl");
    copyFileSync(name, begun);
    const url = await nowhere();
    const { sha256 } = await survey(await chunksOf(begun), false);
    const identity = { sha256, target: url, policy: "keep" } as const;
    const progress = { ...identity, ...noRestoreCounts(), line: 0, endsAt: 0 };
    await new ProgressFile(begun).write(progress, true);
    // Each tries for some seconds.
    const [anew, resumed] = await Promise.all([
      run(["import", name, "--url", url]),
      run(["import", begun, "--resume", "--url", url]),
    ]);
    expect(anew.exitCode).toBe(ExitCode.connection);
    expect(anew.err).not.toContain("--resume");
    expect(resumed.err).toContain("run the same command with --resume to continue\n");
  });
});
