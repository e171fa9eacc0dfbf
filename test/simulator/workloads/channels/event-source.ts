/** A listener of Server-Sent Events, as a browser is one: it reads a stream, and knows the last number that it has seen. */
import type { RunningLife } from "../../platform/running-life.ts";
import { exchange } from "../../platform/net/exchange.ts";
import { SimRequest } from "../../platform/net/messages.ts";
import type { Random } from "../../kernel/random.ts";
import type { World } from "../../world.ts";
import { DEFAULT } from "../namespaces.ts";
import { doorTo, SERVER } from "../ports.ts";
import { addressOf } from "../wire.ts";

export interface StreamEvents {
  /** The stream is open. */
  onOpen(): void;
  /** An event without data: where the stream begins. */
  onStart(number: number): void;
  /** @param payload the bytes that were published */
  onMessage(number: number | null, payload: Uint8Array): void;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * Listens to a channel until the stream ends.
 *
 * @param after number of the last message that is known; null to begin with what is published from now on
 * @param whenOpen gets what ends the stream
 */
export async function listenTo(
  world: World,
  life: RunningLife,
  random: Random,
  asked: { readonly channel: string; readonly after: number | null; readonly connection: number },
  events: StreamEvents,
  whenOpen: (cancel: () => void) => void,
): Promise<void> {
  const { channel, after, connection } = asked;
  const headers: Record<string, string> = { "cf-connecting-ip": addressOf(connection) };
  if (after !== null) headers["last-event-id"] = String(after);
  const url = `${SERVER}/channels/${encodeURIComponent(channel)}`;
  const request = new SimRequest(url, { headers });
  world.witness.dial(connection, addressOf(connection), DEFAULT);
  try {
    const onOver = (): void => world.witness.noteEnd(connection);
    const { network } = world.cluster.site;
    const asked = exchange(network, life, doorTo(world, random), request, { onOver });
    const response = await world.times.of("http", "GET /channels", asked);
    if (response.status !== 200) {
      const { code } = (await response.json()) as { readonly code: string };
      world.failures.noteCode(code, "GET /channels", "listen");
      return world.witness.noteEnd(connection);
    }
    events.onOpen();
    const reader = response.body!.getReader();
    whenOpen(() => {
      world.witness.noteEnd(connection);
      void reader.cancel().catch(() => {});
    });
    await readEvents(async () => (await reader.read()) as Piece, events);
  } catch (error) {
    // The connection was lost.
    world.failures.noteError("GET /channels", error);
  }
  world.witness.noteEnd(connection);
}

interface Piece {
  readonly done: boolean;
  readonly value?: Uint8Array;
}

async function readEvents(read: () => Promise<Piece>, events: StreamEvents): Promise<void> {
  let rest = "";
  for (;;) {
    const { done, value } = await read();
    if (done) return;
    const parts = (rest + decoder.decode(value)).split("\n\n");
    rest = parts.pop()!;
    for (const part of parts) readEvent(part, events);
  }
}

function readEvent(text: string, events: StreamEvents): void {
  let [number, type]: [number | null, string] = [null, "message"];
  const data: string[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("id: ")) number = Number(line.slice("id: ".length));
    else if (line.startsWith("event: ")) type = line.slice("event: ".length);
    else if (line.startsWith("data: ")) data.push(line.slice("data: ".length));
  }
  if (data.length === 0) {
    if (number !== null) events.onStart(number);
    return;
  }
  const payload = data.join("\n");
  events.onMessage(
    number,
    type === "base64" ? Buffer.from(payload, "base64") : encoder.encode(payload),
  );
}
