/** The pipeline: gathers the calls of one turn, so that they travel together. */
import { signalOption } from "../../wire/edge/argument.ts";
import type { Operation } from "../../wire/edge/operation.ts";
import { AbortListeners, type ListenersBySignal } from "./abort-listeners.ts";
import { Call, type CallOptions } from "./call.ts";
import type { Lane } from "../lanes/lane.ts";
import { timeoutOf, type Settings } from "../options.ts";
import { platform } from "../platform.ts";
import { momentOf } from "../timing/clock.ts";

export class Pipeline {
  readonly #lane: Lane;
  readonly #settings: Settings;
  readonly #listeners: ListenersBySignal = new Map();
  #gathered: Call[] = [];
  #isClosed = false;

  constructor(lane: Lane, settings: Settings) {
    this.#lane = lane;
    this.#settings = settings;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** @throws ThrottrError `option_invalid` */
  call<Result>(operation: Operation<Result>, options: CallOptions): Promise<Result> {
    const { clock, timeoutMs } = this.#settings;
    const longest = timeoutOf(options.timeoutMs, timeoutMs);
    const timeout = Math.min(longest, operation.repeatableMs ?? longest);
    const signal = signalOption(options.signal);
    const ending = signal === null ? null : AbortListeners.of(signal, this.#listeners);
    const call = new Call(operation, momentOf(clock), timeout, ending);
    if (this.#isClosed) call.close();
    if (!call.isSettled && this.#gathered.push(call) === 1) {
      platform.queueMicrotask(() => this.#flush());
    }
    // The operation decodes the reply: it resolves with the type that its caller expects.
    return call.promise as Promise<Result>;
  }

  close(): void {
    this.#isClosed = true;
    for (const call of this.#gathered) call.close();
    this.#lane.close();
  }

  #flush(): void {
    const calls = this.#gathered.filter(({ isSettled }) => !isSettled);
    this.#gathered = [];
    if (calls.length > 0) this.#lane.send(calls);
  }
}
