/** `throttr-edge serve`: its data folder has one server, however the one before has ended. */
import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, expect, it } from "vitest";
import { isRunning, killIfThere, SelfHosted, SERVE } from "../support/process/self-hosted.ts";

const KILLS = 8;

const folder = mkdtempSync(join(tmpdir(), "throttr-serve-"));
const started: SelfHosted[] = [];
/** Ids of workerd processes whose `serve` a test has killed. */
const orphans: number[] = [];
let folders = 0;
const freshFolder = (): string => join(folder, `data-${folders++}`);

afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(async () => {
  for (const server of started.splice(0)) await server.kill();
  orphans.splice(0).forEach(killIfThere);
});

/** Starts a server on a port that is free; it is ended after the test. */
function open(
  data: string,
  command: readonly string[] = SERVE,
  environment: Readonly<Record<string, string>> = {},
): SelfHosted {
  const flags = ["--http", "127.0.0.1:0", "--access", "open", "--data", data];
  const server = SelfHosted.start(flags, environment, command);
  started.push(server);
  return server;
}

const namesIn = (path: string): string[] => (existsSync(path) ? readdirSync(path) : []);

const counterAt = async (url: string): Promise<unknown> =>
  ((await (await fetch(`${url}/v1/counters/views`)).json()) as { quota?: unknown }).quota;
const increment = async (url: string): Promise<number> => {
  const init = { method: "POST", body: '{"ttlMs":3600000}' };
  return (await fetch(`${url}/v1/counters/views/increment`, init)).status;
};

it("a second server on a data folder in use is refused, and told the first one's process", async () => {
  const data = freshFolder();
  const first = open(data);
  await first.ready();
  const second = open(data);
  expect(await second.exited).toBe(2);
  expect(second.errors).toContain("data_in_use");
  expect(second.errors).toContain(`process ${first.process.pid}`);
  expect(await increment(first.url)).toBe(200);
});

it("one of several servers that start on a folder at the same moment gets it", async () => {
  const data = freshFolder();
  const servers = [1, 2, 3].map(() => open(data));
  const outcomes = await Promise.all(
    servers.map((server) =>
      server.ready().then(
        () => "ready",
        () => "refused",
      ),
    ),
  );
  expect(outcomes.toSorted()).toEqual(["ready", "refused", "refused"]);
  for (const [i, server] of servers.entries()) {
    if (outcomes[i] === "ready") continue;
    expect(await server.exited).toBe(2);
    expect(server.errors).toContain("data_in_use");
  }
});

it("a start ends the workerd that a killed server left behind, and has its data", async () => {
  const data = freshFolder();
  const first = open(data);
  await first.ready();
  expect(await increment(first.url)).toBe(200);
  const { workerdPid } = first;
  await killServeAlone(first, workerdPid);
  expect(await increment(first.url)).toBe(200);
  const second = open(data);
  await second.ready();
  expect(isRunning(workerdPid)).toBe(false);
  expect(second.events[0]).toEqual({
    event: "warning",
    detail: expect.stringContaining(`workerd, process ${workerdPid}:`) as unknown,
  });
  expect(await counterAt(second.url)).toBe("2");
});

it("a start that waits for the workerd of a killed server stops at once, and leaves that workerd draining", async () => {
  const data = freshFolder();
  const first = open(data);
  await first.ready();
  // workerd does not end while a WebSocket is open.
  const socket = new WebSocket(`${first.url.replace("http", "ws")}/throttr/7.3/uint16`);
  await once(socket, "open");
  const { workerdPid } = first;
  await killServeAlone(first, workerdPid);
  const second = open(data, [...SERVE, "--drain-timeout", "1h"]);
  // The system still takes connections then, and workerd does not answer them.
  const isDraining = (): Promise<boolean> =>
    fetch(first.url, { signal: AbortSignal.timeout(2000) }).then(
      () => false,
      () => true,
    );
  await expect.poll(isDraining).toBe(true);
  expect(await second.stop()).toBe(0);
  expect(second.events.at(-1)).toEqual({ event: "ended", exitCode: 0 });
  expect(isRunning(workerdPid)).toBe(true);
  expect(socket.readyState).toBe(WebSocket.OPEN);
  const third = open(data, [...SERVE, "--drain-timeout", "0"]);
  await third.ready();
  expect(isRunning(workerdPid)).toBe(false);
});

it("a server killed as soon as its workerd appears never leaves one that writes beside the next server", async () => {
  const [data, temporary] = [freshFolder(), freshFolder()];
  mkdirSync(temporary);
  for (let round = 0; round < KILLS; round++) {
    const first = open(data, SERVE, { TMPDIR: temporary });
    const workerdPid = await childOf(first.process.pid!);
    await sleep(round * 5);
    await killServeAlone(first, workerdPid);
    const second = open(data);
    await second.ready();
    expect(isRunning(workerdPid)).toBe(false);
    expect(await increment(second.url)).toBe(200);
    await second.kill();
  }
  const last = open(data);
  await last.ready();
  expect(await counterAt(last.url)).toBe(String(KILLS));
  expect(readdirSync(temporary)).toEqual([]);
});

it("a folder whose first start was killed half-way is served by the next start", async () => {
  for (const name of ["throttr-edge.json.new", "reserve.new"]) {
    const data = freshFolder();
    const first = open(data);
    while (!namesIn(data).some((there) => name.startsWith(there) || there === name)) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    first.process.kill("SIGKILL");
    await first.exited;
    const next = open(data);
    await next.ready();
    expect(await increment(next.url)).toBe(200);
    await next.stop();
  }
});

it("a copy of a killed server's folder can be served", async () => {
  const data = freshFolder();
  const first = open(data);
  await first.ready();
  expect(await increment(first.url)).toBe(200);
  await first.kill();
  const copy = freshFolder();
  execFileSync("cp", ["-a", data, copy]);
  const [one, other] = [open(data), open(copy)];
  await Promise.all([one.ready(), other.ready()]);
  expect(await counterAt(other.url)).toBe("1");
});

/** Only systems with mount namespaces for every user can have a full disk for a test. */
const canMount =
  spawnSync("unshare", ["-rm", "mount", "-t", "tmpfs", "tmpfs", tmpdir()]).status === 0;

it.skipIf(!canMount)("a server starts on a full disk, and serves its data", async () => {
  const data = await filledFolder();
  const fill = `dd if=/dev/zero of=${data}/objects/filler bs=1k 2> /dev/null`;
  const server = open(data, onFileSystem(data, fill));
  await server.ready();
  expect(await counterAt(server.url)).toBe("1");
});

it.skipIf(!canMount)("a folder that cannot be written to is refused", async () => {
  const data = await filledFolder();
  const server = open(data, onFileSystem(data, `mount -o remount,ro ${data}`));
  expect(await server.exited).toBe(2);
  expect(server.errors).toContain("data_unusable");
});

it("a folder where the system lets none be created is refused, and does not hold the start", () => {
  const [program = "", ...args] = SERVE;
  // It would not end by SIGTERM.
  const ended = spawnSync(program, [...args, "--access=open", "--data=/proc/throttr/data"], {
    encoding: "utf8",
    timeout: 30_000,
    killSignal: "SIGKILL",
  });
  expect(ended.status).toBe(2);
  expect(ended.stderr).toContain("data_unusable");
});

/** A folder with a counter in it. */
async function filledFolder(): Promise<string> {
  const data = freshFolder();
  const server = open(data);
  await server.ready();
  expect(await increment(server.url)).toBe(200);
  expect(await server.stop()).toBe(0);
  return data;
}

/** `serve` where a folder has been moved to a small file system of its own. */
function onFileSystem(data: string, prepare: string): string[] {
  const moved = `cp -a ${data} ${data}-copy && mount -t tmpfs -o size=8m tmpfs ${data} && cp -a ${data}-copy/. ${data}`;
  return ["unshare", "-rm", "sh", "-c", `${moved}; ${prepare}; exec "$@"`, "sh", ...SERVE];
}

async function killServeAlone(server: SelfHosted, workerdPid: number): Promise<void> {
  orphans.push(workerdPid);
  server.process.kill("SIGKILL");
  await expect.poll(() => server.process.signalCode).toBe("SIGKILL");
}

/** The workerd that a `serve` has just started: asked for without a pause. */
async function childOf(pid: number): Promise<number> {
  for (;;) {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
    for (const child of children.split(" ").filter((text) => text !== "")) {
      if (commandOf(Number(child)).includes("--control-fd")) return Number(child);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
