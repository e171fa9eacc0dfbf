/** Where a crash test takes place: a temporary folder, spare ports, and the server that is killed. */
import { randomInt } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stateOf, type Launch, type Launcher, type Running, type ServerKind } from "./launcher.ts";
import { ServeLauncher } from "./serve-launcher.ts";
import { StartLauncher } from "./start-launcher.ts";
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
/** A single shard has room for all keys at their largest, 102 MiB: a shard that is full refuses new ones. */
const SHARD_BYTES_MAX = 112 << 20;
/** A shard has room for the records that come before it has split, and for a part of all. */
const SPLITTING_BYTES_MAX = 8 << 20;
const LOG_TAIL_CHARACTERS = 2000;

/** The server of a crash test. */
export interface ServerChoice {
  readonly kind: ServerKind;
  /** The variable `SHARDS`. */
  readonly shards: number;
  /** Shards have so little memory that they split again and again. */
  readonly isSplitting?: boolean;
}

export const SERVER_DEFAULT: ServerChoice = { kind: "start", shards: 4 };

export class Site {
  readonly folder: string;
  readonly #portBase: number;
  readonly #launcher: Launcher;
  #server: Running | null = null;
  /** What the server that was started last has printed. */
  #log = (): string => "";
  /** How it was before it was killed. */
  #stateBeforeKill = "had not been started";
  #isDisposed = false;

  static async create(server = SERVER_DEFAULT): Promise<Site> {
    return new Site(await findPortBlock(), server);
  }

  private constructor(portBase: number, { kind, shards, isSplitting = false }: ServerChoice) {
    this.#portBase = portBase;
    this.folder = mkdtempSync(join(tmpdir(), "throttr-crash-"));
    mkdirSync(this.#temporaryFolder);
    const launch: Launch = {
      httpPort: portBase + HTTP_OFFSET,
      tcpPorts: Object.fromEntries(
        TCP_OFFSETS.map((offset) => [TCP_BASE + offset, portBase + offset]),
      ),
      variables: {
        DURABILITY: "strict",
        SHARDS: String(shards),
        SHARD_BYTES_MAX: String(isSplitting ? SPLITTING_BYTES_MAX : SHARD_BYTES_MAX),
      },
      buildFolder: this.folder,
      stateFolder: join(this.folder, "state"),
      environment: this.#environment,
    };
    this.#launcher = kind === "start" ? new StartLauncher(launch) : new ServeLauncher(launch);
  }

  /** Where the databases of the shards are. */
  get shardsFolder(): string {
    return this.#launcher.shardsFolder;
  }

  /** Where they may be copied to. */
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

  /** Builds the server. Nothing else runs meanwhile. */
  build(): void {
    this.#launcher.build();
  }

  /**
   * Starts the server on the files that are there; resolves when it takes connections.
   *
   * @throws CrashViolation when it does not
   */
  async start(): Promise<void> {
    if (this.#isDisposed) throw new Error("the crash test has ended");
    const server = this.#launcher.start();
    this.#server = server;
    this.#log = () => server.log();
    try {
      await server.ready();
    } catch (error) {
      throw new CrashViolation(`the server did not start: ${String(error)}\n${this.lastWords()}`, {
        cause: error,
      });
    }
  }

  /** Kills the server at once; resolves when it is gone. */
  async kill(): Promise<void> {
    if (this.#server === null) return;
    this.#stateBeforeKill = `${stateOf(this.#server)} when it was killed`;
    await this.#server.kill();
    this.#server = null;
  }

  /** How the server is that was started last, and what it printed at the end. */
  lastWords(): string {
    const state = this.#server === null ? this.#stateBeforeKill : stateOf(this.#server);
    return `the server ${state}; its log ends with:\n${this.#log().slice(-LOG_TAIL_CHARACTERS)}`;
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
