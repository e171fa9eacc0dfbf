/** Data that released versions have written, opened by this one. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  askAs,
  bufferOf,
  UPGRADE_BUFFERS,
  UPGRADE_COUNTERS,
  UPGRADE_LIMIT,
  UPGRADE_NAMESPACE,
  type Ask,
} from "../support/runtime/upgrade-data.ts";
import { SelfHosted } from "../support/process/self-hosted.ts";
import type { Overview } from "../../src/wire/overview.ts";
import type { Shards } from "../../src/wire/shards.ts";

type Counted = Pick<Overview, "requests" | "runningSinceMs">;

const archives = readdirSync("test/data").filter((name) => name.endsWith(".tar.gz"));

describe.each(archives)("data of the release in %s", (archive) => {
  const folder = mkdtempSync(join(tmpdir(), "throttr-upgrade-"));
  const data = join(folder, "data");
  const flags = ["--http", "127.0.0.1:0", "--data", data, "--drain-timeout", "500ms"];
  const start = (): SelfHosted => SelfHosted.start([...flags, "--var", "REPLAY_MESSAGES_MAX=10"]);
  let server: SelfHosted;
  let ask: Ask;

  beforeAll(async () => {
    mkdirSync(data);
    execFileSync("tar", ["-C", data, "-xzf", resolve("test/data", archive)]);
    server = start();
    await server.ready();
    ask = await askAs(server.url, UPGRADE_NAMESPACE);
  });
  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const json = async (path: string): Promise<unknown> => await (await ask("GET", path)).json();

  /** Checks every record, and the one that was removed. */
  async function expectRecords(): Promise<void> {
    for (let i = 0; i < UPGRADE_COUNTERS; i++) {
      if (i === 7) continue;
      expect(await json(`/v1/counters/counter:${i}`)).toMatchObject({ quota: String(i) });
    }
    for (let i = 0; i < UPGRADE_BUFFERS; i++) {
      expect(await json(`/v1/buffers/buffer:${i}`)).toMatchObject({ value: bufferOf(i) });
    }
    expect((await ask("GET", "/v1/counters/counter:7")).status).toBe(404);
  }

  it("data of an earlier release keeps its shards, and a new namespace begins with one", async () => {
    const labelsOf = async (got: Response): Promise<readonly string[]> =>
      ((await got.json()) as Shards).shards.map(({ shard }) => shard);
    expect(await labelsOf(await ask("GET", "/v1/shards"))).toEqual(
      archive === "0.4.0.tar.gz" ? ["0", "1", "2", "3"] : ["0"],
    );
    const askAnother = await askAs(server.url, "another");
    await askAnother("PUT", "/v1/counters/visits", { quota: 1, ttlMs: 60_000 });
    expect(await labelsOf(await askAnother("GET", "/v1/shards"))).toEqual(["0"]);
  });

  it("data of an earlier release begins to count at zero", async () => {
    const { requests, runningSinceMs } = (await json("/v1/overview")) as Counted;
    expect(requests.total).toBe(0);
    expect(Date.now() - runningSinceMs!).toBeLessThan(60_000);
  });

  it("data of an earlier release has every record, and no removed one", async () => {
    await expectRecords();
  });

  it("a limit continues from the state of an earlier release", async () => {
    const decide = async (): Promise<unknown> =>
      await (await ask("POST", "/v1/limits/api/ada", UPGRADE_LIMIT)).json();
    expect(await decide()).toMatchObject({ success: true, remaining: 1 });
    expect(await decide()).toMatchObject({ success: true, remaining: 0 });
    expect(await decide()).toMatchObject({ success: false });
  });

  it("messages are numbered above all numbers of an earlier release", async () => {
    const listener = await ask("GET", "/channels/news");
    await ask("POST", "/channels/news", "after the upgrade");
    const reader = listener.body!.pipeThrough(new TextDecoderStream()).getReader();
    let seen = "";
    while (!seen.includes("after the upgrade")) seen += (await reader.read()).value!;
    await reader.cancel();
    const ids = [...seen.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
    expect(ids.length).toBeGreaterThan(1);
    expect(Math.min(...ids)).toBeGreaterThan(3);
  });

  it("data of an earlier release is written to, and read after a restart", async () => {
    expect((await ask("PUT", "/v1/counters/new", { quota: 1, ttlMs: 60_000 })).ok).toBe(true);
    const before = (await json("/v1/overview")) as Counted;
    const restartedAtMs = Date.now();
    await server.stop();
    server = start();
    await server.ready();
    ask = await askAs(server.url, UPGRADE_NAMESPACE);
    const after = (await json("/v1/overview")) as Counted;
    expect(after.requests.byName["insert"]!.total).toBe(before.requests.byName["insert"]!.total);
    expect(after.runningSinceMs).toBeLessThan(restartedAtMs);
    expect(await json("/v1/counters/new")).toMatchObject({ quota: "1" });
    await expectRecords();
  });
});
