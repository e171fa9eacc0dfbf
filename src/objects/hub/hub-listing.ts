/**
 * HubListing: what the Directory knows of a Hub. Callers who ask it for the Hubs of a namespace must find every connection. So a Hub
 * enters before its first connection is open, and leaves when the last one has ended.
 */
import { EVERYBODY } from "../../base/names.ts";
import { logWarning } from "../../base/log.ts";
import type { DirectoryCalls } from "../../base/calls/channel.ts";
import type { HubCounts } from "./hub-counts.ts";

/** The Hub. */
interface ListedHub {
  /** Name of the object. */
  readonly name: string;
  readonly counts: HubCounts;
  /** Makes a stub: one that has seen the Directory reset fails from then on. */
  directory(): DurableObjectStub<DirectoryCalls>;
  /** It has connections, or one that is being opened. */
  isInUse(): boolean;
}

/** Of one instance of a Hub. */
export class HubListing {
  readonly #hub: ListedHub;
  /**
   * The Directory knows of the Hub, or is being told. Only while it is in use: the Directory drops a Hub that says it has no
   * connections, and the Hub is not told.
   */
  #isListed = false;
  /** The Directory may know of the Hub from an earlier life. */
  #mayBeListed = false;
  /** The last call to the Directory: the next one waits for it. */
  #call: Promise<void> | null = null;

  constructor(hub: ListedHub) {
    this.#hub = hub;
  }

  /** Connections that have outlived sleep are back: the Directory knows of a Hub with any. */
  noteRestored(): void {
    this.#isListed = this.#hub.isInUse();
  }

  /**
   * A connection that ended while the Hub slept is back for its end, and no life of the Hub has told the Directory of it. The
   * Directory may have found out meanwhile, so a new connection has to enter all the same.
   */
  noteRestoredLate(): void {
    this.#mayBeListed = true;
  }

  /** Makes the Directory know of the Hub. */
  async enter(): Promise<void> {
    if (!this.#isListed) {
      this.#isListed = true;
      const directory = this.#hub.directory();
      this.#call = this.#afterCall(() => directory.join(this.#hub.name));
      this.#call.catch(() => (this.#isListed = false));
    }
    await this.#call;
  }

  /** Tells the Directory that no connection is left, and gives it the counts, which would be lost with the object. */
  async leave(): Promise<void> {
    if (!(this.#isListed || this.#mayBeListed) || this.#hub.isInUse()) return;
    this.#isListed = false;
    this.#mayBeListed = false;
    const { name, counts } = this.#hub;
    const directory = this.#hub.directory();
    this.#call = this.#afterCall(async () => {
      const { figures, last } = await counts.release();
      await directory.retire(name, figures, last);
    }).catch((error: unknown) => {
      // The Directory asks its Hubs once a day, and with each message to `*`.
      logWarning("leave_failed", { channel: EVERYBODY, error: String(error) });
    });
    await this.#call;
  }

  /** Calls the Directory after the call before has ended, in whatever way: a join must not overtake a leave. */
  #afterCall(tell: () => Promise<void>): Promise<void> {
    return (this.#call ?? Promise.resolve()).catch(() => {}).then(tell);
  }
}
