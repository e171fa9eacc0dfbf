/**
 * What happened in a run. Every run has a hash of it: two runs of one seed must have the same. The text itself is kept only when
 * a person wants to read it.
 */
import type { VirtualTime } from "./virtual-time.ts";

export type TracePart = string | number | bigint | boolean | null | undefined;

/** Texts whose hashes are remembered at once. */
const HASHES_MAX = 10_000;
/** The stack of an error in a line of JSON. */
const STACK = /,"stack":"(?:[^"\\]|\\.)*"/;
const NUMBER = new Float64Array(1);
const WORDS = new Uint32Array(NUMBER.buffer);

function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash;
}

export class Trace {
  #low = 0x811c9dc5;
  #high = 0x9e3779b9;
  readonly #hashes = new Map<string, number>();
  readonly #time: VirtualTime;
  readonly #keep: ((line: string) => void) | null;

  /** @param keep gets each line; null to keep the hash alone */
  constructor(time: VirtualTime, keep: ((line: string) => void) | null = null) {
    this.#time = time;
    this.#keep = keep;
  }

  get isKept(): boolean {
    return this.#keep !== null;
  }

  /** 16 hex digits that depend on everything that was noted, and on its order. */
  get hash(): string {
    return (
      (this.#high >>> 0).toString(16).padStart(8, "0") +
      (this.#low >>> 0).toString(16).padStart(8, "0")
    );
  }

  /**
   * @param what the kind of event, such as `rpc.call`
   * @param who whose it is, such as `Shard default/0 #2`
   */
  note(what: string, who: string, ...parts: readonly TracePart[]): void {
    this.#mixLine(what, who, parts);
    if (this.#keep !== null) this.#tell(`${who}: ${what} ${parts.join(" ")}`.trimEnd());
  }

  /** A line of a log. The hash leaves out stacks, which name the files of a checkout. */
  noteLog(what: string, who: string, text: string): void {
    this.#mixLine(what, who, [text.replace(STACK, "")]);
    if (this.#keep !== null) this.#tell(`${who}: ${what} ${text}`);
  }

  /** A line for a person alone, which no hash depends on: its text is made only where one reads it. */
  say(who: string, text: () => string): void {
    if (this.#keep !== null) this.#tell(`${who}: ${text()}`);
  }

  #tell(line: string): void {
    const { elapsedMs, tick } = this.#time;
    this.#keep!(`${String(tick).padStart(7)} ${elapsedMs.toFixed(3).padStart(12)} ms  ${line}`);
  }

  #mixLine(what: string, who: string, parts: readonly TracePart[]): void {
    this.#mixText(what);
    this.#mixText(who);
    for (const part of parts) this.#mixPart(part);
    this.#mixNumber(this.#time.nowMs);
  }

  #mixPart(part: TracePart): void {
    if (typeof part === "number") this.#mixNumber(part);
    else this.#mixText(String(part));
  }

  /** Most texts are noted many times: each is read once. */
  #mixText(text: string): void {
    let hash = this.#hashes.get(text);
    if (hash === undefined) {
      if (this.#hashes.size >= HASHES_MAX) this.#hashes.clear();
      hash = hashOf(text);
      this.#hashes.set(text, hash);
    }
    this.#mix(hash);
  }

  #mixNumber(value: number): void {
    NUMBER[0] = value;
    this.#mix(WORDS[0]!);
    this.#mix(WORDS[1]!);
  }

  #mix(word: number): void {
    this.#low = Math.imul(this.#low ^ word, 0x01000193) ^ (this.#low >>> 16);
    this.#high = Math.imul(this.#high ^ word, 0x85ebca6b) ^ (this.#high >>> 15);
  }
}
