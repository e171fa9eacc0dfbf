/** docs/performance.md: what a run has printed, its charts, and the command that makes both. */
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { format, resolveConfig } from "prettier";
import { costChart, latencyChart, throughputChart } from "./charts.ts";
import type { LimitsFigures } from "./limits.ts";
import { section } from "./markdown.ts";
import type { Cell } from "./matrix.ts";

export interface Run {
  /** The command without `--write`. */
  readonly command: string;
  readonly header: string;
  readonly sections: readonly string[];
  readonly cells: readonly Cell[];
  readonly limits: LimitsFigures | null;
}

const CHARTS_FOLDER = "images/performance";

interface Chart {
  readonly file: string;
  readonly alt: string;
  readonly svg: string;
}

/** Writes the document, and its charts into `images/performance` beside it. */
export async function writeDocument(path: string, run: Run): Promise<void> {
  const charts = chartsOf(run);
  const folder = join(dirname(path), CHARTS_FOLDER);
  mkdirSync(folder, { recursive: true });
  for (const { file, svg } of charts) writeFileSync(join(folder, file), svg);
  const images = charts.map(
    ({ file, alt }) => `![${alt}](${relative(dirname(path), join(folder, file))})`,
  );
  const text = [INTRODUCTION, run.header, commandText(run.command), ...images, ...run.sections];
  const options = { ...(await resolveConfig(path)), filepath: basename(path) };
  writeFileSync(path, await format(`${text.join("\n\n")}\n`, options));
}

const INTRODUCTION = `# Performance

How fast the server is on one machine, beside a bare Durable Object and Redis on the same machine at the same time. The
local runtime, workerd, is the one that Cloudflare runs; its network, its disks and its processors are others. So read
the ratios, not the rates: a rate says what this machine does, a ratio to the echo object says what the server adds to the
platform. Each write of Throttr Edge is durable before its reply leaves, unless a row says \`relaxed\`.`;

function commandText(command: string): string {
  return section(
    "Run it yourself",
    `\`\`\`sh\n${command}\n\`\`\``,
    "With `--write docs/performance.md` the command writes this page and its charts. `--help` lists all flags.",
  );
}

function chartsOf({ cells, limits }: Run): Chart[] {
  const charts: Chart[] = [];
  if (cells.length > 0) {
    charts.push(
      {
        file: "throughput.svg",
        alt: "UPDATEs per second over requests under way, beside an echo object and Redis",
        svg: throughputChart(cells),
      },
      {
        file: "latency.svg",
        alt: "Time of an UPDATE over requests under way, beside an echo object and Redis",
        svg: latencyChart(cells),
      },
    );
  }
  if (limits !== null) {
    charts.push({
      file: "cost.svg",
      alt: "List price of a million checks of a limit, for each way to ask",
      svg: costChart(limits.bills),
    });
  }
  return charts;
}
