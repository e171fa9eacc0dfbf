/**
 * Runs scenarios of the simulator's twins on workerd itself, as a process that can be killed. The pool of
 * `@cloudflare/vitest-plugin` wraps each class of objects, which changes when calls are delivered; here nothing does.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { build } from "tsdown";
import { capnpText, Embedded } from "../../../src/cli/serve/capnp-text.ts";
import { COMPATIBILITY_DATE, COMPATIBILITY_FLAGS } from "../../../src/cli/serve/configuration.ts";
import { findWorkerd } from "../../../src/cli/serve/workerd.ts";
import {
  BEGUN,
  BREAK,
  CLIENTS,
  ENDED,
  KILLED,
  LEAVE,
  NOTE,
  VISIT,
  type Noted,
} from "../../simulator/twins/note.ts";
import type { Transcript } from "../../simulator/twins/lab.ts";
import type { Probes } from "../../simulator/twins/probes/calls.ts";

const ENTRY = "test/simulator/twins/workerd.ts";
const CLASSES: readonly (keyof Probes)[] = [
  "Bell",
  "Ear",
  "FaultyStarter",
  "Holder",
  "Host",
  "SlowStarter",
  "ThrowingStarter",
  "Writer",
];

export class WorkerdLab {
  readonly #folder: string;
  #runtime: Runtime;

  private constructor(folder: string, runtime: Runtime) {
    this.#folder = folder;
    this.#runtime = runtime;
  }

  static async start(): Promise<WorkerdLab> {
    const folder = mkdtempSync(join(tmpdir(), "twins-"));
    await build({
      config: false,
      entry: { twins: ENTRY },
      outDir: folder,
      platform: "neutral",
      target: "es2024",
      dts: false,
      logLevel: "silent",
      deps: { neverBundle: ["cloudflare:workers", "workerd:unsafe"] },
    });
    writeFileSync(join(folder, "config.capnp"), configurationText(folder));
    return new WorkerdLab(folder, await Runtime.start(folder));
  }

  /** Runs a scenario: its phases, with the death of the process between two of them. */
  async run(scenario: number, phases: number): Promise<Transcript> {
    const transcript: Record<string, string[]> = {};
    for (let phase = 0; phase < phases; phase++) {
      if (phase > 0) await this.#restart();
      const notes = await this.#runtime.run(`/${scenario}/${phase}`);
      for (const { party, line } of notes) (transcript[party] ??= []).push(line);
    }
    return transcript;
  }

  async #restart(): Promise<void> {
    await this.#runtime.kill();
    this.#runtime = await Runtime.start(this.#folder);
  }

  async close(): Promise<void> {
    await this.#runtime.kill();
    rmSync(this.#folder, { recursive: true });
  }
}

const HANDSHAKE =
  "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
/** With an opcode that does not exist. */
const BROKEN_FRAME = Uint8Array.of(0x83, 0x80, 0, 0, 0, 0);

/** A process of workerd. */
class Runtime {
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #origin: string;
  /** Of the scenario that runs. */
  #client: Socket | null = null;

  private constructor(child: ChildProcess, port: number) {
    this.#process = child;
    this.#lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
    this.#origin = `http://127.0.0.1:${port}`;
  }

  static async start(folder: string): Promise<Runtime> {
    const args = [
      "serve",
      "--experimental",
      "--control-fd=3",
      join(folder, "config.capnp"),
      "config",
    ];
    // Exceptions that scenarios provoke are reported on standard error.
    const child = spawn(findWorkerd(undefined), args, {
      stdio: ["ignore", "pipe", "ignore", "pipe"],
    });
    for await (const line of createInterface({ input: child.stdio[3] as Readable })) {
      const { event, port } = JSON.parse(line) as { event: string; port: number };
      if (event === "listen") return new Runtime(child, port);
    }
    throw new Error("workerd has not started");
  }

  /** Runs a phase, and returns what was noted until it ended, or until it had the process killed. */
  async run(path: string): Promise<Noted[]> {
    const failing = this.#failure(path);
    const notes: Noted[] = [];
    while ((await this.#nextNote()).line !== BEGUN.line) {
      // How objects and sockets of the phase before have ended.
    }
    for (;;) {
      const noted = await this.#nextNote();
      if (noted.line === KILLED) {
        await this.kill();
        return notes;
      }
      if (noted.line === ENDED.line) {
        const failure = await failing;
        if (failure !== null) throw new Error(failure);
        return notes;
      }
      if (noted.party === CLIENTS) this.#act(noted.line);
      else notes.push(noted);
    }
  }

  /** What a scenario asks of its client. */
  #act(line: string): void {
    if (line === BREAK) this.#client?.write(BROKEN_FRAME);
    else if (line === LEAVE) this.#client?.resetAndDestroy();
    else this.#client = this.#visit(line.slice(VISIT.length));
  }

  #visit(path: string): Socket {
    const client = connect(Number(new URL(this.#origin).port), "127.0.0.1");
    const head = path.endsWith("/socket")
      ? `GET ${path} HTTP/1.1\r\n${HANDSHAKE}`
      : `POST ${path} HTTP/1.1\r\nContent-Length: 1000\r\n`;
    client.write(`${head}Host: twins\r\n\r\n`);
    // Some of its body; the rest never comes.
    if (!path.endsWith("/socket")) client.write("some");
    client.resume().on("error", () => {});
    return client;
  }

  async #nextNote(): Promise<Noted> {
    for (;;) {
      const { done, value } = await this.#lines.next();
      if (done === true) throw new Error("workerd has ended");
      if (value.startsWith(NOTE)) return JSON.parse(value.slice(NOTE.length)) as Noted;
    }
  }

  /** What went wrong in a phase. */
  async #failure(path: string): Promise<string | null> {
    try {
      const response = await fetch(this.#origin + path);
      return response.ok ? null : await response.text();
    } catch (error) {
      return String(error);
    }
  }

  async kill(): Promise<void> {
    const exited = once(this.#process, "exit");
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    this.#process.kill("SIGKILL");
    await exited;
  }
}

function configurationText(folder: string): string {
  const config = {
    services: [
      {
        name: "twins",
        worker: {
          modules: [{ name: "twins.js", esModule: new Embedded("twins.js") }],
          compatibilityDate: COMPATIBILITY_DATE,
          compatibilityFlags: [...COMPATIBILITY_FLAGS, "experimental", "unsafe_module"],
          bindings: CLASSES.map((name) => ({ name, durableObjectNamespace: name })),
          durableObjectNamespaces: CLASSES.map((className) => ({
            className,
            uniqueKey: className,
            enableSql: true,
          })),
          durableObjectStorage: { localDisk: "objects" },
          globalOutbound: "nowhere",
        },
      },
      { name: "objects", disk: { path: folder, writable: true } },
      { name: "nowhere", network: { allow: [] } },
    ],
    sockets: [{ name: "http", address: "127.0.0.1:0", http: {}, service: "twins" }],
  };
  return `using Workerd = import "/workerd/workerd.capnp";\nconst config :Workerd.Config = ${capnpText(config)};\n`;
}
