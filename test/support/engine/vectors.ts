/** Recorded exchanges of Throttr servers, played against connections of any kind. */
import { hex, unhex } from "../frames/index.ts";

export interface RecordedExchange {
  readonly size: string;
  readonly scenario: string;
  readonly step: number;
  /** A connection, or a connection and `.push`: what arrives there unasked. */
  readonly conn: string;
  readonly name: string;
  readonly request_hex: string;
  readonly response_hex: string;
  readonly volatile: readonly (readonly [offset: number, length: number, what: string])[];
  readonly sleep_before_ms?: number;
}

/** A connection that exchanges are played on. */
export interface ExchangeConnection {
  /** Sends bytes and waits for so many bytes of reply; fewer when the connection ends or time is up. */
  exchange(request: Uint8Array, replyBytes: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** A step's reply, as it was and as it should have been; equal when all is well. */
export interface Played {
  readonly step: string;
  readonly reply: string;
  readonly expected: string;
}

const TTL_SLACK = 3;
const ID_BYTES = 16;
const CLOSED_WAIT_MS = 50;

/** Exchanges by size and scenario, in order. */
export function throttrScenarios(lines: string): Map<string, RecordedExchange[]> {
  const exchanges = lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as RecordedExchange);
  return Map.groupBy(exchanges, ({ size, scenario }) => `${size} ${scenario}`);
}

/** Plays a scenario on new connections. Times to live may differ by a little; live ids stand for recorded ones. */
export async function playScenario(
  steps: readonly RecordedExchange[],
  open: () => Promise<ExchangeConnection>,
): Promise<Played[]> {
  const connections = new Map<string, ExchangeConnection>();
  const ids = new Map<string, string>();
  const played: Played[] = [];
  for (const name of new Set(steps.map(({ conn }) => conn.split(".")[0]!))) {
    connections.set(name, await open());
  }
  for (const step of steps) {
    if (step.sleep_before_ms !== undefined) await wait(step.sleep_before_ms);
    if (step.name.includes("closed connection")) await closeThird(connections);
    const recorded = unhex(step.response_hex);
    const connection = connections.get(step.conn.split(".")[0]!)!;
    const request = unhex(withLiveIds(step.request_hex, ids));
    const reply = await connection.exchange(request, recorded.length);
    if (step.name.startsWith("WHOAMI")) ids.set(idOf(recorded), idOf(reply));
    const expected = unhex(withLiveIds(step.response_hex, ids));
    played.push({
      step: `${step.step}: ${step.name}`,
      reply: hex(maskVolatile(step, reply, expected)),
      expected: hex(expected),
    });
  }
  for (const connection of connections.values()) await connection.close();
  return played;
}

async function closeThird(connections: Map<string, ExchangeConnection>): Promise<void> {
  await connections.get("C")!.close();
  connections.delete("C");
  await wait(CLOSED_WAIT_MS);
}

/** What may differ is taken from the recording; a time to live only when it is near. */
function maskVolatile(
  { volatile }: RecordedExchange,
  reply: Uint8Array,
  expected: Uint8Array,
): Uint8Array {
  const masked = reply.slice();
  for (const [offset, length, what] of volatile) {
    const difference = uint(reply, offset, length) - uint(expected, offset, length);
    const isNear = what !== "ttl" || Math.abs(difference) <= TTL_SLACK;
    if (isNear && reply.length >= offset + length) {
      masked.set(expected.subarray(offset, offset + length), offset);
    }
  }
  return masked;
}

const idOf = (reply: Uint8Array): string => hex(reply.subarray(1, 1 + ID_BYTES));

/** Puts live ids where recorded ones stand: as bytes, as hex text, as hex text in capitals. */
export function withLiveIds(bytes: string, ids: ReadonlyMap<string, string>): string {
  const asText = (text: string): string => hex(new TextEncoder().encode(text));
  let out = bytes;
  for (const [recorded, live] of ids) {
    out = out
      .replaceAll(recorded, live)
      .replaceAll(asText(recorded), asText(live))
      .replaceAll(asText(recorded.toUpperCase()), asText(live.toUpperCase()));
  }
  return out;
}

function uint(bytes: Uint8Array, at: number, width: number): number {
  let value = 0;
  for (let i = width - 1; i >= 0; i--) value = value * 256 + (bytes[at + i] ?? 0);
  return value;
}

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
