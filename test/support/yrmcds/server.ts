/**
 * A yrmcds server without sockets: connections with their streams, and shards that own the semaphores.
 *
 * Everything that is asked is answered at once, in order. Frames of no shard are answered here; Stats and
 * Dump ask all shards, one after the other.
 */
import { Engine, type EngineOptions } from "../../../src/engine/engine.ts";
import { connectionHolder } from "../../../src/engine/semaphores/holder.ts";
import { ByteWriter } from "../../../src/wire/bytes.ts";
import { Target } from "../../../src/wire/throttr/requests.ts";
import { FRAME_TOO_LARGE } from "../../../src/wire/throttr/scanner.ts";
import { writeDumpReplies, type DumpForm } from "../../../src/wire/yrmcds/dump.ts";
import { Opcode } from "../../../src/wire/yrmcds/protocol.ts";
import { writeSuccess } from "../../../src/wire/yrmcds/replies.ts";
import { RequestView } from "../../../src/wire/yrmcds/request.ts";
import { frameLength, scanRun } from "../../../src/wire/yrmcds/scanner.ts";
import { writeStats } from "../../../src/wire/yrmcds/stats.ts";
import { concat } from "../frames/index.ts";

const DUMP_PAGE_BYTES = 64;

export class YrmcdsServer {
  readonly shards: Engine[];
  nowMs: number;
  readonly #dumpForm: DumpForm;
  readonly #connections = new Set<YrmcdsConnection>();
  #connectionsSeen = 0;
  #stats = 0;
  #dump = 0;

  constructor(options: EngineOptions, shards: number, dumpForm: DumpForm, nowMs: number) {
    this.shards = Array.from({ length: shards }, () => new Engine(options));
    this.#dumpForm = dumpForm;
    this.nowMs = nowMs;
  }

  open(frameBytesMax = 1 << 20): YrmcdsConnection {
    const id = new Uint8Array(16);
    new DataView(id.buffer).setUint32(0, ++this.#connectionsSeen);
    const connection = new YrmcdsConnection(this, connectionHolder(id), frameBytesMax);
    this.#connections.add(connection);
    return connection;
  }

  /** Ends a connection: what it holds is released. */
  close(connection: YrmcdsConnection): void {
    this.#connections.delete(connection);
    for (const { semaphores } of this.shards) semaphores.releaseAll(connection.holder, this.nowMs);
  }

  /** Answers whole frames of shards. */
  execute(frames: Uint8Array, holder: Uint8Array, out: ByteWriter): void {
    const view = new RequestView();
    for (let at = 0; at < frames.length; at += view.length) {
      view.read(frames, at);
      // Frames without a name may go to any shard.
      const shard = this.#shardOf(frames, view.nameAt, view.nameBytes);
      shard.semaphoreRequests.execute(
        frames,
        at,
        at + view.length,
        holder,
        out,
        Infinity,
        this.nowMs,
      );
    }
  }

  /** Answers a frame that concerns all shards. */
  answer(frame: Uint8Array, out: ByteWriter): void {
    const view = new RequestView();
    view.read(frame, 0);
    const { opcode, opaque } = view;
    if (opcode === Opcode.stats) this.#answerStats(opaque, out);
    else this.#answerDump(opaque, out);
  }

  #shardOf(bytes: Uint8Array, at: number, length: number): Engine {
    let sum = 0;
    for (let i = at; i < at + length; i++) sum += bytes[i]!;
    return this.shards[sum % this.shards.length]!;
  }

  #answerStats(opaque: number, out: ByteWriter): void {
    this.#stats++;
    const figures = this.shards.map(({ semaphores }) => semaphores.figures(this.nowMs));
    const counts = this.shards.map(({ semaphoreRequests }) => semaphoreRequests.counts);
    const sum = <Row>(rows: Row[], field: (row: Row) => number): number =>
      rows.reduce((total, row) => total + field(row), 0);
    writeStats(out, opaque, {
      objects: sum(figures, ({ objects }) => objects),
      total_objects: sum(figures, ({ totalObjects }) => totalObjects),
      used_memory: sum(figures, ({ usedBytes }) => usedBytes),
      conflicts: 0,
      gc_count: sum(figures, ({ collections }) => collections),
      last_gc_elapsed: sum(figures, ({ lastCollectionMicroseconds: last }) => last),
      total_gc_elapsed: sum(figures, ({ totalCollectionMicroseconds: total }) => total),
      curr_connections: this.#connections.size,
      total_connections: this.#connectionsSeen,
      "command:noop": sum(counts, ({ noop }) => noop),
      "command:get": sum(counts, ({ get }) => get),
      "command:acquire": sum(counts, ({ acquire }) => acquire),
      "command:release": sum(counts, ({ release }) => release),
      "command:stats": this.#stats,
      "command:dump": this.#dump,
    });
  }

  #answerDump(opaque: number, out: ByteWriter): void {
    this.#dump++;
    for (const { semaphorePages } of this.shards) {
      for (let cursor: number | null = 0; cursor !== null;) {
        const page = semaphorePages.dump(cursor, DUMP_PAGE_BYTES, this.nowMs);
        writeDumpReplies(out, opaque, this.#dumpForm, page.entries);
        cursor = page.cursor;
      }
    }
    writeSuccess(out, Opcode.dump, opaque);
  }
}

export class YrmcdsConnection {
  readonly holder: Uint8Array;
  isOpen = true;
  readonly #server: YrmcdsServer;
  readonly #frameBytesMax: number;
  #pending: Uint8Array = new Uint8Array(0);
  #neededBytes = 1;

  constructor(server: YrmcdsServer, holder: Uint8Array, frameBytesMax: number) {
    this.#server = server;
    this.holder = holder;
    this.#frameBytesMax = frameBytesMax;
  }

  /** Bytes that wait for the rest of their frame. */
  get pendingBytes(): number {
    return this.#pending.length;
  }

  /** Takes bytes of the stream and returns the replies to all that is whole by now. */
  receive(chunk: Uint8Array): Uint8Array {
    const out = new ByteWriter();
    if (!this.isOpen) return out.take();
    this.#pending = concat([this.#pending, chunk]);
    while (this.isOpen && this.#pending.length >= this.#neededBytes) {
      const bytes = this.#pending;
      const run = scanRun(bytes, 0, bytes.length, this.#frameBytesMax);
      if (run.target === Target.namespace) this.#server.answer(bytes, out);
      else this.#server.execute(bytes.subarray(0, run.end), this.holder, out);
      this.#pending = bytes.slice(run.end);
      this.#neededBytes = run.needed;
      if (run.stop === FRAME_TOO_LARGE) this.close();
    }
    return out.take();
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#server.close(this);
  }
}

/** Cuts a stream of whole frames into them. */
export function framesOf(bytes: Uint8Array): Uint8Array[] {
  const frames: Uint8Array[] = [];
  for (let at = 0, length = 0; at < bytes.length; at += length) {
    length = frameLength(bytes, at, bytes.length, Infinity);
    frames.push(bytes.subarray(at, at + length));
  }
  return frames;
}
