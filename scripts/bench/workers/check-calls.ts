/** Makes the calls that a driver asks for: see `check-load.ts`. */
import { ANSWER_BYTES, keysOf, loadOf, NUMBER_BYTES, type CheckLoad } from "./check-load.ts";

/** One call: checks on keys, and how many of them were refused. */
export type Ask = (keys: readonly string[]) => Promise<number>;

/**
 * The answer to a driver who comes; null for any other request.
 *
 * @param askOf makes what is called
 */
export function serveDriver(request: Request, askOf: (load: CheckLoad) => Ask): Response | null {
  const load = loadOf(new URL(request.url));
  if (load === null) return null;
  const ask = load.check === "nothing" ? () => Promise.resolve(0) : askOf(load);
  const { 0: client, 1: server } = new WebSocketPair();
  const calls = new Calls(load, ask, server);
  server.accept();
  server.binaryType = "arraybuffer";
  server.addEventListener("message", ({ data }) => calls.start(data as ArrayBuffer));
  return new Response(null, { status: 101, webSocket: client });
}

class Calls {
  readonly #load: CheckLoad;
  readonly #ask: Ask;
  readonly #driver: WebSocket;
  readonly #keys: readonly string[];
  /** The list of a call where there is one key: a long one takes as long to make as to decide on in memory. */
  readonly #sameKeys: readonly string[] | null;
  #next: number;

  constructor(load: CheckLoad, ask: Ask, driver: WebSocket) {
    this.#load = load;
    this.#ask = ask;
    this.#driver = driver;
    this.#keys = keysOf(load.keys);
    this.#sameKeys =
      load.keys === 1 ? Array.from({ length: load.checks }, () => this.#keys[0]!) : null;
    this.#next = load.walkFrom ?? 0;
  }

  start(numbers: ArrayBuffer): void {
    const view = new DataView(numbers);
    for (let at = 0; at < view.byteLength; at += NUMBER_BYTES) {
      void this.#call(view.getUint16(at, true));
    }
  }

  async #call(number: number): Promise<void> {
    try {
      this.#answer(number, await this.#ask(this.#nextKeys()));
    } catch (error) {
      console.error(error);
      this.#driver.close(1011, "a check failed");
    }
  }

  #answer(number: number, refused: number): void {
    const answer = new DataView(new ArrayBuffer(ANSWER_BYTES));
    answer.setUint16(0, number, true);
    answer.setUint16(NUMBER_BYTES, refused, true);
    this.#driver.send(answer);
  }

  #nextKeys(): readonly string[] {
    if (this.#sameKeys !== null) return this.#sameKeys;
    const { keys, checks, walkFrom } = this.#load;
    const from = walkFrom === null ? Math.floor(Math.random() * keys) : this.#next;
    this.#next = (from + checks) % keys;
    return Array.from({ length: checks }, (_, i) => this.#keys[(from + i) % keys]!);
  }
}
