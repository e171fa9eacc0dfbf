/** Views of figures that are shown again and again, until Ctrl-C or a number of them: `monitor`, `limits`, `top`. */
import { setTimeout as sleep } from "node:timers/promises";
import { Option, type Command } from "commander";
import { ExitCode } from "./exit-code.ts";
import type { Invocation } from "./invocation.ts";
import { timerArgument, wholeArgument } from "./options.ts";
import { Screen } from "./screen.ts";

export interface WatchOptions {
  /** In milliseconds. */
  readonly interval: number;
  /** Views until the end; without it until Ctrl-C. */
  readonly count?: number;
}

/** Between two views, in milliseconds. */
const INTERVAL_MS = 2000;
/** Each view asks all shards. */
const INTERVAL_MS_MIN = 100;

/** Adds `--interval` and `--count`. */
export function addWatchOptions(command: Command): Command {
  return command
    .addOption(
      new Option("--interval <duration>", "time between two views")
        .argParser(timerArgument(INTERVAL_MS_MIN))
        .default(INTERVAL_MS, "2s"),
    )
    .option("--count <n>", "stop after this many views", wholeArgument(1));
}

/**
 * Shows views until the signal, or until `count` of them. The time of the calls is part of the interval.
 *
 * @param show asks for figures and shows them
 */
export async function watch(
  { host, output, signal }: Invocation,
  { interval, count = Infinity }: WatchOptions,
  show: (screen: Screen) => Promise<void>,
): Promise<ExitCode> {
  using screen = new Screen(host, output);
  for (let view = 1; !signal.aborted; view++) {
    const startMs = performance.now();
    await show(screen);
    if (view >= count) break;
    const restMs = Math.max(0, interval - (performance.now() - startMs));
    // An interruption ends the sleep; the loop ends by itself then.
    await sleep(restMs, undefined, { signal }).catch(() => {});
  }
  return signal.aborted ? ExitCode.interrupted : ExitCode.done;
}
