/** `npm start` in checkouts side by side: its flags, its end, and the name that other projects know it by. */
import { execFileSync, spawn, spawnSync, type ChildProcess } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, expect, it, vi } from "vitest";
import { askServer, isHeld } from "../../src/cli/serve/claim.ts";
import { configWithPorts, startServer, waitUntilReady } from "../../scripts/server.ts";
import { SocketClient } from "../support/process/socket-client.ts";
import { insertFrame, quotaOf } from "../support/process/socket-records.ts";

const HTTP_PORT = 21_900;
const OFFSET = 12_000;
const WIDE_PORT = 9008;
const READY = { timeout: 60_000 };
const ENDED = { timeout: 20_000, interval: 100 };

const folder = mkdtempSync(join(tmpdir(), "throttr-start-"));
const started: Start[] = [];

afterEach(async () => {
  for (const start of started.splice(0)) await start.end();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A checkout with the files of this one, and data of its own. */
function checkout(name: string): string {
  const root = join(folder, name);
  const configurations = readdirSync(".").filter((name) =>
    /^(tsconfig.*|package)\.json$/.test(name),
  );
  for (const part of ["src", "scripts", "wrangler.toml", ...configurations])
    cpSync(part, join(root, part), { recursive: true });
  symlinkSync(resolve("node_modules"), join(root, "node_modules"));
  return root;
}

class Start {
  readonly process: ChildProcess;
  readonly exited: Promise<number | null>;
  output = "";

  /** Runs `npm start` as people do; what it installs first is left out. */
  constructor(root: string, ...flags: readonly string[]) {
    this.process = spawn("npm", ["start", "--ignore-scripts", "--", ...flags], {
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, XDG_CONFIG_HOME: join(folder, "config") },
      detached: true,
    });
    for (const stream of [this.process.stdout!, this.process.stderr!])
      stream.on("data", (chunk: Buffer) => (this.output += chunk.toString()));
    this.exited = new Promise((done) => this.process.once("exit", done));
    started.push(this);
  }

  async ready(): Promise<void> {
    const hasEnded = (): boolean => this.process.exitCode !== null;
    await vi.waitUntil(() => hasEnded() || this.output.includes("is ready"), READY);
    if (hasEnded()) throw new Error(this.output);
  }

  /** Ends all that it has started. */
  async end(): Promise<void> {
    try {
      process.kill(-this.process.pid!, "SIGTERM");
    } catch {
      // It has ended.
    }
    await this.exited;
    await vi.waitUntil(async () => !(await isOpen(HTTP_PORT)), ENDED);
  }
}

it("a SIGTERM to npm ends the server, too", async () => {
  const start = new Start(checkout("one"), "--port", String(HTTP_PORT), "--no-tcp");
  await start.ready();
  expect(start.output).toContain("TCP        none");
  process.kill(start.process.pid!, "SIGTERM");
  await start.exited;
  await expect.poll(() => isOpen(HTTP_PORT), ENDED).toBe(false);
  await expect.poll(() => isGroupAlive(start.process.pid!), ENDED).toBe(false);
});

it("npm start names the ports of TCP_PORTS that it does not open", async () => {
  const root = checkout("ports");
  writeFileSync(join(root, ".dev.vars"), "TCP_PORTS=9000=7.3, 9071=7.1/uint16\n");
  const start = new Start(root, "--port", String(HTTP_PORT), "--tcp-offset", String(OFFSET));
  await start.ready();
  await expect
    .poll(() => start.output)
    .toContain("does not open these ports of TCP_PORTS: 9071=7.1/uint16.");
});

it("two checkouts run side by side, and the second one says which has the name", async () => {
  const first = new Start(
    checkout("two"),
    "--port",
    String(HTTP_PORT),
    "--tcp-offset",
    String(OFFSET),
  );
  await first.ready();
  expect(first.output).not.toContain("another server");
  const client = await SocketClient.open(WIDE_PORT + OFFSET);
  await client.exchange(insertFrame("key", 5n), 1);
  expect(await quotaOf(client, "key")).toBe(5n);
  await client.close();

  const moved = ["--port", String(HTTP_PORT + 1)];
  const taken = new Start(checkout("three"), ...moved, "--tcp-offset", String(OFFSET));
  expect(await taken.exited).toBe(1);
  expect(taken.output).toMatch(/127\.0\.0\.1:21000 is taken by process \d+ \(/);
  expect(taken.output).toContain("--no-tcp");

  const second = new Start(checkout("four"), ...moved, "--no-tcp");
  await second.ready();
  await expect
    .poll(() => second.output)
    .toMatch(/bound to throttr-edge on this machine reach another server: process \d+ \(/);
  const counter = `http://127.0.0.1:${HTTP_PORT + 1}/v1/counters/views`;
  expect((await fetch(counter)).status).toBe(404);
});

it("a second start in a checkout is refused, also at other ports", async () => {
  const root = checkout("five");
  const first = new Start(root, "--port", String(HTTP_PORT), "--no-tcp");
  await first.ready();
  const second = new Start(root, "--port", String(HTTP_PORT + 1), "--no-tcp");
  expect(await second.exited).toBe(1);
  expect(second.output).toMatch(/\.wrangler\/state is in use by process \d+/);
});

it("a start is told the process of the wrangler that a killed start left behind", async () => {
  const root = checkout("ten");
  const first = new Start(root, "--port", String(HTTP_PORT), "--no-tcp");
  await first.ready();
  process.kill((await askServer(join(root, ".wrangler")))!.pid, "SIGKILL");
  await first.exited;
  const second = new Start(root, "--port", String(HTTP_PORT), "--no-tcp");
  expect(await second.exited).toBe(1);
  const [, pid] = /state is in use by process (\d+), a wrangler whose/.exec(second.output) ?? [];
  expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).toContain("wrangler");
  process.kill(Number(pid), "SIGTERM");
  await expect.poll(() => isHeld(join(root, ".wrangler")), ENDED).toBe(false);
});

it("the name of a killed server is free at once", async () => {
  const root = checkout("six");
  const registry = join(folder, "config/.wrangler/registry");
  mkdirSync(registry, { recursive: true });
  writeFileSync(join(registry, "throttr-edge"), '{"debugPortAddress":"127.0.0.1:1"}');
  const start = new Start(root, "--port", String(HTTP_PORT), "--no-tcp");
  await start.ready();
  expect(start.output).not.toContain("another server");
  expect(readFileSync(join(registry, "throttr-edge"), "utf8")).not.toContain('127.0.0.1:1"');
});

it("wrangler dev, in the folder of a Worker, runs the checkout's server beside it", async () => {
  const root = checkout("nine");
  // The TCP ports of the configuration may be another test's.
  const config = readFileSync("wrangler.toml", "utf8").replace(/^\[\[connect\]\]\n.*\n.*\n/gm, "");
  writeFileSync(join(root, "wrangler.toml"), config);
  execFileSync(process.execPath, ["scripts/build-dashboard.ts"], { cwd: root });
  const mine = join(folder, "mine");
  mkdirSync(mine);
  const service = { binding: "SERVER", service: "throttr-edge" };
  const worker = { name: "mine", main: "index.js", compatibility_date: "2026-10-23" };
  writeFileSync(join(mine, "wrangler.json"), JSON.stringify({ ...worker, services: [service] }));
  writeFileSync(
    join(mine, "index.js"),
    "export default { fetch: (request, env) => env.SERVER.fetch(request) };",
  );
  const server = spawn(
    process.execPath,
    [
      resolve("node_modules/wrangler/bin/wrangler.js"),
      "dev",
      "--config=wrangler.json",
      "--config=../nine/wrangler.toml",
      `--port=${HTTP_PORT}`,
      "--inspector-port=0",
    ],
    {
      cwd: mine,
      stdio: "ignore",
      env: { ...process.env, XDG_CONFIG_HOME: join(folder, "config-of-both"), CI: "true" },
      detached: true,
    },
  );
  const ended = new Promise((done) => server.once("exit", done));
  try {
    await waitUntilReady(HTTP_PORT, []);
    const page = await fetch(`http://127.0.0.1:${HTTP_PORT}/dashboard`);
    expect(await page.text()).toContain("<title>");
  } finally {
    process.kill(-server.pid!, "SIGKILL");
    await ended;
  }
});

it("servers of tests and examples leave the shared registry to npm start", async () => {
  const config = join(folder, "test.toml");
  writeFileSync(config, configWithPorts({}));
  const persistTo = join(folder, "state");
  const environment = { XDG_CONFIG_HOME: join(folder, "config-of-tests") };
  const server = startServer({ config, port: HTTP_PORT, persistTo, environment });
  try {
    await waitUntilReady(HTTP_PORT, []);
    await expect.poll(() => existsSync(join(persistTo, "registry/throttr-edge"))).toBe(true);
    expect(existsSync(join(folder, "config-of-tests/.wrangler/registry"))).toBe(false);
  } finally {
    await server.kill();
  }
});

it("an unknown flag is refused with the list of flags", async () => {
  const root = checkout("seven");
  for (const flags of [["--tcp"], ["--tcp-offset", "60000"], ["--port", "0"]]) {
    const start = new Start(root, ...flags);
    expect(await start.exited).toBe(2);
    expect(start.output).toContain("--no-tcp");
  }
});

it("--help prints the list of flags, and starts nothing", async () => {
  const start = new Start(checkout("eight"), "--help");
  expect(await start.exited).toBe(0);
  expect(start.output).toContain("--no-tcp");
});

it("an installation does not print warnings about Node versions", () => {
  const root = join(folder, "eight");
  mkdirSync(join(root, "tool"), { recursive: true });
  const tool = { name: "tool", version: "1.0.0", engines: { node: ">=99" } };
  writeFileSync(join(root, "tool/package.json"), JSON.stringify(tool));
  const project = { name: "project", dependencies: { tool: "file:tool" } };
  writeFileSync(join(root, "package.json"), JSON.stringify(project));
  const entries = Object.entries(process.env).filter(([name]) => !name.startsWith("npm_"));
  const options = { cwd: root, encoding: "utf8", env: Object.fromEntries(entries) } as const;
  const install = (): string => {
    rmSync(join(root, "node_modules"), { recursive: true, force: true });
    return spawnSync("npm", ["install", "--offline", "--install-links"], options).stderr;
  };
  expect(install()).toContain("EBADENGINE");
  cpSync(".npmrc", join(root, ".npmrc"));
  expect(install()).toBe("");
});

async function isOpen(port: number): Promise<boolean> {
  return await new Promise((done) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      done(true);
    });
    socket.once("error", () => done(false));
  });
}

function isGroupAlive(pid: number): boolean {
  try {
    return process.kill(-pid, 0);
  } catch {
    return false;
  }
}

/** Runs a script that starts a command in the place of wrangler, at a port where nobody listens. */
function runInPlace(
  command: string,
  readyTimeoutMs = 500,
): { status: number | null; pid: number; err: string } {
  const script = `
    import { spawn } from "node:child_process";
    import { endWithSignals, getReady } from ${JSON.stringify(resolve("scripts/server.ts"))};
    const child = spawn("sh", ["-c", ${JSON.stringify(command)}]);
    console.log(child.pid);
    endWithSignals({ process: child });
    await getReady({ process: child }, 1, [], ${readyTimeoutMs});
  `;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
    timeout: 20_000,
  });
  return { status: run.status, pid: Number(run.stdout), err: run.stderr };
}

it("a server that does not get ready is ended, and npm start with it", () => {
  const { status, pid, err } = runInPlace("exec sleep 60");
  expect(err).toContain("The server did not get ready");
  expect(status).toBe(1);
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});

it("npm start ends its server when SIGHUP comes to it alone", () => {
  const { status, pid } = runInPlace("sleep 0.3; kill -HUP $PPID; exec sleep 60", 15_000);
  try {
    expect(status).toBe(143);
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  } finally {
    spawnSync("kill", ["-9", String(pid)]);
  }
});

it("npm start ends with the exit code of a server that a signal has ended", () => {
  expect(runInPlace("kill -9 $$").status).toBe(137);
});
