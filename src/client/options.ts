/** Options of a client: their types, ranges and defaults. */
import {
  checkOptions,
  clockOption,
  integerOf,
  invalid,
  type FieldNames,
} from "../wire/edge/argument.ts";
import { TIMER_MS_MAX, type Clock } from "../wire/clock.ts";
import { systemClock, completed, type ClientClock } from "./timing/clock.ts";

const COUNT_MAX = 2 ** 31 - 1;

/**
 * How a client behaves.
 *
 * @example
 * const throttr = new ThrottrClient(http("https://throttr.example.com"), { timeoutMs: 2000 });
 */
export interface ClientOptions {
  /** How long a call, or the opening of a connection, may take, in ms: 1 to 2^31 - 1; 10,000 unless given. */
  readonly timeoutMs?: number | undefined;
  /**
   * Attempts for a call that is safe to repeat, and attempts in a row to connect before the waiting calls
   * fail: 1 to 100; 3 unless given.
   */
  readonly attemptsMax?: number | undefined;
  /** Calls that may wait for a connection: from 1; 16,384 unless given. Further calls fail with `queue_full`. */
  readonly queueMax?: number | undefined;
  /** Bytes of the calls that wait for a connection: from 1; 16 MiB unless given. */
  readonly queueBytesMax?: number | undefined;
  /**
   * How often a connection is pinged, in ms: 1 to 2^31 - 1; 15,000 unless given. A connection that does not answer before
   * the next ping is replaced.
   */
  readonly pingIntervalMs?: number | undefined;
  /** Largest wait before a second attempt, in ms; it doubles with each further one. 200 unless given. */
  readonly backoffBaseMs?: number | undefined;
  /** Largest wait before any attempt, in ms; 30,000 unless given. */
  readonly backoffMaxMs?: number | undefined;
  /** The clock of the runtime unless given. */
  readonly clock?: Clock | undefined;
}

const CLIENT: FieldNames<ClientOptions> = {
  timeoutMs: true,
  attemptsMax: true,
  queueMax: true,
  queueBytesMax: true,
  pingIntervalMs: true,
  backoffBaseMs: true,
  backoffMaxMs: true,
  clock: true,
};

/** Options with all defaults filled in. */
export type Settings = {
  readonly [Name in keyof ClientOptions]-?: NonNullable<ClientOptions[Name]>;
} & { readonly clock: ClientClock };

/** @throws ThrottrError `option_invalid` */
export function settingsOf(options: ClientOptions): Settings {
  checkOptions(options, CLIENT, "ThrottrClient");
  return {
    timeoutMs: wholeOption("timeoutMs", options.timeoutMs, 10_000, TIMER_MS_MAX),
    attemptsMax: wholeOption("attemptsMax", options.attemptsMax, 3, 100),
    queueMax: wholeOption("queueMax", options.queueMax, 16_384, COUNT_MAX),
    queueBytesMax: wholeOption("queueBytesMax", options.queueBytesMax, 16 << 20, COUNT_MAX),
    pingIntervalMs: wholeOption("pingIntervalMs", options.pingIntervalMs, 15_000, TIMER_MS_MAX),
    backoffBaseMs: wholeOption("backoffBaseMs", options.backoffBaseMs, 200, TIMER_MS_MAX),
    backoffMaxMs: wholeOption("backoffMaxMs", options.backoffMaxMs, 30_000, TIMER_MS_MAX),
    clock: options.clock === undefined ? systemClock : completed(clockOption(options.clock)),
  };
}

/** A `timeoutMs`. @throws ThrottrError `option_invalid` */
export function timeoutOf(timeoutMs: number | undefined, otherwise: number): number {
  return wholeOption("timeoutMs", timeoutMs, otherwise, TIMER_MS_MAX);
}

/**
 * An option that is an integer.
 *
 * @throws ThrottrError `option_invalid`
 */
export function wholeOption(
  name: string,
  value: number | undefined,
  otherwise: number,
  max = COUNT_MAX,
  min = 1,
): number {
  return value === undefined ? otherwise : integerOf(value, name, min, max, "option_invalid");
}

/** @throws ThrottrError `option_invalid` for anything but a function and undefined */
export function checkFunction(name: string, value: unknown, expected = "a function"): void {
  if (value === undefined || typeof value === "function") return;
  throw invalid(name, expected, value, "option_invalid");
}
