/** A transport to an engine in the same process: a namespace of one shard, and failures on order. */
import type { Transport } from "../../../src/client/transport/transport.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { Command, COMMAND_HEADER_BYTES } from "../../../src/wire/edge/command.ts";
import { ThrottrError } from "../../../src/wire/edge/error.ts";
import { Keyspace } from "../../../src/wire/keyspace.ts";
import { layoutsOf } from "../../../src/wire/throttr/requests.ts";
import { frameEnd } from "../../../src/wire/throttr/scanner.ts";
import { concat, EDGE, edgeBatch, EXPORT, EXPORT_LEASES, partsOf, u32 } from "../frames/index.ts";
import { finish } from "../engine/steps.ts";

/** What becomes of a message: it goes through, is lost before, or after it was applied, or is refused. */
export type Fate = "through" | "unsent" | "lost" | ThrottrError;

export class EngineTransport implements Transport {
  readonly engine: Engine;
  /** Present of the engine; a test moves it. */
  nowMs: number;
  /** Messages that came. */
  messages = 0;
  /** Types of frames that a server of an earlier release lacks: a message with one is refused, and nothing is applied. */
  unknown: readonly number[] = [];
  readonly #fateOf: (message: number) => Fate;

  constructor(engine: Engine, nowMs: number, fateOf: (message: number) => Fate = () => "through") {
    this.engine = engine;
    this.nowMs = nowMs;
    this.#fateOf = fateOf;
    engine.advance(nowMs);
  }

  readonly exchange = (message: Uint8Array): Promise<Uint8Array> => {
    const fate = this.#fateOf(this.messages++);
    if (fate instanceof ThrottrError) return Promise.reject(fate);
    if (fate === "unsent") return Promise.reject(new ThrottrError("connection_failed", "cut"));
    const layouts = layoutsOf(EDGE);
    const frames: Uint8Array[] = [];
    for (let at = 0; at < message.length;) {
      const end = frameEnd(layouts, message, at);
      frames.push(message.slice(at, end));
      at = end;
    }
    if (frames.some(([type]) => this.unknown.includes(type!))) {
      return Promise.reject(new ThrottrError("request_type_unknown", "the type of a frame"));
    }
    const replies = frames.map((frame) => this.#reply(frame));
    if (fate === "lost") return Promise.reject(new ThrottrError("outcome_unknown", "cut"));
    return Promise.resolve(concat(replies));
  };

  connect(): never {
    throw new Error("there are no connections");
  }

  #reply(frame: Uint8Array): Uint8Array {
    if (frame[0] === EXPORT || frame[0] === EXPORT_LEASES) return this.#export(frame);
    if (frame[0] === Command.remove) return this.#remove(frame);
    if (frame[0] === Command.limitAll) {
      return this.engine.limitAll(frame.slice(COMMAND_HEADER_BYTES), null, this.nowMs);
    }
    return partsOf(this.engine.apply(edgeBatch([frame]), this.nowMs))[0]!.replies.slice();
  }

  #remove(frame: Uint8Array): Uint8Array {
    const prefix = frame.slice(7, 7 + frame[2]!);
    const query = { keyspace: Keyspace.throttr, prefix, prefixes: [] };
    this.engine.advance(this.nowMs);
    let count = 0;
    for (let cursor: number | null = 0; cursor !== null;) {
      const step = this.engine.scan.remove(query, cursor);
      count += step.removed;
      cursor = step.cursor;
    }
    const reply = new Uint8Array(13);
    const view = new DataView(reply.buffer);
    view.setUint8(0, 1);
    view.setUint32(1, 8, true);
    view.setFloat64(5, count, true);
    return reply;
  }

  #export(frame: Uint8Array): Uint8Array {
    const bodyAt = 7 + frame[2]!;
    const view = new DataView(frame.buffer, frame.byteOffset + bodyAt);
    const options = view.getUint8(6);
    const keyspace = (options & 2) === 0 ? Keyspace.throttr : Keyspace.throttrPairs;
    const query = { keyspace, prefix: frame.slice(7, bodyAt), prefixes: [] };
    const after = (options & 1) === 0 ? null : frame.slice(bodyAt + 7);
    const [limit, bytesMax] = [view.getUint16(0, true), view.getUint32(2, true)];
    this.engine.advance(this.nowMs);
    const page = finish(
      frame[0] === EXPORT
        ? this.engine.exporting.page(query, after, limit, bytesMax)
        : this.engine.leasePages.page(query, after, limit, bytesMax),
    );
    return concat([Uint8Array.of(1), u32(page.length - 2), page.subarray(0, 1), page.subarray(3)]);
  }
}
