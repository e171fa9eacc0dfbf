/**
 * The lab: everything that a run starts and writes, so that all of it can be ended and removed.
 *
 * Servers run from a copy of the sources: an edit during the run must not restart one.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { configWithPorts, ROOT, startServer, waitUntilReady, type Server } from "../server.ts";
import { REDIS_ERROR, REDIS_FLUSH, type Protocol } from "./frames.ts";
import type { Load, Measurement } from "./load.ts";
import { Runtime } from "./runtime.ts";
import { spawnYrmcdsd, yrmcdsdVersion } from "./yrmcdsd.ts";

/** Below the ports that the system gives to outgoing connections. */
const PORT_MIN = 18_900;
/** The port of the project's configuration that the spare TCP port stands in for. */
const TCP_PORT = 9000;
const WORKERS = "scripts/bench/workers";
/** Likewise for counters, with entries of Dump as today's servers have them. */
const YRMCDS_PORT = 11_216;
/** Of the project's configuration: what service bindings name. */
const SERVER_NAME = "throttr-edge";
const STRICT = { DURABILITY: "strict" };
/** Load generators: each takes what it is to do, and prints what it has measured, as JSON. */
const GENERATORS = fileURLToPath(new URL(".", import.meta.url));
/** What a load may take beyond its warm-up and its duration before it is given up. */
const LOAD_GRACE_MS = 60_000;
const REDIS_READY_MS = 10_000;
const YRMCDSD_READY_MS = 10_000;

/** A server that load can be put on. */
export interface Target {
  readonly protocol: Protocol;
  readonly port: number;
}

/** One whose memory can be told. */
export interface MemoryTarget extends Target {
  /** What it runs in; null where that is not known. */
  runtime(): Runtime | null;
}

/** What is reached over HTTP. */
export interface HttpTarget {
  readonly httpPort: number;
  /** What the server runs in since it was started last; null where that is not known. */
  runtime(): Runtime | null;
  kill(): Promise<void>;
}

/** A server that can be killed and started again on its files. */
export interface RestartableTarget extends HttpTarget {
  start(): Promise<void>;
}

/** A server of this project. */
export interface ThrottrTarget extends Target, RestartableTarget {}

/** What `wrangler dev` is started with. */
interface WranglerOptions {
  readonly config: string;
  /** Configurations of Workers that are bound to. */
  readonly beside?: readonly string[];
  readonly tcpPorts?: readonly number[];
  readonly variables?: Readonly<Record<string, string>>;
}

export class Lab {
  readonly folder = mkdtempSync(join(tmpdir(), "throttr-bench-"));
  readonly #servers = new Set<Server>();
  readonly #children = new Set<ChildProcess>();
  #nextPort = PORT_MIN;

  constructor() {
    for (const part of ["src", WORKERS]) {
      cpSync(join(ROOT, part), join(this.folder, part), { recursive: true });
    }
    symlinkSync(join(ROOT, "node_modules"), join(this.folder, "node_modules"));
  }

  /**
   * Starts a server with strict durability on files of its own.
   *
   * @param sources folder of other sources than these
   */
  async startThrottr(
    name: string,
    variables: Readonly<Record<string, string>>,
    sources: string = this.folder,
  ): Promise<ThrottrTarget> {
    const started = await this.#startServer(name, TCP_PORT, variables, sources);
    return { protocol: "throttr", ...started };
  }

  /** As `startThrottr`, but the port speaks the yrmcds protocol. */
  async startSemaphores(
    name: string,
    variables: Readonly<Record<string, string>>,
  ): Promise<ThrottrTarget> {
    const enabled = { YRMCDS_ENABLE: "on", ...variables };
    return { protocol: "yrmcds", ...(await this.#startServer(name, YRMCDS_PORT, enabled)) };
  }

  /** Starts a Worker that is bound to a server with strict durability, both on files of their own. */
  async startBound(
    name: string,
    variables: Readonly<Record<string, string>>,
  ): Promise<RestartableTarget> {
    const bindings = ["Throttr", "Bare", "Meter"];
    const server = withVariables(configWithPorts({}, this.#main("metered")), {
      ...STRICT,
      ...variables,
    });
    return await this.#start(await this.#sparePort(), {
      config: this.#writeConfig(name, callerConfig("checks", this.#main("checks"), bindings)),
      beside: [this.#writeConfig(`${name}-server`, server)],
    });
  }

  /** Starts a Worker with the server inside it, bound to a server beside it, with counters and objects of its own. */
  async startLocal(): Promise<RestartableTarget> {
    const caller = callerConfig("local", this.#main("local"), ["Throttr", "Meter"]);
    const classes = ["Shard", "Counter", "PutCounter", "Empty"].map(
      (name) => `\n[exports.${name}]\ntype = "durable-object"\nstorage = "sqlite"\n`,
    );
    const bindings = [
      ["COUNTER", "Counter"],
      ["PUT", "PutCounter"],
      ["EMPTY", "Empty"],
    ].map(
      ([name, of]) => `\n[[durable_objects.bindings]]\nname = "${name}"\nclass_name = "${of}"\n`,
    );
    const server = configWithPorts({}, this.#main("metered"));
    return await this.#start(await this.#sparePort(), {
      config: this.#writeConfig("local", [caller, ...bindings, ...classes].join("")),
      beside: [
        this.#writeConfig("local-server", withVariables(server, { ...STRICT, SHARDS: "1" })),
      ],
      variables: { THROTTR_SHARDS: "1" },
    });
  }

  /** Starts the echo that is the platform's limit for requests. */
  async startEcho(): Promise<MemoryTarget> {
    const [httpPort, port] = [await this.#sparePort(), await this.#sparePort()];
    const text = bareConfig("echo", "Echo", this.#main("echo"), port);
    const config = this.#writeConfig(`echo-${port}`, text);
    const started = await this.#start(httpPort, { config, tcpPorts: [port] });
    return { protocol: "echo", port, runtime: () => started.runtime() };
  }

  /** Starts the broadcast that is the platform's limit for fan-out. */
  async startBroadcast(): Promise<HttpTarget> {
    const main = this.#main("broadcast");
    const config = this.#writeConfig("broadcast", bareConfig("broadcast", "Broadcast", main, null));
    return await this.#start(await this.#sparePort(), { config });
  }

  /** Starts counters, one for each key, that are the yardstick for rate limits. */
  async startCounter(): Promise<RestartableTarget> {
    const text = bareConfig("counter", "Counter", this.#main("counter"), null);
    const config = this.#writeConfig("counter", text);
    return await this.#start(await this.#sparePort(), { config });
  }

  /**
   * Starts Redis with an append-only file; null when it is not installed.
   *
   * @param fsync when the file is synced: every second, or before each reply
   */
  async startRedis(fsync: "everysec" | "always"): Promise<Target | null> {
    const port = await this.#sparePort();
    const folder = join(this.folder, `redis-${fsync}`);
    mkdirSync(folder);
    const args = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""];
    args.push("--appendonly", "yes", "--appendfsync", fsync);
    const child = spawn("redis-server", args, { stdio: ["ignore", "ignore", "inherit"] });
    this.#hold(child);
    const isThere = await new Promise<boolean>((resolve) => {
      child.once("spawn", () => resolve(true));
      child.once("error", () => resolve(false));
    });
    if (!isThere) return null;
    await waitForPort(port, REDIS_READY_MS);
    return { protocol: "redis", port };
  }

  /** Starts the original yrmcds server, which keeps all in memory; null when it is not installed. */
  async startYrmcdsd(): Promise<Target | null> {
    if (yrmcdsdVersion() === null) return null;
    const [port, memcache, replication] = [
      await this.#sparePort(),
      await this.#sparePort(),
      await this.#sparePort(),
    ];
    const ports = { counter: port, others: [memcache, replication] as const };
    this.#hold(spawnYrmcdsd(join(this.folder, "yrmcdsd"), ports));
    await waitForPort(port, YRMCDSD_READY_MS);
    return { protocol: "yrmcds", port };
  }

  /** Makes Redis forget everything, so that what one measurement left does not weigh on the next. */
  async flushRedis(redis: Target): Promise<void> {
    await this.tellRedis(redis, REDIS_FLUSH);
  }

  /**
   * Sends Redis a command, and waits for its answer.
   *
   * @throws Error when that is an error
   */
  async tellRedis({ port }: Target, command: Buffer): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => socket.write(command));
      socket.once("data", (answer: Buffer) => {
        socket.destroy();
        if (answer[0] === REDIS_ERROR) reject(new Error(answer.toString("latin1")));
        else resolve();
      });
      socket.once("error", reject);
    });
  }

  /** Measures a load, in a process of its own. */
  async measure(target: Target, load: Omit<Load, "protocol" | "port">): Promise<Measurement> {
    const whole: Load = { ...load, protocol: target.protocol, port: target.port };
    return await this.generate<Measurement>("load.ts", whole, load.warmUpMs + load.durationMs);
  }

  /**
   * Runs a load generator, in a process of its own, and returns what it has measured.
   *
   * @param load what it is told
   * @param durationMs how long it is meant to take
   */
  async generate<T>(generator: string, load: object, durationMs: number): Promise<T> {
    const child = spawn(process.execPath, [join(GENERATORS, generator), JSON.stringify(load)], {
      stdio: ["ignore", "pipe", "inherit"],
      timeout: durationMs + LOAD_GRACE_MS,
      killSignal: "SIGKILL",
    });
    this.#hold(child);
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
    if (code !== 0) throw new Error(`${generator} failed: ${JSON.stringify(load)}`);
    return JSON.parse(output) as T;
  }

  /** Ends everything that was started and removes everything that was written. */
  async close(): Promise<void> {
    const children = [...this.#children].map((child) => once(child, "exit"));
    for (const child of this.#children) child.kill("SIGKILL");
    await Promise.all([...this.#servers].map((server) => server.kill()));
    await Promise.all(children);
    this.closeNow();
  }

  /** As `close`, for a process that can't wait any more. */
  closeNow(): void {
    for (const server of this.#servers) server.killNow();
    for (const child of this.#children) child.kill("SIGKILL");
    this.#servers.clear();
    this.#children.clear();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }

  /** Starts a server of this project with a spare port in place of one of its configuration. */
  async #startServer(
    name: string,
    configuredPort: number,
    variables: Readonly<Record<string, string>>,
    sources: string = this.folder,
  ): Promise<RestartableTarget & { readonly port: number }> {
    const [httpPort, port] = [await this.#sparePort(), await this.#sparePort()];
    const config = this.#writeConfig(
      name,
      configWithPorts({ [configuredPort]: port }, this.#main("figures", sources)),
    );
    const target = await this.#start(httpPort, {
      config,
      tcpPorts: [port],
      variables: { ...STRICT, ...variables },
    });
    return { port, ...target };
  }

  /** Starts `wrangler dev`, on files beside its configuration. */
  async #start(httpPort: number, options: WranglerOptions): Promise<RestartableTarget> {
    let server: Server;
    const target: RestartableTarget = {
      httpPort,
      runtime: () => Runtime.find(server.process.pid!, httpPort),
      start: async () => {
        server = await this.#startWrangler(httpPort, options);
      },
      kill: async () => {
        await server.kill();
        this.#servers.delete(server);
      },
    };
    await target.start();
    return target;
  }

  async #startWrangler(port: number, options: WranglerOptions): Promise<Server> {
    const { config, beside = [], tcpPorts = [], variables = {} } = options;
    const persistTo = join(config, "..", "state");
    const server = startServer({ config, beside, port, persistTo, variables });
    this.#servers.add(server);
    const ended = new Promise<never>((_, reject) => {
      server.process.once("exit", () => reject(new Error(`the server of ${config} has ended`)));
    });
    await Promise.race([waitUntilReady(port, tcpPorts), ended]);
    return server;
  }

  /** The entry of a Worker for the benchmark. */
  #main(name: string, sources: string = this.folder): string {
    return join(sources, WORKERS, `${name}-worker.ts`);
  }

  #writeConfig(name: string, text: string): string {
    const folder = join(this.folder, name);
    mkdirSync(folder);
    const path = join(folder, "wrangler.toml");
    writeFileSync(path, text);
    return path;
  }

  #hold(child: ChildProcess): void {
    this.#children.add(child);
    const forget = (): boolean => this.#children.delete(child);
    child.once("exit", forget);
    child.once("error", forget);
  }

  async #sparePort(): Promise<number> {
    while (!(await isSpare(this.#nextPort))) this.#nextPort++;
    return this.#nextPort++;
  }
}

/** The project's configuration with other variables: flags of `wrangler dev` are for its first Worker. */
function withVariables(config: string, variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables).reduce((text, [name, value]) => {
    const line = new RegExp(`^${name} = .*`, "m");
    if (!line.test(text)) throw new Error(`no variable of the configuration: ${name}`);
    return text.replace(line, () => `${name} = ${JSON.stringify(value)}`);
  }, config);
}

/**
 * Of a Worker that has nothing but what it is bound to.
 *
 * @param entrypoints of the server, each bound under its name in capitals
 */
function callerConfig(name: string, main: string, entrypoints: readonly string[]): string {
  const compatibilityDate = /^compatibility_date = .*/m.exec(configWithPorts({}))![0];
  const services = entrypoints.map(
    (entrypoint) => `
[[services]]
binding = "${entrypoint.toUpperCase()}"
service = "${SERVER_NAME}"
entrypoint = "${entrypoint}"
`,
  );
  return `name = "${name}"
main = ${JSON.stringify(main)}
${compatibilityDate}
${services.join("")}`;
}

/** Of a Worker in front of one object, whose class is all that it has. */
function bareConfig(name: string, className: string, main: string, port: number | null): string {
  return `${callerConfig(name, main, [])}
[[durable_objects.bindings]]
name = "${name.toUpperCase()}"
class_name = "${className}"

[[migrations]]
tag = "v1"
new_sqlite_classes = ["${className}"]
${port === null ? "" : `\n[[connect]]\nprotocol = "tcp"\nport = ${port}\n`}`;
}

function isSpare(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

async function waitForPort(port: number, timeoutMs: number): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    const error = await new Promise<Error | null>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => {
        socket.destroy();
        resolve(null);
      });
      socket.once("error", resolve);
    });
    if (error === null) return;
    if (performance.now() > deadlineMs) throw error;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
