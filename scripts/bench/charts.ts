/** Draws the main figures of a run as SVG, for docs/performance.md. */
import { BarChart, LineChart } from "echarts/charts";
import { GridComponent, LegendComponent, TitleComponent } from "echarts/components";
import { init, use, type EChartsCoreOption } from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import { count } from "./format.ts";
import type { LimitsBill } from "./limits.ts";
import type { Cell } from "./matrix.ts";
import { methodOf } from "./report-limits.ts";

use([BarChart, LineChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

const SIZE = { width: 760, height: 400 };
/** Readable on a white page and on a black one, and told apart by readers who don't see red and green. */
const COLOURS = ["#0072b2", "#8a8a8a", "#d55e00", "#e69f00"];
const TEXT = "#7a7a7a";
const RULE = "#7a7a7a55";

interface Line {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  readonly isDashed: boolean;
}

/** UPDATEs per second over the requests under way. */
export const throughputChart = (cells: readonly Cell[]): string =>
  updateChart(cells, "opsPerS", {
    title: "UPDATEs per second, one connection and one shard",
    unit: "operations per second",
  });

/** Time from a request to its reply over the requests under way. */
export const latencyChart = (cells: readonly Cell[]): string =>
  updateChart(cells, "p50Ms", {
    title: "Time of an UPDATE, p50, one connection and one shard",
    unit: "milliseconds",
  });

/** The servers of the charts. The echo object stores nothing: it is the bound of the platform, so its line is dashed. */
const SERVERS = [
  { name: "Throttr Edge, durable", result: "server", isDashed: false },
  { name: "echo object", result: "echo", isDashed: true },
  { name: "Redis, everysec", result: "redis", isDashed: false },
  { name: "Redis, always", result: "redisAlways", isDashed: false },
] as const;

/** A figure of one connection's UPDATEs on one shard, for each server. */
function updateChart(
  cells: readonly Cell[],
  figure: "opsPerS" | "p50Ms",
  { title, unit }: { readonly title: string; readonly unit: string },
): string {
  const updates = cells.filter(
    ({ operation, connections, shards }) =>
      operation === "UPDATE" && connections === 1 && shards === 1,
  );
  const lines = SERVERS.map(({ name, result, isDashed }): Line => {
    const points = updates.flatMap((cell) => {
      const value = cell[result]?.[figure];
      return value === undefined ? [] : [[cell.depth, value] as const];
    });
    return { name, points, isDashed };
  });
  return lineChart(title, unit, lines);
}

/** Dollars per million checks of a limit, for each way to ask. */
export function costChart(bills: readonly LimitsBill[]): string {
  const rows = bills.filter(({ shards }) => shards === null || shards === 1).toReversed();
  return draw({
    ...base("List price of a million checks of a limit, one shard"),
    legend: { show: false },
    grid: { left: 250, right: 70, top: 50, bottom: 40 },
    xAxis: { type: "value", name: "dollars", nameLocation: "middle", nameGap: 26, ...AXIS },
    yAxis: { type: "category", data: rows.map(wayOf), ...AXIS },
    series: [
      {
        type: "bar",
        data: rows.map(({ dollars }) => dollars),
        itemStyle: { color: COLOURS[0] },
        label: {
          show: true,
          position: "right",
          color: TEXT,
          formatter: ({ value }: { value: number }) => `$${value.toFixed(value < 0.01 ? 4 : 2)}`,
        },
      },
    ],
  });
}

function wayOf(bill: LimitsBill): string {
  const { checks, depth } = bill;
  const method = checks === 1 ? methodOf(bill) : `${methodOf(bill)} of ${count(checks)}`;
  return depth === 1 ? `${method}, one call at a time` : `${method}, ${count(depth)} calls at once`;
}

const AXIS = {
  axisLabel: { color: TEXT },
  nameTextStyle: { color: TEXT },
  axisLine: { lineStyle: { color: RULE } },
  splitLine: { lineStyle: { color: RULE } },
};

function lineChart(title: string, unit: string, lines: readonly Line[]): string {
  return draw({
    ...base(title),
    grid: { left: 90, right: 30, top: 90, bottom: 55 },
    xAxis: {
      type: "category",
      boundaryGap: false,
      data: [...new Set(lines.flatMap(({ points }) => points.map(([x]) => x)))].map(count),
      name: "requests under way",
      nameLocation: "middle",
      nameGap: 30,
      ...AXIS,
    },
    yAxis: { type: "log", name: unit, ...AXIS },
    series: lines
      .filter(({ points }) => points.length > 0)
      .map(({ name, points, isDashed }) => ({
        type: "line",
        name,
        data: points.map(([, y]) => y),
        symbolSize: 7,
        lineStyle: { width: 2.5, type: isDashed ? "dashed" : "solid" },
      })),
  });
}

function base(title: string): EChartsCoreOption {
  return {
    animation: false,
    color: COLOURS,
    textStyle: { fontFamily: "system-ui, sans-serif" },
    title: { text: title, left: 10, top: 5, textStyle: { fontSize: 15, color: TEXT } },
    legend: { top: 34, left: 10, itemGap: 28, textStyle: { color: TEXT } },
  };
}

function draw(option: EChartsCoreOption): string {
  const chart = init(null, null, { renderer: "svg", ssr: true, ...SIZE });
  chart.setOption(option);
  const svg = chart.renderToSVGString();
  chart.dispose();
  return `${svg}\n`;
}
