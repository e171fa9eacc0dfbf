/** `export` and `import` as commands, where they come to nothing: what stays, and what is told. */
import {
  copyFileSync,
  linkSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer as createHttpServer, type RequestListener } from "node:http";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ExitCode } from "../../src/cli/exit-code.ts";
import { OwnFiles } from "../../src/cli/transfer/all-namespaces.ts";
import { ExportFile } from "../../src/cli/transfer/export.ts";
import { ExportWriter } from "../../src/cli/transfer/export-writer.ts";
import { chunksOf, survey } from "../../src/cli/transfer/import.ts";
import { ProgressFile } from "../../src/cli/transfer/progress-file.ts";
import { noRestoreCounts } from "../../src/cli/transfer/restorer.ts";
import { runCli, type Ran } from "../support/cli/run.ts";

const OLD = "what was there\n";
const LATER_NS = BigInt(Date.now() + 3_600_000) * 1_000_000n;

let folder: string;
let name: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "throttr-cli-"));
  name = join(folder, "export.jsonl");
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const run = (args: readonly string[]): Promise<Ran> =>
  runCli(args, { environment: { XDG_CONFIG_HOME: folder } });

/** Runs something beside a TCP server that answers each chunk with some bytes; null closes the connection. */
async function besideTcp<Result>(
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

/** Runs something beside an HTTP server. @param handler answers its requests */
async function beside<Result>(
  handler: RequestListener,
  act: (url: string) => Promise<Result>,
): Promise<Result> {
  const server = createHttpServer(handler);
  await once(server.listen(0, "127.0.0.1"), "listening");
  try {
    return await act(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** Answers `GET /v1/access` alone. @param namespace that of the caller; null: the server lacks that route, too */
const knowing =
  (namespace: string | null): RequestListener =>
  ({ url }, response) => {
    response.statusCode = url === "/v1/access" && namespace !== null ? 200 : 404;
    response.end(JSON.stringify({ namespace }));
  };

/** An address where nothing listens. */
const nowhere = async (): Promise<string> =>
  await besideTcp(null, async (port) => `http://127.0.0.1:${port}`);

/** An export of one record, with the header of this source. */
async function writeExport(
  file = name,
  from: { readonly source?: string; readonly namespace?: string } = {},
): Promise<void> {
  const parts: Uint8Array[] = [];
  const writer = new ExportWriter(async (bytes) => void parts.push(bytes.slice()));
  await writer.header({
    startedAtMs: 1,
    source: "http://here",
    namespace: null,
    ...from,
    prefix: new Uint8Array(0),
    hasLeases: false,
  });
  await writer.entries([
    { key: "k", kind: "counter", quota: 1n, unit: "s", expiresAtNs: LATER_NS },
  ]);
  await writer.trailer(2);
  writeFileSync(file, Buffer.concat(parts));
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
      const { err } = await besideTcp(
        answer,
        async (port) =>
          await run(["export", "-o", name, "--force", "--url", `http://127.0.0.1:${port}`]),
      );
      expect(err).toMatch(/outcome_unknown: .*http:\/\/127[^ ]+ sent no HTTP answer/);
      expect(left()).toEqual([["export.jsonl"], OLD]);
    },
  );

  it("an export leaves the existing file when a native server stays silent, and asks for the value size", async () => {
    const { exitCode, err } = await besideTcp(Uint8Array.of(1), async (port) => {
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
    const { sha256 } = await survey(chunksOf(begun), false);
    const identity = { sha256, target: url, policy: "keep" } as const;
    const progress = { ...identity, ...noRestoreCounts(), line: 0, endsAt: 0 };
    await new ProgressFile(begun, () => {}).write(progress, true);
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

describe("a pipe with a name", () => {
  let pipe: string;

  beforeEach(() => {
    pipe = join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
  });

  it("an import from a pipe with a name reads it once, and can't be resumed", async () => {
    await writeExport();
    const url = await nowhere();
    const written = writeFile(pipe, readFileSync(name));
    // A second read would find no writer.
    const { exitCode, err } = await run(["import", pipe, "--url", url]);
    await written;
    expect(err).toContain("connection_failed");
    expect(exitCode).toBe(ExitCode.connection);
    const resumed = await run(["import", pipe, "--resume", "--url", url]);
    expect(resumed.err).toContain("option_invalid: --resume: needs a file");
  });

  it("an export into a pipe or a device can't be resumed", async () => {
    const url = await nowhere();
    for (const target of ["/dev/null", pipe]) {
      const { exitCode, err } = await run(["export", "-o", target, "--resume", "--url", url]);
      expect(err).toContain(`option_invalid: --resume: ${target} is not a regular file`);
      expect(exitCode).toBe(ExitCode.usage);
    }
  });
});

describe("an export that is resumed", () => {
  const resume = async (url: string, ...more: string[]): Promise<Ran> =>
    await run(["export", "-o", name, "--resume", "--url", url, ...more]);

  it("a complete file of another export is not taken for done", async () => {
    await writeExport();
    const before = readFileSync(name);
    const { exitCode, err } = await resume("http://there");
    expect(exitCode).toBe(ExitCode.usage);
    expect(err).toContain(
      "resume_mismatch: the file is an export of http://here, not of http://there",
    );
    expect(readFileSync(name)).toEqual(before);
  });

  it("a file is continued in the namespace that it is of, which the flag or the server says", async () => {
    const other = "resume_mismatch: the file is an export of the namespace shop, not of books";
    await beside(knowing("books"), async (source) => {
      await writeExport(name, { source, namespace: "shop" });
      expect((await resume(source)).err).toContain(other);
      expect((await resume(source, "--namespace", "books")).err).toContain(other);
      expect(await resume(source, "--namespace", "shop")).toMatchObject({ exitCode: 0, err: "" });
      // Files of earlier releases don't say it.
      await writeExport(name, { source });
      expect(await resume(source)).toMatchObject({ exitCode: 0, err: "" });
    });
    await beside(knowing(null), async (source) => {
      await writeExport(name, { source, namespace: "shop" });
      expect(await resume(source)).toMatchObject({ exitCode: 0, err: "" });
    });
  });

  it("--force may stand beside --resume", async () => {
    writeFileSync(name, OLD);
    const { err } = await beside(knowing(null), async (url) => await resume(url, "--force"));
    expect(err).not.toContain("cannot be used with");
    expect(readFileSync(name, "utf8")).toBe(OLD);
  });
});

describe("an import that is resumed", () => {
  /** The progress of an import of a file that is complete, or has not begun. */
  async function begin(
    file: string,
    { target, isComplete, namespace }: { target: string; isComplete: boolean; namespace?: string },
  ): Promise<void> {
    const { sha256, bytes } = await survey(chunksOf(file), false);
    const progress = { sha256, target, policy: "replace", line: 0, ...noRestoreCounts() } as const;
    const named = namespace === undefined ? {} : { namespace };
    await new ProgressFile(file, () => {}).write(
      { ...progress, ...named, endsAt: isComplete ? bytes : 0, restored: 1 },
      true,
    );
  }

  it("an import is not continued in another namespace", async () => {
    await writeExport();
    await beside(knowing("books"), async (target) => {
      await begin(name, { target, isComplete: true, namespace: "shop" });
      const command = ["import", name, "--resume", "--policy", "replace", "--url", target];
      const refusal = `${name}.progress belongs to an import into the namespace shop`;
      expect((await run(command)).err).toContain(refusal);
      expect((await run([...command, "--namespace", "books"])).err).toContain(refusal);
      const same = await run([...command, "--namespace", "shop"]);
      expect(same).toMatchObject({ exitCode: 0, out: expect.stringContaining("1 restored") });
    });
    expect(readdirSync(folder)).toEqual(["export.jsonl"]);
  });

  it("an import of a folder knows its complete files until all are done", async () => {
    const [first, second] = ["a.jsonl", "b.jsonl"].map((file) => join(folder, file));
    await writeExport(first);
    await writeExport(second);
    const target = "http://there";
    await begin(first!, { target, isComplete: true });
    await begin(second!, { target: "http://elsewhere", isComplete: true });
    const words = ["--policy", "replace", "--url", target];
    const command = ["import", "--all-namespaces", folder, "--resume", ...words];
    const stopped = await run(command);
    expect(stopped.err).toContain("resume_mismatch");
    expect(stopped.out).toContain("a: 1 restored");
    expect(readdirSync(folder)).toContain("a.jsonl.progress");
    await begin(second!, { target, isComplete: true });
    expect(await run(command)).toMatchObject({ exitCode: 0, err: "" });
    expect(readdirSync(folder)).toEqual(["a.jsonl", "b.jsonl"]);
  });

  it("an import of a folder that starts over forgets the progress of all its files", async () => {
    const second = join(folder, "b.jsonl");
    writeFileSync(join(folder, "a.jsonl"), OLD);
    await writeExport(second);
    await begin(second, { target: "http://there", isComplete: true });
    const command = ["import", "--all-namespaces", folder, "--url", "http://there"];
    expect((await run([...command, "--dry-run"])).err).toContain("file_invalid");
    expect(readdirSync(folder)).toContain("b.jsonl.progress");
    expect((await run(command)).err).toContain("file_invalid");
    expect(readdirSync(folder)).toEqual(["a.jsonl", "b.jsonl"]);
  });
});

describe("errors of the system", () => {
  it("a file that can't be read is a wrong argument", async () => {
    const { exitCode, err } = await run(["import", "/proc/self/mem", "--dry-run"]);
    expect(exitCode).toBe(ExitCode.usage);
    expect(err).toMatch(/^throttr-edge: file_unreadable: EIO/);
  });

  it("an import goes on without progress where that can't be stored, and says so once", async () => {
    const warnings: string[] = [];
    const file = new ProgressFile(join(folder, "missing", "a"), (text) => warnings.push(text));
    const place = { sha256: "", target: "", policy: "keep", line: 1, endsAt: 1 } as const;
    for (const isLast of [false, true])
      await file.write({ ...place, ...noRestoreCounts() }, isLast);
    expect(warnings).toEqual([
      expect.stringMatching(/^the import cannot be resumed, as its progress .*: ENOENT/),
    ]);
    expect(file.isLost).toBe(true);
  });

  it("an export that fills the disk says which file can't be written", async () => {
    const file = await ExportFile.create("/dev/full", true);
    await expect(file.write(Uint8Array.of(1))).rejects.toMatchObject({
      code: "file_unwritable",
      message: expect.stringMatching(/^\/dev\/full: ENOSPC/) as string,
    });
    await file.close();
  });
});

it("two namespaces never have one file, as they would where case is ignored", async () => {
  const other = join(folder, "Export.jsonl");
  const files = new OwnFiles();
  writeFileSync(name, OLD);
  await files.add("export", name);
  await files.add("Export", other);
  // A second name of the file, as such a file system has it.
  linkSync(name, other);
  const more = new OwnFiles();
  await more.add("export", name);
  await expect(more.add("Export", other)).rejects.toMatchObject({ code: "file_exists" });
});

describe("a server that lists a name that no namespace can have", () => {
  const NAMES = ["../outside", "", "a/b", "x\u001b[2J", "n".repeat(65), 7, null];

  /** Lists one namespace. */
  const listing =
    (listed: unknown): RequestListener =>
    (_, response) => {
      const namespaces = [{ name: listed, registeredAtMs: 1 }];
      response.end(JSON.stringify({ namespaces, cursor: null }));
    };

  it.each(NAMES)("an export of all namespaces writes no file for the name %j", async (listed) => {
    const into = join(folder, "into");
    const { exitCode, err } = await beside(
      listing(listed),
      async (url) => await run(["export", "--all-namespaces", into, "--url", url]),
    );
    expect(exitCode).not.toBe(ExitCode.done);
    expect(err).toContain("response_invalid");
    expect(readdirSync(folder)).toEqual(["into"]);
    expect(readdirSync(into)).toEqual([]);
  });

  it("the list of namespaces does not print such a name", async () => {
    const { out, err } = await beside(
      listing("x\u001b[2J"),
      async (url) => await run(["namespaces", "--url", url]),
    );
    expect(out + err).not.toContain("\u001b[2J");
    expect(err).toContain("response_invalid");
  });
});
