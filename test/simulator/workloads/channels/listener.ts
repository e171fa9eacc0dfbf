/** Listens over Server-Sent Events, and comes back with the last number that it has seen. */
import { pause, type Client } from "../client.ts";
import { listenTo } from "./event-source.ts";
import { EVERYBODY, nameOf, NAMES, type Ear, type Shared } from "./shared.ts";

/** So long a listener hears what was published before it ends, when nothing goes wrong any more. */
const LISTEN_ON_MS = 60_000;
const LISTEN_MS = { least: 100, most: 120_000 };

export class Listener {
  readonly #client: Client;
  readonly #shared: Shared;
  #after: number | null = null;

  constructor(client: Client, shared: Shared) {
    this.#client = client;
    this.#shared = shared;
  }

  async work(): Promise<void> {
    const { random } = this.#client;
    const { world } = this.#shared;
    const channel = random.chance(0.1) ? EVERYBODY : nameOf(random.int(NAMES));
    while (!world.isClosing) {
      await pause(this.#client);
      await this.#listen(channel);
      if (random.chance(0.2)) this.#after = null;
    }
  }

  async #listen(channel: string): Promise<void> {
    const { life, random, number } = this.#client;
    const { world } = this.#shared;
    const connection = world.newConnection();
    const ear = this.#shared.newEar(connection, false);
    const after = this.#after;
    const operation = { type: "listen", channel, after } as const;
    const call = this.#shared.begin(number, "http", connection, operation);
    const stream = { isOver: false };
    await listenTo(
      world,
      life,
      random,
      { channel, after, connection },
      {
        onOpen: () => world.witness.noteOpen(connection),
        onStart: (start) => {
          this.#after = start;
          this.#shared.end(call, { start });
        },
        onMessage: (sequence, payload) => {
          this.#after = sequence;
          this.#shared.receive(ear, channel, sequence, payload);
        },
      },
      (cancel) => void this.#cancelLater(ear, stream, cancel),
    );
    stream.isOver = true;
    // Also where it is refused: the Hub may have subscribed it before that.
    if (call.ended === null) this.#shared.end(call, "unknown");
  }

  /** After some time, or when nothing is published any more. What was on its way when a stream was cut off is not heard. */
  async #cancelLater(
    ear: Ear,
    stream: { readonly isOver: boolean },
    cancel: () => void,
  ): Promise<void> {
    const { life, random } = this.#client;
    const { world } = this.#shared;
    const untilMs = world.time.nowMs + random.skewed(LISTEN_MS.least, LISTEN_MS.most);
    while (!world.isClosing && world.time.nowMs < untilMs) {
      await life.settled(1000, "listening", () => {});
    }
    if (world.isClosing) {
      await life.settled(LISTEN_ON_MS, "listening", () => {});
      if (!stream.isOver) ear.heardUntil = world.moments.now();
      await life.settled(LISTEN_ON_MS, "listening", () => {});
    }
    cancel();
  }
}
