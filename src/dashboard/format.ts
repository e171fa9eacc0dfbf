/** Formats figures for people: counts, rates, bytes, times. Always in English, as the rest of the page. */

const whole = new Intl.NumberFormat("en");
const oneDecimal = new Intl.NumberFormat("en", {
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const timeOfDay = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const minuteOfDay = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });

/** From here on a figure of a tile is shortened. */
const COMPACT_FROM = 10_000_000;
/** What JavaScript's dates can say. */
const MOMENT_MS_MAX = 8.64e15;

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const YEAR_DAYS = 365;

/** All digits: `1,234,567`. */
export const formatCount = (count: number | bigint): string => whole.format(count);

/** For a tile of fixed width: all digits below ten million, then `12.35M`. */
export const formatTile = (count: number): string =>
  count < COMPACT_FROM ? whole.format(count) : compact.format(count);

/** Per second: one decimal below 100. Little does not look like nothing. */
export const formatRate = (perSecond: number): string =>
  perSecond > 0 && perSecond < 0.05
    ? "< 0.1"
    : perSecond < 99.95
      ? oneDecimal.format(perSecond)
      : formatTile(Math.round(perSecond));

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** `512 B`, `1.5 KiB`, `24.0 MiB`. */
export function formatBytes(bytes: number): string {
  let unit = 0;
  let amount = bytes;
  // 1,023.96 KiB would be rounded to 1,024.0 KiB: show 1.0 MiB.
  while (amount >= 1023.95 && unit < BYTE_UNITS.length - 1) {
    amount /= 1024;
    unit++;
  }
  return `${unit === 0 ? whole.format(Math.round(amount)) : oneDecimal.format(amount)} ${BYTE_UNITS[unit]}`;
}

/**
 * A time as its two largest units: `45 s`, `4 min 05 s`, `2 h 03 min`, `3 d 04 h`, `12 y`.
 * Rounded up, as a TTL is: something of it is left until the end.
 */
export function formatDuration(ms: number): string {
  const seconds = Math.ceil(Math.max(0, ms) / SECOND_MS);
  if (seconds < 60) return `${seconds} s`;
  if (seconds * SECOND_MS < HOUR_MS)
    return `${Math.trunc(seconds / 60)} min ${padded(seconds % 60)} s`;
  const minutes = Math.trunc(seconds / 60);
  if (minutes * MINUTE_MS < DAY_MS)
    return `${Math.trunc(minutes / 60)} h ${padded(minutes % 60)} min`;
  const hours = Math.trunc(minutes / 60);
  const days = Math.trunc(hours / 24);
  if (days < YEAR_DAYS) return `${days} d ${padded(hours % 24)} h`;
  return `${whole.format(Math.trunc(days / YEAR_DAYS))} y`;
}

const padded = (figure: number): string => String(figure).padStart(2, "0");

/** A point in time: `21 Nov 2026, 21:10:03`, in the reader's time zone. */
export function formatMoment(ms: number): string {
  return Math.abs(ms) <= MOMENT_MS_MAX ? moment.format(ms) : "beyond all calendars";
}

/** `21:10:03`. */
export const formatTime = (ms: number): string => timeOfDay.format(ms);

/** `21:10`. */
export const formatMinute = (ms: number): string => minuteOfDay.format(ms);

/** `1 key`, `2 keys`. */
export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${formatCount(count)} ${count === 1 ? one : many}`;

/** Part of a whole, 0 to 1; 0 of nothing. */
export const shareOf = (part: number, whole: number): number =>
  whole > 0 ? Math.min(1, Math.max(0, part / whole)) : 0;

/** `37 %`; below 1 one decimal, so that little does not look like nothing. */
export function formatShare(share: number): string {
  const percent = share * 100;
  return `${percent > 0 && percent < 1 ? oneDecimal.format(Math.max(0.1, percent)) : whole.format(Math.round(percent))} %`;
}
