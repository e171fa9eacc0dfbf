/** `throttr-edge serve` as a process. */
import { spawn, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { sign } from "hono/jwt";

const READY_TIMEOUT_MS = 60_000;

export const TOKEN_SECRET = "the secret of these tests, of more than 32 bytes";

/** `serve` of the checkout. */
export const SERVE: readonly string[] = [process.execPath, "scripts/serve.ts"];

/** An event as `--json` prints it. */
export interface ServeEvent {
  readonly event: string;
  readonly http?: readonly string[];
  readonly tcp?: readonly { address: string; spoken: string; namespace: string }[];
  readonly pid?: number;
  readonly workerdPid?: number;
  readonly exitCode?: number;
  readonly detail?: string;
}

export class SelfHosted {
  readonly process: ChildProcess;
  readonly events: ServeEvent[] = [];
  /** What it printed on standard error. */
  errors = "";
  /** Its exit code; null when a signal has ended it. */
  readonly exited: Promise<number | null>;
  readonly #ready = Promise.withResolvers<ServeEvent>();

  private constructor(child: ChildProcess) {
    this.process = child;
    this.#ready.promise.catch(() => {});
    createInterface({ input: child.stdout! }).on("line", (line) => {
      const event = JSON.parse(line) as ServeEvent;
      this.events.push(event);
      if (event.event === "ready") this.#ready.resolve(event);
    });
    child.stderr!.on("data", (chunk: Buffer) => (this.errors += chunk.toString()));
    this.exited = new Promise((resolve) => {
      child.once("close", (code) => {
        resolve(code);
        this.#ready.reject(new Error(`serve ended with ${code}: ${this.errors}`));
      });
    });
  }

  /**
   * Starts `serve --json` with flags.
   *
   * @param command program and arguments that stand before the flags
   */
  static start(
    flags: readonly string[],
    environment: Readonly<Record<string, string>> = { TOKEN_SECRET },
    command: readonly string[] = SERVE,
  ): SelfHosted {
    const [program = "", ...args] = command;
    const child = spawn(program, [...args, "--json", ...flags], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...environment },
      // A group of its own, as a shell gives to what it starts.
      detached: true,
    });
    return new SelfHosted(child);
  }

  /** Waits until it is ready; fails when it ends instead. */
  async ready(): Promise<ServeEvent> {
    const timer = setTimeout(() => {
      this.#ready.reject(new Error(`not ready: ${this.errors}`));
    }, READY_TIMEOUT_MS);
    try {
      return await this.#ready.promise;
    } finally {
      clearTimeout(timer);
    }
  }

  get url(): string {
    return this.#readyEvent().http![0]!;
  }

  get workerdPid(): number {
    return this.#readyEvent().workerdPid!;
  }

  /** Asks it to stop; gives its exit code. */
  async stop(): Promise<number | null> {
    this.process.kill("SIGTERM");
    return await this.exited;
  }

  /** Ctrl-C of a terminal, which everything in the group gets; gives its exit code. */
  async interrupt(): Promise<number | null> {
    process.kill(-this.process.pid!, "SIGINT");
    return await this.exited;
  }

  /** `kill -9` for it and its workerd at once; resolves when both are gone. */
  async kill(): Promise<void> {
    // One that has ended by itself has ended its workerd, whose id may be another process's by now.
    if (this.process.exitCode === null) {
      const ready = this.events.findLast(({ event }) => event === "ready");
      // Until it is ready, it alone knows workerd's id: told to stop, it ends workerd, too.
      this.process.kill(ready === undefined ? "SIGTERM" : "SIGKILL");
      if (ready !== undefined) killIfThere(ready.workerdPid!);
    }
    await this.exited;
  }

  #readyEvent(): ServeEvent {
    return this.events.findLast(({ event }) => event === "ready")!;
  }
}

/** A process that may have ended already. */
export function killIfThere(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/** A token that does everything in a namespace. */
export function tokenFor(namespace: string, secret = TOKEN_SECRET): Promise<string> {
  const iat = Math.floor(Date.now() / 1000);
  const scopes = ["read", "write", "publish", "subscribe", "admin"];
  return sign({ ns: namespace, scopes, iat, exp: iat + 3600 }, secret, "HS256");
}

/** Whether a process runs; one that has ended and that its parent has not waited for does not. */
export function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
