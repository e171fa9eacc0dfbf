/**
 * Log lines of a gateway: one JSON object each, with a stable event name.
 *
 * Clients cause most events, and there may be thousands of them: a server that is down would fill a disk with one line for
 * each attempt. Such events are logged with growing intervals, and each line says how many were left out.
 */

/** Levels as log collectors know them; a connection is never an error of the gateway. */
export type LogLevel = "info" | "warning" | "error";
/** Flat, as collectors index only flat fields; undefined ones are left out. */
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** Writes a line, which includes its line break. */
export type LogWriter = (line: string) => void;

/** Intervals of lines for an event that clients can cause over and over. */
const INTERVAL_MIN_MS = 1000;
const INTERVAL_MAX_MS = 60_000;
/** Kinds of events whose intervals are remembered; beyond that all are forgotten, so that memory stays bounded. */
const KINDS_MAX = 256;

/** How often an event of one kind came lately. */
interface Repetition {
  /** Between the last line and the next, 1 s doubling to 1 min. */
  intervalMs: number;
  /** When the next line may be written, on the monotonic clock. */
  nextMs: number;
  /** Events since the last line that were left out. */
  suppressed: number;
}

/** Clocks of a log; tests set their own. */
export interface LogClocks {
  /** The time that lines have, in milliseconds since the epoch. The clock may be set back. */
  readonly dateMs: () => number;
  /** Measures intervals, from any moment on: it never goes back. */
  readonly elapsedMs: () => number;
}

const LOG_CLOCKS: LogClocks = { dateMs: Date.now, elapsedMs: () => performance.now() };

export class GatewayLog {
  /** Writes to standard error: standard output belongs to no log. */
  readonly #write: LogWriter;
  readonly #isQuiet: boolean;
  readonly #clocks: LogClocks;
  readonly #repetitions = new Map<string, Repetition>();

  /** @param isQuiet writes warnings and errors only */
  constructor(write: LogWriter, isQuiet: boolean, clocks = LOG_CLOCKS) {
    this.#write = write;
    this.#isQuiet = isQuiet;
    this.#clocks = clocks;
  }

  /**
   * The ordinary course: ports that open, a drain, a reloaded certificate. Silent with `--quiet`.
   */
  info(event: string, fields: LogFields = {}): void {
    if (!this.#isQuiet) this.#line("info", event, fields);
  }

  /** Something that an operator should look at, while the gateway goes on. */
  warning(event: string, fields: LogFields = {}): void {
    this.#line("warning", event, fields);
  }

  /** Something that the gateway could not do, such as reading a new certificate. */
  error(event: string, fields: LogFields = {}): void {
    this.#line("error", event, fields);
  }

  /**
   * A warning that may come with every connection: the first is written at once, others at intervals that double up to a
   * minute, with the number of those that were left out (`suppressed`).
   *
   * @param kind events of different kinds, such as close codes, have intervals of their own
   */
  repeated(event: string, kind: string, fields: LogFields): void {
    const nowMs = this.#clocks.elapsedMs();
    const known = this.#repetitions.get(`${event} ${kind}`);
    if (known !== undefined && nowMs < known.nextMs) {
      known.suppressed++;
      return;
    }
    // A quiet minute ends the series: the next event is news again.
    const hasPaused = known === undefined || nowMs - known.nextMs > INTERVAL_MAX_MS;
    const intervalMs = hasPaused
      ? INTERVAL_MIN_MS
      : Math.min(known.intervalMs * 2, INTERVAL_MAX_MS);
    const suppressed = known?.suppressed ?? 0;
    if (this.#repetitions.size >= KINDS_MAX) this.#repetitions.clear();
    this.#repetitions.set(`${event} ${kind}`, {
      intervalMs,
      nextMs: nowMs + intervalMs,
      suppressed: 0,
    });
    this.#line("warning", event, suppressed === 0 ? fields : { ...fields, suppressed });
  }

  /**
   * One JSON object and a line break in one write: lines of other processes in the same log can't
   * break it apart.
   */
  #line(level: LogLevel, event: string, fields: LogFields): void {
    const time = new Date(this.#clocks.dateMs()).toISOString();
    this.#write(`${JSON.stringify({ time, level, event, ...fields })}\n`);
  }
}
