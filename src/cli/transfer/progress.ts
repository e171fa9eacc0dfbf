/** A progress bar on standard error, if that is a terminal. */
import { Presets, SingleBar } from "cli-progress";
import type { Host } from "../host.ts";

/** A progress bar, or nothing where it would be in the way. */
export interface Progress {
  /** @param done of the total; records or bytes */
  update(done: number, records: number): void;
  stop(): void;
}

/** For pipes, logs and `--json`. */
const NONE: Progress = { update: () => {}, stop: () => {} };

/**
 * Shows a progress bar; does nothing with `--json` or without a terminal.
 *
 * @param findTotal called only if the bar is shown, because it may cost a request; null for an unknown total
 */
export async function showProgress(
  { stderr }: Host,
  isJson: boolean,
  what: string,
  findTotal: () => Promise<number | null>,
): Promise<Progress> {
  if (isJson || stderr.isTTY !== true) return NONE;
  const total = await findTotal();
  const format =
    total === null
      ? `${what}: {records} records, {duration_formatted}`
      : `${what} {bar} {percentage}% | {records} records | {duration_formatted}`;
  const bar = new SingleBar(
    { format, stream: stderr, hideCursor: true, clearOnComplete: true, etaBuffer: 1 },
    Presets.shades_classic,
  );
  bar.start(total ?? Number.MAX_SAFE_INTEGER, 0, { records: 0 });
  return {
    update: (done, records) => bar.update(total === null ? 0 : Math.min(done, total), { records }),
    stop: () => bar.stop(),
  };
}
