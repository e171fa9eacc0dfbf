/**
 * Notes what checkers must know of a run beside what clients saw: the lives of objects, their clocks, second copies of them, and
 * when each connection lived for the server. It knows connections by the addresses of their clients.
 */
import { initialRange, type Range } from "../../src/wire/range.ts";
import { AlarmCounts } from "./checks/alarms.ts";
import type { Moment, Moments, Violation } from "./checks/history.ts";
import { afterMs, beforeMs, earlier, NEVER } from "./checks/order.ts";
import type { UnreadSpan } from "./checks/tokens.ts";
import { Facts, type Connection, type Ending, type ObjectCall } from "./checks/facts.ts";
import type { Failures } from "./failures.ts";
import { FaultCounts } from "./faults/counts.ts";
import { SLOW_MS } from "./faults/seeded.ts";
import type { Life } from "./platform/life.ts";
import type { RunningLife } from "./platform/running-life.ts";
import type { SocketEnd } from "./platform/net/socket-end.ts";
import { attachmentOf } from "./platform/net/web-socket.ts";
import {
  ObjectLife,
  type CallMade,
  type CallWatch,
  type SimulatedObject,
  type Watcher,
} from "./platform/object.ts";
import { DEFAULT } from "./workloads/namespaces.ts";

/** The event of the log with which an object says that it has given messages up, as a Hub takes them too slowly. */
const LOST_TO_HUB = "hub_slow";

/** The event with which a shard says that the data of a shard is gone. */
const DATA_MISSING = "shard_data_missing";

/** The call by which a door reads which tokens are revoked, and how long it waits: docs/operations.md. */
const READ_REVOKED = "revokedTokens";
const READ_TIMEOUT_MS = 2000;

/** How long the answer of an object is on its way, and until its caller's next turn, at most. */
const ANSWER_MS_MAX = SLOW_MS + 1000;

/** The event with which a shard says that it has refused records, as it has no room. */
const SHARD_FULL = "shard_full";

/** The event with which a Hub says that it closes a connection, which its client has not ended. */
const CLOSED_BY_HUB = "connection_closed";

/** The event with which a door says that it closes a TCP connection that no Hub takes, and why: all of them are full. */
const REFUSED = "tcp_refused";
const HUBS_FULL = "connections_max";

/** The name of the release that is judged. */
const TODAY = "today";

/** Of what a Hub leaves with each socket. */
interface Attachment {
  readonly id: Uint8Array;
  readonly ip: string;
}

/** The event with which a shard says that it could not write its counts. */
const UNSTORED = "counts_unstored";

/** The data of a shard is gone, at a moment. */
export interface LostData {
  readonly at: Moment;
  readonly range: Range;
  /** Ranges that others have adopted from it, and that were not in force: of their data there is what was copied. */
  readonly adopted: readonly Range[];
}

/** A connection as a Hub had it. */
interface Hosted {
  readonly hub: string;
  readonly end: SocketEnd;
  /** Its link was cut or closed, or its Hub has ended it. */
  endBegun: Moment | null;
  /** Its Hub knows that it has ended, or is no more. */
  ended: Moment | null;
  /** Its Hub has another copy from then on, which does not know of it. */
  partedAt: Moment | null;
}

/** A connection as its client has it. */
interface Dialed {
  readonly number: number;
  readonly address: string;
  readonly namespace: string;
  readonly begun: Moment;
  opened: Moment | null;
  endBegun: Moment | null;
}

const UNWATCHED: CallWatch = { onTaken: () => {}, onAnswer: () => {} };

export class Witness implements Watcher {
  readonly facts = new Facts();
  readonly alarms = new AlarmCounts();
  /** Names of shards whose database has vanished. */
  readonly missing = new Set<string>();
  /** Until when others may say so of one whose database is back: the answer that told them was on its way. In true time. */
  readonly #saidMissingUntilMs = new Map<string, number>();
  /** The data of a shard that does not come back. */
  lost: LostData | null = null;
  /** Shards have said that data is gone which is there. */
  readonly falseAlarms: Violation[] = [];
  /** Shards that could not write their counts down. */
  readonly unstored = new Set<string>();
  /** Connections that the server has closed by itself. */
  closedByServer = 0;
  /** What was refused, by its code. */
  readonly refusals = new FaultCounts();
  readonly #moments: Moments;
  readonly #failures: Failures;
  readonly #lives = new Map<
    ObjectLife,
    { begun: Moment; ended: Moment | null; isReset: boolean; number: number }
  >();
  readonly #copies = new Map<ObjectLife, { object: string; asOf: Moment; until: Moment }>();
  readonly #hosted: Hosted[] = [];
  readonly #dialed = new Map<number, Dialed>();
  /** Answers to doors that read which tokens are revoked, by the name of the door. */
  readonly #reads = new Map<string, { readonly at: Moment; readonly isRead: boolean }[]>();

  constructor(moments: Moments, failures: Failures) {
    this.#moments = moments;
    this.#failures = failures;
  }

  /** The clock of an object shows what that of its machine does. */
  noteClock(object: SimulatedObject, nowMs: number): void {
    this.facts.clocks.set(nameOf(object), nowMs, object.life!.machine.offsetMs);
  }

  onStart(object: SimulatedObject, life: ObjectLife): void {
    const begun = this.#moments.now();
    const number = this.facts.livesOf(nameOf(object)).length + 1;
    const span = { begun, ended: null, isReset: false, number };
    this.#lives.set(life, span);
    this.facts.addLife(nameOf(object), span);
    this.noteClock(object, begun.ms);
    this.facts.clocks.start(nameOf(object), begun.ms);
    this.alarms.noteStart(nameOf(object), begun.ms);
  }

  onEnd(_object: SimulatedObject, life: ObjectLife, isReset: boolean): void {
    const ended = this.#moments.now();
    const copy = this.#copies.get(life);
    if (copy !== undefined) copy.until = ended;
    // A life that has crashed before its constructor has no span.
    else Object.assign(this.#lives.get(life) ?? {}, { ended, isReset });
  }

  onPartition(object: SimulatedObject, life: ObjectLife): void {
    const asOf = this.#moments.now();
    Object.assign(this.#lives.get(life)!, { ended: asOf, isReset: true });
    const copy = { object: nameOf(object), asOf, until: NEVER };
    this.#copies.set(life, copy);
    this.facts.addStale(copy);
    for (const hosted of this.#hosted) {
      if (hosted.hub !== copy.object || hosted.ended !== null) continue;
      hosted.partedAt ??= asOf;
      hosted.endBegun ??= asOf;
    }
  }

  onAlarm(object: SimulatedObject): void {
    this.alarms.note(nameOf(object), this.#moments.now().ms);
  }

  onSocket(object: SimulatedObject, end: SocketEnd, isParted: boolean): void {
    // The present life of the Hub does not know of a connection that an older one takes.
    const partedAt = isParted ? this.#moments.now() : null;
    const hosted: Hosted = {
      hub: nameOf(object),
      end,
      endBegun: partedAt,
      ended: null,
      partedAt,
    };
    this.#hosted.push(hosted);
    end.link.whenOver(() => (hosted.endBegun ??= this.#moments.now()));
    end.onEnding = () => {
      hosted.ended = this.#moments.now();
      hosted.endBegun ??= hosted.ended;
    };
  }

  /** Checkers ask what became of calls to Hubs, and of how many there were to groups of channels. */
  onCall({ object, caller, method, parameters }: CallMade): CallWatch {
    if (method === READ_REVOKED) return this.#watchRead(caller);
    if (object.className !== "Hub" && object.className !== "Channel") return UNWATCHED;
    const isObject = caller instanceof ObjectLife;
    const call: ObjectCall = {
      object: nameOf(object),
      method,
      parameters,
      caller: isObject ? nameOf(caller.object) : caller.name,
      callerLife: isObject ? this.#lives.get(caller)!.number : 1,
      begun: this.#moments.now(),
      taken: null,
      isTakenByCopy: false,
      answered: NEVER,
      hasFailed: false,
    };
    this.facts.addCall(call);
    return {
      onTaken: (life) => {
        call.taken = this.#moments.now();
        call.isTakenByCopy = this.#copies.has(life);
      },
      onAnswer: (hasFailed, answeredMs) => {
        call.hasFailed = hasFailed;
        call.answered = beforeMs(answeredMs);
      },
    };
  }

  /** A door reads which tokens are revoked. Until it has read that, it goes on with what it knows. */
  #watchRead(door: RunningLife): CallWatch {
    const begunMs = this.#moments.now().ms;
    return {
      onTaken: () => {},
      onAnswer: (hasFailed, answeredMs) => {
        const isRead = !hasFailed && answeredMs - begunMs < READ_TIMEOUT_MS;
        const reads = this.#reads.get(door.name) ?? [];
        this.#reads.set(door.name, reads);
        reads.push({ at: this.#moments.now(), isRead });
      },
    };
  }

  /** When doors did not know which tokens are revoked, as a read had failed and no other one had followed. */
  unreadSpans(): UnreadSpan[] {
    return [...this.#reads.values()].flatMap((reads) =>
      reads.flatMap(({ at, isRead }, i) =>
        isRead ? [] : [{ from: at, to: reads.slice(i).find((each) => each.isRead)?.at ?? NEVER }],
      ),
    );
  }

  /** What the release before throws is not judged. */
  onError({ release }: RunningLife, what: string, error: unknown): void {
    if (release === TODAY || release === null) this.#failures.noteError(what, error);
  }

  onLog({ name }: Life, text: string, release: string): void {
    if (release === TODAY) this.#failures.noteLog(text);
    if (text.includes(`"${DATA_MISSING}"`)) this.#noteMissing(name, text);
    if (text.includes(`"${CLOSED_BY_HUB}"`)) this.closedByServer++;
    if (text.includes(`"${REFUSED}"`)) {
      this.closedByServer++;
      if (text.includes(`"${HUBS_FULL}"`)) this.refusals.add("refused", `${HUBS_FULL} tcp`);
    }
    if (text.includes(`"${UNSTORED}"`)) {
      this.unstored.add((JSON.parse(text) as { readonly shard: string }).shard);
    }
    if (text.includes(`"${SHARD_FULL}"`)) this.#noteFull(text);
    if (!text.includes(LOST_TO_HUB)) return;
    const { event, hub } = JSON.parse(text) as { event: string; hub: string };
    if (event === LOST_TO_HUB) {
      this.facts.losses.push({ hub: `Hub ${hub}`, at: this.#moments.now() });
    }
  }

  /** The database of a shard is there again. */
  noteBack(shard: string): void {
    this.missing.delete(shard);
    this.#saidMissingUntilMs.set(shard, this.#moments.now().ms + ANSWER_MS_MAX);
  }

  #noteMissing(name: string, text: string): void {
    const { event, shard } = JSON.parse(text) as { event: string; shard: string };
    if (event !== DATA_MISSING) return;
    this.refusals.add("refused", DATA_MISSING);
    const saidUntilMs = this.#saidMissingUntilMs.get(shard) ?? -Infinity;
    if (this.missing.has(shard) || this.#moments.now().ms <= saidUntilMs) return;
    const message = `says that data is missing, and it is there: ${text}`;
    this.falseAlarms.push({ promise: "Logs", subject: name, message });
  }

  #noteFull(text: string): void {
    const { event, shard } = JSON.parse(text) as { event: string; shard: string };
    if (event !== SHARD_FULL) return;
    this.facts.full.add(`Shard ${shard}`);
    this.refusals.add("refused", SHARD_FULL);
  }

  /**
   * The data of a shard is about to be lost for good.
   *
   * @param shards the namespace began with
   */
  noteLost(shard: SimulatedObject, objects: Iterable<SimulatedObject>, shards: number): void {
    const range = rangeOf(shard, shards);
    const adopted = [...objects]
      .filter((object) => isAdoptedFrom(object, range.from))
      .map((object) => rangeOf(object, shards));
    this.lost = { at: this.#moments.now(), range, adopted };
  }

  /** A client begins to connect. */
  dial(number: number, address: string, namespace: string): void {
    const begun = this.#moments.now();
    const dialed = { number, address, namespace, begun, opened: null, endBegun: null };
    this.#dialed.set(number, dialed);
  }

  /** The client has learned that its connection is open. */
  noteOpen(number: number): void {
    this.#dialed.get(number)!.opened ??= this.#moments.now();
  }

  /** The client has begun to end its connection, or has lost it. */
  noteEnd(number: number): void {
    this.#dialed.get(number)!.endBegun ??= this.#moments.now();
  }

  /**
   * Says which shards have had keys of which range that the namespace began with: checkers know keys by the latter. To be
   * called when the run has ended.
   */
  addSplits(objects: Iterable<SimulatedObject>, shards: number): void {
    for (const object of objects) {
      const [, namespace, from] = SPLIT_NAME.exec(object.name) ?? [];
      if (object.className !== "Shard" || from === undefined) continue;
      const index = Math.floor((Number.parseInt(from, 16) * shards) / 2 ** 32);
      this.facts.addMember(`Shard ${namespace}/${index}`, nameOf(object));
    }
  }

  /** Adds the connections of the default namespace to the facts, which lists no others. To be called when the run has ended. */
  addConnections(): void {
    // Callers got nothing of an old copy after the last event that it took from outside, even where it lived on.
    for (const [life, copy] of this.#copies) {
      copy.until = earlier(copy.until, afterMs(life.lastTakenMs));
    }
    const byAddress = new Map<string, Hosted>();
    for (const hosted of this.#hosted) {
      const attachment = attachmentOf(hosted.end) as Attachment | null;
      if (attachment !== null) byAddress.set(attachment.ip, hosted);
    }
    for (const dialed of this.#dialed.values()) {
      if (dialed.namespace !== DEFAULT) continue;
      this.facts.addConnection(connectionOf(dialed, byAddress.get(dialed.address)));
    }
  }
}

/** A shard that has a copy of a range, which is not in force, of the shard whose range begins at a hash. */
const isAdoptedFrom = (
  { className, disk: { database } }: SimulatedObject,
  parent: number,
): boolean =>
  className === "Shard" &&
  database.hasTable("shard") &&
  database.ownRows(`SELECT 1 FROM shard WHERE is_active = 0 AND parent = ${parent}`).length > 0;

/** What a shard owns, as its row says: null where it has never split. */
function rangeOf({ name, disk: { database } }: SimulatedObject, shards: number): Range {
  const [row] = database.ownRows("SELECT range_from, range_to FROM shard");
  const [from, to] = row!;
  if (from !== null) return { from: Number(from), to: Number(to) };
  return initialRange(Number(name.slice(name.lastIndexOf("/") + 1)), shards);
}

/** The range of a shard that a split has made begins at the hash in its name. */
export const SPLIT_NAME = /^(.*)\/([0-9a-f]{8})$/;

export const nameOf = ({ className, name }: SimulatedObject): string => `${className} ${name}`;

function connectionOf(dialed: Dialed, hosted: Hosted | undefined): Connection {
  const { number, begun, opened } = dialed;
  const attachment = hosted === undefined ? null : (attachmentOf(hosted.end) as Attachment);
  return {
    number,
    id: attachment === null ? `none ${number}` : Buffer.from(attachment.id).toString("hex"),
    hub: hosted?.hub ?? "none",
    begun,
    opened,
    ending: endingOf(dialed, hosted),
    partedAt: hosted?.partedAt ?? null,
  };
}

function endingOf({ endBegun }: Dialed, hosted: Hosted | undefined): Ending | null {
  const ends = [endBegun, hosted?.endBegun ?? null].filter((end) => end !== null);
  if (ends.length === 0) return null;
  const begun = ends.reduce(earlier);
  return { begun, ended: hosted === undefined ? begun : hosted.ended };
}
