/** Plays runs in a thread, one at a time. A run that never ends is a failure as well: its thread is given up. */
import { Worker } from "node:worker_threads";
import type { Plan } from "./plan.ts";
import type { Played } from "./play.ts";
import type { ThreadOptions } from "./thread.ts";

/** A run costs about a second. So long one may take where other work has the processor. */
const RUN_MS_MAX = 300_000;

export class Player {
  readonly #options: ThreadOptions;
  #thread: Worker | null = null;

  constructor(options: Partial<ThreadOptions> = {}) {
    this.#options = { planted: null, ...options };
  }

  /** @throws Error when the code can't be bundled, or the thread fails otherwise */
  async play(plan: Plan): Promise<Played> {
    const thread = (this.#thread ??= new Worker(new URL("thread.ts", import.meta.url), {
      workerData: this.#options,
    }));
    const { promise, resolve, reject } = Promise.withResolvers<Played>();
    const timer = setTimeout(() => {
      resolve(endless(plan));
      void this.close();
    }, RUN_MS_MAX);
    thread.on("message", resolve).on("error", reject);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    thread.postMessage(plan);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      thread.off("message", resolve).off("error", reject);
    }
  }

  async close(): Promise<void> {
    const thread = this.#thread;
    this.#thread = null;
    await thread?.terminate();
  }
}

const endless = (plan: Plan): Played => ({
  plan,
  violations: [
    {
      promise: "Progress",
      subject: "the run",
      message: `has not ended after ${RUN_MS_MAX / 1000} seconds of true time`,
    },
  ],
  undecided: [],
  hash: "",
  events: 0,
  operations: 0,
  simulatedMs: 0,
  faults: [],
});
