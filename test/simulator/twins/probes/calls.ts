/** The calls that scenarios make to probes: an interface for each class, so that scenarios need no types of the platform. */

export interface Probes {
  readonly Ear: EarCalls;
  readonly Writer: WriterCalls;
  readonly Holder: HolderCalls;
  readonly Bell: BellCalls;
  readonly Host: HostCalls;
  readonly SlowStarter: StarterCalls;
  readonly FaultyStarter: StarterCalls;
  readonly ThrowingStarter: StarterCalls;
}

/** Notes what it receives. */
export interface EarCalls {
  hear(line: string): Promise<string>;
  /** Notes a line as another party: the order between two of them is left open. */
  hearAs(party: string, line: string): Promise<void>;
  /** Answers after 60 ms. */
  hearSlowly(line: string): Promise<string>;
  /** Never answers. */
  hang(): Promise<void>;
  take(value: Parcel): Promise<Parcel>;
  throwError(kind: "built in" | "of its own" | "text"): Promise<void>;
  /** Answers when `release` is called. */
  hold(): Promise<void>;
  release(): Promise<void>;
  abort(reason: string): Promise<void>;
}

export interface Parcel {
  count: number;
  readonly bytes: Uint8Array;
}

/** Writes rows, some of which can't be committed, and sends messages to the Ear. */
export interface WriterCalls {
  /** Makes its tables; returns when they are on disk. */
  prepare(): Promise<void>;
  /** The rows that are there. */
  rows(): Promise<string>;
  read(): Promise<string>;
  /** Never answers. */
  hang(): Promise<void>;
  /** Writes a row that can't be committed, and returns. */
  doom(): Promise<string>;
  doomAndThrow(): Promise<void>;
  sendBehindDoomedRow(): Promise<void>;
  sendBeforeDoomedRow(): Promise<void>;
  waitBehindDoomedRow(): Promise<void>;
  syncThenDoom(): Promise<void>;
  sendAroundRow(): Promise<void>;
  /** Changes what it has passed to the Ear, and what it returns, at once. */
  passAndChange(): Promise<Parcel>;
  abortWithinTurn(reason: string): Promise<void>;
  abortAfterTurns(reason: string): Promise<void>;
  abortWhileCalling(): Promise<void>;
  /** Writes in several turns, and is killed within the last one. */
  dieWithinTurn(): Promise<void>;
  deleteAll(): Promise<string>;
}

export type Held =
  | "sync"
  | "sync of a row"
  | "timer"
  | "wait(0)"
  | "rpc"
  | "fetch"
  | "nothing"
  | "microtasks"
  | "getAlarm"
  | "setAlarm"
  | "deleteAlarm"
  | "block";

/** Awaits one thing while calls are ready to be delivered. */
export interface HolderCalls {
  /** Blocks until the Ear is released, so that calls gather, then awaits `what`. */
  hold(what: Held): Promise<void>;
  poke(line: string): Promise<void>;
  /** Awaits things of its own while it blocks. */
  blockWithEvents(): Promise<void>;
  throwInBlock(): Promise<void>;
  /** Blocks until the Ear is released, so that calls gather, then yields by `scheduler.wait(0)`. */
  yieldOften(): Promise<void>;
  wait0BesideTimers(): Promise<void>;
}

export type Ringing =
  | "end"
  | "wait"
  | "throw once"
  | "set and throw once"
  | "set once"
  | "abort once"
  | "doom once"
  | "delete"
  | "deleteAll";

/** Has an alarm. */
export interface BellCalls {
  /** Sets the alarm, and what it does when it rings. */
  set(ringing: Ringing, delayMs: number): Promise<void>;
  reset(delayMs: number): Promise<void>;
  setDoomed(delayMs: number): Promise<void>;
  deleteAll(): Promise<string>;
  /** Whether an alarm is set. */
  state(): Promise<string>;
}

/** Has WebSockets that hibernate, at `/`, and others, at `/plain`. */
export interface HostCalls {
  prepare(): Promise<void>;
  socketCount(): Promise<number>;
  push(line: string): Promise<void>;
  abort(reason: string): Promise<void>;
  startTimers(): Promise<void>;
  holdByWaitUntil(): Promise<void>;
  block(): Promise<void>;
}

/** What the door of the probes does for a client. */
export type Visit =
  | "wait"
  | "wait in waitUntil"
  | "call"
  | "call in waitUntil"
  | "signal"
  | "signal in waitUntil"
  | "body"
  | "body in waitUntil"
  | "answer"
  | "answer in waitUntil"
  | "stream"
  | "socket";

export interface StarterCalls {
  call(line: string): Promise<string>;
}
