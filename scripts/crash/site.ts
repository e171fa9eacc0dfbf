/**
 * Where a crash test takes place: a temporary folder, spare ports, and the server that is killed.
 *
 * The Worker is built once, so that every start runs the same code whatever happens to the sources
 * meanwhile.
 */
import { spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configWithPorts, ROOT, startServer, waitUntilReady, type Server } from "../server.ts";
import { CrashViolation } from "./violation.ts";

/** Ports below those that the system gives to outgoing connections; a block of ten for each run. */
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
const PORT_BLOCK = 10;
const PORT_ATTEMPTS = 100;
const HTTP_OFFSET = 9;
/** Offsets of the TCP ports, as in the project's configuration. */
const TCP_OFFSETS = [0, 1, 2, 4, 8] as const;
const TCP_BASE = 9000;
const LOG_TAIL_CHARACTERS = 2000;

export class Site {
  readonly folder: string;
  readonly #portBase: number;
  #server: Server | null = null;
  #isDisposed = false;

  static async create(): Promise<Site> {
    return new Site(await findPortBlock());
  }

  private constructor(portBase: number) {
    this.#portBase = portBase;
    this.folder = mkdtempSync(join(tmpdir(), "throttr-crash-"));
    mkdirSync(this.#temporaryFolder);
  }

  /** Where the server keeps its data. */
  get stateFolder(): string {
    return join(this.folder, "state");
  }

  /** Where its data may be copied to. */
  get copyFolder(): string {
    return join(this.folder, "copy");
  }

  /** The port where values of so many bytes are spoken. */
  tcpPort(valueSize: number): number {
    return this.#portBase + valueSize;
  }

  /** Where the server speaks HTTP. */
  get url(): string {
    return `http://127.0.0.1:${this.#portBase + HTTP_OFFSET}`;
  }

  /** Builds the Worker. Nothing else runs meanwhile. */
  build(): void {
    const config = this.#writeConfig("build.toml", join(ROOT, "src/worker/index.ts"));
    const { status, stderr, stdout } = spawnSync(
      process.execPath,
      [
        join(ROOT, "node_modules/wrangler/bin/wrangler.js"),
        "deploy",
        "--dry-run",
        `--outdir=${join(this.folder, "worker")}`,
        `--config=${config}`,
      ],
      { cwd: ROOT, encoding: "utf8", env: { ...process.env, ...this.#environment } },
    );
    if (status !== 0) throw new Error(`the Worker could not be built:\n${stdout}${stderr}`);
    this.#writeConfig("wrangler.toml", join(this.folder, "worker/index.js"), "no_bundle = true\n");
  }

  /**
   * Starts the server on the files that are there; resolves when it takes connections.
   *
   * @throws CrashViolation when it does not
   */
  async start(): Promise<void> {
    if (this.#isDisposed) throw new Error("the crash test has ended");
    const log = openSync(this.#logPath, "w");
    const server = startServer({
      config: join(this.folder, "wrangler.toml"),
      port: this.#portBase + HTTP_OFFSET,
      persistTo: this.stateFolder,
      variables: {
        ACCESS: "open",
        DURABILITY: "strict",
      },
      environment: this.#environment,
      stdio: ["ignore", log, log],
    });
    this.#server = server;
    closeSync(log);
    const ended = new Promise<never>((_, reject) => {
      server.process.once("exit", () => reject(new Error("the server ended while it started")));
    });
    const tcpPorts = TCP_OFFSETS.map((offset) => this.#portBase + offset);
    try {
      await Promise.race([waitUntilReady(this.#portBase + HTTP_OFFSET, tcpPorts), ended]);
    } catch (error) {
      const text = `the server did not start: ${String(error)}; its log ends with:\n`;
      throw new CrashViolation(text + this.logTail(), { cause: error });
    }
  }

  /** Kills the server at once; resolves when it is gone. */
  async kill(): Promise<void> {
    await this.#server?.kill();
    this.#server = null;
  }

  /** The last words of the server that was started last. */
  logTail(): string {
    return readFileSync(this.#logPath, "utf8").slice(-LOG_TAIL_CHARACTERS);
  }

  /** Ends the server and removes the folder, at once: also fit for a process that is about to exit. */
  dispose(): void {
    this.#isDisposed = true;
    this.#server?.killNow();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }

  get #temporaryFolder(): string {
    return join(this.folder, "temporary");
  }

  get #logPath(): string {
    return join(this.folder, "server.log");
  }

  /** What a killed server leaves in shared places goes to the run's folder, and nothing leaves the machine. */
  get #environment(): Record<string, string> {
    return {
      TMPDIR: this.#temporaryFolder,
      WRANGLER_REGISTRY_PATH: join(this.folder, "registry"),
      WRANGLER_SEND_METRICS: "false",
      // The banner asks for updates, and the runtime for what a request's `cf` would be.
      WRANGLER_HIDE_BANNER: "true",
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      CI: "true",
    };
  }

  #writeConfig(name: string, main: string, head = ""): string {
    const ports = TCP_OFFSETS.map((offset) => [TCP_BASE + offset, this.#portBase + offset]);
    const config = configWithPorts(Object.fromEntries(ports) as Record<number, number>, main);
    const path = join(this.folder, name);
    writeFileSync(path, head + config);
    return path;
  }
}

async function findPortBlock(): Promise<number> {
  for (let attempt = 0; attempt < PORT_ATTEMPTS; attempt++) {
    const base = randomInt(PORT_MIN / PORT_BLOCK, PORT_MAX / PORT_BLOCK) * PORT_BLOCK;
    const spare = await Promise.all(
      [...TCP_OFFSETS, HTTP_OFFSET].map((offset) => isSpare(base + offset)),
    );
    if (spare.every(Boolean)) return base;
  }
  throw new Error(`no ${PORT_BLOCK} spare ports between ${PORT_MIN} and ${PORT_MAX}`);
}

function isSpare(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
