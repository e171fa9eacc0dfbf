/**
 * A link: what carries messages between two ends, in order in each direction, each after a delay of its own. Faults are
 * methods of the link. What is in flight lives here and not at an end, since ends die.
 */
import type { Random } from "../../kernel/random.ts";
import type { Trace } from "../../kernel/trace.ts";
import type { VirtualTime } from "../../kernel/virtual-time.ts";

export type Side = 0 | 1;
export const otherSide = (side: Side): Side => (side === 0 ? 1 : 0);

/** The delay of one message, ms. */
export type Latency = (random: Random) => number;
/** Within one isolate. */
export const AT_ONCE: Latency = () => 0;

/** What a link needs of its world. */
export interface LinkWorld {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly trace: Trace;
  /** Absent where nothing goes wrong by chance. */
  readonly faults?: NetworkFaults;
}

export interface NetworkFaults {
  /** How long the client of an exchange waits before it resets the connection, in ms; Infinity where it does not. */
  clientStaysMs(): number;
}

/** One end of a link. Both methods are called as events that belong to no life yet. */
export interface Port<Message> {
  receive(message: Message): void;
  /** The other end is gone, as far as this one can tell; nothing is received any more. */
  lose(): void;
}

/** How long each side takes to notice that a link is gone, ms; Infinity for never. */
export type NoticeMs = readonly [number, number];

interface InFlight<Message> {
  message: Message;
  readonly bytes: number;
  readonly cancel: () => void;
}

/** The longest time until a side of a link that was cut notices it, unless the fault says otherwise. */
export const NOTICE_MS_MAX = 10_000;

/** What one side sends. */
class Wire<Message> {
  readonly inFlight: InFlight<Message>[] = [];
  /** Arrived, while the reader is stalled. */
  readonly waiting: InFlight<Message>[] = [];
  arrivesAtMs = 0;
  isStalled = false;
  isSevered = false;
  bytes = 0;
}

export interface LinkOptions<Message> {
  /** For the trace, such as `socket 7`. */
  readonly name: string;
  readonly latencyMs?: Latency;
  /** What is left of a message when the link is cut in the middle of it; null for nothing. */
  readonly prefixOf?: (message: Message, random: Random) => Message | null;
  /** Called once, when neither end will hear of the other again. */
  readonly onOver?: (link: Link<Message>) => void;
}

export class Link<Message> {
  readonly name: string;
  latencyMs: Latency;
  /** True once the link was cut or closed: faults have nothing to act upon. */
  isOver = false;
  readonly #world: LinkWorld;
  readonly #options: LinkOptions<Message>;
  /** By the side that sends. */
  readonly #wires: readonly [Wire<Message>, Wire<Message>] = [new Wire(), new Wire()];
  readonly #ports: [Port<Message> | null, Port<Message> | null] = [null, null];
  readonly #watchers: (() => void)[] = [];

  constructor(world: LinkWorld, options: LinkOptions<Message>) {
    this.#world = world;
    this.#options = options;
    this.name = options.name;
    this.latencyMs = options.latencyMs ?? AT_ONCE;
  }

  /** Tells when the link is cut, abandoned or closed. */
  whenOver(watcher: () => void): void {
    if (this.isOver) watcher();
    else this.#watchers.push(watcher);
  }

  attach(side: Side, port: Port<Message>): void {
    this.#ports[side] = port;
  }

  /** Bytes that a side has sent and the other has not received: in flight, or before a reader that is stalled. */
  unreceivedBytes(side: Side): number {
    return this.#wires[side].bytes;
  }

  /** Sends to the other side. Into a link that was cut, messages vanish. */
  send(side: Side, message: Message, bytes: number): void {
    const wire = this.#wires[side];
    if (wire.isSevered) return;
    const { time, random } = this.#world;
    wire.bytes += bytes;
    // Two messages of one moment arrive in the order in which their events were planned.
    wire.arrivesAtMs = Math.max(wire.arrivesAtMs, time.nowMs + this.latencyMs(random));
    const cancel = time.at(wire.arrivesAtMs, () => this.#arrive(side));
    wire.inFlight.push({ message, bytes, cancel });
  }

  /** The reader of a side stops: what arrives for it waits in the link. */
  stall(side: Side): void {
    this.#wires[otherSide(side)].isStalled = true;
    this.#world.trace.note("link.stall", this.name, side);
  }

  /** The reader of a side goes on. */
  resume(side: Side): void {
    const wire = this.#wires[otherSide(side)];
    if (!wire.isStalled) return;
    wire.isStalled = false;
    this.#world.trace.note("link.resume", this.name, side);
    for (const _ of wire.waiting)
      this.#world.time.after(0, () => this.#deliverWaiting(otherSide(side)));
  }

  isStalled(side: Side): boolean {
    return this.#wires[otherSide(side)].isStalled;
  }

  /** Cuts the link: of what is in flight, the first part still arrives. Each side notices in its own time. */
  cut(noticeMs?: NoticeMs): void {
    if (this.isOver) return;
    const { random, trace } = this.#world;
    const noticed = noticeMs ?? [random.next() * NOTICE_MS_MAX, random.next() * NOTICE_MS_MAX];
    trace.note("link.cut", this.name, ...noticed);
    this.#end(noticed, true);
  }

  /**
   * An end is gone without a word, as its process is: the other one notices as soon as a message would take.
   *
   * @param isReset what that end has sent last may be lost, too, as it is when TCP resets a connection
   */
  abandon(side: Side, isReset = false): void {
    if (this.isOver) return;
    const { random, trace } = this.#world;
    trace.note("link.abandon", this.name, side);
    const delayMs = this.latencyMs(random);
    this.#end(side === 0 ? [Infinity, delayMs] : [delayMs, Infinity], isReset);
  }

  /** Both ends have said goodbye. */
  close(): void {
    this.#over();
    for (const wire of this.#wires) wire.isSevered = true;
  }

  #end(noticeMs: NoticeMs, losesInFlight: boolean): void {
    this.#over();
    for (const side of [0, 1] as const) {
      const noticedMs = noticeMs[side];
      const sender = otherSide(side);
      const isDeaf = noticedMs === Infinity;
      this.#wires[sender].isSevered = true;
      if (isDeaf || losesInFlight) this.#lose(sender, isDeaf);
      if (isDeaf) continue;
      const { time } = this.#world;
      const atMs = Math.max(time.nowMs + noticedMs, this.#wires[sender].arrivesAtMs);
      // A stalled reader notices only behind what it has not read, so it goes on with the end of its link.
      time.at(atMs, () => {
        this.resume(side);
        time.after(0, () => this.#ports[side]?.lose());
      });
    }
  }

  /** Drops what is in flight from some message on, or all of it. */
  #lose(sender: Side, isDeaf: boolean): void {
    const wire = this.#wires[sender];
    const { random } = this.#world;
    const kept = isDeaf ? 0 : random.int(wire.inFlight.length + 1);
    const half = wire.inFlight[kept];
    const prefix =
      half === undefined || isDeaf
        ? null
        : (this.#options.prefixOf?.(half.message, random) ?? null);
    const dropped = wire.inFlight.splice(prefix === null ? kept : kept + 1);
    if (prefix !== null) half!.message = prefix;
    for (const { cancel, bytes } of dropped) {
      cancel();
      wire.bytes -= bytes;
    }
    if (isDeaf) wire.waiting.length = 0;
  }

  #over(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#options.onOver?.(this);
    for (const watcher of this.#watchers.splice(0)) watcher();
  }

  #arrive(sender: Side): void {
    const wire = this.#wires[sender];
    const item = wire.inFlight.shift()!;
    wire.waiting.push(item);
    if (!wire.isStalled) this.#deliverWaiting(sender);
  }

  #deliverWaiting(sender: Side): void {
    const wire = this.#wires[sender];
    // Stalled again between two messages.
    if (wire.isStalled) return;
    const item = wire.waiting.shift();
    if (item === undefined) return;
    wire.bytes -= item.bytes;
    this.#ports[otherSide(sender)]?.receive(item.message);
  }
}
