/** `throttr-edge serve`: how many connections it takes, whose a port is, when it gives up. */
import { execFileSync, spawnSync } from "node:child_process";
import { createServer, type AddressInfo } from "node:net";
import { PassThrough, Writable } from "node:stream";
import { describe, expect, it, vi } from "vitest";
import type { Address } from "../../src/cli/serve/address.ts";
import { Events } from "../../src/cli/serve/events.ts";
import { LogLines } from "../../src/cli/serve/log-lines.ts";
import { connectionsWithin, openFilesMax } from "../../src/cli/serve/open-files.ts";
import { planOf } from "../../src/cli/serve/plan.ts";
import { holderByLsof, portHolder } from "../../src/cli/serve/port-holder.ts";
import { NotReady } from "../../src/cli/serve/server.ts";
import { untilEnded } from "../../src/cli/serve/until-ended.ts";

const flags = {
  http: ["127.0.0.1:0"],
  tcp: [],
  tcpHost: "127.0.0.1",
  openToNetwork: false,
  access: "open",
  var: [],
  data: "./throttr-data",
  behindProxy: false,
};
const plan = planOf(flags, {}, null);

describe("the limit of open files", () => {
  it("the limit of open files is that of this process's children", () => {
    const text = execFileSync("sh", ["-c", "ulimit -n"], { encoding: "utf8" }).trim();
    expect(String(openFilesMax() ?? "unlimited")).toBe(text);
  });

  it("half of the open files that objects leave are for connections, which take two each", () => {
    const settings = { SHARDS: 4, HUBS_MAX: 16 };
    expect(connectionsWithin(65_536, settings, 1)).toBe(16_328);
    expect(connectionsWithin(1024, settings, 1)).toBe(200);
    expect(connectionsWithin(1024, settings, 3)).toBe(120);
    // The limit of containers whose daemon sets none: the setting takes no more than a million.
    expect(connectionsWithin(1_073_741_816, settings, 1)).toBe(1_000_000);
    expect(() => connectionsWithin(225, settings, 1)).toThrow("needs more than 223");
  });

  it("the limit of open files bounds connections unless a flag does", () => {
    expect(planOf(flags, {}, 1024).variables).toMatchObject({ CONNECTIONS_MAX: "202" });
    const said = { ...flags, var: ["CONNECTIONS_MAX=7"] };
    expect(planOf(said, {}, 1024).variables).toMatchObject({ CONNECTIONS_MAX: "7" });
    expect(plan.variables).not.toHaveProperty("CONNECTIONS_MAX");
  });
});

describe("the holder of a port", () => {
  const holders: [string, typeof portHolder][] = [["a table of the system", portHolder]];
  if (spawnSync("lsof", ["-v"]).status === 0) holders.push(["lsof", holderByLsof]);

  it.each(holders)(
    "the process that holds a port is named, as %s shows it",
    async (_name, holderOf) => {
      const server = createServer().listen(0, "127.0.0.1");
      await new Promise((resolve) => server.once("listening", resolve));
      const { port } = server.address() as AddressInfo;
      expect(holderOf(port)).toMatch(new RegExp(`^process ${process.pid} \\(.+\\)$`));
      await new Promise((resolve) => server.close(resolve));
      expect(holderOf(port)).toBeNull();
    },
  );
});

describe("the log of a server", () => {
  it("the log of a server is still read when its writer has gone", async () => {
    const from = new PassThrough();
    let written = 0;
    const gone = new Writable({
      highWaterMark: 1,
      autoDestroy: false,
      write: (_chunk, _encoding, done) => done(++written > 0 ? new Error("EPIPE") : null),
    });
    new LogLines("none.map").copy(from, gone);
    for (let i = 0; i < 1000; i++) {
      if (!from.write(`${"x".repeat(1000)}\n`))
        await new Promise((done) => from.once("drain", done));
    }
    expect(written).toBeGreaterThan(0);
  });

  it("a slow reader of the log is waited for once, however many lines were read", async () => {
    const from = new PassThrough();
    let written = "";
    const slow = new Writable({
      highWaterMark: 100,
      write(chunk: Buffer, _encoding, done) {
        written += chunk.toString();
        setImmediate(done);
      },
    });
    new LogLines("none.map").copy(from, slow);
    const text = "a line\n".repeat(1000);
    from.end(text);
    await vi.waitFor(() => expect(slow.writableNeedDrain).toBe(true));
    expect(slow.listenerCount("drain")).toBe(1);
    await vi.waitFor(() => expect(written).toBe(text));
  });

  it("a request without a token adds nothing to the log: what workerd writes of CONNECT is left out", async () => {
    const from = new PassThrough();
    const to = new PassThrough();
    new LogLines("none.map").copy(from, to);
    const kept =
      '{"event":"origin_refused","origin":"Handler does not export a connect() function."}\n';
    from.write(
      "Received a connect event but we lack a handler. Did you remember to export connect?\n",
    );
    from.write(
      "workerd/server/server/listen/mod.rs:372: error: Uncaught exception: workerd/api/global-scope.c++:286: failed: remote.jsg.Error: Handler does not export a connect() function.\n",
    );
    from.end(kept);
    await vi.waitFor(() => expect(to.readableLength).toBeGreaterThan(0));
    expect(String(to.read())).toBe(kept);
  });

  it("lines of the log are kept as they are without a source map", () => {
    expect(new LogLines("none.map").mapped("at a (worker.js:38:67430)")).toContain("worker.js:38");
  });
});

describe("a workerd that ends again and again", () => {
  /** Runs lives that each get ready, or not, and end with their number as exit code. */
  async function run(areReady: readonly boolean[]): Promise<[number, string[]]> {
    const told: string[] = [];
    const started: (readonly Address[])[] = [];
    const start = (http: readonly Address[]) => {
      const exitCode = started.push(http);
      const isReady = areReady[exitCode - 1]!;
      return {
        ended: Promise.resolve(exitCode),
        pid: 1,
        isStopping: false,
        ready: () =>
          isReady
            ? Promise.resolve({ http: [{ host: "127.0.0.1", port: 4711 }], ailment: null })
            : Promise.reject(new NotReady("no")),
        stop: () => {},
        kill: () => {},
      };
    };
    const output = { isJson: true, write: async (line: string) => void told.push(line) };
    const exitCode = await untilEnded(start, {
      plan,
      events: new Events(output as unknown as ConstructorParameters<typeof Events>[0]),
      signal: new AbortController().signal,
      drainTimeoutMs: 0,
      restartPausesMs: [1, 2],
    });
    expect(started[0]).toEqual(plan.http);
    for (const http of started.slice(1)) expect(http[0]!.port).toBe(4711);
    return [exitCode, told.map((line) => (JSON.parse(line) as { event: string }).event)];
  }

  it("a server gives up after its last pause, with the exit code of the last workerd", async () => {
    const [exitCode, events] = await run([true, false, true]);
    expect(exitCode).toBe(3);
    const restarted = ["ready", "restarting", "not_ready", "restarting", "ready", "ended"];
    expect(events).toEqual(restarted);
  });

  it("a server ends at once when its first start does not get ready", async () => {
    expect(await run([false])).toEqual([1, ["not_ready", "ended"]]);
  });
});

it("a server that is stopped during its first health check is not announced as ready", async () => {
  const events: string[] = [];
  const stopping = new AbortController();
  const ended = Promise.withResolvers<number>();
  const server = {
    ended: ended.promise,
    pid: 1,
    isStopping: false,
    ready: () => {
      // The ports are open, and closed before the check has asked.
      stopping.abort();
      return Promise.resolve({ http: plan.http, ailment: "connect ECONNREFUSED" });
    },
    stop(): void {
      this.isStopping = true;
      ended.resolve(0);
    },
    kill: () => {},
  };
  const exitCode = await untilEnded(() => server, {
    plan,
    events: { tell: (event: string) => void events.push(event) } as unknown as Events,
    signal: stopping.signal,
    drainTimeoutMs: 0,
    restartPausesMs: [],
  });
  expect(events).toEqual(["stopping", "ended"]);
  expect(exitCode).toBe(0);
});
