/**
 * `bench`: puts a load on a server and measures its rate and latencies as callers see them.
 *
 * It measures a server that already runs, over the network between here and there. `npm run bench` of a checkout is
 * the other one: it starts servers and compares them.
 */
import { randomBytes } from "node:crypto";
import { SingleBar } from "cli-progress";
import { Option, type Command } from "commander";
import { LOAD_TYPES, type LoadType } from "../bench/frames.ts";
import {
  runLoad,
  type LoadOptions,
  type LoadResult,
  type Measurement,
  type OnProgress,
} from "../bench/load.ts";
import { socketTransportOf } from "../connection.ts";
import { shownDuration } from "../duration.ts";
import { ExitCode } from "../exit-code.ts";
import { action, type Invocation } from "../invocation.ts";
import { addConnectionOptions, timerArgument, wholeArgument } from "../options.ts";
import type { Output } from "../output.ts";
import { listOf } from "../table.ts";

interface BenchOptions {
  readonly type: LoadType;
  readonly connections: number;
  readonly depth: number;
  /** Ends the load after this many, instead of after a time. */
  readonly requests?: number;
  /** In milliseconds, as `warmUp`. */
  readonly duration?: number;
  readonly warmUp?: number;
  /** Records, limits, semaphores or channels in use. */
  readonly keys?: number;
  readonly valueBytes: number;
}

/** Long enough for a steady rate, in milliseconds. */
const DURATION_MS = 5000;
/** Objects start and connections open their TCP window meanwhile. */
const WARM_UP_MS = 500;
/** TTL of the records that a load creates: so they are gone soon even if the load was cut off. */
const TTL_MS = 300_000;
/** Stays below the usual limit of open files, 1024. */
const CONNECTIONS_MAX = 1000;
/** Bounds what one connection holds in memory. */
const DEPTH_MAX = 16_384;
/** Default number of keys: enough to use all shards. */
const KEYS = 1000;
/** Default number of semaphores and channels, which stay longer than a record: a semaphore lives until it is idle. */
const KEYS_OF_LASTING = 16;
/** Types whose names outlive the load. */
const LASTING: readonly LoadType[] = ["acquire", "publish"];
/** Bounds the requests that are made before the load begins. */
const KEYS_MAX = 1_000_000;
/** Larger values would measure the network rather than the server. */
const VALUE_BYTES_MAX = 65_536;
/** The format of the bar, with the fields of `cli-progress`. */
const BAR = "[{bar}] {percentage}%  {requests} requests";

export function addBench(program: Command): void {
  const command = program
    .command("bench")
    .description("put a load on the server over WebSockets and measure rate and latency")
    .addOption(
      new Option(
        "--type <request>",
        "request to send; acquire takes a lease and renews it, publish has one subscriber per channel",
      )
        .choices([...LOAD_TYPES])
        .default("update"),
    )
    .option("--connections <n>", "WebSockets", wholeArgument(1, CONNECTIONS_MAX), 4)
    .option("--depth <n>", "requests under way on each connection", wholeArgument(1, DEPTH_MAX), 64)
    .option(
      "--requests <n>",
      "stop after this many requests; all of them are measured",
      wholeArgument(1),
    )
    .addOption(
      new Option("--duration <duration>", "stop after this long (default: 5s)")
        .argParser(timerArgument())
        .conflicts("requests"),
    )
    .addOption(
      new Option("--warm-up <duration>", "time at the start that is not measured (default: 500ms)")
        .argParser(timerArgument(0))
        .conflicts("requests"),
    )
    .option(
      "--keys <n>",
      `number of records, limits, semaphores or channels used in turn, except with insert (default: ${KEYS}; ${KEYS_OF_LASTING} with ${LASTING.join(" and ")})`,
      wholeArgument(1, KEYS_MAX),
    )
    .option(
      "--value-bytes <n>",
      "length of values (set, get) and of messages (publish)",
      wholeArgument(0, VALUE_BYTES_MAX),
      64,
    )
    .action(
      action<BenchOptions, []>(async (invocation, options) => {
        const { output, settings, signal } = invocation;
        const load = loadOf(options, settings.timeoutMs);
        output.note(output.faint(`${settings.url}: ${loadText(options)}`));
        // On standard error, so that the measurement can be piped.
        const progress = progressOf(invocation);
        let result: LoadResult;
        try {
          const transport = socketTransportOf(settings);
          result = await runLoad(transport, load, progress.update, signal);
        } finally {
          progress.stop();
        }
        const { measurement, notRemoved } = result;
        if (notRemoved !== null) {
          output.note(`the records of the load stay until they expire: ${notRemoved.message}`);
        }
        const { type, connections, depth } = options;
        await output.print({ type, connections, depth, ...measurement }, () =>
          measurementText(output, measurement),
        );
        return signal.aborted ? ExitCode.interrupted : ExitCode.done;
      }),
    );
  addConnectionOptions(command);
}

/** The load that flags ask for. Its prefix is random: two loads at once never share a key. */
function loadOf(options: BenchOptions, timeoutMs: number): LoadOptions {
  const { requests, duration = DURATION_MS, warmUp = WARM_UP_MS } = options;
  return {
    ...options,
    keys: options.keys ?? (LASTING.includes(options.type) ? KEYS_OF_LASTING : KEYS),
    prefix: `bench:${randomBytes(4).toString("hex")}:`,
    ttlMs: TTL_MS + (requests === undefined ? duration + warmUp : 0),
    end: requests === undefined ? { durationMs: duration } : { requests },
    warmUpMs: requests === undefined ? warmUp : 0,
    timeoutMs,
  };
}

/** One line about the load, printed before it begins. */
function loadText({ type, connections, depth, requests, duration }: BenchOptions): string {
  const end =
    requests === undefined ? shownDuration(duration ?? DURATION_MS) : `${requests} requests`;
  return `${type}, ${connections} connections, ${depth} under way on each, ${end}`;
}

/** A progress bar on standard error, if that is a terminal. */
function progressOf({ host, output }: Invocation): {
  readonly update: OnProgress;
  readonly stop: () => void;
} {
  if (output.isJson || host.stderr.isTTY !== true) return { update: () => {}, stop: () => {} };
  const stream = host.stderr as NodeJS.WritableStream;
  const bar = new SingleBar({ format: BAR, stream, hideCursor: true, clearOnComplete: true });
  bar.start(1, 0, { requests: 0 });
  return {
    update: (share, requests) => bar.update(share, { requests }),
    stop: () => bar.stop(),
  };
}

/** The measurement for people. Percentiles show what the mean hides. */
function measurementText(output: Output, measurement: Measurement): string {
  const { requests, refused, durationMs, latencyMs, bytesSent, bytesReceived } = measurement;
  const refusedText = refused === 0 ? "" : `, ${output.bad(`${refused} refused`)}`;
  const latency = (name: keyof Measurement["latencyMs"]): string =>
    `${latencyMs[name].toFixed(3)} ms`;
  return listOf(output, [
    ["requests", `${requests} in ${shownDuration(durationMs)}${refusedText}`],
    ["rate", output.strong(`${measurement.requestsPerSecond} a second`)],
    ["latency mean", latency("mean")],
    ["p50", latency("p50")],
    ["p90", latency("p90")],
    ["p99", latency("p99")],
    ["p99.9", latency("p999")],
    ["min, max", `${latency("min")}, ${latency("max")}`],
    ["sent", `${bytesSent} B`],
    ["received", `${bytesReceived} B`],
  ]);
}
