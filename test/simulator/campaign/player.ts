/**
 * Plays runs in a thread, one at a time. A run that never ends, or that ends its thread, is a failure as well: the next run has
 * another thread.
 */
import { setFlagsFromString } from "node:v8";
import { Worker } from "node:worker_threads";
import type { Plan } from "./plan.ts";
import type { Played } from "./play.ts";
import type { ThreadAnswer, ThreadOptions } from "./thread.ts";

/** A run needs about two seconds of processor time, and one with very many shards a minute or two. */
const RUN_CPU_S_MAX = 300;
const LOOK_MS = 5000;
/** A thread keeps some 200 MB. One that reaches this size has a leak, and must not take the other threads with it. */
const HEAP_MB_MAX = 2048;

// Node strips the types of a thread's modules with WebAssembly. V8 of Node 24.21 compiles a much-called import of such code anew, and
// that ends the process with SIGSEGV once in some thousand threads, while it frees the code from before.
setFlagsFromString("--wasm-wrapper-tiering-budget=1000000000");

export class Player {
  readonly #options: ThreadOptions;
  #thread: Worker | null = null;

  constructor(options: Partial<ThreadOptions> = {}) {
    this.#options = { planted: null, ...options };
  }

  /** @throws Error when the code can't be bundled */
  async play(plan: Plan): Promise<Played> {
    const thread = (this.#thread ??= new Worker(new URL("thread.ts", import.meta.url), {
      workerData: this.#options,
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB_MAX },
    }));
    const { promise, resolve, reject } = Promise.withResolvers<Played>();
    const giveUp = (promise: string, message: string): void => {
      resolve(failedRun(plan, promise, message));
      void this.close();
    };
    const before = thread.cpuUsage();
    const look = async (): Promise<void> => {
      // True time says little: other work may have the processor.
      const { user, system } = await thread.cpuUsage(await before);
      if (user + system < RUN_CPU_S_MAX * 1e6) return;
      giveUp("Progress", `has not ended after ${RUN_CPU_S_MAX} seconds of processor time`);
    };
    const timer = setInterval(() => void look().catch(() => {}), LOOK_MS);
    // A thread that has ended says so by itself.
    before.catch(() => {});
    const onMessage = (answer: ThreadAnswer): void => {
      if ("failed" in answer) reject(answer.failed);
      else resolve(answer);
    };
    const onError = (error: Error): void => {
      giveUp("The simulator", `has ended its thread: ${error.stack ?? error.message}`);
    };
    const onExit = (code: number): void => onError(new Error(`exit with code ${code}`));
    thread.on("message", onMessage).on("error", onError).on("exit", onExit);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    thread.postMessage(plan);
    try {
      return await promise;
    } finally {
      clearInterval(timer);
      thread.off("message", onMessage).off("error", onError).off("exit", onExit);
    }
  }

  async close(): Promise<void> {
    const thread = this.#thread;
    this.#thread = null;
    await thread?.terminate();
  }
}

const failedRun = (plan: Plan, promise: string, message: string): Played => ({
  plan,
  violations: [{ promise, subject: "the run", message }],
  undecided: [],
  hash: "",
  events: 0,
  operations: 0,
  simulatedMs: 0,
  faults: [],
});
