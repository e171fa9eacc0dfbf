/**
 * A life: one instance of an object, or one isolate of doors, or one client, from its start to its end. Everything that the
 * platform gives to code holds the code's life. Once that is over, no promise of the platform settles for it, and no call
 * does anything: as if the process had died.
 */

/** Ends what a life that is over still does within its last event. Nobody must catch it and go on. */
export class LifeOver extends Error {
  override readonly name = "LifeOver";

  constructor(life: string) {
    super(`${life} is over`);
  }
}

export interface Life {
  /** For the trace, such as `Shard default/0 #3`. */
  readonly name: string;
  readonly isOver: boolean;
  /** The present as its machine's clock shows it, ms since the epoch. It stands still within an event. */
  readonly clockMs: number;

  /** How long its clock that never goes back has stood still, in ms: the machine was suspended. */
  readonly stoodStillMs: number;

  /**
   * Passes a call to the platform, which may be the last one of this life.
   *
   * @param what such as `sql.exec INSERT INTO journal`, `storage.sync`, `rpc.call`, `socket.send`
   * @throws LifeOver when the life is over, or ends here
   */
  call(what: string): void;

  /**
   * Runs an event of this life, unless it is over by then.
   *
   * @param delayMs of true time
   * @param what such as `timer` or `storage.sync`
   * @returns cancels it
   */
  later(delayMs: number, what: string, event: () => void): () => void;

  /** A promise that settles in an event of this life, with what `settle` returns or throws then. */
  settled<T>(delayMs: number, what: string, settle: () => T): Promise<T>;

  /**
   * The output gate: runs `send` when all that this life has written so far is durable, at once if it is. What goes
   * through keeps its order. Never, when the life is over before.
   */
  whenDurable(send: () => void): void;

  /** Ends the life as the platform does after a failed commit: its callers get an error, and what waits at its gate never leaves. */
  break(reason: string): void;
}
