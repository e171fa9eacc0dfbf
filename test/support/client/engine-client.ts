/** A client of an engine in the same process, whose time a test moves. */
import { ThrottrClient } from "../../../src/client/client.ts";
import { Engine } from "../../../src/engine/engine.ts";
import { EngineTransport, type Fate } from "./engine-transport.ts";

export const ENGINE_START_MS = 1_700_000_000_000;

export class EngineServer {
  /** What becomes of messages from now on. */
  fate: Fate = "through";
  readonly client: ThrottrClient;
  readonly #transport: EngineTransport;

  /** @param nowMs present of the engine */
  constructor(nowMs = ENGINE_START_MS) {
    const hashKey = { low: 1, high: 2 };
    const engine = new Engine({ hashKey, bytesMax: 8 << 20, isCounting: false });
    this.#transport = new EngineTransport(engine, nowMs, () => this.fate);
    this.client = new ThrottrClient(this.#transport, { attemptsMax: 1 });
  }

  /** Messages that came: calls to the server. */
  get messages(): number {
    return this.#transport.messages;
  }

  get nowMs(): number {
    return this.#transport.nowMs;
  }

  /** Lets time pass, for the server. */
  advance(byMs: number): void {
    this.#transport.nowMs += byMs;
  }

  /** How many messages a piece of work sends. */
  async messagesOf(work: () => Promise<unknown>): Promise<number> {
    const before = this.messages;
    await work();
    return this.messages - before;
  }
}
