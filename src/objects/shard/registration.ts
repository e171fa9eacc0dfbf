/**
 * Registration: shard 0 tells the deployment once that its namespace exists.
 *
 * One shard is enough: whichever shard of a namespace is written to first, it asks shard 0 for the placement in force, and
 * shard 0 writes that down. Data of earlier releases is registered when shard 0 starts. Requests never wait for it, and a
 * note in the shard's row sees to it that the call is made once in the life of the namespace.
 */
import type { Environment } from "../../base/environment.ts";
import { logWarning } from "../../base/log.ts";
import { DEPLOYMENT } from "../../base/names.ts";
import { directoryStub, hasDirectory } from "../../base/stubs.ts";
import type { Timers } from "../../base/timers.ts";
import { orIfUnknown } from "../../base/unknown-method.ts";
import type { Journal } from "./journal.ts";

/** How long to wait before each further attempt. After the last one the shard's next start tries again. */
const RETRIES_MS = [1000, 10_000, 60_000];

/** Of shard 0 of a namespace. */
export class Registration {
  readonly #env: Environment;
  readonly #namespace: string;
  readonly #journal: Journal;
  readonly #timers: Timers;
  /** Begun by this instance. */
  #isBegun = false;

  constructor(env: Environment, namespace: string, journal: Journal, timers: Timers) {
    this.#env = env;
    this.#namespace = namespace;
    this.#journal = journal;
    this.#timers = timers;
  }

  /** Registers the namespace, if that was not done before. No request waits for it. */
  begin(): void {
    if (this.#isBegun || this.#journal.isRegistered) return;
    this.#isBegun = true;
    if (!hasDirectory(this.#env)) return;
    this.#timers.waitUntil(this.#register());
  }

  async #register(): Promise<void> {
    if (await this.#attempt()) return;
    for (const delayMs of RETRIES_MS) {
      await this.#timers.wait(delayMs);
      if (await this.#attempt()) return;
    }
  }

  /** False if it is worth another attempt. A list without room has none later, either. */
  async #attempt(): Promise<boolean> {
    try {
      const directory = directoryStub(this.#env, DEPLOYMENT);
      // A Directory of an earlier release runs for minutes after a deployment, and knows of no list.
      const call = directory.registerNamespace(this.#namespace);
      const isListed = await orIfUnknown(call, () => null);
      if (isListed === true) this.#journal.storeRegistered();
      return isListed !== null;
    } catch (error) {
      logWarning("namespace_unregistered", { namespace: this.#namespace, error: String(error) });
      return false;
    }
  }
}
