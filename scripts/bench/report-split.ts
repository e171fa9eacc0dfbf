/** What a run says of a split. */
import { count, mebibytes } from "./format.ts";
import { list, section, table } from "./markdown.ts";
import type { AgainstFigures, SplitBenchFigures, SplitCell } from "./split.ts";
import type { SplitPhase } from "./split-load.ts";

export function splitText(figures: SplitBenchFigures): string {
  const { counters, bytes, cells, rows, against } = figures;
  return section(
    `A split of a shard with ${mebibytes(bytes)} MiB`,
    list([
      `${count(counters)} counters, of which half go to a new shard while UPDATEs of random ones go on over one TCP connection. ` +
        "No request was refused. Medians of " +
        `${cells[0]!.splits} splits, but for the longest time that any request took in all of them.`,
      "Depth is the number of requests under way. During: from the call that begins the split until the new shard serves " +
        "its range. One thread serves both shards here.",
      `Rows of a split without load: ${count(rows.splitShard)} of the shard that splits and ` +
        `${count(rows.newShard)} of the new one. The next snapshot of the first, a row for each MiB, comes with later commits.`,
    ]),
    table(TITLES, cells.flatMap(fieldsOf)),
    ...(against === null ? [] : [againstText(against)]),
  );
}

const TITLES = ["phase", "depth", "took ms", "ops/s", "x before", "p50 ms", "p99 ms", "longest ms"];

function fieldsOf({ depth, splitMs, before, during, after }: SplitCell): string[][] {
  const fields = (name: string, phase: SplitPhase, tookMs: string): string[] => [
    name,
    count(depth),
    tookMs,
    count(phase.opsPerS),
    (phase.opsPerS / before.opsPerS).toFixed(2),
    phase.p50Ms.toFixed(2),
    phase.p99Ms.toFixed(2),
    phase.longestMs.toFixed(1),
  ];
  return [
    fields("before", before, "-"),
    fields("during", during, splitMs.toFixed(0)),
    fields("after", after, "-"),
  ];
}

function againstText({ commit, isByProcessorTime, cells }: AgainstFigures): string {
  const seconds = isByProcessorTime
    ? "seconds of the runtime's processor time"
    : "seconds of the clock";
  return [
    `UPDATEs of one shard in ${seconds}, beside the sources of ${commit}, in turns; the ratio is the median of ${cells[0]!.ratios.length} pairs:`,
    table(
      ["depth", "UPDATEs/s", "then", "x then", "least", "most"],
      cells.map(({ depth, opsPerS, thenOpsPerS, ratio, ratios }) => [
        count(depth),
        count(opsPerS),
        count(thenOpsPerS),
        ratio.toFixed(2),
        ratios[0]!.toFixed(2),
        ratios.at(-1)!.toFixed(2),
      ]),
    ),
  ].join("\n\n");
}
